"""Who is let in by the cluster that the engine "dask" starts: nobody but its own processes.

Another user of the machine tries every port on which the cluster listens: in the clear, with TLS
but no certificate, with a certificate of their own, and by HTTP. A cluster as Dask starts it by
itself shows that the attempts would succeed. The other user is given by name, which takes the
rights of root; without one, the attempts are made by the same user, in another process.

    python benchmarks/strangers.py --user stranger
    python benchmarks/strangers.py --quick
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import getpass
import multiprocessing
import os
import pwd
import ssl
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
from distributed import LocalCluster
from distributed.comm import connect
from distributed.security import Security

from twoaxis.files import write_whole

# Seconds within which whoever lets us in answers.
PATIENCE = 5.0
PAGES = ("health", "info/main/workers.html")


# ------------------------------------------------------------------ what the stranger does


def attempts(port: int) -> dict[str, str]:
    """Return what came of each way to talk to a port."""
    nothing = ssl.create_default_context()
    nothing.check_hostname, nothing.verify_mode = False, ssl.CERT_NONE
    own = Security.temporary().get_connection_args("client")["ssl_context"]
    ways: dict[str, Any] = {
        "in the clear": ("tcp", {}),
        "TLS, no certificate": ("tls", {"ssl_context": nothing}),
        "TLS, own certificate": ("tls", {"ssl_context": own}),
    }
    found = {}
    for name, (scheme, options) in ways.items():
        try:
            talk = _identity(f"{scheme}://127.0.0.1:{port}", options)
            who = asyncio.run(asyncio.wait_for(talk, 2 * PATIENCE))
            found[name] = f"answered by a {who}"
        except Exception:  # however it was refused
            found[name] = "refused"
    served = [page for page in PAGES if _served(port, page)]
    return found | {"HTTP": f"served {', '.join(served)}" if served else "nothing served"}


async def _identity(address: str, options: dict[str, Any]) -> str:
    comm = await connect(address, timeout=PATIENCE, **options)
    try:
        await comm.write({"op": "identity", "reply": True})
        return str((await comm.read())["type"])
    finally:
        comm.abort()


def _served(port: int, page: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=PATIENCE) as answer:
            return bool(answer.status == 200)
    except Exception:  # 404, or no HTTP at all
        return False


# ------------------------------------------------------------------ what is tried


@contextmanager
def as_dask_does() -> Iterator[None]:
    """A cluster without options, but for a port of the dashboard that is free."""
    with LocalCluster(n_workers=1, processes=True, dashboard_address="127.0.0.1:0"):
        yield


@contextmanager
def as_the_engine_does() -> Iterator[None]:
    """The cluster of the engine "dask"."""
    from twoaxis.runs.engines.dask import own_cluster, temporary_security

    with own_cluster(1, False, 120.0, temporary_security()):
        yield


def ports() -> list[int]:
    """Return where this process and its children listen."""
    here = psutil.Process()
    return sorted(
        connection.laddr.port
        for process in [here, *here.children(recursive=True)]
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    )


@contextmanager
def stranger(user: str | None) -> Iterator[Callable[[list[int]], dict[int, dict[str, str]]]]:
    """Yield a function that lets somebody else try ports, and returns what came of it."""
    ours, theirs = multiprocessing.Pipe()
    # A copy of this process, which has imported all it needs: the user may not read our files.
    process = multiprocessing.get_context("fork").Process(target=_try, args=(theirs, user))
    process.start()

    def tried(ports: list[int]) -> dict[int, dict[str, str]]:
        ours.send(ports)
        found: dict[int, dict[str, str]] = ours.recv()
        return found

    try:
        yield tried
    finally:
        ours.send([])
        process.join()


def _try(orders: Connection, user: str | None) -> None:
    attempts(9)  # nobody listens; whatever is imported late is imported now
    if user is not None:
        entry = pwd.getpwnam(user)
        os.setgroups([])
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
        with contextlib.suppress(PermissionError):
            os.setuid(0)
            raise SystemExit("the rights of root were not dropped")
    while ports := orders.recv():
        orders.send({port: attempts(port) for port in ports})


def report(found: dict[str, dict[int, dict[str, str]]], user: str | None) -> str:
    """Return the text for people."""
    command = " ".join(["python", "benchmarks/strangers.py", *sys.argv[1:]])
    who = f"the user {user}" if user else "another process of the same user"
    lines = [
        f"$ {command}",
        f"Dask {version('distributed')}; {who} tries what {getpass.getuser()} started",
    ]
    for title, places in found.items():
        lines += ["", f"{title}: {len(places)} ports"]
        for place, ways in enumerate(places.values(), 1):
            lines += [f"  port {place}: {way}: {outcome}" for way, outcome in ways.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the same; it takes seconds")
    parser.add_argument("--user", help="who tries")
    parser.add_argument("--out", type=Path, help="file for the outcome")
    options = parser.parse_args()
    found = {}
    clusters = {"As Dask does by itself": as_dask_does, "As the engine does": as_the_engine_does}
    with stranger(options.user) as tried:
        for title, cluster in clusters.items():
            with cluster():
                found[title] = tried(ports())
    text = report(found, options.user)
    print(text)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(options.out, lambda path: path.write_text(text))
    let_in = {outcome for ways in found["As the engine does"].values() for outcome in ways.values()}
    if let_in - {"refused", "nothing served"}:
        sys.exit("somebody was let in")


if __name__ == "__main__":
    main()

"""Sweeps that are disturbed on purpose, and whether anybody can tell afterwards.

A sweep runs in a process of its own and is disturbed at random moments until it is done: its
client, its workers or its scheduler are killed with SIGKILL, a second client fills the same
store, stored files are damaged. After each sweep the store must be the one of a sweep that
nobody disturbed: every run once, all checksums right, the same bits, the same table, and nothing
left over that a later sweep does not remove.

    python benchmarks/faults.py            # 50 killed clients and some of everything else
    python benchmarks/faults.py --quick    # a few of each
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil

import twoaxis as ta
from twoaxis.files import write_whole
from twoaxis.observations import Dataset
from twoaxis.runs.checks import check_run
from twoaxis.runs.contents import look_through
from twoaxis.training.storage import ARRAYS, MANIFEST

RUNS, STEPS = 6, 100
PATIENCE = 180.0
READY = "ready"
# How often each fault is done: in full, and for a check.
FULL = {"client": 50, "local": 4, "dask": 3, "scheduler": 2, "two": 4, "files": 12}
QUICK = {"client": 3, "local": 1, "dask": 1, "scheduler": 1, "two": 1, "files": 3}


def sweep(store: str | Path, engine: str, scheduler: str | None = None) -> Any:
    """Train tiny networks on made-up observations."""
    generator = np.random.default_rng(5)
    data = Dataset(
        problem="burgers",
        sites=np.arange(20),
        coordinates=generator.uniform([-1, 0], [1, 1], (20, 2)),
        values=generator.normal(0.3, 0.5, 20),
        noise_scale=0.1,
        provenance="made up",
        label="made-up",
    )
    return ta.sweep(
        "burgers",
        store=store,
        datasets=data,
        seeds=range(RUNS),
        steps=STEPS,
        network=ta.Network(6, 2),
        residual_points=40,
        engine=engine,
        scheduler=scheduler,
        workers=2 if scheduler is None else None,
        progress=False,
    )


def client(store: str, engine: str, scheduler: str | None) -> None:
    """Do what the child processes do."""
    # A checkpoint after every chunk of steps: there is more to break.
    importlib.import_module("twoaxis.training.train").CHECKPOINT_SECONDS = 0.0  # type: ignore[attr-defined]
    print(READY, flush=True)
    found = sweep(store, engine, scheduler)
    print(int(found.work["attempts"].max()), flush=True)
    sys.exit(len(found.failures) > 0)


class Child:
    """A client in a process of its own, which has just begun to work."""

    def __init__(self, store: Path, engine: str, scheduler: str | None = None) -> None:
        command = [sys.executable, __file__, "--client", str(store), engine]
        self.process = subprocess.Popen(
            [*command, *([scheduler] if scheduler else [])], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout
        if self.output.readline().strip() != READY:
            raise SystemExit("a client did not start")
        self.began = time.monotonic()

    def workers(self) -> list[psutil.Process]:
        """Return the worker processes of this client that are alive."""
        with contextlib.suppress(psutil.Error):
            return [
                child
                for child in psutil.Process(self.process.pid).children(recursive=True)
                if "spawn_main" in " ".join(child.cmdline())
            ]
        return []

    def kill(self) -> bool:
        """Kill it, unless it was done already."""
        alive = self.process.poll() is None
        self.process.kill()
        self.process.wait()
        self.output.close()
        return alive

    def finish(self) -> tuple[int, float]:
        """Return how often a task was begun at most, and how long all of it took."""
        told = self.output.read()
        code = self.process.wait(PATIENCE)
        self.output.close()
        if code:
            raise SystemExit(f"a client ended with {code}")
        return int(told.split()[-1]), time.monotonic() - self.began


class Faults:
    """Stores, disturbed and checked one after another."""

    def __init__(self, home: Path, seed: int) -> None:
        self.home, self.random = home, np.random.default_rng(seed)
        self.counts: Counter[str] = Counter()
        self.stores = 0
        self.plain = self.new_store()
        Child(self.plain, "in-process").finish()
        self.expected = sweep(self.plain, "in-process")
        # Again, now that everything is compiled: this long a client works.
        self.seconds = Child(self.new_store(), "in-process").finish()[1]

    def new_store(self) -> Path:
        """Return a place where there is no store yet."""
        self.stores += 1
        return self.home / f"store-{self.stores}"

    def pause(self, most: float) -> None:
        """Wait for a random time."""
        time.sleep(float(self.random.uniform(0, most)))

    # -------------------------------------------------------------- what happens

    def kill_clients(self, wanted: int) -> None:
        """Kill clients, and start them again until their sweep is done."""
        while self.counts["killed client"] < wanted:
            store = self.new_store()
            # Every eighth sweep has workers, which must not outlive their client.
            engine = "local" if self.stores % 8 == 4 else "in-process"
            most = self.seconds * (2 if engine == "local" else 1)
            while True:
                child = Child(store, engine)
                self.pause(most)
                left = child.workers()
                if self.counts["killed client"] >= wanted or not child.kill():
                    break
                self.counts["killed client"] += 1
                print(f"killed client {self.counts['killed client']}", flush=True)
                if not soon(lambda left=left: not any(map(is_alive, left))):
                    raise SystemExit("a worker outlived its client")
            if not child.output.closed:
                child.finish()
            self.check(store)

    def kill_workers(self, engine: str, wanted: int) -> None:
        """Kill one worker of each sweep."""
        name = f"killed {engine} worker"
        while self.counts[name] < wanted:
            store = self.new_store()
            child = Child(store, engine)
            if not until(lambda child=child: len(child.workers()) == 2, child.process):
                raise SystemExit("a sweep ended before it had two workers")
            self.pause(3 * self.seconds)
            victims = child.workers()
            if victims and child.process.poll() is None:
                with contextlib.suppress(psutil.NoSuchProcess):
                    victims[self.random.integers(len(victims))].kill()
                    self.counts[name] += 1
            attempts, _ = child.finish()
            if attempts > 2:
                raise SystemExit(f"one death, but a task was begun {attempts} times")
            self.counts["tasks begun again"] += attempts > 1
            self.check(store)

    def restart_schedulers(self, wanted: int) -> None:
        """Kill a scheduler in the middle of a sweep, and start it again in the same place."""
        while self.counts["restarted scheduler"] < wanted:
            store = self.new_store()
            with cluster() as (address, kill):
                child = Child(store, "dask", address)
                done = int(self.random.integers(1, RUNS))
                enough = until(lambda s=store, n=done: stored(s) >= n, child.process)
                if enough:
                    kill()
                    self.counts["restarted scheduler"] += 1
                child.finish()
            self.check(store)

    def two_clients(self, wanted: int) -> None:
        """Let two clients fill one store; every second time the first of them is killed."""
        for number in range(wanted):
            store = self.new_store()
            first, second = (Child(store, "in-process") for _ in range(2))
            if number % 2:
                self.pause(self.seconds)
                self.counts["killed client beside another"] += first.kill()
            else:
                first.finish()
            second.finish()
            self.counts["two clients"] += 1
            self.check(store)

    def damage_files(self, wanted: int) -> None:
        """Damage stored files, and repeat the sweep."""
        kinds = ("truncated", "flipped bit", "replaced", "missing")
        while self.counts["damaged file"] < wanted:
            store = self.new_store()
            shutil.copytree(self.plain, store)
            paths = sorted(store.glob("??/*"))
            several = min(len(kinds), wanted - self.counts["damaged file"])
            chosen = self.random.permutation(len(paths))[:several]
            for kind, number in zip(kinds, chosen, strict=False):
                name = str(self.random.choice([ARRAYS, MANIFEST]))
                other = self.plain / paths[number - 1].relative_to(store) / name
                self.damage(paths[number] / name, kind, other)
                self.counts["damaged file"] += 1
                self.counts[f"damaged file, {kind}"] += 1
            Child(store, "in-process").finish()
            self.check(store, damaged=several)

    def damage(self, path: Path, kind: str, other: Path) -> None:
        """Change one file."""
        before = path.read_bytes()
        place = int(self.random.integers(len(before)))
        if kind == "missing":
            path.unlink()
        elif kind == "truncated":
            path.write_bytes(before[:place])
        elif kind == "replaced":
            path.write_bytes(other.read_bytes())
        else:
            flipped = bytearray(before)
            while says_the_same(before, flipped):
                place = int(self.random.integers(len(before)))
                flipped[place] ^= 1 << int(self.random.integers(8))
            path.write_bytes(flipped)

    # -------------------------------------------------------------- what must be true then

    def check(self, directory: Path, damaged: int = 0) -> None:
        """Stop at the first store that differs from an undisturbed one."""
        store, plain = ta.RunStore(directory), self.expected.store
        assert store.keys() == sorted(self.expected.keys), "a run is missing, or one too many"
        contents = look_through(store)
        states = [check_run(place) for place in contents.places]
        assert [found.state for found in states] == ["sound"] * RUNS, states
        for key in self.expected.keys:
            same = (store.path(key) / ARRAYS).read_bytes() == (
                plain.path(key) / ARRAYS
            ).read_bytes()
            assert same, f"{key} has other bits"
        # What killed processes left half written counts as abandoned after an hour.
        for path in temporaries(directory):
            self.counts["temporaries of killed processes, removed later"] += 1
            os.utime(path, (0, 0), follow_symlinks=False)
        table = sweep(directory, "in-process").table
        pd.testing.assert_frame_equal(table, self.expected.table, check_exact=True)
        assert not temporaries(directory), "something half written was left"
        contents = look_through(store)
        assert not contents.checkpoints, "a checkpoint was left that nobody needs"
        assert not contents.strangers, contents.strangers
        assert len(contents.set_aside) == damaged, "damaged files were not set aside"
        self.counts["sweeps checked"] += 1
        self.counts["runs checked"] += len(states)
        shutil.rmtree(directory)


def stored(store: Path) -> int:
    return len(list(store.glob("??/burgers*/run.json")))


def temporaries(store: Path) -> list[Path]:
    return list(store.rglob(".twoaxis-*"))


def says_the_same(content: bytes, other: bytes) -> bool:
    """Whether two manifests differ in spelling alone, as 1e-3 and 1E-3 do."""
    try:
        return bool(content == other or json.loads(content) == json.loads(other))
    except ValueError:  # one of them is no JSON
        return False


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def soon(condition: Any, patience: float = 20.0) -> bool:
    deadline = time.monotonic() + patience
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(condition())


def until(condition: Any, process: Any) -> bool:
    """Wait for something, and return whether it came before the process ended."""
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None:
        if condition():
            return True
        if time.monotonic() > deadline:
            raise SystemExit("waited for too long")
        time.sleep(0.01)
    return False


@contextlib.contextmanager
def cluster() -> Iterator[tuple[str, Any]]:
    """Yield the address of a scheduler with a worker, and a function that kills the scheduler."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    running: dict[str, subprocess.Popen[bytes]] = {}
    ended = threading.Event()

    def start(name: str) -> None:
        place = ["--host", "127.0.0.1", "--no-dashboard"]
        running[name] = subprocess.Popen(
            [sys.executable, "-m", "dask", name, *commands[name], *place],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def keep_going() -> None:
        # What whoever runs a cluster does. A worker that loses its scheduler ends by itself.
        while not ended.wait(0.1):
            for name, process in list(running.items()):
                if process.poll() is not None:
                    start(name)

    with tempfile.TemporaryDirectory() as scratch:
        commands = {
            "scheduler": ["--port", str(port)],
            "worker": [address, "--nthreads", "1", "--no-nanny", "--local-directory", scratch],
        }
        for name in commands:
            start(name)
        keeper = threading.Thread(target=keep_going, daemon=True)
        keeper.start()
        try:
            yield address, lambda: running["scheduler"].kill()
        finally:
            ended.set()
            keeper.join()
            for process in running.values():
                process.kill()
                process.wait()


def report(counts: Counter[str], seed: int, seconds: float) -> str:
    shown = " ".join(["python", "benchmarks/faults.py", *sys.argv[1:]])
    lines = [f"{shown}", f"seed {seed}, {platform.platform()}, Python {platform.python_version()}"]
    lines += [f"{RUNS} runs a sweep, {STEPS} steps, twoaxis {ta.__version__}", ""]
    lines += [f"{name:50}{count:7,}" for name, count in counts.items()]
    lines += ["", "every run there once, checksums right, bits and table as if undisturbed:"]
    lines += [f"{counts['runs checked']:,} of {counts['runs checked']:,} runs, {seconds:.0f} s"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few of each fault")
    parser.add_argument("--kinds", default=",".join(FULL), help="which faults")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--out", type=Path, help="file for the counts")
    parser.add_argument("--client", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        store, engine, *scheduler = options.client
        client(store, engine, scheduler[0] if scheduler else None)
    began = time.monotonic()
    wanted = Counter(QUICK if options.quick else FULL)
    wanted = Counter({kind: wanted[kind] for kind in options.kinds.split(",")})
    with tempfile.TemporaryDirectory() as home:
        # Every process compiles the same programs: once is enough.
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(home, "programs"))
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "0"
        faults = Faults(Path(home), options.seed)
        print(f"an undisturbed client works for {faults.seconds:.1f} s", flush=True)
        faults.kill_clients(wanted["client"])
        print(f"clients: {dict(faults.counts)}", flush=True)
        for engine in ("local", "dask"):
            faults.kill_workers(engine, wanted[engine])
            print(f"workers: {dict(faults.counts)}", flush=True)
        faults.restart_schedulers(wanted["scheduler"])
        faults.two_clients(wanted["two"])
        faults.damage_files(wanted["files"])
    text = report(faults.counts, options.seed, time.monotonic() - began)
    print("\n" + text)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(options.out, lambda path: path.write_text(text))


if __name__ == "__main__":
    main()

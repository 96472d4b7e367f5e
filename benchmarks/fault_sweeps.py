"""The sweeps that are disturbed: clients in processes of their own, and a cluster to lose."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import twoaxis as ta
from twoaxis.datasets import Dataset

RUNS, STEPS = 6, 100
PATIENCE = 180.0
READY = "ready"
SCRIPT = Path(__file__).with_name("faults.py")


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
    return ta.train(
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


def client(store: str, engine: str, scheduler: str | None = None) -> int:
    """Do what the child processes do, and return how they end."""
    # A checkpoint after every chunk of steps: there is more to break.
    importlib.import_module("twoaxis.runs.task").CHECKPOINT_SECONDS = 0.0
    print(READY, flush=True)
    found = sweep(store, engine, scheduler)
    print(int(found.work["attempts"].max()), flush=True)
    return int(len(found.failures) > 0)


class Child:
    """A client in a process of its own, which has just begun to work."""

    def __init__(self, store: Path, engine: str, scheduler: str | None = None) -> None:
        command = [sys.executable, str(SCRIPT), "--client", str(store), engine]
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
        return workers_of(self.process)

    def kill(self) -> bool:
        """Kill it, unless it was done already."""
        alive = self.process.poll() is None
        self.process.kill()
        self.process.wait()
        self.output.close()
        return alive

    def finish(self, status: int = 0) -> tuple[int, float]:
        """Return how often a task was begun at most, and how long all of it took."""
        try:
            printed, _ = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            for process in [*self.workers(), self.process]:
                process.kill()
            raise SystemExit(f"a client was not done after {PATIENCE:g} s") from None
        if self.process.returncode != status:
            raise SystemExit(f"a client ended with {self.process.returncode}, not with {status}")
        return int(printed.split()[-1]), time.monotonic() - self.began


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Return the worker processes that a process has started and that are alive."""
    with contextlib.suppress(psutil.Error):
        return [
            child
            for child in psutil.Process(process.pid).children(recursive=True)
            # Of Dask and of the engine "local".
            if re.search("spawn_main|worker_program", " ".join(child.cmdline()))
        ]
    return []


def training(store: Path, *options: str) -> subprocess.Popen[str]:
    """Start ``twoaxis train``, in a group of its own and with nothing compiled before."""
    program = (sys.executable, "-m", "twoaxis", "train", "burgers", "--out", str(store))
    small = ("--datasets", "8", "--seeds", "0-1", "--steps", "1000", "--width", "16")
    return subprocess.Popen(
        [*program, *small, *(options or ("--workers", "1"))],
        env={name: value for name, value in os.environ.items() if "JAX_COMPILATION" not in name},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    """Return the processor time of a process so far."""
    with contextlib.suppress(psutil.Error):
        times = psutil.Process(process.pid).cpu_times()
        return float(times.user + times.system)
    return 0.0


@contextlib.contextmanager
def cluster() -> Iterator[tuple[str, Callable[[], None]]]:
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


def is_alive(process: psutil.Process) -> bool:
    """Whether a process runs; one that has ended and was not buried does not."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def soon(condition: Callable[[], bool], patience: float = PATIENCE) -> bool:
    """Wait for something for a while, and return whether it came."""
    deadline = time.monotonic() + patience
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> bool:
    """Wait for something, and return whether it came before the process ended."""
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None:
        if condition():
            return True
        if time.monotonic() > deadline:
            raise SystemExit("waited for too long")
        time.sleep(0.01)
    return False

"""The faults themselves: what is killed, filled or damaged, and when."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import numpy as np
import psutil
from fault_checks import check_store, same_runs, temporaries
from fault_sweeps import (
    PATIENCE,
    RUNS,
    Child,
    cluster,
    cpu_seconds,
    is_alive,
    soon,
    sweep,
    training,
    until,
    workers_of,
)

import twoaxis as ta
from twoaxis.runs.run_file import ARRAYS, MANIFEST

STARTS = "interrupted while workers start"


class Faults:
    """Stores, disturbed and checked one after another.

    Parameters
    ----------
    home : Path
        Directory for the stores.
    seed : int
        Of the random moments.
    """

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

    def check(self, store: Path, damaged: int = 0) -> None:
        """Stop at the first store that differs from an undisturbed one."""
        check_store(store, self.plain, self.expected, self.counts, damaged)

    # -------------------------------------------------------------- processes

    def kill_clients(self, wanted: int) -> None:
        """Kill clients, and start them again until their sweep is done."""
        while self.counts["killed client"] < wanted:
            store = self.new_store()
            # Every second sweep has workers, which must not outlive their client.
            engine = ("in-process", "local", "in-process", "dask")[self.stores % 4]
            most = self.seconds * {"in-process": 1, "local": 2, "dask": 2}[engine]
            # A few times each; on a busy machine no sweep would ever end otherwise.
            for _ in range(int(self.random.integers(1, 6))):
                child = Child(store, engine)
                self.pause(most)
                left = child.workers()
                if not child.kill():
                    break
                self.counts["killed client"] += 1
                if left:
                    self.counts[f"killed client that had {engine} workers"] += 1
                if not soon(lambda left=left: not any(map(is_alive, left))):
                    raise SystemExit("a worker outlived its client")
            Child(store, engine).finish()
            self.check(store)

    def interrupt_trainings(self, wanted: int) -> None:
        """Interrupt ``twoaxis train`` in its first ten seconds, and repeat it until it is done."""
        # Shells start work in the background deaf to interrupts, and so would be what it starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        plain = self.new_store()
        whole = training(plain)
        seconds = cpu_seconds(whole)
        while whole.poll() is None:
            seconds = max(seconds, cpu_seconds(whole))
            time.sleep(0.02)
        whole.communicate()
        # Of the processor: other work on the machine changes nothing.
        self.longest = min(10.0, seconds)
        print(f"an undisturbed training takes {seconds:.1f} s of a processor", flush=True)
        keys = ta.RunStore(plain).keys()
        while self.counts["interrupted training"] < wanted:
            store, done = self.new_store(), False
            while not done:
                done = self._interrupted(store, self.counts["interrupted training"] < wanted)
            same_runs(store, plain, keys)
            self.counts["runs of interrupted trainings checked"] += len(keys)
            shutil.rmtree(store)

    def _interrupted(self, store: Path, really: bool) -> bool:
        """Repeat a training, interrupt it if it is not done before, and return whether it was."""
        process = training(store)
        moment = float(self.random.uniform(0, self.longest)) if really else math.inf
        while process.poll() is None and cpu_seconds(process) < moment:
            time.sleep(0.01)
        if process.poll() is not None:
            process.communicate()
            if process.returncode:
                raise SystemExit(f"a training that nobody interrupted: {process.returncode}")
            return True
        code, told = interrupted(process)
        # Before Python is there to be told of it, the signal itself ends a process; shells show
        # that as 130, too.
        early = code == -signal.SIGINT and "interrupted" not in told
        if code != 130 and not early:
            raise SystemExit(f"interrupted after {moment:.2f} s, it ended with {code}: {told}")
        if code == 130 and "Traceback" in told:
            raise SystemExit(f"interrupted after {moment:.2f} s, it told more: {told}")
        if store.exists() and temporaries(store):
            raise SystemExit(f"interrupted after {moment:.2f} s, it left {temporaries(store)}")
        self.counts["interrupted training"] += 1
        self.counts["interrupted training, exit code 130"] += code == 130
        self.counts["ended by the signal itself, before or after its work"] += early
        self.counts["interrupted training that left a checkpoint"] += any(
            store.glob("checkpoints/checkpoint-*")
        )
        return False

    def interrupt_starts(self, wanted: int) -> None:
        """Interrupt ``twoaxis train`` at the moment when its workers start, of either engine."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        name = STARTS
        while self.counts[name] < wanted:
            store, number = self.new_store(), int(self.random.integers(1, 3))
            engine = ("local", "dask")[self.counts[name] % 2]
            process = training(store, "--engine", engine, "--workers", "2")
            while process.poll() is None and len(workers_of(process)) < number:
                pass  # a moment later is another moment
            time.sleep(float(self.random.choice([0.0, 0.001, 0.003, 0.01])))
            family = psutil.Process(process.pid).children(recursive=True)
            code, told = interrupted(process)
            gone = soon(lambda family=family: not any(map(is_alive, family)), 10)
            if code != 130 or "Traceback" in told or not gone:
                raise SystemExit(f"interrupted while {engine} workers start: {code}: {told}")
            self.counts[name] += 1

    def kill_local_workers(self, wanted: int) -> None:
        """Kill one worker of each sweep, of the engine "local"."""
        self._kill_workers("local", wanted)

    def kill_dask_workers(self, wanted: int) -> None:
        """Kill one worker of each sweep, of the engine "dask"."""
        self._kill_workers("dask", wanted)

    def _kill_workers(self, engine: str, wanted: int) -> None:
        name = f"killed {engine} worker"
        while self.counts[name] < wanted:
            store = self.new_store()
            child = Child(store, engine)
            if not until(lambda child=child: len(child.workers()) == 2, child.process):
                raise SystemExit("a sweep ended before it had two workers")
            # They start now, and are at work a little later: both are good moments. Much later
            # the sweep would be done, and another one would be needed.
            self.pause(self.seconds)
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
                if until(lambda s=store, n=done: _stored(s) >= n, child.process):
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

    # -------------------------------------------------------------- disks and files

    def fill_disks(self, wanted: int) -> None:
        """Let a sweep fill a small disk, and go on once there is space."""
        for _ in range(wanted):
            disk = self.new_store()
            disk.mkdir()
            kilobytes = int(self.random.integers(3, 12)) * 4
            options = ["-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs"]
            if subprocess.run(["mount", *options, disk], stderr=subprocess.DEVNULL).returncode:
                self.counts["full disk, left out: nothing can be mounted here"] += 1
                return
            try:
                Child(disk / "store", "in-process").finish(status=1)
                subprocess.run(["mount", "-o", "remount,size=16m", disk], check=True)
                Child(disk / "store", "in-process").finish()
                self.counts["full disk"] += 1
                self.check(disk / "store")
            finally:
                subprocess.run(["umount", disk], check=True)

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
                self._damage(paths[number] / name, kind, other)
                self.counts["damaged file"] += 1
                self.counts[f"damaged file, {kind}"] += 1
            Child(store, "in-process").finish()
            self.check(store, damaged=several)

    def _damage(self, path: Path, kind: str, other: Path) -> None:
        before = path.read_bytes()
        if kind == "missing":
            path.unlink()
        elif kind == "truncated":
            path.write_bytes(before[: int(self.random.integers(len(before)))])
        elif kind == "replaced":
            path.write_bytes(other.read_bytes())
        else:
            flipped = bytearray(before)
            while _says_the_same(before, flipped):
                place = int(self.random.integers(len(before)))
                flipped[place] ^= 1 << int(self.random.integers(8))
            path.write_bytes(flipped)


def interrupted(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Interrupt a process as a terminal does, and return its exit code and what it told."""
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=PATIENCE)
    return process.returncode, told


def _stored(store: Path) -> int:
    return len(list(store.glob("??/burgers*/run.json")))


def _says_the_same(content: bytes, other: bytes) -> bool:
    """Whether two manifests differ in spelling alone, as 1e-3 and 1E-3 do."""
    try:
        return bool(content == other or json.loads(content) == json.loads(other))
    except ValueError:  # one of them is no JSON
        return False

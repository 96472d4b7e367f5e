"""Sweeps for processes that are to be disturbed: imported by workers, and run as a client.

python faultwork.py STORE ENGINE [SCHEDULER]
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import twoaxis as ta
from twoaxis.observations import Dataset
from twoaxis.problems import get_problem
from twoaxis.runs.engines import InProcess  # noqa: F401  (for the tests)

SEEDS = (0, 1, 2, 3)
TINY = {"network": ta.Network(6, 2), "residual_points": 40, "steps": 100}

# The package has a function of this name.
trainer = importlib.import_module("twoaxis.training.train")


def dataset(number: int = 0, count: int = 20) -> Dataset:
    """Return made-up observations in the domain of Burgers' problem."""
    problem = get_problem("burgers")
    generator = np.random.default_rng([number, 5])
    low, high = np.array(list(problem.domain.values())).T
    return Dataset(
        problem=problem.name,
        sites=np.arange(count),
        coordinates=generator.uniform(low, high, (count, 2)),
        values=generator.normal(0.3, 0.5, count),
        noise_scale=0.1,
        provenance=f"made up, number {number}",
        label=f"tiny{number}",
    )


def sweep(store: Any, **options: Any) -> Any:
    """Train the runs that all these tests train, unless told otherwise."""
    given = {"datasets": dataset(), "seeds": SEEDS, "workers": 2, "progress": False, **TINY}
    return ta.sweep("burgers", store=store, **{**given, **options})


@dataclass(frozen=True)
class Through:
    """An engine whose workers do something else, or something more."""

    engine: Any
    change: Callable[[Any], Any]

    def describe(self) -> str:
        return self.engine.describe()

    def execute(self, tasks: Any, work: Any, report: Any) -> Any:
        return self.engine.execute(tasks, self.change(work), report)


@dataclass(frozen=True)
class Killed:
    """Kill the worker halfway through a task, after a checkpoint, so many times."""

    marks: str
    victim: int
    times: int
    work: Any = None

    def bound(self, work: Any) -> Killed:
        return replace(self, work=work)

    def __call__(self, task: Any) -> str:
        trainer.CHECKPOINT_SECONDS = 0.0
        trainer.save_checkpoint = save = _plain_saver()
        if task.number == self.victim and begun(self.marks, task.number) <= self.times:

            def save_and_die(job: Any, progress: Any, store: Any) -> None:
                save(job, progress, store)
                if progress.step >= job.settings.steps // 2:
                    os.kill(os.getpid(), signal.SIGKILL)

            trainer.save_checkpoint = save_and_die
        return self.work(task)


def _plain_saver() -> Any:
    return importlib.import_module("twoaxis.training.checkpoint").save_checkpoint


@dataclass(frozen=True)
class Raising:
    """Fail in one task; the earlier a task is in the order, the longer it takes."""

    victim: int
    pause: float = 0.0
    work: Any = None

    def bound(self, work: Any) -> Raising:
        return replace(self, work=work)

    def __call__(self, task: Any) -> str:
        time.sleep(self.pause * (len(SEEDS) - task.number))
        if task.number == self.victim:
            raise RuntimeError("the disk of this worker\nis on fire")
        return self.work(task)


@dataclass(frozen=True)
class Fatal:
    """A task that ends its worker whenever it is begun; the others only name themselves."""

    marks: str
    victim: int | None

    def bound(self, work: Any) -> Fatal:  # noqa: ARG002  (nothing is trained)
        return self

    def __call__(self, task: Any) -> str:
        begun(self.marks, task.number)
        if task.number == self.victim:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.5)  # long enough to be there when the other one dies
        return str(task.number)


@dataclass(frozen=True)
class ElsewhereOther:
    """Versions that differ in every process but one."""

    own: int
    versions: tuple[str, ...]

    def __call__(self) -> tuple[str, ...]:
        return self.versions if os.getpid() == self.own else ("twoaxis 0.0.1", *self.versions[1:])


def begun(marks: str, number: int) -> int:
    """Note that a task is begun, and return how often it was by now."""
    for count in range(1, 100):
        try:
            Path(marks, f"{number}.{count}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return count
    raise RuntimeError("begun too often")


if __name__ == "__main__":
    store, engine, *scheduler = sys.argv[1:]
    if "FILE_BYTES" in os.environ:
        most = int(os.environ["FILE_BYTES"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    # A checkpoint after every chunk of steps: a process that is killed leaves one behind.
    trainer.CHECKPOINT_SECONDS = 0.0
    found = sweep(store, engine=engine, scheduler=scheduler[0] if scheduler else None)
    print(f"begun at most {found.work['attempts'].max()} times")
    for _, row in found.failures.iterrows():
        print("failed:", row["key"], row["status"], file=sys.stderr)
    sys.exit(len(found.failures) > 0)

"""Sweeps for processes that are to be disturbed: imported by workers, and run as a client.

python faultwork.py STORE ENGINE [SCHEDULER]
"""

from __future__ import annotations

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
from twoaxis.datasets import Dataset
from twoaxis.problems import get_problem
from twoaxis.runs import checkpoint
from twoaxis.runs import task as task_module

SEEDS = (0, 1, 2, 3)
TINY = {"network": ta.Network(6, 2), "residual_points": 40, "steps": 100}


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
    """Train the runs that all these tests train, if nothing else is asked for."""
    given = {"datasets": dataset(), "seeds": SEEDS, "workers": 2, "progress": False, **TINY}
    return ta.train("burgers", store=store, **{**given, **options})


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

    def __call__(self, task: Any, backend: Any = None, report: Any = None) -> Any:
        task_module.CHECKPOINT_SECONDS = 0.0
        task_module.save_checkpoint = checkpoint.save_checkpoint
        if task.number == self.victim and begun(self.marks, task.number) <= self.times:

            def save_and_die(batch: Any, progress: Any, store: Any) -> None:
                checkpoint.save_checkpoint(batch, progress, store)
                if progress.step >= batch.settings.steps // 2:
                    os.kill(os.getpid(), signal.SIGKILL)

            task_module.save_checkpoint = save_and_die
        return self.work(task, backend, report)


@dataclass(frozen=True)
class Raising:
    """Fail in one task; the earlier a task is in the order, the longer it takes."""

    victim: int
    pause: float = 0.0
    work: Any = None

    def bound(self, work: Any) -> Raising:
        return replace(self, work=work)

    def __call__(self, task: Any, backend: Any = None, report: Any = None) -> Any:
        time.sleep(self.pause * (len(SEEDS) - task.number))
        if task.number == self.victim:
            raise RuntimeError("the disk of this worker\nis on fire")
        return self.work(task, backend, report)


@dataclass(frozen=True)
class Fatal:
    """A task that ends its worker whenever it is begun; the others do nothing."""

    marks: str
    victim: int | None

    def bound(self, work: Any) -> Fatal:  # noqa: ARG002  (nothing is trained)
        return self

    def __call__(self, task: Any, backend: Any = None, report: Any = None) -> Any:  # noqa: ARG002
        begun(self.marks, task.number)
        if task.number == self.victim:
            os.kill(os.getpid(), signal.SIGKILL)
        return ()


@dataclass(frozen=True)
class Stopped:
    """A task that makes its worker stand still when it is first begun; the others do nothing."""

    marks: str
    victim: int

    def __call__(self, task: Any, backend: Any = None, report: Any = None) -> Any:  # noqa: ARG002
        if begun(self.marks, task.number) == 1 and task.number == self.victim:
            os.kill(os.getpid(), signal.SIGSTOP)
        return ()


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
    task_module.CHECKPOINT_SECONDS = 0.0
    try:
        found = sweep(store, engine=engine, scheduler=scheduler[0] if scheduler else None)
    except OSError as error:  # every run failed
        sys.exit(f"failed: all, {error}")
    print(f"begun at most {found.work['attempts'].max()} times")
    for _, row in found.failures.iterrows():
        print("failed:", row["key"], row["status"], file=sys.stderr)
    sys.exit(len(found.failures) > 0)

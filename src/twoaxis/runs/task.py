"""The unit of distributed work: a few runs that one worker trains and stores.

A task carries all that defines its runs. Whoever has time executes it: runs that the store holds
already are not trained again, so a task may be executed twice, anywhere, and nothing is lost or
doubled.
"""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from twoaxis.errors import InputError
from twoaxis.training import RunSpec, Settings, train_specs
from twoaxis.training.backends import Device
from twoaxis.training.settings import run_key
from twoaxis.version import __version__


@dataclass(frozen=True)
class Task:
    """Runs that are trained together.

    Parameters
    ----------
    number : int
        Its place among the tasks of a sweep.
    settings : Settings
    specs : tuple of RunSpec
    snapshots : tuple of int
        After which steps the field is kept.
    """

    number: int
    settings: Settings
    specs: tuple[RunSpec, ...]
    snapshots: tuple[int, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of its runs."""
        return tuple(run_key(self.settings, spec) for spec in self.specs)


@dataclass(frozen=True)
class Training:
    """What a worker does with a task: train it into a store that it shares with the others.

    Parameters
    ----------
    store : str
        Directory, as the workers see it.
    device : {"auto", "cpu", "gpu"}
    versions : tuple of str
        Of whoever asks. A worker with others would give other numbers, and refuses.
    """

    store: str
    device: Device
    versions: tuple[str, ...]

    def __call__(self, task: Task) -> str:
        """Train the task, and return who did it."""
        if versions() != self.versions:
            raise InputError(
                f"a worker with {', '.join(self.versions)}",
                f"one with {', '.join(versions())} on {socket.gethostname()}",
                "install the same versions on every worker",
            )
        train_specs(
            task.settings,
            task.specs,
            snapshots=task.snapshots,
            out=self.store,
            device=self.device,
            workers=0,
            progress=False,
        )
        return f"{socket.gethostname()}:{os.getpid()}"


def versions() -> tuple[str, ...]:
    """Return the versions that decide the numbers: twoaxis, JAX and Python."""
    major, minor, _ = platform.python_version_tuple()
    return f"twoaxis {__version__}", f"jax {version('jax')}", f"python {major}.{minor}"


def cut(
    settings: Settings,
    specs: Sequence[RunSpec],
    size: int,
    snapshots: tuple[int, ...] = (),
) -> list[Task]:
    """Cut runs into tasks of `size`, the last one perhaps smaller."""
    return [
        Task(number, settings, tuple(specs[start : start + size]), snapshots)
        for number, start in enumerate(range(0, len(specs), size))
    ]

"""Where the steps of a batch are computed: on a JAX device of this process, or in a worker process.

The whole interface is *train these runs, from this state, for these steps*. A backend knows
nothing of files, tables, histories or progress. States are plain trees of NumPy arrays that the
caller keeps, so whatever becomes of a backend, no more than one chunk of steps is lost.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import jax

from twoaxis.errors import InputError
from twoaxis.training.backends.device import JaxDevice, Program
from twoaxis.training.backends.worker_process import ATTEMPTS, Programs, WorkerProcess, one_thread
from twoaxis.training.settings import Settings

__all__ = [
    "ATTEMPTS",
    "Backend",
    "Device",
    "JaxDevice",
    "Program",
    "Programs",
    "Session",
    "WorkerProcess",
    "cores",
    "find_device",
    "find_gpu",
    "one_thread",
]

Tree = Any  # a tree of NumPy arrays whose first axis counts the runs
Device = Literal["auto", "cpu", "gpu"]


class Session(Protocol):
    """A batch whose data have been handed over."""

    def advance(self, state: Tree, start: int, steps: int) -> Tree:
        """Return the state of all runs after `steps` more steps; `start` were done before."""
        ...


class Backend(Protocol):
    """Something that can train a batch."""

    def session(self, settings: Settings, data: list[Tree]) -> AbstractContextManager[Session]:
        """Hand over the data of all runs, one tree each; nothing is kept after the session."""
        ...

    def program(self, settings: Settings) -> Program:
        """Return which program trains a batch with these settings."""
        ...


def find_device(device: Device = "auto") -> jax.Device:
    """Return the GPU if there is one and it is not ruled out, else the CPU."""
    found = find_gpu(device) or _first("cpu")
    assert found is not None  # JAX always has a CPU
    return found


def find_gpu(device: Device = "auto") -> jax.Device | None:
    """Return the GPU that training would use, or None; raise if ``"gpu"`` cannot be had."""
    if device not in ("auto", "cpu", "gpu"):
        raise InputError('device "auto", "cpu" or "gpu"', repr(device), "choose one of them")
    gpu = _first("gpu") if device != "cpu" else None
    if device == "gpu" and gpu is None:
        raise InputError(
            "a GPU that JAX can use",
            f"the devices {', '.join(d.platform for d in jax.devices())}",
            'install JAX for your GPU, or pass device="cpu"',
        )
    return gpu


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _first(platform: str) -> jax.Device | None:
    try:
        return jax.devices(platform)[0]
    except RuntimeError:
        return None

"""The whole interface between the engine and whatever computes the steps.

*Train these runs, from this state, for these steps.* A backend knows nothing of files, tables,
histories or progress; a fused kernel can stand behind the same two calls.

Which backend a job gets when nobody chose one.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import jax

from twoaxis.arrays import is_integer
from twoaxis.errors import InputError
from twoaxis.training.backends.in_process import InProcess
from twoaxis.training.backends.workers import Workers
from twoaxis.training.settings import Settings

Tree = Any  # a tree of NumPy arrays whose first axis counts the runs


class Session(Protocol):
    """A batch whose data have been handed over and whose program is ready."""

    def advance(self, state: Tree, start: int, steps: int) -> Tree:
        """Return the state of all runs after `steps` more steps; `start` were done before."""
        ...


class Backend(Protocol):
    """Something that can train a batch."""

    def session(self, settings: Settings, data: list[Tree]) -> AbstractContextManager[Session]:
        """Hand over the data of all runs, one tree each; nothing is kept after the session."""
        ...

    def describe(self) -> str:
        """Return a few words for the terminal."""
        ...


Device = Literal["auto", "cpu", "gpu"]

# Multiply-adds below which starting workers (seconds each) costs more than it saves.
WORTH_WORKERS = 2e12


def choose_backend(
    settings: Settings,
    runs: int,
    device: Device = "auto",
    workers: int | None = None,
    batch: int | None = None,
) -> Backend:
    """Return a GPU where there is one, else workers for several long runs, else this process.

    Parameters
    ----------
    settings : Settings
    runs : int
        How many there are.
    device : {"auto", "cpu", "gpu"}
    workers : int, optional
        Worker processes on a CPU; 0 keeps the training in this process.
    batch : int, optional
        Runs side by side in one program, in this process.
    """
    for name, value, least in (("workers", workers, 0), ("batch", batch, 1)):
        if value is not None and not (is_integer(value) and value >= least):
            raise InputError(
                f"a whole number of at least {least} as {name}", f"{name}={value!r}", "change it"
            )
    gpu = find_gpu(device)
    if gpu is not None:
        return InProcess(gpu, batch)
    if workers is None:
        worth = runs > 1 and batch is None and _work(settings) * runs > WORTH_WORKERS
        workers = min(cores(), runs) if worth else 0
    if workers > 1 and runs > 1:
        return Workers(min(workers, runs))
    cpu = _first("cpu")
    assert cpu is not None  # JAX always has one
    return InProcess(cpu, batch)


def find_gpu(device: Device = "auto") -> jax.Device | None:
    """Return the GPU that a training would run on, or None; say where one is missing."""
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


def _work(settings: Settings) -> float:
    """Return about how many multiply-adds the products of one run take."""
    hidden = settings.network.width**2 * max(settings.network.depth - 1, 1)
    columns = settings.residual_points * len(settings.problem.derivatives)
    return 3.0 * hidden * columns * settings.steps

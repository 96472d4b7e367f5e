"""Where tasks are executed: in this process, in processes of this machine, or on a Dask cluster."""

from __future__ import annotations

import importlib
from typing import Any

from twoaxis.errors import InputError, needs_extra
from twoaxis.runs.engines.engine import Engine, InProcess, Outcome
from twoaxis.runs.engines.local import Local, check_workers
from twoaxis.training.backends import Device, cores, find_gpu
from twoaxis.training.settings import Settings

__all__ = ["ENGINES", "Engine", "InProcess", "Local", "Outcome", "choose_engine", "get_engine"]

ENGINES = ("in-process", "local", "dask")

# Multiply-adds below which starting workers (seconds each) costs more than it saves.
WORTH_WORKERS = 2e12


def get_engine(
    engine: str | Engine | Any,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    device: Device = "auto",
) -> Engine:
    """Return the engine of this name; an engine passes through.

    Parameters
    ----------
    engine : {"in-process", "local", "dask"} or Engine
    workers : int, optional
        Processes on this machine.
    scheduler : str, optional
        Address of a Dask scheduler.
    device : {"auto", "cpu", "gpu"}
        Of this process, or, if it is ``"gpu"``, of the Dask workers that get tasks.
    """
    check_workers(workers)
    if scheduler is not None and engine != "dask":
        raise InputError(
            "a scheduler for the engine dask alone", f"engine={engine!r}", 'pass engine="dask"'
        )
    if engine == "in-process":
        return InProcess(device)
    if engine == "local":
        if device == "gpu":
            raise InputError(
                "a CPU for the engine local",
                'device="gpu"',
                'pass engine="in-process", which trains runs side by side on a GPU',
            )
        return Local(workers)
    if engine == "dask":
        return _dask(scheduler, workers, device == "gpu")
    if not isinstance(engine, str) and callable(getattr(engine, "execute", None)):
        found: Engine = engine
        return found
    raise InputError(f"an engine among {', '.join(ENGINES)}", repr(engine), "choose one of them")


def choose_engine(
    settings: Settings, runs: int, device: Device, workers: int | None, batch: int | None
) -> Engine:
    """Return a GPU if there is one, else processes for several long runs, else this process.

    Parameters
    ----------
    settings : Settings
    runs : int
        How many there are.
    device : {"auto", "cpu", "gpu"}
    workers : int, optional
        Worker processes, on a CPU.
    batch : int, optional
        Runs side by side. Without `workers` it asks for this process.
    """
    check_workers(workers)
    if find_gpu(device) is not None:
        return InProcess(device)
    if workers is None:
        worth = batch is None and _work(settings) * runs > WORTH_WORKERS
        workers = cores() if worth else 1
    count = min(workers, runs)
    return Local(count) if count > 1 else InProcess(device)


def _work(settings: Settings) -> float:
    """Return about how many multiply-adds the products of one run take."""
    hidden = settings.network.width**2 * max(settings.network.depth - 1, 1)
    columns = settings.residual_points * len(settings.problem.derivatives)
    return 3.0 * hidden * columns * settings.steps


def _dask(scheduler: str | None, workers: int | None, gpu: bool) -> Engine:
    with needs_extra("dask", 'engine="dask"'):
        module = importlib.import_module("twoaxis.runs.engines.dask")
    engine: Engine = module.Dask(scheduler, workers, gpu)
    return engine

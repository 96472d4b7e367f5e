"""Where the tasks of a sweep are executed: here, in processes of this machine, or on Dask."""

from __future__ import annotations

import importlib
from typing import Any

from twoaxis.errors import InputError
from twoaxis.runs.engines.engine import ATTEMPTS, Engine, InProcess, Result, Standing
from twoaxis.runs.engines.local import Local

__all__ = [
    "ATTEMPTS",
    "ENGINES",
    "Engine",
    "InProcess",
    "Local",
    "Result",
    "Standing",
    "get_engine",
]

ENGINES = ("in-process", "local", "dask")


def get_engine(
    engine: str | Engine | Any,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    gpu: bool = False,
) -> Engine:
    """Return the engine of this name; an engine passes through.

    Parameters
    ----------
    engine : {"in-process", "local", "dask"} or Engine
    workers : int, optional
        Processes on this machine.
    scheduler : str, optional
        Address of a Dask scheduler.
    gpu : bool
        Whether Dask hands tasks to GPU workers.
    """
    if scheduler is not None and engine != "dask":
        raise InputError(
            "a scheduler for the engine dask alone", f"engine={engine!r}", 'pass engine="dask"'
        )
    if engine == "in-process":
        return InProcess()
    if engine == "local":
        return Local(workers)
    if engine == "dask":
        return _dask(scheduler, workers, gpu)
    if not isinstance(engine, str) and callable(getattr(engine, "execute", None)):
        found: Engine = engine
        return found
    raise InputError(f"an engine among {', '.join(ENGINES)}", repr(engine), "choose one of them")


def _dask(scheduler: str | None, workers: int | None, gpu: bool) -> Engine:
    try:
        module = importlib.import_module("twoaxis.runs.engines.dask")
    except ModuleNotFoundError as error:
        if str(error.name).startswith("twoaxis"):
            raise
        raise InputError(
            "the libraries of the extra 'dask'",
            f"an environment without {error.name}",
            "run pip install 'twoaxis[dask]'",
        ) from error
    engine: Engine = module.Dask(scheduler, workers, gpu)
    return engine

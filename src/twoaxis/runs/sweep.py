"""Many runs, through an engine, into a store: what outgrows one call of `train`.

The runs are cut into tasks. A task whose runs the store holds is not executed. What comes out is
one table in the order that was asked for: whatever failed is a row with its reason, and who did
what, how often, stands in a table beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from twoaxis.errors import InputError
from twoaxis.files import write_whole
from twoaxis.observations import Dataset
from twoaxis.problems import Problem
from twoaxis.runs.engines import Engine, Result, get_engine
from twoaxis.runs.execution import execute, task_size
from twoaxis.runs.task import Task, cut
from twoaxis.training import Runs, RunStore, settings_for, specs_for
from twoaxis.training.backends import Device, find_gpu
from twoaxis.training.checkpoint import job_key
from twoaxis.training.job import Job
from twoaxis.training.methods import Method
from twoaxis.training.run import Run
from twoaxis.training.settings import check_specs, ensure_snapshots, snapshot_steps
from twoaxis.training.store import CHECKPOINTS


@dataclass(frozen=True, eq=False)
class Sweep:
    """What a sweep brought.

    Attributes
    ----------
    store : RunStore
    keys : tuple of str
        Of all runs, in the order that was asked for.
    table : pandas.DataFrame
        A row for each run; the same for every engine.
    work : pandas.DataFrame
        A row for each task: runs, who did it, how often it was begun, why it failed.
    """

    store: RunStore
    keys: tuple[str, ...]
    table: pd.DataFrame
    work: pd.DataFrame
    problem: Problem

    @property
    def runs(self) -> Runs:
        """The runs that are there, read from the store."""
        found = (self.store.found(key, self.problem) for key in self.keys)
        return Runs([run for run in found if run is not None])

    @property
    def failures(self) -> pd.DataFrame:
        """The rows of runs that are not there, with the reason."""
        return self.table[~self.table["stored"]]

    def to_netcdf(self, path: str | Path) -> Path:
        """Write the table as netCDF, which xarray and pandas read anywhere."""
        dataset = xr.Dataset.from_dataframe(self.table.set_index("key"))
        return write_whole(path, lambda target: dataset.to_netcdf(target, engine="h5netcdf"))


def sweep(
    problem: str | Problem,
    *,
    store: str | Path,
    method: str | Method = "rba",
    datasets: int | Dataset | Iterable[int | Dataset] | None = None,
    seeds: int | Iterable[int] = 0,
    start: Mapping[str, float] | None = None,
    fixed: Mapping[str, float] | None = None,
    snapshots: int | Sequence[int] = 0,
    engine: str | Engine = "local",
    workers: int | None = None,
    scheduler: str | None = None,
    batch: int | None = None,
    device: Device = "cpu",
    progress: bool = True,
    **settings: Any,
) -> Sweep:
    """Train many runs into a store, through an engine.

    Parameters
    ----------
    problem, method, datasets, seeds, start, fixed, snapshots
        As for `twoaxis.train`.
    store : path
        Directory for the runs, as every worker sees it. What it holds is not trained again; a
        run that was stored without the snapshots asked for is told before any work, as by
        `twoaxis.train`.
    engine : {"in-process", "local", "dask"} or Engine
        One process, one process a core, or a Dask cluster.
    workers : int, optional
        Processes on this machine.
    scheduler : str, optional
        Address of a Dask scheduler; a cluster on this machine is started without it.
    batch : int, optional
        Runs of one task: one on a CPU, 80 on a GPU without it. The same cut gives the same
        bits on a CPU, whatever the engine.
    device : {"cpu", "gpu"}
        What the workers train on. Dask workers for a GPU announce a resource ``GPU``.
    progress : bool
        Show a progress bar.
    **settings
        Further options of `twoaxis.train`, such as ``steps`` or ``network``.

    Returns
    -------
    Sweep
    """
    common = settings_for(problem, method, **settings)
    specs = specs_for(common.problem, datasets=datasets, seeds=seeds, start=start, fixed=fixed)
    check_specs(common.problem, specs)
    if not specs:
        raise InputError("at least one run", "no dataset or no seed", "give one of each")
    if device not in ("cpu", "gpu"):
        raise InputError('device "cpu" or "gpu"', repr(device), "choose one of them")
    size = task_size(batch, device)
    chosen = get_engine(engine, workers=workers, scheduler=scheduler, gpu=device == "gpu")
    if device == "gpu" and engine != "dask":
        find_gpu("gpu")
    tasks = cut(common, specs, size, snapshot_steps(snapshots, common.steps))
    keys = tuple(key for task in tasks for key in task.keys)
    if len(set(keys)) < len(keys):
        raise InputError(
            "runs that differ", "some dataset and seed twice", "give each of them once"
        )
    home = RunStore(store, create=True)
    home.sweep(list(keys))
    rows = {task.number: _rows(task, home) for task in tasks}
    missing = [task for task in tasks if not all(row["stored"] for row in rows[task.number])]
    results = execute(missing, home, chosen, device, progress)
    for task in missing:
        found = results.get(task.number)
        rows[task.number] = _rows(task, home, "" if found is None else found.failure)
    _remove_checkpoints(tasks, home)
    table = pd.DataFrame([row for task in tasks for row in rows[task.number]])
    return Sweep(home, keys, table, _work(tasks, results), common.problem)


def _remove_checkpoints(tasks: Sequence[Task], store: RunStore) -> None:
    """Remove the checkpoints of tasks that are done.

    A process that was killed after it had stored its runs leaves one that nobody would read.
    """
    left = {path.stem: path for path in (store.directory / CHECKPOINTS).glob("checkpoint-*")}
    for task in tasks if left else ():
        path = left.get(f"checkpoint-{job_key(Job(task.settings, task.specs, task.snapshots))}")
        if path is not None and all(store.holds(key) for key in task.keys):
            path.unlink(missing_ok=True)


def _rows(task: Task, store: RunStore, failure: str = "") -> list[dict[str, Any]]:
    """Return the rows of a task as its runs stand in the store, with the snapshots asked for."""
    rows, problem = [], task.settings.problem
    for key, spec in zip(task.keys, task.specs, strict=True):
        row = {
            "key": key,
            "problem": problem.name,
            "method": task.settings.method.name,
            "dataset": spec.dataset.label,
            "seed": spec.seed,
        }
        run = store.found(key, problem)
        if run is not None:
            ensure_snapshots(run, task.snapshots)
        rows.append(row | _found(run, problem, failure))
    return rows


def _found(run: Run | None, problem: Problem, failure: str) -> dict[str, Any]:
    """Return the columns that only a run can fill."""
    names = list(problem.parameters)
    if run is None:
        nothing = dict.fromkeys([*names, *(f"{n}_error_percent" for n in names)], np.nan)
        return {"stored": False, "steps": 0, **nothing, "status": failure or "not done"}
    errors = {f"{n}_error_percent": run.error_percent.get(n, np.nan) for n in names}
    return {
        "stored": True,
        "steps": run.final.step,
        **run.delivered,
        **errors,
        "status": run.status,
    }


def _work(tasks: Sequence[Task], results: Mapping[int, Result]) -> pd.DataFrame:
    rows = []
    for task in tasks:
        result = results.get(task.number, Result(task.number, "found in the store", 0))
        rows.append(
            {
                "task": task.number,
                "runs": len(task.specs),
                "worker": result.worker,
                "attempts": result.attempts,
                "failure": result.failure,
            }
        )
    return pd.DataFrame(rows)

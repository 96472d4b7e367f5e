"""Many runs: trained through an engine, kept in a store, listed in a table.

`train` makes them, `RunStore` keeps them, `Runs` lists them; listing, verification, pruning and
export are in `twoaxis.runs.maintenance` and `twoaxis.runs.export`. Files in a store may come from
strangers: nothing here follows a link, runs code from a file or trusts what a file says.
"""

from __future__ import annotations

from twoaxis.runs.objective import run_objective
from twoaxis.runs.pipeline import FailedRun, Pipeline
from twoaxis.runs.run import Run, Snapshot
from twoaxis.runs.run_file import DamagedRunError, load_run
from twoaxis.runs.store import RunStore, save_run
from twoaxis.runs.table import Runs, load_runs
from twoaxis.runs.train import train, train_specs

__all__ = [
    "DamagedRunError",
    "FailedRun",
    "Pipeline",
    "Run",
    "RunStore",
    "Runs",
    "Snapshot",
    "load_run",
    "load_runs",
    "run_objective",
    "save_run",
    "train",
    "train_specs",
]

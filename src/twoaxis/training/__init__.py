"""The batched training engine: many independent inverse PINNs at once, in JAX."""

from __future__ import annotations

from twoaxis.training import methods
from twoaxis.training.diagnose import audit_run, resolution_of_run
from twoaxis.training.methods import METHODS, get_method
from twoaxis.training.network import Network
from twoaxis.training.run import Run, Runs, Snapshot
from twoaxis.training.settings import RunSpec, Settings
from twoaxis.training.storage import DamagedRunError, load_run
from twoaxis.training.store import RunStore, load_runs, save_run
from twoaxis.training.train import settings_for, specs_for, train, train_specs

__all__ = [
    "METHODS",
    "DamagedRunError",
    "Network",
    "Run",
    "RunSpec",
    "RunStore",
    "Runs",
    "Settings",
    "Snapshot",
    "audit_run",
    "get_method",
    "load_run",
    "load_runs",
    "methods",
    "resolution_of_run",
    "save_run",
    "settings_for",
    "specs_for",
    "train",
    "train_specs",
]

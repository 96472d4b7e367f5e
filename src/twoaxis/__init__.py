"""Why did my inverse PINN return the wrong parameter? A two-axis diagnosis."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from twoaxis import views
from twoaxis.adapters import from_deepxde, from_jax, from_jinns, from_pina, from_torch
from twoaxis.diagnosis import (
    Audit,
    Comparison,
    Route,
    Tolerance,
    audit,
    compare,
    follow,
    load_audit,
)
from twoaxis.errors import AccuracyWarning, InputError, MisfitWarning
from twoaxis.exported import load_residual
from twoaxis.frozen import FrozenResidual
from twoaxis.geometry import (
    Delivery,
    FrozenScan,
    Score,
    Spectrum,
    delivery,
    frozen_scan,
    score,
    spectrum,
    step_robustness,
)
from twoaxis.observations import Dataset, fresh_dataset, published_dataset
from twoaxis.parameters import Parameter
from twoaxis.report import (
    plot_along_training,
    plot_decision_map,
    plot_delivery,
    plot_evidence,
    plot_profile,
    plot_resolution,
    plot_spectrum,
)
from twoaxis.resolution import (
    Resolution,
    benchmark_draws,
    load_resolution,
    resolution_table,
    resolve,
    resolve_problem,
)
from twoaxis.version import __version__

if TYPE_CHECKING:
    from twoaxis.runs.sweep import sweep
    from twoaxis.studies.reproduce import reproduce
    from twoaxis.training import (
        Network,
        Run,
        Runs,
        RunStore,
        audit_run,
        load_run,
        load_runs,
        methods,
        train,
    )

# Names that need an extra: they are looked up when they are first used, so that the core stays
# light. Where each comes from, and the extra that brings it.
_LAZY = {
    "Network": ("twoaxis.training", "train"),
    "Run": ("twoaxis.training", "train"),
    "RunStore": ("twoaxis.training", "train"),
    "Runs": ("twoaxis.training", "train"),
    "audit_run": ("twoaxis.training", "train"),
    "load_run": ("twoaxis.training", "train"),
    "load_runs": ("twoaxis.training", "train"),
    "methods": ("twoaxis.training", "train"),
    "reproduce": ("twoaxis.studies.reproduce", "train"),
    "sweep": ("twoaxis.runs.sweep", "train"),
    "train": ("twoaxis.training", "train"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'twoaxis' has no attribute {name!r}")
    module, extra = _LAZY[name]
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("twoaxis"):
            raise
        raise InputError(
            f"the libraries of the extra {extra!r} for twoaxis.{name}",
            f"an environment without {error.name}",
            f"run pip install 'twoaxis[{extra}]'",
        ) from error


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "AccuracyWarning",
    "Audit",
    "Comparison",
    "Dataset",
    "Delivery",
    "FrozenResidual",
    "FrozenScan",
    "InputError",
    "MisfitWarning",
    "Network",
    "Parameter",
    "Resolution",
    "Route",
    "Run",
    "RunStore",
    "Runs",
    "Score",
    "Spectrum",
    "Tolerance",
    "__version__",
    "audit",
    "audit_run",
    "benchmark_draws",
    "compare",
    "delivery",
    "follow",
    "fresh_dataset",
    "from_deepxde",
    "from_jax",
    "from_jinns",
    "from_pina",
    "from_torch",
    "frozen_scan",
    "load_audit",
    "load_residual",
    "load_resolution",
    "load_run",
    "load_runs",
    "methods",
    "plot_along_training",
    "plot_decision_map",
    "plot_delivery",
    "plot_evidence",
    "plot_profile",
    "plot_resolution",
    "plot_spectrum",
    "published_dataset",
    "reproduce",
    "resolution_table",
    "resolve",
    "resolve_problem",
    "score",
    "spectrum",
    "step_robustness",
    "sweep",
    "train",
    "views",
]

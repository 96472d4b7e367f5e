"""Why did my inverse PINN return the wrong parameter? A two-axis diagnosis."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from twoaxis import views
from twoaxis.adapters import (
    from_deepxde,
    from_jax,
    from_jinns,
    from_pina,
    from_torch,
    torch_objective,
)
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
from twoaxis.remedies import (
    Calibration,
    ConfidenceSet,
    EvidenceMap,
    Polish,
    SimulatedAudit,
    SuggestedSites,
    Verification,
    calibrate,
    confidence_set,
    evidence_map,
    load_calibration,
    load_confidence_set,
    load_simulated_audit,
    polish,
    rank_views,
    remedy,
    simulated_audit,
    suggest_sites,
    suggest_sites_for_problem,
)
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
    NeededObservations,
    Resolution,
    benchmark_draws,
    load_resolution,
    needed_observations,
    resolution_table,
    resolve,
    resolve_problem,
)
from twoaxis.version import __version__

if TYPE_CHECKING:
    from twoaxis.runs.pipeline import Pipeline
    from twoaxis.runs.remedies import remedy_run
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
    from twoaxis.training.objective import run_objective

# Names that need an extra: they are looked up when they are first used, so that the core stays
# light. Where each comes from, and the extra that brings it.
_LAZY = {
    "Network": ("twoaxis.training", "train"),
    "Pipeline": ("twoaxis.runs.pipeline", "train"),
    "Run": ("twoaxis.training", "train"),
    "RunStore": ("twoaxis.training", "train"),
    "Runs": ("twoaxis.training", "train"),
    "audit_run": ("twoaxis.training", "train"),
    "load_run": ("twoaxis.training", "train"),
    "load_runs": ("twoaxis.training", "train"),
    "methods": ("twoaxis.training", "train"),
    "remedy_run": ("twoaxis.runs.remedies", "train"),
    "reproduce": ("twoaxis.studies.reproduce", "train"),
    "run_objective": ("twoaxis.training.objective", "train"),
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
    "Calibration",
    "Comparison",
    "ConfidenceSet",
    "Dataset",
    "Delivery",
    "EvidenceMap",
    "FrozenResidual",
    "FrozenScan",
    "InputError",
    "MisfitWarning",
    "NeededObservations",
    "Network",
    "Parameter",
    "Pipeline",
    "Polish",
    "Resolution",
    "Route",
    "Run",
    "RunStore",
    "Runs",
    "Score",
    "SimulatedAudit",
    "Spectrum",
    "SuggestedSites",
    "Tolerance",
    "Verification",
    "__version__",
    "audit",
    "audit_run",
    "benchmark_draws",
    "calibrate",
    "compare",
    "confidence_set",
    "delivery",
    "evidence_map",
    "follow",
    "fresh_dataset",
    "from_deepxde",
    "from_jax",
    "from_jinns",
    "from_pina",
    "from_torch",
    "frozen_scan",
    "load_audit",
    "load_calibration",
    "load_confidence_set",
    "load_residual",
    "load_resolution",
    "load_run",
    "load_runs",
    "load_simulated_audit",
    "methods",
    "needed_observations",
    "plot_along_training",
    "plot_decision_map",
    "plot_delivery",
    "plot_evidence",
    "plot_profile",
    "plot_resolution",
    "plot_spectrum",
    "polish",
    "published_dataset",
    "rank_views",
    "remedy",
    "remedy_run",
    "reproduce",
    "resolution_table",
    "resolve",
    "resolve_problem",
    "run_objective",
    "score",
    "simulated_audit",
    "spectrum",
    "step_robustness",
    "suggest_sites",
    "suggest_sites_for_problem",
    "sweep",
    "torch_objective",
    "train",
    "views",
]

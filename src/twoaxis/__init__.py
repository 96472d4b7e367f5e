"""Why did my inverse PINN return the wrong parameter? A two-axis diagnosis."""

from __future__ import annotations

from twoaxis import views
from twoaxis.errors import AccuracyWarning, InputError, MisfitWarning
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
from twoaxis.report import plot_resolution
from twoaxis.resolution import (
    Resolution,
    benchmark_draws,
    load_resolution,
    resolution_table,
    resolve,
    resolve_problem,
)
from twoaxis.version import __version__

__all__ = [
    "AccuracyWarning",
    "Dataset",
    "Delivery",
    "FrozenResidual",
    "FrozenScan",
    "InputError",
    "MisfitWarning",
    "Parameter",
    "Resolution",
    "Score",
    "Spectrum",
    "__version__",
    "benchmark_draws",
    "delivery",
    "fresh_dataset",
    "frozen_scan",
    "load_resolution",
    "plot_resolution",
    "published_dataset",
    "resolution_table",
    "resolve",
    "resolve_problem",
    "score",
    "spectrum",
    "step_robustness",
    "views",
]

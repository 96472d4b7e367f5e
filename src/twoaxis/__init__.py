"""Why did my inverse PINN return the wrong parameter? A two-axis diagnosis."""

from __future__ import annotations

from twoaxis.errors import AccuracyWarning, InputError, MisfitWarning
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

__version__ = "0.1.0"

__all__ = [
    "AccuracyWarning",
    "Dataset",
    "InputError",
    "MisfitWarning",
    "Parameter",
    "Resolution",
    "benchmark_draws",
    "fresh_dataset",
    "load_resolution",
    "plot_resolution",
    "published_dataset",
    "resolution_table",
    "resolve",
    "resolve_problem",
]

"""Axis 1: what can these observations resolve?"""

from __future__ import annotations

from twoaxis.resolution.benchmarks import benchmark_draws, resolve_problem
from twoaxis.resolution.needed import NeededObservations, needed_observations
from twoaxis.resolution.resolve import resolve
from twoaxis.resolution.result import Resolution
from twoaxis.resolution.storage import load_resolution
from twoaxis.resolution.table import resolution_table

__all__ = [
    "NeededObservations",
    "Resolution",
    "benchmark_draws",
    "load_resolution",
    "needed_observations",
    "resolution_table",
    "resolve",
    "resolve_problem",
]

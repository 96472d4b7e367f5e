"""Axis 1: what can these observations resolve?"""

from __future__ import annotations

from twoaxis.resolution.benchmarks import benchmark_draws, resolution_table
from twoaxis.resolution.fisher import NeededObservations, needed_observations
from twoaxis.resolution.resolve import resolve
from twoaxis.resolution.result import Resolution

__all__ = [
    "NeededObservations",
    "Resolution",
    "benchmark_draws",
    "needed_observations",
    "resolution_table",
    "resolve",
]

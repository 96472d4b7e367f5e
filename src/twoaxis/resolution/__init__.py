"""Axis 1: what can these observations resolve?"""

from __future__ import annotations

from twoaxis.resolution.benchmarks import benchmark_draws, resolve_problem
from twoaxis.resolution.resolve import resolve
from twoaxis.resolution.result import Resolution
from twoaxis.resolution.storage import load_resolution
from twoaxis.resolution.table import resolution_table

__all__ = [
    "Resolution",
    "benchmark_draws",
    "load_resolution",
    "resolution_table",
    "resolve",
    "resolve_problem",
]

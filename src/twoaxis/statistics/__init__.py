"""Cluster bootstrap, weighted statistics and correlations."""

from __future__ import annotations

from twoaxis.statistics.bootstrap import Interval, bootstrap_estimates, cluster_bootstrap
from twoaxis.statistics.weighted import (
    pearson,
    pearson_within,
    weighted_mean,
    weighted_pearson,
    weighted_quantile,
)

__all__ = [
    "Interval",
    "bootstrap_estimates",
    "cluster_bootstrap",
    "pearson",
    "pearson_within",
    "weighted_mean",
    "weighted_pearson",
    "weighted_quantile",
]

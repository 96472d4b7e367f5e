"""Cluster bootstrap, weighted statistics, correlations and sums of squares."""

from __future__ import annotations

from twoaxis.statistics.bootstrap import Interval, bootstrap_estimates, cluster_bootstrap
from twoaxis.statistics.squares import KNOWN, squares_above, squares_below, squares_limit
from twoaxis.statistics.weighted import (
    pearson,
    pearson_within,
    weighted_mean,
    weighted_pearson,
    weighted_quantile,
)

__all__ = [
    "KNOWN",
    "Interval",
    "bootstrap_estimates",
    "cluster_bootstrap",
    "pearson",
    "pearson_within",
    "squares_above",
    "squares_below",
    "squares_limit",
    "weighted_mean",
    "weighted_pearson",
    "weighted_quantile",
]

"""Improve observations: where to observe next, and what it will buy."""

from __future__ import annotations

from twoaxis.remedies.observations.benchmarks import suggest_sites_for_problem
from twoaxis.remedies.observations.result import SuggestedSites
from twoaxis.remedies.observations.suggest import suggest_sites
from twoaxis.remedies.observations.verification import Verification

__all__ = [
    "SuggestedSites",
    "Verification",
    "suggest_sites",
    "suggest_sites_for_problem",
]

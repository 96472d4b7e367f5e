"""Improve observations: where to observe next, and what it will buy."""

from __future__ import annotations

from twoaxis.remedies.sites.result import SuggestedSites, Verification
from twoaxis.remedies.sites.suggest import suggest_sites, suggest_sites_for_problem

__all__ = [
    "SuggestedSites",
    "Verification",
    "suggest_sites",
    "suggest_sites_for_problem",
]

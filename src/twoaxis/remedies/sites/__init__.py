"""Improve observations: where to observe next, and how much it reduces the error."""

from __future__ import annotations

from twoaxis.remedies.sites.result import SuggestedSites
from twoaxis.remedies.sites.suggest import suggest_sites

__all__ = ["SuggestedSites", "suggest_sites"]

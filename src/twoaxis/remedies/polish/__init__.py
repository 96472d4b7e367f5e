"""Inspect delivery: how much of the gap between delivered and preferred was optimisation?"""

from __future__ import annotations

from twoaxis.remedies.polish.polish import Objective, polish
from twoaxis.remedies.polish.result import Polish

__all__ = ["Objective", "Polish", "polish"]

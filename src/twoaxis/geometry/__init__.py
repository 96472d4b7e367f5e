"""Axis 2: what does the frozen field prefer?"""

from __future__ import annotations

from twoaxis.geometry.delivery import Delivery, delivery
from twoaxis.geometry.robustness import step_robustness
from twoaxis.geometry.scan import FrozenScan, frozen_scan
from twoaxis.geometry.score import Score, score
from twoaxis.geometry.spectrum import Spectrum, spectrum

__all__ = [
    "Delivery",
    "FrozenScan",
    "Score",
    "Spectrum",
    "delivery",
    "frozen_scan",
    "score",
    "spectrum",
    "step_robustness",
]

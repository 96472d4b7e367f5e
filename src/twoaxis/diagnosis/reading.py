"""Axis 2 under one view: score and scan together, and what keeps them from being read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.frozen import FrozenResidual
from twoaxis.geometry import FrozenScan, Score, frozen_scan, score
from twoaxis.geometry.derivatives import Derivative
from twoaxis.parameters import Center

FloatArray = NDArray[np.float64]

# A parameter belongs to an unseen direction when its share of it is above rounding.
SHARE = 1e-6
# Views are the same when they differ by less than this on a probe, up to a factor.
SAME_VIEW = 1e-9


@dataclass(frozen=True, eq=False)
class Reading:
    """Score and scan of one frozen field under one view, around one centre.

    Attributes
    ----------
    score : Score
    scan : FrozenScan
    """

    score: Score
    scan: FrozenScan

    @property
    def unseen(self) -> set[str]:
        """Parameters that take part in a direction which the residual does not see."""
        blind = self.score.terms.eigenvectors[self.score.terms.null]
        shares = np.abs(blind).max(axis=0, initial=0.0)
        return {n for n, share in zip(self.score.names, shares, strict=True) if share > SHARE}

    def obstacle(self, name: str) -> str:
        """Say why the preference of a parameter is not determined; empty when it is."""
        if name in self.unseen:
            if len(self.score.names) == 1 or self.score.terms.null.all():
                return f"H = 0: the residual does not see {name}"
            return f"H is singular: the residual does not see a direction that holds {name}"
        return self.bound_obstacle

    @property
    def bound_obstacle(self) -> str:
        """Say on which bound the scan's minimum lies; empty when it is interior."""
        minimum = self.scan.minimum
        if minimum is None:
            return "the frozen profile is flat and has no minimum"
        for name, parameter in self.scan.parameters.items():
            low, high = parameter.coordinate_bounds
            at = float(parameter.to_coordinate(minimum[name]))
            room = 1e-9 * (high - low)
            if name not in self.unseen and not low + room < at < high - room:
                side = "lower" if at <= low + room else "upper"
                return f"the minimum of the frozen profile lies on the {side} bound of {name}"
        return ""

    def preference(self, name: str) -> float | None:
        """Delta of a parameter in percent; None where it is not determined."""
        return None if self.obstacle(name) else self.score.delta_percent[name]


def read(
    frozen: FrozenResidual,
    metric: Any,
    center: Center,
    candidates: int,
    derivative: Derivative,
    step: float,
) -> Reading:
    """Score and scan a frozen residual under a bound view."""
    at = center.kind if center.kind != "point" else center.values
    found = score(frozen, view=metric, at=at, derivative=derivative, step=step)
    return Reading(found, frozen_scan(frozen, view=metric, at=at, candidates=candidates))


def same_view(metric: Any, other: Any) -> bool:
    """Whether two bound views are the same up to a positive factor, which moves no minimum.

    Both act on a few random residuals; views that differ anywhere differ there.
    """
    if metric is other:
        return True
    if metric.size != other.size:
        return False
    probe = np.random.default_rng(0).standard_normal((metric.size, 2))
    a, b = metric.apply(probe).ravel(), other.apply(probe).ravel()
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    return bool(np.linalg.norm(a - b) <= SAME_VIEW)

"""The pointwise view: the mean of squares that an ordinary PINN minimizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from twoaxis.arrays import checked_points
from twoaxis.views.view import BoundDiagonal, BoundView, View


@final
@dataclass(frozen=True)
class Pointwise(View):
    r"""Every residual point counts alike.

    .. math:: M = I / N

    Examples
    --------
    >>> bound = Pointwise().bind([0.0, 0.5, 1.0])
    >>> float(bound.quadratic([3.0, 0.0, 0.0], [3.0, 0.0, 0.0]))
    3.0
    """

    def bind(self, points: ArrayLike) -> BoundView:
        """Return the operator on residual vectors at these points, (N, k) or (N,)."""
        size = len(checked_points(points))
        return BoundDiagonal(np.full(size, 1.0 / size), f"pointwise, {size:,} points")

    def describe(self) -> str:
        """Return a few words that name the view in a table or a message."""
        return "pointwise"

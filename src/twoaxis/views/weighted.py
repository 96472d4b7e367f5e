"""The weighted view: a mean of squares with a factor for every point.

Adaptive methods end training with weights on the residual points. Frozen, they are a view
like any other: the diagnosis asks what *that* loss prefers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from twoaxis.arrays import checked_points
from twoaxis.errors import InputError
from twoaxis.views.view import BoundDiagonal, BoundView, View, checked_weights


@final
@dataclass(frozen=True, eq=False)
class Weighted(View):
    r"""Residual points count by weights that multiply the *squared* residual.

    .. math:: M = \mathrm{diag}(w) / N

    Parameters
    ----------
    loss_weights : array_like, shape (N,)
        The factors ``w`` of the loss ``mean(w r^2)``, held fixed: not negative and not all
        zero. A method whose loss is ``mean((w r)^2)``, as residual-based attention (RBA)
        has, passes ``w**2``.

    Examples
    --------
    >>> bound = Weighted(loss_weights=[4.0, 0.0]).bind([0.0, 1.0])
    >>> float(bound.quadratic([1.0, 7.0], [1.0, 7.0]))
    2.0
    """

    loss_weights: ArrayLike

    def __post_init__(self) -> None:
        weights = checked_weights("loss_weights", self.loss_weights).copy()
        weights.flags.writeable = False
        object.__setattr__(self, "loss_weights", weights)

    def __repr__(self) -> str:
        return f"Weighted(loss_weights=<{np.size(self.loss_weights)} points>)"

    def bind(self, points: ArrayLike) -> BoundView:
        """Return the operator on residual vectors at these points, (N, k) or (N,)."""
        weights = checked_weights("loss_weights", self.loss_weights)
        size = len(checked_points(points))
        if weights.size != size:
            raise InputError(
                f"one loss weight for each of the {size} points",
                f"{weights.size} weights",
                "pass the weights and the points in the same order and number",
            )
        return BoundDiagonal(weights / size, f"weighted, {size:,} points")

    def describe(self) -> str:
        """Return a few words that name the view in a table or a message."""
        return "weighted"

"""How much of a displacement is the field's preference, and how much the sample of points?

Two answers. The influence of every single point on the displacement gives its standard error
over samples of points, from one product with the metric. Where the residual can be evaluated
elsewhere, the same field is scored again on fresh, denser points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual

if TYPE_CHECKING:
    from twoaxis.views import BoundView, View

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]


@dataclass(frozen=True)
class PointSample:
    """What the choice of residual points does to the displacement.

    Attributes
    ----------
    standard_error : array, shape (d,)
        Standard error of the displacement over samples of as many points.
    fresh_displacement : array, shape (d,), optional
        The displacement on fresh points, and
    fresh_points : int, optional
        how many there are.
    """

    standard_error: FloatArray
    fresh_displacement: FloatArray | None = None
    fresh_points: int | None = None


def sampling_error(
    residual: FloatArray, jacobian: FloatArray, displacement: FloatArray, H: FloatArray, metric: Any
) -> FloatArray:
    r"""Standard error of the displacement over samples of residual points, shape (d,).

    With :math:`e = r + J D`, what the displacement leaves of the residual, taking point i away
    moves the displacement, to first order, by :math:`H^\dagger g_i` with

    .. math:: g_i = J_i (M e)_i + (M J)_i\,e_i - J_i M_{ii}\,e_i,

    and the squares of these influences add up to the variance over independent points. A view
    that averages over cells divides by the number of points in each, so that only deviations
    from the cell's mean count.
    """
    e = residual + jacobian @ displacement
    applied = metric.apply(np.column_stack([e, jacobian]))
    influence = (
        jacobian * applied[:, :1]
        + applied[:, 1:] * e[:, None]
        - jacobian * (metric.diagonal() * e)[:, None]
    )
    cells = getattr(metric, "cells", None)
    if cells is not None:
        influence = _within(influence, cells)
    moved = influence @ np.linalg.pinv(H, rcond=1e-12, hermitian=True)
    return np.asarray(np.sqrt(np.sum(moved**2, axis=0)))


def _within(values: FloatArray, cells: IndexArray) -> FloatArray:
    """Deviations from the mean of each cell, scaled for the degree of freedom that it takes."""
    counts = np.bincount(cells)
    means = np.column_stack([np.bincount(cells, column) / counts for column in values.T])
    correction = np.sqrt(counts / np.maximum(counts - 1, 1))
    return np.asarray((values - means[cells]) * correction[cells][:, None])


def on_fresh_points(
    sample: PointSample,
    frozen: FrozenResidual,
    view: View | BoundView | None,
    times: int,
    seed: int,
    displacement: Callable[[FrozenResidual, Any], FloatArray],
) -> PointSample:
    """Score the same field on `times` as many uniform points in the same bounding box."""
    if not isinstance(times, (int, np.integer)) or times < 1:
        raise InputError("fresh as a whole number of at least 1", repr(times), "pass fresh=4")
    if isinstance(frozen.points, tuple):
        raise InputError(
            "one set of points for a score on fresh ones",
            f"{len(frozen.points)} sets, one for each equation",
            "score each equation's frozen residual by itself",
        )
    points = frozen.points
    low, high = points.min(axis=0), points.max(axis=0)
    generator = np.random.default_rng(seed)
    fresh = generator.uniform(low, high, (times * len(points), points.shape[1]))
    moved = frozen.moved_to(fresh)
    if view is None or not hasattr(view, "bind"):
        raise InputError(
            "a view that can be bound to other points",
            "one that is bound to its points already" if view is not None else "none",
            "pass the view itself, for instance twoaxis.views.Pointwise()",
        )
    try:
        metric = view.bind(fresh)
    except InputError as error:
        raise InputError(
            "a view that can be bound to other points",
            f"{view.describe()}, which holds values for its own points ({error.got})",
            "leave fresh out, or use a view that needs points alone, such as views.Pointwise()",
        ) from error
    return replace(sample, fresh_displacement=displacement(moved, metric), fresh_points=len(fresh))

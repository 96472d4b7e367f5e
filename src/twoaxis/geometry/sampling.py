"""How much of a displacement is the field's preference, and how much the sample of points?

Two answers. The jackknife leaves out one cell of the domain after the other and sees how much
the displacement moves; whole cells, because neighbouring residuals go together. Where the
residual can be evaluated elsewhere, the same field is scored again on fresh, denser points.
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

# About this many cells in all, whatever the number of dimensions.
CELLS = 64
# Masked copies of the residual held at once: a bound on memory at a million points.
VALUES_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class PointSample:
    """What the choice of residual points does to the displacement.

    Attributes
    ----------
    standard_error : array, shape (d,), optional
        Jackknife over cells; zero where a single cell holds every point.
    cells : int
        Occupied cells.
    fresh_displacement : array, shape (d,), optional
        The displacement on fresh points, and
    fresh_points : int, optional
        how many there are.
    """

    standard_error: FloatArray | None = None
    cells: int = 0
    fresh_displacement: FloatArray | None = None
    fresh_points: int | None = None


def cell_numbers(points: FloatArray, per_axis: int) -> IndexArray:
    """Return the occupied cell of every point, numbered from 0, on min–max normalised axes."""
    low, extent = points.min(axis=0), np.ptp(points, axis=0)
    unit = (points - low) / np.where(extent > 0, extent, 1.0)
    cell = np.minimum((unit * per_axis).astype(np.intp), per_axis - 1)
    return np.unique(cell, axis=0, return_inverse=True)[1].reshape(-1)


def jackknife(
    residual: FloatArray,
    jacobian: FloatArray,
    metric: Any,
    points: Any,
    displacement: Callable[[FloatArray], FloatArray],
) -> PointSample:
    """Leave out one cell after the other: ``sqrt((g - 1) / g sum (D_c - mean)^2)``.

    A cell is left out by setting its residual and its sensitivities to zero, which is what
    restricting the metric to the other points means; `displacement` takes the inner products
    of ``[J, r]``, of shape (d + 1, d + 1).
    """
    cell = _cells_of(points, len(residual))
    count = int(cell.max()) + 1
    columns = np.column_stack([jacobian, residual])
    if count < 2:
        return PointSample(np.zeros(jacobian.shape[1]), count)
    width = columns.shape[1]
    grams = np.empty((count, width, width))
    at_once = max(1, VALUES_AT_ONCE // columns.size)
    for start in range(0, count, at_once):
        block = np.arange(start, min(start + at_once, count))
        kept = columns[:, None, :] * (cell[:, None] != block)[:, :, None]  # (N, b, d + 1)
        applied = metric.apply(kept.reshape(len(columns), -1)).reshape(kept.shape)
        grams[block] = np.einsum("nbi,nbj->bij", kept, applied)
    left_out = np.stack([displacement((g + g.T) / 2) for g in grams])
    spread = np.sum((left_out - left_out.mean(axis=0)) ** 2, axis=0)
    return PointSample(np.sqrt((count - 1) / count * spread), count)


def _cells_of(points: Any, size: int) -> IndexArray:
    """Cells of the residual values; equations on the same points share their cells."""
    if not isinstance(points, tuple):
        return np.tile(_cells(points), size // len(points))
    if len({part.shape[1] for part in points}) == 1:
        return _cells(np.concatenate(points))
    # Points of different kinds, as inside and on an edge, have cells of their own.
    numbers: list[IndexArray] = []
    for part in points:
        start = int(numbers[-1].max()) + 1 if numbers else 0
        numbers.append(_cells(part) + start)
    return np.concatenate(numbers)


def _cells(points: FloatArray) -> IndexArray:
    return cell_numbers(points, max(1, round(CELLS ** (1 / points.shape[1]))))


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

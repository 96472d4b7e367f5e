"""Conditions that a model obeys by construction, whatever its weights are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twoaxis.arrays import FloatArray

#: Places on a line, and how far it goes beyond the box: points may end before its face.
LINE, BEYOND = 65, 0.15
#: A dip to this share of the largest value is looked into; one to the other share is a zero.
DIP, ZERO = 0.2, 1e-7
#: Rows with a singular value below this share of the largest are dependent.
DEPENDENT = 1e-9

#: ``changes(places)``: how outputs and slopes change with the weights, (n, 1 + k, m, R), with R
#: weights or directions of them.
Changes = Callable[[FloatArray], FloatArray]


def has_built_in(changes: Changes, low: FloatArray, high: FloatArray) -> bool:
    """Whether outputs obey a linear condition for all weights.

    On lines through the box: an output or a slope along the line that does not change with the
    weights somewhere, or an output that changes alike at both ends. At points: outputs and slopes
    that are linearly dependent.

    Parameters
    ----------
    changes : callable
        At weights a little off the trained ones: what holds there holds for all.
    low, high : array, shape (k,)
        The box.
    """
    generator = np.random.default_rng(0)
    for axis in range(len(low)):
        for _ in range(2):
            through = low + generator.uniform(0.3, 0.7, len(low)) * (high - low)
            rows = changes(_line(through, axis, low, high))
            if not np.isfinite(rows[LINE // 3 : -LINE // 3]).all() or _dependent(rows[LINE // 2]):
                return True
            if _vanishes(changes, through, axis, low, high):
                return True
    return False


def _line(through: FloatArray, axis: int, low: FloatArray, high: FloatArray) -> FloatArray:
    places = np.tile(through, (LINE, 1))
    more = BEYOND * (high[axis] - low[axis])
    places[:, axis] = np.linspace(low[axis] - more, high[axis] + more, LINE)
    return places


def _dependent(rows: FloatArray) -> bool:
    """Whether rows (1 + k, m, W) of a place are linearly dependent."""
    flat = rows.reshape(-1, rows.shape[-1])
    sizes = np.linalg.norm(flat, axis=1, keepdims=True)
    if not sizes.all() or len(flat) > flat.shape[1]:
        return True
    singular = np.linalg.svd(flat / sizes, compute_uv=False)
    return bool(singular[-1] <= DEPENDENT * singular[0])


def _vanishes(
    changes: Changes, through: FloatArray, axis: int, low: FloatArray, high: FloatArray
) -> bool:
    """Whether changes of outputs or slopes vanish on a line, or those of values a box apart."""
    width = high[axis] - low[axis]
    start = through.copy()
    start[axis] = low[axis] + 0.3 * BEYOND * width

    def sizes(along: FloatArray) -> FloatArray:
        places = np.tile(through, (LINE, 1))
        places[:, axis] = along
        rows = changes(places)[:, [0, 1 + axis]]
        return np.asarray(np.linalg.norm(rows, axis=-1)).reshape(LINE, -1)

    def differences(along: FloatArray) -> FloatArray:
        places = np.tile(start, (LINE, 1))
        places[1:, axis] = along[1:]
        rows = changes(places)[:, 0]
        found = np.linalg.norm(rows - rows[:1], axis=-1)
        found[0] = found[1]  # in its place is the start
        size = np.linalg.norm(rows, axis=-1).max(axis=0)
        return np.asarray(found / np.maximum(size, 1e-300))

    line = _line(through, axis, low, high)[:, axis]
    apart = start[axis] + np.linspace(1 - BEYOND, 1 + BEYOND, LINE) * width
    return _has_zero(sizes, line, None) or _has_zero(differences, apart, 1.0)


def _has_zero(
    sizes: Callable[[FloatArray], FloatArray], along: FloatArray, most: float | None
) -> bool:
    """Whether one of several sizes, (LINE, r), has a zero along a line, found by zooming in."""
    values = np.nan_to_num(sizes(along), nan=np.inf)
    finite = np.where(np.isfinite(values), values, 0.0).max(axis=0)
    scale = finite if most is None else np.full(values.shape[1], most)
    inner = values[1:-1]
    dips = (inner <= values[:-2]) & (inner <= values[2:]) & (inner <= DIP * scale)
    for place, column in zip(*np.nonzero(dips), strict=True):
        low, high = along[place], along[place + 2]
        for _ in range(8):
            near = np.linspace(low, high, LINE)
            found = np.nan_to_num(sizes(near)[:, column], nan=np.inf)
            best = int(np.argmin(found))
            if found[best] <= ZERO * scale[column]:
                return True
            low, high = near[max(best - 1, 0)], near[min(best + 1, LINE - 1)]
    return False

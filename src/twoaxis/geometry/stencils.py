"""Difference formulas on evenly spaced values that stay inside an interval."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Steps that leave an interval by less than this share of a step do so by rounding.
SLACK = 1e-9


def offsets_inside(
    low: float, high: float, center: float, size: float, count: int
) -> tuple[int, ...]:
    """Return `count` successive integers k with ``low <= center + k size <= high``.

    They are as centred as the interval allows, and zero is among them while the interval is at
    least ``2 (count - 1)`` steps wide.

    Examples
    --------
    >>> offsets_inside(0.0, 1.0, 0.5, 0.01, 3), offsets_inside(0.0, 1.0, 0.0, 0.01, 3)
    ((-1, 0, 1), (0, 1, 2))
    """
    lowest = math.ceil((low - center) / size - SLACK)
    highest = math.floor((high - center) / size + SLACK) - (count - 1)
    start = min(max(-(count // 2), lowest), highest)
    return tuple(range(start, start + count))


def difference_weights(offsets: tuple[int, ...], order: int) -> FloatArray:
    r"""Return weights :math:`w_k` with :math:`f^{(order)}(0) \approx \sum_k w_k f(k)`.

    They are exact for polynomials of a degree below the number of offsets, at most five.

    Examples
    --------
    >>> difference_weights((0, 1, 2), 1).tolist()
    [-1.5, 2.0, -0.5]
    """
    powers = np.vander(np.array(offsets, dtype=float), increasing=True).T
    target = np.zeros(len(offsets))
    target[order] = math.factorial(order)
    # With at most five neighboring integers all weights are multiples of 1/12.
    return np.asarray(np.round(12 * np.linalg.solve(powers, target)) / 12)

r"""From rank bounds at candidates to a set of parameters.

Bounds :math:`l(q) \le u(q)` are known at the candidates and linear between them. The set is

.. math:: \{\, q : l(q) \le \hat q \le u(q) \,\},

computed piece by piece between neighbouring candidates, where each inequality cuts off one end. A
pipeline whose answer is not monotone in the truth may leave several intervals. What reaches the
first or the last candidate is open there: nothing beyond was tested.

The rank test, and with it the guarantee, holds at the candidates. Between them the bounds are
interpolated: where they bend over a piece by more than the set is wide, a truth there may be lost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class SetInterval(NamedTuple):
    """One interval of a confidence set.

    Attributes
    ----------
    low, high : float
    open_low, open_high : bool
        Whether it reaches the end of what was tested, so that the set may go on beyond.
    """

    low: float
    high: float
    open_low: bool = False
    open_high: bool = False


def kept_pieces(
    lower: FloatArray, upper: FloatArray, observed: float
) -> tuple[FloatArray, FloatArray]:
    """Return the kept part between neighbouring candidates, as shares from 0 to 1.

    Parameters
    ----------
    lower, upper : array, shape (..., K)
        Rank bounds at ascending candidates, perhaps infinite.
    observed : float

    Returns
    -------
    start, stop : array, shape (..., K - 1)
        NaN where nothing is kept.
    """
    from_below = _nonnegative(observed - lower)
    from_above = _nonnegative(upper - observed)
    start = np.maximum(from_below[0], from_above[0])
    stop = np.minimum(from_below[1], from_above[1])
    nothing = ~(start <= stop)
    return np.where(nothing, np.nan, start), np.where(nothing, np.nan, stop)


def _nonnegative(height: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return between which shares a function, linear between nodes, is not negative.

    Beside an infinite node the whole piece counts: the finite one says nothing there.
    """
    left, right = height[..., :-1], height[..., 1:]
    infinite = np.isinf(left) | np.isinf(right)
    with np.errstate(invalid="ignore", divide="ignore"):
        zero = left / (left - right)
    start = np.where(left >= 0, 0.0, np.where(right >= 0, zero, np.inf))
    stop = np.where(right >= 0, 1.0, np.where(left >= 0, zero, -np.inf))
    return np.where(infinite, 0.0, start), np.where(infinite, 1.0, stop)


def intervals(
    q: FloatArray, lower: FloatArray, upper: FloatArray, observed: float
) -> list[SetInterval]:
    """Return the intervals of the set, in coordinates, lowest first.

    Examples
    --------
    >>> q = np.array([0.0, 1.0, 2.0])
    >>> intervals(q, q - 0.5, q + 0.5, 0.75)
    [SetInterval(low=0.25, high=1.25, open_low=False, open_high=False)]
    """
    start, stop = kept_pieces(lower, upper, observed)
    found: list[SetInterval] = []
    joined = False  # whether the last interval reaches the candidate at hand
    for j, (first, last) in enumerate(zip(start.tolist(), stop.tolist(), strict=True)):
        if np.isnan(first):
            joined = False
            continue
        # A whole piece ends at its candidates, without a rounding.
        low = float(q[j] + first * (q[j + 1] - q[j]))
        high = float(q[j + 1] if last == 1.0 else q[j] + last * (q[j + 1] - q[j]))
        ends = last == 1.0 and j == len(q) - 2
        if joined and first == 0.0:
            found[-1] = found[-1]._replace(high=high, open_high=ends)
        else:
            found.append(SetInterval(low, high, first == 0.0 and j == 0, ends))
        joined = last == 1.0
    return found


def crossings(q: FloatArray, curve: FloatArray, observed: float) -> FloatArray:
    """Return where a curve, linear between candidates, takes the observed value.

    Parameters
    ----------
    q : array, shape (K,)
    curve : array, shape (..., K)
        NaN where it is not known.

    Returns
    -------
    array, shape (..., K)
        Place K - 1 is for the last candidate itself; NaN where there is no crossing.
    """
    height = curve - observed
    left, right = height[..., :-1], height[..., 1:]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = left / (left - right)
        # A piece holds its left end and not its right one, so that no node counts twice.
        crosses = (left == 0) | (left * right < 0)
    inside = np.where(crosses, q[:-1] + np.where(left == 0, 0.0, share) * np.diff(q), np.nan)
    last = np.where(height[..., -1:] == 0, q[-1], np.nan)
    return np.concatenate([inside, np.broadcast_to(last, (*inside.shape[:-1], 1))], axis=-1)

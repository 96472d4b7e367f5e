r"""From rank bounds at candidates to a set of parameters.

Bounds :math:`l(q) \le u(q)` are known at the candidates and linear between them. The set is

.. math:: \{\, q : l(q) \le \hat q \le u(q) \,\},

computed piece by piece between neighbouring candidates, where each inequality cuts off one end. A
pipeline whose answer is not monotone in the truth may leave several intervals. What reaches the
first or the last candidate is open there: nothing beyond was tested.

The rank test, and with it the guarantee, holds at the candidates. Between them the bounds are
interpolated: where they bend over a piece by more than the set is wide, a truth there may be lost.

Which parameters are tried: a grid first, then more where the edges of the set lie.

The delivered value less its bias: the candidate whose median answer it is.

With the median :math:`m(q)` of the simulated answers at each candidate, the corrected estimate
solves :math:`m(q) = \hat q`. It is median-unbiased where :math:`m` rises, and needs no assumption
that the bias is constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.arrays import is_integer
from twoaxis.errors import InputError
from twoaxis.parameters import Parameter
<<<<<<< HEAD
from twoaxis.resolution.design import real_array
=======
from twoaxis.resolution.layouts import real_array
from twoaxis.arrays import is_integer
>>>>>>> main

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


LEAST = 3
# An edge that a round moves by less than this share of the set's width needs no further one.
STILL = 0.1


def candidate_grid(
    parameter: Parameter, candidates: int | ArrayLike, interval: Any = None
) -> FloatArray:
    """Return physical values of the candidates, ascending.

    Parameters
    ----------
    parameter : Parameter
    candidates : int or array
        How many, evenly spaced in the coordinate; or the values themselves.
    interval : tuple of float, optional
        Between which values; by default the bounds of the parameter.
    """
    if is_integer(candidates):
        if candidates < LEAST:
            raise InputError(
                f"at least {LEAST} candidates", f"candidates={candidates}", "pass candidates=17"
            )
        low, high = _checked_interval(parameter, interval)
        first, last = parameter.to_coordinate([low, high])
        spaced = np.linspace(first, last, int(candidates))
        values = np.clip(parameter.to_value(spaced), low, high)
        # The exponential of a logarithm may differ in the last bit: the ends are what was asked.
        values[[0, -1]] = low, high
        return values
    if interval is not None:
        raise InputError(
            "an interval for a number of candidates",
            "an interval beside the candidates themselves",
            "leave one of the two out",
        )
    values = np.unique(real_array(candidates, "candidates"))  # ascending
    low, high = parameter.bounds
    inside = np.isfinite(values).all() and values.min(initial=low) >= low
    if values.size < LEAST or not (inside and values.max() <= high):
        raise InputError(
            f"at least {LEAST} different candidates inside the bounds [{low:g}, {high:g}]",
            f"candidates={np.array2string(values, threshold=8)}",
            "pass a number of candidates, or values inside the bounds",
        )
    return values


def _checked_interval(parameter: Parameter, interval: Any) -> tuple[float, float]:
    if interval is None:
        return parameter.bounds
    try:
        low, high = (parameter._checked_value("interval", end) for end in interval)
    except TypeError:
        low = high = 0.0
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        low = high = 0.0
    if low >= high:
        raise InputError(
            "an interval as two numbers, the lower one first",
            f"interval={interval!r}",
            "write interval=(low, high)",
        )
    return low, high


def refined(q: FloatArray, found: Sequence[SetInterval], middle: FloatArray) -> FloatArray:
    """Return new candidates: the middles of the pieces that hold an edge of the set.

    Parameters
    ----------
    q : array, shape (K,)
        Ascending coordinates of the candidates.
    found : list of SetInterval
        In coordinates. An open end is no edge.
    middle : array
        Where the median crosses the estimate: those pieces are halved, too.

    Returns
    -------
    array
        Coordinates; edges of the set first, so that a budget takes those.
    """
    crossed = np.clip(np.searchsorted(q, middle, side="right") - 1, 0, len(q) - 2)
    chosen = list(dict.fromkeys([*edge_pieces(q, found), *crossed.tolist()]))
    return np.array([0.5 * (q[piece] + q[piece + 1]) for piece in chosen])


def edge_pieces(q: FloatArray, found: Sequence[SetInterval]) -> list[int]:
    """Return which pieces between candidates hold an edge of the set: the lower ends first."""
    lows = [part.low for part in found if not part.open_low]
    highs = [part.high for part in found if not part.open_high]
    # An edge on a candidate belongs to the piece outside it.
    pieces = np.concatenate(
        [np.searchsorted(q, lows, side="left") - 1, np.searchsorted(q, highs, side="right") - 1]
    )
    return [int(piece) for piece in np.clip(pieces, 0, len(q) - 2)]


def settled(before: Sequence[SetInterval], after: Sequence[SetInterval]) -> bool:
    """Return whether no edge moved by more than a share `STILL` of the width of the set.

    >>> settled([SetInterval(0.0, 1.0)], [SetInterval(0.05, 1.0)])
    True
    >>> settled([SetInterval(0.0, 1.0)], [SetInterval(0.2, 1.0)])
    False
    """
    if [part[2:] for part in before] != [part[2:] for part in after]:
        return False
    ends = np.array([part[:2] for part in after]).reshape(-1, 2)
    moved = np.abs(ends - np.array([part[:2] for part in before]).reshape(-1, 2))
    return bool((moved <= STILL * np.diff(ends).sum()).all())


# A crossing on an edge may come out a rounding beside it; a share of the tested range.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Correction:
    """The bias-corrected estimate.

    Attributes
    ----------
    value : float or None
        In physical units; None where there is no single one.
    status : str
        "found", or a sentence.
    crossings : tuple of float
        All candidates whose median answer is the delivered value.
    """

    value: float | None
    status: str
    crossings: tuple[float, ...]


def correct(
    parameter: Parameter,
    q: FloatArray,
    curve: FloatArray,
    observed: float,
    parts: Sequence[SetInterval],
) -> Correction:
    """Solve for the candidate whose median is the observed estimate.

    Parameters
    ----------
    parameter : Parameter
    q, curve : array, shape (K,)
        Candidates and the medians there, in coordinates.
    observed : float
    parts : sequence of SetInterval
        The intervals of the set, in coordinates.
    """
    found = crossings(q, curve, observed)
    found = found[~np.isnan(found)]
    values = tuple(float(v) for v in parameter.to_value(found))
    if not values:
        return Correction(None, _without(parameter, curve, observed), values)
    if len(values) == 1:
        return Correction(values[0], "found", values)
    shown = f"{len(values)} times between {values[0]:.4g} and {values[-1]:.4g}"
    # Crossings in one interval are the noise of one; in several they are different truths.
    slack = ROUNDING * float(q[-1] - q[0])
    if any(part.low - slack <= found[0] and found[-1] <= part.high + slack for part in parts):
        which = "middle one" if len(values) % 2 else "middle between the two inner ones"
        status = f"the median answer takes the delivered value {shown}; the {which} is given"
        return Correction(float(parameter.to_value(np.median(found))), status, values)
    status = (
        f"the median answer takes the delivered value {shown}, in separate parts of the set: there "
        "is no single corrected value"
    )
    return Correction(None, status, values)


def _without(parameter: Parameter, curve: FloatArray, observed: float) -> str:
    known = curve[~np.isnan(curve)]
    if not known.size:
        return "no candidate has a median answer"
    low, high = parameter.to_value([known.min(), known.max()])
    value = float(parameter.to_value(observed))
    return (
        f"no tested candidate leads to the delivered value {value:.4g}: their median answers go "
        f"from {low:.4g} to {high:.4g}"
    )

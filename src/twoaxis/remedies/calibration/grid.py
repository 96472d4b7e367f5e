"""Which parameters are tried: a grid first, then more where the edges of the set lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError
from twoaxis.parameters import Parameter
from twoaxis.remedies.calibration.invert import SetInterval
from twoaxis.resolution.design import real_array
from twoaxis.views.checks import is_whole

FloatArray = NDArray[np.float64]

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
    if is_whole(candidates):
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

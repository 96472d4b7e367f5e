r"""How a confidence set is inverted: rank tests at the candidates, then the set between them.

**The test at one candidate.** At a candidate :math:`q` the pipeline answered :math:`\hat q_1,
\dots, \hat q_R` on data simulated there. If :math:`q` is the truth, the estimate :math:`\hat q`
from the real data is one more draw of the same kind, and its rank among the others is uniform,
whatever the distribution. With :math:`k = \lfloor (R + 1)\,\alpha/2 \rfloor` the candidate is
kept if

.. math:: l(q) = \hat q_{(k)} \le \hat q \le \hat q_{(R + 1 - k)} = u(q),

which has probability :math:`1 - 2k/(R + 1) \ge 1 - \alpha` under the truth. That is the *signed*
statistic: the two sides may differ, so a bias shifts the set instead of widening it. The *absolute*
statistic keeps the candidate if :math:`|\hat q - q| \le |\hat q_i - q|_{(R + 1 - k)}` with
:math:`k = \lfloor (R + 1)\,\alpha \rfloor`. A failed answer counts as lying on both sides of
every estimate. This can only widen the bounds, so the guarantee remains.

**The set.** Between neighboring candidates the bounds are interpolated linearly, and the set is

.. math:: \{\, q : l(q) \le \hat q \le u(q) \,\}.

A pipeline whose answer is not monotone in the truth may leave several intervals. An interval that
reaches the first or the last candidate is open there: nothing beyond was tested. The guarantee
holds at the candidates; where the bounds bend between two of them by more than the set is wide, a
truth there may be lost, so candidates are added around the edges.

**Answers in steps.** A grid search and a rounded answer change by steps, and so do the bounds:
between two candidates the step may lie anywhere. Answers that repeat exactly give it away
(`stepwise`). There a piece is kept as a whole as soon as interpolation keeps any part of it, which
it does if either of its candidates is kept. Where the bounds are monotone between two candidates,
:math:`l(q) \ge \min(l_j, l_{j+1})` and :math:`u(q) \le \max(u_j, u_{j+1})`, so that no truth
between them is lost.

**The corrected value** solves :math:`m(q) = \hat q` for the median :math:`m(q)` of the simulated
answers. It is median-unbiased where :math:`m` increases; the bias need not be constant.

**Monte Carlo error.** A bootstrap over replicas, which all candidates share, tells how much the
edges depend on the finite number of replicas. On normal answers its standard error is right on
average from 39 replicas upwards at a level of 90%; with 19, where a bound is the outermost answer
of all, it is a third too small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError
from twoaxis.parameters import Parameter
from twoaxis.result import Message

FloatArray = NDArray[np.float64]

Statistic = Literal["signed", "absolute"]
STATISTICS = ("signed", "absolute")
# An edge that a round moves by less than this share of the set's width needs no further one.
STILL = 0.1
# Relative rounding: of a product that should be an integer, and of a crossing on an edge.
ROUNDING = 1e-9

# ------------------------------------------------------------------ the test at one candidate


def tail_share(level: float, statistic: Statistic) -> float:
    """Return the share of replicas that may lie beyond one bound."""
    return (1 - level) / (2 if statistic == "signed" else 1)


def least_replicas(level: float, statistic: Statistic) -> int:
    """Return how many replicas a level needs at least.

    >>> least_replicas(0.9, "signed"), least_replicas(0.9, "absolute")
    (19, 9)
    """
    return math.ceil(1 / tail_share(level, statistic) - 1 - ROUNDING)


def check_level(level: Any, statistic: Any, replicas: int) -> None:
    """Refuse a level outside (0, 1), or one that needs more replicas."""
    real = isinstance(level, (float, np.floating))
    if not (real and 0 < level < 1):
        raise InputError("a level between 0 and 1", f"level={level!r}", "pass level=0.9")
    if statistic not in STATISTICS:
        raise InputError(
            'statistic "signed" or "absolute"', f"statistic={statistic!r}", "choose one of them"
        )
    needed = least_replicas(level, statistic)
    if replicas < needed:
        raise InputError(
            f"at least {needed} replicas for a level of {level:g} with the {statistic} statistic",
            f"{replicas}, with which no candidate could ever be rejected",
            f"pass replicas={needed} or more, or a lower level",
        )


def tail_count(replicas: int, level: float, statistic: Statistic) -> int:
    """Return k: the bound is the k-th value from its end.

    >>> tail_count(59, 0.9, "signed"), tail_count(59, 0.9, "absolute")
    (3, 6)
    """
    return math.floor((replicas + 1) * tail_share(level, statistic) + ROUNDING)


def guaranteed_level(replicas: int, level: float, statistic: Statistic) -> float:
    """Return the probability with which a true candidate is kept, at least; never below `level`.

    Exact where answers have a continuous distribution; ties and failures can only raise it.

    >>> guaranteed_level(50, 0.9, "signed") > 0.9
    True
    """
    k = tail_count(replicas, level, statistic)
    return 1 - k * (2 if statistic == "signed" else 1) / (replicas + 1)


def rank_bounds(
    estimates: FloatArray, candidate: FloatArray, level: float, statistic: Statistic
) -> tuple[FloatArray, FloatArray]:
    """Return between which estimates a candidate is kept.

    Parameters
    ----------
    estimates : array, shape (..., R)
        Coordinates; NaN where the pipeline failed.
    candidate : array, shape (...)
        Coordinates of the candidates.

    Returns
    -------
    lower, upper : array, shape (...)
        Infinite where too many runs failed to bound the estimate.
    """
    replicas = estimates.shape[-1]
    k = tail_count(replicas, level, statistic)
    if statistic == "absolute":
        error = np.abs(estimates - candidate[..., None])
        radius = _kth(np.where(np.isnan(error), np.inf, error), replicas - k)
        return candidate - radius, candidate + radius
    failed = np.isnan(estimates)
    lower = _kth(np.where(failed, -np.inf, estimates), k - 1)
    return lower, _kth(np.where(failed, np.inf, estimates), replicas - k)


def p_values(
    estimates: FloatArray, candidate: FloatArray, observed: float, statistic: Statistic
) -> FloatArray:
    r"""Return for each candidate how well the observed estimate fits it, from 0 to 1.

    Signed: :math:`p = \min(1, 2 \min(p_\le, p_\ge))` with :math:`p_\le = (1 + \#\{\hat q_i \le \hat
    q\})/(R + 1)`, and the other side likewise. Absolute: :math:`(1 + \#\{|\hat q_i - q| \ge |\hat q
    - q|\})/(R + 1)`. Under the true candidate :math:`P(p \le \alpha) \le \alpha`.
    """
    failed, replicas = np.isnan(estimates), estimates.shape[-1]
    if statistic == "absolute":
        error = np.abs(estimates - candidate[..., None])
        beyond = failed | (error >= np.abs(observed - candidate)[..., None])
        return np.asarray((1.0 + beyond.sum(axis=-1)) / (replicas + 1))
    below = (1.0 + (failed | (estimates <= observed)).sum(axis=-1)) / (replicas + 1)
    above = (1.0 + (failed | (estimates >= observed)).sum(axis=-1)) / (replicas + 1)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(below, above)))


def medians(estimates: FloatArray) -> FloatArray:
    """Return the median over successful replicas, NaN where all failed, shape (...)."""
    count = np.count_nonzero(~np.isnan(estimates), axis=-1)
    ordered = np.sort(estimates, axis=-1)  # NaN goes to the end
    first, second = np.maximum(count - 1, 0) // 2, count // 2
    second = np.minimum(second, estimates.shape[-1] - 1)
    pick = np.stack([first, second], axis=-1)
    middle: FloatArray = np.take_along_axis(ordered, pick, axis=-1).mean(axis=-1)
    return np.where(count > 0, middle, np.nan)


def _kth(values: FloatArray, k: int) -> FloatArray:
    """Return the value with k others before it, along the last axis."""
    found: FloatArray = np.partition(values, k, axis=-1)[..., k]
    return found


# ------------------------------------------------------------------ the set


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
    """Return the kept part between neighboring candidates, as shares from 0 to 1.

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

    Next to an infinite node the whole piece counts.
    """
    left, right = height[..., :-1], height[..., 1:]
    infinite = np.isinf(left) | np.isinf(right)
    with np.errstate(invalid="ignore", divide="ignore"):
        zero = left / (left - right)
    start = np.where(left >= 0, 0.0, np.where(right >= 0, zero, np.inf))
    stop = np.where(right >= 0, 1.0, np.where(left >= 0, zero, -np.inf))
    return np.where(infinite, 0.0, start), np.where(infinite, 1.0, stop)


def stepwise(estimates: FloatArray) -> NDArray[np.bool_]:
    """Return of each piece between candidates whether the answers change by steps there.

    They do where an answer repeats exactly: for two replicas of either candidate, or for one
    replica of both, which share their noise. Answers with a continuous distribution never repeat.

    Parameters
    ----------
    estimates : array, shape (K, R)
        NaN where the pipeline failed.

    Returns
    -------
    array of bool, shape (K - 1,)

    Examples
    --------
    >>> stepwise(np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.5]])).tolist()
    [False, True]
    """
    ordered = np.sort(estimates, axis=1)
    repeats = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    stays = (estimates[1:] == estimates[:-1]).any(axis=1)
    return np.asarray(repeats[1:] | repeats[:-1] | stays)


def intervals(
    q: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    observed: float,
    whole: ArrayLike = False,
) -> list[SetInterval]:
    """Return the intervals of the set, in coordinates, lowest first.

    Parameters
    ----------
    q, lower, upper : array, shape (K,)
    observed : float
    whole : array of bool, shape (K - 1,)
        Pieces between candidates that are kept as a whole or not at all.

    Examples
    --------
    >>> q = np.array([0.0, 1.0, 2.0])
    >>> intervals(q, q - 0.5, q + 0.5, 0.75)
    [SetInterval(low=0.25, high=1.25, open_low=False, open_high=False)]
    """
    start, stop = kept_pieces(lower, upper, observed)
    # An end is open where the outermost candidate itself is kept.
    open_low, open_high = start[0] == 0.0, stop[-1] == 1.0
    widened = np.asarray(whole) & ~np.isnan(start)
    start, stop = np.where(widened, 0.0, start), np.where(widened, 1.0, stop)
    found: list[SetInterval] = []
    joined = False  # whether the last interval reaches the candidate at hand
    for j, (first, last) in enumerate(zip(start.tolist(), stop.tolist(), strict=True)):
        if np.isnan(first):
            joined = False
            continue
        # A piece that is kept completely ends at its candidates, without rounding.
        low = float(q[j] + first * (q[j + 1] - q[j]))
        high = float(q[j + 1] if last == 1.0 else q[j] + last * (q[j + 1] - q[j]))
        ends = bool(open_high) and j == len(q) - 2
        if joined and first == 0.0:
            found[-1] = found[-1]._replace(high=high, open_high=ends)
        else:
            found.append(SetInterval(low, high, bool(open_low) and j == 0, ends))
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


# ------------------------------------------------------------------ the corrected value


@dataclass(frozen=True)
class Correction:
    """The bias-corrected estimate.

    Attributes
    ----------
    value : float or None
        In physical units; None where there is no single one.
    crossings : tuple of float
        All candidates whose median answer is the delivered value.
    message : Message or None
        Why there is no value, or not a unique one; None where there is exactly one crossing.
    """

    value: float | None
    crossings: tuple[float, ...]
    message: Message | None = None


def correct(
    parameter: Parameter,
    q: FloatArray,
    curve: FloatArray,
    observed: float,
    parts: Sequence[SetInterval],
) -> Correction:
    """Solve for the candidate whose median answer is the observed estimate.

    Parameters
    ----------
    parameter : Parameter
    q, curve : array, shape (K,)
        Candidates and the medians there, in coordinates.
    observed : float
    parts : sequence of SetInterval
        The intervals of the set, in coordinates.
    """
    places = crossings(q, curve, observed)
    places = places[~np.isnan(places)]
    values = tuple(float(v) for v in parameter.to_value(places))
    if not values:
        return Correction(None, values, _no_crossing(parameter, curve, observed))
    if len(values) == 1:
        return Correction(values[0], values)
    numbers = {"crossings": float(len(values)), "lowest": values[0], "highest": values[-1]}
    times = f"{len(values)} times between {values[0]:.4g} and {values[-1]:.4g}"
    # Crossings within one interval differ by noise; in several they are different truths.
    slack = ROUNDING * float(q[-1] - q[0])
    if any(part.low - slack <= places[0] and places[-1] <= part.high + slack for part in parts):
        text = f"the median answer takes the delivered value {times}; the median of them is given"
        message = Message("set.several_crossings", text, "info", numbers)
        return Correction(float(parameter.to_value(np.median(places))), values, message)
    text = (
        f"the median answer takes the delivered value {times}, in separate parts of the set, so "
        "there is no unique corrected value"
    )
    return Correction(None, values, Message("set.ambiguous_correction", text, "warning", numbers))


def _no_crossing(parameter: Parameter, curve: FloatArray, observed: float) -> Message:
    known = curve[~np.isnan(curve)]
    if not known.size:
        text = "no candidate has a median answer, so there is no corrected value"
        return Message("set.no_median", text, "warning")
    low, high = map(float, parameter.to_value([known.min(), known.max()]))
    value = float(parameter.to_value(observed))
    text = (
        f"no tested candidate leads to the delivered value {value:.4g}: the median answers range "
        f"from {low:.4g} to {high:.4g}, so there is no corrected value"
    )
    numbers = {"delivered": value, "lowest_median": low, "highest_median": high}
    return Message("set.no_correction", text, "warning", numbers)


# ------------------------------------------------------------------ Monte Carlo error

DRAWS = 500
SEED = 20260901


def monte_carlo(
    parameter: Parameter,
    q: FloatArray,
    estimates: FloatArray,
    observed: float,
    level: float,
    statistic: Statistic,
    values: Mapping[str, float],
    reference: float,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
) -> pd.DataFrame:
    """Return standard errors of the edges of the set and of the corrected value.

    Parameters
    ----------
    q : array, shape (K,)
    estimates : array, shape (K, R)
    observed : float
        All in coordinates.
    values : mapping of str to float
        ``low``, ``high`` and ``corrected`` in physical units, NaN where there is none.
    reference : float
        What percentages refer to.
    """
    replicas = estimates.shape[1]
    chosen = np.random.default_rng(seed).integers(replicas, size=(draws, replicas))
    lower, upper, middle = (np.empty((draws, len(q))) for _ in range(3))
    for j, row in enumerate(estimates):  # one candidate at a time bounds the memory
        resampled = row[chosen]
        here = np.full(draws, q[j])
        lower[:, j], upper[:, j] = rank_bounds(resampled, here, level, statistic)
        middle[:, j] = medians(resampled)
    start, stop = kept_pieces(lower, upper, observed)
    width = np.diff(q)
    low = _extreme(q[:-1] + start * width, np.fmin)
    high = _extreme(q[:-1] + stop * width, np.fmax)
    corrected = _nearest(
        crossings(q, middle, observed), _coordinate(parameter, values["corrected"])
    )
    rows = {}
    for name, sample in (("low", low), ("high", high), ("corrected", corrected)):
        rows[name] = _row(parameter, values[name], sample, reference)
    return pd.DataFrame.from_dict(rows, orient="index")


def _row(
    parameter: Parameter, value: float, sample: FloatArray, reference: float
) -> dict[str, float]:
    there = sample[~np.isnan(sample)]
    known = not np.isnan(value) and len(there) > 1
    spread = float(there.std(ddof=1)) if known else np.nan
    slope = value if parameter.coordinate == "log" else 1.0
    physical = slope * spread
    percent = float(parameter.percent(reference + physical, reference)) if known else np.nan
    return {
        "value": value,
        "standard_error": physical,
        "standard_error_percent": abs(percent),
        "found": len(there) / len(sample),
    }


def _extreme(edges: FloatArray, which: np.ufunc) -> FloatArray:
    """Return the outermost edge of every resample; NaN where its set is empty."""
    found: FloatArray = which.reduce(edges, axis=1)
    return found


def _nearest(found: FloatArray, value: float) -> FloatArray:
    """Return of every resample the crossing that lies nearest to `value`."""
    if np.isnan(value):
        return np.full(len(found), np.nan)
    distance = np.where(np.isnan(found), np.inf, np.abs(found - value))
    near = np.argmin(distance, axis=1)
    return np.asarray(found[np.arange(len(found)), near])


def _coordinate(parameter: Parameter, value: float) -> float:
    return float(parameter.to_coordinate(value)) if not np.isnan(value) else np.nan

r"""Ranks that need no distribution: what is typical of a candidate, and what is not.

At a candidate :math:`q` the pipeline answered :math:`\hat q_1, \dots, \hat q_R` on data simulated
there. If :math:`q` is the truth, the estimate :math:`\hat q` from the real data is one more draw of
the same kind, and its place among the others is uniform. With :math:`k = \lfloor (R + 1)\,\alpha/2
\rfloor` the candidate is kept when

.. math:: \hat q_{(k)} \le \hat q \le \hat q_{(R + 1 - k)},

which happens with probability :math:`1 - 2k/(R + 1) \ge 1 - \alpha`, whatever the distribution.
That is the *signed* statistic: it allows the two sides to differ, so a bias moves the set instead
of widening it. The *absolute* statistic :math:`T = |\hat q - q| / \sigma(q)` keeps the candidate
when :math:`|\hat q - q| \le |\hat q_i - q|_{(R + 1 - k)}` with :math:`k = \lfloor (R +
1)\,\alpha \rfloor`. The scale :math:`\sigma(q)` cancels at one candidate; it matters only where
candidates or layouts are pooled, which does not happen here.

A failed answer stands on both sides of every estimate. The bounds can only widen by that, so the
guarantee remains.

How much a set owes to the finite number of its replicas: a bootstrap over them.

Replicas share their draws between candidates, so a resample takes whole replicas, all candidates
at once. On normal answers the error comes out right on average from 39 replicas upwards at a level
of 90%; with 19, where a bound is the outermost answer of all, it is a third too small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.parameters import Parameter
from twoaxis.remedies.calibration.inversion import crossings, kept_pieces

FloatArray = NDArray[np.float64]

Statistic = Literal["signed", "absolute"]
STATISTICS = ("signed", "absolute")
# A product that is a whole number may come out a rounding beside it.
ROUNDING = 1e-9


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
    """Refuse a level that is none, or that so few replicas cannot give."""
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
        Infinite where failures leave nothing to say.
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
    """Return the median of the answers that came, NaN where none did, shape (...)."""
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

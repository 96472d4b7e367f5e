"""How sure an average or a correlation is when observations come in clusters.

Observations that share a noise draw or a learned field move together, so counting
them as independent makes an interval too narrow. The cluster bootstrap asks instead:
what would the estimate have been, had other clusters been drawn? It draws as many
clusters as there are, with replacement, takes every observation of a cluster as
often as its cluster came up, and computes the estimate again. The central part of
many such estimates is the percentile interval.

A resample is fully described by *how often each observation was taken*. So nothing is
copied: a draw is a row of counts, a statistic takes counts of shape ``(..., n)``, and
all draws go through one array expression. `weighted_mean`, `weighted_quantile` and
`weighted_pearson` are statistics of that form, and each equals the plain statistic
of the sample in which every observation is repeated as often as its count says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# The weights of all draws together can outgrow memory (20,000 draws of 10,000
# observations are 1.6 GB), so a statistic sees them in chunks of about this size.
CHUNK_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Interval:
    """A confidence interval: two ends and the share of estimates between them.

    Parameters
    ----------
    low, high : float
        The ends, ``low <= high``.
    level : float
        The nominal coverage, strictly between 0 and 1.

    Examples
    --------
    >>> Interval(2.1, 3.4)
    Interval(low=2.1, high=3.4, level=0.95)
    """

    low: float
    high: float
    level: float = 0.95

    def __post_init__(self) -> None:
        # Written so that a NaN end fails too.
        if not self.low <= self.high:
            raise InputError(
                "an interval whose low end is not above its high end",
                f"low={self.low!r}, high={self.high!r}",
                "give the ends in ascending order",
            )
        _check_level(self.level)


def weighted_mean(values: ArrayLike, weights: ArrayLike) -> Floats:
    r"""Mean of the sample in which observation `i` occurs ``weights[..., i]`` times.

    .. math:: \bar x = \sum_i w_i x_i \Big/ \sum_i w_i

    Parameters
    ----------
    values : array_like, shape (n,)
        The observations.
    weights : array_like, shape (..., n)
        Non-negative weights with a positive sum in each row, one row a draw.

    Returns
    -------
    ndarray, shape (...)
        One mean a row.

    Examples
    --------
    >>> weighted_mean([1.0, 4.0], [[1, 1], [2, 1]])
    array([2.5, 2. ])
    """
    sample = _checked_sample("values", values)
    return np.asarray(_mean(sample, _checked_weights(weights, sample.size)))


def weighted_quantile(values: ArrayLike, weights: ArrayLike, q: float) -> Floats:
    r"""Quantile of the sample in which observation `i` occurs ``weights[..., i]`` times.

    The definition is the default of :func:`numpy.quantile`. With the repeated sample
    in order, :math:`x_{(0)} \le \dots \le x_{(N-1)}`, :math:`N = \sum_i w_i`,

    .. math:: Q = (1 - g)\, x_{(j)} + g\, x_{(j+1)}, \qquad j + g = q (N - 1),\ 0 \le g < 1.

    Parameters
    ----------
    values : array_like, shape (n,)
        The observations.
    weights : array_like, shape (..., n)
        Non-negative whole counts with a positive sum in each row, one row a draw.
    q : float
        The probability, between 0 and 1; 0.5 is the median.

    Returns
    -------
    ndarray, shape (...)
        One quantile a row.

    Examples
    --------
    >>> weighted_quantile([1.0, 4.0], [[1, 1], [2, 1]], 0.5)
    array([2.5, 1. ])
    """
    sample = _checked_sample("values", values)
    counts = _checked_weights(weights, sample.size)
    if np.any(counts != np.floor(counts)):
        raise InputError(
            "whole counts as weights, for ranks count observations",
            "weights with a fractional part",
            "pass how often each observation was drawn, not a probability or a share",
        )
    if not 0 <= q <= 1:
        raise InputError(
            "a probability q between 0 and 1", f"q={q!r}", "divide a percentage by 100"
        )
    order = np.argsort(sample)
    last_rank = np.cumsum(counts[..., order], axis=-1)
    top = last_rank[..., -1] - 1
    position = top * q
    below = np.floor(position)
    lower = sample[order][_holder_of_rank(last_rank, below)]
    upper = sample[order][_holder_of_rank(last_rank, np.minimum(below + 1, top))]
    share, step = position - below, upper - lower
    # Stepping from the nearer end, as NumPy does, gives both ends without rounding.
    return np.asarray(np.where(share < 0.5, lower + step * share, upper - step * (1 - share)))


def weighted_pearson(x: ArrayLike, y: ArrayLike, weights: ArrayLike) -> Floats:
    r"""Pearson correlation of the pairs in which pair `i` occurs ``weights[..., i]`` times.

    .. math:: r = \frac{\sum_i w_i (x_i - \bar x)(y_i - \bar y)}
                  {\sqrt{\sum_i w_i (x_i - \bar x)^2 \, \sum_i w_i (y_i - \bar y)^2}}

    Here the means are the weighted ones of the same row.

    Parameters
    ----------
    x, y : array_like, shape (n,)
        The pairs.
    weights : array_like, shape (..., n)
        Non-negative weights with a positive sum in each row, one row a draw.

    Returns
    -------
    ndarray, shape (...)
        One correlation a row, in [-1, 1].

    Raises
    ------
    InputError
        If `x` or `y` is constant over the pairs of positive weight in some row:
        the correlation is then 0/0.

    Examples
    --------
    >>> weighted_pearson([0.0, 1.0, 2.0], [0.0, 1.0, 0.0], [[1, 1, 1], [3, 1, 0]])
    array([0., 1.])
    """
    first, second = _checked_pairs(x, y)
    counts = _checked_weights(weights, first.size)
    first, second = _deviations("x", first, counts), _deviations("y", second, counts)
    covariance = np.vecdot(counts * first, second)
    variances = np.vecdot(counts * first, first) * np.vecdot(counts * second, second)
    # Rounding can carry a perfect correlation one unit in the last place past 1.
    return np.asarray(np.clip(covariance / np.sqrt(variances), -1.0, 1.0))


def pearson(x: ArrayLike, y: ArrayLike) -> float:
    """Pearson correlation of the pairs ``(x[i], y[i])``.

    This is `weighted_pearson` with every weight equal to one.

    Parameters
    ----------
    x, y : array_like, shape (n,)
        At least two pairs of finite numbers; neither may be constant (InputError).

    Returns
    -------
    float
        The correlation, in [-1, 1].

    Examples
    --------
    >>> pearson([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    1.0
    """
    first, second = _checked_pairs(x, y)
    return float(weighted_pearson(first, second, np.ones(first.size)))


def pearson_within(x: ArrayLike, y: ArrayLike, groups: ArrayLike) -> float:
    r"""Pearson correlation after each group's mean is subtracted from `x` and `y`.

    Differences *between* groups no longer count; with the PDE as the group this is
    the paper's within-PDE correlation:

    .. math:: r = \mathrm{pearson}\big(x_i - \bar x_{g(i)},\; y_i - \bar y_{g(i)}\big)

    Parameters
    ----------
    x, y : array_like, shape (n,)
        At least two pairs of finite numbers. Each must vary inside at least one
        group (InputError). A group of one pair is allowed and adds nothing.
    groups : array_like, shape (n,)
        The group of each pair; labels of any sortable type.

    Returns
    -------
    float
        The correlation, in [-1, 1].

    Examples
    --------
    The trend between the groups runs upwards, the one inside them downwards:

    >>> pearson_within([0, 1, 10, 11], [1, 0, 11, 10], ["a", "a", "b", "b"])
    -1.0
    """
    first, second = _checked_pairs(x, y)
    _, group_of = _checked_labels("groups", groups, first.size)
    centred = {"x": _centred(first, group_of), "y": _centred(second, group_of)}
    for name, deviations in centred.items():
        if not deviations.any():
            raise InputError(
                f"{name} that varies inside at least one group",
                f"{name} constant inside every group",
                "check that groups are not one label a pair, or use pearson without groups",
            )
    return pearson(centred["x"], centred["y"])


def cluster_bootstrap(
    statistic: Callable[[Floats], ArrayLike],
    clusters: ArrayLike,
    *,
    draws: int = 20_000,
    seed: int,
    strata: ArrayLike | None = None,
    level: float = 0.95,
) -> Interval:
    """Percentile interval of a statistic, with whole clusters resampled.

    The ends are the ``(1 - level) / 2`` and ``(1 + level) / 2`` quantiles of the estimates
    that `bootstrap_estimates` draws; the other arguments are explained there.

    Examples
    --------
    >>> error = np.array([4.1, 4.3, 6.0, 6.2, 5.1, 5.0])
    >>> noise_draw = [0, 0, 1, 1, 2, 2]
    >>> interval = cluster_bootstrap(lambda w: weighted_mean(error, w), noise_draw, seed=0)
    >>> round(interval.low, 2), round(interval.high, 2)
    (4.2, 6.1)
    """
    _check_level(level)
    estimates = bootstrap_estimates(statistic, clusters, draws=draws, seed=seed, strata=strata)
    if estimates.ndim != 1:
        raise InputError(
            "one estimate a row of weights",
            f"estimates of shape {estimates.shape[1:]} from the statistic",
            "reduce over the last axis of the weights, or use bootstrap_estimates",
        )
    low, high = np.quantile(estimates, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), float(level))


def bootstrap_estimates(
    statistic: Callable[[Floats], ArrayLike],
    clusters: ArrayLike,
    *,
    draws: int = 20_000,
    seed: int,
    strata: ArrayLike | None = None,
) -> Floats:
    r"""Estimates of a statistic under resampling of whole clusters.

    With :math:`K` clusters, draw :math:`b` takes the cluster counts
    :math:`c_b \sim \mathrm{Multinomial}(K; 1/K, \dots, 1/K)` and gives observation
    :math:`i` the weight :math:`w_{bi} = c_{b,k(i)}`; the result is :math:`T(w_b)`.

    Parameters
    ----------
    statistic : callable
        Takes weights of shape ``(chunk, n)``, whole numbers as floats, and returns
        estimates of shape ``(chunk, ...)``, each from its own row alone.
    clusters : array_like, shape (n,)
        The cluster of each observation; labels of any sortable type.
    draws : int
        The number of resamples.
    seed : int
        Seed of :func:`numpy.random.default_rng`. Equal seeds give equal draws, and a
        label keeps its draws whatever order the observations come in.
    strata : array_like, shape (n,), optional
        A coarser label. Each stratum then redraws its own number of clusters from its
        own, so that differences between strata, which a new sample would repeat, do
        not widen the interval. Without it all clusters are resampled together.

    Returns
    -------
    array, shape (draws, ...)

    Raises
    ------
    InputError
        If there are fewer than two clusters in a stratum or altogether, if a cluster
        lies in two strata, or if any draw has no finite estimate.
    """
    for name, number, least in (("draws", draws, 1), ("seed", seed, 0)):
        if not isinstance(number, int | np.integer) or number < least:
            raise InputError(
                f"a whole number of at least {least} as {name}",
                f"{name}={number!r}",
                f"pass {name} as an int",
            )
    cluster_of, members = _resampling_plan(clusters, strata)
    return np.concatenate(
        [
            _checked_estimates(statistic(weights), len(weights))
            for weights in _weight_chunks(cluster_of, members, int(draws), int(seed))
        ]
    )


def _resampling_plan(
    clusters: ArrayLike, strata: ArrayLike | None
) -> tuple[Indices, list[Indices]]:
    """Return each observation's cluster number and each stratum's cluster numbers."""
    names, cluster_of = _checked_labels("clusters", clusters)
    if strata is None:
        members = [np.arange(names.size)]
    else:
        _, stratum_of = _checked_labels("strata", strata, cluster_of.size)
        pairs = np.unique(np.stack([cluster_of, stratum_of]), axis=1)
        repeated = pairs[0, 1:][pairs[0, 1:] == pairs[0, :-1]]
        if repeated.size:
            raise InputError(
                "every cluster inside one stratum",
                f"cluster {names[repeated[0]]!s} in several strata",
                "make the stratum part of the cluster's label, such as 'burgers-3'",
            )
        members = [pairs[0, pairs[1] == stratum] for stratum in np.unique(pairs[1])]
    smallest = min(member.size for member in members)
    if smallest < 2:
        raise InputError(
            "at least two clusters (in every stratum, where strata are given): an interval "
            "needs at least two clusters, for one alone says nothing about their spread",
            f"{smallest} cluster" + (" in a stratum" if strata is not None else ""),
            "add independent replicates, merge strata or leave them out, or report the "
            "estimate without an interval",
        )
    return cluster_of, members


def _weight_chunks(
    cluster_of: Indices, members: list[Indices], draws: int, seed: int
) -> Iterator[Floats]:
    """Yield the weights of all draws, (chunk, n) at a time."""
    # One stream a stratum: with a shared one, the chunk size would decide which
    # stratum gets which random numbers. A single stratum is the unstratified case.
    parent = np.random.default_rng(seed)
    streams = [parent, *parent.spawn(len(members) - 1)]
    clusters = sum(member.size for member in members)
    rows = max(1, CHUNK_BYTES // (cluster_of.size * np.dtype(float).itemsize))
    for start in range(0, draws, rows):
        counts = np.empty((min(rows, draws - start), clusters))
        for stream, member in zip(streams, members, strict=True):
            chances = np.full(member.size, 1 / member.size)
            counts[:, member] = stream.multinomial(member.size, chances, size=len(counts))
        yield np.take(counts, cluster_of, axis=1)


def _checked_estimates(estimates: ArrayLike, rows: int) -> Floats:
    """Return what the statistic gave for a chunk, finite numbers for each of `rows` rows."""
    result = np.asarray(estimates, dtype=float)
    if result.shape[:1] != (rows,):
        raise InputError(
            f"estimates for each row of weights, shape ({rows}, ...)",
            f"shape {result.shape} from the statistic",
            "reduce over the last axis of the weights only",
        )
    undefined = int(np.count_nonzero(~np.isfinite(result)))
    if undefined:
        raise InputError(
            "a finite estimate from every draw",
            f"NaN or infinity in {undefined} of {result.size} estimates",
            "remove missing values first, and use more clusters or a statistic that is "
            "defined when one cluster is drawn many times",
        )
    return result


def _mean(values: Floats, weights: Floats) -> Floats:
    """Weighted mean over the last axis, on checked input."""
    # vecdot treats each row by itself; a matrix product may round a row differently
    # with the number of rows beside it, and chunks would then change the last digit.
    mean: Floats = np.vecdot(weights, values) / weights.sum(axis=-1)
    return mean


def _holder_of_rank(last_rank: Floats, rank: Floats) -> Indices:
    """Return which ordered observation holds `rank`, given the cumulative counts."""
    # A searchsorted along the last axis, which NumPy has for one row only.
    holder: Indices = np.count_nonzero(last_rank <= rank[..., None], axis=-1)
    return holder


def _deviations(name: str, values: Floats, weights: Floats) -> Floats:
    """Deviations from each row's mean, in units of the row's range: shape (..., n)."""
    drawn = weights > 0
    low = np.where(drawn, values, np.inf).min(axis=-1, keepdims=True)
    high = np.where(drawn, values, -np.inf).max(axis=-1, keepdims=True)
    constant = int(np.count_nonzero(low == high))
    if constant:
        raise InputError(
            f"{name} that varies, for the correlation with a constant is 0/0",
            f"constant {name} in {constant} of {low.size} rows of weights",
            "leave the constant out, or resample more clusters so that no draw is of one value",
        )
    # On the scale where the range is [0, 1] a variance can neither underflow nor be
    # mere rounding. Values outside the range have no weight; clipping keeps them finite.
    unit = (np.clip(values, low, high) - low) / (high - low)
    deviations: Floats = unit - _mean(unit, weights)[..., None]
    return deviations


def _centred(values: Floats, group_of: Indices) -> Floats:
    """Subtract from each value the mean of its group."""
    # From the group's minimum, so that a constant group is exactly zero: the rounding
    # of 0.1 - mean(0.1, 0.1, 0.1) would otherwise pass for variation.
    low = np.full(group_of.max() + 1, np.inf)
    np.minimum.at(low, group_of, values)
    shifted = values - low[group_of]
    means = np.bincount(group_of, shifted) / np.bincount(group_of)
    centred: Floats = shifted - means[group_of]
    return centred


def _checked_sample(name: str, values: ArrayLike) -> Floats:
    """Return `values` as a one-dimensional array of finite floats."""
    try:
        sample = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"numbers as {name}", str(error), f"convert {name} to floats") from error
    if sample.ndim != 1 or not sample.size:
        raise InputError(
            f"{name} of shape (n,) with n at least 1",
            f"shape {sample.shape}",
            f"flatten {name} to one observation an entry",
        )
    missing = int(np.count_nonzero(~np.isfinite(sample)))
    if missing:
        raise InputError(
            f"finite {name}",
            f"NaN or infinity in {missing} of {sample.size} entries",
            "remove those observations, and say how many were removed",
        )
    return sample


def _checked_pairs(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Return `x` and `y` as at least two pairs of finite floats."""
    first, second = _checked_sample("x", x), _checked_sample("y", y)
    if first.size != second.size or first.size < 2:
        raise InputError(
            "at least two pairs, x and y of one length",
            f"{first.size} values of x and {second.size} of y",
            "give one y for each x, in the same order",
        )
    return first, second


def _checked_weights(weights: ArrayLike, size: int) -> Floats:
    """Return `weights` as (..., size) floats, non-negative, with a positive sum a row."""
    counts = np.asarray(weights, dtype=float)
    if counts.ndim == 0 or counts.shape[-1] != size:
        raise InputError(
            f"weights of shape (..., {size}), one for each observation",
            f"shape {counts.shape}",
            "put the observations on the last axis of the weights",
        )
    # A NaN or an infinity among the weights makes its row's sum not finite.
    totals = counts.sum(axis=-1)
    if np.any(counts < 0) or not np.all(np.isfinite(totals) & (totals > 0)):
        raise InputError(
            "finite, non-negative weights with a positive sum in every row",
            "a negative or non-finite weight, or a row of zeros",
            "pass how often each observation was drawn, and drop draws that took none",
        )
    return counts


def _checked_labels(
    name: str, labels: ArrayLike, size: int | None = None
) -> tuple[NDArray[np.generic], Indices]:
    """Return the distinct labels in order, and for each entry the number of its label."""
    array = np.asarray(labels)
    if array.ndim != 1 or (size is not None and array.size != size) or not array.size:
        raise InputError(
            f"{name} of shape ({'n' if size is None else size},), one label an observation",
            f"shape {array.shape}",
            "give a single label for each observation; join several keys into one string",
        )
    try:
        # A missing label (NaN, NaT) differs from itself, and is no cluster of its own.
        comparable = not np.any(array != array)
        names, label_of = np.unique(array, return_inverse=True)
    except TypeError:
        comparable = False
    if not comparable:
        raise InputError(
            f"{name} of one sortable type, none missing",
            f"labels of type {array.dtype} with missing or mixed entries",
            "convert the labels to strings or whole numbers and drop the missing ones",
        )
    return names, label_of


def _check_level(level: float) -> None:
    """Refuse a level that is no probability strictly between 0 and 1."""
    if not 0 < level < 1:
        raise InputError(
            "a level strictly between 0 and 1",
            f"level={level!r}",
            "pass 0.95 for a 95 percent interval",
        )

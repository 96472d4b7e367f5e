"""Weighted means, quantiles and Pearson correlations.

A bootstrap resample is fully described by *how often each observation was drawn*. So nothing
is copied: a draw is a row of counts, a statistic takes counts of shape ``(..., n)``, and all
draws go through one array expression. Each statistic equals the plain one of the sample in
which every observation is repeated as often as its count says.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError, refuse_masked

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


def checked_sample(name: str, values: ArrayLike) -> Floats:
    """Return `values` as a one-dimensional array of finite floats."""
    refuse_masked(name, values)
    try:
        sample = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"numbers as {name}", str(error), f"convert {name} to floats") from error
    if sample.ndim != 1 or not sample.size:
        raise InputError(
            f"{name} of shape (n,) with n at least 1",
            f"shape {sample.shape}",
            f"flatten {name} to one observation per entry",
        )
    missing = int(np.count_nonzero(~np.isfinite(sample)))
    if missing:
        raise InputError(
            f"finite {name}",
            f"NaN or infinity in {missing} of {sample.size} entries",
            "remove those observations, and say how many were removed",
        )
    return sample


def checked_pairs(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Return `x` and `y` as at least two pairs of finite floats."""
    first, second = checked_sample("x", x), checked_sample("y", y)
    if first.size != second.size or first.size < 2:
        raise InputError(
            "at least two pairs, x and y of one length",
            f"{first.size} values of x and {second.size} of y",
            "give one y for each x, in the same order",
        )
    return first, second


def checked_weights(weights: ArrayLike, size: int) -> Floats:
    """Return `weights` as (..., size) floats, non-negative, with a positive sum per row."""
    refuse_masked("weights", weights)
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


def checked_labels(
    name: str, labels: ArrayLike, size: int | None = None
) -> tuple[NDArray[np.generic], Indices]:
    """Return the distinct labels in order, and for each entry the number of its label."""
    refuse_masked(name, labels)
    array = np.asarray(labels)
    if array.ndim != 1 or (size is not None and array.size != size) or not array.size:
        raise InputError(
            f"{name} of shape ({'n' if size is None else size},), one label per observation",
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
            "convert the labels to strings or integers and drop the missing ones",
        )
    return names, label_of


def weighted_mean(values: ArrayLike, weights: ArrayLike) -> Floats:
    r"""Mean of the sample in which observation `i` occurs ``weights[..., i]`` times.

    .. math:: \bar x = \sum_i w_i x_i \Big/ \sum_i w_i

    Parameters
    ----------
    values : array_like, shape (n,)
        The observations.
    weights : array_like, shape (..., n)
        Non-negative weights with a positive sum in each row, one row per draw.

    Returns
    -------
    ndarray, shape (...)
        One mean per row.

    Examples
    --------
    >>> weighted_mean([1.0, 4.0], [[1, 1], [2, 1]])
    array([2.5, 2. ])
    """
    sample = checked_sample("values", values)
    return np.asarray(_mean(sample, checked_weights(weights, sample.size)))


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
        Non-negative integer counts with a positive sum in each row, one row per draw.
    q : float
        The probability, between 0 and 1; 0.5 is the median.

    Returns
    -------
    ndarray, shape (...)
        One quantile per row.

    Examples
    --------
    >>> weighted_quantile([1.0, 4.0], [[1, 1], [2, 1]], 0.5)
    array([2.5, 1. ])
    """
    sample = checked_sample("values", values)
    counts = checked_weights(weights, sample.size)
    if np.any(counts != np.floor(counts)):
        raise InputError(
            "integer counts as weights, because ranks count observations",
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
        Non-negative weights with a positive sum in each row, one row per draw.

    Returns
    -------
    ndarray, shape (...)
        One correlation per row, in [-1, 1].

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
    first, second = checked_pairs(x, y)
    counts = checked_weights(weights, first.size)
    first, second = deviations("x", first, counts), deviations("y", second, counts)
    covariance = np.vecdot(counts * first, second)
    variances = np.vecdot(counts * first, first) * np.vecdot(counts * second, second)
    # Rounding can carry a perfect correlation one unit in the last place past 1.
    return np.asarray(np.clip(covariance / np.sqrt(variances), -1.0, 1.0))


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


def deviations(name: str, values: Floats, weights: Floats) -> Floats:
    """Deviations from each row's mean, in units of the row's range: shape (..., n)."""
    drawn = weights > 0
    low = np.where(drawn, values, np.inf).min(axis=-1, keepdims=True)
    high = np.where(drawn, values, -np.inf).max(axis=-1, keepdims=True)
    constant = int(np.count_nonzero(low == high))
    if constant:
        raise InputError(
            f"{name} that varies, because the correlation with a constant is 0/0",
            f"constant {name} in {constant} of {low.size} rows of weights",
            "leave the constant out, or use more clusters so that no draw is constant",
        )
    # On the scale where the range is [0, 1] a variance can neither underflow nor be
    # mere rounding. Values outside the range have no weight; clipping keeps them finite.
    unit = (np.clip(values, low, high) - low) / (high - low)
    deviations: Floats = unit - _mean(unit, weights)[..., None]
    return deviations


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
    first, second = checked_pairs(x, y)
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
    The trend between the groups is positive, the one within them negative:

    >>> pearson_within([0, 1, 10, 11], [1, 0, 11, 10], ["a", "a", "b", "b"])
    -1.0
    """
    first, second = checked_pairs(x, y)
    _, group_of = checked_labels("groups", groups, first.size)
    centered = {"x": _centered(first, group_of), "y": _centered(second, group_of)}
    for name, deviations in centered.items():
        if not deviations.any():
            raise InputError(
                f"{name} that varies inside at least one group",
                f"{name} constant inside every group",
                "check that groups are not one label per pair, or use pearson without groups",
            )
    return pearson(centered["x"], centered["y"])


def _centered(values: Floats, group_of: Indices) -> Floats:
    """Subtract from each value the mean of its group."""
    # From the group's minimum, so that a constant group is exactly zero: the rounding
    # of 0.1 - mean(0.1, 0.1, 0.1) would otherwise pass for variation.
    low = np.full(group_of.max() + 1, np.inf)
    np.minimum.at(low, group_of, values)
    shifted = values - low[group_of]
    means = np.bincount(group_of, shifted) / np.bincount(group_of)
    centered: Floats = shifted - means[group_of]
    return centered

"""Statistics of a sample in which every observation occurs as often as its count says.

A bootstrap resample is fully described by *how often each observation was taken*. So nothing
is copied: a draw is a row of counts, a statistic takes counts of shape ``(..., n)``, and all
draws go through one array expression. Each statistic equals the plain one of the sample in
which every observation is repeated as often as its count says.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError
from twoaxis.statistics.checks import checked_pairs, checked_sample, checked_weights

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


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
    sample = checked_sample("values", values)
    counts = checked_weights(weights, sample.size)
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
            f"{name} that varies, for the correlation with a constant is 0/0",
            f"constant {name} in {constant} of {low.size} rows of weights",
            "leave the constant out, or resample more clusters so that no draw is of one value",
        )
    # On the scale where the range is [0, 1] a variance can neither underflow nor be
    # mere rounding. Values outside the range have no weight; clipping keeps them finite.
    unit = (np.clip(values, low, high) - low) / (high - low)
    deviations: Floats = unit - _mean(unit, weights)[..., None]
    return deviations

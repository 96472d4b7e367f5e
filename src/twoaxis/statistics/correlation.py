"""Pearson correlations, plain and within groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError
from twoaxis.statistics.checks import checked_labels, checked_pairs
from twoaxis.statistics.weighted import weighted_pearson

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


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
    The trend between the groups runs upwards, the one inside them downwards:

    >>> pearson_within([0, 1, 10, 11], [1, 0, 11, 10], ["a", "a", "b", "b"])
    -1.0
    """
    first, second = checked_pairs(x, y)
    _, group_of = checked_labels("groups", groups, first.size)
    centred = {"x": _centred(first, group_of), "y": _centred(second, group_of)}
    for name, deviations in centred.items():
        if not deviations.any():
            raise InputError(
                f"{name} that varies inside at least one group",
                f"{name} constant inside every group",
                "check that groups are not one label a pair, or use pearson without groups",
            )
    return pearson(centred["x"], centred["y"])


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

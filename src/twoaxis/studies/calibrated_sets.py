r"""Sets around an estimate whose size is calibrated on other noise: coverage and width.

Around an estimate :math:`A` of the log-parameter stands the set :math:`A \pm h`. Without
calibration :math:`h = z_{(1 + c)/2}\,\sigma` for a coverage :math:`c`. Calibrated,
:math:`h = T u` in a unit :math:`u` (one, or the standard error :math:`\sigma`), where :math:`T`
is an order statistic of :math:`|A - q^\star| / u` over the cases of the other half of the noise
replicas. Cases are rows of a table: ``half`` is 0 or 1, ``sigma`` the standard error, and a
column for each kind of estimate holds :math:`A - q^\star`.

Everything takes counts of shape (draws, cases), as a bootstrap makes them, and calibrates anew
in every draw.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

FloatArray = NDArray[np.float64]

TARGET = 0.9


@dataclass(frozen=True)
class Construction:
    """One way to put a set around an estimate.

    Attributes
    ----------
    name : str
    centre : str
        The column of the cases that holds the estimate less the truth.
    relative : bool
        Whether half-widths are multiples of the standard error.
    within : tuple of str
        Columns of the cases: those that agree in all of them are calibrated together. Nothing
        is calibrated without any.
    """

    name: str
    centre: str
    relative: bool
    within: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Estimate and name in one word."""
        return f"{self.centre}_{self.name}"


def calibrated(scores: FloatArray, counts: FloatArray) -> FloatArray:
    r"""Return the score of rank :math:`\lceil .9\,(n + 1) \rceil`, or the largest, in each draw.

    Parameters
    ----------
    scores : array, shape (n,)
        Of the calibration cases.
    counts : array, shape (draws, n)
        How often each case occurs; the rank counts every occurrence.
    """
    order = np.argsort(scores)
    reached = np.cumsum(counts[:, order], axis=1)
    cases = reached[:, -1]
    # A product that is a whole number may come out a rounding above it.
    rank = np.minimum(np.ceil(TARGET * (cases + 1) - 1e-9), cases)
    found: FloatArray = scores[order][np.count_nonzero(reached < rank[:, None], axis=1)]
    return found


def half_widths(cases: pd.DataFrame, how: Construction, counts: FloatArray) -> FloatArray:
    """Return the half-width of every case's set in every draw, shape (draws, cases)."""
    unit = cases["sigma"].to_numpy() if how.relative else np.ones(len(cases))
    if not how.within:
        return np.broadcast_to(norm.ppf((1 + TARGET) / 2) * unit, counts.shape)
    scores, half = np.abs(cases[how.centre].to_numpy()) / unit, cases["half"].to_numpy()
    widths = np.empty(counts.shape)
    for members in cases.groupby(list(how.within)).indices.values():
        for evaluated in (0, 1):
            inside = members[half[members] == evaluated]
            others = members[half[members] != evaluated]
            factor = calibrated(scores[others], counts[:, others])
            widths[:, inside] = factor[:, None] * unit[inside]
    return widths


def covered_percent(cases: pd.DataFrame, how: Construction, counts: FloatArray) -> FloatArray:
    """Return 100 for every set that holds the truth and 0 for the others, (draws, cases)."""
    inside = np.abs(cases[how.centre].to_numpy()) <= half_widths(cases, how, counts)
    return np.where(inside, 100.0, 0.0)


def width_percent(cases: pd.DataFrame, how: Construction, counts: FloatArray) -> FloatArray:
    r"""Return :math:`100\,(e^{A + h} - e^{A - h})/p^\star` for every set, (draws, cases)."""
    half = half_widths(cases, how, counts)
    width: FloatArray = 200 * np.exp(cases[how.centre].to_numpy()) * np.sinh(half)
    return width


def inflation(cases: pd.DataFrame, how: Construction, counts: FloatArray) -> FloatArray:
    """Return the half-width in standard errors, averaged over the two halves, for every draw."""
    factor = half_widths(cases, how, counts) / cases["sigma"].to_numpy()
    half = cases["half"].to_numpy()
    found: FloatArray = sum(factor[:, half == k].mean(axis=1) for k in (0, 1)) / 2
    return found


def average(values: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the mean over the cases, for every draw, of values (draws, cases)."""
    mean: FloatArray = np.vecdot(values, counts) / counts.sum(axis=1)
    return mean

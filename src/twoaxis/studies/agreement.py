"""How well one reading of a field agrees with another: what several blocks report alike."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from twoaxis.statistics import weighted_mean, weighted_pearson
from twoaxis.studies.block import Figure, Resampling

FloatArray = NDArray[np.float64]


def correlation(sample: Resampling, x: ArrayLike, y: ArrayLike) -> Figure:
    """Return the Pearson correlation with its bootstrap."""
    first, second = np.asarray(x, float), np.asarray(y, float)
    return sample.figure(lambda weights: weighted_pearson(first, second, weights))


def correlation_within(sample: Resampling, x: ArrayLike, y: ArrayLike, groups: ArrayLike) -> Figure:
    """Return the correlation after each group's mean was subtracted; means stay those of all."""
    return correlation(sample, centred(x, groups), centred(y, groups))


def centred(values: ArrayLike, groups: ArrayLike) -> FloatArray:
    """Return values minus the mean of their group."""
    series = pd.Series(np.asarray(values, float))
    return (series - series.groupby(np.asarray(groups)).transform("mean")).to_numpy()


def mean(sample: Resampling, values: ArrayLike) -> Figure:
    """Return the mean with its bootstrap."""
    array = np.asarray(values, float)
    return sample.figure(lambda weights: weighted_mean(array, weights))


def mean_difference(sample: Resampling, x: ArrayLike, y: ArrayLike) -> Figure:
    """Return the mean absolute difference, in the units of both."""
    return mean(sample, np.abs(np.asarray(x, float) - np.asarray(y, float)))


def count(sample: Resampling, true: ArrayLike) -> Figure:
    """Return how many are true; under resampling, the share times the number."""
    array = np.asarray(true, float)
    figure = mean(sample, array)
    draws = None if figure.draws is None else figure.draws * len(array)
    return Figure(float(array.sum()), draws)


def same_direction(x: ArrayLike, y: ArrayLike) -> NDArray[np.bool_]:
    """Tell where two displacements have one sign; exactly zero counts as no direction."""
    agree: NDArray[np.bool_] = np.asarray(x, float) * np.asarray(y, float) > 0
    return agree

"""Figures with a cluster bootstrap: the statistics that blocks report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError
from twoaxis.statistics import (
    bootstrap_estimates,
    weighted_mean,
    weighted_pearson,
    weighted_quantile,
)
from twoaxis.studies.scale import Scale

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Figure:
    """One number that a block reports.

    Attributes
    ----------
    value : float
    draws : array, optional
        The same number under resampling of clusters.
    ends : tuple of float, optional
        The range that rounding leaves open, where the number rests on rounded ones.
    """

    value: float
    draws: FloatArray | None = None
    ends: tuple[float, float] | None = None


class Resampling:
    """A percentile cluster bootstrap with the published unit, draws and base seed.

    Parameters
    ----------
    clusters : array_like, shape (n,)
        The unit that is drawn, for each observation.
    draws, seed : int
        As published.
    scale : Scale
        May ask for fewer draws.
    strata : array_like, shape (n,), optional
        Each stratum redraws its own clusters.
    """

    def __init__(
        self,
        clusters: ArrayLike,
        draws: int,
        seed: int,
        scale: Scale,
        strata: ArrayLike | None = None,
    ) -> None:
        self._clusters, self._seed, self._strata = np.asarray(clusters), seed, strata
        self._draws = min(draws, scale.most_draws)

    def figure(self, statistic: Callable[[FloatArray], Any]) -> Figure:
        """Return a statistic of weights (..., n), with its bootstrap draws.

        Where a draw has no value, such as a correlation within a single cluster, the figure has
        no draws. A correlation with a constant does not exist: it is NaN, shown as undefined.
        """
        try:
            value = float(np.asarray(statistic(np.ones((1, len(self._clusters)))))[0])
        except InputError:
            return Figure(float("nan"))
        try:
            draws = bootstrap_estimates(
                statistic, self._clusters, draws=self._draws, seed=self._seed, strata=self._strata
            )
        except InputError:
            return Figure(value)
        return Figure(value, draws)


def labels(rows: pd.DataFrame, *columns: str) -> list[str]:
    """Return one text for each row that joins the given columns: the name of its cluster."""
    return ["|".join(map(str, values)) for values in rows[list(columns)].itertuples(index=False)]


def correlation(sample: Resampling, x: ArrayLike, y: ArrayLike) -> Figure:
    """Return the Pearson correlation with its bootstrap."""
    first, second = np.asarray(x, float), np.asarray(y, float)
    return sample.figure(lambda weights: weighted_pearson(first, second, weights))


def correlation_within(sample: Resampling, x: ArrayLike, y: ArrayLike, groups: ArrayLike) -> Figure:
    """Return the correlation after each group's mean was subtracted; means stay those of all."""
    return correlation(sample, centered(x, groups), centered(y, groups))


def centered(values: ArrayLike, groups: ArrayLike) -> FloatArray:
    """Return values minus the mean of their group."""
    series = pd.Series(np.asarray(values, float))
    return (series - series.groupby(np.asarray(groups)).transform("mean")).to_numpy()


def mean(sample: Resampling, values: ArrayLike) -> Figure:
    """Return the mean with its bootstrap."""
    array = np.asarray(values, float)
    return sample.figure(lambda weights: weighted_mean(array, weights))


def median(sample: Resampling, values: ArrayLike) -> Figure:
    """Return the median with its bootstrap."""
    array = np.asarray(values, float)
    return sample.figure(lambda weights: weighted_quantile(array, weights, 0.5))


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
    """Return where two displacements have the same sign; zero has no direction."""
    agree: NDArray[np.bool_] = np.asarray(x, float) * np.asarray(y, float) > 0
    return agree

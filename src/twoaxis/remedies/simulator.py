r"""The user's simulator and noise: simulated datasets at any parameter.

A simulated dataset is :math:`y = G(q) + L z`: the forward model at a parameter, restricted to the
observed entries, plus standard normal noise :math:`z` times the factor :math:`L` of the noise
covariance. All parameters share the same draws :math:`z`, so that only the parameter differs.

Where real data are known, nuisance parameters can be fitted to them at any value of the others
(`Simulator.fitted`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.arrays import check_seed, is_integer
from twoaxis.datasets import standard_noise
from twoaxis.errors import InputError
from twoaxis.forward import ForwardModel
from twoaxis.labels import Labels, aligned, first_labels
from twoaxis.observations import Whitener
from twoaxis.parameters import Parameters
from twoaxis.resolution.direct_fit import DirectEstimator
from twoaxis.resolution.fisher import STEP
from twoaxis.resolution.layouts import (
    WhitenedLayout,
    check_order,
    checked_layouts,
    checked_noise,
)

FloatArray = NDArray[np.float64]

# The largest number of replicas, candidates, sites and the like.
MOST_COUNT = 1_000_000
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

LAYOUT = "observed"
# Simulated datasets are held together, up to this many gigabytes.
VALUES_LIMIT = 4.0
# Unit of the differences by which a fit is linearized, as a share of the size of a coordinate, and
# the least size of one, as a share of its range.
DIFFERENCE_SHARE, SMALLEST_SIZE = 0.1, 1e-3
# Keeps the seeds of the pipeline apart from the noise of the same seed.
PIPELINE_STREAM = 1


@dataclass(frozen=True, eq=False)
class Simulator:
    """A forward model, what is observed of it, and its noise.

    Attributes
    ----------
    model : ForwardModel
        Restricted to the observed entries, in the order of the layout.
    sites : array of int, shape (n,)
        Flat indices into the output of the forward model.
    white : Whitener
        Of the noise at these sites.
    labels : Labels, optional
        Of what the forward model returns, or of the noise in the same shape.
    """

    model: ForwardModel
    sites: NDArray[np.intp]
    white: Whitener
    labels: Labels | None = None

    @property
    def factor(self) -> FloatArray:
        """Standard deviations (n,) of the noise, or a factor (n, n) of its covariance."""
        return self.white.factor

    def color(self, draws: FloatArray) -> FloatArray:
        """Return standard normal noise, shape (R, n), as noise of this observation."""
        return draws * self.factor if self.factor.ndim == 1 else draws @ self.factor.T

    def simulate(self, coordinates: FloatArray, draws: FloatArray) -> tuple[FloatArray, list[str]]:
        """Simulate every parameter under every draw.

        Parameters
        ----------
        coordinates : array, shape (K, d)
        draws : array, shape (R, n)
            Standardised noise.

        Returns
        -------
        values : array, shape (K, R, n)
        reasons : list of str
            Why a parameter could not be simulated; empty where it could.
        """
        clean, reasons = self.model(coordinates)
        return clean[:, None] + self.color(draws), reasons

    def fitted(self, observed: FloatArray, starts: FloatArray, free: BoolArray) -> FloatArray:
        """Fit the free coordinates to observed values, with the others held.

        Parameters
        ----------
        observed : array, shape (n,)
        starts : array, shape (S, K, d)
            Coordinates of K points, from S starts each; the lowest misfit counts.
        free : array of bool, shape (d,)

        Returns
        -------
        array, shape (K, d)
            Where the model fails from every start, the first one.
        """
        count, points, dimension = starts.shape
        begin = starts.reshape(-1, dimension)
        size = len(self.sites)
        base = self.white(self.model.center_values[self.sites])
        layout = WhitenedLayout(LAYOUT, self.sites, np.arange(size), self.white, base)
        units = DIFFERENCE_SHARE * self._sizes(starts[0])
        estimator = DirectEstimator(
            model=self.model,
            center=starts[0, 0],
            units=units,
            steps=STEP * units,
            seeds=np.empty((0, dimension)),
            seed_predictions=np.empty((0, size)),
            starts=1,
            failures=[],
        )
        rows = np.broadcast_to(layout.row(observed), (count * points, len(observed)))
        found = estimator.refit(layout, rows, begin, np.broadcast_to(free, begin.shape))
        best = found.chi2.reshape(count, points).argmin(axis=0)
        return np.asarray(found.q.reshape(starts.shape)[best, np.arange(points)])

    def _sizes(self, starts: FloatArray) -> FloatArray:
        """Return how large the coordinates are: bounds may be much wider than any of their values.

        Log coordinates have no size but that of their range.
        """
        known = self.model.parameters
        ranges = np.ptp(known.coordinate_bounds, axis=0)
        linear = np.array([p.coordinate == "linear" for p in known.values()])
        values = np.clip(np.abs(starts).max(axis=0), SMALLEST_SIZE * ranges, ranges)
        return np.asarray(np.where(linear, values, ranges))

    def observed(self, data: ArrayLike) -> FloatArray:
        """Return observed values in the order of the layout."""
        known = self.labels
        array = aligned("data", data, None if known is None else known.at(self.sites), known)
        fix = "list the layout in the order of forward, and the data with it"
        check_order(array, self.model.shape, self.sites, fix)
        if array.shape == self.sites.shape:
            values = array
        elif array.shape == self.model.shape:
            values = array.ravel()[self.sites]
        else:
            raise InputError(
                f"data as the {len(self.sites)} observed values, or in the shape "
                f"{self.model.shape} of forward's output",
                f"the shape {array.shape}",
                "list the values in the order of the layout's indices",
            )
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise InputError(
                "finite observations",
                f"{bad.size} not finite, the first at position {bad[0]}",
                "leave missing sites out of the layout",
            )
        return values


def build_simulator(
    forward: Callable[..., Any],
    parameters: Parameters,
    noise: ArrayLike,
    layout: ArrayLike | None,
    center: Mapping[str, float],
    vectorized: bool,
) -> Simulator:
    """Check the forward model at `center`, the layout and the noise."""
    model = ForwardModel(forward, parameters, center, vectorized=vectorized)
    named = None if layout is None else {LAYOUT: layout}
    ((name, sites),) = checked_layouts(named, model.size).items()
    labels = model.labels or first_labels(model.shape, {"noise": noise})
    known = checked_noise(noise, model.shape, labels)
    model.observe(sites)
    return Simulator(model, sites, known.whitener(sites, name), labels)


def noise_draws(
    seed: int | Sequence[int], replicas: int, count: int, parameters: int = 1
) -> FloatArray:
    """Return standard normal noise, shape (replicas, count), as `twoaxis.resolve` draws it.

    Before that, see whether datasets of so many parameters would fit into memory.
    """
    check_seed(seed)
    gigabytes = 8e-9 * parameters * replicas * count
    if gigabytes > VALUES_LIMIT:
        raise InputError(
            f"simulated datasets that fit in {VALUES_LIMIT:g} GB of memory",
            f"{parameters} parameters with {replicas} replicas of {count} values each, "
            f"{gigabytes:.3g} GB",
            "ask for fewer candidates or replicas, or observe fewer entries",
        )
    return standard_noise(seed, replicas, count)


def pipeline_seeds(seed: int | Sequence[int], count: int) -> IntArray:
    """Return seeds for the pipeline: number 0 for real data, the others for the replicas."""
    check_seed(seed)
    sequence = np.random.SeedSequence([*map(int, np.atleast_1d(seed)), PIPELINE_STREAM])
    # Below 2**31, which every library takes.
    return (sequence.generate_state(count + 1) >> 1).astype(np.int64)


def check_count(name: str, value: Any, least: int) -> int:
    """Return an integer of at least `least`, and not so many that no memory holds them."""
    if not is_integer(value) or not least <= value <= MOST_COUNT:
        raise InputError(
            f"{name} as an integer from {least} to {MOST_COUNT}",
            f"{name}={value!r}",
            f"pass {name}={least} or more",
        )
    return int(value)

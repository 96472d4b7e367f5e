"""Matched fits with the forward model itself: several parameters, or on request one.

Every dataset is fitted by nonlinear least squares from several starting points: the center, and
the best of a fixed set of points that fills the parameter bounds (a Halton sequence). The model
is solved at those points once for all datasets, so that further starts cost little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from twoaxis.forward import ForwardModel
from twoaxis.least_squares import GAIN_ATOL, Minimum, minimize
from twoaxis.progress import Advance
from twoaxis.resolution.fisher import STEP, sensitivities
from twoaxis.resolution.layouts import WhitenedLayout
from twoaxis.resolution.matched_fit import Fits, deviance_limit, joined

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.intp]

# Datasets are fitted in portions: a step of the progress bar, and a bound on memory.
ROWS_AT_ONCE = 16
# Points of the profile between an estimate and a bound, at which the end of a set is looked for.
PROFILE_POINTS = 16
# Starting points that fill the bounds, per parameter; they are solved once for all datasets.
SEEDS = 64
# Two starts found the same minimum when their chi2 differ by less than this.
SAME_MINIMUM = 1e-3


@dataclass(frozen=True)
class DirectEstimator:
    """The matched Gaussian maximum-likelihood estimator by nonlinear least squares.

    Attributes
    ----------
    model : ForwardModel
    center : array, shape (d,)
        Coordinates of the point the replicas are simulated at.
    units : array, shape (d,)
        The step in each coordinate that stands for 100%.
    level : float
        Confidence level of the likelihood-profile sets.
    seeds : array, shape (S, d)
        Starting points that fill the bounds.
    seed_predictions : array, shape (S, entries)
        Predictions at these points.
    starts : int
        Number of starts of each dataset, the center included.
    failures : list
        Starting points at which the model failed, each with its reason.
    """

    model: ForwardModel
    center: FloatArray
    units: FloatArray
    level: float
    seeds: FloatArray
    seed_predictions: FloatArray
    starts: int
    failures: list[tuple[dict[str, float], str]]
    method: str = "direct"

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper coordinate bounds, each of shape (d,)."""
        return self.model.parameters.coordinate_bounds

    def fit(self, layout: WhitenedLayout, rows: FloatArray, advance: Advance | None = None) -> Fits:
        """Fit rows of whitened deviations from the center."""
        portions = []
        for start in range(0, len(rows), ROWS_AT_ONCE):
            portion = rows[start : start + ROWS_AT_ONCE]
            portions.append(self._fit(layout, portion))
            if advance is not None:
                advance(len(portion))
        return joined(portions)

    def _fit(self, layout: WhitenedLayout, rows: FloatArray) -> Fits:
        starts = self._starts(layout, rows)  # (R, S, d)
        count, number, dimension = starts.shape
        owner = np.repeat(np.arange(count), number)
        # Each start goes far enough to tell minima apart; the best then goes all the way.
        rough = self.refit(
            layout, rows[owner], starts.reshape(-1, dimension), gain_atol=SAME_MINIMUM / 10
        )
        chi2 = rough.chi2.reshape(count, number)
        best = np.arange(count) * number + chi2.argmin(axis=1)
        found = self.refit(layout, rows, rough.q[best])
        held, found = self._held_at_center(layout, rows, found)
        estimate, lowest = found.q, found.chi2
        low, high = self.bounds
        return Fits(
            estimate=estimate,
            chi2=lowest,
            on_bound=(estimate <= low) | (estimate >= high),
            converged=found.converged,
            deviance=held,
            joint_deviance=np.maximum(self._chi2_at_center(layout, rows) - lowest, 0.0),
            agreeing_starts=(chi2 <= lowest[:, None] + SAME_MINIMUM).sum(axis=1),
            center_won=chi2[:, 0] <= lowest + SAME_MINIMUM,
        )

    def sets(self, layout: WhitenedLayout, rows: FloatArray, fits: Fits) -> Fits:
        """Add the ends of each parameter's likelihood-profile set, refitting the others."""
        ends = np.empty((2, *fits.estimate.shape))
        is_open = np.zeros((2, *fits.estimate.shape), dtype=bool)
        low, high = self.bounds
        for row in range(len(rows)):
            for j in range(len(self.center)):
                for side, bound in ((0, low[j]), (1, high[j])):
                    ends[side, row, j], is_open[side, row, j] = self._set_end(
                        layout, rows[row], fits.estimate[row], fits.chi2[row], j, bound
                    )
        return replace(
            fits, lower=ends[0], upper=ends[1], open_lower=is_open[0], open_upper=is_open[1]
        )

    def predict(self, layout: WhitenedLayout, coordinates: FloatArray) -> FloatArray:
        """Whitened deviations at one point."""
        (deviations,) = layout.deviations(self.model(coordinates[None]).values)
        return np.asarray(deviations)

    def linearize(
        self, layout: WhitenedLayout, coordinates: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Whitened deviations and their derivative at one point."""
        value = self.predict(layout, coordinates)
        slope = sensitivities(self.model, coordinates, self.units).slope
        return value, layout.white(slope.T[:, layout.columns]).T

    def _starts(self, layout: WhitenedLayout, rows: FloatArray) -> FloatArray:
        """Return the center and the best seeds of every row, shape (R, starts, d).

        A seed close to a better one would lead to the same minimum and is skipped.
        """
        center = np.broadcast_to(self.center, (len(rows), 1, len(self.center)))
        if not len(self.seeds):
            return center.copy()
        deviations = layout.deviations(self.seed_predictions)
        misfit = np.sum(deviations**2, axis=1) - 2 * rows @ deviations.T
        low, high = self.bounds
        place = (self.seeds - low) / (high - low)
        near = np.abs(place[:, None] - place).max(axis=-1) < len(place) ** (-1 / place.shape[1])
        chosen = [center]
        for _ in range(min(self.starts - 1, len(self.seeds))):
            best = misfit.argmin(axis=1)
            chosen.append(self.seeds[best][:, None])
            misfit = np.where(near[best], np.inf, misfit)
        return np.concatenate(chosen, axis=1)

    def refit(
        self,
        layout: WhitenedLayout,
        rows: FloatArray,
        start: FloatArray,
        free: BoolArray | None = None,
        gain_atol: float = GAIN_ATOL,
    ) -> Minimum:
        """Fit each row from one start, (R, d); coordinates that are not free, (R, d), stay."""
        moving = np.broadcast_to(np.True_ if free is None else free, start.shape)
        # A value that is held may lie outside the bounds: it was asked for.
        low, high = (
            np.where(moving.any(axis=0), bound, wider)
            for bound, wider in zip(
                self.bounds, (start.min(axis=0), start.max(axis=0)), strict=True
            )
        )

        def misfit(q: FloatArray, which: IndexArray) -> FloatArray:
            return rows[which] - layout.deviations(self.model(q).values)

        def sensitivity(q: FloatArray, r: FloatArray, which: IndexArray) -> FloatArray:
            here = rows[which] - r
            slopes = np.zeros((*here.shape, q.shape[1]))
            for j in range(q.shape[1]):
                moved = moving[which, j]
                if moved.any():
                    slopes[moved, :, j] = self._slope(layout, q[moved], here[moved], j, low, high)
            return slopes

        return minimize(misfit, sensitivity, start, low, high, moving, gain_atol)

    def _slope(
        self,
        layout: WhitenedLayout,
        q: FloatArray,
        here: FloatArray,
        j: int,
        low: FloatArray,
        high: FloatArray,
    ) -> FloatArray:
        """Return centered differences along j, one-sided at a bound or beside a failure."""
        ahead, behind = q.copy(), q.copy()
        ahead[:, j] = np.minimum(q[:, j] + STEP * self.units[j], high[j])
        behind[:, j] = np.maximum(q[:, j] - STEP * self.units[j], low[j])
        both = layout.deviations(self.model(np.concatenate([ahead, behind])).values)
        above, below = both[: len(q)], both[len(q) :]
        for points, values in ((ahead, above), (behind, below)):
            failed = ~np.isfinite(values).all(axis=1)
            points[failed, j] = q[failed, j]
            values[failed] = here[failed]
        distance = ahead[:, j] - behind[:, j]
        # Where the model fails on both sides the data say nothing about this direction here.
        slope: FloatArray = (above - below) / np.where(distance > 0, distance, 1.0)[:, None]
        return slope

    def _chi2_at_center(self, layout: WhitenedLayout, rows: FloatArray) -> FloatArray:
        misfit = rows - layout.deviations(self.model(self.center[None]).values)
        total: FloatArray = np.einsum("rn,rn->r", misfit, misfit)
        return total

    def _held_at_center(
        self, layout: WhitenedLayout, rows: FloatArray, found: Minimum
    ) -> tuple[FloatArray, Minimum]:
        """Profile deviance of each parameter at the center, (R, d), and the minima.

        A refit with one parameter held may find a lower minimum than the free fit did; the free
        fit then continues from there.
        """
        if len(self.center) == 1:
            deviance = np.maximum(self._chi2_at_center(layout, rows) - found.chi2, 0.0)
            return deviance[:, None], found
        held = np.empty_like(found.q)
        for j in range(len(self.center)):
            start = found.q.copy()
            start[:, j] = self.center[j]
            free = np.arange(len(self.center)) != j
            refit = self.refit(layout, rows, start, free)
            held[:, j] = refit.chi2
            lower = np.flatnonzero(refit.chi2 < found.chi2 - SAME_MINIMUM)
            if lower.size:
                again = self.refit(layout, rows[lower], refit.q[lower])
                for old, new in zip(found, again, strict=True):
                    old[lower] = new
        return np.maximum(held - found.chi2[:, None], 0.0), found

    def _set_end(
        self,
        layout: WhitenedLayout,
        row: FloatArray,
        estimate: FloatArray,
        lowest: float,
        j: int,
        bound: float,
    ) -> tuple[float, bool]:
        """Outermost place where the profile of parameter j crosses the limit before `bound`."""
        free = np.arange(len(estimate)) != j
        limit = deviance_limit(self.level)

        def excesses(values: FloatArray) -> FloatArray:
            start = np.tile(estimate, (len(values), 1))
            start[:, j] = values
            data = np.broadcast_to(row, (len(values), len(row)))
            held = self.refit(layout, data, start, free).chi2
            # The model may fail far from the estimate; such a value lies outside the set.
            return np.where(np.isfinite(held), held - lowest - limit, 1e6)

        def excess(value: float) -> float:
            return float(excesses(np.array([value]))[0])

        if estimate[j] == bound:
            return bound, True
        # The set may have gaps: the profile is computed all the way to the bound, densely near
        # the estimate.
        far = bound - estimate[j]
        even = (
            PROFILE_POINTS if len(estimate) > 1 else 8 * PROFILE_POINTS
        )  # one parameter costs no refit
        shares = np.union1d(np.geomspace(1e-3, 1, PROFILE_POINTS), np.linspace(0, 1, even + 1)[1:])
        values = estimate[j] + far * shares
        inside = np.flatnonzero(excesses(values) < 0)
        outermost = int(inside[-1]) if inside.size else -1
        if outermost == len(values) - 1:
            return bound, True
        near = values[outermost] if outermost >= 0 else estimate[j]
        crossing = brentq(excess, near, values[outermost + 1], xtol=1e-6 * self.units[j])
        return float(crossing), False


def build_direct(
    model: ForwardModel,
    center: FloatArray,
    units: FloatArray,
    level: float,
    starts: int,
    advance: Advance | None = None,
) -> DirectEstimator:
    """Solve for the points that fill the bounds, and keep those at which the model works."""
    from scipy.stats import qmc  # loads slowly

    dimension = len(center)
    low, high = model.parameters.coordinate_bounds
    number = max(SEEDS * dimension, starts)
    fill = qmc.Halton(dimension, scramble=False).fast_forward(1)  # the first point is a corner
    seeds = qmc.scale(fill.random(number), low, high)
    values, reasons = model(seeds, advance)
    good = np.array([not reason for reason in reasons])
    failures = [
        (model.parameters.named(model.parameters.physical(q)), reason)
        for q, reason in zip(seeds, reasons, strict=True)
        if reason
    ]
    return DirectEstimator(
        model=model,
        center=center,
        units=units,
        level=level,
        seeds=seeds[good],
        seed_predictions=values[good],
        starts=min(starts, 1 + int(good.sum())),
        failures=failures,
    )

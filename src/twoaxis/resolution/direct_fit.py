"""Matched fits with the forward model itself: several parameters, or on request one.

Every dataset is fitted by nonlinear least squares from several starting points: the center, and
the best of a fixed set of points that fills the parameter bounds (a Halton sequence). The model
is solved at those points once for all datasets, so that further starts cost little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from twoaxis.forward import ForwardModel
from twoaxis.least_squares import GAIN_ATOL, Minimum, minimize
from twoaxis.progress import Advance
from twoaxis.resolution.fisher import sensitivities
from twoaxis.resolution.layouts import WhitenedLayout
from twoaxis.resolution.matched_fit import (
    Fits,
    joined,
    portions,
    profile_start,
    stacked_parts,
)

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.intp]

# Datasets are fitted in portions of at most this many: a step of the progress bar.
ROWS_AT_ONCE = 16
# Values between the estimate of one parameter and a bound, at which the end of a set is looked for.
SCANNED_POINTS = 128
# The end of a profile set of several parameters is found to this share of a standard error.
END_ATOL = 1e-4
# Refits along a profile stop when they would lower chi2 by less than this.
PROFILE_GAIN_ATOL = 1e-6
# Refits on the way to one end of a set; a few are enough where the profile is smooth.
MOST_STEPS = 60
# Starting points that fill the bounds, per parameter; they are solved once for all datasets.
SEEDS = 64
# Fewer of them where their predictions would take more values than this.
SEED_VALUES = 32_000_000
# Predictions for derivatives are held together, up to this many bytes.
SLOPES_MEMORY = 6.4e7
# Two starts found the same minimum when their chi2 differ by less than this.
SAME_MINIMUM = 1e-3
# Data with several minima are fitted from this many times as many starts, and then from twice as
# many again, until that finds no lower minimum.
MORE_STARTS = 4


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
    steps : array, shape (d,)
        Steps of the differences, as `twoaxis.resolution.fisher.sensitivities` chose them.
    seeds : array, shape (S, d)
        Starting points that fill the bounds.
    seed_predictions : array, shape (S, entries)
        Predictions at these points.
    starts : int
        Number of starts of each dataset, the center included.
    failures : list
        Starting points at which the model failed, each with its reason.
    several_minima : bool
        Whether fits of other datasets ended in several minima.
    """

    model: ForwardModel
    center: FloatArray
    units: FloatArray
    steps: FloatArray
    seeds: FloatArray
    seed_predictions: FloatArray
    starts: int
    failures: list[tuple[dict[str, float], str]]
    method: str = "direct"
    several_minima: bool = False

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper coordinate bounds, each of shape (d,)."""
        return self.model.parameters.coordinate_bounds

    def fit(self, layout: WhitenedLayout, rows: FloatArray, advance: Advance | None = None) -> Fits:
        """Fit rows of whitened deviations from the center."""
        found = []
        for portion in portions(rows, ROWS_AT_ONCE):
            found.append(multistart_fit(self, layout, portion, self.starts_of(layout, portion)))
            if advance is not None:
                advance(len(portion))
        return joined(found)

    def search(
        self, layout: WhitenedLayout, rows: FloatArray, advance: Advance | None = None
    ) -> Fits:
        """Fit data: like `fit`, from more starts where there are several minima.

        That is so where the starts end in different ones, or fits of other datasets did. There are
        then `MORE_STARTS` times as many, and twice as many again as long as a lower minimum turns
        up. A single start was asked for where there is only one.
        """
        fits = self.fit(layout, rows, advance)
        assert fits.minima_chi2 is not None  # of a multistart fit
        several = (fits.minima_chi2 > fits.chi2[:, None] + SAME_MINIMUM).any()
        if self.starts < 2 or not (several or self.several_minima):
            return fits
        number, count = self.starts, MORE_STARTS * self.starts
        while True:
            more = self.starts_of(layout, rows, count)[:, number:]
            if not more.shape[1]:
                return fits
            found = multistart_fit(self, layout, rows, more)
            lower = found.chi2 < fits.chi2 - SAME_MINIMUM
            fits = _lower_of(fits, found, lower)
            if not lower.any():
                return fits
            number, count = number + more.shape[1], 2 * count

    def sets(
        self,
        layout: WhitenedLayout,
        rows: FloatArray,
        fits: Fits,
        limit: float,
        advance: Advance | None = None,
    ) -> Fits:
        """Add the ends of each parameter's likelihood-profile set, refitting the others.

        The set holds the values whose deviance is below `limit`.

        One parameter needs no refit: its whole profile is computed. For several, the profile is
        followed outward from the estimate, from the width that the Fisher information predicts.
        That finds the connected set around the estimate. Other parts are found where a start of the
        fit ended in another minimum within the limit, or where a starting point itself lies within
        it; a part that neither has seen is not found. The ends are those of the hull of all parts.

        The progress bar advances by one for each end.
        """
        count, dimension = fits.estimate.shape
        low, high = self.bounds
        ends = np.empty((count, dimension, 2))
        is_open = np.zeros((count, dimension, 2), dtype=bool)
        parts: list[list[list[tuple[float, float]]]] = []
        for row in range(count):
            if dimension == 1:
                crossings: list[float] = []
                for side, bound in ((0, low[0]), (1, high[0])):
                    found, is_open[row, 0, side] = self._scanned_crossings(
                        layout, rows[row], fits.estimate[row, 0], fits.chi2[row] + limit, bound
                    )
                    ends[row, 0, side] = found[-1]
                    crossings += found
                    if advance is not None:
                        advance(1)
                crossings.sort()
                parts.append([list(zip(crossings[::2], crossings[1::2], strict=True))])
            else:
                ends[row], is_open[row], of_row = self._followed_ends(
                    layout, rows[row], fits, row, limit, advance
                )
                parts.append(of_row)
        return replace(
            fits,
            lower=ends[..., 0],
            upper=ends[..., 1],
            open_lower=is_open[..., 0],
            open_upper=is_open[..., 1],
            parts=stacked_parts(parts),
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

    def slope(self, layout: WhitenedLayout, coordinates: FloatArray) -> FloatArray:
        """Derivative of the whitened predictions at one point, one-sided beside a failure."""
        q, here = coordinates[None], self.predict(layout, coordinates)[None]
        every = np.ones_like(q, dtype=bool)
        (found,) = self._slopes(layout, q, here, every, *self.bounds)
        return np.asarray(found)

    def starts_of(
        self, layout: WhitenedLayout, rows: FloatArray, count: int | None = None
    ) -> FloatArray:
        """Return the center and the best seeds of every row, shape (R, starts, d).

        A seed close to a better one would lead to the same minimum and is skipped. There are fewer
        than `count` where no other seeds are left.
        """
        center = np.broadcast_to(self.center, (len(rows), 1, len(self.center)))
        if not len(self.seeds):
            return center.copy()
        misfit = self.seed_misfits(layout, rows)
        low, high = self.bounds
        place = (self.seeds - low) / (high - low)
        near = np.abs(place[:, None] - place).max(axis=-1) < len(place) ** (-1 / place.shape[1])
        chosen = [center]
        for _ in range((self.starts if count is None else count) - 1):
            if not np.isfinite(misfit).any():
                break
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
            return self._slopes(layout, q, rows[which] - r, moving[which], low, high)

        return minimize(misfit, sensitivity, start, low, high, moving, gain_atol)

    def _slopes(
        self,
        layout: WhitenedLayout,
        q: FloatArray,
        here: FloatArray,
        moving: BoolArray,
        low: FloatArray,
        high: FloatArray,
    ) -> FloatArray:
        """Return centered differences, (R, n, d), one-sided at a bound or beside a failure.

        They are zero along coordinates that do not move, (R, d). A vectorized model solves many
        of them at once.
        """
        slopes = np.zeros((*here.shape, q.shape[1]))
        every = np.argwhere(moving)
        for first in range(0, len(every), self._slopes_at_once):
            row, j = every[first : first + self._slopes_at_once].T
            pair = np.arange(len(row))
            ahead, behind = q[row], q[row]
            ahead[pair, j] = np.minimum(q[row, j] + self.steps[j], high[j])
            behind[pair, j] = np.maximum(q[row, j] - self.steps[j], low[j])
            both = layout.deviations(self.model(np.concatenate([ahead, behind])).values)
            above, below = both[: len(row)], both[len(row) :]
            for points, values in ((ahead, above), (behind, below)):
                failed = ~np.isfinite(values).all(axis=1)
                points[failed] = q[row[failed]]
                values[failed] = here[row[failed]]
            distance = ahead[pair, j] - behind[pair, j]
            # Where the model fails on both sides the data say nothing about this direction here.
            found = (above - below) / np.where(distance > 0, distance, 1.0)[:, None]
            slopes[row, :, j] = found
        return slopes

    @property
    def _slopes_at_once(self) -> int:
        return max(1, int(SLOPES_MEMORY / (16 * self.model.size)))

    def seed_misfits(self, layout: WhitenedLayout, rows: FloatArray) -> FloatArray:
        """Return chi2 of rows (R, n) at the starting points, less that of a row itself, (R, S)."""
        found = []
        for part in portions(self.seed_predictions, SEEDS):
            deviations = layout.deviations(part)
            found.append(np.sum(deviations**2, axis=1) - 2 * rows @ deviations.T)
        return np.concatenate(found, axis=1)

    def _scanned_crossings(
        self, layout: WhitenedLayout, row: FloatArray, estimate: float, highest: float, bound: float
    ) -> tuple[list[float], bool]:
        """Return where chi2 of one parameter crosses `highest`, from the estimate to `bound`.

        And whether the set reaches the bound, which is then the last of them.
        """

        def chi_squares(points: FloatArray) -> FloatArray:
            misfit = row - layout.deviations(self.model(points).values)
            return np.asarray(np.einsum("vn,vn->v", misfit, misfit))

        def excesses(values: FloatArray) -> FloatArray:
            parts = portions(values[:, None], self._slopes_at_once)
            chi2 = np.concatenate([chi_squares(part) for part in parts])
            # The model may fail far from the estimate; such a value lies outside the set.
            return np.where(np.isfinite(chi2), chi2 - highest, 1e6)

        if estimate == bound:
            return [bound], True
        # The set may have gaps: chi2 is computed all the way to the bound, densely near the
        # estimate.
        near = np.geomspace(1e-3, 1, SCANNED_POINTS // 8)
        shares = np.union1d(near, np.linspace(0, 1, SCANNED_POINTS + 1)[1:])
        values = estimate + (bound - estimate) * shares
        inside = np.append(True, excesses(values) < 0)
        values = np.append(estimate, values)
        crossings = [
            float(
                brentq(
                    lambda value: float(excesses(np.array([value]))[0]),
                    values[k],
                    values[k + 1],
                    xtol=1e-10 * abs(bound - estimate),
                )
            )
            for k in np.flatnonzero(inside[1:] != inside[:-1])
        ]
        is_open = bool(inside[-1])
        return crossings + [bound] * is_open, is_open

    def _followed_ends(
        self,
        layout: WhitenedLayout,
        row: FloatArray,
        fits: Fits,
        number: int,
        limit: float,
        advance: Advance | None,
    ) -> tuple[FloatArray, BoolArray, list[list[tuple[float, float]]]]:
        """Ends of the profile sets of one row, (d, 2), whether they reach a bound, and parts."""
        estimate, lowest = fits.estimate[number], float(fits.chi2[number])
        target = lowest + limit
        column, side = np.divmod(np.arange(2 * len(estimate)), 2)
        side = 2 * side - 1
        origin = np.tile(estimate, (len(side), 1))
        ends, is_open = self._follow(
            layout, row, origin, np.full(len(side), lowest), column, side, target, advance
        )
        parts = [[(low, high)] for low, high in ends.reshape(-1, 2).tolist()]
        # Other points that are known to lie within the limit may lead farther out.
        known, chi2 = self._known_points(layout, row, fits, number)
        known, chi2 = known[chi2 < target], chi2[chi2 < target]
        if len(known):
            outermost = (side * known[:, column]).argmax(axis=0)
            beyond = np.flatnonzero(side * (known[outermost, column] - ends) > 0)
            if beyond.size:
                start = outermost[beyond]
                # Outward to the end of the set, and back to where this part of it begins.
                both = np.concatenate([side[beyond], -side[beyond]])
                found, reaches = self._follow(
                    layout, row, np.tile(known[start], (2, 1)), np.tile(chi2[start], 2),
                    np.tile(column[beyond], 2), both, target,
                )  # fmt: skip
                outer, inner = np.split(found, 2)
                ends[beyond], is_open[beyond] = outer, np.split(reaches, 2)[0]
                for j, one, other in zip(column[beyond].tolist(), inner, outer, strict=True):
                    parts[j].append((float(min(one, other)), float(max(one, other))))
            for j, part in enumerate(parts):
                self._add_parts(layout, row, j, part, known, chi2, target)
        return ends.reshape(-1, 2), is_open.reshape(-1, 2), parts

    def _add_parts(
        self,
        layout: WhitenedLayout,
        row: FloatArray,
        column: int,
        parts: list[tuple[float, float]],
        known: FloatArray,
        chi2: FloatArray,
        target: float,
    ) -> None:
        """Add the parts of one parameter's set around known points that lie in none of `parts`."""
        place = known[:, column]
        outside = np.all([(place < low) | (place > high) for low, high in parts], axis=0)
        while outside.any():
            k = np.flatnonzero(outside)[chi2[outside].argmin()]
            (low, high), _ = self._follow(
                layout, row, known[[k, k]], chi2[[k, k]], np.full(2, column), np.array([-1, 1]),
                target,
            )  # fmt: skip
            parts.append((float(min(low, place[k])), float(max(high, place[k]))))
            outside &= (place < parts[-1][0]) | (place > parts[-1][1])

    def _known_points(
        self, layout: WhitenedLayout, row: FloatArray, fits: Fits, number: int
    ) -> tuple[FloatArray, FloatArray]:
        """Where the starts of the fit ended, and the starting points, each with its chi2."""
        misfit = row - layout.deviations(self.seed_predictions)
        points, chi2 = [self.seeds], [np.einsum("sn,sn->s", misfit, misfit)]
        if fits.minima is not None and fits.minima_chi2 is not None:
            points.append(fits.minima[number])
            chi2.append(fits.minima_chi2[number])
        return np.concatenate(points), np.concatenate(chi2)

    def _follow(
        self,
        layout: WhitenedLayout,
        row: FloatArray,
        origin: FloatArray,
        chi2_origin: FloatArray,
        column: IndexArray,
        side: IndexArray,
        target: float,
        advance: Advance | None = None,
    ) -> tuple[FloatArray, BoolArray]:
        """Follow profiles outward from points inside a set until chi2 reaches `target`.

        The square root of the deviance grows almost linearly with the distance t, by 1 for each
        standard error. The first step is where it would reach the limit; then t is extrapolated
        until it lies outside, and interpolated between the last points inside and outside. All
        K searches take their steps together.

        Parameters
        ----------
        origin : array, shape (K, d)
        chi2_origin : array, shape (K,)
        column, side : array of int, shape (K,)
            The parameter whose profile is followed, and -1 or 1 for the direction.
        """
        number = len(origin)
        every = np.arange(number)
        bound = np.where(side > 0, self.bounds[1][column], self.bounds[0][column])
        reach = np.abs(bound - origin[every, column])
        line, error = self._profile_lines(layout, origin, column)
        height = np.sqrt(np.maximum(target - chi2_origin, 0.0))
        t = np.minimum(height * error, reach)
        inner, inner_root = np.zeros(number), np.zeros(number)
        outer, outer_root = np.full(number, np.inf), np.full(number, np.inf)
        near = origin.copy()
        end, is_open = origin[every, column].copy(), reach == 0
        end[is_open] = bound[is_open]
        running = ~is_open
        for _ in range(MOST_STEPS):
            k = np.flatnonzero(running)
            if not k.size:
                break
            value = np.where(t[k] >= reach[k], bound[k], origin[k, column[k]] + side[k] * t[k])
            found = self._held(layout, row, near[k], line[k], column[k], value)
            root = np.sqrt(np.maximum(found.chi2 - chi2_origin[k], 0.0))
            inside = found.chi2 <= target
            inn, out = k[inside], k[~inside]
            inner[inn], inner_root[inn], near[inn] = t[inn], root[inside], found.q[inside]
            outer[out], outer_root[out] = t[out], root[~inside]
            end[inn] = value[inside]
            at_bound = inside & (value == bound[k])
            is_open[k[at_bound]] = True
            close = np.abs(root - height[k]) < END_ATOL
            end[k[close]] = value[close]
            narrow = outer[k] - inner[k] <= END_ATOL * np.minimum(error[k], reach[k])
            finished = at_bound | close | narrow
            running[k[finished]] = False
            if advance is not None:
                advance(int(finished.sum()))
            t[k] = _next_distance(
                inner[k], inner_root[k], outer[k], outer_root[k], height[k], t[k], reach[k]
            )
        return end, is_open

    def _profile_lines(
        self, layout: WhitenedLayout, origin: FloatArray, column: IndexArray
    ) -> tuple[FloatArray, FloatArray]:
        """First-order direction of each profile, (K, d), and its standard error, (K,)."""
        line, error = np.zeros_like(origin), np.empty(len(origin))
        for point in np.unique(origin, axis=0):
            slope = self.slope(layout, point)
            for k in np.flatnonzero((origin == point).all(axis=1)).tolist():
                held = np.arange(origin.shape[1]) == column[k]
                unit = point + held  # a step of one in the held coordinate
                line[k] = profile_start(slope, point, unit[None], held)[0] - point
                size = float(np.linalg.norm(slope @ line[k]))
                error[k] = 1 / size if size > 0 else np.inf
        return line, error

    def _held(
        self,
        layout: WhitenedLayout,
        row: FloatArray,
        near: FloatArray,
        line: FloatArray,
        column: IndexArray,
        value: FloatArray,
    ) -> Minimum:
        """Fit again with one coordinate of each of K problems held at `value`."""
        every = np.arange(len(near))
        free = np.arange(near.shape[1]) != column[:, None]
        step = (value - near[every, column])[:, None] * line
        start = np.clip(near + step, *self.bounds)
        start[every, column] = value
        rows = np.broadcast_to(row, (len(near), len(row)))
        found = self.refit(layout, rows, start, free, PROFILE_GAIN_ATOL)
        failed = np.flatnonzero(~np.isfinite(found.chi2))
        if failed.size:  # the line may have left where the model works
            start = near.copy()
            start[every, column] = value
            again = self.refit(layout, rows[failed], start[failed], free[failed], PROFILE_GAIN_ATOL)
            for old, new in zip(found, again, strict=True):
                old[failed] = new
        return found


def _lower_of(one: Fits, other: Fits, lower: BoolArray) -> Fits:
    """Return `one`, with the rows of `other` that are lower, and the starts of both."""
    assert one.minima is not None
    assert one.minima_chi2 is not None
    assert other.minima is not None
    assert other.minima_chi2 is not None
    chosen = {
        name: np.where(lower.reshape(-1, *[1] * (mine.ndim - 1)), getattr(other, name), mine)
        for name in (
            "estimate", "chi2", "on_bound", "converged", "deviance", "joint_deviance", "held",
        )
        if (mine := getattr(one, name)) is not None
    }  # fmt: skip
    chi2 = np.concatenate([one.minima_chi2, other.minima_chi2], axis=1)
    same = chi2 <= chosen["chi2"][:, None] + SAME_MINIMUM
    return replace(
        one,
        **chosen,
        agreeing_starts=same.sum(axis=1),
        center_won=same[:, 0],
        minima=np.concatenate([one.minima, other.minima], axis=1),
        minima_chi2=chi2,
    )


class Solver(Protocol):
    """What `multistart_fit` needs: least squares from given starts."""

    @property
    def center(self) -> FloatArray:
        """Coordinates of the point the replicas are simulated at, shape (d,)."""
        ...

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper coordinate bounds, each of shape (d,)."""
        ...

    def refit(
        self,
        layout: WhitenedLayout,
        rows: FloatArray,
        start: FloatArray,
        free: BoolArray | None = None,
        gain_atol: float = GAIN_ATOL,
    ) -> Minimum:
        """Fit each row from one start, (R, d); coordinates that are not free, (R, d), stay."""
        ...

    def slope(self, layout: WhitenedLayout, coordinates: FloatArray) -> FloatArray:
        """Return the derivative (n, d) of the whitened predictions at one point."""
        ...


def multistart_fit(
    solver: Solver, layout: WhitenedLayout, rows: FloatArray, starts: FloatArray
) -> Fits:
    """Fit every row from each of its starts, (R, S, d), and keep the lowest minimum."""
    count, number, dimension = starts.shape
    owner = np.repeat(np.arange(count), number)
    # Each start goes far enough to tell minima apart; the best then goes all the way.
    rough = solver.refit(
        layout, rows[owner], starts.reshape(-1, dimension), gain_atol=SAME_MINIMUM / 10
    )
    chi2 = rough.chi2.reshape(count, number)
    best = np.arange(count) * number + chi2.argmin(axis=1)
    found = solver.refit(layout, rows, rough.q[best])
    deviance, held, found = profile_deviance(solver, layout, rows, found)
    estimate, lowest = found.q, found.chi2
    low, high = solver.bounds
    return Fits(
        estimate=estimate,
        chi2=lowest,
        on_bound=(estimate <= low) | (estimate >= high),
        converged=found.converged,
        deviance=deviance,
        joint_deviance=np.maximum(_chi2_at_center(solver, layout, rows) - lowest, 0.0),
        agreeing_starts=(chi2 <= lowest[:, None] + SAME_MINIMUM).sum(axis=1),
        center_won=chi2[:, 0] <= lowest + SAME_MINIMUM,
        held=held,
        minima=rough.q.reshape(starts.shape),
        minima_chi2=chi2,
    )


def profile_deviance(
    solver: Solver, layout: WhitenedLayout, rows: FloatArray, found: Minimum
) -> tuple[FloatArray, FloatArray, Minimum]:
    """Profile deviance of each parameter at the center, (R, d), where it is, and the minima.

    A refit with one parameter held may find a lower minimum than the free fit did; the free
    fit then continues from there. The points of the profile have shape (R, d, d), the held
    parameter first.
    """
    center, dimension = solver.center, len(solver.center)
    slope = solver.slope(layout, center) if dimension > 1 else np.empty(0)
    points = np.repeat(found.q[:, None], dimension, axis=1)
    if dimension == 1:
        points[:, 0] = center
        deviance = np.maximum(_chi2_at_center(solver, layout, rows) - found.chi2, 0.0)
        return deviance[:, None], points, found
    held = np.empty_like(found.q)
    for j in range(dimension):
        held_one = np.arange(dimension) == j
        step = profile_start(slope, np.zeros(dimension), center - found.q, held_one)
        refit = solver.refit(layout, rows, np.clip(found.q + step, *solver.bounds), ~held_one)
        held[:, j], points[:, j] = refit.chi2, refit.q
        lower = np.flatnonzero(refit.chi2 < found.chi2 - SAME_MINIMUM)
        if lower.size:
            again = solver.refit(layout, rows[lower], refit.q[lower])
            for old, new in zip(found, again, strict=True):
                old[lower] = new
    return np.maximum(held - found.chi2[:, None], 0.0), points, found


def _chi2_at_center(solver: Solver, layout: WhitenedLayout, rows: FloatArray) -> FloatArray:
    center = np.broadcast_to(solver.center, (len(rows), len(solver.center)))
    return solver.refit(layout, rows, center.copy(), np.zeros(len(solver.center), bool)).chi2


def _next_distance(
    inner: FloatArray,
    inner_root: FloatArray,
    outer: FloatArray,
    outer_root: FloatArray,
    height: FloatArray,
    t: FloatArray,
    reach: FloatArray,
) -> FloatArray:
    """Distance at which the root of the deviance should reach `height`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # A little farther than predicted: it is to lie outside.
        ahead = np.clip(1.01 * t * height / inner_root, 1.1 * t, 3 * t)
        share = (height - inner_root) / (outer_root - inner_root)
    ahead = np.minimum(np.where(np.isfinite(ahead), ahead, 3 * t), reach)
    share = np.where(np.isfinite(outer_root), np.clip(share, 0.01, 0.99), 0.5)
    found = np.isfinite(outer)
    width = np.where(found, outer, inner) - inner
    return np.where(found, inner + share * width, ahead)


def seed_count(dimension: int, starts: int) -> int:
    """Return the number of points that fill the bounds of this many parameters."""
    return max(SEEDS * dimension, starts)


def build_direct(
    model: ForwardModel,
    center: FloatArray,
    units: FloatArray,
    steps: FloatArray,
    starts: int,
    advance: Advance | None = None,
    number: int | None = None,
) -> DirectEstimator:
    """Solve for `number` points that fill the bounds, and keep those at which the model works."""
    from scipy.stats import qmc  # loads slowly

    dimension = len(center)
    low, high = model.parameters.coordinate_bounds
    number = seed_count(dimension, starts) if number is None else number
    number = min(number, max(starts, SEED_VALUES // len(model.entries)))
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
        steps=steps,
        seeds=seeds[good],
        seed_predictions=values[good],
        starts=min(starts, 1 + int(good.sum())),
        failures=failures,
    )

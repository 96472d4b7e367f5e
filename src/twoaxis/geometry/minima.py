r"""The profile of a frozen field and the search for its minima.

The profile :math:`\phi(q) = r(q)^\top M\,r(q)` is a function of the coordinates alone, in closed
form where the residual is affine. With one parameter every local minimum of a grid is refined on
the derivative of the profile, and derivatives of the residual at the grid points say where a deeper
one can lie between them: with the spacing :math:`s` the residual is not resolved where

.. math:: \lVert r_{k+1} - r_k - \tfrac s2 (J_k + J_{k+1})\rVert_M
          > \tfrac12\,s \max(\lVert J_k\rVert_M, \lVert J_{k+1}\rVert_M),

as where it changes by half a period. There the grid is made finer. With several, a grid over the
bounds gives starts for bounded nonlinear least squares, and such intervals are counted along each
parameter through the lowest minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.exported.interpolant import AffineForm
from twoaxis.frozen import FrozenResidual
from twoaxis.geometry.affine import AFFINE_TOLERANCE, AffineProfile
from twoaxis.geometry.derivatives import STEP, Derivative, Linearization, linearize
from twoaxis.geometry.score import check_metric_size, score_terms
from twoaxis.least_squares import Minimum, minimize
from twoaxis.parameters import ON_BOUND, Parameters

FloatArray = NDArray[np.float64]

# Residuals held at once while a grid is evaluated.
VALUES_AT_ONCE = 8_000_000
# A profile that varies by less than this share of its size is flat.
FLAT = 1e-12
# A residual is not resolved between two grid points where its change differs from that which its
# derivatives there predict by more than this share.
UNRESOLVED = 0.5
# Most evaluations between grid points, for each of them.
MOST_BETWEEN = 10
# So many parameters that fewer places are left along each are not searched for such intervals.
FEWEST_ALONG = 9
# Step of the differences that refine a minimum, where derivatives are not exact.
FINE_STEP = 1e-5
# Times that a search for a minimum is narrowed, each time to a quarter.
DEEPEST = 6
# Random values at which an exact profile is evaluated directly, beside its minima.
DIRECT_CHECKS = 3
# Largest deviation of an exact profile from direct evaluations, as a share of its largest value.
PROFILE_TOLERANCE = 1e-8


@dataclass(frozen=True)
class Found:
    """What a scan found, in coordinates.

    Attributes
    ----------
    candidates, profile : array, shape (d, n)
        Candidate values (physical) of each parameter and the profile there.
    grid_minimum : array, shape (d,), optional
        None where the profile is flat.
    minima : list of tuple
        Coordinates (d,), profile value, and whether the basin holds the center; lowest first.
    spread : float
    undersampled : int
        Number of intervals between candidates in which a deeper minimum may lie unseen.
    """

    candidates: FloatArray
    profile: FloatArray
    grid_minimum: FloatArray | None = None
    minima: tuple[tuple[FloatArray, float, bool], ...] = ()
    spread: float = 0.0
    undersampled: int = 0


@dataclass(frozen=True)
class Profile:
    """``r^T M r`` over the bounds, with the center from which it is looked at.

    Attributes
    ----------
    frozen : FrozenResidual
    metric : BoundView
    q : array, shape (d,)
        Coordinates of the center.
    exact : AffineProfile, optional
        The closed form, where the residual is affine.
    local : Linearization, optional
        At the center, where it is known already.
    """

    frozen: FrozenResidual
    metric: Any
    q: FloatArray
    exact: AffineProfile | None
    local: Linearization | None

    def __call__(self, coordinates: FloatArray) -> FloatArray:
        """Profile at coordinates of shape (n, d), in portions that fit in memory."""
        if self.exact is not None:
            return self.exact(Parameters(self.frozen.parameters).physical(coordinates))
        return self._direct(coordinates)

    def _direct(self, coordinates: FloatArray) -> FloatArray:
        values = np.empty(len(coordinates))
        portion = max(1, VALUES_AT_ONCE // self.metric.size)
        for start in range(0, len(coordinates), portion):
            rows = coordinates[start : start + portion]
            stacked = np.column_stack([self.residual(row) for row in rows])
            values[start : start + portion] = self._squared(stacked)
        return values

    def _squared(self, residuals: FloatArray) -> FloatArray:
        """Profile of residuals in columns, shape (N, n)."""
        values = np.einsum("nb,nb->b", residuals, self.metric.apply(residuals))
        if not np.isfinite(values).all():
            raise InputError(
                "a residual whose squares can be represented all over the bounds",
                f"a profile that overflows at {int((~np.isfinite(values)).sum())} candidates",
                "narrow the bounds, or multiply the residual by a small constant",
            )
        return np.asarray(values)

    def checked_directly(self, found: Found, form: AffineForm) -> tuple[int, float, bool]:
        """Compare an affine form and its profile with direct evaluations where a scan reports.

        That is at all minima, at the candidates beside the lowest one, and at random values.

        Returns how many were compared, the largest deviation of the form, as a share of its terms,
        or of the profile, as a share of its largest value, and whether both are exact.
        """
        low, high = self.frozen.coordinate_bounds
        drawn = np.random.default_rng(1).uniform(low, high, (DIRECT_CHECKS, len(low)))
        beside = np.diag((high - low) / (found.profile.shape[1] - 1))
        lowest = [q for q, _, _ in found.minima[:1]]
        where = [
            *(q for q, _, _ in found.minima),
            *(q + step for q in lowest for step in (*beside, *-beside)),
            *drawn,
        ]
        where = np.clip(np.array(where), low, high)
        residuals = np.column_stack([self.residual(q) for q in where])
        off = max(
            form.deviation(self.frozen, q, values)
            for q, values in zip(where, residuals.T, strict=True)
        )
        direct = self._squared(residuals)
        largest = max(direct.max(), found.profile.max())
        apart = float(np.abs(self(where) - direct).max())
        apart = apart / largest if largest > 0 else apart
        exact = off <= AFFINE_TOLERANCE and apart <= PROFILE_TOLERANCE
        return len(where), max(off, apart), exact

    @cached_property
    def derivative(self) -> Derivative:
        """Whether exact derivatives of the residual can be used, as checked at the center."""
        local = self.local
        if local is None or local.requested == "difference":
            local = linearize(self.frozen, self.q, step=FINE_STEP)
        return "exact" if local.exact else "difference"

    def linearized(self, q: FloatArray, step: float = STEP) -> Linearization:
        """Differentiate the residual at coordinates of shape (d,)."""
        return linearize(self.frozen, q, self.derivative, step, check=False)

    def residual(self, coordinates: FloatArray) -> FloatArray:
        """Residual values at coordinates of shape (d,), as many as the view weighs."""
        values = self.frozen.at(coordinates)
        check_metric_size(self.metric, values)
        return values

    def free_along(self, j: int) -> NDArray[np.bool_]:
        """Return which coordinates are fitted along parameter j: other nuisance parameters."""
        hidden = Parameters(self.frozen.parameters).nuisance
        hidden[j] = False
        return hidden

    def slices(self, candidates: int) -> tuple[FloatArray, FloatArray]:
        """Candidate values along each parameter, and the profile with the others at the center.

        Nuisance parameters are at their minimum inside the bounds, for every candidate.
        """
        low, high = self.frozen.coordinate_bounds
        values, profile = np.empty((2, len(self.q), candidates))
        for j, parameter in enumerate(self.frozen.parameters.values()):
            grid = np.tile(self.q, (candidates, 1))
            grid[:, j] = np.linspace(low[j], high[j], candidates)
            grid = self._fitted(grid, self.free_along(j))
            values[j], profile[j] = parameter.to_value(grid[:, j]), self(grid)
        return values, profile

    def _fitted(self, coordinates: FloatArray, free: NDArray[np.bool_]) -> FloatArray:
        """Return coordinates (n, d) with the free ones at their minimum inside the bounds."""
        if not free.any():
            return coordinates
        known, found = Parameters(self.frozen.parameters), coordinates.copy()
        missing = np.ones(len(found), dtype=bool)
        if self.exact is not None:  # in closed form, wherever that lies inside the bounds
            low, high = np.array([p.bounds for p in known.values()]).T
            best = self.exact.fitted(known.physical(coordinates), free)
            missing = ((best < low) | (best > high))[:, free].any(axis=1)
            inside = np.clip(best[~missing], low, high)
            found[np.ix_(~missing, free)] = known.coordinates(
                dict(zip(known, inside.T, strict=True))
            )[:, free]
        if missing.any():
            found[missing] = self.least_squares(found[missing], free).q
        return found

    def least_squares(self, begin: FloatArray, free: NDArray[np.bool_] | None = None) -> Minimum:
        """Minimize the profile inside the bounds from every row of `begin`, shape (n, d).

        Coordinates that are not `free` stay where they are.
        """
        low, high = self.frozen.coordinate_bounds
        # The objective is scaled so that the stopping rule does not depend on the view's scale.
        size = float(self(begin).max()) or 1.0
        misfit, sensitivity, metric = self._numbers() if self.exact is None else self._few_numbers()
        found = minimize(
            misfit,
            sensitivity,
            begin,
            low,
            high,
            free,
            gain_atol=1e-20,
            max_iterations=200,
            metric=lambda v: metric(v) / size,
        )
        return found._replace(chi2=found.chi2 * size)

    def _numbers(self) -> tuple[Callable[..., Any], ...]:
        """Return misfit, sensitivity and metric of the residual itself, for `minimize`."""
        return (
            lambda q, _: np.stack([-self.residual(row) for row in q]),
            lambda q, _, __: np.stack([self.linearized(row).jacobian for row in q]),
            lambda v: self.metric.apply(v.T).T,
        )

    def _few_numbers(self) -> tuple[Callable[..., Any], ...]:
        """Return the same of a few numbers with the size of an affine residual."""
        assert self.exact is not None
        slopes, constant = self.exact.factor()
        known = self.frozen.known
        logarithmic = np.array([p.coordinate == "log" for p in known.values()])

        def sensitivity(q: FloatArray, _: FloatArray, __: Any) -> FloatArray:
            unit = np.where(logarithmic, known.physical(q), 1.0)  # dp/dq
            return np.asarray(slopes * unit[:, None, :])

        return (
            lambda q, _: -(known.physical(q) @ slopes.T + constant),
            sensitivity,
            lambda v: v,
        )

    def interior(self, q: FloatArray) -> bool:
        """Whether coordinates (d,) lie inside the bounds, and not on one of them."""
        low, high = self.frozen.coordinate_bounds
        room = ON_BOUND * (high - low)
        return bool(((q > low + room) & (q < high - room)).all())

    def value(self, at: float) -> float:
        """Profile of one parameter at one coordinate."""
        return float(self(np.array([[at]]))[0])

    def slope(self, at: float) -> float:
        """Half the derivative of the profile, B, at one coordinate."""
        local = self.linearized(np.array([at]), FINE_STEP)
        return float(score_terms(local.residual, local.jacobian, self.metric).B[0])


@dataclass(frozen=True)
class OneParameterScan:
    """One scan at work."""

    profile: Profile

    def run(self, candidates: int) -> Found:
        """Scan one parameter: grid, every local minimum refined, the basin of the center."""
        values, profiles = self.profile.slices(candidates)
        low, high = self.profile.frozen.coordinate_bounds
        grid, profile = np.linspace(low[0], high[0], candidates), profiles[0]
        if np.ptp(profile) <= FLAT * np.abs(profile).max():
            return Found(values, profiles)
        places = self._minima(grid, profile)
        home = grid[_downhill(profile, self._step_from_center(grid))]
        own = min(places, key=lambda at: abs(at - home))
        here, spacing = float(self.profile.q[0]), float(grid[1] - grid[0])
        tie = _tie(profile, profile.max())
        if self.profile.value(here) < self.profile.value(own) - tie:
            # The center lies in a basin of its own, too narrow for the grid.
            ends = max(here - spacing, float(grid[0])), min(here + spacing, float(grid[-1]))
            own = self._refined(ends[0], here, ends[1])
            places.append(own)
        undersampled = 0
        if self.profile.exact is None:
            best = min(map(self.profile.value, places))
            if best > FLAT * profile.max():  # nothing is deeper than zero
                deeper, undersampled = self._between(grid, places, best, tie)
                places += deeper
        # Of equally low minima the nearest to the center comes first, whatever rounding says.
        places.sort(key=lambda at: abs(at - here))
        depths = _leveled(np.array([self.profile.value(at) for at in places]), profile.max())
        minima = [
            (np.array([at]), depth, at == own)
            for at, depth in zip(places, depths.tolist(), strict=True)
        ]
        lowest = int(np.argmin(profile))
        return Found(
            values,
            profiles,
            grid[lowest : lowest + 1],
            _lowest_first(minima),
            undersampled=undersampled,
        )

    def _between(
        self, grid: FloatArray, places: list[float], best: float, tie: float
    ) -> tuple[list[float], int]:
        """Search between grid points where derivatives say that a deeper minimum can lie.

        Returns minima below `best`, and the number of intervals that were too many to search.
        """
        found, pieces = [], pieces_along(self.profile, grid[:, None], places, best)
        left_out = len(pieces)
        budget = MOST_BETWEEN * len(grid)
        for count, k in sorted((count, k) for k, count in pieces.items()):
            budget -= count
            if budget < 0:
                break
            left_out -= 1
            fine = np.linspace(grid[k], grid[k + 1], count + 1)
            values = self.profile(fine[:, None])
            j = int(np.argmin(values))
            ends = float(fine[max(j - 1, 0)]), float(fine[min(j + 1, count)])
            place = self._refined(ends[0], float(fine[j]), ends[1])
            if self.profile.value(place) < best - tie:
                found.append(place)
        return found, left_out

    def _minima(self, grid: FloatArray, profile: FloatArray) -> list[float]:
        """Coordinates of all local minima, those on a bound included."""
        best = None if self.profile.exact is None else self.profile.exact.minimizer()
        if best is not None:  # the only one, in closed form
            (parameter,) = self.profile.frozen.parameters.values()
            return [float(parameter.to_coordinate(np.clip(best[0], *parameter.bounds)))]
        # A bound is a minimum when the profile rises from it into the interior.
        hair = 2 * FINE_STEP * (grid[1] - grid[0])
        places = []
        if self.profile.slope(grid[0] + hair) > 0:
            places.append(float(grid[0]))
        if self.profile.slope(grid[-1] - hair) < 0:
            places.append(float(grid[-1]))
        floor = -profile.max() - np.ptp(profile)
        padded = np.concatenate([[floor], -profile, [floor]])
        # Here and not above: scipy.signal takes long to import.
        from scipy.signal import find_peaks

        bottoms, _ = find_peaks(padded, prominence=FLAT * np.abs(profile).max())
        for k in (bottoms - 1).tolist():
            if grid[k] not in places:
                left, right = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
                places.append(self._refined(float(left), float(grid[k]), float(right)))
        return places

    def _step_from_center(self, grid: FloatArray) -> int:
        """Grid index next to the center on the side to which the profile falls."""
        k = int(
            np.clip(np.searchsorted(grid, self.profile.q[0], side="right") - 1, 0, len(grid) - 2)
        )
        if np.isclose(grid[k : k + 2], self.profile.q[0], rtol=0, atol=1e-9 * np.ptp(grid)).any():
            return k + int(np.argmin(np.abs(grid[k : k + 2] - self.profile.q[0])))
        here, beside = float(self.profile.q[0]), 1e-3 * (grid[1] - grid[0])
        right = self.profile.value(min(here + beside, float(grid[-1])))
        left = self.profile.value(max(here - beside, float(grid[0])))
        return k if right > left else k + 1

    def _refined(self, left: float, middle: float, right: float, depth: int = 0) -> float:
        """Minimum between two grid points: the root of the profile's derivative.

        The profile itself cannot tell places apart that differ by less than the root of
        rounding.
        """
        from scipy.optimize import brentq, minimize_scalar

        # All tolerances are shares of the interval: the coordinate has the units of the parameter.
        width = right - left
        found = minimize_scalar(
            self.profile.value,
            bounds=(left, right),
            method="bounded",
            options={"xatol": 1e-5 * width},
        )
        near = float(min((found.x, middle), key=self.profile.value))
        reach = 1e-3 * width
        a, b = max(near - reach, left), min(near + reach, right)
        if self.profile.slope(a) < 0 < self.profile.slope(b):
            return float(brentq(self.profile.slope, a, b, xtol=1e-14 * width, rtol=1e-15))
        if near == middle and depth < DEEPEST:  # a basin so narrow that the search did not meet it
            ends = max(middle - width / 8, left), min(middle + width / 8, right)
            return self._refined(ends[0], middle, ends[1], depth + 1)
        return near


def pieces_along(
    profile: Profile, line: FloatArray, places: Sequence[float], best: float, j: int = 0
) -> dict[int, int]:
    """Return into how many pieces intervals of a line must be cut, for those to be searched.

    The line, (n, d), is evenly spaced along coordinate j; `places` are known minima on it.
    """
    grid, found = line[:, j], {}
    spacing = float(grid[1] - grid[0])
    before: Linearization | None = None
    for k, at in enumerate(line):
        here = profile.linearized(at, FINE_STEP)
        left, before = before, here
        if left is None:
            continue
        slopes = [left.jacobian[:, j], here.jacobian[:, j]]
        change = here.residual - left.residual
        columns = [left.residual, here.residual, *slopes, change - spacing / 2 * sum(slopes)]
        sizes = np.column_stack(columns)
        gram = profile.metric.quadratic(sizes, sizes)
        norms = np.sqrt(np.maximum(np.diag(gram), 0.0))
        least, reach = min(norms[:2]), spacing * max(norms[2:4])
        if least - reach >= np.sqrt(best):
            continue  # so far the residual does not fall
        if norms[4] > UNRESOLVED * reach:
            found[k - 1] = int(min(np.ceil(2 * reach / least), 1e9)) if least > 0 else 4
        elif gram[0, 2] < 0 < gram[1, 3]:  # a minimum of its own, if it is not known
            known = (grid[k - 1] - spacing <= place <= grid[k] + spacing for place in places)
            found |= {} if any(known) else {k - 1: 4}
    return found


def _lowest_first(
    minima: list[tuple[FloatArray, float, bool]],
) -> tuple[tuple[FloatArray, float, bool], ...]:
    return tuple(sorted(minima, key=lambda item: item[1]))


def _tie(values: FloatArray, highest: float) -> float:
    """Return by how much minima of a profile may differ and still be equally low."""
    return float(SAME_VALUE * values.min() + FLAT * highest)


def _leveled(values: FloatArray, highest: float) -> FloatArray:
    """Return values of minima in which equally low ones are the same."""
    lowest = float(values.min())
    return np.where(values <= lowest + _tie(values, highest), lowest, values)


def _downhill(profile: FloatArray, start: int) -> int:
    """Return the grid index at the bottom of the basin that holds `start`."""
    here = start
    while True:
        around = range(max(here - 1, 0), min(here + 2, len(profile)))
        lowest = min(around, key=lambda k: float(profile[k]))
        if profile[lowest] >= profile[here]:
            return here
        here = lowest


# Places over the box at which several parameters are evaluated, where a grid would take more.
MOST_GRID = 3**8
# Ends of the search closer than this, as a share of the box, are one minimum.
APART = 1e-4
# Minima whose profile values differ by less than this share are the same minimum.
SAME_VALUE = 1e-6


@dataclass(frozen=True)
class SeveralParameterScan:
    """One scan at work."""

    profile: Profile

    def run(self, candidates: int, starts: int, places: int | None = None) -> Found:
        """Scan several parameters: a grid over the box, then bounded least squares.

        The grid has at most so many `places` where each costs a residual.
        """
        low, high = self.profile.frozen.coordinate_bounds
        dimension = len(self.profile.q)
        most, filling = max(candidates**2, 9), max(candidates**2, MOST_GRID)
        if places is not None and self.profile.exact is None:
            most, filling = min(most, places), min(filling, places)
        each = max(3, min(candidates, int(most ** (1 / dimension) + 1e-9)))
        shape: tuple[int, ...] = (each,) * dimension
        if float(each) ** dimension <= filling:
            axes = [np.linspace(low[j], high[j], each) for j in range(dimension)]
            grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dimension)
        else:  # so many parameters that even three values of each are too many
            grid, shape = _filling(low, high, min(filling, MOST_GRID)), ()
        profile = self.profile(grid)
        slices = self.profile.slices(candidates)
        if np.ptp(profile) <= FLAT * np.abs(profile).max():
            return Found(*slices)
        exact = self._exact_minimum()  # the only minimum, where the residual is affine
        if exact:
            ends = exact
        else:
            bottoms = grid[np.argsort(profile, kind="stable")[:starts]]
            if shape:
                bottoms = _grid_minima(profile.reshape(shape), grid, starts)
            found = self.profile.least_squares(np.vstack([self.profile.q, bottoms]))
            ends = [self._polished(q) for q in found.q]
        values = np.array([float(self.profile(q[None])[0]) for q in ends])
        values = _leveled(values, profile.max())
        tie = _tie(values, profile.max())
        minima = self._distinct(ends, values, tie)
        home = self._relative(ends[0])
        own = min(range(len(minima)), key=lambda k: _apart(self._relative(minima[k][0]), home))
        minima[own] = (*minima[own][:2], True)
        reached = [
            q
            for q, value in zip(ends, values, strict=True)
            if value <= values.min() + tie
            and _apart(self._relative(q), self._relative(minima[0][0])) < 100 * APART
        ]
        spread = float(np.ptp(np.stack(reached), axis=0).max()) if reached else 0.0
        lowest = _lowest_first(minima)
        q, best, _ = lowest[0]
        count, lower = candidates // dimension, best > FLAT * profile.max()  # zero is the lowest
        asked = not exact and lower and count >= FEWEST_ALONG
        unresolved = self._unresolved(q, best, count) if asked else 0
        return Found(*slices, self._grid_minimum(grid, profile), lowest, spread, unresolved)

    def _unresolved(self, q: FloatArray, best: float, count: int) -> int:
        """Count intervals along each parameter through a minimum in which a deeper one may lie."""
        found = 0
        for j, (low, high) in enumerate(zip(*self.profile.frozen.coordinate_bounds, strict=True)):
            line = np.tile(q, (count, 1))
            line[:, j] = np.linspace(low, high, count)
            found += len(pieces_along(self.profile, line, [q[j]], best, j))
        return found

    def _relative(self, q: FloatArray) -> FloatArray:
        """Coordinates as fractions of the box, in which distances mean the same everywhere."""
        low, high = self.profile.frozen.coordinate_bounds
        return (q - low) / (high - low)

    def _grid_minimum(self, grid: FloatArray, profile: FloatArray) -> FloatArray:
        """Return the lowest grid point; of equally low ones, the nearest to the center."""
        low = np.flatnonzero(profile <= profile.min() + FLAT * profile.max())
        distance = np.linalg.norm(
            self._relative(grid[low]) - self._relative(self.profile.q), axis=1
        )
        return np.asarray(grid[low[int(np.argmin(distance))]])

    def _distinct(
        self, ends: list[FloatArray], values: FloatArray, tie: float
    ) -> list[tuple[FloatArray, float, bool]]:
        """Drop saddles and repetitions; of equally low ends, the nearest to the center stays."""
        distance = np.array(
            [_apart(self._relative(q), self._relative(self.profile.q)) for q in ends]
        )
        minima: list[tuple[FloatArray, float, bool]] = []
        for k in np.lexsort((distance, values)).tolist():
            q = ends[k]
            again = any(
                _apart(self._relative(q), self._relative(other)) < APART
                or (values[k] <= value + tie and self._connected(q, other, value + tie))
                for other, value, _ in minima
            )
            if not again and not self._saddle(q):
                minima.append((q, float(values[k]), False))
        return minima or [(ends[0], float(values[0]), False)]

    def _connected(self, q: FloatArray, other: FloatArray, level: float) -> bool:
        """Tell whether two ends lie in one valley: the profile between them never rises."""
        between = np.linspace(q, other, 9)[1:-1]
        return bool((self.profile(between) <= level).all())

    def _saddle(self, q: FloatArray) -> bool:
        """Tell whether the profile falls away from an interior point along some direction."""
        if not self.profile.interior(q):
            return False
        local = self.profile.linearized(q, FINE_STEP)
        terms = score_terms(local.residual, local.jacobian, self.profile.metric)
        low, high = self.profile.frozen.coordinate_bounds
        curvature = terms.H + local.weighted_second(self.profile.metric.apply(local.residual))
        values = np.linalg.eigvalsh(curvature * np.outer(high - low, high - low))
        return bool(values[0] < -1e-6 * np.abs(values).max())

    def _polished(self, q: FloatArray) -> FloatArray:
        """Newton steps on the derivative of the profile, as long as they get shorter."""
        last = np.inf
        for _ in range(20):
            if not self.profile.interior(q):
                return q
            local = self.profile.linearized(q, FINE_STEP)
            terms = score_terms(local.residual, local.jacobian, self.profile.metric)
            curvature = terms.H + local.weighted_second(self.profile.metric.apply(local.residual))
            # In fractions of the box, so that units cannot hide a direction.
            bounds = np.array(self.profile.frozen.coordinate_bounds)
            width = np.ptp(bounds, axis=0)
            scaled = curvature * np.outer(width, width)
            step = -width * np.linalg.lstsq(scaled, terms.B * width, rcond=1e-10)[0]
            size = float(np.abs(step / width).max())
            outside = ((q + step < bounds[0]) | (q + step > bounds[1])).any()
            if outside or not size < min(last, 1e-3):
                return q
            q, last = q + step, size
        return q

    def _exact_minimum(self) -> list[FloatArray]:
        """Return the closed-form minimum of an affine residual, where it lies in the box."""
        best = None if self.profile.exact is None else self.profile.exact.minimizer()
        if best is None:
            return []
        for value, parameter in zip(best, self.profile.frozen.parameters.values(), strict=True):
            if not parameter.bounds[0] <= value <= parameter.bounds[1]:
                return []
        return [
            self.profile.frozen.coordinates(
                dict(zip(self.profile.frozen.names, best.tolist(), strict=True))
            )
        ]


def _filling(low: FloatArray, high: FloatArray, count: int) -> FloatArray:
    """Return points that fill a box evenly, shape (count, d): a Halton sequence."""
    from scipy.stats import qmc  # loads slowly

    sequence = qmc.Halton(len(low), scramble=False).fast_forward(1)  # the first is a corner
    return np.asarray(qmc.scale(sequence.random(count), low, high))


def _apart(a: FloatArray, b: FloatArray) -> float:
    return float(np.abs(a - b).max())


def _grid_minima(profile: FloatArray, grid: FloatArray, count: int) -> FloatArray:
    """Return the lowest local minima of a grid, at most `count`, shape (m, d)."""
    lower = np.ones(profile.shape, dtype=bool)
    for axis in range(profile.ndim):
        padded = np.pad(
            profile,
            [(1, 1) if k == axis else (0, 0) for k in range(profile.ndim)],
            constant_values=np.inf,
        )
        before = np.take(padded, range(profile.shape[axis]), axis=axis)
        after = np.take(padded, range(2, profile.shape[axis] + 2), axis=axis)
        lower &= (profile <= before) & (profile <= after)
    local = np.flatnonzero(lower.ravel())
    best = local[np.argsort(profile.ravel()[local], kind="stable")][:count]
    # A smooth bowl has one; the next lowest grid points make up the number of starts.
    others = np.argsort(profile.ravel(), kind="stable")[:count]
    return np.asarray(grid[np.unique(np.concatenate([best, others]))])


def find_minima(profile: Profile, candidates: int, starts: int, places: int | None = None) -> Found:
    """Scan a profile: slices along each parameter, and all minima inside the bounds."""
    if len(profile.q) == 1:
        return OneParameterScan(profile).run(candidates)
    return SeveralParameterScan(profile).run(candidates, starts, places)

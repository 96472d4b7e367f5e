r"""The frozen scan: the whole profile of a frozen field, not its value at one point.

The profile :math:`\phi(q) = r(q)^\top M\,r(q)` is evaluated over the bounds with the field
held. It is a slice through the training objective, never a profile likelihood: nothing is
fitted again. The scan tests the local displacement, finds minima elsewhere, and says when
there is none inside the bounds.

A frozen scan as its reader meets it: slices, minima and what to make of them.

The profile of a frozen field as a function, and what every scan of it shares.

The scan of one parameter: every local minimum, refined on the profile's derivative.

The scan of several parameters: a grid over the box, then bounded least squares.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.signal import find_peaks

from twoaxis.errors import InputError
from twoaxis.frozen import (
    FrozenResidual,
    Points,
    Residual,
    as_frozen,
    bound_view,
    check_magnitude,
    check_repeatable,
)
from twoaxis.geometry.affine import AffineProfile, affine_in_bounds, affine_profile
from twoaxis.geometry.derivatives import STEP, Derivative, Linearization, linearize
from twoaxis.geometry.score import check_metric_size, score_terms
from twoaxis.least_squares import minimize
from twoaxis.parameters import Center, Parameter, Parameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twoaxis.views import BoundView, View

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FrozenScan:
    """The profile of a frozen field over the bounds, and its minima.

    Made by `twoaxis.frozen_scan`. Figures of the study use the grid minimum; `minimum` is the
    continuously refined one.

    Attributes
    ----------
    parameters : dict of str to Parameter
    center : Center
    slices : dict of str to tuple of array
        For each parameter, candidate values and the profile with the others at the centre.
    minimum, grid_minimum : dict of str to float, or None
        Physical values at the global minimum, refined and on the grid; None when flat.
    local_minima : pandas.DataFrame
        All minima that were found, lowest first, with their profile values, and which of
        them holds the centre in its basin.
    status : str
        "interior", on which bound the minimum lies, or that the profile is flat.
    affine : bool
        Whether the residual is affine in the physical parameters: all of it is then exact.
    start_spread : float
        Largest distance, in coordinates, between refined starts that reached the global
        minimum; zero for one parameter.
    view : str
        The view, in words.
    affine_checked : int
        Number of parameter values at which the residual was compared with an affine form, and
        its exact profile with direct evaluations; the comparison ends where it fails.
    affine_deviation : float
        Largest relative deviation found there.
    """

    parameters: dict[str, Parameter]
    center: Center
    slices: dict[str, tuple[FloatArray, FloatArray]]
    minimum: dict[str, float] | None
    grid_minimum: dict[str, float] | None
    local_minima: pd.DataFrame
    status: str
    affine: bool
    start_spread: float
    view: str
    affine_checked: int = 0
    affine_deviation: float = 0.0

    @property
    def cut_off(self) -> bool:
        """Whether the bounds decide: the minimum lies on one of them, or there is none."""
        return self.minimum is None or self.status.startswith("on the")

    @property
    def displacement(self) -> dict[str, float] | None:
        """Coordinate of the refined minimum minus that of the centre."""
        return self._displacement(self.minimum)

    @property
    def grid_displacement(self) -> dict[str, float] | None:
        """The same for the grid minimum; exactly zero counts as no direction."""
        return self._displacement(self.grid_minimum)

    @property
    def basin_minimum(self) -> dict[str, float] | None:
        """The minimum of the basin that holds the centre."""
        holds = self.local_minima[self.local_minima["holds_center"]]
        if holds.empty:
            return None
        return {name: float(holds.iloc[0][name]) for name in self.parameters}

    @property
    def error_percent(self) -> dict[str, float] | None:
        """Unsigned distance of the refined minimum from the centre, in percent."""
        if self.minimum is None:
            return None
        return {
            name: float(abs(p.percent(self.minimum[name], self.center.values[name])))
            for name, p in self.parameters.items()
        }

    def _displacement(self, minimum: dict[str, float] | None) -> dict[str, float] | None:
        if minimum is None:
            return None
        result = {}
        for name, p in self.parameters.items():
            here = float(p.to_coordinate(self.center.values[name]))
            moved = float(p.to_coordinate(minimum[name])) - here
            # A minimum at the centre itself has no direction, whatever rounding makes of it.
            result[name] = 0.0 if abs(moved) <= 1e-14 * max(1.0, abs(here)) else moved
        return result

    def to_dataset(self) -> xr.Dataset:
        """Return the slices and minima as a labelled dataset."""
        variables: dict[str, Any] = {}
        for name, (candidates, profile) in self.slices.items():
            variables[f"profile_{name}"] = (
                [f"candidate_{name}"],
                profile,
                {"long_name": f"frozen profile along {name}, the others at the centre"},
            )
            variables[f"value_{name}"] = (
                [f"candidate_{name}"],
                candidates,
                {"long_name": f"candidate values of {name}"},
            )
        attributes = {
            "view": self.view,
            "status": self.status,
            "affine": int(self.affine),
            "affine_checked": self.affine_checked,
            "affine_deviation": self.affine_deviation,
        }
        for label, minimum in (("minimum", self.minimum), ("grid_minimum", self.grid_minimum)):
            if minimum is not None:
                attributes |= {f"{label}_{name}": value for name, value in minimum.items()}
        return xr.Dataset(variables, attrs=attributes)

    def __repr__(self) -> str:
        how = "exact, affine residual" if self.affine else "refined"
        head = f"Frozen scan, view: {self.view}; minimum {how}: {self.status}"
        return head + "\n" + self.local_minima.to_string(float_format=lambda v: f"{v:.6g}")


# Residuals held at once while a grid is evaluated.
VALUES_AT_ONCE = 8_000_000
# A profile that varies by less than this share of its size is flat.
FLAT = 1e-12
# Step of the differences that refine a minimum, where derivatives are not exact.
FINE_STEP = 1e-5
# Largest deviation of an exact profile from direct evaluations, as a share of its largest value.
PROFILE_TOLERANCE = 1e-8
# Candidates at which an exact profile is evaluated directly, beside its minima.
DIRECT_CHECKS = 3
INTERIOR = "interior"
FLAT_STATUS = "flat: the residual does not see the parameter, and there is no minimum"


@dataclass(frozen=True)
class Profile:
    """``r^T M r`` over the bounds, with the centre from which it is looked at.

    Attributes
    ----------
    frozen : FrozenResidual
    metric : BoundView
    center : Center
    q : array, shape (d,)
        Coordinates of the centre.
    exact : AffineProfile, optional
        The closed form, where the residual is affine.
    view : str
    """

    frozen: FrozenResidual
    metric: Any
    center: Center
    q: FloatArray
    exact: AffineProfile | None
    view: str

    def __call__(self, coordinates: FloatArray) -> FloatArray:
        """Profile at coordinates of shape (n, d), in portions that fit in memory."""
        if self.exact is not None:
            return self.exact(self._values(coordinates))
        return self._direct(coordinates)

    def _direct(self, coordinates: FloatArray) -> FloatArray:
        values = np.empty(len(coordinates))
        portion = max(1, VALUES_AT_ONCE // self.metric.size)
        for start in range(0, len(coordinates), portion):
            rows = coordinates[start : start + portion]
            stacked = np.column_stack([self.residual(row) for row in rows])
            values[start : start + portion] = np.einsum(
                "nb,nb->b", stacked, self.metric.apply(stacked)
            )
        if not np.isfinite(values).all():
            raise InputError(
                "a residual whose squares can be represented all over the bounds",
                f"a profile that overflows at {int((~np.isfinite(values)).sum())} candidates",
                "narrow the bounds, or multiply the residual by a small constant",
            )
        return values

    def checked_directly(self, found: FrozenScan) -> tuple[int, float]:
        """Compare an exact profile with direct evaluations, at minima and some candidates.

        Returns how many were compared, and the largest deviation as a share of the largest
        profile value.
        """
        low, high = self.frozen.coordinate_bounds
        minima = found.local_minima[self.frozen.names].to_numpy(dtype=float)
        places = [
            self.frozen.coordinates(dict(zip(self.frozen.names, each.tolist(), strict=True)))
            for each in minima
        ]
        places += list(np.random.default_rng(1).uniform(low, high, (DIRECT_CHECKS, len(low))))
        where = np.clip(np.array(places), low, high)
        exact, direct = self(where), self._direct(where)
        largest = max([direct.max(), *(profile.max() for _, profile in found.slices.values())])
        off = float(np.abs(exact - direct).max())
        return len(where), off / largest if largest > 0 else off

    @cached_property
    def derivative(self) -> Derivative:
        """Whether the residual's exact derivatives can be used, as checked at the centre."""
        return "exact" if linearize(self.frozen, self.q).exact else "difference"

    def linearized(self, q: FloatArray, step: float = STEP) -> Linearization:
        """Differentiate the residual at coordinates of shape (d,)."""
        return linearize(self.frozen, q, self.derivative, step, check=False)

    def residual(self, coordinates: FloatArray) -> FloatArray:
        """Residual values at coordinates of shape (d,), as many as the view weighs."""
        values = self.frozen.at(coordinates)
        check_metric_size(self.metric, values)
        return values

    def _values(self, coordinates: FloatArray) -> FloatArray:
        columns = [
            p.to_value(coordinates[..., j]) for j, p in enumerate(self.frozen.parameters.values())
        ]
        return np.stack(columns, axis=-1)

    def named(self, coordinates: FloatArray) -> dict[str, float]:
        """Physical parameters by name."""
        return self.frozen.physical(coordinates)

    def slices(self, candidates: int) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Profile along each parameter with the others at the centre."""
        low, high = self.frozen.coordinate_bounds
        result = {}
        for j, (name, parameter) in enumerate(self.frozen.parameters.items()):
            grid = np.tile(self.q, (candidates, 1))
            grid[:, j] = np.linspace(low[j], high[j], candidates)
            result[name] = (parameter.to_value(grid[:, j]), self(grid))
        return result

    def result(
        self,
        slices: dict[str, tuple[FloatArray, FloatArray]],
        grid_minimum: FloatArray | None,
        minima: list[tuple[FloatArray, float, bool]],
        spread: float = 0.0,
    ) -> FrozenScan:
        """Label what was found: minima with their value and whether they hold the centre."""
        minima = sorted(minima, key=lambda item: item[1])
        rows = [
            {**self.named(q), "profile": value, "status": self.status(q), "holds_center": holds}
            for q, value, holds in minima
        ]
        columns = [*self.frozen.names, "profile", "status", "holds_center"]
        flat = grid_minimum is None or not minima
        return FrozenScan(
            parameters=dict(self.frozen.parameters),
            center=self.center,
            slices=slices,
            minimum=None if flat else self.named(minima[0][0]),
            grid_minimum=None if grid_minimum is None else self.named(grid_minimum),
            local_minima=pd.DataFrame(rows, columns=columns).astype({"holds_center": bool}),
            status=FLAT_STATUS if flat else self.status(minima[0][0]),
            affine=self.exact is not None,
            start_spread=spread,
            view=self.view,
        )

    def status(self, q: FloatArray) -> str:
        """Say whether a minimum lies inside the bounds, or on which of them."""
        low, high = self.frozen.coordinate_bounds
        room = 1e-9 * (high - low)
        for j, name in enumerate(self.frozen.names):
            if q[j] <= low[j] + room[j]:
                return f"on the lower bound of {name}"
            if q[j] >= high[j] - room[j]:
                return f"on the upper bound of {name}"
        return INTERIOR

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

    def run(self, candidates: int) -> FrozenScan:
        """Scan one parameter: grid, every local minimum refined, the centre's basin."""
        slices = self.profile.slices(candidates)
        low, high = self.profile.frozen.coordinate_bounds
        grid = np.linspace(low[0], high[0], candidates)
        ((_, profile),) = slices.values()
        if np.ptp(profile) <= FLAT * np.abs(profile).max():
            return self.profile.result(slices, None, [])
        places = self._minima(grid, profile)
        home = grid[_downhill(profile, self._step_from_center(grid))]
        own = min(places, key=lambda at: abs(at - home))
        minima = [(np.array([at]), self.profile.value(at), at == own) for at in places]
        lowest = int(np.argmin(profile))
        return self.profile.result(slices, grid[lowest : lowest + 1], minima)

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
        bottoms, _ = find_peaks(padded, prominence=FLAT * np.abs(profile).max())
        for k in (bottoms - 1).tolist():
            if grid[k] not in places:
                left, right = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
                places.append(self._refined(float(left), float(grid[k]), float(right)))
        return places

    def _step_from_center(self, grid: FloatArray) -> int:
        """Grid index next to the centre on the side to which the profile falls."""
        k = int(
            np.clip(np.searchsorted(grid, self.profile.q[0], side="right") - 1, 0, len(grid) - 2)
        )
        if np.isclose(grid[k : k + 2], self.profile.q[0], rtol=0, atol=1e-9 * np.ptp(grid)).any():
            return k + int(np.argmin(np.abs(grid[k : k + 2] - self.profile.q[0])))
        here, beside = float(self.profile.q[0]), 1e-3 * (grid[1] - grid[0])
        right = self.profile.value(min(here + beside, float(grid[-1])))
        left = self.profile.value(max(here - beside, float(grid[0])))
        return k if right > left else k + 1

    def _refined(self, left: float, middle: float, right: float) -> float:
        """Minimum between two grid points: the root of the profile's derivative.

        The profile itself cannot tell places apart that differ by less than the root of
        rounding.
        """
        found = minimize_scalar(self.profile.value, bounds=(left, right), method="bounded")
        near = float(min((found.x, middle), key=self.profile.value))
        reach = 1e-3 * (right - left)
        a, b = max(near - reach, left), min(near + reach, right)
        if self.profile.slope(a) < 0 < self.profile.slope(b):
            return float(brentq(self.profile.slope, a, b, xtol=1e-15, rtol=1e-15))
        return near


def _downhill(profile: FloatArray, start: int) -> int:
    """Return the grid index at the bottom of the basin that holds `start`."""
    here = start
    while True:
        around = range(max(here - 1, 0), min(here + 2, len(profile)))
        lowest = min(around, key=lambda k: float(profile[k]))
        if profile[lowest] >= profile[here]:
            return here
        here = lowest


# Ends of the search closer than this, as a share of the box, are one minimum.
APART = 1e-4
# Minima whose profile values differ by less than this share are the same minimum.
SAME_VALUE = 1e-6


@dataclass(frozen=True)
class SeveralParameterScan:
    """One scan at work."""

    profile: Profile

    def run(self, candidates: int, starts: int) -> FrozenScan:
        """Scan several parameters: a grid over the box, then bounded least squares."""
        low, high = self.profile.frozen.coordinate_bounds
        dimension = len(self.profile.q)
        each = max(3, min(candidates, int(max(candidates**2, 9) ** (1 / dimension) + 1e-9)))
        axes = [np.linspace(low[j], high[j], each) for j in range(dimension)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dimension)
        profile = self.profile(grid)
        slices = self.profile.slices(candidates)
        if np.ptp(profile) <= FLAT * np.abs(profile).max():
            return self.profile.result(slices, None, [])
        exact = self._exact_minimum()  # the only minimum, where the residual is affine
        if exact:
            ends = exact
        else:
            bottoms = _grid_minima(profile.reshape((each,) * dimension), grid, starts)
            found = self._least_squares(np.vstack([self.profile.q, bottoms]))
            ends = [self._polished(q) for q in found.q]
        values = np.array([float(self.profile(q[None])[0]) for q in ends])
        tie = SAME_VALUE * values.min() + FLAT * profile.max()
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
        return self.profile.result(slices, self._grid_minimum(grid, profile), minima, spread)

    def _relative(self, q: FloatArray) -> FloatArray:
        """Coordinates as fractions of the box, in which distances mean the same everywhere."""
        low, high = self.profile.frozen.coordinate_bounds
        return (q - low) / (high - low)

    def _grid_minimum(self, grid: FloatArray, profile: FloatArray) -> FloatArray:
        """Return the lowest grid point; of equally low ones, the nearest to the centre."""
        low = np.flatnonzero(profile <= profile.min() + FLAT * profile.max())
        distance = np.linalg.norm(
            self._relative(grid[low]) - self._relative(self.profile.q), axis=1
        )
        return np.asarray(grid[low[int(np.argmin(distance))]])

    def _distinct(
        self, ends: list[FloatArray], values: FloatArray, tie: float
    ) -> list[tuple[FloatArray, float, bool]]:
        """Drop saddles and repetitions; of equally low ends, the nearest to the centre stays."""
        distance = np.array(
            [_apart(self._relative(q), self._relative(self.profile.q)) for q in ends]
        )
        level = np.where(values <= values.min() + tie, values.min(), values)
        minima: list[tuple[FloatArray, float, bool]] = []
        for k in np.lexsort((distance, level)).tolist():
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
        if self.profile.status(q) != INTERIOR:
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
            if self.profile.status(q) != INTERIOR:
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

    def _least_squares(self, begin: FloatArray) -> Any:
        """Bounded nonlinear least squares under the view, from every row of `begin`."""
        low, high = self.profile.frozen.coordinate_bounds
        # The objective is scaled so that the stopping rule does not depend on the view's scale.
        size = float(self.profile(begin).max()) or 1.0

        def misfit(q: FloatArray, _: Any) -> FloatArray:
            return np.stack([-self.profile.residual(row) for row in q])

        def sensitivity(q: FloatArray, _: FloatArray, __: Any) -> FloatArray:
            return np.stack([self.profile.linearized(row).jacobian for row in q])

        return _unscaled(
            minimize(
                misfit,
                sensitivity,
                begin,
                low,
                high,
                gain_atol=1e-20,
                max_iterations=200,
                metric=lambda v: self.profile.metric.apply(v.T).T / size,
            ),
            size,
        )


def _unscaled(found: Any, size: float) -> Any:
    return found._replace(chi2=found.chi2 * size)


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


def frozen_scan(
    residual: Residual,
    parameters: Mapping[str, Parameter] | None = None,
    view: View | BoundView | None = None,
    *,
    points: Points = None,
    candidates: int = 81,
    at: str | Mapping[str, float] | None = None,
    starts: int = 5,
) -> FrozenScan:
    """Scan the residual profile of a frozen field over the bounds of its parameters.

    Parameters
    ----------
    residual, parameters, view, points, at
        As for `twoaxis.score`.
    candidates : int
        Candidates along a parameter, evenly spaced in its coordinate. With two parameters
        the grid has this many along each; with more, fewer, so that it stays affordable.
    starts : int
        With several parameters: how many of the lowest grid points are refined by bounded
        nonlinear least squares, beside the centre.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 50)
    >>> scan = ta.frozen_scan(
    ...     lambda k: k * np.ones(50) - 1.1 - 0.01 * np.cos(9 * x),
    ...     {"k": ta.Parameter(truth=1.0, bounds=(0.5, 2.0))},
    ...     ta.views.Pointwise(), points=x,
    ... )
    >>> scan.status, round(scan.minimum["k"], 3)
    ('interior', 1.1)
    """
    if not isinstance(candidates, (int, np.integer)) or candidates < 3:
        raise InputError("at least 3 candidates", f"candidates={candidates!r}", "pass 81")
    if not isinstance(starts, (int, np.integer)) or starts < 0:
        raise InputError(
            "starts as a whole number from 0 upwards", f"starts={starts!r}", "pass starts=5"
        )
    frozen = as_frozen(residual, parameters, points)
    center = Parameters(frozen.parameters).center(at)
    metric = bound_view(frozen, view)
    q = frozen.coordinates(center.values)
    values = frozen.physical(q)
    output = frozen.raw(values)
    at_center = frozen.checked(output, values)
    check_metric_size(metric, at_center)
    check_repeatable(frozen, output, at_center, values)
    test = affine_in_bounds(frozen, q, at_center)
    check_magnitude(test.largest, "residual")
    exact = None if test.form is None else affine_profile(test.form, metric)
    profile = Profile(frozen, metric, center, q, exact, metric.describe())
    found = _scanned(profile, candidates, starts)
    checked, deviation = test.checked, test.deviation
    if exact is not None:
        count, off = profile.checked_directly(found)
        checked, deviation = checked + count, max(deviation, off)
        if off > PROFILE_TOLERANCE:  # another regime, which the test did not meet
            found = _scanned(replace(profile, exact=None), candidates, starts)
    return replace(found, affine_checked=checked, affine_deviation=deviation)


def _scanned(profile: Profile, candidates: int, starts: int) -> FrozenScan:
    if len(profile.q) == 1:
        return OneParameterScan(profile).run(candidates)
    return SeveralParameterScan(profile).run(candidates, starts)

r"""The frozen scan: the profile of a frozen field over the bounds, not its value at one point.

The profile :math:`\phi(q) = r(q)^\top M\,r(q)` is evaluated over the bounds with the field
held. It is a slice through the training objective, never a profile likelihood: nothing is
fitted again. The scan tests the local displacement, finds minima elsewhere, and says when
there is none inside the bounds.

With one parameter every local minimum of a grid is refined on the derivative of the profile.
With several, a grid over the bounds gives starts for bounded nonlinear least squares.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

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
from twoaxis.geometry.score import center_words, check_metric_size, score_terms
from twoaxis.io import Layout, Variable
from twoaxis.least_squares import minimize
from twoaxis.parameters import Center, Parameter, Parameters
from twoaxis.result import CENTER_LAYOUT, PARAMETER_LAYOUT, CenteredResult, require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twoaxis.views import BoundView, View

FloatArray = NDArray[np.float64]

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
FLAT_STATUS = "flat: the residual does not depend on the parameter, so there is no minimum"
# Minima nearer to a bound than this share of the distance between bounds lie on it.
ON_BOUND = 1e-9


# ---------------------------------------------------------------- the labelled result

_SLICE = ("parameter", "candidate")
LAYOUT: Layout = {
    **PARAMETER_LAYOUT,
    **CENTER_LAYOUT,
    "candidate_value": Variable(_SLICE, "float", "candidate values of the scan", finite=True),
    "profile": Variable(
        _SLICE, "float", "frozen profile r^T M r, other parameters at the center", finite=True
    ),
    "quadratic_model": Variable(
        _SLICE, "float", "linearized model of the profile at the center", required=False
    ),
    "profile_at_center": Variable((), "float", "frozen profile at the center", finite=True),
    "grid_minimum": Variable(("parameter",), "float", "global minimum on the grid; NaN: none"),
    "minimum": Variable(("parameter",), "float", "refined global minimum; NaN: none"),
    "displacement": Variable(
        ("parameter",), "float", "coordinate of the refined minimum minus center; NaN: none"
    ),
    "local_minimum": Variable(
        ("local", "parameter"), "float", "all minima that were found, lowest first", finite=True
    ),
    "local_profile": Variable(("local",), "float", "frozen profile at the minima", finite=True),
    "local_status": Variable(("local",), "text", '"interior", or on which bound it lies'),
    "local_holds_center": Variable(
        ("local",), "bool", "whether the basin of the minimum holds the center"
    ),
}


@final
class FrozenScan(CenteredResult):
    """The profile of a frozen field over the bounds, and its minima.

    Made by `twoaxis.frozen_scan`. Figures of the study use the grid minimum; `minimum` is the
    continuously refined one.
    """

    schema = "frozen-scan"
    layouts = {"/": LAYOUT}  # noqa: RUF012
    attributes = {  # noqa: RUF012
        "/": (
            "view",
            "centered_on",
            "status",
            "affine",
            "affine_checked",
            "affine_deviation",
            "start_spread",
        )
    }

    def derived(self) -> dict[str, Any]:
        """Return what follows from the local minima: the global one and where each lies."""
        parameters, minima = self.parameters, self.data["local_minimum"].values
        lowest = np.full(len(parameters), np.nan) if self.flat else minima[0]
        return {
            "minimum": lowest,
            "displacement": self._displaced(lowest),
            "local_status": np.array([_status(parameters, row) for row in minima], dtype=object),
        }

    def check(self) -> None:
        """Raise `InputError` unless candidates, profile and minima fit the bounds."""
        data, parameters = self.data, self.parameters
        low, high = (data[name].values for name in ("lower_bound", "upper_bound"))
        candidates, minima = data["candidate_value"].values, data["local_minimum"].values
        room = 1e-9 * (high - low)
        values, flat = data["local_profile"].values, not len(minima)
        inside = [
            (rows >= low - room).all() and (rows <= high + room).all()
            for rows in (candidates.T, minima)
        ]
        grid = data["grid_minimum"].values
        consistent = {
            "candidates in ascending order inside the bounds": inside[0]
            and (np.diff(candidates, axis=1) >= 0).all(),
            "a profile that is not negative": (data["profile"].values >= 0).all()
            and (values >= 0).all()
            and float(data["profile_at_center"]) >= 0,
            "minima inside the bounds, lowest first": inside[1] and (np.diff(values) >= 0).all(),
            "one minimum whose basin holds the center": flat
            or data["local_holds_center"].values.sum() >= 1,
            "a grid minimum inside the bounds": np.isnan(grid).all()
            if flat
            else ((grid >= low - room) & (grid <= high + room)).all(),
            "the status of the lowest minimum": data.attrs["status"]
            == (FLAT_STATUS if flat else _status(parameters, minima[0])),
            "affine as 0 or 1, and numbers that are not negative": data.attrs["affine"] in (0, 1)
            and data.attrs["affine_checked"] >= 0
            and data.attrs["affine_deviation"] >= 0
            and data.attrs["start_spread"] >= 0,
        }
        require(consistent)
        super().check()

    def _displaced(self, minimum: FloatArray) -> FloatArray:
        """Coordinates of physical values (d,) minus those of the center."""
        center = self.center.values
        found = []
        for (name, p), value in zip(self.parameters.items(), minimum, strict=True):
            here = float(p.to_coordinate(center[name]))
            moved = float(p.to_coordinate(value)) - here
            # A minimum at the center itself has no direction, whatever rounding makes of it.
            found.append(0.0 if abs(moved) <= 1e-14 * max(1.0, abs(here)) else moved)
        return np.array(found)

    @property
    def view(self) -> str:
        """The view, in words."""
        return str(self.data.attrs["view"])

    @property
    def status(self) -> str:
        """Whether the minimum is "interior", on which bound it lies, or that there is none."""
        return str(self.data.attrs["status"])

    @property
    def flat(self) -> bool:
        """Whether the profile is the same everywhere, so that there is no minimum."""
        return not self.data.sizes["local"]

    @property
    def cut_off(self) -> bool:
        """Whether the bounds decide: the minimum lies on one of them, or there is none."""
        return self.status != INTERIOR

    @property
    def affine(self) -> bool:
        """Whether the residual is affine in the physical parameters: all of it is then exact."""
        return bool(self.data.attrs["affine"])

    @property
    def affine_checked(self) -> int:
        """Number of parameter values at which the residual was compared with an affine form.

        An exact profile is compared with direct evaluations, too; the comparison ends where it
        fails.
        """
        return int(self.data.attrs["affine_checked"])

    @property
    def affine_deviation(self) -> float:
        """Largest relative deviation found there."""
        return float(self.data.attrs["affine_deviation"])

    @property
    def start_spread(self) -> float:
        """Largest distance, in coordinates, between starts that reached the global minimum.

        Zero for one parameter.
        """
        return float(self.data.attrs["start_spread"])

    @property
    def slices(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Candidate values of each parameter and the profile with the others at the center."""
        candidates, profile = self.data["candidate_value"].values, self.data["profile"].values
        return {name: (candidates[j], profile[j]) for j, name in enumerate(self.names)}

    @property
    def minimum(self) -> dict[str, float] | None:
        """Physical values at the refined global minimum; None when the profile is flat."""
        return None if self.flat else self.named("minimum")

    @property
    def grid_minimum(self) -> dict[str, float] | None:
        """Physical values at the lowest grid point; None when the profile is flat."""
        return None if self.flat else self.named("grid_minimum")

    @property
    def displacement(self) -> dict[str, float] | None:
        """Coordinate of the refined minimum minus that of the center."""
        return None if self.flat else self.named("displacement")

    @property
    def grid_displacement(self) -> dict[str, float] | None:
        """The same for the grid minimum; exactly zero counts as no direction."""
        if self.flat:
            return None
        return self.parameters.named(self._displaced(self.data["grid_minimum"].values))

    @property
    def local_minima(self) -> pd.DataFrame:
        """All minima that were found, lowest first.

        Columns: the parameters, the profile, the status of each, and whether its basin holds
        the center.
        """
        data = self.data
        table: dict[str, Any] = {
            name: data["local_minimum"].values[:, j] for j, name in enumerate(self.names)
        }
        table["profile"] = data["local_profile"].values
        table["status"] = [str(each) for each in data["local_status"].values]
        table["holds_center"] = data["local_holds_center"].values
        return pd.DataFrame(table)

    @property
    def basin_minimum(self) -> dict[str, float] | None:
        """The minimum of the basin that holds the center."""
        holds = np.flatnonzero(self.data["local_holds_center"].values)
        if not holds.size:
            return None
        return self.parameters.named(self.data["local_minimum"].values[holds[0]])

    @property
    def error_percent(self) -> dict[str, float] | None:
        """Unsigned distance of the refined minimum from the center, in percent."""
        if self.flat:
            return None
        parameters = self.parameters
        minimum = self.data["minimum"].values
        return parameters.named(np.abs(parameters.percent(minimum, self.center.values)))

    def summary(self) -> pd.DataFrame:
        """Return a table with one row for each parameter: the center and the minimum."""
        columns = ("center", "minimum", "displacement", "grid_minimum")
        table: dict[str, Any] = {name: self.data[name].values for name in columns}
        table["status"] = self.status
        return pd.DataFrame(table, index=pd.Index(self.names, name="parameter"))

    def __repr__(self) -> str:
        how = "exact, affine residual" if self.affine else "refined"
        lines = [
            f"Frozen scan around the {center_words(self.center)}, view: {self.view}; "
            f"minimum ({how}): {self.status}"
        ]
        if not self.flat:
            lines.append(self.local_minima.to_string(float_format=lambda v: f"{v:.6g}"))
        return "\n".join(lines)


def _status(parameters: Parameters, values: FloatArray) -> str:
    """Say whether physical values lie inside the bounds, or on which of them."""
    for (name, parameter), value in zip(parameters.items(), values, strict=True):
        low, high = parameter.coordinate_bounds
        at, room = float(parameter.to_coordinate(value)), ON_BOUND * (high - low)
        if at <= low + room:
            return f"on the lower bound of {name}"
        if at >= high - room:
            return f"on the upper bound of {name}"
    return INTERIOR


# ---------------------------------------------------------------- the profile


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
    """

    candidates: FloatArray
    profile: FloatArray
    grid_minimum: FloatArray | None = None
    minima: tuple[tuple[FloatArray, float, bool], ...] = ()
    spread: float = 0.0


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

    def checked_directly(self, found: Found) -> tuple[int, float]:
        """Compare an exact profile with direct evaluations, at minima and some candidates.

        Returns how many were compared, and the largest deviation as a share of the largest
        profile value.
        """
        low, high = self.frozen.coordinate_bounds
        drawn = np.random.default_rng(1).uniform(low, high, (DIRECT_CHECKS, len(low)))
        where = np.clip(np.array([*(q for q, _, _ in found.minima), *drawn]), low, high)
        exact, direct = self(where), self._direct(where)
        largest = max(direct.max(), found.profile.max())
        off = float(np.abs(exact - direct).max())
        return len(where), off / largest if largest > 0 else off

    @cached_property
    def derivative(self) -> Derivative:
        """Whether exact derivatives of the residual can be used, as checked at the center."""
        local = self.local
        if local is None or local.requested == "difference":
            local = linearize(self.frozen, self.q)
        return "exact" if local.exact else "difference"

    def linearized(self, q: FloatArray, step: float = STEP) -> Linearization:
        """Differentiate the residual at coordinates of shape (d,)."""
        return linearize(self.frozen, q, self.derivative, step, check=False)

    def residual(self, coordinates: FloatArray) -> FloatArray:
        """Residual values at coordinates of shape (d,), as many as the view weighs."""
        values = self.frozen.at(coordinates)
        check_metric_size(self.metric, values)
        return values

    def slices(self, candidates: int) -> tuple[FloatArray, FloatArray]:
        """Candidate values along each parameter, and the profile with the others at the center."""
        low, high = self.frozen.coordinate_bounds
        values, profile = np.empty((2, len(self.q), candidates))
        for j, parameter in enumerate(self.frozen.parameters.values()):
            grid = np.tile(self.q, (candidates, 1))
            grid[:, j] = np.linspace(low[j], high[j], candidates)
            values[j], profile[j] = parameter.to_value(grid[:, j]), self(grid)
        return values, profile

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
        minima = [(np.array([at]), self.profile.value(at), at == own) for at in places]
        lowest = int(np.argmin(profile))
        return Found(values, profiles, grid[lowest : lowest + 1], _lowest_first(minima))

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

    def _refined(self, left: float, middle: float, right: float) -> float:
        """Minimum between two grid points: the root of the profile's derivative.

        The profile itself cannot tell places apart that differ by less than the root of
        rounding.
        """
        from scipy.optimize import brentq, minimize_scalar

        found = minimize_scalar(self.profile.value, bounds=(left, right), method="bounded")
        near = float(min((found.x, middle), key=self.profile.value))
        reach = 1e-3 * (right - left)
        a, b = max(near - reach, left), min(near + reach, right)
        if self.profile.slope(a) < 0 < self.profile.slope(b):
            return float(brentq(self.profile.slope, a, b, xtol=1e-15, rtol=1e-15))
        return near


def _lowest_first(
    minima: list[tuple[FloatArray, float, bool]],
) -> tuple[tuple[FloatArray, float, bool], ...]:
    return tuple(sorted(minima, key=lambda item: item[1]))


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

    def run(self, candidates: int, starts: int) -> Found:
        """Scan several parameters: a grid over the box, then bounded least squares."""
        low, high = self.profile.frozen.coordinate_bounds
        dimension = len(self.profile.q)
        each = max(3, min(candidates, int(max(candidates**2, 9) ** (1 / dimension) + 1e-9)))
        axes = [np.linspace(low[j], high[j], each) for j in range(dimension)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dimension)
        profile = self.profile(grid)
        slices = self.profile.slices(candidates)
        if np.ptp(profile) <= FLAT * np.abs(profile).max():
            return Found(*slices)
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
        return Found(*slices, self._grid_minimum(grid, profile), _lowest_first(minima), spread)

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
        nonlinear least squares, beside the center.

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
    frozen = as_frozen(residual, parameters, points)
    center = Parameters(frozen.parameters).center(at)
    return scan_from(frozen, bound_view(frozen, view), center, candidates, starts)


def scan_from(
    frozen: FrozenResidual,
    metric: Any,
    center: Center,
    candidates: int = 81,
    starts: int = 5,
    local: Linearization | None = None,
) -> FrozenScan:
    """Scan the profile of a frozen residual under a bound view.

    Parameters
    ----------
    frozen : FrozenResidual
    metric : BoundView
    center : Center
    candidates, starts : int
        As for `frozen_scan`.
    local : Linearization, optional
        Of the residual at the center, where it is known already. The scan then holds the
        quadratic model of the profile, too.
    """
    if not isinstance(candidates, (int, np.integer)) or candidates < 3:
        raise InputError("at least 3 candidates", f"candidates={candidates!r}", "pass 81")
    if not isinstance(starts, (int, np.integer)) or starts < 0:
        raise InputError(
            "starts as an integer of at least 0", f"starts={starts!r}", "pass starts=5"
        )
    q = frozen.coordinates(center.values)
    if local is None:
        values = frozen.physical(q)
        output = frozen.raw(values)
        at_center = frozen.checked(output, values)
        check_metric_size(metric, at_center)
        check_repeatable(frozen, output, at_center, values)
    else:
        at_center = local.residual
        check_metric_size(metric, at_center)
    test = affine_in_bounds(frozen, q, at_center)
    check_magnitude(test.largest, "residual")
    exact = None if test.form is None else affine_profile(test.form, metric)
    profile = Profile(frozen, metric, q, exact, local)
    found = _scanned(profile, candidates, starts)
    checked, deviation = test.checked, test.deviation
    if exact is not None:
        count, off = profile.checked_directly(found)
        checked, deviation = checked + count, max(deviation, off)
        if off > PROFILE_TOLERANCE:  # another regime, which the test did not meet
            profile = replace(profile, exact=None)
            found = _scanned(profile, candidates, starts)
    return _labelled(
        profile, found, center, float(metric.quadratic(at_center, at_center)), checked, deviation
    )


def _scanned(profile: Profile, candidates: int, starts: int) -> Found:
    if len(profile.q) == 1:
        return OneParameterScan(profile).run(candidates)
    return SeveralParameterScan(profile).run(candidates, starts)


def _labelled(
    profile: Profile,
    found: Found,
    center: Center,
    at_center: float,
    checked: int,
    deviation: float,
) -> FrozenScan:
    frozen, known = profile.frozen, Parameters(profile.frozen.parameters)

    def physical(q: FloatArray) -> list[float]:
        return list(frozen.physical(q).values())

    minima = np.array([physical(q) for q, _, _ in found.minima]).reshape(-1, len(known))
    grid = found.grid_minimum
    values = {
        **known.variables(),
        "center": [center.values[name] for name in known],
        "candidate_value": found.candidates,
        "profile": found.profile,
        "profile_at_center": at_center,
        "grid_minimum": np.full(len(known), np.nan) if grid is None else physical(grid),
        "local_minimum": minima,
        "local_profile": np.array([value for _, value, _ in found.minima]),
        "local_holds_center": np.array([holds for _, _, holds in found.minima], dtype=bool),
    }
    if profile.local is not None:
        local = profile.local
        terms = score_terms(local.residual, local.jacobian, profile.metric)
        steps = np.stack(
            [p.to_coordinate(row) for p, row in zip(known.values(), found.candidates, strict=True)]
        )
        steps = steps - profile.q[:, None]
        strength = np.diag(terms.H)[:, None]
        values["quadratic_model"] = at_center + 2 * terms.B[:, None] * steps + strength * steps**2
    about = {
        "view": profile.metric.describe(),
        "centered_on": center.kind,
        "status": FLAT_STATUS if not len(minima) else _status(known, minima[0]),
        "affine": int(profile.exact is not None),
        "affine_checked": checked,
        "affine_deviation": deviation,
        "start_spread": found.spread,
    }
    return FrozenScan.from_values(values, about)

r"""The frozen scan: the whole profile of a frozen field, not its value at one point.

The profile :math:`\phi(q) = r(q)^\top M\,r(q)` is evaluated over the bounds with the field
held. It is a slice through the training objective, never a profile likelihood: nothing is
fitted again. The scan tests the local displacement, finds minima elsewhere, and says when
there is none inside the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.signal import find_peaks

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, Points, Residual, as_frozen, bound_view
from twoaxis.geometry.affine import AffineProfile, affine_parts, affine_profile
from twoaxis.geometry.derivatives import linearize
from twoaxis.geometry.scan_result import FrozenScan
from twoaxis.geometry.terms import check_metric_size, score_terms
from twoaxis.least_squares import minimize
from twoaxis.parameters import Center, Parameter, center_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twoaxis.views import BoundView, View

FloatArray = NDArray[np.float64]

# Residuals held at once while a grid is evaluated.
VALUES_AT_ONCE = 8_000_000
# A profile that varies by less than this share of its size is flat.
FLAT = 1e-12
# Ends of the search closer than this, as a share of the box, are one minimum.
APART = 1e-4
# Step of the differences that refine a minimum, where derivatives are not exact.
FINE_STEP = 1e-5
# Minima whose profile values differ by less than this share are the same minimum.
SAME_VALUE = 1e-6

INTERIOR = "interior"
FLAT_STATUS = "flat: the residual does not see the parameter, and there is no minimum"


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
    center = center_of(frozen.parameters, at)
    metric = bound_view(frozen, view)
    q = frozen.coordinates(center.values)
    check_metric_size(metric, frozen.at(q))
    columns = affine_parts(frozen, q)
    exact = None if columns is None else affine_profile(columns, metric)
    job = _Scan(frozen, metric, center, q, exact, metric.describe())
    return job.one(candidates) if len(q) == 1 else job.several(candidates, starts)


@dataclass(frozen=True)
class _Scan:
    """One scan at work."""

    frozen: FrozenResidual
    metric: Any
    center: Center
    q: FloatArray
    exact: AffineProfile | None
    view: str

    def profile(self, coordinates: FloatArray) -> FloatArray:
        """Profile at coordinates of shape (n, d), in portions that fit in memory."""
        if self.exact is not None:
            return self.exact(self._values(coordinates))
        values = np.empty(len(coordinates))
        portion = max(1, VALUES_AT_ONCE // self.metric.size)
        for start in range(0, len(coordinates), portion):
            rows = coordinates[start : start + portion]
            stacked = np.column_stack([self._residual(row) for row in rows])
            values[start : start + portion] = np.einsum(
                "nb,nb->b", stacked, self.metric.apply(stacked)
            )
        return values

    def _residual(self, coordinates: FloatArray) -> FloatArray:
        values = self.frozen.at(coordinates)
        check_metric_size(self.metric, values)
        return values

    def _values(self, coordinates: FloatArray) -> FloatArray:
        columns = [
            p.to_value(coordinates[..., j]) for j, p in enumerate(self.frozen.parameters.values())
        ]
        return np.stack(columns, axis=-1)

    def named(self, coordinates: FloatArray) -> dict[str, float]:
        return self.frozen.physical(coordinates)

    def slices(self, candidates: int) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Profile along each parameter with the others at the centre."""
        low, high = self.frozen.coordinate_bounds
        result = {}
        for j, (name, parameter) in enumerate(self.frozen.parameters.items()):
            grid = np.tile(self.q, (candidates, 1))
            grid[:, j] = np.linspace(low[j], high[j], candidates)
            result[name] = (parameter.to_value(grid[:, j]), self.profile(grid))
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
            {**self.named(q), "profile": value, "status": self._status(q), "holds_center": holds}
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
            status=FLAT_STATUS if flat else self._status(minima[0][0]),
            affine=self.exact is not None,
            start_spread=spread,
            view=self.view,
        )

    def _status(self, q: FloatArray) -> str:
        low, high = self.frozen.coordinate_bounds
        room = 1e-9 * (high - low)
        for j, name in enumerate(self.frozen.names):
            if q[j] <= low[j] + room[j]:
                return f"on the lower bound of {name}"
            if q[j] >= high[j] - room[j]:
                return f"on the upper bound of {name}"
        return INTERIOR

    def one(self, candidates: int) -> FrozenScan:
        """Scan one parameter: grid, every local minimum refined, the centre's basin."""
        slices = self.slices(candidates)
        low, high = self.frozen.coordinate_bounds
        grid = np.linspace(low[0], high[0], candidates)
        ((_, profile),) = slices.values()
        if np.ptp(profile) <= FLAT * np.abs(profile).max():
            return self.result(slices, None, [])
        places = self._minima(grid, profile)
        home = grid[_downhill(profile, self._step_from_center(grid))]
        own = min(places, key=lambda at: abs(at - home))
        minima = [(np.array([at]), self._value(at), at == own) for at in places]
        lowest = int(np.argmin(profile))
        return self.result(slices, grid[lowest : lowest + 1], minima)

    def _minima(self, grid: FloatArray, profile: FloatArray) -> list[float]:
        """Coordinates of all local minima, those on a bound included."""
        best = None if self.exact is None else self.exact.minimizer()
        if best is not None:  # the only one, in closed form
            (parameter,) = self.frozen.parameters.values()
            return [float(parameter.to_coordinate(np.clip(best[0], *parameter.bounds)))]
        # A bound is a minimum when the profile rises from it into the interior.
        hair = 2 * FINE_STEP * (grid[1] - grid[0])
        places = []
        if self._slope(grid[0] + hair) > 0:
            places.append(float(grid[0]))
        if self._slope(grid[-1] - hair) < 0:
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
        k = int(np.clip(np.searchsorted(grid, self.q[0], side="right") - 1, 0, len(grid) - 2))
        if np.isclose(grid[k : k + 2], self.q[0], rtol=0, atol=1e-9 * np.ptp(grid)).any():
            return k + int(np.argmin(np.abs(grid[k : k + 2] - self.q[0])))
        here, beside = float(self.q[0]), 1e-3 * (grid[1] - grid[0])
        return k if self._value(here + beside) > self._value(here - beside) else k + 1

    def _refined(self, left: float, middle: float, right: float) -> float:
        """Minimum between two grid points: the root of the profile's derivative.

        The profile itself cannot tell places apart that differ by less than the root of
        rounding.
        """
        found = minimize_scalar(self._value, bounds=(left, right), method="bounded")
        near = float(min((found.x, middle), key=self._value))
        reach = 1e-3 * (right - left)
        a, b = max(near - reach, left), min(near + reach, right)
        if self._slope(a) < 0 < self._slope(b):
            return float(brentq(self._slope, a, b, xtol=1e-15, rtol=1e-15))
        return near

    def _value(self, at: float) -> float:
        return float(self.profile(np.array([[at]]))[0])

    def _slope(self, at: float) -> float:
        """Half the derivative of the profile, B, at one coordinate."""
        local = linearize(self.frozen, np.array([at]), step=FINE_STEP)
        return float(score_terms(local.residual, local.jacobian, self.metric).B[0])

    def several(self, candidates: int, starts: int) -> FrozenScan:
        """Scan several parameters: a grid over the box, then bounded least squares."""
        low, high = self.frozen.coordinate_bounds
        dimension = len(self.q)
        each = max(3, min(candidates, int(max(candidates**2, 9) ** (1 / dimension) + 1e-9)))
        axes = [np.linspace(low[j], high[j], each) for j in range(dimension)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dimension)
        profile = self.profile(grid)
        slices = self.slices(candidates)
        if np.ptp(profile) <= FLAT * np.abs(profile).max():
            return self.result(slices, None, [])
        exact = self._exact_minimum()  # the only minimum, where the residual is affine
        if exact:
            ends = exact
        else:
            bottoms = _grid_minima(profile.reshape((each,) * dimension), grid, starts)
            found = self._least_squares(np.vstack([self.q, bottoms]))
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
        return self.result(slices, self._grid_minimum(grid, profile), minima, spread)

    def _relative(self, q: FloatArray) -> FloatArray:
        """Coordinates as fractions of the box, in which distances mean the same everywhere."""
        low, high = self.frozen.coordinate_bounds
        return (q - low) / (high - low)

    def _grid_minimum(self, grid: FloatArray, profile: FloatArray) -> FloatArray:
        """Return the lowest grid point; of equally low ones, the nearest to the centre."""
        low = np.flatnonzero(profile <= profile.min() + FLAT * profile.max())
        distance = np.linalg.norm(self._relative(grid[low]) - self._relative(self.q), axis=1)
        return np.asarray(grid[low[int(np.argmin(distance))]])

    def _distinct(
        self, ends: list[FloatArray], values: FloatArray, tie: float
    ) -> list[tuple[FloatArray, float, bool]]:
        """Drop saddles and repetitions; of equally low ends, the nearest to the centre stays."""
        distance = np.array([_apart(self._relative(q), self._relative(self.q)) for q in ends])
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
        if self._status(q) != INTERIOR:
            return False
        local = linearize(self.frozen, q, step=FINE_STEP)
        terms = score_terms(local.residual, local.jacobian, self.metric)
        low, high = self.frozen.coordinate_bounds
        curvature = terms.H + local.weighted_second(self.metric.apply(local.residual))
        values = np.linalg.eigvalsh(curvature * np.outer(high - low, high - low))
        return bool(values[0] < -1e-6 * np.abs(values).max())

    def _polished(self, q: FloatArray) -> FloatArray:
        """Newton steps on the derivative of the profile, as long as they get shorter."""
        last = np.inf
        for _ in range(20):
            if self._status(q) != INTERIOR:
                return q
            local = linearize(self.frozen, q, step=FINE_STEP)
            terms = score_terms(local.residual, local.jacobian, self.metric)
            curvature = terms.H + local.weighted_second(self.metric.apply(local.residual))
            # In fractions of the box, so that units cannot hide a direction.
            width = np.ptp(self.frozen.coordinate_bounds, axis=0)
            scaled = curvature * np.outer(width, width)
            step = -width * np.linalg.lstsq(scaled, terms.B * width, rcond=1e-10)[0]
            size = float(np.abs(step / width).max())
            if not size < min(last, 1e-3):
                return q
            q, last = q + step, size
        return q

    def _exact_minimum(self) -> list[FloatArray]:
        """Return the closed-form minimum of an affine residual, where it lies in the box."""
        best = None if self.exact is None else self.exact.minimizer()
        if best is None:
            return []
        for value, parameter in zip(best, self.frozen.parameters.values(), strict=True):
            if not parameter.bounds[0] <= value <= parameter.bounds[1]:
                return []
        return [self.frozen.coordinates(dict(zip(self.frozen.names, best.tolist(), strict=True)))]

    def _least_squares(self, begin: FloatArray) -> Any:
        """Bounded nonlinear least squares under the view, from every row of `begin`."""
        low, high = self.frozen.coordinate_bounds
        # The objective is scaled so that the stopping rule does not depend on the view's scale.
        size = float(self.profile(begin).max()) or 1.0

        def misfit(q: FloatArray, _: Any) -> FloatArray:
            return np.stack([-self._residual(row) for row in q])

        def sensitivity(q: FloatArray, _: FloatArray, __: Any) -> FloatArray:
            return np.stack([linearize(self.frozen, row).jacobian for row in q])

        return _unscaled(
            minimize(
                misfit,
                sensitivity,
                begin,
                low,
                high,
                gain_tolerance=1e-20,
                max_iterations=200,
                metric=lambda v: self.metric.apply(v.T).T / size,
            ),
            size,
        )


def _unscaled(found: Any, size: float) -> Any:
    return found._replace(chi2=found.chi2 * size)


def _apart(a: FloatArray, b: FloatArray) -> float:
    return float(np.abs(a - b).max())


def _downhill(profile: FloatArray, start: int) -> int:
    """Return the grid index at the bottom of the basin that holds `start`."""
    here = start
    while True:
        around = range(max(here - 1, 0), min(here + 2, len(profile)))
        lowest = min(around, key=lambda k: float(profile[k]))
        if profile[lowest] >= profile[here]:
            return here
        here = lowest


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

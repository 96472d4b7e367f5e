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
from scipy.optimize import minimize_scalar

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, Points, Residual, as_frozen, bound_view
from twoaxis.geometry.affine import AffineProfile, affine_parts, affine_profile
from twoaxis.geometry.derivatives import linearize
from twoaxis.geometry.scan_result import FrozenScan
from twoaxis.geometry.terms import check_metric_size
from twoaxis.least_squares import minimize
from twoaxis.parameters import Center, Parameter, center_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twoaxis.views import BoundView, View

FloatArray = NDArray[np.float64]

# Candidates in all when several parameters span a grid: 81 by 81 for two.
GRID_BUDGET = 81 * 81
# Residuals held at once while a grid is evaluated.
VALUES_AT_ONCE = 8_000_000
# A profile that varies by less than this share of its size is flat.
FLAT = 1e-12
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
        padded = np.pad(profile, 1, constant_values=np.inf)
        bottoms = np.flatnonzero((profile <= padded[:-2]) & (profile < padded[2:]))
        home = _downhill(profile, int(np.argmin(np.abs(grid - self.q[0]))))
        nearest = bottoms[int(np.argmin(np.abs(bottoms - home)))]
        minima = []
        for k in bottoms.tolist():
            at = self._refined(grid[max(k - 1, 0)], grid[k], grid[min(k + 1, candidates - 1)])
            holds = bool(k == nearest)
            minima.append((np.array([at]), float(self.profile(np.array([[at]]))[0]), holds))
        lowest = int(np.argmin(profile))
        return self.result(slices, grid[lowest : lowest + 1], minima)

    def _refined(self, left: float, middle: float, right: float) -> float:
        """Minimum between two grid points, in closed form where the residual is affine."""
        (parameter,) = self.frozen.parameters.values()
        if self.exact is not None:
            best = self.exact.minimizer()
            if best is not None:
                low, high = parameter.bounds
                return float(parameter.to_coordinate(np.clip(best[0], low, high)))
        found = minimize_scalar(
            lambda at: float(self.profile(np.array([[at]]))[0]),
            bounds=(left, right),
            method="bounded",
            options={"xatol": 1e-11 * max(1.0, abs(middle))},
        )
        # The search never quite reaches the ends of its interval.
        return float(min((found.x, left, middle, right), key=lambda at: self._value(at)))

    def _value(self, at: float) -> float:
        return float(self.profile(np.array([[at]]))[0])

    def several(self, candidates: int, starts: int) -> FrozenScan:
        """Scan several parameters: a grid over the box, then bounded least squares."""
        low, high = self.frozen.coordinate_bounds
        dimension = len(self.q)
        budget = GRID_BUDGET if candidates == 81 else candidates**2
        each = max(3, min(candidates, int(budget ** (1 / dimension) + 1e-9)))
        axes = [np.linspace(low[j], high[j], each) for j in range(dimension)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dimension)
        profile = self.profile(grid)
        slices = self.slices(candidates)
        if np.ptp(profile) <= FLAT * np.abs(profile).max():
            return self.result(slices, None, [])
        bottoms = _grid_minima(profile.reshape((each,) * dimension), grid, starts)
        begin = np.vstack([self.q, bottoms, *self._exact_minimum()])
        found = self._least_squares(begin)
        order = np.argsort(found.chi2)
        minima: list[tuple[FloatArray, float, bool]] = []
        for k in order:
            q, value = found.q[k], float(found.chi2[k])
            apart = [np.abs(q - other).max() for other, _, _ in minima]
            if not apart or min(apart) > 1e-4 * (high - low).max():
                minima.append((q, value, False))
        home = found.q[0]
        nearest = int(np.argmin([np.abs(home - other).max() for other, _, _ in minima]))
        minima[nearest] = (*minima[nearest][:2], True)
        lowest = found.chi2.min()
        reached = found.q[found.chi2 <= lowest + SAME_VALUE * (lowest + FLAT * profile.max())]
        spread = float(np.ptp(reached, axis=0).max()) if len(reached) else 0.0
        return self.result(slices, grid[int(np.argmin(profile))], minima, spread)

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

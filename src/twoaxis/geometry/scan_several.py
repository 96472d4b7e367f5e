"""The scan of several parameters: a grid over the box, then bounded least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.geometry.profile import FINE_STEP, FLAT, INTERIOR, Profile
from twoaxis.geometry.scan_result import FrozenScan
from twoaxis.geometry.terms import score_terms
from twoaxis.least_squares import minimize

FloatArray = NDArray[np.float64]

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
                gain_tolerance=1e-20,
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

"""The scan of one parameter: every local minimum, refined on the profile's derivative."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.signal import find_peaks

from twoaxis.geometry.profile import FINE_STEP, FLAT, Profile
from twoaxis.geometry.scan_result import FrozenScan

FloatArray = NDArray[np.float64]


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

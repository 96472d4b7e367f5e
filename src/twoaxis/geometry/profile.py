"""The profile of a frozen field as a function, and what every scan of it shares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.geometry.affine import AffineProfile
from twoaxis.geometry.derivatives import STEP, Derivative, Linearization, linearize
from twoaxis.geometry.scan_result import FrozenScan
from twoaxis.geometry.terms import check_metric_size, score_terms
from twoaxis.parameters import Center

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

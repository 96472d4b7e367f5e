"""A frozen scan as its reader meets it: slices, minima and what to make of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.parameters import Center, Parameter

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

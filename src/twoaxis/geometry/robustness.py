"""Does the reading depend on how it was computed? Steps crossed with grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from twoaxis.frozen import Points, Residual
from twoaxis.geometry.derivatives import PUBLISHED_STEPS
from twoaxis.geometry.scan import frozen_scan
from twoaxis.geometry.score import score

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twoaxis.parameters import Unknowns
    from twoaxis.views import BoundView, View


def step_robustness(
    residual: Residual,
    parameters: Unknowns | None = None,
    view: View | BoundView | None = None,
    *,
    points: Points = None,
    at: str | Mapping[str, float] | None = None,
    steps: Sequence[float] = PUBLISHED_STEPS,
    candidates: Sequence[int] = (81, 161),
) -> pd.DataFrame:
    """Cross the steps of the differences with the grids of the scan.

    Parameters
    ----------
    residual, parameters, view, points, at
        As for `twoaxis.score`.
    steps : sequence of float
        The three published ones by default.
    candidates : sequence of int
        Grid sizes of the scan.

    Returns
    -------
    pandas.DataFrame
        A row for each parameter, step and grid: the displacement, the displacement of the
        grid minimum and that of the refined minimum. A flat profile has no last two.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 5, 40)
    >>> known = {"k": ta.Parameter(truth=0.8, delivered=0.93, bounds=(0.1, 4.0))}
    >>> u, u_t = np.exp(-0.9 * t), -0.9 * np.exp(-0.9 * t)  # a learned field
    >>> frozen = ta.FrozenResidual(lambda k: u_t + k * u, known, t, view=ta.views.Pointwise())
    >>> table = ta.step_robustness(frozen)
    >>> table["refined_minimum"].round(6).unique().tolist()
    [0.117783]
    """
    scans = {
        n: frozen_scan(residual, parameters, view, points=points, candidates=n, at=at)
        for n in candidates
    }
    rows = []
    for step in steps:
        found = score(
            residual, parameters, view, points=points, at=at, step=step, derivative="difference"
        )
        for n, scan in scans.items():
            grid, refined = scan.grid_displacement, scan.displacement
            for name in found.names:
                row = {
                    "parameter": name,
                    "step": step,
                    "candidates": n,
                    "displacement": found.displacement[name],
                    "delta_percent": found.delta_percent[name],
                }
                if grid is not None and refined is not None:
                    row |= {"grid_minimum": grid[name], "refined_minimum": refined[name]}
                rows.append(row)
    return pd.DataFrame(rows).set_index(["parameter", "step", "candidates"])

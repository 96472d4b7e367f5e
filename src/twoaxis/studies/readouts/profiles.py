"""Score and frozen scan of a field, view by view: the measurement that most blocks share.

The centre is the truth and the box is the published one, whatever the network delivered. As in
the study, the derivative is a centred difference in log coordinates and the selected minimum
is that of the grid; the continuously refined minimum and that of the truth's own basin stand
beside it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from twoaxis.frozen import FrozenResidual, bound_view
from twoaxis.geometry import frozen_scan, score
from twoaxis.problems import truth_of
from twoaxis.studies.readouts.readout import Readout
from twoaxis.studies.scale import Scale
from twoaxis.training import Run
from twoaxis.views import Gaussian, Patch, Pointwise

STEP = 1e-3
CANDIDATES = 81
# The robustness audit crosses these.
STEPS = (5e-4, 1e-3, 2e-3)
GRIDS = (81, 161)

VIEWS = {"pointwise": Pointwise(), "patch-8": Patch(cells=8), "full kernel": Gaussian()}
OWN = "own"


def in_published_box(run: Run) -> FrozenResidual:
    """Return the frozen field with the problem's own bounds, centred on the truth."""
    return replace(run.frozen, parameters=run.problem.parameters)


def _profile(run: Run, frozen: FrozenResidual, view: str) -> dict[str, Any]:
    """Return one row: the score and the scan under one view."""
    (name,) = run.problem.parameters
    metric = bound_view(frozen, run.view if view == OWN else VIEWS[view])
    found = score(frozen, view=metric, derivative="difference", step=STEP)
    scan = frozen_scan(frozen, view=metric, candidates=CANDIDATES)
    row = {
        "view": view,
        "B": float(found.B),
        "H": float(found.H),
        "displacement": found.displacement[name],
        "delta_percent": found.delta_percent[name],
        "residual_mse": float(found.residual_norm) ** 2,
        "alignment": float(np.squeeze(found.alignment)),
        "delivered_displacement": _moved(run, run.delivered)[name],
        "scan_status": scan.status,
    }
    minima = {
        "grid": scan.grid_displacement,
        "refined": scan.displacement,
        "basin": scan.basin_minimum and _moved(run, scan.basin_minimum),
    }
    for kind, moved in minima.items():
        step = np.nan if moved is None else float(moved[name])
        row[f"{kind}_displacement"] = step
        row[f"{kind}_error_percent"] = 100 * abs(np.expm1(step))
    return row


def _moved(run: Run, values: dict[str, float]) -> dict[str, float]:
    """Return how far parameters lie from the truth, in their coordinates."""
    truth = truth_of(run.problem)
    return {
        name: float(p.to_coordinate(values[name])) - float(p.to_coordinate(truth[name]))
        for name, p in run.problem.parameters.items()
    }


def _three_views(run: Run, scale: Scale) -> list[dict[str, Any]]:
    del scale
    frozen = in_published_box(run)
    return [_profile(run, frozen, view) for view in VIEWS]


def _training_view(run: Run, scale: Scale) -> list[dict[str, Any]]:
    del scale
    frozen = in_published_box(run)
    return [_profile(run, frozen, view) for view in (OWN, "pointwise")]


def _crossings(run: Run, scale: Scale) -> list[dict[str, Any]]:
    """Return a row for each view, step and grid of the robustness audit."""
    del scale
    frozen = in_published_box(run)
    (name,) = run.problem.parameters
    rows = []
    for view in VIEWS:
        metric = bound_view(frozen, VIEWS[view])
        scans = {n: frozen_scan(frozen, view=metric, candidates=n) for n in GRIDS}
        for step in STEPS:
            found = score(frozen, view=metric, derivative="difference", step=step)
            for grid, scan in scans.items():
                moved = scan.grid_displacement
                rows.append(
                    {
                        "view": view,
                        "step": step,
                        "grid": grid,
                        "delta_percent": found.delta_percent[name],
                        "grid_error_percent": 100
                        * abs(np.expm1(np.nan if moved is None else moved[name])),
                    }
                )
    return rows


# Pointwise, patch and full kernel, whatever the field was trained under.
PROFILES = Readout("profiles", 1, _three_views)
# The view of the training with its last weights, and the pointwise one beside it.
ENDPOINTS = Readout("endpoints", 1, _training_view)
CROSSINGS = Readout("crossings", 1, _crossings)

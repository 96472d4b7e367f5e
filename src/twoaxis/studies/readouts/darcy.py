"""The two-parameter score of a Darcy field, and the refined minimum of its frozen profile.

Everything is under the pointwise view, whatever the field was trained under, centred on the
truth and inside the published box. Derivatives are exact. Numbers are in the coordinates of the
problem, which are linear; the first belongs to ``lambda_0``, the second to ``lambda_1``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, bound_view
from twoaxis.geometry import frozen_scan, score
from twoaxis.studies.readouts.profiles import in_published_box
from twoaxis.studies.readouts.readout import Readout
from twoaxis.studies.scale import Scale
from twoaxis.training import Run
from twoaxis.views import Pointwise


def _read(run: Run, scale: Scale) -> list[dict[str, Any]]:
    frozen = in_published_box(run)
    metric = bound_view(frozen, Pointwise())
    found = score(frozen, view=metric, at="truth", derivative="exact")
    scan = frozen_scan(frozen, view=metric, at="truth", candidates=scale.darcy_grid)
    if scan.displacement is None:
        raise InputError(
            "a Darcy field whose residual depends on the permeability",
            f"{run.key}: {scan.status}",
            "train the field longer",
        )
    full = np.array(list(found.displacement.values()))
    stepped = frozen.coordinates(found.center.values) + full
    return [
        {
            "B_0": found.B[0],
            "B_1": found.B[1],
            "H_00": found.H[0, 0],
            "H_01": found.H[0, 1],
            "H_11": found.H[1, 1],
            **_numbered("full", found.displacement),
            **_numbered("diagonal", found.diagonal_displacement),
            **_numbered("refined", scan.displacement),
            "coupling": abs(found.coupling[0, 1]),
            "loss_at_truth": found.residual_norm**2,
            "loss_after_step": _loss(frozen, stepped),
            "minima": len(scan.local_minima),
            "scan_status": scan.status,
            "start_spread": scan.start_spread,
            "finished": run.finished,
        }
    ]


def _loss(frozen: FrozenResidual, coordinates: NDArray[np.float64]) -> float:
    """Return the mean squared residual; infinite where a step leads beyond all numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        loss = float(np.mean(np.square(frozen.raw(frozen.physical(coordinates)))))
    return loss if np.isfinite(loss) else float("inf")


def _numbered(name: str, values: dict[str, float]) -> dict[str, float]:
    return {f"{name}_{number}": value for number, value in enumerate(values.values())}


# ``full``, ``diagonal`` and ``refined`` are displacements from the truth.
DARCY = Readout("darcy", 1, _read)

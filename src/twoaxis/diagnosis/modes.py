"""Which scales of the residual see the parameters, for the audit's picture.

The modes are the view's own where it has some: cells of a patch view, eigenvectors of a kernel.
A view that weighs every point by itself (pointwise, weighted) has no scales. Its strength,
``|M^(1/2) J|^2``, is then resolved in the eigenvectors of the Gaussian kernel, from coarse to
fine; any orthonormal basis keeps the sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from twoaxis.diagnosis.tree import labelled
from twoaxis.errors import InputError
from twoaxis.geometry.score import Score
from twoaxis.views import Gaussian
from twoaxis.views.view import BoundDiagonal

FloatArray = NDArray[np.float64]

# Unless asked for, modes are computed up to this many points, or where the view has few.
CHEAP_POINTS = 2500
CHEAP_RANK = 256
MODES = 128


def modes_wanted(asked: bool | int | None, metric: Any) -> int:
    """Return how many modes to compute; 0 for none."""
    if asked is None:
        few = metric.rank <= CHEAP_RANK and not isinstance(metric, BoundDiagonal)
        return MODES if few or metric.size <= CHEAP_POINTS else 0
    if isinstance(asked, (bool, np.bool_)):
        return MODES if asked else 0
    if not isinstance(asked, (int, np.integer)) or asked < 1:
        raise InputError(
            "spectrum as True, False or a number of modes", f"spectrum={asked!r}", "pass 128"
        )
    return int(asked)


def mode_contributions(
    score: Score,
    residual: FloatArray,
    jacobian: FloatArray,
    points: FloatArray,
    metric: Any,
    count: int,
) -> xr.Dataset:
    """Resolve strength and score in leading modes; residual (N,), jacobian (N, d)."""
    if isinstance(metric, BoundDiagonal):
        root = np.sqrt(metric.diagonal())
        values, vectors = Gaussian().bind(points).eigenpairs(min(count, len(residual)))
        along_j = vectors.T @ (root[:, None] * jacobian)
        along_r = vectors.T @ (root * residual)
        weights = np.ones(len(values))
        basis = "eigenvectors of the Gaussian kernel, from coarse to fine"
        complete = len(values) >= len(residual)
    else:
        values, vectors = metric.eigenpairs(count)
        along_j, along_r = vectors.T @ jacobian, vectors.T @ residual
        weights = np.maximum(values, 0.0)
        basis = f"eigenvectors of the view: {metric.describe()}"
        complete = len(values) >= metric.rank
    return labelled(
        "/spectrum",
        {
            "mode": np.arange(1, len(values) + 1),
            "eigenvalue": np.maximum(values, 0.0),
            "strength": weights[:, None] * along_j**2,
            "signed": weights[:, None] * along_j * along_r[:, None],
            "strength_total": np.diag(score.terms.H),
            "signed_total": score.terms.B,
        },
        {"basis": basis, "complete": int(complete)},
    )

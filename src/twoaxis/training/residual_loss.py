r"""The residual term of the loss: a view as arrays for the training loop, its value and slope.

.. math:: L(r) = \sum_k m_k\,(F\,(w \circ r))_k^2

with weights ``w`` of the points and ``m`` of the modes, which the weight rule may set, and the
view :math:`M = F^\top F` in the cheapest of three shapes: a diagonal, a factor of few rows, or
the full matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.views import BoundView, View
from twoaxis.views.view import BoundDiagonal

FloatArray = NDArray[np.float64]

# Below this share of the largest eigenvalue a mode is lost in the rounding of float32 products.
NEGLIGIBLE = 1e-9


def form_of(view: View, points: FloatArray, as_modes: bool) -> dict[str, FloatArray]:
    """Return the arrays of a view at `points` (N, k): ``diagonal``, ``factor`` or ``matrix``."""
    bound: BoundView = view.bind(points)
    if isinstance(bound, BoundDiagonal) and not as_modes:
        return {"diagonal": bound.diagonal()}
    if as_modes or 2 * bound.rank < bound.size:
        values, vectors = bound.eigenpairs()
        keep = values > NEGLIGIBLE * values[0]
        return {"factor": np.sqrt(values[keep])[:, None] * vectors[:, keep].T}
    return {"matrix": bound.matrix()}


def stacked_forms(forms: list[dict[str, FloatArray]]) -> list[dict[str, FloatArray]]:
    """Give all runs of a batch the same shapes: short factors get rows of zeros.

    The rank of a view may differ by run, as the number of occupied cells does. Where that makes
    one run a factor and another a matrix, all become matrices.
    """
    kinds = {next(iter(form)) for form in forms}
    if kinds == {"factor", "matrix"}:
        return [f if "matrix" in f else {"matrix": f["factor"].T @ f["factor"]} for f in forms]
    if len(kinds) > 1:
        # Only a user's own view that changes its kind with the points comes here.
        raise InputError(
            "a view that has the same shape in every run",
            f"shapes {', '.join(sorted(kinds))}",
            "train these runs in separate calls",
        )
    if kinds != {"factor"}:
        return forms
    rows = max(len(form["factor"]) for form in forms)
    return [
        {"factor": np.pad(form["factor"], ((0, rows - len(form["factor"])), (0, 0)))}
        for form in forms
    ]


def loss_and_slope(form: dict[str, Any], weights: dict[str, Any], residual: Any) -> tuple[Any, Any]:
    """Return the loss and its derivative by the residual values, shape (N,)."""
    points = weights.get("points", 1)
    seen = points * residual
    if "diagonal" in form:
        pulled = form["diagonal"] * seen
    elif "matrix" in form:
        pulled = form["matrix"] @ seen
    else:
        pulled = form["factor"].T @ (weights.get("modes", 1) * (form["factor"] @ seen))
    return (seen * pulled).sum(), 2 * points * pulled

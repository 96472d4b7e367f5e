"""The view that a run was trained under, with the weights of its last evaluated loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.views import Dense, Gaussian, Pointwise, View, Weighted

FloatArray = NDArray[np.float64]


def frozen_view(view: View, weights: dict[str, Any], points: FloatArray) -> View:
    r"""Return ``M = diag(w) V^T diag(m) V diag(w)`` as a view: what the last loss was made of.

    Parameters
    ----------
    view : View
        That of the method.
    weights : dict of str to array
        ``points`` (w) and ``modes`` (m), where the weight rule keeps them.
    points : array, shape (N, k)
    """
    modes = weights.get("modes")
    if modes is not None:
        view = _with_modes(view, np.asarray(modes, dtype=float), points)
    w = weights.get("points")
    if w is None:
        return view
    w = np.asarray(w, dtype=float)
    if not w.any():  # before the first loss was evaluated there is nothing to freeze
        return view
    if isinstance(view, Pointwise):
        return Weighted(loss_weights=w**2)
    return Dense(w[:, None] * view.bind(points).matrix() * w)


def _with_modes(view: View, modes: FloatArray, points: FloatArray) -> View:
    kept = int(np.count_nonzero(modes))
    leading = bool(np.all(modes[:kept] == 1))
    if isinstance(view, Gaussian) and leading:
        return replace(view, rank=kept)
    values, vectors = view.bind(points).eigenpairs(len(modes))
    return Dense((vectors * (values * modes)) @ vectors.T)

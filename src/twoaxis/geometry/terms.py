"""The array core of the score: what follows from r, J and M alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError

FloatArray = NDArray[np.float64]

# Eigenvalues of H below this share of the largest are rounding: nothing is seen there.
NULL_SHARE = 1e-12


@dataclass(frozen=True)
class Terms:
    """The array core: what follows from r, J and M alone.

    Attributes
    ----------
    B : array, shape (d,)
    H : array, shape (d, d)
    displacement : array, shape (d,)
        ``-H^+ B``, of minimum norm in the coordinates.
    diagonal_displacement : array, shape (d,)
        ``-B_i / H_ii``: each parameter by itself; zero where ``H_ii`` is.
    eigenvalues, eigenvectors
        Of H, weakest first; directions in rows, shape (d, d).
    null : array of bool, shape (d,)
        Directions that the residual does not see.
    residual_norm : float
        ``sqrt(r^T M r)``.
    alignment : array, shape (d,)
        ``B_i / (|J_i| |r|)``, zero by convention where a norm vanishes.
    """

    B: FloatArray
    H: FloatArray
    displacement: FloatArray
    diagonal_displacement: FloatArray
    eigenvalues: FloatArray
    eigenvectors: FloatArray
    null: NDArray[np.bool_]
    residual_norm: float
    alignment: FloatArray


def score_terms(residual: FloatArray, jacobian: FloatArray, metric: Any) -> Terms:
    """Compute the score of residual (N,) and Jacobian (N, d) under a bound view."""
    together = np.column_stack([jacobian, residual])
    gram = metric.quadratic(together, together)
    gram = (gram + gram.T) / 2
    H, B = gram[:-1, :-1], gram[:-1, -1]
    norm = float(np.sqrt(max(gram[-1, -1], 0.0)))
    values, vectors = np.linalg.eigh(H)
    strength = np.sqrt(np.maximum(np.diag(H), 0.0))
    displacement, nullity = _displacement(H, B, strength)
    sizes = strength * norm
    # Rounding may lift a perfect alignment over one.
    alignment = np.clip(np.where(sizes > 0, B / np.where(sizes > 0, sizes, 1.0), 0.0), -1, 1)
    seen = strength > 0
    return Terms(
        B=B,
        H=H,
        displacement=displacement,
        diagonal_displacement=np.where(seen, -B / np.where(seen, strength, 1.0) ** 2, 0.0),
        eigenvalues=np.maximum(values, 0.0),
        eigenvectors=vectors.T,
        null=np.arange(len(values)) < nullity,
        residual_norm=norm,
        alignment=alignment,
    )


def _displacement(H: FloatArray, B: FloatArray, strength: FloatArray) -> tuple[FloatArray, int]:
    """Return ``-H^+ B`` and the dimension of what H does not see.

    What is seen is decided with every parameter in units of its own strength, so that the
    units in which parameters are written cannot hide a direction.
    """
    scale = np.where(strength > 0, strength, 1.0)
    values, vectors = np.linalg.eigh(H / np.outer(scale, scale))
    null = values <= NULL_SHARE * max(values[-1], 0.0)
    along = vectors.T @ (B / scale)
    step = -(vectors @ np.where(null, 0.0, along / np.where(null, 1.0, values))) / scale
    if null.any():  # of all solutions, the one of least norm in the coordinates
        blind, _ = np.linalg.qr(vectors[:, null] / scale[:, None])
        step = step - blind @ (blind.T @ step)
    return step, int(null.sum())


def check_metric_size(metric: Any, residual: FloatArray) -> None:
    """Refuse a view that is bound to another number of residual values."""
    if metric.size != len(residual):
        raise InputError(
            f"a view of {len(residual)} residual values",
            f"one of {metric.size}",
            "for several equations use twoaxis.views.Blocks, with one view for each",
        )

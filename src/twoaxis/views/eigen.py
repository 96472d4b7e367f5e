"""Leading eigenpairs, from a matrix or from its action alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh

from twoaxis.views.checks import FloatArray

# Residual |A v - lambda v| of an iterative eigenpair, relative to the largest eigenvalue.
ITERATION_TOLERANCE = 1e-13


def dense_pairs(matrix: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the `count` leading eigenpairs of a symmetric matrix, descending."""
    size = len(matrix)
    if count == size:
        values, vectors = eigh(matrix, driver="evd", check_finite=False)
    else:
        values, vectors = eigh(matrix, subset_by_index=[size - count, size - 1], check_finite=False)
    return values[::-1], oriented(vectors[:, ::-1])


def iterative_pairs(
    apply: Callable[[FloatArray], FloatArray], size: int, count: int, scale: float
) -> tuple[FloatArray, FloatArray]:
    """Return the `count < size` leading eigenpairs of a semidefinite operator, descending.

    Parameters
    ----------
    apply : callable
        Takes a vector (size,) and returns the operator's product with it.
    size, count : int
    scale : float
        The largest eigenvalue, roughly and not above it.
    """

    # The solver measures residuals against each eigenvalue, which it can never meet for one
    # that is zero up to rounding. Shifted by the scale of the operator, all are measured
    # alike; Krylov spaces do not change under a shift.
    def shifted(vector: FloatArray) -> FloatArray:
        flat = vector.reshape(size)
        return apply(flat) + scale * flat

    operator = LinearOperator((size, size), matvec=shifted, dtype=float)
    # Fixed, so that equal input gives equal output, and random, so that it is not
    # orthogonal to the odd eigenvectors of a symmetric set of points.
    start = np.random.default_rng(0).standard_normal(size)
    values, vectors = eigsh(operator, k=count, which="LA", v0=start, tol=ITERATION_TOLERANCE)
    order = np.argsort(-values, kind="stable")
    return values[order] - scale, oriented(vectors[:, order])


def oriented(vectors: FloatArray) -> FloatArray:
    """Give each column the sign that makes its entry of largest magnitude positive."""
    flip = -vectors.min(axis=0) > vectors.max(axis=0)
    return vectors * np.where(flip, -1.0, 1.0)

"""Leading eigenpairs, from a matrix or from its action alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh

from twoaxis.views.checks import FloatArray

Apply = Callable[[FloatArray], FloatArray]

# Residual |A v - lambda v| of an iterative eigenpair, relative to the largest eigenvalue.
ITERATION_TOLERANCE = 1e-13
# For the question whether an eigenvalue was missed: it errs by the square of the residual.
CHECK_TOLERANCE = 1e-6
# Eigenvalues that differ by less than this part of the largest are the same.
SAME = 1e-11
# Missed eigenpairs are looked for this many at a time.
MISSED = 8


def dense_pairs(matrix: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the `count` leading eigenpairs of a symmetric matrix, descending."""
    size = len(matrix)
    if count == size:
        values, vectors = eigh(matrix, driver="evd", check_finite=False)
    else:
        values, vectors = eigh(matrix, subset_by_index=[size - count, size - 1], check_finite=False)
    return values[::-1], oriented(vectors[:, ::-1])


def iterative_pairs(
    apply: Apply, size: int, count: int, scale: float
) -> tuple[FloatArray, FloatArray]:
    """Return the `count` leading eigenpairs of a semidefinite operator, descending.

    Parameters
    ----------
    apply : callable
        Takes a vector (size,) and returns the operator's product with it.
    size, count : int
        Well below size, as an iteration is no gain otherwise.
    scale : float
        The largest eigenvalue, roughly and not above it.

    Notes
    -----
    A Krylov space of one vector holds one eigenvector of each eigenvalue, and where points
    lie on a lattice many eigenvalues are multiple: copies appear only by rounding, and some
    not in time. So the iteration is repeated on what is orthogonal to the pairs found,
    until that has no eigenvalue above the last of them.
    """
    # Fixed, so that equal input gives equal output, and random, so that no start is
    # orthogonal to the odd eigenvectors of a symmetric set of points. A new one each time:
    # what an old one could reach has been found.
    starts = np.random.default_rng(0)

    def run(operator: Apply, wanted: int, tolerance: float) -> tuple[FloatArray, FloatArray]:
        start = starts.standard_normal(size)
        return _lanczos(operator, start, wanted, scale, tolerance)

    values, vectors = run(apply, count, ITERATION_TOLERANCE)
    while True:
        rest = _deflated(apply, vectors)
        highest = run(rest, 1, CHECK_TOLERANCE)[0][0]
        if highest <= values[-1] + SAME * values[0]:
            return values, oriented(vectors)
        missed, others = run(rest, min(count, MISSED), ITERATION_TOLERANCE)
        values, vectors = np.append(values, missed), np.hstack([vectors, others])
        order = np.argsort(-values, kind="stable")[:count]
        values, vectors = values[order], vectors[:, order]


def _lanczos(
    apply: Apply, start: FloatArray, count: int, scale: float, tolerance: float
) -> tuple[FloatArray, FloatArray]:
    """One run of the implicitly restarted Lanczos method, its pairs in descending order."""
    size = start.size

    # The solver measures residuals against each eigenvalue, which it can never meet for one
    # that is zero up to rounding. Shifted by the scale of the operator, all are measured
    # alike; Krylov spaces do not change under a shift.
    def shifted(vector: FloatArray) -> FloatArray:
        flat = vector.reshape(size)
        return apply(flat) + scale * flat

    operator = LinearOperator((size, size), matvec=shifted, dtype=float)
    values, vectors = eigsh(operator, k=count, which="LA", v0=start, tol=tolerance)
    order = np.argsort(-values, kind="stable")
    return values[order] - scale, vectors[:, order]


def _deflated(apply: Apply, vectors: FloatArray) -> Apply:
    """Return the operator restricted to what is orthogonal to orthonormal columns."""

    def outside(vector: FloatArray) -> FloatArray:
        remainder: FloatArray = vector - vectors @ (vectors.T @ vector)
        return remainder

    return lambda vector: outside(apply(outside(vector)))


def oriented(vectors: FloatArray) -> FloatArray:
    """Give each column the sign that makes its entry of largest magnitude positive."""
    flip = -vectors.min(axis=0) > vectors.max(axis=0)
    return vectors * np.where(flip, -1.0, 1.0)

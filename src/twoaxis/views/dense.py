"""The dense view: the user's own matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cholesky, eigvalsh

from twoaxis.arrays import FloatArray, checked_points
from twoaxis.errors import InputError
from twoaxis.views.view import BoundView, View, checked_columns, dense_pairs

# Relative to the largest entry: mirror images that differ by more were not meant as equal.
SYMMETRY_TOLERANCE = 1e-10
# Relative to the Frobenius norm: an eigenvalue below minus this is no rounding error.
DEFINITENESS_TOLERANCE = 1e-10


@final
@dataclass(frozen=True, eq=False)
class Dense(View):
    r"""A matrix of the user's own, ``M`` itself.

    Parameters
    ----------
    matrix : array_like, shape (N, N)
        Symmetric, to within 1e-10 of its largest entry (the symmetric part is used), and
        positive semidefinite: eigenvalues down to minus 1e-10 of the Frobenius norm pass as
        rounding errors. Not zero.

    Examples
    --------
    >>> bound = Dense([[2.0, 1.0], [1.0, 2.0]]).bind([0.0, 1.0])
    >>> float(bound.quadratic([1.0, -1.0], [1.0, -1.0]))
    2.0
    """

    matrix: ArrayLike

    def __post_init__(self) -> None:
        checked = _checked_matrix(self.matrix)
        checked.flags.writeable = False
        object.__setattr__(self, "matrix", checked)

    def __repr__(self) -> str:
        return f"Dense(matrix=<{len(np.asarray(self.matrix))} points>)"

    def bind(self, points: ArrayLike) -> BoundView:
        """Return the operator on residual vectors at these points, (N, k) or (N,)."""
        matrix = np.asarray(self.matrix)
        size = len(checked_points(points))
        if len(matrix) != size:
            raise InputError(
                f"a {size} by {size} matrix for {size} points",
                f"one of shape {matrix.shape}",
                "index its rows and columns like the points",
            )
        return _BoundDense(matrix)

    def describe(self) -> str:
        """Return a few words that name the view in a table or a message."""
        return "dense"


@final
class _BoundDense(BoundView):
    """A checked matrix."""

    def __init__(self, matrix: FloatArray) -> None:
        self._entries = matrix

    @property
    def size(self) -> int:
        """N, the length of the residual vector."""
        return len(self._entries)

    @property
    def rank(self) -> int:
        """N: the matrix is not examined further."""
        return self.size

    def describe(self) -> str:
        """Return a few words that name the view."""
        return f"dense, {self.size:,} points"

    def diagonal(self) -> FloatArray:
        """Return the diagonal of M, shape (N,)."""
        return self._entries.diagonal().copy()

    def _apply(self, columns: FloatArray) -> FloatArray:
        return self._entries @ columns

    def _quadratic(self, left: FloatArray, right: FloatArray) -> FloatArray:
        return left.T @ (self._entries @ right)

    def _matrix(self) -> FloatArray:
        return self._entries.copy()

    def _eigenpairs(self, count: int) -> tuple[FloatArray, FloatArray]:
        return dense_pairs(self._entries, count)


def _checked_matrix(matrix: ArrayLike) -> FloatArray:
    """Return the symmetric part of a square, symmetric, positive semidefinite matrix."""
    shape = np.shape(matrix)
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise InputError(
            "a square matrix, one row and one column for each residual point",
            f"shape {shape}",
            "pass M itself, shape (N, N); for a diagonal use Weighted(loss_weights=...)",
        )
    array, _ = checked_columns("the matrix", matrix, shape[0])
    largest = np.abs(array).max()
    asymmetry = np.abs(array - array.T).max()
    if asymmetry > SYMMETRY_TOLERANCE * largest:
        raise InputError(
            "a symmetric matrix",
            f"entries that differ from their mirror image by up to {asymmetry:.3g}",
            "pass (M + M.T) / 2 if that is what the loss means",
        )
    if largest == 0:
        raise InputError(
            "a matrix that is not zero",
            "zeros only",
            "pass the M of your loss; under a zero matrix no residual counts",
        )
    _check_semidefinite(array)
    return (array + array.T) / 2


def _check_semidefinite(matrix: FloatArray) -> None:
    # A Cholesky factor of the shifted matrix exists just if no eigenvalue lies below minus
    # the shift, and costs a fraction of the eigenvalues, which only the message needs.
    shift = DEFINITENESS_TOLERANCE * np.linalg.norm(matrix)
    try:
        cholesky(matrix + shift * np.eye(len(matrix)), overwrite_a=True, check_finite=False)
    except LinAlgError:
        smallest = eigvalsh(matrix, check_finite=False)[0]
        raise InputError(
            "a positive semidefinite matrix",
            f"a smallest eigenvalue of {smallest:.3g}",
            "a loss is never negative: build M as A.T @ A, or drop its negative eigenvalues",
        ) from None

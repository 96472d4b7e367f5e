"""An operator given by a few of its eigenpairs."""

from __future__ import annotations

from typing import final

import numpy as np

from twoaxis.views.checks import FloatArray
from twoaxis.views.view import BoundView


@final
class BoundLowRank(BoundView):
    """``M = V diag(lambda) V^T`` with orthonormal columns V (N, r) and lambda descending.

    Eigenvalues that rounding made negative are taken as zero, so that M is semidefinite.
    """

    def __init__(self, eigenvalues: FloatArray, eigenvectors: FloatArray, description: str) -> None:
        self._values = np.maximum(eigenvalues, 0.0)
        self._vectors = eigenvectors
        self._description = description

    @property
    def size(self) -> int:
        """N, the length of the residual vector."""
        return len(self._vectors)

    @property
    def rank(self) -> int:
        """r, the number of eigenpairs kept."""
        return self._values.size

    def describe(self) -> str:
        """Return a few words that name the view."""
        return self._description

    def diagonal(self) -> FloatArray:
        """Return the sums of lambda times squared eigenvector entries."""
        diagonal: FloatArray = np.einsum("ij,ij,j->i", self._vectors, self._vectors, self._values)
        return diagonal

    def _apply(self, columns: FloatArray) -> FloatArray:
        return self._vectors @ (self._values[:, None] * (self._vectors.T @ columns))

    def _quadratic(self, left: FloatArray, right: FloatArray) -> FloatArray:
        seen = self._vectors.T @ left
        other = seen if right is left else self._vectors.T @ right
        return seen.T @ (self._values[:, None] * other)

    def _matrix(self) -> FloatArray:
        return (self._vectors * self._values) @ self._vectors.T

    def _eigenpairs(self, count: int) -> tuple[FloatArray, FloatArray]:
        return self._values[:count].copy(), self._vectors[:, :count].copy()

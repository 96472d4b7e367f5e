"""A diagonal operator: every residual point counts by itself."""

from __future__ import annotations

from typing import final

import numpy as np

from twoaxis.views.checks import FloatArray
from twoaxis.views.view import BoundView


@final
class BoundDiagonal(BoundView):
    """``M = diag(m)`` with non-negative m, not all zero.

    Its eigenvectors are unit vectors, points in the order of descending m.
    """

    def __init__(self, entries: FloatArray, description: str) -> None:
        self._entries = entries
        self._description = description

    @property
    def size(self) -> int:
        """N, the length of the residual vector."""
        return self._entries.size

    @property
    def rank(self) -> int:
        """The number of positive entries."""
        return int(np.count_nonzero(self._entries))

    def describe(self) -> str:
        """Return a few words that name the view."""
        return self._description

    def diagonal(self) -> FloatArray:
        """Return m."""
        return self._entries.copy()

    def _apply(self, columns: FloatArray) -> FloatArray:
        return self._entries[:, None] * columns

    def _quadratic(self, left: FloatArray, right: FloatArray) -> FloatArray:
        return left.T @ (self._entries[:, None] * right)

    def _matrix(self) -> FloatArray:
        return np.diag(self._entries)

    def _eigenpairs(self, count: int) -> tuple[FloatArray, FloatArray]:
        # Stable, so that equal entries keep the order of their points.
        order = np.argsort(-self._entries, kind="stable")[:count]
        vectors = np.zeros((self.size, count))
        vectors[order, np.arange(count)] = 1.0
        return self._entries[order], vectors

"""The kernel by all pairs of points, a slab of rows at a time.

Quadratic in time and linear in memory: the way out where a grid would be larger than the
work it saves, with many coordinates or a bandwidth far below the spacing of the points.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import final

import numpy as np

from twoaxis.views.checks import FloatArray
from twoaxis.views.eigen import Apply, iterative_pairs
from twoaxis.views.kernel.kernel import Kernel, kernel_entries

# Entries of a slab: 32 MB.
SLAB_ENTRIES = 2**22
# Up to here an iteration for eigenpairs may hold the matrix, 512 MB at most.
HELD_POINTS = 8_000


@final
class PairKernel(Kernel):
    """Every entry by its formula, forgotten after use."""

    def __init__(self, coordinates: FloatArray, bandwidth: float) -> None:
        self._coordinates = coordinates
        self._bandwidth = bandwidth

    @property
    def size(self) -> int:
        """N, the number of points."""
        return len(self._coordinates)

    @cached_property
    def total(self) -> float:
        """The sum of all N^2 entries."""
        return float(sum(slab.sum() for _, slab in self._slabs()))

    def _slabs(self) -> Iterator[tuple[slice, FloatArray]]:
        rows = max(1, SLAB_ENTRIES // self.size)
        for start in range(0, self.size, rows):
            part = slice(start, start + rows)
            yield part, kernel_entries(self._coordinates[part], self._coordinates, self._bandwidth)

    def apply(self, columns: FloatArray) -> FloatArray:
        """Return ``K v`` for columns (N, d)."""
        return np.concatenate([slab @ columns for _, slab in self._slabs()])

    def quadratic(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return ``left^T K right``, shape (d, e)."""
        return left.T @ self.apply(right)

    def matrix(self) -> FloatArray:
        """Return K by its formula, shape (N, N)."""
        return kernel_entries(self._coordinates, self._coordinates, self._bandwidth)

    def leading(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Return the `count < N` leading eigenpairs, descending.

        Up to 8,000 points the matrix is held meanwhile: hundreds of products with it would
        each evaluate it anew.
        """
        held = self.size <= HELD_POINTS
        apply: Apply = self.matrix().__matmul__ if held else self._apply_one
        return iterative_pairs(apply, self.size, count, scale=self.total / self.size)

    def _apply_one(self, vector: FloatArray) -> FloatArray:
        return self.apply(vector[:, None])[:, 0]

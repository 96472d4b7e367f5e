"""The kernel by all pairs of points, a slab of rows at a time.

Quadratic in time and linear in memory: the way out where a grid would be larger than the
work it saves, with many coordinates or a bandwidth far below the spacing of the points.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import final

import numpy as np
from scipy.spatial.distance import cdist

from twoaxis.views.checks import FloatArray
from twoaxis.views.eigen import iterative_pairs
from twoaxis.views.kernel.kernel import Kernel

# Entries of a slab: 32 MB.
SLAB_ENTRIES = 2**22


def kernel_entries(rows: FloatArray, columns: FloatArray, bandwidth: float) -> FloatArray:
    """Return ``exp(-|x - y|^2 / (2 sigma^2))`` for rows x and columns y."""
    entries: FloatArray = cdist(rows, columns)
    entries /= bandwidth
    np.square(entries, out=entries)
    entries *= -0.5
    # A distance of many bandwidths underflows to the zero that is meant.
    with np.errstate(under="ignore"):
        return np.exp(entries, out=entries)


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
        """Return the `count < N` leading eigenpairs, descending."""
        return iterative_pairs(
            lambda vector: self.apply(vector[:, None])[:, 0],
            self.size,
            count,
            scale=self.total / self.size,
        )

"""The patch view: only the mean residual of every cell counts.

The box of the points is divided into equal cells. A residual that changes sign inside a
cell and has no mean there is invisible: the view tests the equation against indicator
functions of the cells and averages what finer structure, and noise, would add.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.arrays import FloatArray, checked_points, is_integer
from twoaxis.errors import InputError
from twoaxis.views.view import MOST_CELLS, BoundView, View, occupied_cells, unit_coordinates


@final
@dataclass(frozen=True)
class Patch(View):
    r"""Means over the occupied cells of a grid, every cell counting alike.

    .. math:: M = A^\top A / K

    where ``A`` maps residuals to their unweighted means over the ``K`` occupied cells.
    Coordinates are first mapped on [0, 1] each by its own minimum and maximum; one that is
    the same at all points lies in the first cell.

    Parameters
    ----------
    cells : int or tuple of int
        Cells along every axis, or one number for each axis; at least 1. One cell in all
        leaves the square of the mean residual.

    Examples
    --------
    >>> bound = Patch(cells=2).bind([0.0, 0.4, 0.6, 1.0])
    >>> float(bound.quadratic([1.0, -1.0, 2.0, 4.0], [1.0, -1.0, 2.0, 4.0]))
    4.5
    """

    cells: int | tuple[int, ...] = 8

    def __post_init__(self) -> None:
        each: tuple[Any, ...] = tuple(np.atleast_1d(np.asarray(self.cells, dtype=object)))
        if not each or not all(is_integer(n) and 1 <= n <= MOST_CELLS for n in each):
            raise InputError(
                "cells as an integer of at least 1, or a tuple of one for each axis",
                f"cells={self.cells!r}",
                "pass cells=8, or cells=(8, 4) for points with two coordinates",
            )
        whole = tuple(int(n) for n in each)
        object.__setattr__(self, "cells", whole[0] if np.ndim(self.cells) == 0 else whole)

    def bind(self, points: ArrayLike) -> BoundView:
        """Return the operator on residual vectors at these points, (N, k) or (N,)."""
        coordinates = unit_coordinates(checked_points(points))
        axes = coordinates.shape[1]
        cells = self.cells if isinstance(self.cells, tuple) else (self.cells,) * axes
        if len(cells) != axes:
            raise InputError(
                f"cells for each of the {axes} coordinates of the points",
                f"cells={self.cells!r}",
                "give one number for all axes, or a tuple with one for each",
            )
        return _BoundPatch(occupied_cells(coordinates, cells), self.describe())

    def describe(self) -> str:
        """Return a few words that name the view in a table or a message."""
        if isinstance(self.cells, tuple):
            return f"patch, {' x '.join(map(str, self.cells))} cells"
        return f"patch, {self.cells} cells per axis"


@final
class _BoundPatch(BoundView):
    """``A^T A / K`` through the cell of each point; linear in N in time and memory.

    The eigenvectors are the normalized indicators of the cells, with ``1 / (K n_k)`` for a
    cell of ``n_k`` points: the emptiest cells lead.
    """

    def __init__(self, cell_of: NDArray[np.intp], description: str) -> None:
        self._cell_of = cell_of
        self._counts = np.bincount(cell_of)
        self._description = description

    @property
    def size(self) -> int:
        """N, the length of the residual vector."""
        return self._cell_of.size

    @property
    def rank(self) -> int:
        """K, the number of occupied cells."""
        return self._counts.size

    @property
    def cells(self) -> NDArray[np.intp]:
        """The occupied cell of every point, shape (N,): residuals are averaged over them."""
        return self._cell_of

    def describe(self) -> str:
        """Return a few words that name the view and how many cells are occupied."""
        return f"{self._description} ({self.rank} occupied), {self.size:,} points"

    def diagonal(self) -> FloatArray:
        """Return ``1 / (K n^2)`` for a point in a cell of n points."""
        entries: FloatArray = (1.0 / (self.rank * self._counts.astype(float) ** 2))[self._cell_of]
        return entries

    def _means(self, columns: FloatArray) -> FloatArray:
        """``A v``: the mean of every cell, shape (K, d)."""
        sums = np.empty((self.rank, columns.shape[1]))
        for total, column in zip(sums.T, columns.T, strict=True):
            total[:] = np.bincount(self._cell_of, column)
        return sums / self._counts[:, None]

    def _apply(self, columns: FloatArray) -> FloatArray:
        spread = self._means(columns) / (self.rank * self._counts[:, None])
        return spread[self._cell_of]

    def _quadratic(self, left: FloatArray, right: FloatArray) -> FloatArray:
        means = self._means(left)
        others = means if right is left else self._means(right)
        return means.T @ others / self.rank

    def _matrix(self) -> FloatArray:
        same = self._cell_of[:, None] == self._cell_of
        return np.where(same, self.diagonal(), 0.0)

    def _eigenpairs(self, count: int) -> tuple[FloatArray, FloatArray]:
        order = np.argsort(self._counts, kind="stable")[:count]
        column_of = np.full(self.rank, -1)
        column_of[order] = np.arange(count)
        column = column_of[self._cell_of]
        points = np.flatnonzero(column >= 0)
        vectors = np.zeros((self.size, count))
        vectors[points, column[points]] = 1.0 / np.sqrt(self._counts[self._cell_of[points]])
        return 1.0 / (self.rank * self._counts[order]), vectors

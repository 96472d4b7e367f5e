"""Gaussians on a uniform grid, seen from scattered points: ``Phi`` and its transpose.

``Phi[n, g] = exp(-|x_n - g|^2 / width^2)`` factors over the axes. For the points of one box
the sum over grid or points is then a product of small dense matrices, which is what a
computer does fastest, and no more than one such piece of Phi exists at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from twoaxis.views.checks import FloatArray
from twoaxis.views.coordinates import occupied_cells
from twoaxis.views.kernel.layout import REACH, Layout

# Entries of the largest factor of a piece of Phi: 4 MB, about what a cache holds.
PIECE_ENTRIES = 2**19
PIECE_POINTS = 4096


@dataclass(frozen=True)
class BoxedPoints:
    """Points sorted by box, and the runs of neighbours that are handled together.

    Attributes
    ----------
    coordinates : array, shape (N, k)
        In sorted order.
    order : array of int, shape (N,)
        Which point stands at each place.
    runs : list of slice
        Of points of one box each, not too many for one piece of Phi.
    """

    coordinates: FloatArray
    order: NDArray[np.intp]
    runs: list[slice]


def boxed(coordinates: FloatArray, layout: Layout) -> BoxedPoints:
    """Sort points of the unit box into the layout's boxes."""
    box_of = occupied_cells(coordinates, layout.boxes)
    order = np.argsort(box_of, kind="stable")
    ends = np.cumsum(np.bincount(box_of)).tolist()
    most = int(PIECE_ENTRIES / math.prod(layout.touched[1:]))
    most = max(16, min(PIECE_POINTS, most))
    runs = [
        slice(start, min(start + most, end))
        for begin, end in zip([0, *ends], ends, strict=False)
        for start in range(begin, end, most)
    ]
    return BoxedPoints(coordinates[order], order, runs)


@dataclass(frozen=True)
class SampledGaussians:
    """The matrix Phi, shape (N, G), by its action.

    Attributes
    ----------
    points : BoxedPoints
    width : float
        Distance at which a Gaussian has fallen to 1/e.
    origin, spacing : float
        The first grid point along every axis, and the step to the next.
    counts : tuple of int
        Grid points along each axis.
    """

    points: BoxedPoints
    width: float
    origin: float
    spacing: float
    counts: tuple[int, ...]

    def spread(self, columns: FloatArray) -> FloatArray:
        """Return ``Phi^T v`` for columns (N, d), shape (d, *counts)."""
        grids = np.zeros((columns.shape[1], *self.counts))
        for run, (first, others, window) in self._pieces():
            values = columns[self.points.order[run]]
            for grid, value in zip(grids, values.T, strict=True):
                part = grid[window]
                part += ((first * value[:, None]).T @ others).reshape(part.shape)
        return grids

    def gather(self, grids: FloatArray) -> FloatArray:
        """Return ``Phi w`` for grids w of shape (d, *counts), shape (N, d)."""
        # Columns lie in one piece each: they are written one by one here and read as such.
        columns = np.empty((len(self.points.order), len(grids)), order="F")
        for run, (first, others, window) in self._pieces():
            places = self.points.order[run]
            for column, grid in zip(columns.T, grids, strict=True):
                part = grid[window].reshape(first.shape[1], -1)
                column[places] = np.einsum("ij,ij->i", first, others @ part.T)
        return columns

    def _pieces(self) -> Iterator[tuple[slice, tuple[FloatArray, FloatArray, tuple[slice, ...]]]]:
        """Yield runs of points with their factors of Phi and the grid window they touch.

        The factors are that of the first axis, (n, m_1), and the product of all others,
        (n, m_2 m_3 ...).
        """
        for run in self.points.runs:
            axes = [
                self._along(column, count)
                for column, count in zip(self.points.coordinates[run].T, self.counts, strict=True)
            ]
            factors = [factor for factor, _ in axes]
            others = reduce(_rowwise_product, factors[1:], np.ones((len(factors[0]), 1)))
            yield run, (factors[0], others, tuple(window for _, window in axes))

    def _along(self, positions: FloatArray, count: int) -> tuple[FloatArray, slice]:
        """Return the values (n, m) of one axis' Gaussians at n positions, and which these are."""
        reach = REACH * self.width
        low = (positions.min() - reach - self.origin) / self.spacing
        high = (positions.max() + reach - self.origin) / self.spacing
        window = slice(max(0, math.floor(low)), min(count, math.ceil(high) + 1))
        centers = self.origin + self.spacing * np.arange(window.start, window.stop)
        values = (positions[:, None] - centers) / self.width
        np.square(values, out=values)
        np.negative(values, out=values)
        return np.exp(values, out=values), window


def _rowwise_product(left: FloatArray, right: FloatArray) -> FloatArray:
    """All products of an entry of `left` and one of `right` in the same row."""
    return (left[:, :, None] * right[:, None, :]).reshape(len(left), -1)

r"""The Gaussian kernel matrix, which is never formed: through a grid, or by all pairs.

`gaussian_kernel` takes whichever is faster in linear memory. `PairKernel` evaluates all pairs of
points, a slab of rows at a time: quadratic in time and linear in memory, for many coordinates
or a bandwidth far below the spacing of the points. `GridKernel` is linear in both.

The grid rests on an identity: the kernel is an integral of products of narrower Gaussians,

.. math:: e^{-(x-y)^2 / 2\sigma^2} = \frac{1}{\sigma} \sqrt{\frac{2}{\pi}}
          \int e^{-(x-g)^2/\sigma^2}\, e^{-(y-g)^2/\sigma^2}\, dg ,

and the integrand is itself a Gaussian in ``g`` with standard deviation ``sigma / 2``. The
trapezoidal rule with spacing ``h`` on such a function errs by ``2 exp(-pi^2 sigma^2 / 2 h^2)``
of the integral, which ``h = 0.375 sigma`` makes 1e-15. So with ``m`` grid points per axis
the kernel matrix is a product, ``K = c Phi Phi^T`` with ``Phi[n, g] = exp(-|x_n - g|^2 /
sigma^2)``: separable over the axes, all terms positive, semidefinite by construction. The grid
extends 4.2 sigma beyond the points, where the integrand has fallen to ``exp(-2 * 4.2^2)``, below
1e-15; and a point touches the grid only within 5.9 sigma, where ``exp(-5.9^2)`` is below 1e-15
too. With rounding, an entry of K is accurate to 1e-14.

``Phi`` factors over the axes: for the points of one box the sum over grid or points is a
product of small dense matrices, and no more than one such piece of Phi exists at a time. A
quadratic form needs one pass over the points, ``a^T K b = c (Phi^T a) . (Phi^T b)``, and cannot
be negative for ``a = b``. The eigenvalues of ``K`` are those of ``c Phi^T Phi``, a matrix over
the grid, which is a product of Gaussians again and takes one more pass, whatever N is:

.. math:: (\Phi^\top \Phi)_{g g'} = e^{-|g-g'|^2 / 2\sigma^2}\,
          \sum_n e^{-2 |x_n - (g+g')/2|^2 / \sigma^2} .
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.spatial.distance import cdist

from twoaxis.arrays import FloatArray
from twoaxis.views.view import Apply, dense_pairs, iterative_pairs, occupied_cells, oriented


class Kernel(ABC):
    """``K[i, j] = exp(-|x_i - x_j|^2 / (2 sigma^2))`` at N points."""

    @property
    @abstractmethod
    def size(self) -> int:
        """N, the number of points."""

    @property
    @abstractmethod
    def total(self) -> float:
        """The sum of all N^2 entries."""

    @abstractmethod
    def apply(self, columns: FloatArray) -> FloatArray:
        """Return ``K v`` for columns (N, d)."""

    @abstractmethod
    def quadratic(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return ``left^T K right``, shape (d, e)."""

    @abstractmethod
    def matrix(self) -> FloatArray:
        """Return K by its formula, shape (N, N)."""

    @abstractmethod
    def leading(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Return at most `count < N` leading eigenpairs, descending, without forming K."""


def kernel_entries(rows: FloatArray, columns: FloatArray, bandwidth: float) -> FloatArray:
    """Return ``exp(-|x - y|^2 / (2 sigma^2))`` for rows x and columns y."""
    entries: FloatArray = cdist(rows, columns)
    entries /= bandwidth
    np.square(entries, out=entries)
    entries *= -0.5
    # A distance of many bandwidths underflows to the zero that is meant.
    with np.errstate(under="ignore"):
        return np.exp(entries, out=entries)


# In bandwidths: spacing of the grid, its margin around the points, reach of a point.
SPACING = 0.375
MARGIN = 4.2
REACH = 5.9

# Points are handled box by box, so that those of a box share a small part of the grid. A
# box is two bandwidths wide, or as wide as holds this many points on average.
BOX_BANDWIDTHS = 2.0
BOX_POINTS = 128

# One kernel entry costs about as much as this many multiplications of the two passes over
# the grid (measured: 6 to 12 ns against 0.1 to 0.2 ns).
ENTRY_COST = 50
# A grid of this many entries (32 MB) is small whatever N is; above it, one of at most this
# many times N keeps memory linear.
SMALL_GRID = 2**22
GRID_PER_POINT = 16


@dataclass(frozen=True)
class Layout:
    """A uniform grid over the points of a unit box, and boxes that divide the points.

    Attributes
    ----------
    bandwidth : float
        Standard deviation sigma of the kernel, in unit coordinates.
    spacing : float
        Distance between neighbors in the grid.
    origin : float
        Position of the first grid point along every axis.
    counts : tuple of int
        Grid points along each axis.
    boxes : tuple of int
        Boxes along each axis of the unit box.
    touched : tuple of float
        Grid points that a box of points touches along each axis.
    """

    bandwidth: float
    spacing: float
    origin: float
    counts: tuple[int, ...]
    boxes: tuple[int, ...]
    touched: tuple[float, ...]

    @property
    def size(self) -> int:
        """The number of grid points."""
        return math.prod(self.counts)

    @property
    def constant(self) -> float:
        """``c`` in ``K = c Phi Phi^T``."""
        return (self.spacing / self.bandwidth * math.sqrt(2 / math.pi)) ** len(self.counts)

    def pays(self, points: int) -> bool:
        """Tell whether the grid takes less time than all pairs, in linear memory."""
        fits = self.size <= max(SMALL_GRID, GRID_PER_POINT * points)
        return fits and math.prod(self.touched) <= ENTRY_COST * points


def layout_for(coordinates: FloatArray, bandwidth: float) -> Layout:
    """Return the grid for points of the unit box, shape (N, k)."""
    points, axes = coordinates.shape
    # 1, or 0 along an axis on which the points do not differ.
    extents = coordinates.max(axis=0).tolist()
    spacing = _short(SPACING * bandwidth)
    before = math.ceil(MARGIN * bandwidth / spacing)
    most_boxes = max(1, int((points / BOX_POINTS) ** (1 / axes)))
    boxes = tuple(
        max(1, min(most_boxes, int(extent / (BOX_BANDWIDTHS * bandwidth)))) for extent in extents
    )
    counts = tuple(before + math.ceil(extent / spacing) + before + 1 for extent in extents)
    touched = tuple(
        min(float(count), extent / box / spacing + 2 * REACH / SPACING + 2)
        for extent, box, count in zip(extents, boxes, counts, strict=True)
    )
    return Layout(bandwidth, spacing, -before * spacing, counts, boxes, touched)


def _short(number: float) -> float:
    """Round down to 16 binary digits.

    Multiples of such a spacing are exact, and so are their distances from nearby points;
    rounded ones would lose digits in proportion to one over the bandwidth.
    """
    fraction, exponent = math.frexp(number)
    return math.ldexp(math.floor(fraction * 2**16), exponent - 16)


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


# Entries of the largest factor of a piece of Phi: 4 MB, about what a cache holds.
PIECE_ENTRIES = 2**19
PIECE_POINTS = 4096


@dataclass(frozen=True)
class BoxedPoints:
    """Points sorted by box, and the runs of neighbors that are handled together.

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


# Grid sizes up to which Phi^T Phi is formed (340 MB), and up to which it is decomposed whole.
GRAM_LIMIT = 6_500
# With fewer points than this many times the grid, a product with K is faster than with it.
GRAM_POINTS = 3
GRAM_DENSE_LIMIT = 1_000
# Eigenvalues below this part of the largest are rounding errors of it.
RESOLVED = 1e-13


@final
class GridKernel(Kernel):
    """A kernel matrix as a product of its factor on a grid with the transpose."""

    def __init__(self, coordinates: FloatArray, layout: Layout) -> None:
        self._coordinates = coordinates
        self._layout = layout
        self._points: BoxedPoints = boxed(coordinates, layout)
        self._samples = SampledGaussians(
            self._points, layout.bandwidth, layout.origin, layout.spacing, layout.counts
        )

    @property
    def size(self) -> int:
        """N, the number of points."""
        return len(self._coordinates)

    @cached_property
    def total(self) -> float:
        """The sum of all N^2 entries."""
        ones = np.ones((self.size, 1))
        return float(self.quadratic(ones, ones).item())

    def apply(self, columns: FloatArray) -> FloatArray:
        """Return ``K v`` for columns (N, d)."""
        return self._layout.constant * self._samples.gather(self._samples.spread(columns))

    def quadratic(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return ``left^T K right``, shape (d, e)."""
        grids = self._samples.spread(left).reshape(left.shape[1], -1)
        others = grids
        if right is not left:
            others = self._samples.spread(right).reshape(right.shape[1], -1)
        return self._layout.constant * (grids @ others.T)

    def matrix(self) -> FloatArray:
        """Return K by its formula, shape (N, N)."""
        return kernel_entries(self._coordinates, self._coordinates, self._layout.bandwidth)

    def leading(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Return at most `count < N` leading eigenpairs, descending, without forming K.

        Eigenvalues below 1e-13 of the largest are not resolved and left out.
        """
        grid = self._layout.size
        fewer = grid <= GRAM_LIMIT and GRAM_POINTS * grid <= self.size
        values, vectors = self._through_grid(count) if fewer else self._through_points(count)
        resolved = values > RESOLVED * values[0]
        return values[resolved], vectors[:, resolved]

    def _through_points(self, count: int) -> tuple[FloatArray, FloatArray]:
        return iterative_pairs(
            lambda vector: self.apply(vector[:, None])[:, 0],
            self.size,
            count,
            scale=self.total / self.size,
        )

    def _through_grid(self, count: int) -> tuple[FloatArray, FloatArray]:
        """``c Phi^T Phi w = lambda w`` gives the eigenvector ``Phi w`` of K."""
        gram = self._gram()
        size = len(gram)
        if size <= GRAM_DENSE_LIMIT or 4 * count >= size:
            values, weights = dense_pairs(gram, min(count, size))
        else:
            scale = self.total / self.size
            values, weights = iterative_pairs(lambda w: gram @ w, size, count, scale)
        values = values[values > RESOLVED * values[0]]
        grids = weights[:, : values.size].T.reshape(-1, *self._layout.counts)
        vectors = self._samples.gather(grids)
        vectors /= np.linalg.norm(vectors, axis=0)
        # Rounding errors of the first columns are large beside the last, smallest ones.
        vectors, _ = qr(vectors, mode="economic", overwrite_a=True, check_finite=False)
        return values, oriented(vectors)

    def _gram(self) -> FloatArray:
        """Form ``c Phi^T Phi``, row by row from the density of points between grid points."""
        layout = self._layout
        between = SampledGaussians(
            self._points,
            layout.bandwidth / math.sqrt(2),
            layout.origin,
            layout.spacing / 2,
            tuple(2 * count - 1 for count in layout.counts),
        )
        density = between.spread(np.ones((self.size, 1)))[0]
        steps = [layout.spacing * np.arange(float(count))[:, None] for count in layout.counts]
        apart = [kernel_entries(step, step, layout.bandwidth) for step in steps]
        gram = np.empty((layout.size, layout.size))
        for row, grid_point in zip(gram, np.ndindex(*layout.counts), strict=True):
            window = tuple(slice(g, g + m) for g, m in zip(grid_point, layout.counts, strict=True))
            near = reduce(np.multiply.outer, [a[g] for a, g in zip(apart, grid_point, strict=True)])
            row[:] = (near * density[window]).ravel()
        gram *= layout.constant
        return gram


def gaussian_kernel(coordinates: FloatArray, bandwidth: float) -> Kernel:
    """Return the kernel at points of the unit box (N, k) as an operator."""
    layout = layout_for(coordinates, bandwidth)
    if layout.pays(len(coordinates)):
        return GridKernel(coordinates, layout)
    return PairKernel(coordinates, bandwidth)

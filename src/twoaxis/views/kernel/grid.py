r"""The kernel through a uniform grid, ``K = c Phi Phi^T``: linear time and memory.

See `layout` for the identity and its accuracy. A quadratic form needs one pass over the
points, ``a^T K b = c (Phi^T a) . (Phi^T b)``, and cannot be negative for ``a = b``. The
eigenvalues of ``K`` are those of ``c Phi^T Phi``, a matrix over the grid, which is a product
of Gaussians again and takes one more pass, whatever N is:

.. math:: (\Phi^\top \Phi)_{g g'} = e^{-|g-g'|^2 / 2\sigma^2}\,
          \sum_n e^{-2 |x_n - (g+g')/2|^2 / \sigma^2} .
"""

from __future__ import annotations

import math
from functools import cached_property, reduce
from typing import final

import numpy as np
from scipy.linalg import qr

from twoaxis.views.checks import FloatArray
from twoaxis.views.eigen import dense_pairs, iterative_pairs, oriented
from twoaxis.views.kernel.kernel import Kernel, kernel_entries
from twoaxis.views.kernel.layout import Layout
from twoaxis.views.kernel.samples import BoxedPoints, SampledGaussians, boxed

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

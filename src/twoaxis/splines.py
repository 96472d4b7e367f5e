r"""Tensor products of B-splines: fields that are linear in their coefficients.

Along every axis the breaks :math:`b_0 < \dots < b_C` cut an interval into cells. The splines of
degree 5 on them are polynomials in each cell with four continuous derivatives, and six of them are
not zero there. Products of one spline for each axis are the basis of a field
:math:`u(z) = \sum_k c_k \Phi_k(z)` whose derivatives are as linear in c as its values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import factorial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.interpolate import BSpline

from twoaxis.arrays import FloatArray

DEGREE = 5
# Gauss points of a cell along an axis: as many as make the residual of a cell overdetermined.
GAUSS_POINTS = 3

Orders = Sequence[tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class SplineAxis:
    """The B-splines of one axis.

    Attributes
    ----------
    breaks : array, shape (C + 1,)
        Ends of the cells, rising.
    """

    breaks: FloatArray

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.breaks) - 1

    @property
    def size(self) -> int:
        """Number of splines."""
        return self.cells + DEGREE

    @cached_property
    def knots(self) -> FloatArray:
        """The breaks, those at the ends repeated."""
        low, high = self.breaks[0], self.breaks[-1]
        return np.concatenate([[low] * DEGREE, self.breaks, [high] * DEGREE])

    @cached_property
    def pieces(self) -> FloatArray:
        """Coefficients of the splines in powers of the place in a cell, from 0 to 1.

        Shape (C, 6, 6): by cell, spline and power.
        """
        splines = BSpline(self.knots, np.eye(self.size), DEGREE)
        left, width = self.breaks[:-1], np.diff(self.breaks)
        rows, six = np.arange(self.cells)[:, None], np.arange(DEGREE + 1)
        powers = [
            splines(left, nu=k)[rows, rows + six] * width[:, None] ** k / factorial(k)
            for k in range(DEGREE + 1)
        ]
        return np.stack(powers, axis=-1)

    def cell_of(self, places: FloatArray) -> NDArray[np.intp]:
        """Return the cell of each place; beyond the ends, the nearest."""
        found = np.searchsorted(self.breaks, places, side="right") - 1
        return np.clip(found, 0, self.cells - 1)

    def local(self, places: FloatArray, most: int) -> tuple[NDArray[np.intp], FloatArray]:
        """Return the cells, (n,), and the derivatives of their splines up to `most`, (o, n, 6)."""
        cell = self.cell_of(places)
        width = np.diff(self.breaks)[cell]
        inside = (places - self.breaks[cell]) / width
        powers = np.arange(DEGREE + 1)
        values = []
        for order in range(most + 1):
            factors = np.prod([powers - k for k in range(order)], axis=0) * np.ones(DEGREE + 1)
            terms = factors * inside[:, None] ** np.maximum(powers - order, 0)
            found = np.einsum("nsp,np->ns", self.pieces[cell], terms)
            values.append(found / width[:, None] ** order)
        return cell, np.stack(values)

    def gauss(self) -> tuple[FloatArray, FloatArray]:
        """Return Gauss points of all cells and their weights, which sum to one."""
        nodes, mass = np.polynomial.legendre.leggauss(GAUSS_POINTS)
        width = np.diff(self.breaks)
        places = self.breaks[:-1, None] + width[:, None] * (nodes + 1) / 2
        weights = np.outer(width, mass / 2) / width.sum()
        return places.ravel(), weights.ravel()

    def bisected(self, chosen: NDArray[np.bool_]) -> SplineAxis:
        """Return an axis on which the chosen cells are cut into halves."""
        middle = (self.breaks[:-1] + self.breaks[1:])[chosen] / 2
        return SplineAxis(np.sort(np.concatenate([self.breaks, middle])))

    def prolongation(self, finer: SplineAxis) -> FloatArray:
        """Return the matrix from coefficients on this axis to those on a finer one.

        Splines on an axis are splines on one with more breaks, so values at as many places as
        there are finer splines determine it.
        """
        places = np.array([finer.knots[k + 1 : k + DEGREE + 1].mean() for k in range(finer.size)])
        fine, coarse = (
            BSpline(axis.knots, np.eye(axis.size), DEGREE)(places) for axis in (finer, self)
        )
        return np.asarray(np.linalg.solve(fine, coarse))


@dataclass(frozen=True, eq=False)
class TensorSplines:
    """Products of the splines of several axes, numbered with the last axis fastest.

    Attributes
    ----------
    axes : tuple of SplineAxis

    Examples
    --------
    >>> import numpy as np
    >>> from twoaxis.splines import TensorSplines
    >>> splines = TensorSplines.on_box([0.0, 0.0], [1.0, 2.0], [4, 3])
    >>> splines.size
    72
    >>> (values, slopes) = splines.design(np.array([[0.3, 0.4]]), [(0, 0), (0, 1)])
    >>> float(values.sum().round(12)), abs(float(slopes.sum())) < 1e-12
    (1.0, True)
    """

    axes: tuple[SplineAxis, ...]

    @classmethod
    def on_box(
        cls, low: Iterable[float], high: Iterable[float], cells: Sequence[int]
    ) -> TensorSplines:
        """Return splines on cells of equal size."""
        ends = zip(low, high, cells, strict=True)
        return cls(tuple(SplineAxis(np.linspace(a, b, n + 1)) for a, b, n in ends))

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of splines by axis."""
        return tuple(axis.size for axis in self.axes)

    @property
    def size(self) -> int:
        """Number of products."""
        return int(np.prod(self.shape))

    def local(self, places: FloatArray, orders: Orders) -> tuple[NDArray[np.intp], FloatArray]:
        """Return which products are not zero at places, (n, L), and their derivatives, (o, n, L).

        `orders` has the order of the derivative by axis.
        """
        count, six = len(places), np.arange(DEGREE + 1)
        index = np.zeros((count, 1), dtype=np.intp)
        found = np.ones((len(orders), count, 1))
        for j, axis in enumerate(self.axes):
            cell, values = axis.local(places[:, j], max(order[j] for order in orders))
            along = (cell[:, None] + six)[:, None, :]
            index = (index[:, :, None] * axis.size + along).reshape(count, -1)
            chosen = values[[order[j] for order in orders]]
            found = (found[..., None] * chosen[:, :, None, :]).reshape(len(orders), count, -1)
        return index, found

    def design(self, places: FloatArray, orders: Orders) -> list[sparse.csr_matrix]:
        """Return a matrix (n, size) from coefficients to each derivative of the field."""
        index, found = self.local(np.asarray(places, dtype=float), orders)
        ends = np.arange(0, index.size + 1, index.shape[1])
        shape = (len(places), self.size)
        return [sparse.csr_matrix((v.ravel(), index.ravel(), ends), shape=shape) for v in found]

    def gauss(self) -> tuple[FloatArray, FloatArray]:
        """Return Gauss points of all cells, (n, axes), and their weights, which sum to one."""
        every = [axis.gauss() for axis in self.axes]
        places = np.stack(np.meshgrid(*[p for p, _ in every], indexing="ij"), axis=-1)
        weights = np.ones(())
        for _, mass in every:
            weights = np.multiply.outer(weights, mass)
        return places.reshape(-1, len(self.axes)), weights.ravel()

    def prolonged(self, coefficients: FloatArray, finer: TensorSplines) -> FloatArray:
        """Return the coefficients (size, m) of the same field on finer cells."""
        found = coefficients.reshape(*self.shape, -1)
        for j, (axis, fine) in enumerate(zip(self.axes, finer.axes, strict=True)):
            if fine is not axis:
                moved = np.tensordot(axis.prolongation(fine), found, axes=(1, j))
                found = np.moveaxis(moved, 0, j)
        return found.reshape(finer.size, -1)

    def roughness(self, order: int = 3) -> sparse.csr_matrix:
        r"""Return rows R whose squares sum to :math:`\sum_j h_j \int (\partial_j^k u)^2`, on a box.

        Lengths are measured in those of the box, so that all axes count alike.
        """
        places, weights = self.gauss()
        lengths = [axis.breaks[-1] - axis.breaks[0] for axis in self.axes]
        orders = [
            tuple(order if j == k else 0 for k in range(len(self.axes)))
            for j in range(len(self.axes))
        ]
        rows = [
            sparse.diags_array(np.sqrt(weights) * length**order) @ matrix
            for matrix, length in zip(self.design(places, orders), lengths, strict=True)
        ]
        return sparse.csr_matrix(sparse.vstack(rows))

    def face_roughness(self) -> list[sparse.csr_matrix]:
        """Return the rows of roughness of each face of the box, where only end splines count."""
        if len(self.axes) == 1:
            return []
        numbers = np.arange(self.size).reshape(self.shape)
        found = []
        for j, axis in enumerate(self.axes):
            rows = TensorSplines(self.axes[:j] + self.axes[j + 1 :]).roughness().tocoo()
            for end in (0, axis.size - 1):
                columns = numbers.take(end, axis=j).ravel()[rows.col]
                shape = (rows.shape[0], self.size)
                found.append(sparse.csr_matrix((rows.data, (rows.row, columns)), shape=shape))
        return found


def orders_up_to(axes: int, most: int) -> list[tuple[int, ...]]:
    """Return the orders of all derivatives up to a total order, values first.

    >>> orders_up_to(2, 1)
    [(0, 0), (0, 1), (1, 0)]
    """
    every = product(range(most + 1), repeat=axes)
    return sorted((order for order in every if sum(order) <= most), key=sum)

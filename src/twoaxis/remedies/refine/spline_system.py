"""Parts of a least-squares system on splines: functions of the field, and its solution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from twoaxis.adapters.jets import JetFunction, Order
from twoaxis.arrays import FloatArray
from twoaxis.splines import TensorSplines

# Systems of at most so many coefficients are solved densely; larger ones in bands.
DENSE_SIZE = 1500
# Ridge of a system, relative to each entry of its diagonal and to their mean.
RIDGE, MEAN_RIDGE = 1e-12, 1e-14


class Part:
    """A function of the field on given splines: its places there, and its rows.

    Parameters
    ----------
    function : JetFunction
    orders : sequence of tuple of int
        Derivatives that it takes.
    points : array, shape (N, k)
    numbers : array
        At which places are asked for.
    splines : TensorSplines
    """

    def __init__(
        self,
        function: JetFunction,
        orders: Sequence[Order],
        points: FloatArray,
        numbers: FloatArray,
        splines: TensorSplines,
    ) -> None:
        self._function, self.orders, self.points = function, list(orders), points
        self._splines = splines
        self._size, self._outputs = splines.size, function.outputs
        places = function.places(numbers, points)
        self._index, self._basis = splines.local(places, self.orders)

    def jets(self, coefficients: FloatArray) -> FloatArray:
        """Return the derivatives of the field at the places, (orders, P, m)."""
        return np.asarray(np.einsum("apl,plm->apm", self._basis, coefficients[self._index]))

    def values(self, coefficients: FloatArray, numbers: FloatArray) -> FloatArray:
        """Return the values, (N, E)."""
        jets = self.jets(coefficients)
        return self._function.values(jets, self.orders, numbers, self.points)

    def linearized(
        self, coefficients: FloatArray, numbers: FloatArray
    ) -> tuple[FloatArray, sparse.csr_matrix, FloatArray]:
        """Return values (N, E), rows (N E, size m), and slopes by numbers (N, E, d)."""
        found = self._function.linearized(
            self.jets(coefficients), self.orders, numbers, self.points
        )
        if self._function.pointwise:
            rows = self._local_rows(found.by_jets, len(found.values))
        else:
            rows = self._full_rows(found.by_jets)
        return found.values, rows, found.by_numbers

    def terms(
        self, coefficients: FloatArray, numbers: FloatArray, steps: FloatArray, places: FloatArray
    ) -> FloatArray:
        """Return the mean squares of the terms that each equation adds up, (E,).

        Terms are derivatives of the values by jets times the sizes of these in the whole domain,
        which do not vanish where the field does, and those by numbers times `steps`.
        """
        found = self._function.linearized(
            self.jets(coefficients), self.orders, numbers, self.points
        )
        index, basis = self._splines.local(places, self.orders)
        sizes = (np.einsum("apl,plm->apm", basis, coefficients[index]) ** 2).mean(axis=1)
        equations = found.values.shape[1]
        if self._function.pointwise:
            of_jets = np.einsum("apem,am->e", found.by_jets**2, sizes) / len(found.values)
        else:
            rows = np.einsum("rapm,am->r", found.by_jets**2, sizes)
            of_jets = rows.reshape(-1, equations).mean(axis=0)
        return np.asarray(of_jets + ((found.by_numbers * steps) ** 2).sum(axis=2).mean(axis=0))

    def _local_rows(self, by_jets: FloatArray, count: int) -> sparse.csr_matrix:
        local = np.einsum("apem,apl->pelm", by_jets, self._basis)
        equations, outputs = local.shape[1], self._outputs
        columns = (self._index[:, :, None] * outputs + np.arange(outputs)).reshape(
            len(local), 1, -1
        )
        columns = np.broadcast_to(columns, (len(local), equations, columns.shape[2]))
        width = columns.shape[2]
        shape = (count * equations, self._size * outputs)
        total = None
        for first in range(0, len(local), count):  # call after call of the field
            part = slice(first, first + count)
            ends = np.arange(0, count * equations * width + 1, width)
            rows = sparse.csr_matrix(
                (local[part].ravel(), columns[part].ravel(), ends), shape=shape
            )
            total = rows if total is None else total + rows
        return total

    def _full_rows(self, by_jets: FloatArray) -> sparse.csr_matrix:
        rows, _, places, outputs = by_jets.shape
        found = np.zeros((rows, self._size, outputs))
        ends = np.arange(0, self._index.size + 1, self._index.shape[1])
        for basis, slopes in zip(self._basis, by_jets.swapaxes(0, 1), strict=True):
            shape = (places, self._size)
            design = sparse.csr_matrix((basis.ravel(), self._index.ravel(), ends), shape=shape)
            for o in range(outputs):
                found[:, :, o] += slopes[:, :, o] @ design
        return sparse.csr_matrix(found.reshape(rows, -1))


@dataclass(frozen=True, eq=False)
class Normal:
    """Normal equations of the coefficients, bordered by those of the parameters.

    Attributes
    ----------
    matrix : sparse matrix, shape (size, size)
    border : array, shape (size, d)
    corner : array, shape (d, d)
    gradient : array, shape (size,)
    slope : array, shape (d,)
        The gradient by the parameters.
    """

    matrix: sparse.csr_matrix
    border: FloatArray
    corner: FloatArray
    gradient: FloatArray
    slope: FloatArray

    @classmethod
    def of(cls, rows: sparse.csr_matrix, by_steps: FloatArray, values: FloatArray) -> Normal:
        """Form them from the Jacobian and the values of a stacked residual."""
        across = rows.T.tocsr()
        return cls(
            (across @ rows).tocsr(),
            np.asarray(across @ by_steps),
            by_steps.T @ by_steps,
            across @ values,
            by_steps.T @ values,
        )

    def factor(self, damping: float = 0.0) -> Factor:
        """Return a factor of the matrix, its diagonal damped."""
        diagonal = self.matrix.diagonal()
        more = (damping + RIDGE) * diagonal + (MEAN_RIDGE + 1e-6 * damping) * diagonal.mean()
        return Factor(self.matrix, more)

    def bordered(self, damping: float, hold: bool) -> Bordered:
        """Return a factor of the whole, its diagonal damped; without parameters where held."""
        factor = self.factor(damping)
        border = self.border[:, :0] if hold else self.border
        across = factor.solve(border)
        squares = np.diag(self.corner)
        # A parameter that moves nothing stays where it is.
        least = np.where(squares > 0, 0.0, squares.max(initial=0.0) or 1.0)
        corner = self.corner + np.diag((damping + RIDGE) * squares + least)
        size = border.shape[1]
        return Bordered(factor, border, across, corner[:size, :size] - border.T @ across)


@dataclass(frozen=True, eq=False)
class Bordered:
    """A factor of bordered normal equations.

    Attributes
    ----------
    factor : Factor
        Of the coefficients.
    border, across : array, shape (size, d)
        And the solution for it.
    corner : array, shape (d, d)
        The Schur complement of the parameters.
    """

    factor: Factor
    border: FloatArray
    across: FloatArray
    corner: FloatArray

    def step(self, gradient: FloatArray, slope: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return steps of coefficients and parameters, and the decrease that they promise."""
        inside = self.factor.solve(gradient)
        moved: FloatArray = np.zeros_like(slope)
        if len(self.corner):
            moved = np.asarray(-np.linalg.solve(self.corner, slope - self.border.T @ inside))
            change = -(inside + self.across @ moved)
        else:
            change = -inside
        return change, moved, -float(gradient @ change + slope @ moved)


class Factor:
    """A Cholesky factor of a sparse matrix with a larger diagonal, dense or in bands."""

    def __init__(self, matrix: sparse.csr_matrix, more: FloatArray) -> None:
        self._order: NDArray[np.intp] | None = None
        if matrix.shape[0] <= DENSE_SIZE:
            dense = matrix.toarray()
            dense[np.diag_indices_from(dense)] += more
            self._lower = linalg.cholesky(dense, lower=True, overwrite_a=True, check_finite=False)
            return
        order = sparse.csgraph.reverse_cuthill_mckee(matrix, symmetric_mode=True)
        entries = matrix[order][:, order].tocoo()
        below = entries.row >= entries.col
        row, column, data = (each[below] for each in (entries.row, entries.col, entries.data))
        bands: FloatArray = np.zeros((int((row - column).max(initial=0)) + 1, matrix.shape[0]))
        bands[row - column, column] = data
        bands[0] += more[order]
        self._order = order
        self._lower = linalg.cholesky_banded(
            bands, lower=True, overwrite_ab=True, check_finite=False
        )

    def solve(self, right: FloatArray) -> FloatArray:
        """Solve the system."""
        if self._order is None:
            return np.asarray(linalg.cho_solve((self._lower, True), right, check_finite=False))
        found = np.empty_like(right)
        found[self._order] = linalg.cho_solve_banded(
            (self._lower, True), right[self._order], check_finite=False
        )
        return found

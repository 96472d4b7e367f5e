"""The interface of views, and what several of them share.

A view is a description without points; bound to points it is an operator on residual vectors.
The operator is an object in the manner of a linear-operator library: it *acts* on residual
vectors and can be asked for its matrix, its diagonal or its eigenpairs, but it is not a
matrix. Input is checked here, once; a concrete view supplies the mathematics in the methods
that begin with an underscore and overrides nothing else.

Below the interface are a diagonal operator, leading eigenpairs (of a matrix, or of an operator
by its action alone), and the cells that divide the bounding box of the points.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh

from twoaxis.arrays import FloatArray, check_finite, is_integer, real_array
from twoaxis.errors import InputError

# Above this size a dense matrix (3.2 GB at the limit) is refused unless it is forced.
DENSE_LIMIT = 20_000


class View(ABC):
    """How residuals are weighed, before it is known at which points they are taken.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> view = ta.views.Patch(cells=4)
    >>> isinstance(view, ta.views.View), view.describe()
    (True, 'patch, 4 cells per axis')
    """

    @abstractmethod
    def bind(self, points: ArrayLike) -> BoundView:
        """Return the operator on residual vectors at these points.

        Parameters
        ----------
        points : array_like, shape (N, k) or (N,)
            Where the residual was evaluated: N points with k coordinates each. Finite, and
            at least one.
        """

    @abstractmethod
    def describe(self) -> str:
        """Return a few words that name the view in a table or a message."""


class BoundView(ABC):
    """A symmetric positive semidefinite operator ``M`` on residual vectors of length `size`.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> bound = ta.views.Pointwise().bind(np.linspace(0, 1, 20))
    >>> round(float(bound.quadratic(np.ones(20), np.ones(20))), 6)
    1.0
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """N, the length of the residual vector."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """How many eigenvalues can differ from zero: an upper bound on the rank of M."""

    @abstractmethod
    def describe(self) -> str:
        """Return a few words that name the view and what it became at these points."""

    @abstractmethod
    def diagonal(self) -> FloatArray:
        """Return the diagonal of M, shape (N,)."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The diagonal blocks of M, in order: one for each equation, or M itself."""
        return (Block(slice(0, self.size), 1.0, self),)

    def apply(self, vectors: ArrayLike) -> FloatArray:
        """Return ``M v``, in the shape of `vectors`.

        Parameters
        ----------
        vectors : array_like, shape (N,) or (N, d)
            One residual vector, or d of them as columns.
        """
        columns, trailing = checked_columns("vectors", vectors, self.size)
        return self._apply(columns).reshape((self.size, *trailing))

    def quadratic(self, a: ArrayLike, b: ArrayLike) -> FloatArray:
        """Return ``a^T M b``.

        Parameters
        ----------
        a : array_like, shape (N,) or (N, d)
        b : array_like, shape (N,) or (N, e)
            Passing the same object twice costs half as much as passing a copy.

        Returns
        -------
        float or array
            A number for two vectors, shape (d, e) for two sets of columns, shape (d,) or
            (e,) where one of the two is a vector.
        """
        left, rows = checked_columns("a", a, self.size)
        right, columns = (left, rows) if b is a else checked_columns("b", b, self.size)
        values: FloatArray = self._quadratic(left, right).reshape(rows + columns)[()]
        return values

    def matrix(self, *, force: bool = False) -> FloatArray:
        """Return M as a dense array, shape (N, N).

        Parameters
        ----------
        force : bool
            Form it even above 20,000 points, where it takes more than 3 GB.
        """
        if self.size > DENSE_LIMIT and not force:
            raise InputError(
                f"at most {DENSE_LIMIT:,} points for a dense matrix",
                f"{self.size:,} points, whose matrix takes {8e-9 * self.size**2:,.0f} GB",
                "use apply, quadratic or eigenpairs(count=...), or insist with matrix(force=True)",
            )
        return self._matrix()

    def eigenpairs(self, count: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Return leading eigenvalues and eigenvectors, ``M = V diag(lambda) V^T``.

        Parameters
        ----------
        count : int, optional
            How many, at least 1; without it, all that can differ from zero (`rank`).

        Returns
        -------
        eigenvalues : array, shape (m,)
            In descending order, as computed: rounding can leave a zero slightly negative.
        eigenvectors : array, shape (N, m)
            Orthonormal columns. ``m <= min(count, rank)``: the eigenvalues that are not
            listed are zero, for the Gaussian view at large N to 13 digits of the largest.
        """
        if count is not None and (not is_integer(count) or count < 1):
            raise InputError(
                "count as an integer of at least 1", f"count={count!r}", "pass count=64"
            )
        number = self.rank if count is None else min(int(count), self.rank)
        if self.size * number > DENSE_LIMIT**2:
            most = DENSE_LIMIT**2 // self.size
            raise InputError(
                f"at most {most:,} eigenvectors of {self.size:,} points",
                f"{number:,} of them, which take {8e-9 * self.size * number:,.0f} GB",
                f"ask for fewer, as in eigenpairs(count={min(64, most)})",
            )
        return self._eigenpairs(number)

    @abstractmethod
    def _apply(self, columns: FloatArray) -> FloatArray:
        """Return ``M v`` for checked columns, shape (N, d)."""

    @abstractmethod
    def _quadratic(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return ``left^T M right`` for checked columns, shape (d, e)."""

    @abstractmethod
    def _matrix(self) -> FloatArray:
        """Return M, whatever its size."""

    @abstractmethod
    def _eigenpairs(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Return `count` leading pairs, ``1 <= count <= rank``."""


class Block(NamedTuple):
    """A diagonal block of M.

    Attributes
    ----------
    rows : slice
        Its residual values.
    weight : float
        The factor of its loss.
    view : BoundView
        The metric of its residual, without that factor.
    """

    rows: slice
    weight: float
    view: BoundView


def checked_columns(name: str, vectors: ArrayLike, size: int) -> tuple[FloatArray, tuple[int, ...]]:
    """Return `vectors` as finite columns (size, d), and the shape that follows their length."""
    array = real_array(name, vectors)
    if array.ndim not in (1, 2) or len(array) != size:
        raise InputError(
            f"{name} of shape ({size},) or ({size}, d), one entry for each residual point",
            f"shape {array.shape}",
            "evaluate the residual at the points that the view was bound to",
        )
    check_finite(name, array)
    return (array if array.ndim == 2 else array[:, None]), array.shape[1:]


def checked_weights(name: str, weights: ArrayLike) -> FloatArray:
    """Return `weights` as a vector of finite, non-negative floats that are not all zero."""
    array = real_array(name, weights)
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"{name} of shape (n,) with n at least 1",
            f"shape {array.shape}",
            f"flatten {name} to one number per residual value",
        )
    check_finite(name, array)
    if array.min() < 0:
        raise InputError(
            f"{name} that are not negative",
            f"{int((array < 0).sum())} negative of {array.size}, the smallest {array.min():g}",
            "pass the factors that multiply r squared; they are squares where the method "
            "multiplies r",
        )
    if array.max() == 0:
        raise InputError(
            f"at least one positive value among {name}",
            f"{array.size} zeros",
            "pass the weights that training ended with; without weight no residual counts",
        )
    return array


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


Apply = Callable[[FloatArray], FloatArray]

# Residual |A v - lambda v| of an iterative eigenpair, relative to the largest eigenvalue.
ITERATION_TOLERANCE = 1e-13
# For the question whether an eigenvalue was missed: it errs by the square of the residual.
CHECK_TOLERANCE = 1e-6
# Eigenvalues that differ by less than this part of the largest are the same.
SAME = 1e-11
# Missed eigenpairs are looked for this many at a time.
MISSED = 8
# Far above any use; below it, cell numbers stay exact as floats and as integers.
MOST_CELLS = 2**31


def dense_pairs(matrix: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the `count` leading eigenpairs of a symmetric matrix, descending."""
    size = len(matrix)
    if count == size:
        values, vectors = eigh(matrix, driver="evd", check_finite=False)
    else:
        values, vectors = eigh(matrix, subset_by_index=[size - count, size - 1], check_finite=False)
    return values[::-1], oriented(vectors[:, ::-1])


def iterative_pairs(
    apply: Apply, size: int, count: int, scale: float
) -> tuple[FloatArray, FloatArray]:
    """Return the `count` leading eigenpairs of a semidefinite operator, descending.

    Parameters
    ----------
    apply : callable
        Takes a vector (size,) and returns the operator's product with it.
    size, count : int
        Well below size, as an iteration is no gain otherwise.
    scale : float
        The largest eigenvalue, roughly and not above it.

    Notes
    -----
    A Krylov space of one vector holds one eigenvector of each eigenvalue, and where points
    lie on a lattice many eigenvalues are multiple: copies appear only by rounding, and some
    not in time. So the iteration is repeated on what is orthogonal to the pairs found,
    until that has no eigenvalue above the last of them.
    """
    # Fixed, so that equal input gives equal output, and random, so that no start is
    # orthogonal to the odd eigenvectors of a symmetric set of points. A new one each time:
    # what an old one could reach has been found.
    starts = np.random.default_rng(0)

    def run(operator: Apply, number: int, tolerance: float) -> tuple[FloatArray, FloatArray]:
        start = starts.standard_normal(size)
        return _lanczos(operator, start, number, scale, tolerance)

    values, vectors = run(apply, count, ITERATION_TOLERANCE)
    while True:
        rest = _deflated(apply, vectors)
        highest = run(rest, 1, CHECK_TOLERANCE)[0][0]
        if highest <= values[-1] + SAME * values[0]:
            return values, oriented(vectors)
        missed, others = run(rest, min(count, MISSED), ITERATION_TOLERANCE)
        values, vectors = np.append(values, missed), np.hstack([vectors, others])
        order = np.argsort(-values, kind="stable")[:count]
        values, vectors = values[order], vectors[:, order]


def _lanczos(
    apply: Apply, start: FloatArray, count: int, scale: float, tolerance: float
) -> tuple[FloatArray, FloatArray]:
    """One run of the implicitly restarted Lanczos method, its pairs in descending order."""
    size = start.size

    # The solver measures residuals against each eigenvalue, which it can never meet for one
    # that is zero up to rounding. Shifted by the scale of the operator, all are measured
    # alike; Krylov spaces do not change under a shift.
    def shifted(vector: FloatArray) -> FloatArray:
        flat = vector.reshape(size)
        return apply(flat) + scale * flat

    operator = LinearOperator((size, size), matvec=shifted, dtype=float)
    values, vectors = eigsh(operator, k=count, which="LA", v0=start, tol=tolerance)
    order = np.argsort(-values, kind="stable")
    return values[order] - scale, vectors[:, order]


def _deflated(apply: Apply, vectors: FloatArray) -> Apply:
    """Return the operator restricted to what is orthogonal to orthonormal columns."""

    def outside(vector: FloatArray) -> FloatArray:
        remainder: FloatArray = vector - vectors @ (vectors.T @ vector)
        return remainder

    return lambda vector: outside(apply(outside(vector)))


def oriented(vectors: FloatArray) -> FloatArray:
    """Give each column the sign that makes its entry of largest magnitude positive."""
    flip = -vectors.min(axis=0) > vectors.max(axis=0)
    return vectors * np.where(flip, -1.0, 1.0)


def unit_coordinates(points: FloatArray) -> FloatArray:
    """Map every coordinate of points (N, k) on [0, 1] by its own minimum and maximum.

    ``c = (x - min x) / (max x - min x)``; a coordinate that is the same at all points
    becomes 0. Space and time so count alike, whatever their units.
    """
    # Halves, so that a range of more than the largest float does not overflow.
    low = points.min(axis=0) / 2
    span = points.max(axis=0) / 2 - low
    coordinates: FloatArray = (points / 2 - low) / np.where(span > 0, span, 1.0)
    return coordinates


def occupied_cells(coordinates: FloatArray, cells: Sequence[int]) -> NDArray[np.intp]:
    """Number the occupied cells of a grid on the unit box from 0, and return each point's.

    With n cells along an axis the cell of ``c`` is ``min(floor(n c), n - 1)``: half-open
    cells, the last one closed.
    """
    number = np.zeros(len(coordinates), dtype=np.intp)
    for column, n in zip(coordinates.T, cells, strict=True):
        along = np.minimum((column * n).astype(np.intp), n - 1)
        # Renumbered after every axis: the flat index of 8^30 cells would not fit an integer.
        number = np.unique(number * n + along, return_inverse=True)[1]
    return number

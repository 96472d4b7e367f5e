"""What every view is: a description without points, and an operator once it has them.

The operator is an object in the manner of a linear-operator library: it *acts* on residual
vectors and can be asked for its matrix, its diagonal or its eigenpairs, but it is not a
matrix. Checks of the input live here, once; a concrete view supplies the mathematics in
the methods that begin with an underscore and overrides nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from numpy.typing import ArrayLike

from twoaxis.errors import InputError
from twoaxis.views.checks import FloatArray, checked_columns, is_whole

# Above this size a dense matrix (3.2 GB at the limit) is refused unless it is forced.
DENSE_LIMIT = 20_000


class View(ABC):
    """How residuals are weighed, before it is known at which points they are taken."""

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
    """A symmetric positive semidefinite operator ``M`` on residual vectors of length `size`."""

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
        if count is not None and (not is_whole(count) or count < 1):
            raise InputError(
                "a whole number of at least 1 as count", f"count={count!r}", "pass count=64"
            )
        wanted = self.rank if count is None else min(int(count), self.rank)
        if self.size * wanted > DENSE_LIMIT**2:
            most = DENSE_LIMIT**2 // self.size
            raise InputError(
                f"at most {most:,} eigenvectors of {self.size:,} points",
                f"{wanted:,} of them, which take {8e-9 * self.size * wanted:,.0f} GB",
                f"ask for fewer, as in eigenpairs(count={min(64, most)})",
            )
        return self._eigenpairs(wanted)

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

"""The Gaussian view: residuals count together with their neighbors.

Where the patch view averages over fixed cells, this one averages over a Gaussian around
every point. All scales stay visible, finer ones ever less, and no residual is lost between
cell walls. Its rank-truncated form, an operator given by a few eigenpairs, keeps only the
smoothest directions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import ArrayLike

from twoaxis.arrays import FloatArray, checked_points, is_integer, is_real
from twoaxis.errors import InputError
from twoaxis.views.kernel import Kernel, gaussian_kernel
from twoaxis.views.view import DENSE_LIMIT, BoundView, View, dense_pairs, unit_coordinates


@final
class BoundLowRank(BoundView):
    """``M = V diag(lambda) V^T`` with orthonormal columns V (N, r) and lambda descending.

    Eigenvalues that rounding made negative are taken as zero, so that M is semidefinite.
    """

    def __init__(self, eigenvalues: FloatArray, eigenvectors: FloatArray, description: str) -> None:
        self._values = np.maximum(eigenvalues, 0.0)
        self._vectors = eigenvectors
        self._description = description

    @property
    def size(self) -> int:
        """N, the length of the residual vector."""
        return len(self._vectors)

    @property
    def rank(self) -> int:
        """r, the number of eigenpairs kept."""
        return self._values.size

    def describe(self) -> str:
        """Return a few words that name the view."""
        return self._description

    def diagonal(self) -> FloatArray:
        """Return the sums of lambda times squared eigenvector entries."""
        diagonal: FloatArray = np.einsum("ij,ij,j->i", self._vectors, self._vectors, self._values)
        return diagonal

    def _apply(self, columns: FloatArray) -> FloatArray:
        return self._vectors @ (self._values[:, None] * (self._vectors.T @ columns))

    def _quadratic(self, left: FloatArray, right: FloatArray) -> FloatArray:
        seen = self._vectors.T @ left
        other = seen if right is left else self._vectors.T @ right
        return seen.T @ (self._values[:, None] * other)

    def _matrix(self) -> FloatArray:
        return (self._vectors * self._values) @ self._vectors.T

    def _eigenpairs(self, count: int) -> tuple[FloatArray, FloatArray]:
        return self._values[:count].copy(), self._vectors[:, :count].copy()


# The variance of a point in a randomly translated cell of width 1/8: per axis 1/8^2 / 6.
DEFAULT_BANDWIDTH = 1.0 / (8.0 * math.sqrt(6.0))
# Unit coordinates carry 16 digits: outside, all points are apart or all the same.
NARROWEST, WIDEST = 1e-12, 1e12
# Up to this many points eigenpairs come from the dense matrix, in seconds.
DENSE_PAIRS_LIMIT = 3_000


@final
@dataclass(frozen=True)
class Gaussian(View):
    r"""A Gaussian kernel on unit coordinates.

    .. math:: M = K / \textstyle\sum_{ij} K_{ij}, \qquad
              K_{ij} = e^{-|x_i - x_j|^2 / 2 \sigma^2}

    Coordinates are first mapped on [0, 1] each by its own minimum and maximum; one that is
    the same at all points becomes 0. The divisor gives a constant residual of one the loss
    one, as it has under the pointwise and patch views.

    Parameters
    ----------
    bandwidth : float
        sigma in unit coordinates; by default ``1 / (8 sqrt 6)``, which has the variance of a
        randomly translated patch of width 1/8.
    rank : int, optional
        Keep only this many leading eigenpairs of K, with the divisor of the whole K. More
        than the number of points keeps them all. At more than 3,000 points, eigenvalues
        below 1e-13 of the largest count as zero.
    normalize : {"sum", "trace"}
        Divide by the sum of K, or by its trace N, which gives white residuals the loss that
        they have under the pointwise view.

    Notes
    -----
    Up to three coordinates, full rank takes time and memory linear in N, and entries of K
    are accurate to 1e-14 (absolute; the largest is 1): ``|a^T K b|`` errs by at most
    ``1e-14 |a|_1 |b|_1``. Where a grid does not pay (few points, many coordinates, a very
    small bandwidth) all pairs are summed in slabs: linear memory, quadratic time.

    Where two eigenvalues at the end of a truncation are equal, as on a square lattice of
    points, the truncated view is not unique; the same input still gives the same output.

    Examples
    --------
    >>> points = np.random.default_rng(0).random((500, 2))
    >>> bound = Gaussian().bind(points)
    >>> round(float(bound.quadratic(np.ones(500), np.ones(500))), 12)
    1.0
    >>> Gaussian(rank=64).bind(points).rank
    64
    """

    bandwidth: float = DEFAULT_BANDWIDTH
    rank: int | None = None
    normalize: Literal["sum", "trace"] = "sum"

    def __post_init__(self) -> None:
        if not (is_real(self.bandwidth) and NARROWEST <= self.bandwidth <= WIDEST):
            raise InputError(
                f"a bandwidth from {NARROWEST:g} to {WIDEST:g}, in coordinates on [0, 1]",
                f"bandwidth={self.bandwidth!r}",
                "leave it out for 1 / (8 sqrt 6); the limit at zero is Pointwise(), that at "
                "infinity Patch(cells=1)",
            )
        if self.rank is not None and not (is_integer(self.rank) and self.rank >= 1):
            raise InputError(
                "rank as an integer of at least 1, or None",
                f"rank={self.rank!r}",
                "pass rank=64, or leave it out for full rank",
            )
        if self.normalize not in ("sum", "trace"):
            raise InputError(
                'normalize="sum" or "trace"', f"normalize={self.normalize!r}", "choose one of them"
            )

    def bind(self, points: ArrayLike) -> BoundView:
        """Return the operator on residual vectors at these points, (N, k) or (N,)."""
        kernel = gaussian_kernel(unit_coordinates(checked_points(points)), float(self.bandwidth))
        divisor = kernel.total if self.normalize == "sum" else float(kernel.size)
        description = f"{self.describe()}, {kernel.size:,} points"
        if self.rank is None or self.rank >= kernel.size:
            return _BoundGaussian(kernel, divisor, description)
        values, vectors = _kernel_pairs(kernel, self.rank)
        return BoundLowRank(values / divisor, vectors, description)

    def describe(self) -> str:
        """Return a few words that name the view in a table or a message."""
        rank = "full rank" if self.rank is None else f"rank {self.rank}"
        scale = "" if self.normalize == "sum" else ", divided by its trace"
        return f"Gaussian, bandwidth {self.bandwidth:.4g}, {rank}{scale}"


@final
class _BoundGaussian(BoundView):
    """``K`` divided by a number."""

    def __init__(self, kernel: Kernel, divisor: float, description: str) -> None:
        self._kernel = kernel
        self._divisor = divisor
        self._description = description

    @property
    def size(self) -> int:
        """N, the length of the residual vector."""
        return self._kernel.size

    @property
    def rank(self) -> int:
        """N: the kernel is definite on distinct points, if often barely so."""
        return self._kernel.size

    def describe(self) -> str:
        """Return a few words that name the view."""
        return self._description

    def diagonal(self) -> FloatArray:
        """Return the constant diagonal: the kernel is 1 there."""
        return np.full(self.size, 1.0 / self._divisor)

    def _apply(self, columns: FloatArray) -> FloatArray:
        return self._kernel.apply(columns) / self._divisor

    def _quadratic(self, left: FloatArray, right: FloatArray) -> FloatArray:
        return self._kernel.quadratic(left, right) / self._divisor

    def _matrix(self) -> FloatArray:
        return self._kernel.matrix() / self._divisor

    def _eigenpairs(self, count: int) -> tuple[FloatArray, FloatArray]:
        values, vectors = _kernel_pairs(self._kernel, count)
        return values / self._divisor, vectors


def _kernel_pairs(kernel: Kernel, count: int) -> tuple[FloatArray, FloatArray]:
    """Return leading eigenpairs of K, from the matrix where that is small or all are requested."""
    most = 4 * count >= kernel.size and kernel.size <= DENSE_LIMIT
    if kernel.size <= DENSE_PAIRS_LIMIT or most:
        return dense_pairs(kernel.matrix(), count)
    return kernel.leading(count)

r"""Residuals that are affine in the physical parameters, and their exact profiles.

Many equations are linear in their coefficients, ``r(p) = a + sum_j p_j b_j``, whatever the
field. `twoaxis.exported.interpolant` tests it all over the bounds. The frozen profile is then a
quadratic in the physical parameters, known everywhere from the inner products
of ``a`` and the ``b_j`` alone,

.. math:: \phi(p) = a^\top M a + 2\,p^\top b^\top M a + p^\top (b^\top M b)\,p,

with its minimum in closed form, in whichever coordinate it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.exported.interpolant import AffineForm, AffineTest, affine_test
from twoaxis.frozen import FrozenResidual, same_size
from twoaxis.geometry.score import NULL_SHARE

FloatArray = NDArray[np.float64]

# A residual counts as affine when it deviates from it by less than this, relatively.
AFFINE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class AffineProfile:
    """The exact profile of an affine residual, with every ``b_j`` divided by its largest value.

    Attributes
    ----------
    constant : float
        ``a^T M a``.
    linear : array, shape (d,)
        ``b^T M a``.
    quadratic : array, shape (d, d)
        ``b^T M b``.
    scale : array, shape (d,)
        The largest absolute value of each ``b_j``: neither the units of a parameter nor those
        of the residual can make an inner product underflow.
    """

    constant: float
    linear: FloatArray
    quadratic: FloatArray
    scale: FloatArray

    def __call__(self, values: FloatArray) -> FloatArray:
        """Profile at physical values of shape (..., d)."""
        scaled = values * self.scale
        curved = np.einsum("...i,ij,...j->...", scaled, self.quadratic, scaled)
        # Cancellation near a perfect fit may leave a small negative number.
        return np.asarray(np.maximum(self.constant + 2 * scaled @ self.linear + curved, 0.0))

    def factor(self) -> tuple[FloatArray, FloatArray]:
        """Return slopes (d + 1, d) and a constant (d + 1,) with ``|slopes p + constant|^2`` equal.

        They stand for the residual wherever only its size counts, at no cost.
        """
        gram = np.block(
            [[self.quadratic, self.linear[:, None]], [self.linear[None], np.array(self.constant)]]
        )
        values, vectors = np.linalg.eigh(gram)
        root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        return root[:, :-1] * self.scale, root[:, -1]

    def minimizer(self) -> FloatArray | None:
        """Physical minimum, shape (d,), or None where the profile is flat along a direction."""
        values, vectors = np.linalg.eigh(self.quadratic)
        if values[0] <= NULL_SHARE * max(values[-1], 0.0):
            return None
        return np.asarray(-vectors @ ((vectors.T @ self.linear) / values) / self.scale)

    def fitted(self, values: FloatArray, free: NDArray[np.bool_]) -> FloatArray:
        """Return physical values (n, d) with those that are `free`, shape (d,), at their minimum.

        Without regard to bounds; of least norm where the profile is flat along them.
        """
        scaled = values * self.scale
        pull = self.linear[free] + scaled[:, ~free] @ self.quadratic[np.ix_(~free, free)]
        own = self.quadratic[np.ix_(free, free)]
        scaled[:, free] = -pull @ np.linalg.pinv(own, rcond=NULL_SHARE, hermitian=True)
        return scaled / self.scale


def affine_in_bounds(
    frozen: FrozenResidual, center: FloatArray, at_center: FloatArray
) -> AffineTest:
    """Test whether a residual is affine, around coordinates `center` of shape (d,)."""
    return affine_test(
        lambda q: same_size(frozen.at(q), at_center), frozen, center, AFFINE_TOLERANCE
    )


def affine_profile(form: AffineForm, metric: Any) -> AffineProfile:
    """Return the profile of an affine residual under a bound view."""
    largest = np.abs(form.slopes).max(axis=0)
    scale = np.where(largest > 0, largest, 1.0)
    columns = np.column_stack([form.slopes / scale, form.constant])
    gram = metric.quadratic(columns, columns)
    gram = (gram + gram.T) / 2
    return AffineProfile(float(gram[-1, -1]), gram[:-1, -1], gram[:-1, :-1], scale)

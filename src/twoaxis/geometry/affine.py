r"""Residuals that are affine in the physical parameters, and their exact profiles.

Many equations are linear in their coefficients, ``r(p) = a + sum_j p_j b_j``, whatever the
field. A few evaluations tell. The frozen profile is then a quadratic in the physical
parameters, known everywhere from the inner products of ``a`` and the ``b_j`` alone,

.. math:: \phi(p) = a^\top M a + 2\,p^\top b^\top M a + p^\top (b^\top M b)\,p,

with its minimum in closed form, in whichever coordinate it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.frozen import FrozenResidual
from twoaxis.geometry.derivatives import same_size
from twoaxis.geometry.terms import NULL_SHARE

FloatArray = NDArray[np.float64]

# A residual counts as affine when it deviates from it by less than this, relatively.
AFFINE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class AffineProfile:
    """The exact profile of an affine residual.

    Attributes
    ----------
    constant : float
        ``a^T M a``.
    linear : array, shape (d,)
        ``b^T M a``.
    quadratic : array, shape (d, d)
        ``b^T M b``.
    """

    constant: float
    linear: FloatArray
    quadratic: FloatArray

    def __call__(self, values: FloatArray) -> FloatArray:
        """Profile at physical values of shape (..., d)."""
        curved = np.einsum("...i,ij,...j->...", values, self.quadratic, values)
        # Cancellation near a perfect fit may leave a small negative number.
        return np.asarray(np.maximum(self.constant + 2 * values @ self.linear + curved, 0.0))

    def minimizer(self) -> FloatArray | None:
        """Physical minimum, shape (d,), or None where the profile is flat along a direction."""
        values, vectors = np.linalg.eigh(self.quadratic)
        if values[0] <= NULL_SHARE * max(values[-1], 0.0):
            return None
        return np.asarray(-vectors @ ((vectors.T @ self.linear) / values))


def affine_parts(frozen: FrozenResidual, center: FloatArray) -> FloatArray | None:
    """Return the columns ``[b_1, ..., b_d, a]``, shape (N, d + 1), of an affine residual.

    The residual is evaluated at the centre and, for each parameter, at a second value; one
    further point, where all parameters differ, is the check. None when it is not affine.
    """
    low, high = (_physical(frozen, end) for end in frozen.coordinate_bounds)
    middle = _physical(frozen, center)
    # The farther end of the bounds gives the better conditioned slope.
    ends = np.where(high - middle >= middle - low, high, low)
    at_middle = _at(frozen, middle)
    slopes = []
    for j in range(len(middle)):
        moved = middle.copy()
        moved[j] = ends[j]
        at_end = same_size(_at(frozen, moved), at_middle)
        slopes.append((at_end - at_middle) / (ends[j] - middle[j]))
    columns = np.column_stack([*slopes, at_middle - np.column_stack(slopes) @ middle])
    check = middle + 0.381966 * (ends - middle)  # neither the centre nor an end
    expected = columns @ np.append(check, 1.0)
    found = same_size(_at(frozen, check), at_middle)
    size = np.abs(found).max() + np.abs(at_middle).max()
    return columns if np.abs(found - expected).max() <= AFFINE_TOLERANCE * size else None


def affine_profile(columns: FloatArray, metric: Any) -> AffineProfile:
    """Return the profile of ``[b, a]`` under a bound view."""
    gram = metric.quadratic(columns, columns)
    gram = (gram + gram.T) / 2
    return AffineProfile(float(gram[-1, -1]), gram[:-1, -1], gram[:-1, :-1])


def _physical(frozen: FrozenResidual, coordinates: FloatArray) -> FloatArray:
    return np.array(list(frozen.physical(coordinates).values()))


def _at(frozen: FrozenResidual, values: FloatArray) -> FloatArray:
    named = dict(zip(frozen.names, values.tolist(), strict=True))
    return frozen.checked(frozen.raw(named), named)

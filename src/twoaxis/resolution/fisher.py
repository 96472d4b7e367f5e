r"""Fisher information of the observations, and the error it predicts.

For whitened sensitivities ``S`` (one column a parameter) the information about the
coordinates is

.. math:: I_{obs} = S^\top S, \qquad \hat q - q \approx \mathcal N(0, I_{obs}^{-1}),

so the mean absolute relative error of parameter j is, to first order,
:math:`100 \sqrt{2/\pi}\,\sqrt{(I_{obs}^{-1})_{jj}} / u_j` percent, where :math:`u_j` is the
step in the coordinate that stands for 100 percent (1 in log coordinates).

Directions are the eigenvectors of the information in those units. One is *null* when the
observations do not see it at all, and *weak* when one standard error along it already
leaves the declared bounds: the data then say less than the bounds do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.resolution.design import LARGEST_WHITE, Design
from twoaxis.resolution.sensitivity import Sensitivities

FloatArray = NDArray[np.float64]

# Standard error of a direction that is not seen, as a multiple of the largest of the others.
UNSEEN = 1e6
# Eigenvalues below this share of the largest are rounding.
NULL_SHARE = 1e-13


@dataclass(frozen=True)
class Information:
    """Fisher information of one layout about d parameters.

    Attributes
    ----------
    matrix : array, shape (d, d)
        In the coordinates.
    error_percent : array, shape (d,)
        First-order mean absolute error; infinite for a parameter with a null direction.
    correlation : array, shape (d, d)
        Of the estimates.
    directions : array, shape (d, d)
        A row for each eigen-direction, weakest first, as multiples of 100 percent.
    direction_percent : array, shape (d,)
        Standard error along each direction, in percent.
    weak : array of bool, shape (d,)
        Null directions count as weak.
    derivative_error : array, shape (d,)
        Relative difference between the sensitivities of two step sizes.
    """

    matrix: FloatArray
    error_percent: FloatArray
    correlation: FloatArray
    directions: FloatArray
    direction_percent: FloatArray
    weak: NDArray[np.bool_]
    derivative_error: FloatArray


def information(
    design: Design,
    derivative: Sensitivities,
    units: FloatArray,
    center: FloatArray,
    bounds: tuple[FloatArray, FloatArray],
) -> Information:
    """Return the information that a layout holds about the coordinates at `center`."""
    slope = design.white(derivative.slope.T[:, design.columns]).T  # (n, d)
    coarse = design.white(derivative.coarse.T[:, design.columns]).T
    largest = float(np.abs(slope * units).max())
    if largest != 0 and not 1 / LARGEST_WHITE < largest < LARGEST_WHITE:
        raise InputError(
            f"predictions on layout {design.name!r} that change by {1 / LARGEST_WHITE:g} to "
            f"{LARGEST_WHITE:g} standard deviations of the noise for 100 percent of a parameter",
            f"a change by {largest:.3g}",
            "check the noise, and give predictions and noise in units in which they are near 1",
        )
    size = np.linalg.norm(slope, axis=0)
    if not size.any():
        raise InputError(
            f"observations on layout {design.name!r} that depend on the parameters",
            "predictions that do not change with any of them",
            "check that forward uses its arguments, or observe where the solution responds",
        )
    scaled = slope * units
    eigenvalues, vectors = np.linalg.eigh(scaled.T @ scaled)
    null = eigenvalues <= NULL_SHARE * eigenvalues[-1]
    # eigh's small eigenvalues carry the rounding of the product; singular values do not.
    singular = np.linalg.svd(scaled, compute_uv=False)
    spread = np.zeros(len(units))
    spread[: len(singular)] = singular
    standard_error = np.full(len(units), np.inf)
    standard_error[~null] = 1 / spread[::-1][~null]
    # What is not seen is given a huge variance: correlations then come out at their limits.
    finite = np.where(null, UNSEEN * np.max(standard_error[~null]), standard_error)
    covariance = (vectors * finite**2) @ vectors.T
    deviation = np.sqrt(np.diag(covariance))
    unseen = (np.abs(vectors[:, null]) > 1e-6).any(axis=1)
    error = np.where(unseen, np.inf, 100 * np.sqrt(2 / np.pi) * deviation)
    reference = np.where(deviation > 0, deviation, 1.0)
    return Information(
        matrix=slope.T @ slope,
        error_percent=error,
        correlation=covariance / np.outer(reference, reference),
        directions=vectors.T,
        direction_percent=100 * standard_error,
        weak=null | _leaves_box(vectors.T * units, standard_error, center, bounds),
        derivative_error=np.linalg.norm(slope - coarse, axis=0) / np.where(size > 0, size, 1.0),
    )


def _leaves_box(
    steps: FloatArray,
    standard_error: FloatArray,
    center: FloatArray,
    bounds: tuple[FloatArray, FloatArray],
) -> NDArray[np.bool_]:
    """Whether one standard error along each direction, either way, leaves the bounds."""
    finite = np.where(np.isfinite(standard_error), standard_error, 0.0)
    move = np.abs(steps * finite[:, None])
    room = np.minimum(center - bounds[0], bounds[1] - center)
    return np.asarray((move > room).any(axis=1))

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

The derivative of the predictions, and a check that it is one.

Centred differences with steps ``h`` and ``h/2`` are combined so that their leading errors
cancel (Richardson); how far the two lie apart is the check.

How many more observations of the present kind, or how much less noise, reach a tolerance.

At sites of the same kind, information grows in proportion to their number n and to the inverse
of the noise variance. To first order the error is the inverse square root of the information:

.. math:: E(n', \sigma') = E(n, \sigma)\, \sqrt{n / n'}\, \sigma' / \sigma .

Only the present error and n are needed, so a saved audit is enough. The rule knows no bias and
no bounds: where the present error is so large that estimates stop at the bounds, it is rough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.forward import ForwardModel
from twoaxis.parameters import Parameters
from twoaxis.resolution.design import LARGEST_WHITE, Design
from twoaxis.views.checks import is_whole

FloatArray = NDArray[np.float64]

# Step of a centred difference, as a fraction of what stands for 100 percent.
STEP = 1e-3


@dataclass(frozen=True)
class Sensitivities:
    """Derivative of the predictions with respect to the coordinates.

    Attributes
    ----------
    slope : array, shape (entries, d)
    coarse : array, shape (entries, d)
        The same from the larger step alone.
    """

    slope: FloatArray
    coarse: FloatArray


def sensitivities(model: ForwardModel, center: FloatArray, units: FloatArray) -> Sensitivities:
    """Differentiate the predictions at `center`, shape (d,)."""
    steps = STEP * units
    low, high = Parameters(model.parameters).coordinate_bounds
    # At a bound the derivative is taken a step inside: the model is not called beyond it.
    center = np.clip(center, low + steps, high - steps)
    lattice = np.concatenate([np.diag(f * steps) for f in (1.0, -1.0, 0.5, -0.5)])
    values, reasons = model(center + lattice)
    failed = [reason for reason in reasons if reason]
    if failed:
        raise InputError(
            f"{model.name} to work close to the centre, where its derivative is taken",
            failed[0],
            "move the centre away from the edge of where the model works",
        )
    ahead, behind, half_ahead, half_behind = np.split(values, 4)
    coarse = (ahead - behind) / (2 * steps[:, None])
    fine = (half_ahead - half_behind) / steps[:, None]
    return Sensitivities(slope=((4 * fine - coarse) / 3).T, coarse=coarse.T)


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


@dataclass(frozen=True)
class NeededObservations:
    """What would bring the error down to a tolerance.

    Attributes
    ----------
    error_percent, tolerance_percent : float
        The present mean error, and the one that is wanted.
    count : int
        How many observations there are now.
    factor : float
        So many times as many observations are needed, ``(error / tolerance)^2``; 1 or less where
        the tolerance is met already.
    observations : int
        The number needed in all; never below `count`.
    noise_factor : float
        With the present observations, the noise would have to be this share of what it is.
    """

    error_percent: float
    tolerance_percent: float
    count: int
    factor: float
    observations: int
    noise_factor: float

    @property
    def more(self) -> int:
        """How many observations have to be added."""
        return self.observations - self.count

    def __str__(self) -> str:
        if self.more == 0:
            return (
                f"A mean error of {self.error_percent:.3g}% is within {self.tolerance_percent:g}%: "
                f"the {self.count} observations are enough"
            )
        return (
            f"From {self.error_percent:.3g}% to {self.tolerance_percent:g}% takes "
            f"{self.factor:.3g} times as many observations of the present kind "
            f"({self.observations}, {self.more} more), or {self.noise_factor:.3g} of the noise"
        )


def needed_observations(
    error_percent: float, tolerance_percent: float, count: int
) -> NeededObservations:
    """Say how many observations of the present kind, or how much less noise, are needed.

    Parameters
    ----------
    error_percent : float
        Present mean error, such as ``resolution.error_percent.mean()`` or
        ``resolution.fisher_error_percent``.
    tolerance_percent : float
        The mean error that is wanted.
    count : int
        How many observations gave the present error.

    Examples
    --------
    >>> import twoaxis as ta
    >>> print(ta.needed_observations(error_percent=16.7, tolerance_percent=5.0, count=200))
    From 16.7% to 5% takes 11.2 times as many observations of the present kind (2232, 2032 more), \
or 0.299 of the noise
    """
    error = _positive("error_percent", error_percent)
    tolerance = _positive("tolerance_percent", tolerance_percent)
    if not is_whole(count) or count < 1:
        raise InputError(
            "count as a whole number of at least 1",
            f"count={count!r}",
            "give the number of observations that the error belongs to",
        )
    factor = (error / tolerance) ** 2
    # A ratio that is whole but for rounding must not ask for one observation more.
    needed = math.ceil(round(int(count) * factor, 6))
    return NeededObservations(
        error_percent=error,
        tolerance_percent=tolerance,
        count=int(count),
        factor=factor,
        observations=max(int(count), needed),
        noise_factor=tolerance / error,
    )


def _positive(name: str, value: Any) -> float:
    """Return a finite number above zero; an array with one entry counts as a number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise InputError(
            f"{name} as one finite number above zero",
            f"{name}={value!r}",
            "an infinite error means a direction that is not seen: more of the same sites will "
            "not help, and twoaxis.suggest_sites may"
            if number == math.inf
            else f"pass {name} in percent, as in {name}=5.0",
        )
    return number

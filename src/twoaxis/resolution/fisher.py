r"""Fisher information of the observations, the error it predicts, and what would reduce it.

For whitened sensitivities ``S`` (one column per parameter) the information about the coordinates
is

.. math:: I_{obs} = S^\top S, \qquad \hat q - q \approx \mathcal N(0, I_{obs}^{-1}),

so that, to first order, parameter j has the standard error
:math:`100 \sqrt{(I_{obs}^{-1})_{jj}} / u_j` percent and the mean absolute relative error
:math:`\sqrt{2/\pi}` times that. Here :math:`u_j` is the step in the coordinate that stands for
100% (1 in log coordinates).

Directions are the eigenvectors of the information in those units. One is *null* when the
observations do not depend on it, and *poorly resolved* when one standard error along it leaves
the parameter bounds: the data then say less than the bounds do. Null directions are poorly
resolved too.

Nuisance parameters are estimated along with the others: the covariance of the estimates of interest
is the block of the whole inverse, :math:`(I_{obs}^{-1})_{ii}`, which is the inverse of the Schur
complement of the nuisance block. Directions of interest are those of this block.

Sensitivities are centered differences with steps ``h`` and ``h/2``, combined so that their
leading errors cancel (Richardson extrapolation). How far the two differ is the check that the
derivative exists. Where they do not agree, smaller steps are tried: predictions may change within
the first ones, as those of an oscillation over many periods do with its frequency.

At sites of the same kind, information grows in proportion to their number n and to the inverse of
the noise variance. To first order the error is the inverse square root of the information:

.. math:: E(n', \sigma') = E(n, \sigma)\, \sqrt{n / n'}\, \sigma' / \sigma .

`needed_observations` follows this rule. It knows no bias and no bounds: where the present error is
so large that estimates stop at the bounds, it is rough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.arrays import is_integer
from twoaxis.errors import InputError
from twoaxis.forward import ForwardModel
from twoaxis.resolution.layouts import LARGEST_WHITE, WhitenedLayout

FloatArray = NDArray[np.float64]

# Step of a centered difference, as a fraction of what stands for 100%.
STEP = 1e-3
# Sensitivities from two step sizes must agree this well.
DERIVATIVE_ACCURACY = 0.01
# Where they do not, the step is divided by ten, so many times.
FINER_STEPS = 4


@dataclass(frozen=True)
class Sensitivities:
    """Derivative of the predictions with respect to the coordinates.

    Attributes
    ----------
    slope : array, shape (entries, d)
    coarse : array, shape (entries, d)
        The same from the larger step alone.
    steps : array, shape (d,)
        The larger step.
    first, first_error : array, shape (d,)
        The step that was tried first, and how far the two sensitivities differed there.
    """

    slope: FloatArray
    coarse: FloatArray
    steps: FloatArray
    first: FloatArray
    first_error: FloatArray

    def error(self, slope: FloatArray, coarse: FloatArray) -> FloatArray:
        """Return the relative difference of both sensitivities, whitened, (n, d), as (d,).

        A smaller step than the first hides a jump nearby. It is right only where estimates spread
        by less than the first one.
        """
        hidden = (self.steps < self.first) & (np.linalg.norm(slope, axis=0) * self.first < 1)
        return np.where(hidden, self.first_error, _disagreement(slope, coarse))


def sensitivities(model: ForwardModel, center: FloatArray, units: FloatArray) -> Sensitivities:
    """Differentiate the predictions at `center`, shape (d,)."""
    low, high = model.parameters.coordinate_bounds
    first = np.minimum(STEP * units, (high - low) / 8)
    slope, coarse = _differences(model, center, first, np.arange(len(first)))
    steps, first_error = first.copy(), _disagreement(slope, coarse)
    wrong = np.flatnonzero(first_error > DERIVATIVE_ACCURACY)
    for k in range(1, FINER_STEPS + 1):
        if not wrong.size:
            break
        finer = first[wrong] / 10**k
        found = _differences(model, center, finer, wrong)
        good = _disagreement(*found) <= DERIVATIVE_ACCURACY
        solved, wrong = wrong[good], wrong[~good]
        slope[:, solved], coarse[:, solved] = (each[:, good] for each in found)
        steps[solved] = finer[good]
    return Sensitivities(slope, coarse, steps, first, first_error)


def _differences(
    model: ForwardModel, center: FloatArray, steps: FloatArray, columns: NDArray[np.intp]
) -> tuple[FloatArray, FloatArray]:
    """Return the slope and the coarse one, each (entries, m), along m coordinates."""
    low, high = model.parameters.coordinate_bounds
    moves = np.zeros((len(columns), len(center)))
    moves[np.arange(len(columns)), columns] = steps
    # At a bound the derivative is taken a step inside: the model is not called beyond it.
    center = center.copy()
    center[columns] = np.clip(center[columns], low[columns] + steps, high[columns] - steps)
    lattice = np.concatenate([f * moves for f in (1.0, -1.0, 0.5, -0.5)])
    values, reasons = model(center + lattice)
    failed = [reason for reason in reasons if reason]
    if failed:
        raise InputError(
            f"{model.name} to work close to the center, where its derivative is taken",
            failed[0],
            "move the center away from the values at which the model fails",
        )
    ahead, behind, half_ahead, half_behind = np.split(values, 4)
    coarse = (ahead - behind) / (2 * steps[:, None])
    fine = (half_ahead - half_behind) / steps[:, None]
    return ((4 * fine - coarse) / 3).T, coarse.T


def _disagreement(slope: FloatArray, coarse: FloatArray) -> FloatArray:
    """Return the relative difference of two sensitivities (n, d), shape (d,)."""
    largest = np.abs(slope).max(axis=0, initial=0.0)
    scale = np.where(largest > 0, largest, 1.0)  # squares of any units can be represented
    size = np.linalg.norm(slope / scale, axis=0)
    apart = np.linalg.norm((slope - coarse) / scale, axis=0)
    return np.asarray(apart / np.where(size > 0, size, 1.0))


# Standard error of a null direction, as a multiple of the largest of the others.
UNSEEN = 1e6
# Eigenvalues below this share of the largest are rounding.
NULL_SHARE = 1e-13
# A parameter takes part in a null direction when its component is larger than this.
NULL_COMPONENT = 1e-6


@dataclass(frozen=True)
class Information:
    """Fisher information of one layout about d parameters.

    Attributes
    ----------
    matrix : array, shape (d, d)
        In the coordinates.
    directions : array, shape (d, d)
        A row for each eigen-direction, least resolved first, in units of 100%.
    standard_error : array, shape (d,)
        Along each direction, in the same units; infinite along a null direction.
    derivative_error : array, shape (d,)
        Relative difference between the sensitivities of two step sizes.
    """

    matrix: FloatArray
    directions: FloatArray
    standard_error: FloatArray
    derivative_error: FloatArray


def information(
    layout: WhitenedLayout, derivative: Sensitivities, units: FloatArray
) -> Information:
    """Return the information that a layout holds; a layout that holds none is refused."""
    slope = layout.white(derivative.slope.T[:, layout.columns]).T  # (n, d)
    coarse = layout.white(derivative.coarse.T[:, layout.columns]).T
    largest = float(np.abs(slope * units).max())
    if largest != 0 and not 1 / LARGEST_WHITE < largest < LARGEST_WHITE:
        raise InputError(
            f"predictions on layout {layout.name!r} that change by {1 / LARGEST_WHITE:g} to "
            f"{LARGEST_WHITE:g} standard deviations of the noise for 100% of a parameter",
            f"a change by {largest:.3g}",
            "check the noise, and give predictions and noise in units in which they are near 1",
        )
    size = np.linalg.norm(slope, axis=0)
    if not size.any():
        raise InputError(
            f"observations on layout {layout.name!r} that depend on the parameters",
            "predictions that do not change with any of them",
            "check that forward uses its arguments, or observe where the solution responds",
        )
    # Small eigenvalues carry the rounding of the product; singular values do not.
    triangle = np.asarray(np.linalg.qr(slope * units, mode="r"))
    _, singular, directions = np.linalg.svd(triangle)
    standard_error = np.full(len(units), np.inf)
    # Below that, a singular value is rounding, whatever it stands for.
    accurate = int(np.count_nonzero(singular > NULL_SHARE * singular[0]))
    seen = min(len(units) - null_directions(triangle), accurate)
    standard_error[len(units) - seen :] = 1 / singular[:seen][::-1]
    return Information(
        matrix=slope.T @ slope,
        directions=directions[::-1],
        standard_error=standard_error,
        derivative_error=derivative.error(slope, coarse),
    )


def null_directions(slope: FloatArray) -> int:
    """Return how many directions of d parameters sensitivities (n, d) do not see.

    Every parameter is taken in units of its own strength: a small one is not an unseen one.
    """
    strength = np.linalg.norm(slope, axis=0)
    own = slope[:, strength > 0] / strength[strength > 0]
    singular = np.linalg.svd(own, compute_uv=False)
    return int(slope.shape[1] - np.count_nonzero(singular**2 > NULL_SHARE * singular[0] ** 2))


def predicted_spread(
    directions: FloatArray, standard_error: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the standard error (d,) and correlation (d, d) of the estimates, to first order.

    Arguments are those of `Information`. A parameter that takes part in a null direction has an
    infinite standard error.
    """
    vectors, null = directions.T, np.isinf(standard_error)
    # Null directions get a huge variance: correlations then come out at their limits.
    finite = np.where(null, UNSEEN * np.max(standard_error[~null]), standard_error)
    covariance = (vectors * finite**2) @ vectors.T
    deviation = np.sqrt(np.diag(covariance))
    unseen = (np.abs(vectors[:, null]) > NULL_COMPONENT).any(axis=1)
    reference = np.where(deviation > 0, deviation, 1.0)
    correlation: FloatArray = covariance / np.outer(reference, reference)
    return np.where(unseen, np.inf, deviation), correlation


def directions_of_interest(
    directions: FloatArray, standard_error: FloatArray, nuisance: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray]:
    """Return directions (m, d) of the parameters of interest, and standard errors (m,) along them.

    Arguments are those of `Information`, of all d parameters. The rows are the principal axes of
    the covariance of the m estimates of interest, with nuisance parameters fitted, least resolved
    first; they have no component along nuisance parameters.
    """
    if not nuisance.any():
        return directions, standard_error
    kept, null = ~nuisance, np.isinf(standard_error)
    finite = np.where(null, UNSEEN * np.max(standard_error[~null]), standard_error)
    covariance = (directions.T * finite**2) @ directions
    values, vectors = np.linalg.eigh(covariance[np.ix_(kept, kept)])
    rows = np.zeros((int(kept.sum()), len(directions)))
    rows[:, kept] = vectors.T[::-1]
    errors = np.sqrt(np.maximum(values[::-1], 0.0))
    # As many are null as null directions of all parameters have independent parts of interest.
    parts = np.linalg.svd(directions[np.ix_(null, kept)], compute_uv=False)
    errors[: int((parts > NULL_COMPONENT).sum())] = np.inf
    return rows, errors


def leaves_bounds(
    steps: FloatArray,
    standard_error: FloatArray,
    center: FloatArray,
    bounds: tuple[FloatArray, FloatArray],
) -> NDArray[np.bool_]:
    """Return whether one standard error along each direction, either way, leaves the bounds.

    Parameters
    ----------
    steps : array, shape (m, d)
        A row for each direction, in the coordinates.
    standard_error : array, shape (m,)
        Along each direction; infinite leaves the bounds.
    center, bounds : array, shape (d,)
        Coordinates.
    """
    null = np.isinf(standard_error)
    move = np.abs(steps * np.where(null, 0.0, standard_error)[:, None])
    room = np.minimum(center - bounds[0], bounds[1] - center)
    return null | np.asarray((move > room).any(axis=1))


@dataclass(frozen=True)
class NeededObservations:
    """How many observations, or how little noise, would bring the error down to a tolerance.

    Attributes
    ----------
    error_percent, tolerance_percent : float
        The present mean error, and the one to reach.
    count : int
        Present number of observations.
    factor : float
        Needed multiple of that number, ``(error / tolerance)^2``; 1 or less where the tolerance
        is met already.
    observations : int
        Needed number of observations; never below `count`.
    noise_factor : float
        Needed multiple of the noise, with the present observations.

    Examples
    --------
    >>> import twoaxis as ta
    >>> needed = ta.needed_observations(error_percent=8.0, tolerance_percent=2.0, count=30)
    >>> needed.factor, needed.observations, needed.noise_factor
    (16.0, 480, 0.25)
    """

    error_percent: float
    tolerance_percent: float
    count: int
    factor: float
    observations: int
    noise_factor: float

    @property
    def more(self) -> int:
        """Number of observations to add."""
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
            f"({self.observations}, {self.more} more), or {self.noise_factor:.3g} times the noise"
        )


def needed_observations(
    error_percent: float, tolerance_percent: float, count: int
) -> NeededObservations:
    """Return how many observations of the present kind, or how much less noise, are needed.

    Parameters
    ----------
    error_percent : float
        Present mean error, such as ``resolution.error_percent.mean()`` or
        ``resolution.fisher_error_percent``.
    tolerance_percent : float
        The mean error to reach.
    count : int
        Number of observations behind the present error.

    Examples
    --------
    >>> import twoaxis as ta
    >>> print(ta.needed_observations(error_percent=16.7, tolerance_percent=5.0, count=200))
    From 16.7% to 5% takes 11.2 times as many observations of the present kind (2232, 2032 more), \
or 0.299 times the noise
    """
    error = _positive("error_percent", error_percent)
    tolerance = _positive("tolerance_percent", tolerance_percent)
    if not is_integer(count) or count < 1:
        raise InputError(
            "count as an integer of at least 1",
            f"count={count!r}",
            "give the number of observations that the error belongs to",
        )
    factor = (error / tolerance) ** 2
    # A ratio that is an integer but for rounding must not ask for one observation more.
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
            "an infinite error means a null direction, which more of the same sites do not "
            "resolve; try twoaxis.suggest_sites"
            if number == math.inf
            else f"pass {name} in percent, as in {name}=5.0",
        )
    return number

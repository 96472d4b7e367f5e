"""How a matched fit is made: what comes out, and the ways to get there.

Data are whitened: with the noise covariance ``Sigma = L L^T`` a data vector ``y`` enters as
``L^{-1} (y - G(center))``, so that the noise is standard normal (`twoaxis.resolution.layouts`).
The matched estimate is the maximum of the Gaussian likelihood inside the parameter bounds, under
the forward model ``G`` that also made the data:

``q_hat = argmin chi2(q)``, ``chi2(q) = | L^{-1} (y - G(q)) |^2``.

The likelihood-profile set of a parameter holds the values at which chi2, with the other
parameters fitted again, rises by at most the `level` quantile of chi-square with one degree of
freedom; where the noise was estimated from the data, of the square of Student's t
(`twoaxis.statistics.squares_limit`).

Two estimators find that minimum, and two others fit many datasets with few model runs:

bank (`twoaxis.resolution.bank_fit`)
    For one parameter. The model is solved at some hundred values; between them each prediction
    is a cubic (PCHIP), so that chi2 is a piecewise polynomial whose minima and level sets are
    found exactly, for all datasets at once. Some estimates are compared with direct
    optimization, and a bank that is too coarse is refined.
direct (`twoaxis.resolution.direct_fit`)
    For any number of parameters: nonlinear least squares with the model itself, from several
    starting points.
interpolant (`twoaxis.resolution.interpolant_fit`)
    For any number of parameters: nonlinear least squares on a polynomial in place of the model,
    around the center, checked against direct fits.
linear (`twoaxis.resolution.linear_fit`)
    For many parameters: the tangent of the model at the center, checked against direct fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from twoaxis.least_squares import Minimum
from twoaxis.progress import Advance
from twoaxis.resolution.layouts import WhitenedLayout

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# Rows are fitted in portions of about this many values, so that a million observations fit in
# memory.
PORTION = 4_000_000


def portions(rows: FloatArray, most: int) -> Iterator[FloatArray]:
    """Yield rows (R, n) in portions of at most `most` rows, and of at most `PORTION` values."""
    size = max(1, min(most, PORTION // rows.shape[1]))
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


@dataclass(frozen=True)
class Fits:
    """Maximum-likelihood fits of R whitened data rows on one layout, d parameters.

    Attributes
    ----------
    estimate : array, shape (R, d)
        Coordinates of the maximum of the likelihood inside the bounds.
    chi2 : array, shape (R,)
        Minimum of the whitened sum of squares.
    on_bound : array of bool, shape (R, d)
        Whether the estimate stopped at the end of the usable range.
    converged : array of bool, shape (R,)
    deviance : array, shape (R, d)
        Profile deviance of each parameter at the center: how much chi2 rises when that
        parameter is held at the center and the others are fitted again.
    joint_deviance : array, shape (R,)
        The same with all parameters held at the center.
    agreeing_starts : array of int, shape (R,)
        How many starting points led to this minimum.
    center_won : array of bool, shape (R,)
        Whether the start at the center found this minimum; elsewhere the likelihood has several.
    held : array, shape (R, d, d), optional
        Where the other parameters go for `deviance`, the held parameter first.
    minima : array, shape (R, S, d), optional
        Where the S starts of a direct fit ended.
    minima_chi2 : array, shape (R, S), optional
    lower, upper : array, shape (R, d), optional
        Ends of the likelihood-profile set of each parameter; of its hull where it has gaps.
    open_lower, open_upper : array of bool, shape (R, d), optional
        Whether the set reaches the end of the usable range.
    parts : array, shape (R, d, K, 2), optional
        Both ends of the separate intervals of each set of data, lowest first, then NaN.
    """

    estimate: FloatArray
    chi2: FloatArray
    on_bound: BoolArray
    converged: BoolArray
    deviance: FloatArray
    joint_deviance: FloatArray
    agreeing_starts: NDArray[np.intp]
    center_won: BoolArray
    held: FloatArray | None = None
    minima: FloatArray | None = None
    minima_chi2: FloatArray | None = None
    lower: FloatArray | None = None
    upper: FloatArray | None = None
    open_lower: BoolArray | None = None
    open_upper: BoolArray | None = None
    parts: FloatArray | None = None


def stacked_parts(
    intervals: Sequence[Sequence[Sequence[tuple[float, float]]]],
) -> FloatArray:
    """Return the intervals of every row and parameter as `Fits.parts`; overlapping ones as one."""
    united = [[_united(one) for one in row] for row in intervals]
    most = max(len(one) for row in united for one in row)
    parts = np.full((len(united), len(united[0]), most, 2), np.nan)
    for r, row in enumerate(united):
        for j, one in enumerate(row):
            parts[r, j, : len(one)] = one
    return parts


def _united(intervals: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for low, high in sorted(intervals):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def joined(portions: list[Fits]) -> Fits:
    """Return the fits of several portions of rows as one."""
    return Fits(
        **{
            field.name: np.concatenate([getattr(p, field.name) for p in portions])
            for field in fields(Fits)
            if getattr(portions[0], field.name) is not None
        }
    )


class Estimator(Protocol):
    """A way to fit whitened data rows."""

    @property
    def method(self) -> str:
        """Such as "bank" or "direct"."""
        ...

    @property
    def starts(self) -> int:
        """Number of starting points of each fit."""
        ...

    def fit(self, layout: WhitenedLayout, rows: FloatArray, advance: Advance | None = None) -> Fits:
        """Fit rows of whitened deviations from the center, shape (R, n)."""
        ...

    def sets(
        self,
        layout: WhitenedLayout,
        rows: FloatArray,
        fits: Fits,
        limit: float,
        advance: Advance | None = None,
    ) -> Fits:
        """Return the fits with the ends of the sets in which the deviance is below `limit`."""
        ...

    def refit(
        self,
        layout: WhitenedLayout,
        rows: FloatArray,
        start: FloatArray,
        free: BoolArray | None = None,
    ) -> Minimum:
        """Fit each row from one start, (R, d); coordinates that are not free, (R, d), stay.

        chi2 is infinite where the model fails.
        """
        ...

    def predict(self, layout: WhitenedLayout, coordinates: FloatArray) -> FloatArray:
        """Return the whitened deviations (n,) at one point."""
        ...

    def linearize(
        self, layout: WhitenedLayout, coordinates: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the whitened deviations (n,) and their derivative (n, d) at one point."""
        ...

    def slope(self, layout: WhitenedLayout, coordinates: FloatArray) -> FloatArray:
        """Return the derivative (n, d) alone, also beside points at which the model fails."""
        ...


def gauss_newton_step(
    estimator: Estimator, layout: WhitenedLayout, rows: FloatArray, start: FloatArray
) -> FloatArray:
    """Return one Gauss-Newton step of the matched forward model from `start`, for every row.

    With the whitened sensitivities ``S`` and misfit ``r`` at the start, the estimate is
    ``q + (S^T S)^{-1} S^T r``. The study takes it from the parameter that the network
    delivered: a first correction by the forward model.
    """
    value, slope = estimator.linearize(layout, start)
    # By the pseudoinverse, since differences of all rows may take gigabytes.
    inverse = np.linalg.pinv(slope, rcond=max(slope.shape) * np.finfo(float).eps)
    return np.asarray(start + rows @ inverse.T - inverse @ value, dtype=float)


def profile_start(
    slope: FloatArray, estimate: FloatArray, value: FloatArray, held: BoolArray
) -> FloatArray:
    """Return where the profile likelihood is to first order, for some coordinates held.

    With the whitened sensitivities ``S_h`` of the held coordinates and ``S_o`` of the others at
    the estimate, moving the held ones by ``d`` moves the others by ``-S_o^+ S_h d``. For a model
    that is linear in its coordinates this is the constrained minimum itself.

    Parameters
    ----------
    slope : array, shape (n, d)
    estimate : array, shape (d,)
    value : array, shape (V, d)
        Points whose held coordinates count.
    held : array of bool, shape (d,)
    """
    start = np.tile(estimate, (len(value), 1))
    start[:, held] = value[:, held]
    if not held.all():
        moved = slope[:, held] @ (value - estimate)[:, held].T
        start[:, ~held] -= np.linalg.lstsq(slope[:, ~held], moved, rcond=None)[0].T
    return start

r"""Matched fits of many parameters, with the model replaced by its tangent.

Direct fits of :math:`d` parameters take :math:`2d` model runs for each derivative, and a profile
for each parameter takes :math:`d` further fits: from some number of parameters on, hundreds of
replicas are out of reach. Here replicas are fitted with the tangent of the model at the center,

.. math:: \hat q = q + S^+ z, \qquad S = L^{-1}\, \partial G / \partial q,

with the whitened noise :math:`z` of the replica: this is what the Fisher information predicts,
replica by replica. Data are fitted with the model itself, from few starts, and the ends of their
profile sets come from the tangent at the estimate,
:math:`\hat q_j \pm \sqrt{c\, [(S^\top S)^{-1}]_{jj}}`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from twoaxis.least_squares import GAIN_ATOL, Minimum
from twoaxis.progress import Advance
from twoaxis.resolution.direct_fit import SAME_MINIMUM, DirectEstimator
from twoaxis.resolution.layouts import WhitenedLayout
from twoaxis.resolution.matched_fit import Fits

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# "auto" takes the tangent for more parameters than this.
MANY = 15
# Starting points that fill the bounds, of all parameters together.
SEEDS = 64
# Singular values below this share of the largest belong to directions that data do not see.
NULL_SHARE = 1e-7


@dataclass(frozen=True)
class LinearEstimator:
    """Least squares with the model itself from few starts; profile sets from its tangent.

    Attributes
    ----------
    direct : DirectEstimator
    """

    direct: DirectEstimator
    method: str = "linear"

    @property
    def starts(self) -> int:
        """Number of starting points of each fit."""
        return self.direct.starts

    def fit(self, layout: WhitenedLayout, rows: FloatArray, advance: Advance | None = None) -> Fits:
        """Fit rows of whitened deviations from the center."""
        starts = self.direct.starts_of(layout, rows)
        count, number, dimension = starts.shape
        owner = np.repeat(np.arange(count), number)
        rough = self.direct.refit(
            layout, rows[owner], starts.reshape(-1, dimension), gain_atol=SAME_MINIMUM / 10
        )
        chi2 = rough.chi2.reshape(count, number)
        best = np.arange(count) * number + chi2.argmin(axis=1)
        found = self.direct.refit(layout, rows, rough.q[best])
        agreeing = chi2 <= found.chi2[:, None] + SAME_MINIMUM
        parts = [self._deviances(self.slope(layout, q), q) for q in found.q]
        if advance is not None:
            advance(count)
        deviance, joint = (np.array(each) for each in zip(*parts, strict=True))
        return self._fits(found.q, found.chi2, deviance, joint, found.converged, agreeing)

    def _deviances(self, slope: FloatArray, q: FloatArray) -> tuple[FloatArray, float]:
        """Return deviances of the center under the tangent at an estimate."""
        step = self.direct.center - q
        return step**2 / variances(slope, self.direct.units), float(np.sum((slope @ step) ** 2))

    def fit_replicas(
        self, layout: WhitenedLayout, rows: FloatArray, advance: Advance | None = None
    ) -> Fits:
        """Fit rows with the tangent at the center; those beyond a bound inside the bounds."""
        from scipy.optimize import lsq_linear  # loads slowly

        units, center = self.direct.units, self.direct.center
        slope = self.slope(layout, center)
        low, high = self.direct.bounds
        steps = rows @ np.linalg.pinv(slope * units, rcond=NULL_SHARE).T * units
        for n in np.flatnonzero(((center + steps < low) | (center + steps > high)).any(axis=1)):
            around = (low - center, high - center)
            inside = lsq_linear(slope * units, rows[n], [each / units for each in around])
            steps[n] = np.clip(inside.x * units, *around)
        # |r - S s|^2, without an array of all residuals.
        joint = np.sum((2 * rows @ slope - steps @ (slope.T @ slope)) * steps, axis=1)
        chi2 = np.einsum("rn,rn->r", rows, rows) - joint
        if advance is not None:
            advance(len(rows))
        good = np.ones((len(rows), 1), dtype=bool)
        estimate = np.clip(center + steps, low, high)
        deviance = steps**2 / variances(slope, units)
        return self._fits(estimate, chi2, deviance, np.maximum(joint, 0.0), good[:, 0], good)

    def _fits(
        self,
        estimate: FloatArray,
        chi2: FloatArray,
        deviance: FloatArray,
        joint: FloatArray,
        converged: BoolArray,
        agreeing: BoolArray,
    ) -> Fits:
        low, high = self.direct.bounds
        return Fits(
            estimate=estimate,
            chi2=chi2,
            on_bound=(estimate <= low) | (estimate >= high),
            converged=converged,
            deviance=deviance,
            joint_deviance=joint,
            agreeing_starts=agreeing.sum(axis=1),
            center_won=agreeing[:, 0],
        )

    def sets(
        self,
        layout: WhitenedLayout,
        rows: FloatArray,
        fits: Fits,
        limit: float,
        advance: Advance | None = None,
    ) -> Fits:
        """Add the ends of each parameter's set, from the tangent at its estimate."""
        low, high = self.direct.bounds
        reach = np.array(
            [
                np.sqrt(limit * variances(self.slope(layout, q), self.direct.units))
                for q in fits.estimate
            ]
        )
        lower, upper = fits.estimate - reach, fits.estimate + reach
        if advance is not None:
            advance(2 * rows.shape[0] * len(low))
        return replace(
            fits,
            lower=np.maximum(lower, low),
            upper=np.minimum(upper, high),
            open_lower=lower <= low,
            open_upper=upper >= high,
        )

    def check(self, layout: WhitenedLayout, rows: FloatArray, fits: Fits, count: int) -> float:
        """Return how far estimates move when the model itself is fitted, in standard errors.

        The first `count` rows are fitted again, from their estimates; NaN for none.
        """
        some = fits.estimate[:count]
        if not len(some):
            return np.nan
        error = np.sqrt(variances(self.slope(layout, self.direct.center), self.direct.units))
        moved = self.direct.refit(layout, rows[:count], some).q - some
        return float(np.abs(moved / error).max())

    def refit(
        self,
        layout: WhitenedLayout,
        rows: FloatArray,
        start: FloatArray,
        free: BoolArray | None = None,
        gain_atol: float = GAIN_ATOL,
    ) -> Minimum:
        """Fit each row from one start with the model itself."""
        return self.direct.refit(layout, rows, start, free, gain_atol)

    def predict(self, layout: WhitenedLayout, coordinates: FloatArray) -> FloatArray:
        """Whitened deviations at one point."""
        return self.direct.predict(layout, coordinates)

    def linearize(
        self, layout: WhitenedLayout, coordinates: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Whitened deviations and their derivative at one point."""
        return self.direct.linearize(layout, coordinates)

    def slope(self, layout: WhitenedLayout, coordinates: FloatArray) -> FloatArray:
        """Derivative of the whitened predictions at one point."""
        return self.direct.slope(layout, coordinates)


def variances(slope: FloatArray, units: FloatArray) -> FloatArray:
    """Return the variances (d,) of least-squares estimates; infinite along null directions.

    Parameters
    ----------
    slope : array, shape (n, d)
        Derivatives of whitened predictions.
    units : array, shape (d,)
        The step in each coordinate that stands for 100%.
    """
    # All right vectors, null directions included; of the left ones never an n by n matrix.
    _, sizes, vectors = np.linalg.svd(slope * units, full_matrices=len(slope) < len(units))
    every = np.zeros(len(units))
    every[: len(sizes)] = sizes
    null = every <= NULL_SHARE * every.max()
    with np.errstate(divide="ignore"):
        each = np.where(null, 0.0, 1 / every**2)
    found = (vectors**2 * each[:, None]).sum(axis=0)
    unseen = (np.abs(vectors[null]) > NULL_SHARE).any(axis=0)
    return np.asarray(np.where(unseen, np.inf, found * units**2))

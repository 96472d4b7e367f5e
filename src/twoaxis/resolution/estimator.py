"""What a matched estimator returns, whichever way it gets there."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from twoaxis.progress import Advance
from twoaxis.resolution.design import Design

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


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
        Profile deviance of each parameter at the centre: how much chi2 rises when that
        parameter is held at the centre and the others are fitted again.
    joint_deviance : array, shape (R,)
        The same with all parameters held at the centre.
    agreeing_starts : array of int, shape (R,)
        How many starting points led to this minimum.
    center_won : array of bool, shape (R,)
        Whether the start at the centre found this minimum; elsewhere the likelihood has several.
    lower, upper : array, shape (R, d), optional
        Ends of each parameter's likelihood-profile set; its hull where it has gaps.
    open_lower, open_upper : array of bool, shape (R, d), optional
        Whether the set runs into the end of the usable range.
    """

    estimate: FloatArray
    chi2: FloatArray
    on_bound: BoolArray
    converged: BoolArray
    deviance: FloatArray
    joint_deviance: FloatArray
    agreeing_starts: NDArray[np.intp]
    center_won: BoolArray
    lower: FloatArray | None = None
    upper: FloatArray | None = None
    open_lower: BoolArray | None = None
    open_upper: BoolArray | None = None


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
        """Name of the way: "bank" or "direct"."""
        ...

    @property
    def starts(self) -> int:
        """Starting points of each fit."""
        ...

    def fit(self, design: Design, rows: FloatArray, advance: Advance | None = None) -> Fits:
        """Fit rows of whitened deviations from the centre, shape (R, n)."""
        ...

    def sets(self, design: Design, rows: FloatArray, fits: Fits) -> Fits:
        """Return the fits with the ends of their likelihood-profile sets."""
        ...

    def predict(self, design: Design, coordinates: FloatArray) -> FloatArray:
        """Whitened deviations (n,) at one point."""
        ...

    def linearize(self, design: Design, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Whitened deviations (n,) and their derivative (n, d) at one point."""
        ...


def gauss_newton_step(
    estimator: Estimator, design: Design, rows: FloatArray, start: FloatArray
) -> FloatArray:
    """One Gauss–Newton step of the matched forward model from `start`, for every row.

    With the whitened sensitivities ``S`` and misfit ``r`` at the start, the estimate is
    ``q + (S^T S)^{-1} S^T r``. The study takes it from the parameter that the network
    delivered: a first correction by the forward model.
    """
    value, slope = estimator.linearize(design, start)
    step = np.linalg.lstsq(slope, (rows - value).T, rcond=None)[0].T
    return np.asarray(start + step, dtype=float)

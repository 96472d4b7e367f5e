"""Matched fits to real data: estimate, profile set, noise and residual checks.

A resolution is data and can be saved; the model and the noise that it was made with are code and
cannot. As long as both live in one session (`LiveModel`), data that arrive later can be fitted,
and any parameter value can be put back into the solver and compared with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.arrays import real_array
from twoaxis.errors import InputError
from twoaxis.resolution.layouts import ALL_LAYOUTS, Noise, WhitenedLayout, checked_data
from twoaxis.resolution.matched_fit import Estimator, Fits, gauss_newton_step
from twoaxis.resolution.misfit import Check, check_residuals
from twoaxis.resolution.setup import Setup

FloatArray = NDArray[np.float64]

# Residuals below this share of the data, squared, are rounding: there is no noise to estimate.
NO_NOISE = 1e-20


@dataclass(frozen=True)
class DataFit:
    """The matched fit to the observations on one layout.

    Attributes
    ----------
    layout : str
    fits : Fits
        Of one row, with its likelihood-profile sets.
    gauss_newton : array, shape (d,)
        Coordinates after one Gauss-Newton step from the delivered value.
    noise_scale : float
        Root mean square residual of the fit, in the units of the data, with n - d degrees of
        freedom.
    checks : list of Check
    """

    layout: str
    fits: Fits
    gauss_newton: FloatArray
    noise_scale: float
    checks: list[Check]


def estimate_noise(
    estimator: Estimator, layouts: list[WhitenedLayout], data: Mapping[str, FloatArray]
) -> float:
    """Estimate one standard deviation from the matched fits, pooled over the layouts.

    ``sqrt(sum of squared residuals / (observations - fitted parameters))``; `layouts` have unit
    noise.
    """
    total, freedom = 0.0, 0
    for layout in layouts:
        fits = estimator.fit(layout, layout.row(data[layout.name])[None])
        total += float(fits.chi2[0])
        freedom += len(layout.sites) - fits.estimate.shape[1]
    size = sum(float(np.sum(data[layout.name] ** 2)) for layout in layouts)
    if freedom < 1 or total <= NO_NOISE * size:
        raise InputError(
            "data that leave a residual to estimate the noise from",
            f"{freedom} degrees of freedom and a residual sum of squares of {total:.3g}",
            "pass noise=... instead",
        )
    return float(np.sqrt(total / freedom))


def fit_data(
    setup: Setup, estimator: Estimator, layout: WhitenedLayout, values: FloatArray
) -> DataFit:
    """Fit the observed values of one layout and check the residuals."""
    rows = layout.row(values)[None]
    fits = estimator.sets(layout, rows, estimator.fit(layout, rows))
    dimension = fits.estimate.shape[1]
    residuals = rows[0] - estimator.predict(layout, fits.estimate[0])
    checks = check_residuals(
        residuals, dimension, setup.points[layout.sites], noise_known=setup.noise is not None
    )
    newton = gauss_newton_step(estimator, layout, rows, setup.start)[0]
    plain = layout.white.color(residuals)
    scale = np.sqrt(plain @ plain / max(len(plain) - dimension, 1))
    return DataFit(layout.name, fits, np.clip(newton, *setup.bounds), float(scale), checks)


@dataclass(frozen=True)
class Observed:
    """Observations on one layout.

    Attributes
    ----------
    layout : WhitenedLayout
    values : array, shape (n,)
    """

    layout: WhitenedLayout
    values: FloatArray


@dataclass(frozen=True, eq=False)
class LiveModel:
    """Forward model, estimator and noise of one resolution.

    Attributes
    ----------
    setup : Setup
    estimator : Estimator
    noise : Noise
        As declared, or as estimated from the data.
    """

    setup: Setup
    estimator: Estimator
    noise: Noise

    @property
    def data(self) -> dict[str, FloatArray] | None:
        """Observations by layout, where the resolution was made with some."""
        return self.setup.data

    def observed(self, data: ArrayLike | Mapping[Any, ArrayLike], layout: str | None) -> Observed:
        """Return the observations of one layout, or of all together.

        Parameters
        ----------
        data : array or mapping of str to array
            In the shape that forward returns, as long as the layout, or by layout.
        layout : str, optional
            May be left out where there is one, or where the data have the shape that forward
            returns: then every site counts that some layout observes.
        """
        layouts = self.setup.layouts
        shape = self.setup.model.shape
        if layout is None and len(layouts) > 1:
            if isinstance(data, Mapping) or real_array("data", data).shape != shape:
                raise InputError(
                    f"the layout that the data belong to, one of {', '.join(layouts)}",
                    f"{len(layouts)} layouts and layout=None",
                    f'name it, as in layout="{next(iter(layouts))}"',
                )
            layout = ALL_LAYOUTS
            layouts = {layout: np.unique(np.concatenate(list(layouts.values())))}
        name = next(iter(layouts)) if layout is None else layout
        if name not in layouts:
            raise InputError(
                f"one of the layouts {', '.join(layouts)}", f"layout={layout!r}", "name one of them"
            )
        chosen: Any = data
        if isinstance(data, Mapping):
            chosen = {str(key): values for key, values in data.items() if str(key) == name}
        sites = {name: layouts[name]}
        (whitened,) = self.setup.whitened(self.noise, sites)
        return Observed(whitened, checked_data(chosen, sites, shape)[name])

    def fit(self, observed: Observed) -> DataFit:
        """Fit the observations and check the residuals of the fit."""
        return fit_data(self.setup, self.estimator, observed.layout, observed.values)

    def misfit(self, observed: Observed, values: Mapping[str, float]) -> tuple[FloatArray, str]:
        """Return whitened residuals (n,) of the fitting model at physical values, and a reason.

        The reason is empty, or says why the model failed; the residuals are then NaN.
        """
        point = self.setup.parameters.coordinates(values)
        predictions, reasons = self.setup.fit_model(point[None])
        layout = observed.layout
        if reasons[0]:
            return np.full(len(layout.sites), np.nan), reasons[0]
        return layout.white(observed.values - predictions[0][layout.columns]), ""

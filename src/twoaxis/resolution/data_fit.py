"""The matched fit to real observations: estimate, profile set, noise and residual checks.

The forward model behind a resolution, kept in memory to answer further questions.

A resolution is data and can be saved; the model and the noise that it was made with are code
and cannot. As long as both live in one session, data that arrive later can be fitted, and any
parameter can be put back into the solver and compared with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError
from twoaxis.resolution.design import ALL_LAYOUTS, Design, Noise, Setup, real_array
from twoaxis.resolution.estimator import Estimator, Fits, gauss_newton_step
from twoaxis.resolution.misfit import Check, check_residuals

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]


@dataclass(frozen=True)
class DataFit:
    """The matched fit to one layout's observations.

    Attributes
    ----------
    layout : str
    fits : Fits
        Of one row, with its likelihood-profile sets.
    gauss_newton : array, shape (d,)
        Coordinates after one Gauss–Newton step from the delivered value.
    noise_scale : float
        Root mean square of the fit's residuals, in the units of the data, with the fitted
        parameters taken off the degrees of freedom.
    checks : list of Check
    """

    layout: str
    fits: Fits
    gauss_newton: FloatArray
    noise_scale: float
    checks: list[Check]


def checked_data(
    data: ArrayLike | Mapping[Any, ArrayLike],
    layouts: dict[str, IndexArray],
    shape: tuple[int, ...],
) -> dict[str, FloatArray]:
    """Return observed values by layout."""
    if isinstance(data, Mapping):
        named = {str(name): real_array(values, "data") for name, values in data.items()}
        if set(named) != set(layouts):
            raise InputError(
                f"data for the layouts {', '.join(layouts)}",
                f"data for {', '.join(named) or 'none'}",
                "give one array for each layout, under the same name",
            )
    else:
        array = real_array(data, "data")
        one = next(iter(layouts.values()))
        if array.shape == shape:
            named = {name: array.ravel()[sites] for name, sites in layouts.items()}
        elif len(layouts) == 1 and array.shape == one.shape:
            named = {next(iter(layouts)): array}
        else:
            raise InputError(
                f"data in the shape {shape} of forward's output, or one array for each layout",
                f"the shape {array.shape}",
                "pass a mapping from layout names to the values observed there",
            )
    for name, values in named.items():
        if values.shape != layouts[name].shape:
            raise InputError(
                f"{len(layouts[name])} observed values for layout {name!r}",
                f"the shape {values.shape}",
                "list the values in the order of the layout's indices",
            )
        bad = ~np.isfinite(values)
        if bad.any():
            raise InputError(
                f"finite observations for layout {name!r}",
                f"{bad.sum()} not finite, the first at position {np.flatnonzero(bad)[0]}",
                "leave missing sites out of the layout",
            )
    return named


def estimate_noise(
    estimator: Estimator, designs: list[Design], observed: dict[str, FloatArray]
) -> float:
    """Estimate one standard deviation from the matched fits, pooled over the layouts.

    ``sqrt(sum of squared residuals / (observations - fitted parameters))``; `designs` have
    unit noise.
    """
    total, freedom = 0.0, 0
    for design in designs:
        fits = estimator.fit(design, design.row(observed[design.name])[None])
        total += float(fits.chi2[0])
        freedom += len(design.sites) - fits.estimate.shape[1]
    size = sum(float(np.sum(observed[d.name] ** 2)) for d in designs)
    if freedom < 1 or total <= 1e-20 * size:
        raise InputError(
            "data that leave a residual to estimate the noise from",
            f"{freedom} degrees of freedom and a sum of squares of {total:.3g}: the data hold no "
            "noise",
            "pass noise=... instead",
        )
    return float(np.sqrt(total / freedom))


def fit_data(
    estimator: Estimator,
    designs: list[Design],
    observed: dict[str, FloatArray],
    *,
    start: FloatArray,
    bounds: tuple[FloatArray, FloatArray],
    positions: FloatArray,
    noise_known: bool,
) -> list[DataFit]:
    """Fit the observations of every layout and check the residuals.

    `positions`, shape (N, k), says where each entry of the forward model's output lies.
    """
    results = []
    for design in designs:
        values = observed[design.name]
        rows = design.row(values)[None]
        fits = estimator.sets(design, rows, estimator.fit(design, rows))
        dimension = fits.estimate.shape[1]
        residuals = rows[0] - estimator.predict(design, fits.estimate[0])
        checks = check_residuals(
            residuals, dimension, positions[design.sites], noise_known=noise_known
        )
        newton = np.clip(gauss_newton_step(estimator, design, rows, start)[0], *bounds)
        plain = design.white.color(residuals)
        scale = np.sqrt(plain @ plain / max(len(plain) - dimension, 1))
        results.append(DataFit(design.name, fits, newton, float(scale), checks))
    return results


@dataclass(frozen=True)
class Observed:
    """Observations on one layout.

    Attributes
    ----------
    design : Design
    values : array, shape (n,)
    """

    design: Design
    values: FloatArray


@dataclass(frozen=True, eq=False)
class LiveModel:
    """Forward model, estimator and noise of one resolution.

    Attributes
    ----------
    setup : Setup
    estimator : Estimator
    designs : list of Design
    noise : Noise
    positions : array, shape (N, k)
        Where the entries of the forward model's output lie.
    noise_known : bool
        Whether the noise was declared, not estimated.
    data : dict of str to array, optional
        Observations by layout, where the resolution was made with some.
    """

    setup: Setup
    estimator: Estimator
    designs: list[Design]
    noise: Noise
    positions: FloatArray
    noise_known: bool
    data: dict[str, FloatArray] | None

    def observed(self, data: ArrayLike | Mapping[Any, ArrayLike], layout: str | None) -> Observed:
        """Return the observations of one layout, or of all together.

        Parameters
        ----------
        data : array or mapping of str to array
            In the shape of forward's output, as long as the layout, or by layout.
        layout : str, optional
            May be left out where there is one, or where the data have the shape of forward's
            output: then every site counts that some layout observes.
        """
        named = {design.name: design for design in self.designs}
        several = layout is None and len(named) > 1
        if several and not isinstance(data, Mapping) and self._is_whole(data):
            union = self._union()
            named, layout = {union.name: union}, union.name
        if layout is None and len(named) > 1:
            raise InputError(
                f"the layout that the data belong to, one of {', '.join(named)}",
                f"{len(named)} layouts and layout=None",
                f'name it, as in layout="{next(iter(named))}"',
            )
        name = next(iter(named)) if layout is None else layout
        if name not in named:
            raise InputError(
                f"one of the layouts {', '.join(named)}", f"layout={layout!r}", "name one of them"
            )
        chosen: Any = data
        if isinstance(data, Mapping):
            chosen = {str(key): values for key, values in data.items() if str(key) == name}
        sites = {name: named[name].sites}
        return Observed(named[name], checked_data(chosen, sites, self.setup.model.shape)[name])

    def _is_whole(self, data: ArrayLike) -> bool:
        return real_array(data, "data").shape == self.setup.model.shape

    def _union(self) -> Design:
        """Return one design with the sites of all layouts, each once."""
        sites = np.unique(np.concatenate([design.sites for design in self.designs]))
        return replace(self.setup, layouts={ALL_LAYOUTS: sites}).designs(self.noise)[0]

    def fit(self, observed: Observed) -> DataFit:
        """Fit the observations and check the residuals of the fit."""
        (found,) = fit_data(
            self.estimator,
            [observed.design],
            {observed.design.name: observed.values},
            start=self.setup.start,
            bounds=self.setup.bounds,
            positions=self.positions,
            noise_known=self.noise_known,
        )
        return found

    def misfit(self, observed: Observed, values: Mapping[str, float]) -> tuple[FloatArray, str]:
        """Whitened residuals (n,) of the fitting model at physical values, and why there are none.

        The reason is empty, or the residuals are NaN.
        """
        point = [float(p.to_coordinate(values[n])) for n, p in self.setup.parameters.items()]
        predictions, reasons = self.setup.fit_model(np.array([point]))
        design = observed.design
        simulated = predictions[0][design.columns]
        if reasons[0]:
            return np.full(len(design.sites), np.nan), reasons[0]
        return design.white(observed.values - simulated), ""

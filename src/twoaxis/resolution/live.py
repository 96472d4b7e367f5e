"""The forward model behind a resolution, kept in memory to answer further questions.

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
from twoaxis.resolution.data_fit import DataFit, checked_data, fit_data
from twoaxis.resolution.design import ALL_LAYOUTS, Design, Noise, real_array
from twoaxis.resolution.estimator import Estimator
from twoaxis.resolution.setup import Setup

FloatArray = NDArray[np.float64]


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

"""The forward model at a few sites, for the refits that verify a layout.

The candidates may be a whole field, of which a layout keeps a handful of entries. For one
parameter the refits at several design points share one bank of solved values; what has been
solved is therefore kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.forward import ForwardModel
from twoaxis.parameters import Parameter

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
# Vectors of parameters in, by keyword; predictions (B, n) at the sites out.
SiteForward = Callable[..., FloatArray]


@dataclass(frozen=True)
class Live:
    """What a verification needs and no file can hold.

    Attributes
    ----------
    parameters : dict of str to Parameter
    deviations : array, shape (N,)
        Standard deviation of the noise of every entry.
    positions : array, shape (N, k)
    forward_at : callable
        From flat indices to the vectorised forward model at those sites.
    """

    parameters: dict[str, Parameter]
    deviations: FloatArray
    positions: FloatArray
    forward_at: Callable[[IndexArray], SiteForward]


class Remembered:
    """A forward model at fixed sites that solves each parameter value once.

    A value at which the model fails gives a row of NaN, which `twoaxis.resolve` excludes.
    """

    def __init__(self, model: ForwardModel, sites: IndexArray) -> None:
        self._model = model
        self._sites = sites
        self._solved: dict[tuple[float, ...], FloatArray] = {}

    def __call__(self, **values: Any) -> FloatArray:
        """Predict at the sites for vectors of parameters, (B, n)."""
        names = self._model.parameters
        columns = [p.to_coordinate(np.atleast_1d(values[n])) for n, p in names.items()]
        rows = list(map(tuple, np.column_stack(columns).tolist()))
        new = [row for row in dict.fromkeys(rows) if row not in self._solved]
        if new:
            entries = np.sort(self._sites)
            self._model.observe(entries)
            solved = self._model(np.array(new)).values[:, np.searchsorted(entries, self._sites)]
            self._solved.update(zip(new, solved, strict=True))
        found = np.stack([self._solved[row] for row in rows])
        if len(names) > 1:  # fits of several parameters never come to the same point again
            self._solved.clear()
        return found


def remembering(model: ForwardModel) -> Callable[[IndexArray], SiteForward]:
    """Return a maker of forward models at given sites."""
    kept: dict[bytes, Remembered] = {}

    def forward_at(sites: IndexArray) -> SiteForward:
        return kept.setdefault(sites.tobytes(), Remembered(model, sites))

    return forward_at


def described(values: Mapping[str, float]) -> str:
    """Parameter values as ``nu=0.01``."""
    return ", ".join(f"{name}={value:g}" for name, value in values.items())

r"""Did training deliver what the field prefers? One displacement, split into two.

.. math:: q_{train} - q^\star = (q_{profile} - q^\star) + (q_{train} - q_{profile}),

total = preference + gap, all in coordinates. Without a truth only the gap is defined. A nuisance
parameter that training did not deliver has a preferred value and no gap. A parameter that the
residual does not see has no preferred value, and so neither preference nor gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import pandas as pd
import xarray as xr

from twoaxis.arrays import is_real
from twoaxis.errors import InputError
from twoaxis.io import Layout, Variable
from twoaxis.parameters import Parameter, Parameters
from twoaxis.result import PARAMETER_LAYOUT, Result, interest_first, interest_only

LAYOUT: Layout = {
    **PARAMETER_LAYOUT,
    "preferred": Variable(
        ("parameter",), "float", "value that the frozen field prefers; NaN: not seen"
    ),
    "gap": Variable(
        ("parameter",), "float", "coordinate delivered minus preferred; NaN: not seen or delivered"
    ),
    "gap_percent": Variable(
        ("parameter",),
        "float",
        "gap relative to the preferred value, signed; NaN: not seen or delivered",
        "%",
    ),
    "preference": Variable(
        ("parameter",),
        "float",
        "coordinate preferred minus true; NaN: not seen, or truth not known",
    ),
    "total": Variable(
        ("parameter",), "float", "coordinate delivered minus true; NaN: truth not known"
    ),
}


@final
class Delivery(Result[xr.Dataset]):
    """The three terms for each parameter, as differences of coordinates.

    Made by `twoaxis.delivery`.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 5, 40)
    >>> known = {"k": ta.Parameter(truth=0.8, delivered=0.93, bounds=(0.1, 4.0))}
    >>> found = ta.delivery(known, {"k": 0.9})
    >>> round(found.preference["k"], 3), round(found.gap["k"], 3), round(found.total["k"], 3)
    (0.118, 0.033, 0.151)
    """

    schema = "delivery"
    layouts = {"/": LAYOUT}  # noqa: RUF012
    attributes = {"/": ("view",)}  # noqa: RUF012

    def derived(self) -> dict[str, Any]:
        """Return the terms, which follow from the parameters and the preferred values."""
        parameters = self.parameters
        preferred = dict(zip(parameters, self.data["preferred"].values.tolist(), strict=True))
        by_profile = parameters.coordinates(preferred)
        by_training, truth = (
            np.array([_coordinate(p, getattr(p, field)) for p in parameters.values()])
            for field in ("delivered", "truth")
        )
        percent = [
            np.nan
            if p.delivered is None or np.isnan(preferred[name])
            else p.percent_from(
                p.delivered, preferred[name], p.delivered if p.truth is None else p.truth
            )
            for name, p in parameters.items()
        ]
        if parameters.truth is None:
            truth = np.full(len(parameters), np.nan)
        return {
            "gap": by_training - by_profile,
            "gap_percent": np.array(percent, dtype=float),
            "preference": by_profile - truth,
            "total": by_training - truth,
        }

    @property
    def parameters(self) -> Parameters:
        """The parameters, in order."""
        return Parameters.from_dataset(self.data)

    @property
    def view(self) -> str:
        """The training view in words; empty where it is not known."""
        return str(self.data.attrs["view"])

    @property
    def preferred(self) -> dict[str, float]:
        """Physical values that the frozen field prefers; NaN where it does not see a parameter."""
        return self.parameters.named(self.data["preferred"].values)

    @property
    def gap(self) -> dict[str, float]:
        """Delivered minus preferred, in coordinates."""
        return self.parameters.named(self.data["gap"].values)

    @property
    def gap_percent(self) -> dict[str, float]:
        """The gap as a signed percentage of the preferred value."""
        return self.parameters.named(self.data["gap_percent"].values)

    @property
    def preference(self) -> dict[str, float] | None:
        """Preferred minus truth, in coordinates; None unless all truths are known."""
        return self._around_truth("preference")

    @property
    def total(self) -> dict[str, float] | None:
        """Delivered minus truth, in coordinates; None unless all truths are known."""
        return self._around_truth("total")

    def _around_truth(self, name: str) -> dict[str, float] | None:
        parameters = self.parameters
        return None if parameters.truth is None else parameters.named(self.data[name].values)

    def summary(self) -> pd.DataFrame:
        """Return a table with one row for each parameter and one column for each term.

        Nuisance parameters come last.
        """
        known = ("total", "preference") if self.parameters.truth is not None else ()
        table = {term: self.data[term].values for term in (*known, "gap", "gap_percent")}
        return interest_first(table, self.parameters)

    def __repr__(self) -> str:
        head = "Delivery: total = preference + gap, in coordinates"
        return (
            f"{head}\n{interest_only(self.summary()).to_string(float_format=lambda v: f'{v:.5g}')}"
        )


def _coordinate(parameter: Parameter, value: float | None) -> float:
    return np.nan if value is None else float(parameter.to_coordinate(value))


def delivery(
    parameters: Mapping[str, Parameter],
    preferred: Mapping[str, float | None] | None,
    *,
    view: str = "",
) -> Delivery:
    """Split the delivered displacement into preference and delivery gap.

    Parameters
    ----------
    parameters : mapping of str to Parameter
        With `delivered`, and with `truth` where it is known.
    preferred : mapping of str to float or None
        Physical values at the minimum of the frozen scan, under the training view; None for a
        parameter that the residual does not see (`Score.unseen`).
    view : str
        The training view in words, such as ``scan.view``.

    Returns
    -------
    Delivery

    Examples
    --------
    >>> import twoaxis as ta
    >>> nu = ta.Parameter(truth=0.01, delivered=0.012, bounds=(0.002, 0.05))
    >>> terms = ta.delivery({"nu": nu}, {"nu": 0.0125})
    >>> round(terms.preference["nu"] + terms.gap["nu"] - terms.total["nu"], 12)
    0.0
    """
    known = Parameters(parameters)
    if not isinstance(preferred, Mapping):
        raise InputError(
            f"preferred values for {', '.join(known)}",
            repr(preferred),
            "pass scan.minimum; a flat scan has none, and then there is no gap",
        )
    if set(preferred) != set(known):
        raise InputError(
            f"preferred values for {', '.join(known)}",
            f"values for {', '.join(preferred) or 'none'}",
            "pass scan.minimum, which names every parameter",
        )
    for name, parameter in known.items():
        value = preferred[name]
        if value is None:
            continue
        real = is_real(value) and np.isfinite(value)
        if not real or (parameter.coordinate == "log" and value <= 0):
            raise InputError(
                f"a finite {'positive ' if parameter.coordinate == 'log' else ''}number as the "
                f"preferred value of {name}",
                repr(value),
                "pass scan.minimum",
            )
    known.require("delivered")
    found = {n: np.nan if value is None else float(value) for n, value in preferred.items()}
    values = {**known.variables(), "preferred": [found[name] for name in known]}
    if not isinstance(view, str):
        raise InputError("the training view in words", repr(view)[:80], "pass view=scan.view")
    return Delivery.from_values(values, {"view": view})

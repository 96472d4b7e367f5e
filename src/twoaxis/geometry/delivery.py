r"""Did training deliver what the field prefers? The bookkeeping of one displacement.

.. math:: q_{train} - q^\star = (q_{profile} - q^\star) + (q_{train} - q_{profile}),

total = preference + gap, all in coordinates. Without a truth only the gap is defined.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from twoaxis.errors import InputError
from twoaxis.parameters import Parameter, Parameters


@dataclass(frozen=True)
class Delivery:
    """The three terms for each parameter, as differences of coordinates.

    Attributes
    ----------
    gap : dict of str to float
        Delivered minus preferred.
    preference : dict of str to float, or None
        Preferred minus truth; None without a truth.
    total : dict of str to float, or None
        Delivered minus truth; None without a truth.
    gap_percent : dict of str to float
        The gap as a signed percentage of the preferred value.
    """

    gap: dict[str, float]
    preference: dict[str, float] | None
    total: dict[str, float] | None
    gap_percent: dict[str, float]

    def summary(self) -> pd.DataFrame:
        """Return a table with one row for each parameter and one column for each term."""
        terms = {"gap": self.gap, "gap_percent": self.gap_percent}
        if self.preference is not None and self.total is not None:
            terms = {"total": self.total, "preference": self.preference, **terms}
        return pd.DataFrame(terms).rename_axis("parameter")


def delivery(
    parameters: Mapping[str, Parameter], preferred: Mapping[str, float] | None
) -> Delivery:
    """Split the delivered displacement into preference and delivery gap.

    Parameters
    ----------
    parameters : mapping of str to Parameter
        With `delivered`, and with `truth` where it is known.
    preferred : mapping of str to float
        Physical values at the minimum of the frozen scan, under the training view.

    Examples
    --------
    >>> import twoaxis as ta
    >>> nu = ta.Parameter(truth=0.01, delivered=0.012, bounds=(0.002, 0.05))
    >>> terms = ta.delivery({"nu": nu}, {"nu": 0.0125})
    >>> round(terms.preference["nu"] + terms.gap["nu"] - terms.total["nu"], 12)
    0.0
    """
    checked = Parameters(parameters)
    if not isinstance(preferred, Mapping):
        raise InputError(
            f"preferred values for {', '.join(checked)}",
            repr(preferred),
            "pass scan.minimum; a flat scan has none, and then nothing can be delivered",
        )
    if set(preferred) != set(checked):
        raise InputError(
            f"preferred values for {', '.join(checked)}",
            f"values for {', '.join(preferred) or 'none'}",
            "pass scan.minimum, which names every parameter",
        )
    for name, parameter in checked.items():
        value = preferred[name]
        real = isinstance(value, (int, float, np.integer, np.floating)) and np.isfinite(value)
        if not real or (parameter.coordinate == "log" and value <= 0):
            raise InputError(
                f"a finite {'positive ' if parameter.coordinate == 'log' else ''}number as the "
                f"preferred value of {name}",
                repr(value),
                "pass scan.minimum",
            )
    delivered = Parameters(checked).require("delivered")
    coordinates = {
        name: (
            None if p.truth is None else float(p.to_coordinate(p.truth)),
            float(p.to_coordinate(preferred[name])),
            float(p.to_coordinate(delivered[name])),
        )
        for name, p in checked.items()
    }
    gap = {name: train - prof for name, (_, prof, train) in coordinates.items()}
    percent = {
        name: float(p.percent(delivered[name], preferred[name])) for name, p in checked.items()
    }
    if any(truth is None for truth, _, _ in coordinates.values()):
        return Delivery(gap=gap, preference=None, total=None, gap_percent=percent)
    known = {n: (t, p, d) for n, (t, p, d) in coordinates.items() if t is not None}
    return Delivery(
        gap=gap,
        preference={name: prof - truth for name, (truth, prof, _) in known.items()},
        total={name: train - truth for name, (truth, _, train) in known.items()},
        gap_percent=percent,
    )

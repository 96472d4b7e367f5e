"""The parameter values for which a layout is designed.

How much an observation knows depends on the parameter, which is what is sought. A design
therefore belongs to one value (a truth, a delivered value), to several candidates, or to an
interval that axis 1 leaves open. An interval becomes points: the midpoints of equal parts of it
in the parameter's coordinate. Several intervals are filled by a Halton sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from twoaxis.errors import InputError
from twoaxis.parameters import Parameter, center_of

FloatArray = NDArray[np.float64]

HOW = (
    'write at={"nu": 0.01} for one point, at={"nu": (0.005, 0.02)} for an interval, or a list of '
    "points for several candidates"
)


@dataclass(frozen=True)
class DesignPoints:
    """Parameter values that count alike in the design.

    Attributes
    ----------
    kind : {"truth", "delivered", "point", "interval", "candidates"}
    values : list of dict of str to float
        In physical units.
    coordinates : array, shape (P, d)
    units : array, shape (P, d)
        The step in each coordinate that stands for 100 percent.
    """

    kind: str
    values: list[dict[str, float]]
    coordinates: FloatArray
    units: FloatArray


def design_points(parameters: Mapping[str, Parameter], at: Any, count: int) -> DesignPoints:
    """Read `at` as one point, several candidates or an interval of `count` points."""
    if isinstance(at, Sequence) and not isinstance(at, str):
        if not at or not all(isinstance(one, Mapping) for one in at):
            raise InputError("candidates as mappings from names to values", f"at={at!r}", HOW)
        values = [center_of(parameters, one).values for one in at]
        kind = "candidates" if len(values) > 1 else "point"
    elif isinstance(at, Mapping) and any(np.ndim(value) for value in at.values()):
        values, kind = _interval(parameters, at, count), "interval"
    elif at is None or isinstance(at, (str, Mapping)):
        center = center_of(parameters, at)
        values, kind = [center.values], center.kind
    else:
        raise InputError(
            '"truth", "delivered", a point, an interval or candidates', f"at={at!r}", HOW
        )
    coordinates = [
        [float(p.to_coordinate(one[n])) for n, p in parameters.items()] for one in values
    ]
    units = [[p.unit(one[n]) for n, p in parameters.items()] for one in values]
    return DesignPoints(kind, values, np.array(coordinates), np.array(units))


def _interval(
    parameters: Mapping[str, Parameter], at: Mapping[str, Any], count: int
) -> list[dict[str, float]]:
    """Fill the intervals that `at` names; single values in it stay fixed."""
    ends = {name: _ends(name, value) for name, value in at.items()}
    # Each end is checked like a point of its own: names, bounds, finite numbers.
    lows, highs = (center_of(parameters, {n: e[i] for n, e in ends.items()}).values for i in (0, 1))
    open_names = [name for name in parameters if lows[name] < highs[name]]
    backwards = [name for name in parameters if lows[name] > highs[name]]
    if backwards or not open_names:
        raise InputError(
            "an interval with the lower end first",
            f"at={at!r}",
            HOW,
        )
    if len(open_names) == 1:
        places = (np.arange(count)[:, None] + 0.5) / count
    else:  # the first Halton point is a corner of the box; it is left out
        places = qmc.Halton(len(open_names), scramble=False).random(count + 1)[1:]
    filled = dict(lows)
    result = []
    for place in places:
        for name, share in zip(open_names, place, strict=True):
            low, high = parameters[name].to_coordinate([lows[name], highs[name]])
            filled[name] = float(parameters[name].to_value(low + share * (high - low)))
        result.append(dict(filled))
    return result


def _ends(name: str, value: Any) -> tuple[Any, Any]:
    """Return the two ends of an interval; a single value is both of them."""
    if np.ndim(value) == 0:
        return value, value
    if np.shape(value) != (2,):
        raise InputError(
            f"one value or a pair (low, high) for {name}",
            f"{name}={value!r}",
            HOW,
        )
    return value[0], value[1]

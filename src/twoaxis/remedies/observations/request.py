"""The checked input of one call: whatever can be wrong is found out before the work starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError
from twoaxis.forward import ForwardModel
from twoaxis.parameters import Parameter, checked_parameters
from twoaxis.remedies.observations.points import DesignPoints, design_points
from twoaxis.remedies.observations.rules import (
    Rules,
    allowed_entries,
    checked_rules,
    named_positions,
)
from twoaxis.resolution.design import checked_layouts, checked_noise
from twoaxis.views.checks import is_whole

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
At = str | Mapping[str, Any] | Sequence[Mapping[str, float]] | None

# Sensitivities of all candidates at all design points are held together, up to this many
# gigabytes.
PRODUCTS_LIMIT = 2.0


@dataclass(frozen=True)
class Request:
    """The checked input of one call.

    Attributes
    ----------
    model : ForwardModel
    points : DesignPoints
        The parameter values that the layout is made for.
    deviations : array, shape (N,)
        Standard deviation of the noise of every entry.
    names : list of str
        Of the coordinates.
    positions : array, shape (N, c)
    rules : Rules
        The candidates, and which of them a site takes away.
    present : array of int
        Flat indices of what is observed already.
    """

    model: ForwardModel
    points: DesignPoints
    deviations: FloatArray
    names: list[str]
    positions: FloatArray
    rules: Rules
    present: IndexArray


def checked_request(
    forward: Callable[..., Any],
    parameters: Mapping[str, Parameter],
    noise: ArrayLike,
    k: int,
    at: At,
    coordinates: Any,
    present: Any,
    spacing: Any,
    cells: Any,
    forbidden: Any,
    points: int,
    vectorized: bool,
) -> Request:
    """Check the arguments of `twoaxis.suggest_sites`."""
    _check_count("k", k)
    _check_count("points", points)
    checked = checked_parameters(parameters)
    where = design_points(checked, at, points)
    middle = where.values[len(where.values) // 2]
    model = ForwardModel(forward, checked, middle, vectorized=vectorized)
    deviations = checked_noise(noise, model.shape).array
    if deviations.ndim == 2:
        raise InputError(
            "independent noise, one standard deviation or one for each entry",
            "a covariance",
            "pass its standard deviations, numpy.sqrt(numpy.diag(noise)); sites that share noise "
            "are not handled",
        )
    names, positions = named_positions(coordinates, model.shape)
    now = np.empty(0, dtype=np.intp)
    if present is not None and np.size(present):
        now = checked_layouts({"present": present}, model.size)["present"]
    allowed = allowed_entries(forbidden, model.shape, positions) & np.isfinite(model.center_values)
    allowed[now] = False
    rules = checked_rules(allowed, model.shape, positions, spacing, cells)
    _check_room(rules, now, k)
    _check_memory(len(where.values), len(checked), len(rules.candidates))
    return Request(model, where, deviations, names, positions, rules, now)


def _check_count(name: str, value: Any) -> None:
    if not is_whole(value) or value < 1:
        raise InputError(
            f"{name} as a whole number of at least 1", f"{name}={value!r}", f"pass {name}=10"
        )


def _check_room(rules: Rules, present: IndexArray, k: int) -> None:
    """Refuse at once what cannot be placed; spacing is found out about during the search."""
    room = len(rules.candidates)
    if rules.cell is not None:
        open_cells = np.unique(rules.cell[rules.candidates])
        room = len(np.setdiff1d(open_cells, rules.cell[present]))
    if room < k:
        raise InputError(
            f"room for {k} new observations under the rules",
            f"room for {room}",
            "ask for fewer, or loosen spacing, cells or forbidden",
        )


def _check_memory(points: int, d: int, candidates: int) -> None:
    gigabytes = 8e-9 * points * candidates * d * (d + 1) / 2
    if gigabytes > PRODUCTS_LIMIT:
        raise InputError(
            f"sensitivities that fit in {PRODUCTS_LIMIT:g} GB of memory",
            f"{candidates} candidates at {points} points, {gigabytes:.3g} GB",
            "forbid candidates, or ask for fewer points",
        )

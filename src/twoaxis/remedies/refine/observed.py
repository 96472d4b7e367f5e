"""The observations that a model is refined to, checked against the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.labels import check_labels
from twoaxis.observations import Observations, as_observations, experiments_of

# Share of the range of the residual points by which observations may lie outside it: random points
# do not reach the boundary.
BEYOND = 0.05


def observations_of(frozen: FrozenResidual, data: Any, noise: Any) -> Observations:
    """Return the observations that a model is refined to, with their places."""
    if frozen.weights is None:
        raise InputError(
            "a frozen residual of a network whose weights can be moved",
            "one of a function",
            "freeze the model with twoaxis.from_torch, from_jax, from_deepxde, from_pina or "
            "from_jinns",
        )
    found = placed(frozen, data, noise)
    frozen.known.require("delivered")
    count_outside(frozen.points, found.sites)
    return found


def placed(frozen: FrozenResidual, data: Any, noise: Any = None) -> Observations:
    """Return observations with their places: in the order of the observed points by default."""
    chosen = frozen.data if data is None else data
    if chosen is None:
        raise InputError(
            "observations to refine to",
            "none",
            "pass data=twoaxis.Observations(values, at=...), or values in the order of observed",
        )
    check_labels("data", chosen, frozen.labels)
    found = as_observations(chosen, noise)
    if found.at is None:
        if frozen.observed is None:
            raise InputError(
                "observations that say where they were taken",
                "values alone, and a model without observed points",
                "pass data=twoaxis.Observations(values, at=...), or observed=... to the adapter",
            )
        shape = np.shape(frozen.fitted)
        if found.values.size != int(np.prod(shape)) and len(found.values) != shape[0]:
            raise InputError(
                f"data in the shape of the observations, {shape}",
                f"shape {found.values.shape}",
                "give one value per observation, or pass twoaxis.Observations(values, at=...)",
            )
        if len(found.values) != shape[0]:
            found = as_observations(found.values.reshape(shape), noise)
        found = replace(found, at=frozen.observed)
    return found


def count_outside(points: Any, sites: FloatArray) -> int:
    """Count observed points beyond the range of the residual points; refuse it if all are."""
    every = points if isinstance(points, tuple) else (points,)
    if any(part.shape[1] != sites.shape[1] for part in every):
        return 0
    low = np.min([part.min(axis=0) for part in every], axis=0)
    high = np.max([part.max(axis=0) for part in every], axis=0)
    slack = BEYOND * (high - low)
    beyond = ((sites < low - slack) | (sites > high + slack)).any(axis=1)
    if beyond.all():
        raise InputError(
            f"observations within the range of the residual points, {low} to {high}",
            f"{len(sites)} outside it, the first at {sites[0]}",
            "check the order and the units of their coordinates, or pass residual points there",
        )
    return int(beyond.sum())


def given_kinds(data: Any) -> list[list[Any]]:
    """Return data by experiment and kind: one, a list of `Observations`, or a mapping."""
    if isinstance(data, Mapping) or (
        isinstance(data, list | tuple) and any(isinstance(each, Observations) for each in data)
    ):
        return [list(kinds) for kinds in experiments_of(data).values()]
    return [[data]]


def with_readings(
    frozen: FrozenResidual, sites: FloatArray, readings: FloatArray, fitted: FloatArray
) -> FrozenResidual:
    """Return a residual that carries the readings that it was refined to, one value in a row."""
    return replace(frozen, observed=sites, data=readings, fitted=fitted, fields=())

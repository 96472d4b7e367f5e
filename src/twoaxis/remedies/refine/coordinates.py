"""Coordinates of the parameters along a refinement: their slopes, sizes, covariance and text."""

from __future__ import annotations

import numpy as np

from twoaxis.arrays import FloatArray
from twoaxis.parameters import Parameters

# Share of its range that counts as the size of a parameter that is zero.
LEAST_MAGNITUDE = 1e-4
# Information that the data do not have is taken as this share of what they have.
LEAST_INFORMATION = 1e-12


def per_coordinate(known: Parameters, q: FloatArray) -> FloatArray:
    """Return the derivatives of the physical values by the coordinates, shape (d,)."""
    values = np.asarray(known.physical(q), dtype=float)
    logs = np.array([p.coordinate == "log" for p in known.values()])
    return np.where(logs, values, 1.0)


def magnitudes(known: Parameters, q: FloatArray) -> FloatArray:
    """Return the sizes of the parameters; a linear one that is zero has part of its range."""
    logs = np.array([p.coordinate == "log" for p in known.values()])
    low, high = (LEAST_MAGNITUDE * bound for bound in known.coordinate_bounds)
    values = np.abs(np.asarray(known.physical(q), dtype=float))
    return np.asarray(np.where(logs, values, np.maximum(values, high - low)))


def covariance_of(information: FloatArray) -> FloatArray:
    """Return the inverse of an information matrix: large in directions of no information."""
    least = LEAST_INFORMATION * np.trace(information) or 1e-300
    return np.asarray(np.linalg.inv(information + least * np.eye(len(information))))


def shown(known: Parameters, q: FloatArray) -> str:
    """Return the values of the parameters as text."""
    values = known.named(known.physical(q))
    return ", ".join(f"{name} = {value:.4g}" for name, value in values.items())

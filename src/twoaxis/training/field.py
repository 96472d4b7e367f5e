"""The field of a run at given points: the network, inside the ansatz where there is one.

What depends on the points alone is computed once, in NumPy and float64, by `field_arrays`; what
depends on the network is arithmetic on those arrays and runs under NumPy and JAX alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.problems import Problem
from twoaxis.problems.ansatz import compose
from twoaxis.training.network import Layers, derivatives, value

FloatArray = NDArray[np.float64]


def field_arrays(problem: Problem, conditions: str, points: FloatArray) -> dict[str, Any]:
    """Return the network's inputs at `points` (N, k), and the ansatz there if conditions are exact.

    The soft field feeds the network with raw coordinates.
    """
    if conditions == "soft" or problem.ansatz is None:
        return {"inputs": np.ascontiguousarray(points.T)}
    mapped = problem.ansatz.inputs(points)
    return {
        "inputs": np.ascontiguousarray(mapped.values.T),
        "first": np.ascontiguousarray(mapped.first.T),
        "second": np.ascontiguousarray(mapped.second.T),
        "lift": problem.ansatz.lift(points),
        "factor": problem.ansatz.factor(points),
    }


def field_value(layers: Layers, arrays: dict[str, Any], xp: Any) -> Any:
    """Return the field, shape (N,)."""
    network = value(layers, arrays["inputs"], xp)
    if "lift" not in arrays:
        return network
    return arrays["lift"]["u"] + arrays["factor"]["u"] * network


def field_derivatives(
    layers: Layers, arrays: dict[str, Any], axes: Sequence[str], wanted: Sequence[str], xp: Any
) -> dict[str, Any]:
    """Return the field and its derivatives by name, each of shape (N,)."""
    if "lift" not in arrays:
        raw = [(1.0, 0.0)] * len(axes)
        return derivatives(layers, arrays["inputs"], raw, axes, wanted, xp)
    slopes = list(zip(arrays["first"], arrays["second"], strict=True))
    network = derivatives(layers, arrays["inputs"], slopes, axes, wanted, xp)
    return compose(network, arrays["lift"], arrays["factor"])

r"""The field: a tanh network, and its derivatives in one forward pass.

Derivatives by the inputs are propagated beside the value, layer by layer, as truncated Taylor
series. With :math:`h = \tanh a` and :math:`s = 1 - h^2`,

.. math:: h_x = s\,a_x, \qquad h_{xx} = s\,(a_{xx} - 2 h\,a_x^2),

and a linear layer acts on every coefficient alike. Nothing is differentiated twice by a
machine, which is what makes the training loop fast.

The same code runs on NumPy arrays, for diagnosis in float64, and under JAX, for training: it
asks the arrays' own library for ``tanh`` alone. Arrays are *feature-major*, (features, points),
so that the product for a weight gradient contracts over contiguous memory.

The field of a run is the network, inside the ansatz where conditions are exact. What depends on
the points alone is computed once, in NumPy and float64, by `field_arrays`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoaxis.arrays import is_integer
from twoaxis.errors import InputError
from twoaxis.problems import Problem
from twoaxis.problems.ansatz import compose

FloatArray = NDArray[np.float64]
Layers = Sequence[tuple[Any, Any]]

MOST_UNITS = 65_536


@dataclass(frozen=True)
class Network:
    """Width and depth of the hidden layers.

    Parameters
    ----------
    width : int
        Units per hidden layer.
    depth : int
        Number of hidden layers.

    Examples
    --------
    >>> Network(width=32, depth=3).parameter_count(inputs=2)
    2241
    """

    width: int = 64
    depth: int = 3

    def __post_init__(self) -> None:
        for name in ("width", "depth"):
            value = getattr(self, name)
            if not (is_integer(value) and 1 <= value <= MOST_UNITS):
                raise InputError(
                    f"an integer from 1 to {MOST_UNITS} as {name}",
                    f"{name}={value!r}",
                    "pass Network(width=64, depth=3)",
                )
            object.__setattr__(self, name, int(value))

    def sizes(self, inputs: int) -> list[int]:
        """Return the number of features from the inputs to the one output."""
        return [inputs, *[self.width] * self.depth, 1]

    def parameter_count(self, inputs: int) -> int:
        """Return the number of weights and biases."""
        sizes = self.sizes(inputs)
        return sum(n * (m + 1) for m, n in pairwise(sizes))

    def initial(self, inputs: int, generator: np.random.Generator) -> list[tuple[Any, Any]]:
        """Draw weights and biases uniformly from ``±1 / sqrt(fan_in)``, as PyTorch does.

        NumPy draws them, so that a seed means the same network on every device.
        """
        sizes = self.sizes(inputs)
        layers = []
        for fan_in, units in pairwise(sizes):
            reach = 1 / np.sqrt(fan_in)
            weight = generator.uniform(-reach, reach, (units, fan_in))
            layers.append((weight, generator.uniform(-reach, reach, units)))
        return layers


def value(layers: Layers, inputs: Any, xp: Any) -> Any:
    """Return the field at `inputs` of shape (k, N); `xp` is NumPy or ``jax.numpy``."""
    hidden = inputs
    for weight, bias in layers[:-1]:
        hidden = xp.tanh(weight @ hidden + bias[:, None])
    weight, bias = layers[-1]
    return (weight @ hidden)[0] + bias[0]


def derivatives(
    layers: Layers,
    inputs: Any,
    slopes: Sequence[tuple[Any, Any]],
    axes: Sequence[str],
    requested: Sequence[str],
    xp: Any,
) -> dict[str, Any]:
    """Return the field and its derivatives by the coordinates, by name.

    Parameters
    ----------
    layers : sequence of (weight, bias)
        Shapes (n, m) and (n,).
    inputs : array, shape (k, N)
        What the network is fed with.
    slopes : sequence of (first, second), one for each coordinate
        First and second derivatives of all inputs by that coordinate, shape (k, N), or (k, 1)
        where they are the same at all points.
    axes : sequence of str
        Names of the coordinates.
    requested : sequence of str
        ``"u"``, ``"u_x"``, ``"u_xx"`` and the like.
    xp : module
        NumPy or ``jax.numpy``.
    """
    orders = derivative_orders(requested, axes)
    weight, bias = layers[0]
    level = weight @ inputs + bias[:, None]
    first, second = {}, {}
    for axis, order in orders.items():
        slope, bend = slopes[list(axes).index(axis)]
        first[axis] = weight @ slope
        if order == 2:
            second[axis] = weight @ bend
    for weight, bias in layers[1:]:
        level, first, second = _through_tanh(level, first, second, xp)
        level = weight @ level + bias[:, None]
        first = {axis: weight @ a for axis, a in first.items()}
        second = {axis: weight @ a for axis, a in second.items()}
    found = {"u": level[0]}
    found |= {f"u_{axis}": a[0] for axis, a in first.items()}
    found |= {f"u_{axis}{axis}": a[0] for axis, a in second.items()}
    return {name: found[name] for name in requested}


def _through_tanh(
    level: Any, first: Mapping[str, Any], second: Mapping[str, Any], xp: Any
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    h = xp.tanh(level)
    s = 1 - h * h
    bent = {axis: s * (a - 2 * h * first[axis] * first[axis]) for axis, a in second.items()}
    return h, {axis: s * a for axis, a in first.items()}, bent


def derivative_orders(requested: Sequence[str], axes: Sequence[str]) -> dict[str, int]:
    """Return the highest order needed along each axis.

    >>> derivative_orders(("u", "u_t", "u_x", "u_xx"), ("x", "t"))
    {'x': 2, 't': 1}
    """
    orders: dict[str, int] = {}
    names = {"u": ("", 0)}
    for axis in axes:
        names |= {f"u_{axis}": (axis, 1), f"u_{axis}{axis}": (axis, 2)}
    for name in requested:
        if name not in names:
            raise InputError(
                f"derivatives among {', '.join(names)}",
                repr(name),
                "mixed derivatives and those above the second order are not propagated",
            )
        axis, order = names[name]
        if order:
            orders[axis] = max(order, orders.get(axis, 0))
    return {axis: orders[axis] for axis in axes if axis in orders}


def input_count(problem: Problem, conditions: str) -> int:
    """Return how many inputs the network of a field has."""
    return len(field_arrays(problem, conditions, np.zeros((1, len(problem.domain))))["inputs"])


def field_arrays(problem: Problem, conditions: str, points: FloatArray) -> dict[str, Any]:
    """Return the network's inputs at `points` (N, k), and the ansatz there if conditions are exact.

    The soft field feeds the network with raw coordinates, the layered one also with the variables
    of a layer.
    """
    ansatz = problem.ansatz
    if conditions == "soft" or ansatz is None:
        return {"inputs": np.ascontiguousarray(points.T)}
    read = ansatz.layer_inputs if conditions == "layered" else ansatz.inputs
    assert read is not None  # the settings checked it
    mapped = read(points)
    return {
        "inputs": np.ascontiguousarray(mapped.values.T),
        "first": np.ascontiguousarray(mapped.first.T),
        "second": np.ascontiguousarray(mapped.second.T),
        "lift": ansatz.lift(points),
        "factor": ansatz.factor(points),
    }


def field_value(layers: Layers, arrays: dict[str, Any], xp: Any) -> Any:
    """Return the field, shape (N,)."""
    network = value(layers, arrays["inputs"], xp)
    if "lift" not in arrays:
        return network
    return arrays["lift"]["u"] + arrays["factor"]["u"] * network


def field_derivatives(
    layers: Layers, arrays: dict[str, Any], axes: Sequence[str], requested: Sequence[str], xp: Any
) -> dict[str, Any]:
    """Return the field and its derivatives by name, each of shape (N,)."""
    if "lift" not in arrays:
        unit = xp.eye(len(axes), dtype=arrays["inputs"].dtype)
        raw = [(unit[:, k : k + 1], xp.zeros_like(unit[:, :1])) for k in range(len(axes))]
        return derivatives(layers, arrays["inputs"], raw, axes, requested, xp)
    slopes = list(zip(arrays["first"], arrays["second"], strict=True))
    network = derivatives(layers, arrays["inputs"], slopes, axes, requested, xp)
    return compose(network, arrays["lift"], arrays["factor"])


class Field(NamedTuple):
    """How a field is computed: `field_value` and `field_derivatives`, or what stands for them."""

    value: Callable[..., Any]
    derivatives: Callable[..., dict[str, Any]]


PLAIN = Field(field_value, field_derivatives)

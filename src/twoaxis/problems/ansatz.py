r"""Fields that satisfy the conditions of a problem whatever a network returns.

.. math:: u(z) = g(z) + \varphi(z)\,N(s(z)).

The lift :math:`g` has the initial and boundary values, and the factor :math:`\varphi`
vanishes where they are given, so the network :math:`N` does not change them. Where a slope is
given instead of a value, the network reads its coordinate through a map :math:`s` whose own
slope vanishes there. Where a condition jumps, the field is smooth in the variables of the layer
that diffusion makes of the jump, and not in the coordinates: the network may read both.

All three are known functions of position. They are evaluated once, in float64, at points
that stay fixed; what remains for each step of a training is `compose`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError

FloatArray = NDArray[np.float64]

# exp(-z^2) and erfc(z) are exactly zero in float64 there, and z^2 is far from overflow.
FAR = 40.0


class InputMap(NamedTuple):
    """Inputs of a network at N points, as functions of the coordinates.

    Attributes
    ----------
    values : array, shape (N, m)
        ``s_i(z)``.
    first, second : array, shape (N, m, k)
        ``ds_i/dz_a`` and ``d^2 s_i/dz_a^2``. The chain rule turns a network's derivatives by its
        inputs into those by the coordinates: ``N_a = sum_i N_i s_i,a`` and
        ``N_aa = sum_ij N_ij s_i,a s_j,a + sum_i N_i s_i,aa``.

    Examples
    --------
    >>> from twoaxis.problems import BURGERS
    >>> inputs = BURGERS.ansatz.inputs(np.array([[0.5, 0.2]]))  # the coordinates themselves
    >>> inputs.values.tolist(), inputs.first.tolist()
    ([[0.5, 0.2]], [[[1.0, 0.0], [0.0, 1.0]]])
    """

    values: FloatArray
    first: FloatArray
    second: FloatArray


def one_each(values: FloatArray, first: FloatArray, second: FloatArray) -> InputMap:
    """Return inputs that depend on one coordinate each, in their order; all of shape (N, k)."""
    unit = np.eye(values.shape[1], dtype=values.dtype)
    return InputMap(values, first[:, :, None] * unit, second[:, :, None] * unit)


def identity(points: FloatArray) -> InputMap:
    """Return the coordinates themselves as inputs.

    Parameters
    ----------
    points : array, shape (N, k)
    """
    return one_each(points, np.ones_like(points), np.zeros_like(points))


@dataclass(frozen=True)
class Ansatz:
    """A field ``u = lift + factor * network(inputs)`` that meets a problem's conditions.

    Parameters
    ----------
    lift, factor : callable
        ``lift(points)``, points of shape (N, 2) with the columns of the problem's domain:
        arrays of length N under the problem's names for a field and its derivatives, such
        as ``"u"``, ``"u_t"``, ``"u_x"`` and ``"u_xx"``.
    inputs : callable
        ``inputs(points)``: what the network reads at those points. The coordinates
        themselves unless said otherwise.
    layer_inputs : callable, optional
        The same with the variables of a layer that the conditions create, for networks that are
        to resolve it; see ``conditions="layered"`` of `twoaxis.train`.

    Examples
    --------
    >>> from twoaxis.problems import BURGERS
    >>> points = np.array([[0.5, 0.0], [1.0, 0.3]])
    >>> anything = {"u": np.array([7.0, -4.0])}
    >>> u = compose(anything, BURGERS.ansatz.lift(points), BURGERS.ansatz.factor(points))["u"]
    >>> bool(np.allclose(u, [-1, 0]))  # -sin(pi/2) at the start, zero at the end
    True
    """

    lift: Callable[[FloatArray], dict[str, FloatArray]]
    factor: Callable[[FloatArray], dict[str, FloatArray]]
    inputs: Callable[[FloatArray], InputMap] = identity
    layer_inputs: Callable[[FloatArray], InputMap] | None = None


def compose(
    network: Mapping[str, Any], lift: Mapping[str, Any], factor: Mapping[str, Any]
) -> dict[str, Any]:
    r"""Return the derivatives of ``g + phi N`` from those of its parts.

    .. math::
        u_a = g_a + \varphi_a N + \varphi N_a, \qquad
        u_{aa} = g_{aa} + \varphi_{aa} N + 2\varphi_a N_a + \varphi N_{aa}.

    Arithmetic alone: NumPy, JAX and PyTorch arrays pass through, in any precision.

    Parameters
    ----------
    network : mapping of str to array
        ``N`` and its derivatives by the *coordinates*, under the names that the field's
        have: ``"u"``, ``"u_x"``, ``"u_xx"``. The result has the same
        entries; a derivative needs all those of lower order.
    lift, factor : mapping of str to array
        ``g`` and ``phi`` likewise. Entries that the network does not have are ignored.

    Examples
    --------
    >>> network = {"u": 1.0, "u_x": 2.0}
    >>> lift, factor = {"u": 3.0, "u_x": 0.0}, {"u": 0.5, "u_x": 1.0}
    >>> compose(network, lift, factor)
    {'u': 3.5, 'u_x': 2.0}
    """
    return {key: _product_rule(key, network, lift, factor) for key in network}


def _product_rule(
    key: str, network: Mapping[str, Any], lift: Mapping[str, Any], factor: Mapping[str, Any]
) -> Any:
    """Sum over all ways to apply each differentiation of `key` to the factor or the network."""
    name, _, axes = key.partition("_")
    total = _entry(lift, key, "lift", key)
    for to_factor in product((True, False), repeat=len(axes)):
        shares = {True: "", False: ""}
        for axis, share in zip(axes, to_factor, strict=True):
            shares[share] += axis
        phi, n = (f"{name}_{share}" if share else name for share in shares.values())
        total = total + _entry(factor, phi, "factor", key) * _entry(network, n, "network", key)
    return total


def _entry(part: Mapping[str, Any], key: str, which: str, target: str) -> Any:
    if key not in part:
        raise InputError(
            f'the {which}\'s "{key}", which "{target}" of the field needs',
            ", ".join(f'"{known}"' for known in part) or "none",
            f'add "{key}" to the {which}',
        )
    return part[key]


class Similarity(NamedTuple):
    """The variable of a layer that heat conduction widens, and the layer's width."""

    z: FloatArray
    width: FloatArray


def similarity(distance: FloatArray, t: FloatArray, diffusion: float) -> Similarity:
    """Return ``z = distance / width`` with ``width = sqrt(4 diffusion t)``.

    At ``t = 0`` the layer has no width. There ``z`` is so large that ``exp(-z^2)`` and
    ``erfc(|z|)`` are exactly zero, with the sign of the distance and plus for zero, beside
    a width of one: formulas in both need no case of their own, and every derivative in
    which ``exp(-z^2)`` is a factor is zero.
    """
    if (t < 0).any():
        raise InputError(
            "times of zero and later", f"t = {t.min():g}", "move the points into the domain"
        )
    # The product of roots is positive even where the root of the product would underflow.
    width = np.where(t > 0, math.sqrt(4 * diffusion) * np.sqrt(t), 1.0)
    start = np.copysign(FAR, np.where(distance < 0, distance, 1))  # in the precision of the points
    z = np.where(t > 0, np.clip(distance / width, -FAR, FAR), start)
    return Similarity(z, width)

r"""Buckley–Leverett two-phase flow: recover the mobility ratio.

.. math:: u_t + \partial_x f_M(u) = 0.01\,u_{xx}, \qquad
          f_M(u) = \frac{u^2}{u^2 + M (1 - u)^2}, \qquad x \in [0, 1],\ t \in [0, 0.5],

with :math:`u(x, 0) = 1` for :math:`x < 0.25` and 0 beyond, :math:`u(0, t) = 1`,
:math:`u(1, t) = 0` and :math:`M^\star = 2`. The parameter sits inside the flux, so the
residual is not affine in it.

No smooth field starts as a step. The exact ansatz starts from the step that diffusion
alone has smoothed, :math:`\tfrac12\,\mathrm{erfc}(z)`, :math:`z = (x - 0.25)/\sqrt{4 D t}`
and :math:`D = 0.01`: at ``t = 0`` it is the step itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import erfc

from twoaxis.parameters import Parameter
from twoaxis.problems.ansatz import Ansatz, InputMap, similarity
from twoaxis.problems.problem import (
    EvolutionProblem,
    FixedEnds,
    FloatArray,
    ObservationPlan,
    Stencil,
)

DIFFUSION = 0.01
FRONT = 0.25
# Second derivatives by time before this time, which overflow, are given as zero.
INSTANT = 1e-60
ENDS = FixedEnds(left=1.0, right=0.0)


def flux(u: Any, M: Any) -> Any:
    """``f_M(u) = u^2 / (u^2 + M (1 - u)^2)``."""
    wet, dry = u * u, (1 - u) * (1 - u)
    return wet / (wet + M * dry)


def flux_slope(u: Any, M: Any) -> Any:
    """``df_M/du = 2 M u (1 - u) / (u^2 + M (1 - u)^2)^2``."""
    wet, dry = u * u, (1 - u) * (1 - u)
    return 2 * M * u * (1 - u) / (wet + M * dry) ** 2


def residual(*, u: Any, u_t: Any, u_x: Any, u_xx: Any, M: Any) -> Any:
    """``u_t + f_M'(u) u_x - 0.01 u_xx``."""
    return u_t + flux_slope(u, M) * u_x - DIFFUSION * u_xx


def rate(u: FloatArray, stencil: Stencil, *, M: FloatArray) -> FloatArray:
    """``0.01 u_xx - f_M(u)_x``, the flux differenced in conservative form."""
    return DIFFUSION * stencil.second(u) - stencil.first(flux(u, M))


def initial(x: FloatArray) -> FloatArray:
    """1 where ``x < 0.25``, strictly, else 0."""
    return (x < FRONT).astype(float)


def smoothed_step(x: FloatArray, t: FloatArray) -> dict[str, FloatArray]:
    """``s = erfc(z) / 2``, ``z = (x - 0.25) / sqrt(4 D t)``, ``s_t = D s_xx`` and ``s_tt``.

    At ``t = 0`` the values are `initial` and the derivatives zero, as beside the step.
    """
    z, width = similarity(x - FRONT, t, DIFFUSION)
    slope = -np.exp(-(z**2)) / (math.sqrt(np.pi) * width)
    curvature = -2 * z * slope / width
    again = np.divide(3 - 2 * z**2, 2 * t, out=np.zeros_like(t), where=t > INSTANT)
    return {
        "u": erfc(z) / 2,
        "u_t": DIFFUSION * curvature,
        "u_x": slope,
        "u_xx": curvature,
        # z_t = -z / (2 t)
        "u_tt": -DIFFUSION * curvature * again,
    }


def lift(points: FloatArray) -> dict[str, FloatArray]:
    """``s - (1 - x) (s(0, t) - 1) - x s(1, t)``, `s` the smoothed step.

    The step has spread to the ends by the time 0.5, where it misses the boundary values by
    0.006 at most; the linear blend of what it misses there puts both right at every time.
    """
    x, t = points[:, 0], points[:, 1]
    step = smoothed_step(x, t)
    left, right = (smoothed_step(np.full_like(x, end), t) for end in (0.0, 1.0))
    left_miss, right_miss = left["u"] - ENDS.left, right["u"] - ENDS.right
    return {
        "u": step["u"] - (1 - x) * left_miss - x * right_miss,
        "u_t": step["u_t"] - (1 - x) * left["u_t"] - x * right["u_t"],
        "u_x": step["u_x"] + left_miss - right_miss,
        "u_xx": step["u_xx"],
    }


def factor(points: FloatArray) -> dict[str, FloatArray]:
    """``4 sqrt(2 t) x (1 - x)``: one in the middle at the last time, 0.5.

    The lift meets the diffusion but not the flux, which moves the field by an amount of order
    ``sqrt(t)`` near the front. A factor of order t would ask for a network that grows without
    bounds there; this one asks for a bounded network. At ``t = 0`` its slope by time, which is
    infinite, is given as zero.
    """
    x, t = points[:, 0], points[:, 1]
    across = 4 * x * (1 - x)
    root, speed = root_of_time(t)
    return {
        "u": root * across,
        "u_t": speed * across,
        "u_x": 4 * root * (1 - 2 * x),
        "u_xx": -8 * root,
    }


def root_of_time(t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``sqrt(2 t)`` and its slope, which is given as zero at ``t = 0``."""
    root = np.sqrt(2 * t)
    return root, np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)


def layer_inputs(points: FloatArray) -> InputMap:
    """``x``, ``t``, ``sqrt(2 t)`` and the smoothed step.

    Near the beginning the field is a smooth function of ``z`` and ``sqrt(t)``, and no smooth one
    of x and t. The smoothed step stands for ``z``: it is bounded, and flat where the field is.
    """
    x, t = points[:, 0], points[:, 1]
    root, speed = root_of_time(t)
    step = smoothed_step(x, t)
    one, zero = np.ones_like(x), np.zeros_like(x)
    by_x = np.column_stack([one, zero, zero, step["u_x"]])
    by_t = np.column_stack([zero, one, speed, step["u_t"]])
    by_xx = np.column_stack([zero, zero, zero, step["u_xx"]])
    root_tt = np.where(t > INSTANT, -(np.minimum(speed, 1 / INSTANT) ** 3), 0.0)
    by_tt = np.column_stack([zero, zero, root_tt, step["u_tt"]])
    return InputMap(
        values=np.column_stack([x, t, root, step["u"]]),
        first=np.stack([by_x, by_t], axis=-1),
        second=np.stack([by_xx, by_tt], axis=-1),
    )


BUCKLEY_LEVERETT = EvolutionProblem(
    name="buckley-leverett",
    title="Buckley–Leverett",
    equation="u_t + (u^2 / (u^2 + M (1 - u)^2))_x = 0.01 u_xx",
    parameters={"M": Parameter(truth=2.0, start=1.0, bounds=(0.5, 4.0))},
    domain={"x": (0.0, 1.0), "t": (0.0, 0.5)},
    residual=residual,
    rate=rate,
    initial=initial,
    ends=ENDS,
    observed=ObservationPlan(sites=200, noise_fraction=0.3, layouts=(8, 9, 10, 11)),
    ansatz=Ansatz(lift, factor, layer_inputs=layer_inputs),
)

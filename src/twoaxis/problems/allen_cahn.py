r"""Allen–Cahn: recover the reaction coefficient.

.. math:: u_t - 0.001\,u_{xx} + \lambda\,u (u^2 - 1) = 0,
          \qquad x \in [-1, 1],\ t \in [0, 1],

with :math:`u(x, 0) = x^2 \cos(\pi x)`, zero flux at both ends and
:math:`\lambda^\star = 5`. The initial field has slope -2 and 2 at ``x = 1`` and
``x = -1``, so it contradicts the boundary condition at ``t = 0``; the scheme imposes the
boundary condition from the first step on.

The exact ansatz therefore meets the initial condition everywhere and the boundary
condition for ``t > 0``; in the two corners no slope meets both. From each corner spreads a
layer of width :math:`\sqrt{4 D t}`, :math:`D = 0.001`, in which diffusion takes the slope away,

.. math:: c(s, t) = 2\sqrt{4 D t}\;\mathrm{ierfc}\Big(\frac{s}{\sqrt{4 D t}}\Big), \qquad
          c_t = D\,c_{ss}, \quad c_s(0, t) = -2, \quad c(s, 0) = 0,

with :math:`\mathrm{ierfc}(z) = e^{-z^2}/\sqrt{\pi} - z\,\mathrm{erfc}(z)` and the distance
:math:`s` from an end. The lift contains it, so a network need not form what begins as a
corner.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import erfc

from twoaxis.parameters import Parameter
from twoaxis.problems.ansatz import Ansatz, InputMap, one_each, similarity
from twoaxis.problems.problem import (
    EvolutionProblem,
    FloatArray,
    ObservationPlan,
    Stencil,
    ZeroFlux,
)

DIFFUSION = 0.001


# "lambda" is a Python keyword, so the coefficient is called "lam".
def residual(*, u: Any, u_t: Any, u_x: Any, u_xx: Any, lam: Any) -> Any:  # noqa: ARG001
    """``u_t - 0.001 u_xx + lam u (u^2 - 1)``."""
    return u_t - DIFFUSION * u_xx + lam * u * (u * u - 1)


def rate(u: FloatArray, stencil: Stencil, *, lam: FloatArray) -> FloatArray:
    """``0.001 u_xx - lam u (u^2 - 1)``."""
    v = stencil.center(u)
    return DIFFUSION * stencil.second(u) - lam * v * (v * v - 1)


def initial(x: FloatArray) -> FloatArray:
    """``x^2 cos(pi x)``."""
    return x**2 * np.cos(np.pi * x)


def layer(s: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """``c = 2 sqrt(4 D t) ierfc(z)``, ``c_s = -2 erfc(z)`` and ``c_ss``; zero at ``t = 0``."""
    z, width = similarity(s, t, DIFFUSION)
    bell = np.exp(-(z**2)) / math.sqrt(np.pi)
    beyond = erfc(z)
    return 2 * width * (bell - z * beyond), -2 * beyond, 4 * bell / width


def lift(points: FloatArray) -> dict[str, FloatArray]:
    """``x^2 cos(pi x) + c(1 - x, t) + c(1 + x, t)``.

    At ``t = 0`` the derivatives are those of the initial field, the corners included: its
    slopes of -2 and 2 there are the ones that the boundary condition contradicts.
    """
    x, t = points[:, 0], points[:, 1]
    cosine, sine = np.cos(np.pi * x), np.sin(np.pi * x)
    right, right_s, right_ss = layer(1 - x, t)
    left, left_s, left_ss = layer(1 + x, t)
    return {
        "u": initial(x) + right + left,
        "u_t": DIFFUSION * (right_ss + left_ss),
        "u_x": 2 * x * cosine - np.pi * x**2 * sine - right_s + left_s,
        "u_xx": (2 - (np.pi * x) ** 2) * cosine - 4 * np.pi * x * sine + right_ss + left_ss,
    }


def factor(points: FloatArray) -> dict[str, FloatArray]:
    """``t``: at the ends the network's values are free."""
    t = points[:, 1]
    return {"u": t, "u_t": np.ones_like(t), "u_x": np.zeros_like(t), "u_xx": np.zeros_like(t)}


def inputs(points: FloatArray) -> InputMap:
    """``sin(pi x / 2)``, whose slope vanishes at both ends, and ``t``."""
    x, t = points[:, 0], points[:, 1]
    sine, slope = np.sin(np.pi / 2 * x), np.pi / 2 * np.cos(np.pi / 2 * x)
    return one_each(
        values=np.column_stack([sine, t]),
        first=np.column_stack([slope, np.ones_like(t)]),
        second=np.column_stack([-((np.pi / 2) ** 2) * sine, np.zeros_like(t)]),
    )


ALLEN_CAHN = EvolutionProblem(
    name="allen-cahn",
    title="Allen–Cahn",
    equation="u_t - 0.001 u_xx + lam u (u^2 - 1) = 0",
    parameters={"lam": Parameter(truth=5.0, start=2.0, bounds=(1.0, 10.0))},
    domain={"x": (-1.0, 1.0), "t": (0.0, 1.0)},
    residual=residual,
    rate=rate,
    initial=initial,
    ends=ZeroFlux(),
    observed=ObservationPlan(sites=200, noise_fraction=0.3, layouts=(8, 9, 10, 11)),
    ansatz=Ansatz(lift, factor, inputs),
)

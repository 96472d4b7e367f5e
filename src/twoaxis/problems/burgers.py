r"""Viscous Burgers: recover the viscosity.

.. math:: u_t + u\,u_x = \nu\,u_{xx}, \qquad x \in [-1, 1],\ t \in [0, 1],

with :math:`u(x, 0) = -\sin(\pi x)`, :math:`u(\pm 1, t) = 0` and
:math:`\nu^\star = 0.01`. A shock-like layer forms at ``x = 0``, and only observations
near it know the viscosity.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twoaxis.parameters import Parameter
from twoaxis.problems.ansatz import Ansatz
from twoaxis.problems.problem import (
    EvolutionProblem,
    FixedEnds,
    FloatArray,
    ObservationPlan,
    Stencil,
)


def residual(*, u: Any, u_t: Any, u_x: Any, u_xx: Any, nu: Any) -> Any:
    """``u_t + u u_x - nu u_xx``."""
    return u_t + u * u_x - nu * u_xx


def rate(u: FloatArray, stencil: Stencil, *, nu: FloatArray) -> FloatArray:
    """``nu u_xx - u u_x``, the transport term in advective form."""
    return nu * stencil.second(u) - stencil.center(u) * stencil.first(u)


def initial(x: FloatArray) -> FloatArray:
    """``-sin(pi x)``."""
    return -np.sin(np.pi * x)


def lift(points: FloatArray) -> dict[str, FloatArray]:
    """``-sin(pi x)`` at all times: the initial field is zero at both ends already."""
    x = points[:, 0]
    u = initial(x)
    return {
        "u": u,
        "u_t": np.zeros_like(x),
        "u_x": -np.pi * np.cos(np.pi * x),
        "u_xx": -(np.pi**2) * u,
    }


def factor(points: FloatArray) -> dict[str, FloatArray]:
    """``t (1 - x^2)``."""
    x, t = points[:, 0], points[:, 1]
    across = 1 - x**2
    return {"u": t * across, "u_t": across, "u_x": -2 * t * x, "u_xx": -2 * t}


BURGERS = EvolutionProblem(
    name="burgers",
    title="Burgers",
    equation="u_t + u u_x = nu u_xx",
    parameters={"nu": Parameter(truth=0.01, start=0.02, bounds=(0.002, 0.05))},
    domain={"x": (-1.0, 1.0), "t": (0.0, 1.0)},
    residual=residual,
    rate=rate,
    initial=initial,
    ends=FixedEnds(left=0.0, right=0.0),
    observed=ObservationPlan(sites=200, noise_fraction=0.3, layouts=(8, 9, 10, 11)),
    ansatz=Ansatz(lift, factor),
)

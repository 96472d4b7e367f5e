r"""Allen–Cahn: recover the reaction coefficient.

.. math:: u_t - 0.001\,u_{xx} + \lambda\,u (u^2 - 1) = 0,
          \qquad x \in [-1, 1],\ t \in [0, 1],

with :math:`u(x, 0) = x^2 \cos(\pi x)`, zero flux at both ends and
:math:`\lambda^\star = 5`. The initial field has slope -2 and 2 at ``x = 1`` and
``x = -1``, so it contradicts the boundary condition at ``t = 0``; the scheme imposes the
boundary condition from the first step on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twoaxis.parameters import Parameter
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
)

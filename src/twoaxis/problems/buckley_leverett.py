r"""Buckley–Leverett two-phase flow: recover the mobility ratio.

.. math:: u_t + \partial_x f_M(u) = 0.01\,u_{xx}, \qquad
          f_M(u) = \frac{u^2}{u^2 + M (1 - u)^2}, \qquad x \in [0, 1],\ t \in [0, 0.5],

with :math:`u(x, 0) = 1` for :math:`x < 0.25` and 0 beyond, :math:`u(0, t) = 1`,
:math:`u(1, t) = 0` and :math:`M^\star = 2`. The parameter sits inside the flux, so the
residual is not affine in it.
"""

from __future__ import annotations

from typing import Any

from twoaxis.parameters import Parameter
from twoaxis.problems.problem import (
    EvolutionProblem,
    FixedEnds,
    FloatArray,
    ObservationPlan,
    Stencil,
)

DIFFUSION = 0.01


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
    return (x < 0.25).astype(float)


BUCKLEY_LEVERETT = EvolutionProblem(
    name="buckley-leverett",
    title="Buckley–Leverett",
    equation="u_t + (u^2 / (u^2 + M (1 - u)^2))_x = 0.01 u_xx",
    parameters={"M": Parameter(truth=2.0, start=1.0, bounds=(0.5, 4.0))},
    domain={"x": (0.0, 1.0), "t": (0.0, 0.5)},
    residual=residual,
    rate=rate,
    initial=initial,
    ends=FixedEnds(left=1.0, right=0.0),
    observed=ObservationPlan(sites=200, noise_fraction=0.3, layouts=(8, 9, 10, 11)),
)

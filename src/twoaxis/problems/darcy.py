r"""Steady Darcy flow in two dimensions: recover two numbers of the permeability.

.. math:: -\nabla\cdot(k\,\nabla u) = f, \qquad
          k = \exp\{\lambda_0 + \lambda_1 \sin(\pi x)\sin(\pi y)\},
          \qquad (x, y) \in [0, 1]^2,

with :math:`\lambda^\star = (0.15, 0.85)` in linear coordinates: the two unknowns are
log-permeabilities already and may be negative. The source is the one that the
manufactured field :math:`u^\star = \sin(\pi x)\sin(2\pi y)` implies at the truth, so the
true field is known exactly; it vanishes on the boundary, and ``u = 0`` there is the
boundary condition for every other parameter too.

The two unknowns are coupled: at the truth their normalized residual coupling is 0.89,
near the published median of 0.893.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from twoaxis.parameters import Parameter
from twoaxis.problems.ansatz import Ansatz
from twoaxis.problems.problem import FloatArray, ObservationPlan, SteadyProblem

TRUTH = {"lambda_0": 0.15, "lambda_1": 0.85}


def field(x: FloatArray, y: FloatArray) -> FloatArray:
    """``sin(pi x) sin(2 pi y)``, the solution at the truth."""
    return np.sin(np.pi * x) * np.sin(2 * np.pi * y)


def permeability(x: FloatArray, y: FloatArray, *, lambda_0: Any, lambda_1: Any) -> FloatArray:
    """``exp(lambda_0 + lambda_1 sin(pi x) sin(pi y))``."""
    k: FloatArray = np.exp(lambda_0 + lambda_1 * np.sin(np.pi * x) * np.sin(np.pi * y))
    return k


def _mode(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """``s = sin(pi x) sin(pi y)`` and its two first derivatives."""
    sin_x, sin_y = np.sin(np.pi * x), np.sin(np.pi * y)
    return (
        sin_x * sin_y,
        np.pi * np.cos(np.pi * x) * sin_y,
        np.pi * sin_x * np.cos(np.pi * y),
    )


def source(x: FloatArray, y: FloatArray) -> FloatArray:
    """``f = -k (u_xx + u_yy + lambda_1 (s_x u_x + s_y u_y))`` for the true field."""
    _, s_x, s_y = _mode(x, y)
    u = field(x, y)
    u_x = np.pi * np.cos(np.pi * x) * np.sin(2 * np.pi * y)
    u_y = 2 * np.pi * np.sin(np.pi * x) * np.cos(2 * np.pi * y)
    laplacian = -5 * np.pi**2 * u
    k = permeability(x, y, **TRUTH)
    return -k * (laplacian + TRUTH["lambda_1"] * (s_x * u_x + s_y * u_y))


def coefficients(points: FloatArray) -> dict[str, FloatArray]:
    """Return the mode, its slopes and the source at `points` of shape (N, 2)."""
    x, y = points[:, 0], points[:, 1]
    mode, mode_x, mode_y = _mode(x, y)
    return {"mode": mode, "mode_x": mode_x, "mode_y": mode_y, "source": source(x, y)}


def residual(
    *,
    u: Any,  # noqa: ARG001
    u_x: Any,
    u_y: Any,
    u_xx: Any,
    u_yy: Any,
    mode: Any,
    mode_x: Any,
    mode_y: Any,
    source: Any,
    lambda_0: Any,
    lambda_1: Any,
) -> Any:
    """``-k (u_xx + u_yy + lambda_1 (s_x u_x + s_y u_y)) - f``."""
    # A power of e instead of an exp keeps the definition free of any array library.
    k = math.e ** (lambda_0 + lambda_1 * mode)
    return -k * (u_xx + u_yy + lambda_1 * (mode_x * u_x + mode_y * u_y)) - source


def lift(points: FloatArray) -> dict[str, FloatArray]:
    """Zero, as the boundary values are."""
    return {key: np.zeros(len(points)) for key in ("u", "u_x", "u_y", "u_xx", "u_yy")}


def factor(points: FloatArray) -> dict[str, FloatArray]:
    """``16 x (1 - x) y (1 - y)``: one in the middle of the square."""
    x, y = points[:, 0], points[:, 1]
    across, along = 4 * x * (1 - x), 4 * y * (1 - y)
    return {
        "u": across * along,
        "u_x": 4 * (1 - 2 * x) * along,
        "u_y": across * 4 * (1 - 2 * y),
        "u_xx": -8 * along,
        "u_yy": -8 * across,
    }


DARCY = SteadyProblem(
    name="darcy",
    title="Darcy",
    equation="-div(exp(lambda_0 + lambda_1 sin(pi x) sin(pi y)) grad u) = f",
    parameters={
        "lambda_0": Parameter(truth=0.15, start=0.0, bounds=(-1.5, 1.5), coordinate="linear"),
        "lambda_1": Parameter(truth=0.85, start=0.0, bounds=(-1.0, 2.5), coordinate="linear"),
    },
    domain={"x": (0.0, 1.0), "y": (0.0, 1.0)},
    residual=residual,
    coefficients=coefficients,
    field=field,
    source=source,
    permeability=permeability,
    observed=ObservationPlan(
        sites=256,
        noise_fraction=0.05,
        layouts=(10, 11, 12, 13),
        more_draws=(14, 15, 16, 17, 18, 19),
    ),
    ansatz=Ansatz(lift, factor),
)

r"""How well a field meets the initial and boundary conditions of its problem.

Over the nodes of the fine grid, with the declared initial field :math:`u_0`,

.. math:: \frac{\lVert u(\cdot, 0) - u_0 \rVert_2}{\lVert u_0 \rVert_2}
          \quad\text{and}\quad
          \sqrt{\operatorname{mean}_{t > 0,\ \text{both ends}} b^2},

where :math:`b` is what a declared boundary value is missed by, or the normal derivative where
the flux is zero. The boundary lines begin after the first time level: what holds at ``t = 0``
is the initial condition, which Allen–Cahn's boundary condition contradicts in both corners.
Everything is float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.forward import get_solver
from twoaxis.forward.explicit import ExplicitSolver
from twoaxis.problems.problem import FixedEnds
from twoaxis.studies.readouts.readout import Readout
from twoaxis.studies.scale import Scale
from twoaxis.training import Run
from twoaxis.training.field import field_arrays, field_derivatives

FloatArray = NDArray[np.float64]


def initial_error(run: Run) -> float:
    """Return the relative L2 error of the field at time zero."""
    solver = _solver(run)
    declared = solver.problem.initial(solver.x)
    found = run.field(np.column_stack([solver.x, np.full_like(solver.x, solver.t[0])]))
    return float(np.linalg.norm(found - declared) / np.linalg.norm(declared))


def boundary_error(run: Run) -> float:
    """Return the root mean square by which the boundary conditions are missed, t > 0."""
    solver = _solver(run)
    times, ends = solver.t[1:], solver.problem.ends
    left, right = (
        np.column_stack([np.full_like(times, x), times]) for x in solver.problem.domain["x"]
    )
    if isinstance(ends, FixedEnds):
        missed = [run.field(left) - ends.left, run.field(right) - ends.right]
    else:
        missed = [_slope(run, left), _slope(run, right)]
    return float(np.sqrt(np.mean(np.square(missed))))


def _slope(run: Run, points: FloatArray) -> FloatArray:
    """Return ``u_x`` at points (N, 2); at an end it is the normal derivative but for its sign."""
    layers = [(np.asarray(w, float), np.asarray(b, float)) for w, b in run.final.layers]
    arrays = field_arrays(run.problem, run.settings.conditions, points)
    found = field_derivatives(layers, arrays, run.settings.axes, ("u", "u_x"), np)
    return np.asarray(found["u_x"])


def _solver(run: Run) -> ExplicitSolver:
    solver = get_solver(run.problem)
    if not isinstance(solver, ExplicitSolver):
        raise InputError(
            "a field of an evolution problem, which has an initial condition",
            f"one of {run.problem.name}",
            "ask for its conditions in another readout",
        )
    return solver


def _read(run: Run, scale: Scale) -> list[dict[str, Any]]:
    del scale
    return [{"initial_error": initial_error(run), "boundary_error": boundary_error(run)}]


CONDITIONS = Readout("conditions", 1, _read)

"""What a solver's own discretization does to the parameter, against a closed form.

Of the heat equation, one step of the scheme multiplies sin(pi x) by 1 - dt k s with
s = 4 sin^2(pi dx / 2) / dx^2, and the equation by exp(-k' pi^2 dt): the scheme with k makes the
data that the equation makes with k' = -log(1 - dt k s) / (pi^2 dt).
"""

from __future__ import annotations

import numpy as np
import pytest

from twoaxis.datasets import layout
from twoaxis.forward.explicit import ExplicitSolver
from twoaxis.parameters import Parameter
from twoaxis.problems import BURGERS, EvolutionProblem, FixedEnds
from twoaxis.resolution.discretization import best_parameters, discretized
from twoaxis.studies.blocks.generating_solver import WHOLE, groups_of

HEAT = EvolutionProblem(
    name="heat",
    title="Heat",
    equation="u_t = k u_xx",
    parameters={"k": Parameter(truth=0.5, bounds=(0.1, 2.0))},
    domain={"x": (0.0, 1.0), "t": (0.0, 0.2)},
    residual=lambda *, u_t, u_xx, k, **_: u_t - k * u_xx,
    rate=lambda u, stencil, *, k: k * stencil.second(u),
    initial=lambda x: np.sin(np.pi * x),
    ends=FixedEnds(left=0.0, right=0.0),
    observed=BURGERS.observed,
)


def percent(levels, nodes, k=0.5):
    """How far the equation's parameter lies from the scheme's."""
    dt, dx = 0.2 / (levels - 1), 1 / (nodes - 1)
    s = 4 * np.sin(np.pi * dx / 2) ** 2 / dx**2
    return 100 * (-np.log(1 - dt * k * s) / (np.pi**2 * dt) / k - 1)


# With few steps the time step prevails and the parameter is too large, with many the nodes do.
@pytest.mark.parametrize(("levels", "nodes"), [(37, 9), (101, 9), (201, 17)])
def test_the_parameter_of_the_equation_is_found(levels, nodes):
    solver = ExplicitSolver(HEAT, levels, nodes)
    sites = np.arange(5 * nodes, levels * nodes)
    wanted = percent(levels, nodes)
    found = discretized(solver, {"late": sites[len(sites) // 2 :], "all": sites})
    assert abs(wanted) > 0.05
    for each in found.values():
        assert each.equation == pytest.approx(wanted, abs=0.02 * abs(wanted) + 0.005)
        # Every refinement brings it nearer than the one before.
        assert abs(each.finest - wanted) < abs(each.coarser - wanted)


def test_the_declared_grid_itself_finds_the_truth():
    solver = ExplicitSolver(HEAT, 201, 17)
    (found,) = best_parameters(solver, {"all": np.arange(17, 201 * 17)}, 1, 1).values()
    assert found == pytest.approx(0.0, abs=1e-4)


def test_burgers_seems_less_viscous_to_the_equation():
    solver = ExplicitSolver(BURGERS, levels=2001, nodes=201)
    groups = groups_of(solver, "burgers")
    assert np.array_equal(groups["layout 9"], layout("burgers", 9))
    assert len(groups[WHOLE]) == 201 * 201
    found = best_parameters(solver, {"8": groups["layout 8"]}, 2, 2)
    assert -4 < found["8"] < -2

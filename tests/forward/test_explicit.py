"""The explicit solver against a plain loop, its conditions, and an exact Burgers solution."""

import warnings

import numpy as np
import pytest
from numpy.polynomial.hermite import hermgauss
from numpy.testing import assert_allclose, assert_array_equal

from twoaxis.errors import InputError
from twoaxis.forward import ExplicitSolver, explicit, get_solver
from twoaxis.problems import ALLEN_CAHN, BUCKLEY_LEVERETT, BURGERS, SCALAR_BENCHMARKS, truth_of

EVERY_PROBLEM = pytest.mark.parametrize("problem", SCALAR_BENCHMARKS, ids=lambda p: p.name)


def small(problem):
    """Return a quick solver that resolves the fields well enough to keep rounding small."""
    return ExplicitSolver(problem, levels=301, nodes=61)


def some_values(problem, count=3):
    """Return the name of the parameter and values of it above the truth."""
    (name,) = problem.parameters
    return name, problem.parameters[name].truth * np.linspace(1.2, 2.0, count)


# The protocol, literally: u[time, space], one node after the other.


def fraction(u, M):
    return u**2 / (u**2 + M * (1 - u) ** 2)


RATE = {
    "burgers": lambda a, b, c, dx, nu: nu * (a - 2 * b + c) / dx**2 - b * (c - a) / (2 * dx),
    "buckley-leverett": lambda a, b, c, dx, M: (
        0.01 * (a - 2 * b + c) / dx**2 - (fraction(c, M) - fraction(a, M)) / (2 * dx)
    ),
    "allen-cahn": lambda a, b, c, dx, lam: 0.001 * (a - 2 * b + c) / dx**2 - lam * (b**3 - b),
}
INITIAL = {
    "burgers": lambda x: -np.sin(np.pi * x),
    "buckley-leverett": lambda x: 1.0 if x < 0.25 else 0.0,
    "allen-cahn": lambda x: x * x * np.cos(np.pi * x),
}
ENDS = {
    "burgers": lambda u: (0.0, 0.0),  # noqa: ARG005
    "buckley-leverett": lambda u: (1.0, 0.0),  # noqa: ARG005
    "allen-cahn": lambda u: (u[1], u[-2]),
}


def plain_field(solver, value):
    name = solver.problem.name
    x, t = solver.x.tolist(), solver.t.tolist()
    dx, dt = x[1] - x[0], t[1] - t[0]
    levels = [[INITIAL[name](at) for at in x]]
    for _ in t[1:]:
        u = levels[-1]
        new = list(u)
        for i in range(1, len(x) - 1):
            new[i] = u[i] + dt * RATE[name](u[i - 1], u[i], u[i + 1], dx, value)
        new[0], new[-1] = ENDS[name](new)
        levels.append(new)
    return np.array(levels)


@EVERY_PROBLEM
def test_against_a_plain_loop(problem):
    solver = small(problem)
    name, values = some_values(problem)
    for value in values:
        field = solver.field(**{name: value})
        assert field.shape == solver.shape == (301, 61)
        assert_allclose(field, plain_field(solver, value), rtol=0, atol=1e-14)


@EVERY_PROBLEM
def test_a_batch_equals_one_at_a_time(problem):
    solver = small(problem)
    name, values = some_values(problem, 7)
    sites = np.random.default_rng(0).choice(301 * 61, 50, replace=False)
    together = solver.at_sites(sites, **{name: values})
    assert together.shape == (7, 50)
    for row, value in zip(together, values, strict=True):
        assert_allclose(row, solver.at_sites(sites, **{name: value})[0], rtol=0, atol=1e-14)
        assert_allclose(row, solver.field(**{name: value}).ravel()[sites], rtol=0, atol=1e-14)


def test_block_boundaries_make_no_difference(monkeypatch):
    solver, sites = small(BURGERS), np.arange(18000, 18100)
    nu = np.linspace(0.01, 0.05, explicit.BLOCK + 3)
    across = solver.at_sites(sites, nu=nu)
    assert across.shape == (len(nu), 100)
    monkeypatch.setattr(explicit, "BLOCK", len(nu))
    assert_allclose(across, solver.at_sites(sites, nu=nu), rtol=0, atol=1e-14)


def test_sites_may_come_in_any_order_and_twice():
    solver = small(ALLEN_CAHN)
    sites = np.array([5000, 0, 301 * 61 - 1, 5000, 17])
    (values,) = solver.at_sites(sites, lam=5.0)
    assert_array_equal(values, solver.field(lam=5.0).ravel()[sites])


def test_points_are_x_and_t_of_flat_time_by_space_indices():
    solver = ExplicitSolver(BUCKLEY_LEVERETT, levels=6, nodes=5)
    assert_allclose(solver.points([0, 7, 29]), [[0, 0], [0.5, 0.1], [1, 0.5]], atol=1e-15)


@EVERY_PROBLEM
def test_true_field_is_kept_and_cannot_be_changed(problem):
    solver = small(problem)
    assert_array_equal(solver.true_field(), solver.field(**truth_of(problem)))
    assert small(problem).true_field() is solver.true_field()
    with pytest.raises(ValueError, match="read-only"):
        solver.true_field()[0, 0] = 1


# Initial and boundary conditions, on the grid of the study.


def test_burgers_conditions():
    solver = get_solver("burgers")
    u = solver.true_field()
    assert_allclose(u[0], -np.sin(np.pi * np.linspace(-1, 1, 201)), rtol=0, atol=1e-15)
    assert_array_equal(u[1:, [0, -1]], 0.0)
    assert_allclose(u, -u[:, ::-1], rtol=0, atol=1e-12)  # the field stays odd


def test_buckley_leverett_conditions():
    solver = get_solver("buckley-leverett")
    u = solver.true_field()
    assert solver.x[50] == 0.25
    assert_array_equal(u[0], np.r_[np.ones(50), np.zeros(151)])  # zero at x = 0.25 itself
    assert_array_equal(u[:, 0], 1.0)
    assert_array_equal(u[:, -1], 0.0)


def test_allen_cahn_conditions():
    solver = get_solver("allen-cahn")
    u = solver.true_field()
    assert_allclose(u[0], solver.x**2 * np.cos(np.pi * solver.x), rtol=0, atol=1e-15)
    assert_array_equal(u[1:, 0], u[1:, 1])
    assert_array_equal(u[1:, -1], u[1:, -2])


@EVERY_PROBLEM
@pytest.mark.parametrize(("fidelity", "shape"), [("fine", (2001, 201)), ("coarse", (501, 101))])
def test_declared_grids(problem, fidelity, shape):
    solver = get_solver(problem.name, fidelity)
    assert (solver.problem, solver.shape) == (problem, shape)
    assert (solver.x[0], solver.x[-1]) == problem.domain["x"]
    assert (solver.t[0], solver.t[-1]) == problem.domain["t"]


def test_unknown_fidelity():
    with pytest.raises(InputError, match='"fine" or "coarse", got \'medium\''):
        get_solver("burgers", "medium")


# Instability.


def test_burgers_bank_has_26_unstable_entries():
    nu = np.geomspace(0.002, 0.05, 241)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = get_solver("burgers").at_sites([0, 2000 * 201 + 90], nu=nu)
    assert_array_equal(np.isnan(values).all(axis=1), np.arange(241) < 26)
    assert np.isfinite(values[26:]).all()


def test_an_unstable_row_is_nan_from_the_start_and_alone():
    solver = ExplicitSolver(BURGERS, levels=101, nodes=101)
    stable, unstable = 0.015, 0.05
    first_and_last = [1, 100 * 101 + 40]
    values = solver.at_sites(first_and_last, nu=[stable, unstable, stable])
    assert_array_equal(np.isnan(values), [[False] * 2, [True] * 2, [False] * 2])
    assert_array_equal(values[0], values[2])


# Interpolation.


@EVERY_PROBLEM
def test_interpolation_is_exact_on_grid_nodes(problem):
    solver = small(problem)
    name, values = some_values(problem)
    sites = np.append(np.arange(0, 301 * 61, 10), 301 * 61 - 1)
    at_nodes = solver.at_points(solver.points(sites), **{name: values})
    assert_allclose(at_nodes, solver.at_sites(sites, **{name: values}), rtol=0, atol=1e-13)


def test_interpolation_inside_a_cell():
    solver = ExplicitSolver(BURGERS, levels=9, nodes=5)
    u = solver.field(nu=0.05)
    # A quarter into the second cell along x, three quarters into the third along t.
    quarter = [-1 + 1.25 * 0.5, 2.75 * 0.125]
    middle = [-0.25, 0.5625]
    by_hand = [
        0.25 * (0.75 * u[2, 1] + 0.25 * u[2, 2]) + 0.75 * (0.75 * u[3, 1] + 0.25 * u[3, 2]),
        u[4:6, 1:3].mean(),
    ]
    found = solver.at_points(np.array([quarter, middle]), nu=0.05)
    assert_allclose(found, [by_hand], rtol=1e-14)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ((-1.01, 0.5), r"x inside the domain \[-1, 1\], got 1 values outside, such as -1.01"),
        ((1.01, 0.5), "x inside the domain"),
        ((0.0, -0.01), r"t inside the domain \[0, 1\]"),
        ((0.0, 1.01), "such as 1.01"),
        ((0.0, np.nan), "such as nan"),
    ],
)
def test_points_outside_the_domain(point, message):
    with pytest.raises(InputError, match=message):
        small(BURGERS).at_points(np.array([(0.0, 0.5), point]), nu=0.01)


# Accuracy.


def cole_hopf(x, t, nu):
    """Exact solution for ``u(x, 0) = -sin(pi x)``: two heat integrals, by Gauss–Hermite."""
    z, weight = hermgauss(80)
    y = x[:, None] - 2 * np.sqrt(nu * t) * z
    heat = weight * np.exp(-np.cos(np.pi * y) / (2 * np.pi * nu))
    return -(heat * np.sin(np.pi * y)).sum(axis=1) / heat.sum(axis=1)


def test_burgers_converges_to_the_exact_solution():
    """Second order in space and first in time: four time steps for each halving of dx."""
    nu, errors = 0.05, []
    for levels, nodes in [(101, 51), (401, 101), (1601, 201)]:
        solver = ExplicitSolver(BURGERS, levels, nodes)
        u = solver.field(nu=nu)
        half, end = u[(levels - 1) // 2], u[-1]
        errors.append(
            max(
                abs(half - cole_hopf(solver.x, 0.5, nu)).max(),
                abs(end - cole_hopf(solver.x, 1.0, nu)).max(),
            )
        )
    assert errors[-1] < 1.2e-3
    assert_allclose(np.divide(errors[:-1], errors[1:]), 4, rtol=0.05)


@pytest.mark.parametrize("site", [-1, 11 * 13])
def test_sites_outside_the_field_are_refused(site):
    solver = ExplicitSolver(BURGERS, 11, 13)
    with pytest.raises(InputError, match="sites from 0 to 142"):
        solver.at_sites([0, site], nu=0.01)

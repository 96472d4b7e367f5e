"""The steady solver against its manufactured field and an independent sparse assembly."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from twoaxis.forward import SparseSolver, get_solver
from twoaxis.problems import DARCY, truth_of

SOLVER = SparseSolver(DARCY, nodes=17)
PARAMETERS = {"lambda_0": np.array([0.15, -1.5, 1.5]), "lambda_1": np.array([0.85, 2.5, -1.0])}
EACH = [{name: float(v[i]) for name, v in PARAMETERS.items()} for i in range(3)]


def grid(solver):
    return np.meshgrid(solver.x, solver.x)


def test_second_order_convergence_to_the_manufactured_field():
    solvers = [SparseSolver(DARCY, nodes) for nodes in (17, 33, 65)]
    errors = [abs(s.true_field() - DARCY.field(*grid(s))).max() for s in solvers]
    assert errors[-1] < 1e-3
    assert_allclose(np.divide(errors[:-1], errors[1:]), 4, rtol=0.05)


@pytest.mark.parametrize("parameters", EACH, ids=str)
def test_field_solves_the_discrete_equation(parameters):
    """``G' K G u = f`` at the inner nodes, with differences G on a staggered grid."""
    n, x = SOLVER.nodes, SOLVER.x
    half = (x[1:] + x[:-1]) / 2
    d = sparse.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(n - 1, n)) * (n - 1)
    along_x, along_y = sparse.kron(sparse.eye_array(n), d), sparse.kron(d, sparse.eye_array(n))

    def conductivity(x, y):
        s = np.sin(np.pi * x) * np.sin(np.pi * y)
        return sparse.diags_array(
            np.exp(parameters["lambda_0"] + parameters["lambda_1"] * s).ravel()
        )

    operator = along_x.T @ conductivity(*np.meshgrid(half, x)) @ along_x
    operator += along_y.T @ conductivity(*np.meshgrid(x, half)) @ along_y
    u = SOLVER.field(**parameters)
    left = (operator @ u.ravel()).reshape(n, n)
    source = DARCY.source(*grid(SOLVER))
    inner = np.s_[1:-1, 1:-1]
    assert_allclose(left[inner], source[inner], rtol=0, atol=1e-11 * abs(source).max())
    boundary = np.ones((n, n), dtype=bool)
    boundary[inner] = False
    assert_array_equal(u[boundary], DARCY.field(*grid(SOLVER))[boundary])


def test_boundary_values_are_those_of_the_field():
    """The scheme is exact for a linear field, here one that no side leaves at zero."""
    linear = replace(DARCY, field=lambda x, y: 1 + 2 * x - 3 * y, source=lambda x, y: 0 * (x + y))
    solver = SparseSolver(linear, nodes=9)
    x, y = grid(solver)
    assert_allclose(solver.field(lambda_0=0.7, lambda_1=0.0), 1 + 2 * x - 3 * y, atol=1e-14)


def test_permeability_s_first_number_scales_the_field():
    """``exp(lambda_0)`` multiplies the operator and the boundary is zero."""
    fields = [SOLVER.field(lambda_0=value, lambda_1=0.85) for value in (0.0, 1.0)]
    assert_allclose(fields[0], np.e * fields[1], rtol=0, atol=1e-14)


def test_points_are_x_and_y_of_flat_y_by_x_indices():
    solver = SparseSolver(DARCY, nodes=5)
    assert_array_equal(solver.points([0, 7, 24]), [[0, 0], [0.5, 0.25], [1, 1]])
    assert solver.shape == (5, 5)


def test_sites_and_points_give_one_row_for_each_parameter():
    sites = np.array([200, 3, 40, 288, 200])
    wanted = [SOLVER.field(**p).ravel()[sites] for p in EACH]
    assert_array_equal(SOLVER.at_sites(sites, **PARAMETERS), wanted)
    assert_allclose(SOLVER.at_points(SOLVER.points(sites), **PARAMETERS), wanted, atol=1e-14)


def test_one_value_serves_a_whole_vector():
    sites = np.arange(289)
    broadcast = SOLVER.at_sites(sites, lambda_0=0.15, lambda_1=PARAMETERS["lambda_1"])
    for row, value in zip(broadcast, PARAMETERS["lambda_1"], strict=True):
        assert_array_equal(row, SOLVER.field(lambda_0=0.15, lambda_1=value).ravel())


def test_interpolation_inside_a_cell():
    u = SOLVER.true_field()
    # A quarter into the fourth cell along x, three quarters into the sixth along y.
    point = np.array([[3.25 / 16, 5.75 / 16]])
    by_hand = 0.25 * (0.75 * u[5, 3] + 0.25 * u[5, 4]) + 0.75 * (0.75 * u[6, 3] + 0.25 * u[6, 4])
    assert_allclose(SOLVER.at_points(point, **truth_of(DARCY)), [[by_hand]], rtol=1e-13)


def test_declared_grids():
    fine, coarse = get_solver("darcy"), get_solver("darcy", "coarse")
    assert isinstance(fine, SparseSolver)
    assert fine.problem is coarse.problem is DARCY
    assert fine.nodes - 1 == 2 * (coarse.nodes - 1)
    assert (fine.x[0], fine.x[-1]) == DARCY.domain["x"] == DARCY.domain["y"]

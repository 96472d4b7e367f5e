"""The field of a run: soft and exact, in all four problems, against nested differentiation."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from twoaxis.problems import PROBLEMS
from twoaxis.training import Network
from twoaxis.training.network import field_arrays, field_derivatives, field_value

EVERY_PROBLEM = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
BOTH_CONDITIONS = pytest.mark.parametrize("conditions", ["soft", "exact"])
BOTH_LIBRARIES = pytest.mark.parametrize("xp", [np, jnp], ids=["NumPy", "JAX"])


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def inside(problem, count=25):
    """Points away from t = 0, where the formulas of the ansatz have no derivative by machine."""
    low, high = np.array(list(problem.domain.values())).T
    unit = np.random.default_rng(4).uniform(0.1, 0.95, (count, 2))
    return low + (high - low) * unit


def layers_of(width=9, depth=2, seed=0):
    layers = Network(width, depth).initial(2, np.random.default_rng(seed))
    return [(1.5 * weight, 1.5 * bias) for weight, bias in layers]


@EVERY_PROBLEM
@BOTH_CONDITIONS
@BOTH_LIBRARIES
def test_field_and_derivatives(made, problem, conditions, xp):
    points, layers = inside(problem), layers_of()
    arrays = field_arrays(problem, conditions, points)

    def both(layers, arrays):
        found = field_derivatives(layers, arrays, tuple(problem.domain), problem.derivatives, xp)
        return found, field_value(layers, arrays, xp)

    found, value = (both if xp is np else jax.jit(both))(layers, arrays)
    wanted = nested(made, problem.name, conditions)
    assert set(found) == set(problem.derivatives)
    for name in found:
        size = np.abs(wanted[name]).max()
        assert_allclose(found[name], wanted[name], rtol=1e-11, atol=1e-13 * size, err_msg=name)
    assert_allclose(value, wanted["u"], rtol=1e-12, atol=1e-14)


WANTED = {}


def nested(made, name, conditions):
    """By differentiating twice; compiled once for both libraries."""
    if (name, conditions) not in WANTED:
        call = jax.jit(partial(made.nested_derivatives, name, conditions))
        WANTED[name, conditions] = call(layers_of(), inside(PROBLEMS[name]))
    return WANTED[name, conditions]


@EVERY_PROBLEM
def test_soft_fields_read_raw_coordinates(problem):
    points = inside(problem)
    arrays = field_arrays(problem, "soft", points)
    assert list(arrays) == ["inputs"]
    np.testing.assert_array_equal(arrays["inputs"], points.T)


@EVERY_PROBLEM
def test_exact_conditions_change_the_field(problem):
    points, layers = inside(problem), layers_of()
    soft, exact = (
        field_value(layers, field_arrays(problem, conditions, points), np)
        for conditions in ("soft", "exact")
    )
    assert np.abs(soft - exact).max() > 0.01

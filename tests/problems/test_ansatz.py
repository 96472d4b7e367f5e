"""Exact conditions for any network, and every derivative against one taken independently."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from twoaxis.errors import InputError
from twoaxis.forward import get_solver
from twoaxis.problems import (
    ALLEN_CAHN,
    BUCKLEY_LEVERETT,
    BURGERS,
    DARCY,
    PROBLEMS,
    SCALAR_BENCHMARKS,
    FixedEnds,
    compose,
)
from twoaxis.problems.allen_cahn import layer
from twoaxis.problems.ansatz import Ansatz, identity
from twoaxis.problems.buckley_leverett import smoothed_step

jax = pytest.importorskip("jax")  # derivatives are compared with automatic ones
jnp = pytest.importorskip("jax.numpy")
erfc = pytest.importorskip("jax.scipy.special").erfc

EVERY_PROBLEM = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
EVERY_EVOLUTION = pytest.mark.parametrize(
    "problem", SCALAR_BENCHMARKS, ids=[problem.name for problem in SCALAR_BENCHMARKS]
)
EVERY_SEED = pytest.mark.parametrize(
    "seed", [0, *(pytest.param(k, marks=pytest.mark.long) for k in (1, 2))]
)
PRECISIONS = pytest.mark.parametrize("dtype", [np.float64, np.float32])


class Sines:
    """``N = sum_k a_k sin(p_k s_1 + q_k s_2 + r_k)``, of the inputs ``s``."""

    def __init__(self, seed, scale=1.0):
        rng = np.random.default_rng(seed)
        self.amplitudes = scale * rng.normal(size=12)
        self.waves = rng.normal(scale=6, size=(12, 2))
        self.phases = rng.uniform(0, 2 * np.pi, 12)

    def __call__(self, first, second):
        """One point, in JAX."""
        angles = self.waves @ jnp.stack([first, second]) + self.phases
        return self.amplitudes @ jnp.sin(angles)

    def derivatives(self, problem, points, dtype=np.float64):
        """By the coordinates, through the chain rule, then rounded to `dtype`."""
        inputs = problem.ansatz.inputs(points)
        angles = inputs.values @ self.waves.T + self.phases
        result = {"u": np.sin(angles) @ self.amplitudes}
        for i, axis in enumerate(problem.domain):
            first, second = (part[:, :, i] @ self.waves.T for part in inputs[1:])
            result[f"u_{axis}"] = (np.cos(angles) * first) @ self.amplitudes
            result[f"u_{axis * 2}"] = (
                np.cos(angles) * second - np.sin(angles) * first**2
            ) @ self.amplitudes
        return {key: result[key].astype(dtype) for key in problem.derivatives}


def composed(problem, network, points, dtype=np.float64):
    return compose(
        network.derivatives(problem, points, dtype),
        problem.ansatz.lift(points),
        problem.ansatz.factor(points),
    )


# ------------------------------------------------------------------ the conditions


def closeness(got, wanted):
    """Relative L2 distance."""
    return np.linalg.norm(got - wanted) / np.linalg.norm(wanted)


@EVERY_PROBLEM
def test_every_problem_has_an_ansatz_in_its_own_names(problem):
    points = np.array([[0.3, 0.2], [0.7, 0.4]])
    for part in (problem.ansatz.lift, problem.ansatz.factor):
        arrays = part(points)
        assert tuple(arrays) == problem.derivatives
        assert all(v.shape == (2,) and v.dtype == np.float64 for v in arrays.values())
    inputs = problem.ansatz.inputs(points)
    assert [v.shape for v in inputs] == [(2, 2), (2, 2, 2), (2, 2, 2)]
    assert all(v.dtype == np.float64 for v in inputs)


@EVERY_EVOLUTION
@EVERY_SEED
@PRECISIONS
def test_initial_condition(problem, seed, dtype):
    solver = get_solver(problem)
    points = solver.points(np.arange(solver.nodes))  # the first time level
    assert (points[:, 1] == 0).all()
    wanted = problem.initial(solver.x)
    # A network a thousand times larger than the field changes nothing.
    u = composed(problem, Sines(seed, scale=1e3), points, dtype)["u"]
    assert closeness(u, wanted) < 1e-6
    assert_array_equal(u, wanted)
    assert_array_equal(problem.ansatz.factor(points)["u"], 0)


def test_initial_step_is_the_declared_one_at_its_own_node():
    beside = [np.nextafter(0.25, 0), 0.25, np.nextafter(0.25, 1)]
    points = np.column_stack([beside, np.zeros(3)])
    assert_array_equal(composed(BUCKLEY_LEVERETT, Sines(0), points)["u"], [1, 0, 0])
    assert 0.25 in get_solver(BUCKLEY_LEVERETT).x


@EVERY_EVOLUTION
@EVERY_SEED
@PRECISIONS
def test_ends_at_all_times(problem, seed, dtype):
    solver = get_solver(problem)
    t = np.concatenate([solver.t[1:], np.geomspace(1e-300, solver.t[1], 50)])
    network = Sines(seed, scale=1e3)
    for side, end in zip(("left", "right"), problem.domain["x"], strict=True):
        u = composed(problem, network, np.column_stack([np.full_like(t, end), t]), dtype)
        if isinstance(problem.ends, FixedEnds):
            assert abs(u["u"] - getattr(problem.ends, side)).max() < 1e-15
        else:
            assert abs(u["u_x"]).max() < 1e-11  # 1e-15 of the network's slope


def test_buckley_leverett_ends_have_no_rounding_error():
    t = np.concatenate([[0], np.geomspace(1e-300, 0.5, 1000)])
    for end, value in ((0.0, 1.0), (1.0, 0.0)):
        points = np.column_stack([np.full_like(t, end), t])
        assert_array_equal(BUCKLEY_LEVERETT.ansatz.lift(points)["u"], value)


@EVERY_SEED
@PRECISIONS
def test_darcy_boundary(seed, dtype):
    solver = get_solver(DARCY)
    points = solver.points(np.arange(np.prod(solver.shape)))
    edge = np.isin(points, [0, 1]).any(axis=1)
    assert edge.sum() == 4 * 48
    u = composed(DARCY, Sines(seed, scale=1e3), points[edge], dtype)["u"]
    assert_array_equal(u, 0)
    assert_allclose(u, DARCY.field(*points[edge].T), atol=1e-15)


@EVERY_PROBLEM
def test_conditions_survive_single_precision_throughout(problem):
    """As a training has it: every array in float32, composed in JAX."""
    solver = get_solver(problem)
    rows, columns = np.unravel_index(np.arange(np.prod(solver.shape)), solver.shape)
    given = np.isin(columns, [0, solver.shape[1] - 1])
    given |= (rows == 0) | ((rows == solver.shape[0] - 1) & (problem is DARCY))
    points = solver.points(np.flatnonzero(given))
    parts = (
        Sines(4).derivatives(problem, points),
        problem.ansatz.lift(points),
        problem.ansatz.factor(points),
    )
    u = compose(*({k: jnp.asarray(v, jnp.float32) for k, v in part.items()} for part in parts))
    assert all(v.dtype == jnp.float32 for v in u.values())
    x, second = points.T
    if problem is DARCY:
        assert abs(u["u"]).max() < 1e-6
        return
    start = second == 0
    assert closeness(np.asarray(u["u"])[start], problem.initial(x[start])) < 1e-6
    for side, end in zip(("left", "right"), problem.domain["x"], strict=True):
        there = (x == end) & ~start
        if isinstance(problem.ends, FixedEnds):
            assert abs(u["u"][there] - getattr(problem.ends, side)).max() < 1e-6
        else:
            assert abs(u["u_x"][there]).max() < 1e-6


@EVERY_PROBLEM
def test_factor_is_of_order_one_and_positive_inside(problem):
    factor = problem.ansatz.factor(samples(problem))["u"]
    assert factor.max() < 1 + 1e-12
    (low_x, high_x), (low, high) = problem.domain.values()
    inside = np.array([[low_x + 0.5 * (high_x - low_x), 0.5 * (low + high)]])
    assert 0.4 < problem.ansatz.factor(inside)["u"] <= 1


# ------------------------------------------------------------------ the derivatives


def ierfc(z):
    return jnp.exp(-(z**2)) / jnp.sqrt(jnp.pi) - z * erfc(z)


def corner_layer(s, t):
    width = jnp.sqrt(4 * 0.001 * t)
    return 2 * width * ierfc(s / width)


def step(x, t):
    return 0.5 * erfc((x - 0.25) / jnp.sqrt(4 * 0.01 * t))


# Lift, factor and inputs of one point, by hand; JAX differentiates them.
BY_HAND = {
    "burgers": (
        lambda x, t: -jnp.sin(jnp.pi * x) + 0 * t,
        lambda x, t: t * (1 - x**2),
        lambda x, t: (x, t),
    ),
    "buckley-leverett": (
        lambda x, t: step(x, t) - (1 - x) * (step(0, t) - 1) - x * step(1, t),
        lambda x, t: jnp.sqrt(2 * t) * 4 * x * (1 - x),
        lambda x, t: (x, t),
    ),
    "allen-cahn": (
        lambda x, t: x**2 * jnp.cos(jnp.pi * x) + corner_layer(1 - x, t) + corner_layer(1 + x, t),
        lambda x, t: t + 0 * x,
        lambda x, t: (jnp.sin(jnp.pi * x / 2), t),
    ),
    "darcy": (
        lambda x, y: 0 * x * y,
        lambda x, y: 16 * x * (1 - x) * y * (1 - y),
        lambda x, y: (x, y),
    ),
}


def samples(problem):
    """Points all over the domain; near t = 0 also where layers are thin."""
    rng = np.random.default_rng(3)
    low, high = np.array(list(problem.domain.values())).T
    points = low + (high - low) * rng.random((300, 2))
    if problem is DARCY:
        return points
    early = []
    for t in (1e-6, 1e-4, 1e-2):
        for middle in (low[0], 0.25, high[0]):
            x = np.clip(middle + np.sqrt(t) * rng.normal(scale=0.1, size=40), low[0], high[0])
            early.append(np.column_stack([np.append(x, middle), np.full(41, t)]))
    return np.concatenate([points, *early])


def by_autodiff(function, problem, points):
    """All declared derivatives of a function of two numbers, in float64."""
    axes = list(problem.domain)
    with jax.enable_x64(True):
        results = {}
        for key in problem.derivatives:
            derivative = function
            for axis in key.partition("_")[2]:
                derivative = jax.grad(derivative, argnums=axes.index(axis))
            results[key] = np.asarray(jax.jit(jax.vmap(derivative))(*jnp.asarray(points).T))
    return results


def assert_same(got, wanted, rtol=1e-11):
    assert got.keys() == wanted.keys()
    for key, values in wanted.items():
        atol = 1e-13 * max(1, abs(values).max())
        assert_allclose(got[key], values, rtol=rtol, atol=atol, err_msg=key)


@EVERY_PROBLEM
def test_derivatives_of_lift_and_factor(problem):
    points = samples(problem)
    lift, factor, _ = BY_HAND[problem.name]
    assert_same(problem.ansatz.lift(points), by_autodiff(lift, problem, points))
    assert_same(problem.ansatz.factor(points), by_autodiff(factor, problem, points))


def test_blend_of_the_mismatch_long_after_the_last_time():
    """Inside the domain the right end is missed by 3e-14; by t = 20 by a tenth."""
    points = np.random.default_rng(6).uniform([0, 5], [1, 20], (100, 2))
    wanted = by_autodiff(BY_HAND["buckley-leverett"][0], BUCKLEY_LEVERETT, points)
    assert_same(BUCKLEY_LEVERETT.ansatz.lift(points), wanted)


@EVERY_PROBLEM
def test_derivatives_of_inputs(problem):
    points = samples(problem)
    inputs = problem.ansatz.inputs(points)
    for i, axis in enumerate(problem.domain):

        def one(x, y, i=i):
            return BY_HAND[problem.name][2](x, y)[i]

        with jax.enable_x64(True):
            columns = jnp.asarray(points).T
            slope = jax.grad(one, argnums=i)
            values = jax.vmap(one)(*columns)
            first = jax.vmap(slope)(*columns)
            second = jax.vmap(jax.grad(slope, argnums=i))(*columns)
            other = jax.vmap(jax.grad(one, argnums=1 - i))(*columns)
        assert_allclose(inputs.values[:, i], values, rtol=1e-14, err_msg=axis)
        assert_allclose(inputs.first[:, i, i], first, rtol=1e-13, atol=1e-15, err_msg=axis)
        assert_allclose(inputs.second[:, i, i], second, rtol=1e-13, err_msg=axis)
        assert_array_equal(other, 0)  # each input depends on one coordinate alone
        assert_array_equal(inputs.first[:, i, 1 - i], 0)
        assert_array_equal(inputs.second[:, i, 1 - i], 0)


def test_derivatives_of_the_variables_of_a_layer():
    points = samples(BUCKLEY_LEVERETT)
    found = BUCKLEY_LEVERETT.ansatz.layer_inputs(points)

    def variables(z):
        x, t = z
        return jnp.stack([x, t, jnp.sqrt(2 * t), erfc((x - 0.25) / jnp.sqrt(0.04 * t)) / 2])

    with jax.enable_x64(True):
        values = jax.vmap(variables)(jnp.asarray(points))
        first = jax.vmap(jax.jacfwd(variables))(jnp.asarray(points))
        second = jax.vmap(jax.jacfwd(jax.jacfwd(variables)))(jnp.asarray(points))
    assert_allclose(found.values, values, rtol=1e-13, atol=1e-15)
    for got, wanted in ((found.first, first), (found.second, np.einsum("nmaa->nma", second))):
        assert_allclose(got, wanted, rtol=1e-9, atol=1e-12 * np.abs(wanted).max())


@EVERY_PROBLEM
@EVERY_SEED
def test_derivatives_of_the_composed_field(problem, seed):
    points, network = samples(problem), Sines(seed)
    lift, factor, inputs = BY_HAND[problem.name]

    def field(x, y):
        return lift(x, y) + factor(x, y) * network(*inputs(x, y))

    got = composed(problem, network, points)
    assert_same(got, by_autodiff(field, problem, points), rtol=1e-10)


@EVERY_PROBLEM
def test_finite_on_the_closed_domain(problem):
    (low_x, high_x), (low, high) = problem.domain.values()
    tiny = np.array([0, 5e-324, 1e-310, 1e-200, 1e-30, 1e-16, 1e-8, 1e-4])
    x = np.concatenate([np.linspace(low_x, high_x, 201), low_x + tiny, high_x - tiny, 0.25 + tiny])
    x = np.clip(np.concatenate([x, [np.nextafter(0.25, 0)]]), low_x, high_x)
    y = np.concatenate([np.linspace(low, high, 41), low + tiny])
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    parts = (problem.ansatz.lift(points), problem.ansatz.factor(points))
    maps = [read for read in (problem.ansatz.inputs, problem.ansatz.layer_inputs) if read]
    for arrays in (*parts, *(read(points)._asdict() for read in maps)):
        for key, values in arrays.items():
            assert np.isfinite(values).all(), key
    for key, values in composed(problem, Sines(1), points).items():
        assert np.isfinite(values).all(), key


# ------------------------------------------------------------------ the layers


def test_corner_layer_conducts_heat():
    """``c_t = D c_ss`` and ``c_s(0, t) = -2``; nothing is left of it at the start."""
    rng = np.random.default_rng(0)
    t = np.concatenate([rng.random(200), np.full(200, 1e-4)])
    s = np.sqrt(t) * rng.random(400) * 0.2
    got = dict(zip(("c", "c_s", "c_ss"), layer(s, t), strict=True))
    with jax.enable_x64(True):
        slope = jax.grad(corner_layer)
        at = jnp.asarray(s), jnp.asarray(t)
        assert_allclose(got["c"], jax.vmap(corner_layer)(*at), rtol=1e-11, atol=1e-17)
        assert_allclose(got["c_s"], jax.vmap(slope)(*at), rtol=1e-11)
        assert_allclose(got["c_ss"], jax.vmap(jax.grad(slope))(*at), rtol=1e-11)
        c_t = jax.vmap(jax.grad(corner_layer, argnums=1))(*at)
    assert_allclose(c_t, 0.001 * got["c_ss"], rtol=1e-11)
    assert_array_equal(layer(np.zeros(3), np.array([1e-300, 1e-4, 1.0]))[1], -2)
    assert_array_equal(layer(np.linspace(0, 2, 50), np.zeros(50)), 0)


def test_smoothed_step_conducts_heat_and_has_the_slope_of_the_step_at_the_start():
    x = np.linspace(0, 1, 101)
    s = smoothed_step(x, np.full(101, 1e-3))
    assert_allclose(s["u_t"], 0.01 * s["u_xx"], rtol=1e-15)
    at_start = smoothed_step(x, np.zeros(101))
    assert_array_equal(at_start["u"], BUCKLEY_LEVERETT.initial(x))
    assert all((at_start[key] == 0).all() for key in ("u_t", "u_x", "u_xx"))


def test_allen_cahn_corners_keep_the_initial_slope_at_the_start():
    corners = np.array([[-1.0, 0.0], [1.0, 0.0]])
    lift = ALLEN_CAHN.ansatz.lift(corners)
    assert_array_equal(lift["u"], [-1, -1])
    assert_allclose(lift["u_x"], [2, -2], rtol=1e-15)
    later = ALLEN_CAHN.ansatz.lift(corners + np.array([0, 1e-12]))
    assert_allclose(later["u_x"], 0, atol=1e-14)


@pytest.mark.parametrize("problem", [BUCKLEY_LEVERETT, ALLEN_CAHN])
def test_times_before_the_start_are_refused(problem):
    with pytest.raises(InputError, match="times of zero and later") as caught:
        problem.ansatz.lift(np.array([[0.5, 0.1], [0.5, -0.1]]))
    assert caught.value.got == "t = -0.1"


# ------------------------------------------------------------------ compose


def test_compose_gives_what_the_network_gives():
    points = np.array([[0.3, 0.2]])
    lift, factor = BURGERS.ansatz.lift(points), BURGERS.ansatz.factor(points)
    assert list(compose({"u": np.ones(1)}, lift, factor)) == ["u"]
    assert compose({}, lift, factor) == {}


def test_compose_takes_mixed_derivatives_of_a_field_of_any_name():
    """``(x y) * (x^2 y)`` with a lift of ``x y``, at x = 2, y = 3, with plain numbers."""
    lift = {"p": 6.0, "p_x": 3.0, "p_y": 2.0, "p_xy": 1.0}
    network = {"p": 12.0, "p_x": 12.0, "p_y": 4.0, "p_xy": 4.0}
    got = compose(network, lift, lift)
    assert got == {"p": 78.0, "p_x": 111.0, "p_y": 50.0, "p_xy": 73.0}


@pytest.mark.parametrize(
    ("which", "missing"), [("network", "u_x"), ("lift", "u_xx"), ("factor", "u")]
)
def test_compose_says_what_is_missing(which, missing):
    parts = {name: dict(u=1.0, u_x=1.0, u_xx=1.0) for name in ("network", "lift", "factor")}
    del parts[which][missing]
    with pytest.raises(InputError) as caught:
        compose(**parts)
    assert f'the {which}\'s "{missing}"' in caught.value.expected
    assert caught.value.fix == f'add "{missing}" to the {which}'


def test_inputs_are_the_coordinates_unless_said_otherwise():
    assert Ansatz(lift=dict, factor=dict).inputs is identity
    points = np.array([[0.3, 0.2], [0.1, 0.4]])
    values, first, second = identity(points)
    assert_array_equal(values, points)
    assert_array_equal(first, np.stack([np.eye(2)] * 2))
    assert (second == 0).all()


@EVERY_EVOLUTION
def test_parts_stay_in_the_precision_of_the_points(problem):
    x, t = (np.linspace(*ends, 7) for ends in problem.domain.values())
    points = np.column_stack([x, t]).astype(np.float32)
    mapped = problem.ansatz.inputs(points)
    arrays = [*problem.ansatz.lift(points).values(), *problem.ansatz.factor(points).values()]
    assert {array.dtype for array in (*arrays, *mapped)} == {np.dtype(np.float32)}

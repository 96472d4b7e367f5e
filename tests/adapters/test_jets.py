"""A field in the place of a JAX model: jets, splines, and models that have no place for one."""

# ruff: noqa: E731 - short functions

import functools

import equinox as eqx
import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from numpy.testing import assert_allclose
from scipy.optimize import curve_fit

import twoaxis as ta
from twoaxis.adapters.built_in import has_built_in
from twoaxis.adapters.jax_jets import _Changes
from twoaxis.adapters.jets import JetFunction
from twoaxis.parameters import Parameters
from twoaxis.splines import TensorSplines

RATE = ta.Parameter(delivered=1.4, bounds=(0.05, 10.0))
LINE = np.linspace(0, 4, 40)[:, None]
PLANE = np.random.default_rng(0).uniform([-1, 0], [1, 2], (60, 2))


def mlp(inputs=1, outputs=1, width=8, seed=0):
    return eqx.nn.MLP(inputs, outputs, width, 2, activation=jnp.tanh, key=jax.random.key(seed))


def weights_tree(inputs=1, outputs=1):
    keys = jax.random.split(jax.random.key(1), 2)
    return [
        (jax.random.normal(keys[0], (8, inputs)), jnp.linspace(-1, 1, 8)),
        (jax.random.normal(keys[1], (outputs, 8)), jnp.ones(outputs)),
    ]


def apply(weights, x):
    (a, b), (c, d) = weights
    return jnp.tanh(x @ a.T + b) @ c.T + d


class Linen(linen.Module):
    outputs: int = 1

    @linen.compact
    def __call__(self, x):
        return linen.Dense(self.outputs)(jnp.tanh(linen.Dense(8)(x)))


class Nnx(nnx.Module):
    def __init__(self, inputs=1, outputs=1):
        rngs = nnx.Rngs(0)
        self.first = nnx.Linear(inputs, 8, rngs=rngs)
        self.second = nnx.Linear(8, outputs, rngs=rngs)

    def __call__(self, x):
        return self.second(jnp.tanh(self.first(x)))


class ByNumber(eqx.Module):
    """Called with numbers, its coordinates."""

    body: eqx.nn.MLP
    scale: float = 2.0

    def __call__(self, *coordinates):
        return self.body(jnp.stack(coordinates) / 4)[0]


def linen_model(inputs=1, outputs=1):
    module = Linen(outputs)
    return module.bind(module.init(jax.random.key(2), jnp.zeros(inputs)))


def decay(model, t, rate):
    """Of a model of one point, or of all."""
    u = lambda one: model(one)[0]
    return jax.vmap(jax.grad(u))(t)[:, 0] + rate * jax.vmap(u)(t)


def decay_of_numbers(model, t, rate):
    return model.scale * (jax.vmap(jax.grad(model))(t[:, 0]) + rate * jax.vmap(model)(t[:, 0]))


def decay_of_batches(model, t, rate):
    _, slope = jax.jvp(model, (t,), (jnp.ones_like(t),))
    return slope + rate * model(t)


def burgers(model, xt, rate):
    """Second order and not linear, called with coordinates one by one."""

    def one(x, t):
        u, u_x, u_t = (f(x, t) for f in (model, jax.grad(model), jax.grad(model, 1)))
        return u_t + u * u_x - rate * jax.grad(jax.grad(model))(x, t)

    return jax.vmap(one)(xt[:, 0], xt[:, 1])


def predators(model, t, rate):
    (u, v), (du, dv) = model(t).T, jax.vmap(jax.jacfwd(model))(t)[:, :, 0].T
    return {"prey": du - u + rate * u * v, "predators": dv + v - u * v}


def fixed(model):
    """Conditions at places of their own, a value and a slope."""
    inputs = 2 if isinstance(getattr(model, "scale", 0), tuple) else 1
    at = jnp.zeros((3, inputs)) + jnp.linspace(0, 1, 3)[:, None]
    u = lambda one: jnp.ravel(model(one))[0]
    return jax.vmap(u)(at) - 1.0, jax.grad(u)(at[1])


def of_points(model, t):
    return jax.vmap(model)(t)


def of_numbers(model, at):
    return jax.vmap(model)(*at.T)


CASES = {
    "equinox": (lambda: mlp(), decay, LINE, of_points, fixed),
    "function": (
        lambda: jax.tree_util.Partial(apply, weights_tree()),
        jax.jit(decay_of_batches),
        LINE,
        None,
        fixed,
    ),
    "linen": (linen_model, decay_of_batches, LINE, None, fixed),
    "nnx": (lambda: Nnx(), decay, LINE, None, fixed),
    "numbers": (
        lambda: ByNumber(mlp()),
        decay_of_numbers,
        LINE,
        of_numbers,
        lambda model: (model(0.0) - 1.0, jax.grad(model)(0.5)),
    ),
    "plane": (
        lambda: ByNumber(mlp(2)),
        burgers,
        PLANE,
        of_numbers,
        lambda model: jax.vmap(model, (0, None))(jnp.linspace(-1, 1, 5), 0.0),
    ),
    "system": (lambda: linen_model(1, 2), predators, LINE, None, None),
}


@functools.cache
def case(name):
    model, residual, points, field, conditions = CASES[name]
    return ta.from_jax(
        model(), residual, {"rate": RATE}, points=points, field=field, conditions=conditions
    )


@functools.cache
def slot_of(name):
    found = case(name).weights.slot()
    assert found is not None
    return found


def spline_field(slot, points):
    low, high = points.min(axis=0), points.max(axis=0)
    splines = TensorSplines.on_box(low, high, [3] * slot.inputs)
    generator = np.random.default_rng(5)
    return splines, generator.uniform(0.5, 1.5, (splines.size, slot.outputs))


def jets_of(function: JetFunction, splines, coefficients, numbers, points):
    places = function.places(numbers, points)
    orders = function.orders_used(numbers, points, 1.0)
    return orders, np.stack([each @ coefficients for each in splines.design(places, orders)])


@pytest.mark.parametrize("name", CASES)
def test_jets_of_splines_give_what_the_frozen_splines_give(name):
    slot, frozen = slot_of(name), case(name)
    splines, coefficients = spline_field(slot, frozen.points)
    numbers = np.array([0.8])
    (function,) = slot.equations
    orders, jets = jets_of(function, splines, coefficients, numbers, frozen.points)
    found = function.values(jets, orders, numbers, frozen.points)
    again = slot.freeze(splines, coefficients, Parameters({"rate": RATE}))
    expected = np.reshape(again.residual(rate=0.8), found.T.shape).T
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("name", CASES)
def test_values_of_the_network_itself(name):
    slot, frozen = slot_of(name), case(name)
    numbers = np.array([1.4])
    found = slot.equations[0].of_network(numbers, frozen.points)
    assert_allclose(found.T.ravel(), np.ravel(frozen.residual(rate=1.4)), atol=1e-12)
    outputs = slot.observed.of_network(numbers, frozen.points)
    assert_allclose(slot.network(frozen.points), outputs, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_agree_with_differences(name):
    slot, points = slot_of(name), case(name).points[:7]
    splines, coefficients = spline_field(slot, case(name).points)
    numbers, generator = np.array([0.8]), np.random.default_rng(1)
    functions = [*slot.equations, slot.observed]
    if slot.conditions is not None:
        functions.append(slot.conditions)
    for function in functions:
        orders, jets = jets_of(function, splines, coefficients, numbers, points)
        found = function.linearized(jets, orders, numbers, points)
        assert_allclose(found.values, function.values(jets, orders, numbers, points), atol=1e-12)
        along = generator.standard_normal(jets.shape)
        ahead, behind = (
            function.values(jets + step * along, orders, numbers, points) for step in (1e-5, -1e-5)
        )
        one = "apem,apm->pe" if function.pointwise else "rapm,apm->r"
        slopes = np.einsum(one, found.by_jets, along).reshape(ahead.shape)
        assert_allclose(slopes, (ahead - behind) / 2e-5, atol=1e-7 * (1 + np.abs(slopes).max()))
        ahead, behind = (
            function.values(jets, orders, numbers + step, points) for step in (1e-5, -1e-5)
        )
        change = (ahead - behind) / 2e-5
        assert_allclose(found.by_numbers[:, :, 0], change, atol=1e-7 * (1 + np.abs(change).max()))


def test_orders_that_are_used():
    numbers = np.array([0.8])
    for name, expected in [
        ("equinox", [(0,), (1,)]),
        ("plane", [(0, 0), (0, 1), (1, 0), (2, 0)]),
    ]:
        points = case(name).points[:8]
        assert slot_of(name).equations[0].orders_used(numbers, points, 1.0) == expected


def test_conditions_are_asked_where_they_are():
    numbers = np.zeros(1)
    places = slot_of("equinox").conditions.places(numbers, np.zeros((1, 1)))
    assert_allclose(places, [[0.0], [0.5], [1.0]])
    places = slot_of("plane").conditions.places(numbers, np.zeros((1, 1)))
    assert_allclose(places, np.column_stack([np.linspace(-1, 1, 5), np.zeros(5)]), atol=1e-12)


def test_observing_points_and_means():
    slot, points, numbers = slot_of("equinox"), LINE[::4], np.zeros(1)
    splines, coefficients = spline_field(slot, LINE)
    (design,) = splines.design(points, [(0,)])
    field = design @ coefficients
    for of, expected in [
        (lambda model, at: jax.vmap(model)(at)[:, 0] ** 2, field**2),
        (lambda model, at: jax.vmap(model)(at) - jax.vmap(model)(at).mean(), field - field.mean()),
    ]:
        function = slot.observing(of)
        orders, jets = jets_of(function, splines, coefficients, numbers, points)
        assert_allclose(function.values(jets, orders, numbers, points), expected, rtol=1e-12)
    function = slot.observing(lambda model, at: model.layers[0](at[0]) * at)
    with pytest.raises(ta.InputError, match="outputs of the model"):
        function.places(numbers, points)


# ---------------------------------------------------------------- models without a place


class Hard(eqx.Module):
    """Zero at the ends, whatever its weights."""

    body: eqx.nn.MLP

    def __call__(self, x):
        return x * (4 - x) * self.body(x)


class Opaque(eqx.Module):
    first: eqx.nn.Linear
    second: eqx.nn.Linear
    around: object = eqx.field(static=True)

    def __init__(self, around, inputs=1, outputs=1):
        keys = jax.random.split(jax.random.key(0), 2)
        self.first = eqx.nn.Linear(inputs, 8, key=keys[0])
        self.second = eqx.nn.Linear(8, outputs, key=keys[1])
        self.around = around

    def __call__(self, x):
        network = lambda x: self.second(jnp.tanh(self.first(x)))
        return self.around(network, x)


def test_what_is_around_the_part_with_the_weights_stays():
    frozen = ta.from_jax(Hard(mlp()), decay, {"rate": RATE}, points=LINE, field=of_points)
    slot = frozen.weights.slot()
    assert slot.equations[0].core.path == ("body",)
    splines, coefficients = spline_field(slot, LINE)
    orders, jets = jets_of(slot.observed, splines, coefficients, np.zeros(1), LINE)
    field = slot.observed.values(jets, orders, np.zeros(1), LINE)
    assert_allclose(field, LINE * (4 - LINE) * jets[0], atol=1e-12)


BUILT_IN = {
    "at the ends": lambda f, x: x * (4 - x) * f(x),
    "at one end, a little off": lambda f, x: 1 + (x + 0.1) * f(x),
    "a slope": lambda f, x: f(x**2 / 4),
    "periodic": lambda f, x: f(jnp.sin(jnp.pi * x / 2)),
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_conditions_within_a_function_are_found(name):
    model = Opaque(BUILT_IN[name])
    frozen = ta.from_jax(model, decay, {"rate": RATE}, points=LINE, field=of_points)
    assert frozen.weights.slot() is None


def test_dependent_outputs_are_found():
    low, high = np.zeros(2), np.ones(2)

    def outputs(wrap):
        model = Opaque(lambda f, x: wrap(f, x), 2, 3)
        weights, rest = eqx.partition(model, eqx.is_array)
        vector, unravel = jax.flatten_util.ravel_pytree(weights)
        called = lambda w, x: eqx.combine(unravel(w), rest)(x)
        return _Changes(called, np.asarray(vector, float))

    assert not has_built_in(outputs(lambda f, x: f(x)), low, high)
    assert not has_built_in(outputs(lambda f, x: jnp.exp(f(x))), low, high)
    shares = outputs(lambda f, x: jax.nn.softmax(f(x)))
    assert has_built_in(shares, low, high)
    stream = outputs(lambda f, x: jax.grad(lambda y: f(y)[0])(x)[::-1] * jnp.array([1, -1]))
    assert has_built_in(stream, low, high)
    circle = outputs(lambda f, x: (0.2 - ((x - 0.5) ** 2).sum()) * f(x))
    assert has_built_in(circle, low, high)


def delayed(model, t, rate):
    before = lambda one: model(one - rate)[0]
    return jax.vmap(jax.grad(lambda one: model(one)[0]))(t)[:, 0] + jax.vmap(before)(t)


def with_weights(model, t, rate):
    return decay(model, t, rate) + (model.layers[0].weight ** 2).sum()


def by_parts(model, t, rate):
    return decay(lambda x: model.layers[-1](jnp.tanh(model.layers[0](x))), t, rate)


@pytest.mark.parametrize("residual", [delayed, with_weights, by_parts])
def test_models_that_are_seen_otherwise_have_no_place(residual):
    frozen = ta.from_jax(mlp(), residual, {"rate": RATE}, points=LINE, field=of_points)
    assert frozen.weights.slot() is None


def test_a_tree_of_weights_has_no_place():
    def residual(weights, t, rate):
        return decay_of_batches(functools.partial(apply, weights), t, rate)

    frozen = ta.from_jax(
        weights_tree(), residual, {"rate": RATE}, points=LINE, field=lambda w, t: apply(w, t)
    )
    assert frozen.weights.slot() is None


# ---------------------------------------------------------------- refinement


@pytest.mark.parametrize("name", ["numbers", "function"])
def test_a_refinement_is_least_squares_with_the_solution(name):
    model, residual, points, field, _ = CASES[name]
    noise = 0.02
    data = np.exp(-0.7 * LINE[:, 0]) + noise * np.random.default_rng(3).standard_normal(len(LINE))
    frozen = ta.from_jax(
        model(), residual, {"rate": RATE}, points=points, field=field, observed=LINE
    )
    found = ta.refine(frozen, data, noise=noise, progress=False)
    solution = lambda t, rate, start: start * np.exp(-rate * t)
    best, covariance = curve_fit(
        solution, LINE[:, 0], data, (1.0, 1.0), np.full(len(data), noise), absolute_sigma=True
    )
    error = covariance[0, 0] ** 0.5
    assert "splines" in str(found.attrs if hasattr(found, "attrs") else found.data.attrs)
    assert abs(found.values["rate"] - best[0]) < 0.02 * error
    assert abs(found.standard_error["rate"] / error - 1) < 0.02

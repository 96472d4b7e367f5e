"""The network: its start, and its derivatives against nested automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from twoaxis.errors import InputError
from twoaxis.training import Network
from twoaxis.training.network import derivative_orders, derivatives, value

ALL = ("u", "u_x", "u_t", "u_xx", "u_tt")


def raw(inputs):
    """Slopes of coordinates that are inputs themselves."""
    unit = np.eye(inputs)
    return [(unit[:, [k]], np.zeros((inputs, 1))) for k in range(inputs)]


RAW = raw(2)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def drawn(width, depth, inputs=2, seed=0, scale=1.0):
    layers = Network(width, depth).initial(inputs, np.random.default_rng(seed))
    return [(scale * weight, scale * bias) for weight, bias in layers]


def points(count=30, inputs=2):
    return np.random.default_rng(1).uniform(-1, 1, (count, inputs))


def nested(made, layers, where, axes):
    """Every first and second derivative by an axis, one point at a time."""

    def once(layers, z):
        return made.network_at(layers, z)

    each = [jax.vmap(f, (None, 0)) for f in (once, jax.grad(once, 1), jax.hessian(once, 1))]
    value, gradient, hessian = (f(layers, where) for f in each)
    found = {"u": value}
    for i, axis in enumerate(axes):
        found[f"u_{axis}"] = gradient[:, i]
        found[f"u_{axis * 2}"] = hessian[:, i, i]
    return found


@pytest.mark.parametrize("xp", [np, jnp], ids=["NumPy", "JAX"])
@pytest.mark.parametrize(
    ("width", "depth", "scale"), [(1, 1, 1.0), (5, 1, 2.0), (16, 3, 1.0), (7, 5, 1.5)]
)
def test_derivatives_are_those_of_nested_differentiation(made, xp, width, depth, scale):
    layers, where = drawn(width, depth, scale=scale), points()
    wanted = jax.jit(lambda *given: nested(made, *given, "xt"))(layers, where)
    found = compiled(xp)(layers, where.T)
    assert set(found) == set(ALL)
    for name in ALL:
        size = np.abs(wanted[name]).max()
        assert_allclose(found[name], wanted[name], rtol=1e-12, atol=1e-14 * size, err_msg=name)
    assert_allclose(value(layers, where.T, np), wanted["u"], rtol=1e-12, atol=1e-15)


def compiled(xp):
    """The derivatives as the engine takes them: with NumPy at once, with JAX in a program."""

    def call(layers, inputs):
        found = derivatives(layers, inputs, RAW, ("x", "t"), ALL, xp)
        assert_allclose_if_numpy(found["u"], value(layers, inputs, xp))
        return found

    return call if xp is np else jax.jit(call)


def assert_allclose_if_numpy(found, wanted):
    if isinstance(found, np.ndarray):
        assert_allclose(found, wanted, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("inputs", [1, 3])
def test_any_number_of_axes(made, inputs):
    axes = "xyt"[:inputs]
    layers, where = drawn(6, 2, inputs), points(9, inputs)
    wanted = jax.jit(lambda *given: nested(made, *given, axes))(layers, where)
    found = derivatives(layers, where.T, raw(inputs), axes, list(wanted), np)
    for name in wanted:
        assert_allclose(found[name], wanted[name], rtol=1e-11, atol=1e-14, err_msg=name)


def test_inputs_that_are_functions_of_the_coordinates(made):
    layers, where = drawn(8, 2, inputs=3), points()

    def bent(z):
        x, t = z
        return made.network_at(layers, jnp.stack([jnp.sin(2 * x), t**3, x * x * t]))

    x, t = where.T
    zero = np.zeros_like(x)
    slopes = [
        (
            np.stack([2 * np.cos(2 * x), zero, 2 * x * t]),
            np.stack([-4 * np.sin(2 * x), zero, 2 * t]),
        ),
        (np.stack([zero, 3 * t**2, x * x]), np.stack([zero, 6 * t, zero])),
    ]
    inputs = np.stack([np.sin(2 * x), t**3, x * x * t])
    found = derivatives(layers, inputs, slopes, ("x", "t"), ALL, np)
    gradient = jax.jit(jax.vmap(jax.grad(bent)))(where)
    hessian = jax.jit(jax.vmap(jax.hessian(bent)))(where)
    for i, axis in enumerate("xt"):
        assert_allclose(found[f"u_{axis}"], gradient[:, i], rtol=1e-11, atol=1e-14)
        assert_allclose(found[f"u_{axis * 2}"], hessian[:, i, i], rtol=1e-11, atol=1e-13)


def test_only_what_is_wanted_comes_back_and_in_that_order():
    found = derivatives(drawn(4, 2), points().T, RAW, ("x", "t"), ("u_xx", "u"), np)
    assert list(found) == ["u_xx", "u"]


def test_gradients_by_the_weights_through_the_derivatives(made):
    layers, where = drawn(6, 2), points(10)

    def ours(layers):
        found = derivatives(layers, where.T, RAW, ("x", "t"), ALL, jnp)
        return sum(jnp.sum(jnp.sin(part)) for part in found.values())

    def theirs(layers):
        found = nested(made, layers, where, "xt")
        return sum(jnp.sum(jnp.sin(found[name])) for name in ALL)

    left, right = (jax.jit(jax.grad(f))(layers) for f in (ours, theirs))
    assert_allclose(made.flat(left), made.flat(right), rtol=1e-11, atol=1e-13)


def test_orders():
    assert derivative_orders(("u",), ("x", "t")) == {}
    assert derivative_orders(("u_xx", "u_x", "u_t"), ("t", "x")) == {"t": 1, "x": 2}
    for name in ("u_xt", "u_xxx", "u_y", "v", ""):
        with pytest.raises(InputError, match="mixed derivatives"):
            derivative_orders((name,), ("x", "t"))


def test_initial_network_is_uniform_within_the_reach_of_its_inputs():
    layers = Network(64, 3).initial(2, np.random.default_rng(3))
    assert [weight.shape for weight, _ in layers] == [(64, 2), (64, 64), (64, 64), (1, 64)]
    assert [bias.shape for _, bias in layers] == [(64,), (64,), (64,), (1,)]
    for weight, bias in layers:
        reach = 1 / np.sqrt(weight.shape[1])
        both = np.concatenate([weight.ravel(), bias])
        assert np.abs(both).max() <= reach
    middle = layers[1][0].ravel() * 8  # uniform on [-1, 1] then
    assert_allclose([middle.mean(), middle.var()], [0, 1 / 3], atol=0.03)
    assert np.abs(middle).max() > 0.99


def test_a_seed_is_a_network():
    same = [Network(5, 2).initial(2, np.random.default_rng(9)) for _ in range(2)]
    other = Network(5, 2).initial(2, np.random.default_rng(10))
    assert np.array_equal(same[0][1][0], same[1][1][0])
    assert not np.array_equal(same[0][1][0], other[1][0])


@pytest.mark.parametrize(("width", "depth"), [(64, 3), (32, 3), (128, 4), (64, 4), (1, 1)])
def test_parameter_count(width, depth):
    network = Network(width, depth)
    layers = network.initial(2, np.random.default_rng(0))
    assert network.parameter_count(2) == sum(w.size + b.size for w, b in layers)


def test_numpy_sizes_are_plain_numbers():
    assert type(Network(np.int64(4), np.int32(2)).width) is int
    assert Network(np.int64(4), 2) == Network(4, 2)

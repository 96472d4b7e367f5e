"""The fused kernels, interpreted: gradients against float64, and where the program serves."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from twoaxis.problems import PROBLEMS
from twoaxis.training import Network, fused
from twoaxis.training.backends import JaxDevice, device, find_device
from twoaxis.training.batch import Batch
from twoaxis.training.loop import initial_network, starting_coordinates
from twoaxis.training.network import PLAIN
from twoaxis.training.run_data import in_precision, residual_values, run_data

# What a gradient may differ from that of float64, relative to its norm.
ACCURACY = 2e-5
CASES = [(name, conditions) for name in PROBLEMS for conditions in ("soft", "exact")]
# Kernels differ by the derivatives of the problem: soft conditions are tested on one by default.
PARAMETERS = [
    pytest.param(*case, marks=pytest.mark.long if case[1] == "soft" and n else ())
    for n, case in enumerate(CASES)
]


def interpreted_field(settings):
    return fused.fused_field(settings.problem.domain, interpret=True)


def relative(found, expected):
    """The distance of two trees, relative to the norm of the second."""
    pairs = list(zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True))
    apart = sum(np.sum((np.asarray(a, float) - b) ** 2) for a, b in pairs)
    return np.sqrt(apart / sum(np.sum(np.asarray(b) ** 2) for _, b in pairs))


def gradients(made, problem, conditions, network):
    """Residual and gradient of half its square by weights and parameters: fused, and in float64."""
    settings = made.tiny_settings(problem, conditions=conditions, network=network)
    spec = made.tiny_spec(problem)
    exact = (
        run_data(settings, spec),
        initial_network(settings, spec),
        starting_coordinates(dict(settings.problem.parameters), spec),
    )
    found = []
    for precision, field in (("float32", interpreted_field(settings)), ("float64", PLAIN)):
        with jax.enable_x64(precision == "float64"):
            own = made.tiny_settings(
                problem, conditions=conditions, network=network, precision=precision
            )
            data, layers, coordinates = in_precision(own, exact)
            residual = partial(residual_values, own, data, field=field)

            @jax.jit
            def evaluated(layers, coordinates, residual=residual):
                values, pull_back = jax.vjp(residual, layers, coordinates)
                return values, pull_back(values)

            found.append(jax.device_get(evaluated(layers, coordinates)))
    return found


@pytest.mark.parametrize("depth", [3, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.parametrize(("problem", "conditions"), PARAMETERS)
def test_gradients_equal_those_of_float64(made, problem, conditions, depth):
    (residual, (layers, coordinates)), (exact, (by_layers, by_coordinates)) = gradients(
        made, problem, conditions, Network(32, depth)
    )
    assert relative(residual, exact) < ACCURACY
    assert relative(layers, by_layers) < ACCURACY
    assert relative(coordinates, by_coordinates) < ACCURACY
    for each, other in zip(layers, by_layers, strict=True):
        assert relative(each, other) < ACCURACY


@pytest.mark.parametrize("width", [pytest.param(64, marks=pytest.mark.long), 128])
def test_wider_networks(made, width):
    (_, found), (_, exact) = gradients(made, "burgers", "soft", Network(width, 3))
    assert relative(found, exact) < ACCURACY


def test_the_adjoint_of_a_layer_is_that_of_automatic_differentiation():
    series = fused.Series((2, 1, 2), (0, 1, 2), 3, True, (1.0, 1.0, 1.0))
    generator = np.random.default_rng(3)
    with jax.enable_x64(True):
        level, *others = generator.normal(size=(series.count, 4, 5))
        above = list(generator.normal(size=(series.count, 4, 5)))

        def through(z, *more):
            return fused.activated(series, [jnp.tanh(z), *more])

        _, pull_back = jax.vjp(through, level, *others)
        stored = [np.tanh(level), *others]
        found = fused.activated_adjoint(series, stored, above)
        for one, other in zip(found, pull_back(above), strict=True):
            assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_tanh_and_products_have_the_digits_that_they_promise():
    z = np.linspace(-12, 12, 4001, dtype=np.float32)
    assert_allclose(fused.tanh(z), np.tanh(z.astype(float)), rtol=0, atol=1.5e-7)
    generator = np.random.default_rng(0)
    left, right = generator.normal(size=(2, 48, 48)).astype(np.float32)
    exact = left.astype(float) @ right
    found = fused.product(fused.split_weight(left), fused.split(jnp.asarray(right)))
    assert relative(found, exact) < 2e-7
    high, low = fused.split_weight(left)
    assert relative(high, left) > 1e-4
    assert relative(np.asarray(high, float) + np.asarray(low, float), left) < 2.0**-22


@pytest.mark.parametrize("rows", [32, 64, 128])
@pytest.mark.parametrize("columns", [16, 32])
def test_a_stored_tile_comes_back(rows, columns):
    tile = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    store = np.zeros((3, 2, tile.size), np.float32)
    fused.put(store, 1, [tile, -tile])
    assert_array_equal(np.sort(store[1, 0]), tile.ravel())
    assert not store[[0, 2]].any()
    found, negative = fused.taken(store, 1, tile.shape)
    assert_array_equal(found, tile)
    assert_array_equal(negative, -tile)


@pytest.mark.parametrize("count", [1, 40, 200, 2000, 2048, 3000])
def test_few_points_only_fill_up(count):
    series = fused.Series((2, 1), (0, 1), 2, True, (0.125, 0.0625))
    plan = fused.Plan.of(series, 64, count, False)
    filled = plan.filled(count)
    assert count <= filled
    assert filled % (plan.points * plan.tiles) == 0
    assert count < 1000 or filled < 1.03 * count


@pytest.mark.parametrize(
    "width", [32, *(pytest.param(width, marks=pytest.mark.long) for width in (64, 128))]
)
@pytest.mark.parametrize(("problem", "conditions"), PARAMETERS)
def test_the_kernels_can_be_lowered_for_a_gpu(made, problem, conditions, width):
    """Triton's compiler needs a GPU, what comes before it does not."""
    settings = made.tiny_settings(
        problem, conditions=conditions, network=Network(width, 4), precision="float32"
    )
    batch = Batch(settings, [made.tiny_spec(problem), made.tiny_spec(problem, seed=1)])
    data = batch.data()
    state = batch.begin(data).state
    advance = jax.jit(
        device.side_by_side(settings, False, fused.fused_field(settings.problem.domain))
    )
    traced = advance.trace(state, device.stack(data), np.int32(0), np.int32(1))
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    terms = 3 if settings.has_boundary_term else 2
    assert text.count("triton") == terms * settings.network.depth


# ------------------------------------------------------------------ the program in a training


def hopper(**changes):
    return SimpleNamespace(**{"platform": "gpu", "compute_capability": "9.0", **changes})


@pytest.fixture
def interpreted(monkeypatch):
    """The fused program serves on the CPU."""
    monkeypatch.setattr(JaxDevice, "program", lambda *_: "fused")
    monkeypatch.setattr(device, "_field", lambda settings, _: interpreted_field(settings))
    device._shared.cache_clear()
    yield
    device._shared.cache_clear()


def advanced(batch, data, state, steps):
    with JaxDevice(find_device("cpu")).session(batch.settings, data) as session:
        return session.advance(state, 0, steps)


# RBA needs the residual before the gradient, the selector the derivatives by the parameters.
@pytest.mark.parametrize("method", ["rba", pytest.param("selector", marks=pytest.mark.long)])
def test_a_batch_trains_as_with_xla_and_repeats_itself(made, method, interpreted, monkeypatch):  # noqa: ARG001
    settings = made.tiny_settings(method=method, network=Network(32, 3), precision="float32")
    batch = Batch(settings, [made.tiny_spec(), made.tiny_spec(seed=1)])
    data = batch.data()
    state = batch.begin(data).state
    first, second = (advanced(batch, data, state, 4) for _ in range(2))
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        assert_array_equal(one, other)
    monkeypatch.setattr(JaxDevice, "program", lambda *_: "xla")
    monkeypatch.setattr(device, "_field", lambda *_: PLAIN)
    plain = advanced(batch, data, state, 4)
    assert_allclose(first["coordinates"], plain["coordinates"], rtol=1e-5)
    assert_allclose(first["loss_residual"], plain["loss_residual"], rtol=1e-4)
    assert_allclose(first["loss_data"], plain["loss_data"], rtol=1e-4)
    assert relative(first["layers"], plain["layers"]) < 1e-4
    # Four steps have moved the weights by much more than that.
    assert relative(state["layers"], plain["layers"]) > 1e-2


def test_the_fused_program_serves_the_cases_that_it_was_written_for(made):
    def program(gpu=None, **changes):
        given = {"network": Network(64, 3), "precision": "float32", **changes}
        return JaxDevice(gpu or hopper(), fused=True).program(made.tiny_settings(**given))

    for width in (32, 64, 128):
        for depth in (3, 4):
            assert program(network=Network(width, depth)) == "fused"
    for problem, conditions in CASES:
        assert program(problem=problem, conditions=conditions) == "fused"
    for method in ("adam", "pcgrad", "patch", "gaussian", "selector"):
        assert program(method=method) == "fused"
    assert program(problem="buckley-leverett", conditions="layered") == "xla"
    far = replace(PROBLEMS["burgers"], domain={"x": (0.0, 2000.0), "t": (0.0, 1.0)})
    assert program(problem=far) == "xla"
    assert program(precision="float64") == "xla"
    assert program(network=Network(48, 3)) == "xla"
    assert program(network=Network(64, 5)) == "xla"
    assert program(method="gauss-newton", precision="float64") == "xla"
    assert program(hopper(compute_capability="7.5")) == "xla"
    assert program(SimpleNamespace(platform="gpu")) == "xla"
    assert program(find_device("cpu")) == "xla"
    settings = made.tiny_settings(network=Network(64, 3), precision="float32")
    assert JaxDevice(hopper()).program(settings) == "xla"


def test_a_run_says_which_program_trained_it(made, tmp_path, interpreted):  # noqa: ARG001
    options = {"network": Network(32, 3), "steps": 2, "engine": "in-process"}
    assert made.tiny_train(**options)[0].program == "fused"
    stored = made.tiny_train(store=tmp_path, **options)
    assert stored[0].program == "fused"
    assert stored.work["program"].tolist() == ["fused"]


def test_going_on_from_a_returned_state_equals_going_on_from_a_copy(made):
    batch = Batch(made.tiny_settings(), [made.tiny_spec(), made.tiny_spec(seed=1)])
    data = batch.data()
    with JaxDevice(find_device("cpu")).session(batch.settings, data) as session:
        middle = session.advance(batch.begin(data).state, 0, 3)
        kept = jax.tree.map(np.copy, middle)
        ends = [session.advance(state, 3, 3) for state in (middle, kept, middle)]
    for leaves in zip(*map(jax.tree.leaves, ends), strict=True):
        assert_array_equal(leaves[0], leaves[1])
        assert_array_equal(leaves[0], leaves[2])

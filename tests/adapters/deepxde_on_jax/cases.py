"""Cases that `test_in_own_process.py` runs in a process whose DeepXDE has the JAX backend.

This file is also looked through for examples by the process of all tests, whose DeepXDE has
PyTorch: what needs JAX is therefore imported in fixtures.
"""

import random
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from compilations import counted_compilations
from least_squares_systems import assert_is_least_squares_system
from objectives import assert_is_training_loss
from refined_fields import DECAY, assert_refined_as_least_squares

import twoaxis as ta
from twoaxis.adapters.deepxde import from_deepxde

PRECISIONS = pytest.mark.parametrize(
    ("precision", "tolerance"),
    [("float64", 1e-10), pytest.param("model", 1e-5, marks=pytest.mark.long)],
)
LORENZ = {
    "sigma": ta.Parameter(truth=10.0, bounds=(1, 100)),
    "rho": ta.Parameter(truth=28.0, bounds=(3, 300)),
    "beta": ta.Parameter(truth=8 / 3, bounds=(0.3, 30)),
}
K = ta.Parameter(truth=1.0, bounds=(0.05, 20))


@pytest.fixture(scope="session")
def dde():
    import deepxde

    assert deepxde.backend.backend_name == "jax"
    return deepxde


@pytest.fixture(scope="session")
def train(dde):
    def train(data, net, variables, steps=15, **options):
        model = dde.Model(data, net)
        model.compile("adam", lr=5e-3, external_trainable_variables=variables, verbose=0, **options)
        if steps:
            model.train(iterations=steps, verbose=0)
        return model

    return train


@pytest.fixture(scope="session")
def freeze(request):
    """Freeze a model once in each precision: JAX compiles a program for each."""

    @cache
    def freeze(name, precision):
        if name == "lorenz":
            lorenz = request.getfixturevalue("lorenz")
            return from_deepxde(
                lorenz.model, LORENZ, unknowns=lorenz.variables, precision=precision
            )
        diffusion = request.getfixturevalue("diffusion")
        return from_deepxde(
            diffusion.model, {"D": K}, transform={"D": diffusion.exp}, precision=precision
        )

    return freeze


@pytest.fixture(scope="session")
def lorenz(dde, train):
    dde.config.set_random_seed(0)
    variables = {"sigma": dde.Variable(8.0), "rho": dde.Variable(25.0), "beta": dde.Variable(2.0)}
    every = list(variables.values())

    def system(t, y, unknowns=every):
        sigma, rho, beta = unknowns
        values = y[0]
        first, second, third = values[:, 0:1], values[:, 1:2], values[:, 2:3]
        slopes = [dde.grad.jacobian(y, t, i=i)[0] for i in range(3)]
        return [
            slopes[0] - sigma * (second - first),
            slopes[1] - first * (rho - third) + second,
            slopes[2] - first * second + beta * third,
        ]

    sites = np.linspace(0.05, 0.95, 8)[:, None]
    seen = dde.icbc.PointSetBC(sites, np.cos(sites), component=1)
    data = dde.data.PDE(dde.geometry.TimeDomain(0, 1), system, [seen], num_domain=15, anchors=sites)
    net = dde.nn.FNN([1, 8, 8, 3], "tanh", "Glorot uniform")
    net.apply_feature_transform(lambda t: 2 * t - 1)
    net.apply_output_transform(lambda t, y: 1 + t * y)
    model = train(data, net, every, loss_weights=[1, 10, 0.5, 100])
    return SimpleNamespace(model=model, variables=variables, data=data)


@pytest.fixture(scope="session")
def diffusion(dde, train):
    """Space and time, with a diffusivity that is stored as its logarithm."""
    import jax.numpy as jnp

    dde.config.set_random_seed(1)
    stored = dde.Variable(-1.0)

    def equation(x, u, unknowns=(stored,)):
        (raw,) = unknowns
        u_t, _ = dde.grad.jacobian(u, x, i=0, j=1)
        u_xx, _ = dde.grad.hessian(u, x, i=0, j=0)
        return u_t - jnp.exp(raw) * u_xx

    space, time = dde.geometry.Interval(-1, 1), dde.geometry.TimeDomain(0, 1)
    geometry = dde.geometry.GeometryXTime(space, time)
    ends = dde.icbc.DirichletBC(geometry, lambda _: 0, lambda _, on: on)
    data = dde.data.TimePDE(geometry, equation, [ends], num_domain=30, num_boundary=8)
    model = train(data, dde.nn.FNN([2, 8, 8, 1], "tanh", "Glorot uniform"), stored)
    return SimpleNamespace(model=model, stored=stored, data=data, exp=jnp.exp)


@pytest.mark.parametrize(
    "draw", [random.random, np.random.default_rng(0).random], ids=["Python", "a generator"]
)
def test_an_equation_that_draws_random_numbers(dde, train, draw):
    """A compiled PDE keeps what was drawn, and its derivative something else."""
    noise, k = draw(), dde.Variable(2.0)

    def made(draw):
        def equation(t, u, unknowns=(k,)):
            return dde.grad.jacobian(u, t)[0] + unknowns[0] * u[0] + draw()

        data = dde.data.PDE(dde.geometry.TimeDomain(0, 1), equation, [], num_domain=10)
        return train(data, dde.nn.FNN([1, 4, 1], "tanh", "Glorot uniform"), k, steps=1)

    with pytest.raises(ta.InputError, match="a deterministic residual"):
        from_deepxde(made(draw), {"k": (k, K)})
    frozen = from_deepxde(made(lambda: noise), {"k": (k, K)})
    assert np.isfinite(ta.score(frozen).displacement["k"])


def by_hand(model, points):
    """The network in NumPy, double precision, its derivatives by JAX on plain functions."""
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(True):
        layers = [model.net.params["params"][f"denses_{n}"] for n in range(3)]
        layers = [(np.asarray(d["kernel"], float), np.asarray(d["bias"], float)) for d in layers]

        def field(x):
            z = 2 * x - 1 if model.net._input_transform is not None else x
            for kernel, bias in layers[:-1]:
                z = jnp.tanh(z @ kernel + bias)
            y = z @ layers[-1][0] + layers[-1][1]
            return 1 + x * y if model.net._output_transform is not None else y

        functions = (field, jax.jacfwd(field), jax.jacfwd(jax.jacfwd(field)))
        x = jnp.asarray(np.asarray(points, dtype=float))
        return tuple(
            map(np.asarray, jax.jit(jax.vmap(lambda each: [f(each) for f in functions]))(x))
        )


def close(found, wanted, tolerance):
    scale = np.abs(wanted).max()
    assert scale > 0
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * scale)


@pytest.mark.long  # JAX compiles the training of three equations for half a minute
@PRECISIONS
def test_system(lorenz, freeze, precision, tolerance):
    frozen = freeze("lorenz", precision)
    np.testing.assert_array_equal(frozen.points, lorenz.data.train_x[8:])
    u, slopes, _ = by_hand(lorenz.model, frozen.points)
    x, y, z = u.T
    zero = np.zeros_like(x)
    r = [
        slopes[:, 0, 0] - 10 * (y - x),
        slopes[:, 1, 0] - x * (28 - z) + y,
        slopes[:, 2, 0] - x * y + 8 / 3 * z,
    ]
    J = np.concatenate(
        [np.stack(rows, 1) for rows in ([x - y, zero, zero], [zero, -x, zero], [zero, zero, z])]
    )
    truth = {name: p.truth for name, p in LORENZ.items()}
    for part, other in zip(frozen.residual(**truth), r, strict=True):
        close(part, other, tolerance)
    close(frozen.jacobian(**truth), J, tolerance)
    weights = np.repeat([1.0, 10.0, 0.5], len(x)) / len(x)
    r, J = np.concatenate(r), J * [10, 28, 8 / 3]
    B, H = J.T @ (weights * r), J.T @ (weights[:, None] * J)
    score = ta.score(frozen)
    close(score.B, B, tolerance)
    close(score.H, H, tolerance)
    np.testing.assert_allclose(
        list(score.displacement.values()), -np.linalg.solve(H, B), rtol=10 * tolerance
    )


@PRECISIONS
def test_space_and_time_through_a_transform(diffusion, freeze, precision, tolerance):
    frozen = freeze("diffusion", precision)
    assert frozen.axes == ("x", "t")
    assert sum(diffusion.data.num_bcs) == 8
    np.testing.assert_array_equal(frozen.points, diffusion.data.train_x_all)
    delivered = frozen.parameters["D"].delivered
    np.testing.assert_allclose(delivered, np.exp(float(diffusion.stored.value)), rtol=1e-12)
    u, first, second = by_hand(diffusion.model, frozen.points)
    close(frozen.field, u[:, 0], tolerance)
    for value in (0.2, 1.0):
        close(frozen.residual(D=value), first[:, 0, 1] - value * second[:, 0, 0, 0], tolerance)
        close(frozen.jacobian(D=value)[:, 0], -second[:, 0, 0, 0], tolerance)
    r, J = first[:, 0, 1] - second[:, 0, 0, 0], -second[:, 0, 0, 0]
    score = ta.score(frozen)
    np.testing.assert_allclose([score.B, score.H], [J @ r / len(r), J @ J / len(r)], rtol=tolerance)
    np.testing.assert_allclose(score.displacement["D"], -(J @ r) / (J @ J), rtol=tolerance)
    other = frozen.residual_at(frozen.points[:3], D=0.2)
    close(other, (first[:, 0, 1] - 0.2 * second[:, 0, 0, 0])[:3], tolerance)


@pytest.mark.long
def test_deepxde_predicts_the_same(diffusion, freeze):
    """DeepXDE's own way to a residual, the unknown at another value."""
    frozen = freeze("diffusion", "model")

    # DeepXDE counts arguments, and takes a third one for an auxiliary variable.
    def at(raw):
        return lambda x, u: diffusion.data.pde(x, u, unknowns=[raw])

    for value in (0.1, 3.0):
        raw = np.float32(np.log(value))
        wanted = diffusion.model.predict(frozen.points, operator=at(raw))
        close(frozen.residual(D=value), wanted[:, 0], 1e-5)


@pytest.mark.parametrize(
    ("name", "equations"), [("diffusion", 1), pytest.param("lorenz", 3, marks=pytest.mark.long)]
)
def test_loss_of_the_training(request, freeze, name, equations):
    case, frozen = request.getfixturevalue(name), freeze(name, "float64")
    values = {name: p.delivered for name, p in frozen.parameters.items()}
    r = frozen.checked(frozen.residual(**values), values)
    loss = frozen.view.bind(frozen.points).quadratic(r, r)
    expected = case.model.train_state.loss_train[:equations].sum()
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "equations"), [("diffusion", 1), pytest.param("lorenz", 3, marks=pytest.mark.long)]
)
def test_weights_are_a_least_squares_system(request, freeze, name, equations):
    case, frozen = request.getfixturevalue(name), freeze(name, "float64")
    assert_is_least_squares_system(frozen)
    system = frozen.weights
    assert system.how == "point by point, vectorized (jax.vmap of jax.jacrev)"
    if name == "diffusion":  # the only condition is that at the ends
        expected = case.model.train_state.loss_train[equations:].sum()
        np.testing.assert_allclose((system.conditions(system.start) ** 2).sum(), expected, 1e-5)
    else:
        assert system.conditions(system.start).size == 0


@pytest.mark.long
def test_loss_weights_become_the_view(freeze):
    np.testing.assert_array_equal(freeze("lorenz", "float64").view.weights, [1, 10, 0.5])


@pytest.mark.parametrize("precision", ["float64", pytest.param("model", marks=pytest.mark.long)])
def test_model_is_left_as_it_was(diffusion, precision):
    import jax

    def state():
        model = diffusion.model
        leaves = jax.tree.leaves([model.net.params, model.params, model.opt_state])
        return [
            [np.asarray(leaf).tobytes() for leaf in leaves],
            [str(leaf.dtype) for leaf in leaves],
            np.asarray(diffusion.stored.value).tobytes(),
            random.getstate(),
            str(np.random.get_state()),  # noqa: NPY002
            jax.config.jax_enable_x64,
            model.data.train_x.tobytes(),
        ]

    before = state()
    frozen = from_deepxde(
        diffusion.model, {"D": K}, transform={"D": diffusion.exp}, precision=precision
    )
    ta.score(frozen)
    ta.frozen_scan(frozen)
    assert state() == before


@pytest.mark.long
def test_training_goes_on_and_the_frozen_residual_stays(dde, train):
    k = dde.Variable(2.0)

    def equation(t, u, unknowns=(k,)):
        return dde.grad.jacobian(u, t)[0] + unknowns[0] * u[0]

    data = dde.data.PDE(dde.geometry.TimeDomain(0, 1), equation, [], num_domain=10)
    model = train(data, dde.nn.FNN([1, 6, 1], "tanh", "Glorot uniform"), k)
    frozen = from_deepxde(model, {"k": (k, K)})
    before, delivered = frozen.residual(k=1.0), frozen.parameters["k"].delivered
    assert delivered == float(k.value) != 2.0
    model.train(iterations=5, verbose=0)
    np.testing.assert_array_equal(frozen.residual(k=1.0), before)
    again = from_deepxde(model, {"k": (k, K)})
    assert np.abs(again.residual(k=1.0) - before).max() > 1e-5


@pytest.fixture(scope="session")
def decay(dde, train):
    """Compile `equation(t, u, u_t, k)`; what was delivered is given instead of trained."""

    def make(equation, **options):
        k = dde.Variable(2.0)

        def pde(t, u, unknowns=(k,)):
            return equation(u[0], dde.grad.jacobian(u, t)[0], unknowns[0])

        data = dde.data.PDE(dde.geometry.TimeDomain(0, 1), pde, [], num_domain=10)
        net = dde.nn.FNN([1, 6, 1], "tanh", "Glorot uniform")
        return train(data, net, k, steps=0, **options), k

    return make


GIVEN = ta.Parameter(truth=1.0, bounds=(0.05, 20), delivered=2.0)


@pytest.mark.long
def test_every_variable_needs_a_name(lorenz):
    with pytest.raises(ta.InputError, match="2 without one"):
        from_deepxde(lorenz.model, {"rho": (lorenz.variables["rho"], LORENZ["rho"])})


@pytest.mark.parametrize("hard", [False, pytest.param(True, marks=pytest.mark.long)])
def test_refined_on_splines(dde, train, hard):
    """A condition in the loss, or in a transform around the network, and scaled coordinates."""
    dde.config.set_random_seed(0)
    rate = dde.Variable(2.0)

    def equation(t, u, unknowns=(rate,)):
        return dde.grad.jacobian(u, t)[0] + unknowns[0] * u[0]

    geometry = dde.geometry.TimeDomain(0, 2)
    start = dde.icbc.IC(geometry, lambda t: np.ones((len(t), 1)), lambda _, on: on)
    seen = dde.icbc.PointSetBC(DECAY.points, DECAY.readings)
    data = dde.data.PDE(geometry, equation, [seen, *[start] * (not hard)], 20, 2)
    net = dde.nn.FNN([1, 8, 8, 1], "tanh", "Glorot uniform")
    net.apply_feature_transform(lambda t: t - 1)
    if hard:
        net.apply_output_transform(lambda t, u: 1 + t * u)
    frozen = from_deepxde(train(data, net, rate), {"rate": (rate, ta.Parameter(bounds=(0.1, 10)))})
    slot = frozen.weights.slot()
    assert (slot.conditions is None) == hard
    found = assert_refined_as_least_squares(frozen, DECAY, within=0.02)
    assert found.frozen.fitted.shape == (15,)


@pytest.mark.long
def test_periodic_features_have_no_place_for_a_field(dde, train):
    import jax.numpy as jnp

    rate = dde.Variable(2.0)

    def equation(t, u, unknowns=(rate,)):
        return dde.grad.jacobian(u, t)[0] + unknowns[0] * u[0]

    data = dde.data.PDE(dde.geometry.TimeDomain(0, 1), equation, [], num_domain=20)
    net = dde.nn.FNN([2, 8, 1], "tanh", "Glorot uniform")
    angle = 2 * np.pi
    net.apply_feature_transform(lambda t: jnp.hstack([jnp.sin(angle * t), jnp.cos(angle * t)]))
    assert from_deepxde(train(data, net, rate), {"rate": (rate, K)}).weights.slot() is None


def test_names(dde, decay):
    model, k = decay(lambda u, u_t, k: u_t + k * u)
    assert from_deepxde(model, {"k": (k, GIVEN)}).parameters["k"].delivered == 2.0
    with pytest.raises(ta.InputError, match="not its value"):
        from_deepxde(model, {"k": (k.value, GIVEN)})
    with pytest.raises(ta.InputError, match="not among its 1"):
        from_deepxde(model, {"k": (dde.Variable(2.0), GIVEN)})
    with pytest.raises(ta.InputError, match="not been trained in this process"):
        from_deepxde(model, {"k": (k, K)})
    with pytest.raises(ta.InputError, match="has not been compiled"):
        from_deepxde(dde.Model(model.data, model.net), {"k": (k, GIVEN)})


def test_residual_that_does_not_see_the_parameter(decay):
    model, k = decay(lambda u, u_t, _: u_t + u)
    assert ta.score(from_deepxde(model, {"k": (k, GIVEN)})).H == 0


def test_losses_other_than_squares(decay):
    model, k = decay(lambda u, u_t, k: u_t + k * u, loss="MAE")
    with pytest.raises(ta.InputError, match="the loss mean_absolute_error"):
        from_deepxde(model, {"k": (k, GIVEN)})


def test_unknown_behind_stop_gradient(decay):
    import jax

    model, k = decay(lambda u, u_t, k: u_t + jax.lax.stop_gradient(k) * u)
    with pytest.raises(ta.InputError, match="changes with k and has no derivative by it"):
        from_deepxde(model, {"k": (k, GIVEN)})


def own_loss(model):
    """The training loss as DeepXDE computes it."""
    state = model.train_state
    return float(model.outputs_losses_train(model.params, state.X_train, state.y_train)[1].sum())


@pytest.mark.long
def test_objective_and_observations_of_a_system(lorenz, freeze):
    frozen = freeze("lorenz", "float64")
    assert_is_training_loss(frozen, own_loss(lorenz.model))
    where = np.linspace(0.05, 0.95, 8)[:, None]
    np.testing.assert_allclose(frozen.observed, where, rtol=1e-6)
    np.testing.assert_allclose(frozen.data, np.cos(where[:, 0]), rtol=1e-6)
    np.testing.assert_allclose(frozen.fitted, lorenz.model.predict(where)[:, 1], rtol=1e-4)
    assert frozen.about["backend"] == "jax"


def test_objective_behind_a_transform(diffusion, freeze):
    frozen = freeze("diffusion", "float64")
    assert_is_training_loss(frozen, own_loss(diffusion.model))
    assert frozen.data is None


def test_measurements_along_a_training_are_compiled_once(dde, train):
    dde.config.set_random_seed(0)
    rate = dde.Variable(2.0)

    def decay(t, u, unknowns=(rate,)):
        return dde.grad.jacobian(u, t)[0] + unknowns[0] * u[0]

    sites = np.linspace(0.1, 0.9, 5)[:, None]
    seen = dde.icbc.PointSetBC(sites, np.exp(-sites))
    data = dde.data.PDE(dde.geometry.TimeDomain(0, 1), decay, [seen], num_domain=9)
    model = train(data, dde.nn.FNN([1, 6, 1], "tanh", "Glorot normal"), [rate], steps=0)
    spans = []
    with counted_compilations() as compiled:

        def freeze():
            return from_deepxde(model, {"rate": (rate, K)})

        follower = ta.Follower(freeze, every=5, progress=False, max_share=1.0)
        measure = follower.measure

        def counted(step, *state):
            before = len(compiled)
            row = measure(step, *state)
            spans.append(len(compiled) - before)
            return row

        follower.measure = counted
        model.train(iterations=12, verbose=0, callbacks=[ta.deepxde_callback(follower)])
    assert follower.messages == []
    assert [row.step for row in follower.rows] == [1, 6, 11, 12]
    assert compiled
    assert spans == [0] * 4
    last = ta.follow([(12, freeze())]).data.isel(step=0)
    found = follower.result.data.isel(step=-1)
    for name in ("value", "preferred", "displacement", "strength"):
        np.testing.assert_allclose(found[name], last[name], rtol=1e-7)

"""`from_jax` against JAX's reverse mode: pure functions, equinox, flax linen and flax nnx."""

# ruff: noqa: ARG005, E731 - residuals take what they are given, ignore some; short functions

import functools
import random

import equinox as eqx
import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from objectives import assert_is_training_loss

import twoaxis as ta

PRECISIONS = {"float64": 1e-10, "float32": 1e-5}


def field(model, x, output=0):
    """One output of the network at one point, whatever library it is from."""
    return jnp.atleast_1d(model(x))[output]


def along(model, x, *axes, output=0):
    """A derivative of the field along axes, at all points."""
    f = lambda one: field(model, one, output)
    for axis in axes:
        f = lambda one, f=f, axis=axis: jax.grad(f)(one)[axis]
    return jax.vmap(f)(x)


def decay(model, t, k):
    """The shortest residual: JAX compiles every new operation."""
    return along(model, t, 0) + k * along(model, t)


def oscillator(model, t, mu, k):
    return along(model, t, 0, 0) + mu * along(model, t, 0) + k * along(model, t)


def heat(model, xt, kappa):
    """The unknown stands inside a derivative."""
    flux = lambda one: (
        kappa * (1 + field(model, one) ** 2) * jax.grad(lambda x: field(model, x))(one)[0]
    )
    return along(model, xt, 1) - jax.vmap(lambda one: jax.grad(flux)(one)[0])(xt)


def poisson(model, xy, a, source):
    laplacian = along(model, xy, 0, 0) + along(model, xy, 1, 1)
    return (-a * laplacian + jnp.tanh(source * along(model, xy)) - source**2)[:, None]


def predators(model, t, birth, death, hunt):
    u, v = along(model, t), along(model, t, output=1)
    return (
        along(model, t, 0) - birth * u + hunt * u * v,
        along(model, t, 0, output=1) + death * v - hunt * u * v,
    )


def by_name(model, t, birth, death, hunt):
    return dict(zip(("prey", "predator"), predators(model, t, birth, death, hunt), strict=True))


HUNT = {"birth": (1.0, 1.1), "death": (0.5, 0.4), "hunt": (0.3, 0.3)}
CASES = {
    "decay": (decay, 1, 1, {"k": (4.0, 3.1)}),
    "ordinary": (oscillator, 1, 1, {"mu": (0.5, 0.7), "k": (4.0, 3.1)}),
    "space and time": (heat, 2, 1, {"kappa": (0.1, 0.13)}),
    "steady": (poisson, 2, 1, {"a": (1.0, 0.8), "source": (0.5, 0.6)}),
    "system": (predators, 1, 2, HUNT),
    "by name": (by_name, 1, 2, HUNT),
}


# One network in four libraries: a callable of one point, made from a tree of weights.


def pure_network(inputs, outputs, dtype):
    keys = jax.random.split(jax.random.key(0), 2)
    weights = [
        (jax.random.normal(keys[0], (16, inputs), dtype), jnp.zeros(16, dtype)),
        (jax.random.normal(keys[1], (outputs, 16), dtype) / 4, jnp.zeros(outputs, dtype)),
    ]

    def call(weights):
        (a, b), (c, d) = weights
        return lambda x: c @ jnp.tanh(a @ x + b) + d

    return weights, call


class WithDropout(eqx.Module):
    """Dropout that would ask for a key in training mode."""

    body: eqx.nn.MLP
    dropout: eqx.nn.Dropout

    def __init__(self, inputs, outputs, dtype):
        self.body = eqx.nn.MLP(
            inputs, outputs, 16, 1, activation=jnp.tanh, key=jax.random.key(1), dtype=dtype
        )
        self.dropout = eqx.nn.Dropout(0.5)

    def __call__(self, x):
        return self.dropout(self.body(x))


def equinox_network(inputs, outputs, dtype):
    return WithDropout(inputs, outputs, dtype), lambda model: model


class Linen(linen.Module):
    outputs: int
    dtype: object

    @linen.compact
    def __call__(self, x):
        hidden = jnp.tanh(linen.Dense(16, param_dtype=self.dtype)(x))
        hidden = linen.Dropout(0.5, deterministic=True)(hidden)
        return linen.Dense(self.outputs, param_dtype=self.dtype)(hidden)


def linen_network(inputs, outputs, dtype):
    module = Linen(outputs, dtype)
    variables = module.init(jax.random.key(2), jnp.zeros(inputs, dtype))
    return variables, module.bind


class Nnx(nnx.Module):
    """Dropout with a counter that every call in training mode moves."""

    def __init__(self, inputs, outputs, dtype, rngs):
        self.first = nnx.Linear(inputs, 16, rngs=rngs, param_dtype=dtype)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.last = nnx.Linear(16, outputs, rngs=rngs, param_dtype=dtype)

    def __call__(self, x):
        return self.last(self.dropout(jnp.tanh(self.first(x))))


LIBRARIES = {
    "pure": pure_network,
    "equinox": equinox_network,
    "linen": linen_network,
}


def parameters_of(unknowns):
    return {
        n: ta.Parameter(truth=truth, delivered=delivered, bounds=(truth / 10, truth * 10))
        for n, (truth, delivered) in unknowns.items()
    }


@functools.cache  # nothing of it is changed, which is what the tests are about
def made(name, library="pure", dtype="float64", count=40):
    """A model trained for a few steps, with all that `from_jax` takes."""
    residual, inputs, outputs, unknowns = CASES[name]
    points = np.random.default_rng(0).random((count, inputs)).astype(dtype)
    with jax.enable_x64(dtype == "float64"):
        if library == "nnx":
            model = Nnx(inputs, outputs, getattr(jnp, dtype), nnx.Rngs(0))
            return model, residual, parameters_of(unknowns), points
        tree, call = LIBRARIES[library](inputs, outputs, getattr(jnp, dtype))
        x = jnp.asarray(points, dtype)
        weights, rest = eqx.partition(tree, eqx.is_inexact_array)

        def loss(weights):
            net = call(eqx.nn.inference_mode(eqx.combine(weights, rest)))
            return jnp.mean((jax.vmap(net)(x) - jnp.sin(3 * x[:, :1])) ** 2)

        optimizer = optax.adam(1e-2)
        state = optimizer.init(weights)
        step = jax.jit(lambda w, s: optimizer.update(jax.grad(loss)(w), s, w))
        for _ in range(5):
            updates, state = step(weights, state)
            weights = optax.apply_updates(weights, updates)
        return call(eqx.combine(weights, rest)), residual, parameters_of(unknowns), points


def at_rest(model):
    """The model as it should be evaluated, made independently of the adapter."""
    if isinstance(model, Nnx):
        resting = nnx.clone(model)
        resting.dropout.deterministic = True
        return resting
    return eqx.nn.inference_mode(model) if isinstance(model, eqx.Module) else model


def frozen_of(model, residual, parameters, points, **options):
    return ta.from_jax(model, residual, parameters, points=points, **options)


def codes(frozen):
    return [note.code for note in frozen.notes]


def independent(model, residual, parameters, points, at, dtype, weights=None):
    """r and J by reverse mode, then B, H and D in log coordinates, by hand."""
    with jax.enable_x64(dtype == "float64"):
        values = jnp.asarray([getattr(p, at) for p in parameters.values()], dtype)
        x, resting = jnp.asarray(points, dtype), at_rest(model)

        def joined(vector):
            found = residual(resting, x, **dict(zip(parameters, vector, strict=True)))
            parts = list(found.values()) if isinstance(found, dict) else found
            parts = parts if isinstance(parts, (tuple, list)) else [parts]
            return jnp.concatenate([part.ravel() for part in parts])

        r = np.asarray(joined(values), float)
        J = np.asarray(jax.jacrev(joined)(values), float) * np.asarray(values, float)
    m = np.full(len(r), 1 / len(points)) if weights is None else weights / len(points)
    B, H = J.T @ (m * r), J.T @ (m[:, None] * J)
    return r, J, B, H, -np.linalg.solve(H, B)


def close(found, wanted, rtol):
    found, wanted = np.squeeze(np.asarray(found)), np.squeeze(np.asarray(wanted))
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * np.abs(wanted).max())


ALL = [(case, "pure") for case in CASES]
ALL += [("decay", library) for library in ("equinox", "linen", "nnx")]


SOME = [each for each in ALL if each[0] in ("decay", "system")]
# Every library once, one system, and single precision once; JAX compiles each of them anew.
USUAL = [("decay", "equinox"), ("decay", "linen"), ("decay", "nnx"), ("system", "pure")]
SINGLE = [("decay", "nnx")]


@pytest.mark.parametrize(
    ("name", "library", "precision"),
    [
        pytest.param(*each, precision, marks=[] if each in shown else pytest.mark.long)
        for precision, cases, shown in (("float64", ALL, USUAL), ("float32", SOME, SINGLE))
        for each in cases
    ],
)
def test_against_reverse_mode(name, library, precision):
    made_of = made(name, library, precision)
    frozen = frozen_of(*made_of, precision="model")
    rtol = PRECISIONS[precision]
    at = "truth" if library == "pure" else "delivered"
    r, J, B, H, D = independent(*made_of, at, precision)
    score = ta.score(frozen, at=at)
    values = {n: getattr(p, at) for n, p in frozen.parameters.items()}
    close(frozen.at(frozen.coordinates(values)), r, rtol)
    close(frozen.jacobian(**values) * np.array(list(values.values())), J, rtol)
    close(score.B, B, rtol)
    close(score.H, H, rtol)
    close(list(score.displacement.values()), D, rtol * max(1, np.linalg.cond(H)) ** 0.5)


@pytest.mark.parametrize(
    "library",
    ["nnx", *(pytest.param(n, marks=pytest.mark.long) for n in LIBRARIES)],
)
def test_single_precision_weights_in_double_precision(library):
    made_of = made("decay", library, "float32")
    frozen = frozen_of(*made_of)
    *_, D = independent(*made_of, "truth", "float64")
    close(list(ta.score(frozen).displacement.values()), D, 1e-10)
    if library != "pure":  # a function does not show its weights
        assert codes(frozen) == ["precision.copy"]
    assert codes(frozen_of(*made_of, precision="model")) == ["precision.model"]


def test_a_residual_in_lower_precision_is_noted():
    model, _, parameters, points = made("decay")
    lower = lambda m, t, k: decay(m, t, k).astype(jnp.float32)
    assert codes(frozen_of(model, lower, parameters, points)) == ["precision.residual"]
    assert frozen_of(model, decay, parameters, points).notes == ()


def test_a_tree_of_weights_and_a_compiled_residual():
    weights, call = pure_network(1, 1, jnp.float32)
    compiled = jax.jit(lambda w, t, k: decay(call(w), t, k))
    _, _, parameters, points = made("decay")
    frozen = frozen_of(weights, compiled, parameters, points)
    plain = frozen_of(call(weights), decay, parameters, points)
    close(frozen.at(np.log([4.0])), plain.at(np.log([4.0])), 1e-12)
    assert frozen.field is None
    shown = frozen_of(
        weights, compiled, parameters, points, field=lambda w, t: jax.vmap(call(w))(t)
    )
    assert shown.field.shape == (40,)


def test_delivered_points_and_other_points():
    model, residual, parameters, points = made("decay", "equinox")
    frozen = frozen_of(model, residual, parameters, jnp.asarray(points))
    assert {n: p.delivered for n, p in frozen.parameters.items()} == {"k": 3.1}
    np.testing.assert_allclose(frozen.points, points, rtol=1e-6)
    other = np.random.default_rng(1).random((7, 1))
    moved = frozen.moved_to(other)
    with jax.enable_x64(True):
        direct = residual(at_rest(model), jnp.asarray(other), k=4.0)
    np.testing.assert_allclose(moved.at(np.log([4.0])), direct, rtol=1e-12)


def test_an_unknown_that_is_stored_through_a_transform():
    model, _, _, points = made("decay")
    raw = -0.4
    delivered = float(np.log1p(np.exp(raw)))
    known = {"k": ta.Parameter(delivered=delivered, bounds=(0.01, 10.0))}
    score = ta.score(frozen_of(model, decay, known, points))
    with jax.enable_x64(True):
        loss = lambda raw: jnp.mean(decay(model, jnp.asarray(points), jax.nn.softplus(raw)) ** 2)
        slope = float(jax.grad(loss)(raw))
    found = 2 * float(score.B) / delivered / (1 + np.exp(-raw))
    assert found == pytest.approx(slope, rel=1e-10)


@pytest.mark.parametrize("library", ["equinox", "nnx"])
def test_nothing_is_left_behind(library):
    model, _, parameters, points = made("decay", library, "float32")
    if library == "nnx":
        model.train()

    def state():
        tree = nnx.state(model) if library == "nnx" else eqx.filter(model, eqx.is_array)
        leaves = [
            jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x
            for x in jax.tree.leaves(tree)
        ]
        mode = model.dropout.deterministic if library == "nnx" else model.dropout.inference
        globals_ = (random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002
        return [np.asarray(x).tolist() for x in leaves], mode, globals_, jax.config.jax_enable_x64

    before = state()
    frozen = frozen_of(model, decay, parameters, points)
    ta.audit(frozen, candidates=5)
    assert state() == before
    values = {"k": 3.0}
    np.testing.assert_array_equal(frozen.residual(**values), frozen.residual(**values))


# The forms that weights may have are the same for all adapters: see test_pytorch.py.
RAMP = np.linspace(0.5, 2.0, 40)
WEIGHTS = {
    "decay, each point": ("decay", jnp.asarray(RAMP, jnp.float32), None),
    "system, each equation": ("system", jnp.asarray([1.0, 0.5]), np.repeat([1.0, 0.5], 40)),
}


@pytest.mark.parametrize(("name", "given", "wanted"), WEIGHTS.values(), ids=WEIGHTS)
def test_weights(name, given, wanted):
    wanted = np.asarray(given, float) if wanted is None else wanted
    made_of = made(name)
    score = ta.score(frozen_of(*made_of, loss_weights=given))
    *_, D = independent(*made_of, "truth", "float64", weights=wanted)
    close(list(score.displacement.values()), D, 1e-9)


def test_a_parameter_that_the_residual_does_not_see():
    model, _, parameters, points = made("decay")
    frozen = frozen_of(model, lambda m, t, k: along(m, t), parameters, points)
    assert float(ta.score(frozen).H) == 0
    assert ta.frozen_scan(frozen).minimum is None


BAD = {
    "no function": (
        {"residual": 3},
        "residual to be a function of model, points and the parameters",
    ),
    "other names": ({"residual": lambda m, t, nu: t}, "nu.*name its arguments"),
    "points that are none": ({"points": "everywhere"}, "points as real numbers"),
    "NaN in points": (
        {"points": np.array([[0.0], [np.nan]])},
        "finite points, got NaN or infinity in 1 of 2",
    ),
    "no points": ({"points": np.zeros((0, 1))}, "at least one point"),
    "too many coordinates": ({"points": np.zeros((40, 3))}, "TypeError|ValueError"),
    "NaN in the residual": ({"residual": lambda m, t, mu, k: t[:, 0] / (k - k) * mu}, "not finite"),
    "a matrix": ({"residual": lambda m, t, mu, k: mu * k * t @ t.T}, "the shape"),
    "too few values": ({"residual": lambda m, t, mu, k: mu * k * t[:9]}, "as many residual"),
    "integers": ({"residual": lambda m, t, mu, k: jnp.ones(40, int)}, "floating"),
    "a branch on a traced value": (
        {"residual": jax.jit(lambda m, t, mu, k: t if mu > 0 else k * t), "model": 0.0},
        "TracerBoolConversionError",
    ),
    "weights": ({"loss_weights": -1.0}, "not negative"),
    "precision": ({"precision": "half"}, 'precision "float64" or "model"'),
    "parameters": ({"parameters": {"mu": 3.0}}, "twoaxis.Parameter"),
    "axes": ({"axes": 1.0}, "axes as a sequence"),
    "one text": ({"equations": "decay"}, "equations as a sequence"),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_bad_input(change, message):
    names = ("model", "residual", "parameters", "points")
    given = dict(zip(names, made("ordinary"), strict=True)) | change
    with pytest.raises(ta.InputError, match=message):
        ta.from_jax(**given)


# ---------------------------------------------------------------- observations and loss


def tree_net():
    generator = np.random.default_rng(0)
    shapes = {"a": (1, 6), "b": (6,), "c": (6, 2)}
    return {n: jnp.asarray(generator.normal(size=s), "float32") for n, s in shapes.items()}


def tree_field(weights, t):
    return jnp.tanh(t @ weights["a"] + weights["b"]) @ weights["c"]


def tree_decay(weights, t, rate):
    u = lambda s: tree_field(weights, s[None, None])[0, 0]
    return jax.vmap(jax.grad(u))(t[:, 0]) + rate * jax.vmap(u)(t[:, 0])


RATE = {"rate": ta.Parameter(delivered=1.3, bounds=(0.1, 10.0))}
TIMES = np.linspace(0, 1, 12)[:, None]
SEEN = np.linspace(0.1, 0.9, 5)[:, None]


def tree_loss(weights, rate):
    t = jnp.asarray(TIMES)
    misfit = tree_field(weights, t)[:, 0] - jnp.exp(-t[:, 0])
    return jnp.mean(misfit**2) + jnp.mean(tree_decay(weights, t, rate) ** 2)


def test_fitted_and_objective_of_a_tree_of_weights():
    net = tree_net()
    frozen = ta.from_jax(
        net, tree_decay, RATE, points=TIMES, field=tree_field, observed=SEEN, loss=tree_loss
    )
    np.testing.assert_allclose(frozen.fitted, tree_field(net, SEEN), rtol=1e-5)
    np.testing.assert_array_equal(frozen.observed, SEEN)
    assert_is_training_loss(frozen, float(tree_loss(net, 1.3)))
    assert frozen.about["weights"] == "24"
    assert frozen.about["precision"] == "float32"


def test_a_loss_needs_weights():
    with pytest.raises(ta.InputError, match="a model with weights, for its loss"):
        ta.from_jax(
            lambda t: t, lambda m, t, rate: rate + 0 * t[:, 0], RATE, points=TIMES,
            loss=lambda m, rate: rate**2,
        )  # fmt: skip
    with pytest.raises(ta.InputError, match="a field that can be evaluated at the observed"):
        ta.from_jax(tree_net(), tree_decay, RATE, points=TIMES, observed=SEEN)


@pytest.mark.parametrize(
    "library", ["nnx", *(pytest.param(n, marks=pytest.mark.long) for n in ("linen", "equinox"))]
)
def test_objective_of_a_module(library):
    if library == "nnx":
        model = Nnx(1, 1, jnp.float32, nnx.Rngs(0))
    else:
        tree, call = LIBRARIES[library](1, 1, jnp.float32)
        model = call(tree)

    def field(model, t):
        return (jax.vmap(model)(t) if library == "equinox" else model(t))[:, 0]

    def residual(model, t, rate):
        return rate * field(model, t) - 1.0

    def loss(model, rate):
        return jnp.mean(residual(model, jnp.asarray(TIMES), rate) ** 2)

    frozen = ta.from_jax(model, residual, RATE, points=TIMES, field=field, observed=SEEN, loss=loss)
    value = float(np.mean(np.asarray(frozen.residual(rate=1.3)) ** 2))
    assert_is_training_loss(frozen, value)
    assert frozen.fitted.shape == (5,)

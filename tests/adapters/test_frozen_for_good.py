"""What is frozen stays: no random numbers, no shared memory, no other thread changes it."""

import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import torch
from flax import nnx
from torch import nn
from torch.nn import functional

import twoaxis as ta

TIMES = np.linspace(0.0, 1.0, 40)[:, None]
RATE = {"rate": ta.Parameter(delivered=1.1, bounds=(0.1, 10.0))}
GENERATOR = np.random.default_rng(0)


def net(*more):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(1, 8), nn.Tanh(), *more, nn.Linear(8, 1)).double()


def decay(model, t, rate):
    u = model(t)
    (slope,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    return slope + rate * u


class Noise(nn.Module):
    """A layer that adds noise in evaluation mode, too."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x + self.size * torch.randn_like(x)


def own_points(draw):
    """A residual that draws its collocation points."""
    return lambda model, t, rate: decay(model, t * 0 + draw(len(t)).requires_grad_(True), rate)


def uniform(count):
    return torch.rand(count, 1, dtype=torch.float64)


DROPPING, DRAWN = net(nn.Dropout(0.2)).train(), uniform(40)
# A model and a residual that draw random numbers, and the same after the fix of the message.
RANDOM_IN_TORCH = {
    "dropout of a module behind a function": (
        lambda: (lambda t: DROPPING.train()(t), decay),
        lambda: (lambda t: DROPPING.eval()(t), decay),
    ),
    "functional dropout": (
        lambda: (nn.Sequential(net(), Dropout()), decay),
        lambda: (nn.Sequential(net(), nn.Dropout(0.2)), decay),
    ),
    "noise in a layer": (lambda: (net(Noise(1e-3)), decay), lambda: (net(), decay)),
    "points": (
        lambda: (net(), own_points(uniform)),
        lambda: (net(), own_points(lambda count: DRAWN.clone()[:count])),
    ),
    "NumPy": (
        lambda: (net(), lambda *a, rate: decay(*a, rate) + np.random.rand()),  # noqa: NPY002
        lambda: (net(), decay),
    ),
    "a generator": (
        lambda: (net(), lambda *a, rate: decay(*a, rate) + GENERATOR.random()),
        lambda: (net(), decay),
    ),
    "Python": (
        lambda: (net(), lambda *a, rate: decay(*a, rate) + random.random()),
        lambda: (net(), decay),
    ),
}


class Dropout(nn.Module):
    """Dropout by the function, which is on by default."""

    def forward(self, x):
        return functional.dropout(x, 0.2)


@pytest.mark.parametrize(("made", "mended"), RANDOM_IN_TORCH.values(), ids=RANDOM_IN_TORCH)
def test_random_numbers_in_torch_are_refused(made, mended):
    with pytest.raises(ta.InputError, match=r"deterministic residual .*net\.eval\(\)"):
        ta.from_torch(*made(), RATE, points=TIMES)
    frozen = ta.from_torch(*mended(), RATE, points=TIMES)
    assert len({ta.score(frozen).displacement["rate"] for _ in range(3)}) == 1


def test_dropout_of_a_module_is_switched_off():
    model = net(nn.Dropout(0.2)).train()
    frozen = ta.from_torch(model, decay, RATE, points=TIMES)
    off = ta.from_torch(model.eval(), decay, RATE, points=TIMES)
    assert ta.score(frozen).displacement == ta.score(off).displacement


def test_a_random_loss_is_refused():
    def loss(model, rate):
        at = uniform(20).requires_grad_(True)
        return (decay(model, at, rate) ** 2).mean()

    frozen = ta.from_torch(net(), decay, RATE, points=TIMES, loss=loss)
    with pytest.raises(ta.InputError, match="a deterministic training loss"):
        frozen.objective.value_and_gradient(frozen.objective.start)
    fixed = uniform(20).requires_grad_(True)
    mended = ta.from_torch(
        net(), decay, RATE, points=TIMES,
        loss=lambda model, rate: (decay(model, fixed, rate) ** 2).mean(),
    )  # fmt: skip
    values = {mended.objective.value_and_gradient(mended.objective.start)[0] for _ in range(2)}
    assert len(values) == 1


def test_random_conditions_are_refused():
    def freeze(conditions):
        return ta.from_torch(
            net(), decay, RATE, points=TIMES, observed=TIMES, conditions=conditions
        ).weights

    weights = freeze(lambda model: model(uniform(9)))
    with pytest.raises(ta.InputError, match="deterministic"):
        weights.conditions_jacobian(weights.start)
    fixed = uniform(9)
    weights = freeze(lambda model: model(fixed))
    assert weights.conditions_jacobian(weights.start).shape == (9, weights.start.size)


def in_jax(model, t, rate):
    return jax.vmap(jax.grad(model))(t[:, 0]) + rate * jax.vmap(model)(t[:, 0])


def falling(t):
    return jnp.exp(-1.1 * t)


RANDOM_IN_JAX = {
    "NumPy": lambda: np.random.rand(),  # noqa: NPY002
    "a generator": GENERATOR.random,
    "Python": random.random,
}


@pytest.mark.parametrize("draw", RANDOM_IN_JAX.values(), ids=RANDOM_IN_JAX)
def test_random_numbers_in_jax_are_refused(draw):
    def noisy(model, t, rate, noise=None):
        return in_jax(model, t, rate) + (draw() if noise is None else noise)

    with pytest.raises(ta.InputError, match="a deterministic residual"):
        ta.from_jax(falling, noisy, RATE, points=TIMES)
    frozen = ta.from_jax(falling, partial(noisy, noise=draw()), RATE, points=TIMES)
    assert len({ta.score(frozen).displacement["rate"] for _ in range(3)}) == 1


def test_random_conditions_in_jax_are_refused():
    """A compiled function keeps what was drawn, and another one keeps something else."""
    model = eqx.nn.MLP("scalar", "scalar", 6, 1, jnp.tanh, key=jax.random.key(0))

    def weights(draw):
        conditions = lambda model: jax.vmap(model)(jnp.asarray(draw(5)))  # noqa: E731
        return ta.from_jax(model, in_jax, RATE, points=TIMES, conditions=conditions).weights

    drawing = weights(GENERATOR.random)
    with pytest.raises(ta.InputError, match="deterministic"):
        drawing.conditions_jacobian(drawing.start)
    fixed = weights(lambda count: np.linspace(0, 1, count))
    assert fixed.conditions_jacobian(fixed.start).shape == (5, fixed.start.size)


# Memory ----------------------------------------------------------------------------------------


def by_function(points):
    def residual(rate):
        return np.exp(-1.1 * TIMES[:, 0]) * (rate - 1.1) + 0.1

    more = {"observed": points, "fitted": points, "data": points, "field": points[:, 0]}
    return ta.FrozenResidual(residual, RATE, points, **more)


def by_torch(points):
    return ta.from_torch(net(), decay, RATE, points=points, observed=points)


def by_jax(points):
    return ta.from_jax(falling, in_jax, RATE, points=points, observed=points)


def arrays(frozen):
    found = [getattr(frozen, name) for name in ("points", "observed", "data", "fitted", "field")]
    return [np.array(each) for each in found if each is not None]


@pytest.mark.parametrize("kind", [np.array, torch.tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("freeze", [by_function, by_torch, by_jax])
def test_arrays_that_change_later_change_nothing(freeze, kind):
    points = kind(TIMES)
    frozen = freeze(points)
    score = partial(ta.score, frozen, view=ta.views.Patch(cells=8))
    before, displacement = arrays(frozen), score().displacement
    weights = frozen.weights
    fitted = weights.field(weights.start) if weights else None
    points[:] = points * 0.5 + 0.3  # drawn again, in place
    assert score().displacement == displacement
    assert all(map(np.array_equal, before, arrays(frozen)))
    if weights:
        assert np.array_equal(weights.field(weights.start), fitted)


@pytest.mark.parametrize("kind", ["array", "table", "list"])
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_another_state_of_a_model_is_frozen_with_what_was_passed(library, kind):
    points, weights = TIMES.copy(), np.linspace(1.0, 2.0, 40)
    given = {"array": points, "table": pd.DataFrame(points), "list": points.tolist()}[kind]
    more = {"points": given, "observed": given, "loss_weights": weights}
    if library == "torch":
        loss = lambda model, rate: rate * model(torch.zeros(1, 1).double()).sum() ** 2  # noqa: E731
        frozen = ta.from_torch(net(), decay, RATE, loss=loss, **more)
    else:
        model = eqx.nn.MLP("scalar", "scalar", 6, 1, jnp.tanh, key=jax.random.key(0))
        more["field"] = lambda model, t: jax.vmap(model)(t[:, 0])
        frozen = ta.from_jax(
            model, in_jax, RATE, loss=lambda model, rate: rate * model(0.0), **more
        )

    def states():
        made = [
            frozen.weights.frozen(frozen.weights.start, {"rate": 1.1}),
            frozen.objective.frozen(frozen.objective.start),
        ]
        return made[0].observed, [ta.score(each).displacement for each in made]

    observed, scores = states()
    points[:] = points[::-1].copy()
    if kind == "list":
        given[:] = points.tolist()
    elif kind == "table":
        given.iloc[:, 0] = points[:, 0]
    weights[:20] = 0  # the next step of an adaptive method
    assert np.array_equal(states()[0], observed)
    assert states()[1] == scores


def test_points_beside_a_function_are_copied():
    t = np.array(TIMES)
    frozen = ta.FrozenResidual(lambda rate: rate - TIMES[:, 0], RATE, (t, t[:3]))
    t *= 2
    assert np.array_equal(frozen.points[0], TIMES)
    assert np.array_equal(frozen.points[1], TIMES[:3])


def test_loss_weights_that_change_later_change_nothing():
    for weights in (np.linspace(1, 2, 40), torch.linspace(1, 2, 40, dtype=torch.float64)):
        frozen = ta.from_torch(net(), decay, RATE, points=TIMES, loss_weights=weights)
        view = ta.views.Weighted(loss_weights=weights)
        scores = [ta.score(frozen).displacement, ta.score(frozen, view=view).displacement]
        weights[:20] = 0
        assert ta.score(frozen).displacement == scores[0]
        assert ta.score(frozen, view=view).displacement == scores[1]


class Wrapped:
    """A network inside of an object that is no module."""

    def __init__(self):
        self.net = net()

    def __call__(self, t):
        return self.net(t)

    def predict(self, t):
        return self.net(t)


MODELS = {
    "module": lambda: (made := net(), made),
    "object": lambda: (made := Wrapped(), made.net),
    "method": lambda: ((made := Wrapped()).predict, made.net),
    "partial": lambda: (partial(made := net()), made),
    "weight norm": lambda: (
        made := nn.Sequential(nn.utils.weight_norm(nn.Linear(1, 1)).double(), nn.Tanh()), made
    ),
}  # fmt: skip


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm`")
def test_a_model_that_is_trained_further_changes_nothing(make):
    model, module = make()
    module(torch.ones(2, 1, dtype=torch.float64))
    frozen = ta.from_torch(model, decay, RATE, points=TIMES)
    before = ta.score(frozen).displacement
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    (module(torch.as_tensor(TIMES)) ** 2).mean().backward()
    optimizer.step()
    assert ta.score(frozen).displacement == before
    again = ta.from_torch(model, decay, RATE, points=TIMES)
    assert ta.score(again).displacement != before
    assert "model.not_copied" not in [note.code for note in frozen.notes]


def test_a_function_of_a_module_says_that_it_is_not_copied():
    module = net()
    frozen = ta.from_torch(lambda t: module(t), decay, RATE, points=TIMES)
    assert "model.not_copied" in [note.code for note in frozen.notes]
    frozen = ta.from_torch(lambda t: torch.exp(-t), decay, RATE, points=TIMES)
    assert "model.not_copied" not in [note.code for note in frozen.notes]


def weighted(model, t, rate):
    return in_jax(lambda x: jnp.tanh(model["w"] * x).sum(), t, rate)


def test_a_tree_of_weights_that_changes_later_changes_nothing():
    for kind in (np.array, jnp.array):
        tree = {"w": kind(np.linspace(1.0, 2.0, 4))}
        frozen = ta.from_jax(tree, weighted, RATE, points=TIMES)
        before = ta.score(frozen).displacement
        if kind is np.array:
            tree["w"] += 1
        else:  # a step of training that takes the memory of the weights
            jax.jit(lambda w: w + 1, donate_argnums=0)(tree["w"])
        tree["w"] = jnp.zeros(4)
        assert ta.score(frozen).displacement == before


def test_a_module_of_nnx_that_is_trained_further_changes_nothing():
    model = nnx.Linear(1, 1, rngs=nnx.Rngs(0))

    def residual(model, t, rate):
        return in_jax(lambda x: model(x[None])[0], t, rate)

    frozen = ta.from_jax(model, residual, RATE, points=TIMES)
    before = ta.score(frozen).displacement
    model.bias[...] = model.bias[...] + 1
    assert ta.score(frozen).displacement == before


# Threads ---------------------------------------------------------------------------------------


def keeping(model, t, rate):
    """A residual that calls ``backward`` and a model that keeps a tensor of the call."""
    model.kept = model(t)
    model.kept.sum().backward(retain_graph=True)
    (slope,) = torch.autograd.grad(model.kept.sum(), t, create_graph=True)
    return slope + rate * model.kept


def in_threads(call, count=4, times=15):
    with ThreadPoolExecutor(count) as pool:
        return [each.result() for each in [pool.submit(call) for _ in range(count * times)]]


@pytest.mark.parametrize("residual", [decay, keeping])
def test_scores_in_threads(residual):
    frozen = ta.from_torch(net(), residual, RATE, points=TIMES)
    expected = ta.score(frozen).displacement
    assert all(each == expected for each in in_threads(lambda: ta.score(frozen).displacement))


def test_weights_and_loss_in_threads():
    def loss(model, rate):
        return (model(torch.as_tensor(TIMES)) ** 2).mean() * rate

    frozen = ta.from_torch(net(), decay, RATE, points=TIMES, observed=TIMES, loss=loss)
    weights, objective = frozen.weights, frozen.objective
    shifts = GENERATOR.standard_normal((8, weights.start.size)) / 10

    def evaluate(shift):
        at = weights.start + shift
        rows, _ = weights.residual_jacobian(at, TIMES, rate=1.1)
        value, slope = objective.value_and_gradient(np.append(at, objective.start[-1]))
        return np.concatenate([
            rows.ravel(), weights.residual(at, TIMES, rate=1.1), weights.field(at), [value], slope,
            weights.network(at)[0].weight.detach().ravel(),
        ])  # fmt: skip

    expected = [evaluate(shift) for shift in shifts]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            found = list(pool.map(evaluate, shifts))
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_evaluation_leaves_generators_to_other_threads():
    """A training in another thread must not draw the same numbers twice."""
    frozen = ta.from_torch(net(), decay, RATE, points=TIMES)
    drawn = []
    with ThreadPoolExecutor(2) as pool:
        scores = pool.submit(lambda: [ta.score(frozen) for _ in range(30)])
        while not scores.done():
            drawn.append((torch.rand(2).tolist(), random.random(), np.random.rand()))  # noqa: NPY002
    for numbers in zip(*((tuple(a), b, c) for a, b, c in drawn), strict=True):
        assert len(set(numbers)) == len(drawn)


# Labels ----------------------------------------------------------------------------------------


def advection(model, at, rate):
    (slope,) = torch.autograd.grad(model(at).sum(), at, create_graph=True)
    return slope[:, :1] + rate * slope[:, 1:]


def test_observed_points_have_the_columns_and_the_rows_of_the_others():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)).double()
    table = pd.DataFrame(np.random.default_rng(0).random((30, 2)), columns=["t", "x"])
    data = np.exp(-table["t"]).rename(index=lambda n: n + 5)
    table.index = data.index

    def freeze(points, observed, **options):
        return ta.from_torch(model, advection, RATE, points=points, observed=observed, **options)

    expected = freeze(table, table)
    for frozen in (
        freeze(table, table[["x", "t"]]),
        freeze(table.to_numpy(), table[["x", "t"]], axes=("t", "x")),
    ):
        assert np.array_equal(frozen.observed, expected.observed)
        assert np.array_equal(frozen.fitted, expected.fitted)
    with pytest.raises(ta.InputError, match="observed with the coordinates t, x"):
        freeze(table, table.rename(columns={"x": "y"}))
    shuffled = data.sample(frac=1.0, random_state=0)
    for frozen in (expected, expected.weights.frozen(expected.weights.start, {"rate": 1.1})):
        for call in (ta.refine, ta.audit):
            with pytest.raises(ta.InputError, match="data in the order of the observations"):
                call(frozen, data=shuffled, noise=0.1)
        assert ta.audit(frozen, data=data, noise=0.1).group("/field_fit") is not None

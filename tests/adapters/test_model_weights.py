"""PyTorch and JAX models as least-squares systems in their weights."""

from dataclasses import replace

import equinox as eqx
import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from bad_refinements import assert_bad_refinements_are_told
from flax import nnx
from least_squares_systems import assert_is_least_squares_system

import twoaxis as ta

# PyTorch's own forward mode still uses torch.jit.script.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script.:DeprecationWarning")

RATES = {
    "a": ta.Parameter(delivered=0.7, bounds=(0.07, 7)),
    "b": ta.Parameter(delivered=-0.3, bounds=(-3, 3), coordinate="linear"),
}
PLANE = np.random.default_rng(0).random((25, 2))
SITES = np.random.default_rng(1).random((7, 2))


class Scaled(torch.nn.Module):
    """Two fields of x and t; a frozen layer, and a buffer that is no weight."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = torch.nn.Linear(2, 6), torch.nn.Linear(6, 2)
        self.held = torch.nn.Linear(6, 6).requires_grad_(False)
        self.register_buffer("scale", torch.tensor([2.0, 0.5]))

    def forward(self, xt):
        hidden = torch.tanh(self.held(torch.tanh(self.first(torch.cat([xt[:, :1], xt[:, 1:]], 1)))))
        return self.last(hidden) * self.scale


def slopes(values, at):
    return torch.autograd.grad(values.sum(), at, create_graph=True)[0]


def by_autograd(model, xt, a, b):
    """Two equations of two fields, with second derivatives."""
    u, v = model(xt).T
    bend = slopes(slopes(u, xt)[:, 0], xt)[:, 0]
    return slopes(u, xt)[:, 1] - a * bend + b * v, (slopes(v, xt)[:, 1] - b * u * v)[:, None]


def by_func(model, xt, a, b):
    """The same equations, with transforms of functions."""

    def fields(at):
        return model(at[None])[0]

    first = torch.func.vmap(torch.func.jacrev(fields))(xt)
    second = torch.func.vmap(torch.func.jacfwd(torch.func.jacrev(fields)))(xt)
    u, v = model(xt).T
    return first[:, 0, 1] - a * second[:, 0, 0, 0] + b * v, first[:, 1, 1] - b * u * v


def coupled(model, xt, a, b):
    """The mean over the points is taken out, so that every row needs every point."""
    one, other = by_autograd(model, xt, a, b)
    return one - one.mean(), other


def coupled_in_two(model, xt, a, b):
    """Only the first and the last point are coupled."""
    one, other = by_autograd(model, xt, a, b)
    return torch.cat([one[:1] * one[-1:], one[1:]]), other


def of_a_layer(model, xt, a, b):
    """The equations use more of the module than its outputs."""
    u = model.last(torch.tanh(model.first(xt)))[:, 0]
    return slopes(u, xt)[:, 1] - a * u + b


class Doubled(torch.autograd.Function):
    """An operation that cannot be vectorized."""

    @staticmethod
    def forward(_, values):
        return values * 2

    @staticmethod
    def backward(_, along):
        along.detach().numpy()  # no array stands behind a vectorized tensor
        return along * 2


def coupled_and_not_vectorized(model, xt, a, b):
    one, other = coupled(model, xt, a, b)
    return Doubled.apply(one), other


HOW = {
    by_autograd: "one backward pass, with a copy of the weights for each point",
    by_func: "point by point, vectorized (torch.func.vmap of jacrev)",
    of_a_layer: "a backward pass for each residual value, in batches",
    coupled: "a backward pass for each residual value, in batches",
    coupled_in_two: "a backward pass for each residual value, in batches",
    coupled_and_not_vectorized: "a backward pass for each residual value",
}


def start_and_ends(model):
    """Known conditions: the start of both fields, and the first at the ends."""
    x = torch.linspace(0, 1, 5, dtype=torch.float64)[:, None]
    start = model(torch.cat([x, 0 * x], 1)) - torch.cat([torch.sin(x), x], 1)
    ends = model(torch.cat([torch.ones_like(x), x], 1))[:, 0]
    return start, ends


@pytest.mark.parametrize("residual", HOW)
def test_pytorch(residual):
    net = Scaled()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    frozen = ta.from_torch(
        net, residual, RATES, points=PLANE, observed=SITES, conditions=start_and_ends,
        axes=("x", "t"), fields=("u", "v"),
    )  # fmt: skip
    assert frozen.weights.start.size == 6 * 2 + 6 + 2 * 6 + 2
    assert_is_least_squares_system(frozen, np.random.default_rng(2).random((25, 2)))
    assert frozen.weights.how == HOW[residual]
    start, ends = start_and_ends(net.double())
    misfits = frozen.weights.conditions(frozen.weights.start)
    assert (misfits[:10] ** 2).sum() == pytest.approx((start**2).mean().item())
    assert (misfits[10:] ** 2).sum() == pytest.approx((ends**2).mean().item())
    for name, value in net.state_dict().items():
        assert torch.equal(value.float(), before[name])


def test_pytorch_in_parts(monkeypatch):
    """A Jacobian that does not fit into memory at once is computed in parts."""
    whole = [
        ta.from_torch(Scaled(), residual, RATES, points=PLANE).weights
        for residual in (by_autograd, coupled)
    ]
    values = {name: p.delivered for name, p in RATES.items()}
    wanted = [each.residual_jacobian(each.start, PLANE, **values)[0] for each in whole]
    monkeypatch.setattr("twoaxis.adapters.jacobians.ENTRIES", 100)
    monkeypatch.setattr("twoaxis.adapters.jacobians.ROW_ENTRIES", 400)
    for residual, known in zip((by_autograd, by_func, coupled), (0, 0, 1), strict=True):
        system = ta.from_torch(Scaled(), residual, RATES, points=PLANE).weights
        found = system.residual_jacobian(system.start, PLANE, **values)[0]
        np.testing.assert_allclose(found, wanted[known], rtol=0, atol=1e-12)
        assert system.how == HOW[residual]


def test_observed_field_of_pytorch():
    """What was observed is not an output of the network, but a function of it."""
    frozen = ta.from_torch(
        Scaled(), by_autograd, RATES, points=PLANE, observed=SITES,
        field=lambda model, xt: model(xt)[:, :1] ** 2,
    )  # fmt: skip
    assert frozen.weights.field(frozen.weights.start).shape == (7,)
    assert frozen.weights.field(frozen.weights.start, PLANE).shape == (25,)
    assert_is_least_squares_system(frozen)


def test_unknown_function_in_pytorch():
    known = {"k": ta.UnknownFunction(nodes=[0.0, 0.5, 1.0], bounds=(0.1, 10), delivered=[1, 2, 3])}

    def diffusion(model, xt, k):
        u = model(xt)[:, 0]
        return slopes(u, xt)[:, 1] - k(xt[:, 0]) * slopes(slopes(u, xt)[:, 0], xt)[:, 0]

    frozen = ta.from_torch(Scaled(), diffusion, known, points=PLANE)
    assert_is_least_squares_system(frozen)
    system = frozen.weights
    as_nodes = system.residual(system.start, PLANE, k=[1.0, 2.0, 3.0])
    np.testing.assert_allclose(as_nodes, frozen.residual(k=[1.0, 2.0, 3.0]).detach(), rtol=1e-10)


@pytest.mark.parametrize("lost", ["weights", "parameters"])
def test_a_detached_residual_is_refused(lost):
    """What is detached has no derivative, though the residual changes with it."""

    def residual(model, xt, a, b):
        u = model(xt)[:, 0]
        u = u.detach() if lost == "weights" else u
        a = a.detach() if lost == "parameters" else a
        return slopes(model(xt)[:, 1], xt)[:, 1] * 1e-3 + a * u + b

    system = ta.from_torch(Scaled(), residual, RATES, points=PLANE).weights
    with pytest.raises(ta.InputError, match=lost):
        system.residual_jacobian(system.start, PLANE, a=0.7, b=-0.3)


def test_kinks_are_no_reason_to_refuse():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 30), torch.nn.ReLU(), torch.nn.Linear(30, 1))

    def residual(model, xt, a, b):
        u = model(xt)[:, 0]
        return slopes(u, xt)[:, 1] + a * u - b

    system = ta.from_torch(net, residual, RATES, points=PLANE).weights
    by_weights, _ = system.residual_jacobian(system.start, PLANE, a=0.7, b=-0.3)
    assert by_weights.shape == (25, 121)


def test_a_function_has_no_weights():
    decay = {"k": ta.Parameter(delivered=1.0, bounds=(0.1, 10))}
    times = np.linspace(0, 1, 5)[:, None]
    frozen = ta.from_torch(lambda t: torch.exp(-t), lambda m, t, k: k * m(t), decay, points=times)
    assert frozen.weights is None
    frozen = ta.from_jax(lambda t: jnp.exp(-t), lambda m, t, k: k * m(t), decay, points=times)
    assert frozen.weights is None
    for freeze in (ta.from_torch, ta.from_jax):
        with pytest.raises(ta.InputError, match="weights"):
            freeze(
                lambda t: t, lambda m, t, k: k * m(t), decay, points=times, conditions=lambda m: m
            )


def test_values_of_all_parameters_are_needed():
    system = ta.from_torch(Scaled(), by_autograd, RATES, points=PLANE).weights
    with pytest.raises(ta.InputError, match="a, b"):
        system.residual(system.start, PLANE, a=1.0)
    with pytest.raises(ta.InputError, match="points"):
        system.field(system.start)


# ---------------------------------------------------------------- JAX


class Linen(linen.Module):
    @linen.compact
    def __call__(self, xt):
        return linen.Dense(2)(jnp.tanh(linen.Dense(6)(xt)))


class Nnx(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.first, self.last = nnx.Linear(2, 6, rngs=rngs), nnx.Linear(6, 2, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, xt):
        return self.last(self.dropout(jnp.tanh(self.first(xt))))


MODELS = {
    "equinox": lambda: eqx.nn.MLP(2, 2, 6, 1, jnp.tanh, key=jax.random.PRNGKey(0)),
    "linen": lambda: Linen().bind(Linen().init(jax.random.PRNGKey(0), jnp.ones((1, 2)))),
    "nnx": Nnx,
}


def in_jax(model, xt, a, b):
    first = jax.vmap(jax.jacrev(model))(xt)
    u, v = jax.vmap(model)(xt).T
    return first[:, 0, 1] + a * u * first[:, 0, 0] + b * v, (first[:, 1, 1] - b * u * v)[:, None]


def coupled_in_jax(model, xt, a, b):
    one, other = in_jax(model, xt, a, b)
    return one - one.mean(), other


def start_in_jax(model):
    x = jnp.linspace(0, 1, 5)
    return jax.vmap(model)(jnp.stack([x, 0 * x], 1)) - jnp.stack([jnp.sin(x), x], 1)


@pytest.mark.parametrize(
    "library", ["equinox", *(pytest.param(n, marks=pytest.mark.long) for n in ("nnx", "linen"))]
)
def test_jax(library):
    frozen = ta.from_jax(
        MODELS[library](), in_jax, RATES, points=PLANE, observed=SITES,
        conditions=start_in_jax, field=lambda model, xt: jax.vmap(model)(xt), fields=("u", "v"),
    )  # fmt: skip
    assert_is_least_squares_system(frozen)
    assert frozen.weights.how == "point by point, vectorized (jax.vmap of jax.jacrev)"
    misfits = frozen.weights.conditions(frozen.weights.start)
    with jax.enable_x64(True):
        model = frozen.weights.network(frozen.weights.start)
        mean = float((start_in_jax(model) ** 2).mean())
    assert (misfits**2).sum() == pytest.approx(mean)


def test_coupled_points_in_jax():
    frozen = ta.from_jax(MODELS["equinox"](), coupled_in_jax, RATES, points=PLANE)
    assert_is_least_squares_system(frozen)
    assert frozen.weights.how == "a backward pass for each residual value (jax.vjp)"


def test_jax_in_parts(monkeypatch):
    values = {name: p.delivered for name, p in RATES.items()}
    system = ta.from_jax(MODELS["equinox"](), in_jax, RATES, points=PLANE).weights
    whole = system.residual_jacobian(system.start, PLANE, **values)[0]
    monkeypatch.setattr("twoaxis.adapters.jacobians.ENTRIES", 100)
    system = ta.from_jax(MODELS["equinox"](), in_jax, RATES, points=PLANE).weights
    parts = system.residual_jacobian(system.start, PLANE, **values)[0]
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-12)


@pytest.mark.long
def test_bad_refinements_of_jax_are_told():
    frozen = ta.from_jax(
        MODELS["equinox"](), in_jax, RATES, points=PLANE, observed=SITES,
        field=lambda model, xt: jax.vmap(model)(xt), fields=("u", "v"),
    )  # fmt: skip
    data = frozen.fitted + 0.1 * np.random.default_rng(0).standard_normal(frozen.fitted.shape)
    assert_bad_refinements_are_told(replace(frozen, data=data))

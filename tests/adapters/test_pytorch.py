"""`from_torch` against autograd's reverse mode, on small models that were really trained."""

# ruff: noqa: ARG001, ARG005 - residuals take what they are given, and ignore some of it

import copy
import random

import numpy as np
import pytest
import torch
from objectives import assert_is_training_loss
from torch import nn

import twoaxis as ta

torch.set_num_threads(1)
PRECISIONS = {"float64": 1e-10, "float32": 1e-5}


def derivative(u, x, column=0):
    return torch.autograd.grad(u.sum(), x, create_graph=True)[0][:, column : column + 1]


def plain(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 16), nn.Tanh(), nn.Linear(16, outputs))


class Regularized(nn.Module):
    """Dropout and batch normalisation, whose training mode has side effects and randomness."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(inputs, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Dropout(0.3)
        )
        self.head = nn.Linear(16, outputs)

    def forward(self, x):
        return self.head(self.body(x))


def oscillator(model, t, mu, k):
    u = model(t)
    u_t = derivative(u, t)
    return derivative(u_t, t) + mu * u_t + k * u


def heat(model, xt, kappa):
    """The unknown stands inside a derivative: exactness needs forward over reverse."""
    u = model(xt)
    flux = kappa * (1 + u**2) * derivative(u, xt, 0)
    return derivative(u, xt, 1) - derivative(flux, xt, 0)


def poisson(model, xy, a, source):
    """Steady, on a square, and not affine in its parameters."""
    u = model(xy)
    laplacian = sum(derivative(derivative(u, xy, axis), xy, axis) for axis in (0, 1))
    return -a * laplacian + torch.tanh(source * u) - source**2


def predators(model, t, birth, death, hunt):
    """Two equations and three unknowns."""
    both = model(t)
    u, v = both[:, :1], both[:, 1:]
    return derivative(u, t) - birth * u + hunt * u * v, derivative(v, t) + death * v - hunt * u * v


def by_name(model, t, birth, death, hunt):
    """Equations in a dictionary, as PhysicsNeMo returns them."""
    return dict(zip(("prey", "predator"), predators(model, t, birth, death, hunt), strict=True))


def functional(model, t, rate):
    """Derivatives by torch.func."""
    weights = dict(model.named_parameters())

    def u(one):
        return torch.func.functional_call(model, weights, (one[None],))[0, 0]

    slope = torch.func.vmap(torch.func.grad(u))(t)[:, 0]
    return slope + torch.exp(-rate) * torch.func.vmap(u)(t)


HUNT = {"birth": (1.0, 1.1), "death": (0.5, 0.4), "hunt": (0.3, 0.3)}
CASES = {
    # residual, network, coordinates, outputs, the unknowns with truth and delivered value
    "ordinary": (oscillator, plain, 1, 1, {"mu": (0.5, 0.7), "k": (4.0, 3.1)}),
    "space and time": (heat, plain, 2, 1, {"kappa": (0.1, 0.13)}),
    "steady": (poisson, plain, 2, 1, {"a": (1.0, 0.8), "source": (0.5, 0.6)}),
    "system": (predators, plain, 1, 2, HUNT),
    "by name": (by_name, plain, 1, 2, HUNT),
    "torch.func": (functional, plain, 1, 1, {"rate": (1.0, 1.4)}),
    "regularized": (oscillator, Regularized, 1, 1, {"mu": (0.5, 0.7), "k": (4.0, 3.1)}),
}  # fmt: skip


def made(name, dtype=torch.float64, count=60):
    """Train a network for a few steps on data and equation together."""
    residual, network, inputs, outputs, unknowns = CASES[name]
    torch.manual_seed(0)
    net = network(inputs, outputs).to(dtype)
    points = torch.rand(count, inputs, dtype=dtype)
    target = torch.sin(3 * points[:, :1]).repeat(1, outputs)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(5):
        optimizer.zero_grad()
        values = {n: torch.tensor(delivered, dtype=dtype) for n, (_, delivered) in unknowns.items()}
        found = residual(net, points.clone().requires_grad_(True), **values)
        parts = list(found.values()) if isinstance(found, dict) else found
        parts = parts if isinstance(parts, (tuple, list)) else [parts]
        loss = torch.mean((net(points) - target) ** 2) + 0.1 * sum((p**2).mean() for p in parts)
        loss.backward()
        optimizer.step()
    parameters = {
        n: ta.Parameter(truth=truth, delivered=delivered, bounds=(truth / 10, truth * 10))
        for n, (truth, delivered) in unknowns.items()
    }
    return net, residual, parameters, points


def frozen_of(net, residual, parameters, points, **options):
    return ta.from_torch(net, residual, parameters, points=points, **options)


def codes(frozen):
    return [note.code for note in frozen.notes]


def independent(net, residual, parameters, points, at, weights=None):
    """r and J by reverse mode, then B, H and D in log coordinates, by hand."""
    frozen = copy.deepcopy(net).eval()
    values = torch.tensor([getattr(p, at) for p in parameters.values()], dtype=points.dtype)

    def joined(vector):
        named = dict(zip(parameters, vector, strict=True))
        found = residual(frozen, points.clone().requires_grad_(True), **named)
        parts = list(found.values()) if isinstance(found, dict) else found
        parts = parts if isinstance(parts, (tuple, list)) else [parts]
        return torch.cat([part.reshape(-1) for part in parts])

    r = joined(values).detach().double().numpy()
    J = (
        torch.autograd.functional.jacobian(joined, values).double().numpy()
        * values.double().numpy()
    )
    m = np.full(len(r), 1 / len(points)) if weights is None else weights / len(points)
    B, H = J.T @ (m * r), J.T @ (m[:, None] * J)
    return r, J, B, H, -np.linalg.solve(H, B)


def close(found, wanted, rtol):
    found, wanted = np.squeeze(np.asarray(found)), np.squeeze(np.asarray(wanted))
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * np.abs(wanted).max())


@pytest.mark.parametrize("at", ["truth", "delivered"])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_against_reverse_mode(name, precision, at):
    made_of = made(name, getattr(torch, precision))
    frozen = frozen_of(*made_of, precision="model")
    r, J, B, H, D = independent(*made_of, at)
    score, rtol = ta.score(frozen, at=at), PRECISIONS[precision]
    values = {n: getattr(p, at) for n, p in frozen.parameters.items()}
    close(frozen.at(frozen.coordinates(values)), r, rtol)
    close(score.B, B, rtol)
    close(score.H, H, rtol)
    # In single precision D inherits the condition of H.
    close(list(score.displacement.values()), D, rtol * max(1, np.linalg.cond(H)) ** 0.5)
    assert score.derivative == "exact, by PyTorch"
    del J


@pytest.mark.parametrize("name", CASES)
def test_double_precision_of_a_single_precision_model(name):
    net, residual, parameters, points = made(name, torch.float32)
    frozen = frozen_of(net, residual, parameters, points)
    double = (copy.deepcopy(net).double(), residual, parameters, points.double())
    *_, B, H, D = independent(*double, "truth")
    score = ta.score(frozen)
    close(score.B, B, 1e-10)
    close(score.H, H, 1e-10)
    close(list(score.displacement.values()), D, 1e-8)
    assert codes(frozen) == ["precision.copy"]
    assert next(net.parameters()).dtype == torch.float32


def test_the_precision_is_noted():
    assert frozen_of(*made("ordinary")).notes == ()
    frozen = frozen_of(*made("ordinary", torch.float32), precision="model")
    assert codes(frozen) == ["precision.model"]
    audit = ta.audit(frozen, candidates=5)
    assert frozen.notes[0].text.split(";")[0] in " ".join(str(audit).split())
    net, _, parameters, points = made("ordinary")
    frozen = frozen_of(net, lambda m, t, mu, k: (mu * m(t) + k).float(), parameters, points)
    assert codes(frozen) == ["precision.residual"]
    with pytest.raises(ta.InputError, match='precision "float64" or "model"'):
        frozen_of(net, oscillator, parameters, points, precision="half")


def test_a_function_is_called_in_double_precision():
    """A function has no weights to show: it gets float64, or the precision of the points."""
    _, residual, parameters, points = made("ordinary", torch.float32)
    double = frozen_of(torch.sin, residual, parameters, points)
    assert double.notes == ()
    values = {n: p.delivered for n, p in parameters.items()}
    t = points.double().numpy()[:, 0]
    by_hand = -np.sin(t) + values["mu"] * np.cos(t) + values["k"] * np.sin(t)
    np.testing.assert_allclose(double.at(double.coordinates(values)), by_hand, rtol=1e-12)
    assert codes(frozen_of(torch.sin, residual, parameters, points, precision="model")) == [
        "precision.model"
    ]


def test_half_precision_is_raised_to_double_or_kept():
    net, residual, parameters, points = made("ordinary", torch.float32)
    low = copy.deepcopy(net).to(torch.bfloat16)
    frozen = frozen_of(low, residual, parameters, points.bfloat16())
    assert codes(frozen) == ["precision.copy"]
    kept = frozen_of(low, residual, parameters, points.bfloat16(), precision="model")
    assert codes(kept) == ["precision.model"]


def test_delivered_points_field_and_other_points():
    net, residual, parameters, points = made("space and time")
    frozen = frozen_of(net, residual, parameters, points)
    assert {n: p.delivered for n, p in frozen.parameters.items()} == {"kappa": 0.13}
    np.testing.assert_array_equal(frozen.points, points.numpy())
    np.testing.assert_allclose(frozen.field, net(points).detach().numpy()[:, 0])
    other = np.random.default_rng(0).random((7, 2))
    moved = frozen.moved_to(other)
    direct = residual(net, torch.tensor(other, requires_grad=True), kappa=0.1).detach().numpy()
    np.testing.assert_allclose(moved.at(np.log([0.1])), direct[:, 0], rtol=1e-12)
    assert np.isfinite(ta.score(frozen, fresh=50).summary()["fresh_displacement"]["kappa"])
    as_arrays = frozen_of(net, residual, parameters, points.numpy().tolist())
    np.testing.assert_array_equal(as_arrays.at(np.log([0.1])), frozen.at(np.log([0.1])))
    squared = frozen_of(net, residual, parameters, points, field=lambda m, x: m(x) ** 2)
    np.testing.assert_allclose(squared.field, frozen.field**2)


def test_an_unknown_that_is_stored_through_a_transform():
    class Inverse(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.raw = plain(1, 1), nn.Parameter(torch.tensor(0.3))

        def forward(self, t):
            return self.net(t)

    torch.manual_seed(1)
    model = Inverse().double()
    t = torch.rand(50, 1, dtype=torch.float64)

    def decay(model, t, rate):
        u = model(t)
        return derivative(u, t) + rate * u

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(20):
        optimizer.zero_grad()
        r = decay(model, t.clone().requires_grad_(True), nn.functional.softplus(model.raw))
        (torch.mean((model(t) - torch.exp(-t)) ** 2) + torch.mean(r**2)).backward()
        optimizer.step()
    raw = float(model.raw.detach())
    delivered = float(np.log1p(np.exp(raw)))
    parameters = {"rate": ta.Parameter(delivered=delivered, bounds=(0.01, 10.0))}
    score = ta.score(frozen_of(model, decay, parameters, t))
    # The loss in the raw variable, by reverse mode: dL/draw = 2 B / p * dp/draw.
    stored = torch.tensor(raw, dtype=torch.float64, requires_grad=True)
    r = decay(model, t.clone().requires_grad_(True), nn.functional.softplus(stored))
    (slope,) = torch.autograd.grad(torch.mean(r**2), stored)
    sigmoid = 1 / (1 + np.exp(-raw))
    assert 2 * float(score.B) / delivered * sigmoid == pytest.approx(float(slope), rel=1e-10)
    assert float(model.raw.detach()) == raw


# What an audit leaves behind ------------------------------------------------------------------


def state(net):
    return {
        "weights": {k: v.clone() for k, v in net.state_dict().items()},
        "gradients": [None if p.grad is None else p.grad.clone() for p in net.parameters()],
        "gradient objects": [id(p.grad) for p in net.parameters()],
        "flags": [p.requires_grad for p in net.parameters()],
        "modes": [m.training for m in net.modules()],
        "hooks": [len(m._forward_hooks) for m in net.modules()],
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state()[1].copy(),  # noqa: NPY002 - the global state is meant
        "python": random.getstate(),
        "default": torch.get_default_dtype(),
        "grad mode": torch.is_grad_enabled(),
    }


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


def messy(model, t, mu, k):
    """A residual that calls backward."""
    model(t.detach()).sum().backward()
    return oscillator(model, t, mu, k)


LEFT = [(oscillator, "float64", True), (messy, "model", False)]
LEFT_AT_LENGTH = [
    pytest.param(function, precision, training, marks=pytest.mark.long)
    for function in (oscillator, messy)
    for precision in ("float64", "model")
    for training in (True, False)
    if (function, precision, training) not in LEFT
]


@pytest.mark.parametrize(("function", "precision", "training"), LEFT + LEFT_AT_LENGTH)
def test_nothing_is_left_behind(function, precision, training):
    net, _, parameters, points = made("regularized", torch.float32)
    net.train(training)
    net.body[0].weight.requires_grad_(False)
    before = state(net)
    frozen = frozen_of(net, function, parameters, points, precision=precision)
    ta.audit(frozen, candidates=5)
    frozen.moved_to(points[:5])
    # Evaluation mode: dropout draws nothing.
    values = {n: p.delivered for n, p in parameters.items()}
    assert torch.equal(frozen.residual(**values), frozen.residual(**values))
    assert same(before, state(net))
    assert points.grad is None
    assert not points.requires_grad


def test_the_state_is_put_back_when_the_residual_fails():
    net, _, parameters, points = made("regularized")
    net.train()
    before = state(net)

    def failing(model, t, mu, k):
        raise KeyError("temperature")

    with pytest.raises(ta.InputError, match="KeyError: 'temperature'"):
        frozen_of(net, failing, parameters, points)
    assert same(before, state(net))


# Weights of the loss ---------------------------------------------------------------------------

RAMP = np.linspace(0.5, 2.0, 60)
SINGLE = {
    "a number": (3.0, np.ones(60)),
    "a tensor of one": (torch.tensor(3.0), np.ones(60)),
    "one for each point": (RAMP, RAMP),
    "a column": (torch.tensor(RAMP)[:, None], RAMP),
    "a parameter that was learned": (nn.Parameter(torch.tensor(RAMP)), RAMP),
    "in a list": ([RAMP], RAMP),
    "RBA, which squares them": (torch.tensor(RAMP) ** 2, RAMP**2),
    "causal": (np.exp(-5 * np.cumsum(RAMP) / 60), np.exp(-5 * np.cumsum(RAMP) / 60)),
}


@pytest.mark.parametrize(("given", "wanted"), SINGLE.values(), ids=SINGLE)
def test_weights_of_one_equation(given, wanted):
    made_of = made("ordinary")
    score = ta.score(frozen_of(*made_of, loss_weights=given))
    *_, D = independent(*made_of, "truth", weights=wanted)
    close(list(score.displacement.values()), D, 1e-9)


ONE, HALF = np.ones(60), np.full(60, 0.5)
SEVERAL = {
    "none": (None, ONE, ONE),
    "a number": (2.0, 2 * ONE, 2 * ONE),
    "one for each equation": ([1.0, 0.5], ONE, HALF),
    "a tensor of them": (torch.tensor([1.0, 0.5]), ONE, HALF),
    "by name": ({"prey": 1.0, "predator": 0.5}, ONE, HALF),
    "one for each point": (RAMP, RAMP, RAMP),
    "points by equations": (np.stack([RAMP, HALF], axis=1), RAMP, HALF),
    "equations by points": (torch.tensor(np.stack([RAMP, HALF])), RAMP, HALF),
    "mixed": ([torch.tensor(RAMP)[:, None], 0.5], RAMP, HALF),
}


@pytest.mark.parametrize(("given", "first", "second"), SEVERAL.values(), ids=SEVERAL)
def test_weights_of_several_equations(given, first, second):
    made_of = made("system")
    frozen = frozen_of(*made_of, loss_weights=given)
    assert isinstance(frozen.view, ta.views.Blocks)
    _, _, B, H, D = independent(*made_of, "truth", weights=np.concatenate([first, second]))
    score = ta.score(frozen)
    close(score.B, B, 1e-10)
    close(score.H, H, 1e-10)
    close(list(score.displacement.values()), D, 1e-9)


WRONG_WEIGHTS = {
    "too few": (np.ones(7), r"weights of shape \(7,\)"),
    "text": ("heavy", "heavy"),
    "negative": (-1.0, "not negative"),
    "zero": (0.0, "not all zero"),
    "not finite": (np.full(60, np.nan), "finite"),
    "objects": ([object()], "one number per point, for each equation"),
}


@pytest.mark.parametrize(("given", "message"), WRONG_WEIGHTS.values(), ids=WRONG_WEIGHTS)
def test_wrong_weights(given, message):
    with pytest.raises(ta.InputError, match=message):
        frozen_of(*made("ordinary"), loss_weights=given)


def test_weights_and_a_view_exclude_each_other():
    view = ta.views.Patch(cells=4)
    assert frozen_of(*made("ordinary"), view=view).view is view
    with pytest.raises(ta.InputError, match="both"):
        frozen_of(*made("ordinary"), view=view, loss_weights=1.0)


# Bad input -------------------------------------------------------------------------------------


def refused(message, *, net=None, residual=None, points=None, parameters=None, **options):
    parts = zip((net, residual, parameters, points), made("ordinary"), strict=True)
    with pytest.raises(ta.InputError, match=message):
        frozen_of(*(own if given is None else given for given, own in parts), **options)


def test_other_devices():
    elsewhere = torch.zeros(60, 1, dtype=torch.float64, device="meta")
    refused("'meta' has no values", points=elsewhere)
    refused("has shapes only", net=made("ordinary")[0].to("meta"))


def test_graphs_that_are_cut():
    refused("missing graph", residual=lambda m, t, mu, k: derivative(m(t).detach(), t) + mu + k)

    def first_only(model, t, mu, k):
        u = model(t)
        (u_t,) = torch.autograd.grad(u.sum(), t)
        return derivative(u_t, t) + mu * u_t + k * u

    refused("create_graph=True", residual=first_only)


def test_a_parameter_that_loses_its_derivative_is_differenced():
    net, _, parameters, points = made("ordinary")
    cut = frozen_of(
        net, lambda m, t, mu, k: oscillator(m, t, float(mu), float(k)), parameters, points
    )
    whole = ta.score(frozen_of(net, oscillator, parameters, points))
    with pytest.warns(ta.AccuracyWarning, match="derivative by mu"):
        score = ta.score(cut)
    assert "differences" in score.derivative
    close(list(score.displacement.values()), list(whole.displacement.values()), 1e-5)


def test_a_parameter_that_the_residual_does_not_see():
    net, _, parameters, points = made("ordinary")
    frozen = frozen_of(net, lambda m, t, mu, k: oscillator(m, t, mu, 4.0), parameters, points)
    assert ta.score(frozen).H[1, 1] == 0
    assert ta.score(frozen).directions()["status"].tolist() == ["null", "seen"]
    alone = frozen_of(
        net, lambda m, t, k: oscillator(m, t, 0.5, 4.0), {"k": parameters["k"]}, points
    )
    assert ta.frozen_scan(alone).minimum is None


SINGLE_NET = plain(1, 1)
BAD = {
    "no function": (
        {"residual": 3},
        "residual to be a function of model, points and the parameters",
    ),
    "no model": ({"net": {"weight": 1}}, "model as a torch.nn.Module"),
    "other names": ({"residual": lambda m, t, nu: m(t)}, "nu.*name its arguments"),
    "too few arguments": (
        {"residual": lambda m, mu, k: mu},
        "to take model, points and the keywords mu, k",
    ),
    "no parameters": ({"parameters": {"mu": 3.0}}, "twoaxis.Parameter"),
    "points that are none": ({"points": "everywhere"}, "points as real numbers"),
    "points in three dimensions": ({"points": np.zeros((3, 3, 3))}, r"shape \(3, 3, 3\)"),
    "no points": ({"points": np.zeros((0, 1))}, "at least one point"),
    "NaN in points": (
        {"points": np.array([[0.0], [np.nan]])},
        "finite points, got NaN or infinity in 1 of 2",
    ),
    "too many coordinates": ({"points": np.zeros((60, 3))}, "shapes cannot be multiplied"),
    "NaN in the residual": ({"residual": lambda m, t, mu, k: m(t) * mu / (k - k)}, "not finite"),
    "a matrix": ({"residual": lambda m, t, mu, k: mu * k * t @ t.T}, "the shape"),
    "too few values": ({"residual": lambda m, t, mu, k: mu * k * m(t)[:9]}, "as many residual"),
    "integers": ({"residual": lambda m, t, mu, k: torch.ones(60, dtype=torch.int64)}, "floating"),
    "nothing": ({"residual": lambda m, t, mu, k: None}, "floating-point"),
    "its own float32 inside": (
        {"residual": lambda m, t, mu, k: mu * SINGLE_NET(t) + k},
        "dtype",
    ),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_bad_input(change, message):
    refused(message, **change)


def test_an_untrained_model_is_a_model():
    torch.manual_seed(3)
    _, residual, parameters, points = made("ordinary")
    frozen = frozen_of(plain(1, 1).double(), residual, parameters, points)
    assert np.isfinite(ta.audit(frozen, candidates=11).score.residual_norm)


def test_a_module_that_keeps_tensors_with_a_graph():
    net, residual, parameters, points = made("ordinary", torch.float32)
    plain = ta.score(frozen_of(net, residual, parameters, points))
    net.kept = net(points)
    kept = frozen_of(net, residual, parameters, points)
    assert ta.score(kept).displacement == plain.displacement
    net.kept = [net.kept]  # too deep inside to be found
    with pytest.raises(ta.InputError, match="can be copied"):
        frozen_of(net, residual, parameters, points)
    net.kept = [net.kept[0].detach()]
    mended = frozen_of(net, residual, parameters, points)
    assert ta.score(mended).displacement == plain.displacement


# ---------------------------------------------------------------- observations and loss


def small_net():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(1, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))


def first_decay(model, t, rate):
    u = model(t)[:, :1]
    (u_t,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    return u_t + rate * u


RATE = {"rate": ta.Parameter(delivered=1.3, bounds=(0.1, 10.0))}
TIMES = torch.linspace(0, 1, 12)[:, None]
SEEN = np.linspace(0.1, 0.9, 5)[:, None]


def decay_loss(model, rate):
    t = TIMES.double().requires_grad_(True)
    return (model(t)[:, :1] - torch.exp(-t)).square().mean() + first_decay(
        model, t, rate
    ).square().mean()


def test_fitted_is_the_field_at_the_observed_points():
    net = small_net()
    with torch.no_grad():
        outputs = net(torch.tensor(SEEN, dtype=torch.float32)).numpy()
    both = ta.from_torch(net, first_decay, RATE, points=TIMES, observed=SEEN)
    np.testing.assert_allclose(both.fitted, outputs, rtol=1e-5)
    np.testing.assert_array_equal(both.observed, SEEN)
    one = ta.from_torch(
        net, first_decay, RATE, points=TIMES, observed=torch.tensor(SEEN),
        field=lambda model, t: 2 * model(t)[:, 1],
    )  # fmt: skip
    np.testing.assert_allclose(one.fitted, 2 * outputs[:, 1], rtol=1e-5)
    assert ta.from_torch(net, first_decay, RATE, points=TIMES).fitted is None
    with pytest.raises(ta.InputError, match="a field that can be evaluated at the observed"):
        ta.from_torch(net, first_decay, RATE, points=TIMES, observed=np.zeros((3, 2)))
    with pytest.raises(ta.InputError, match="values at the 5 observed points"):
        ta.from_torch(
            net, first_decay, RATE, points=TIMES, observed=SEEN,
            field=lambda model, t: model(t)[:3, 0],
        )  # fmt: skip


def test_a_loss_becomes_the_objective():
    net = small_net()
    frozen = ta.from_torch(net, first_decay, RATE, points=TIMES, loss=decay_loss)
    assert_is_training_loss(frozen, decay_loss(copy.deepcopy(net).double(), 1.3).item())
    own = ta.objective(net, decay_loss, RATE, residual=first_decay, points=TIMES)
    np.testing.assert_array_equal(own.start, frozen.objective.start)
    assert ta.polish(frozen, iterations=3, progress=False).finish.iterations == 3
    # A loss that cannot be evaluated is found when it is used.
    broken = ta.from_torch(net, first_decay, RATE, points=TIMES, loss=lambda m, rate: m(TIMES))
    with pytest.raises(ta.InputError, match="differentiated in float64"):
        ta.polish(broken, progress=False)
    tolerance = ta.Tolerance(material=5, resolution=5, preference=5)
    codes = [message.code for message in ta.audit(broken, tolerance=tolerance).messages]
    assert "training.not_probed" in codes
    with pytest.raises(ta.InputError, match="differentiated in float64"):
        ta.audit(broken, tolerance=tolerance, probe=True)
    with pytest.raises(ta.InputError, match="Module with weights to train"):
        ta.from_torch(lambda t: t, first_decay, RATE, points=TIMES, loss=decay_loss)


def test_about_says_what_the_model_is():
    about = ta.from_torch(small_net(), first_decay, RATE, points=TIMES).about
    assert about == {
        "library": f"PyTorch {torch.__version__}",
        "network": "Sequential",
        "weights": "26",
        "precision": "float32",
    }


def test_names_of_axes_fields_and_equations():
    points = torch.linspace(0, 1, 5, dtype=torch.float64)[:, None]
    net = torch.nn.Linear(1, 2, dtype=torch.float64)
    frozen = ta.from_torch(
        net,
        lambda model, t, k: (k * model(t)[:, 0], model(t)[:, 1]),
        {"k": ta.Parameter(delivered=1.0, bounds=(0.5, 2.0))},
        points=points,
        axes=("t",),
        fields=("S", "I"),
        equations=("susceptible", "infected"),
    )
    assert (frozen.axes, frozen.fields) == (("t",), ("S", "I"))
    assert frozen.equation_of(10)[0] == ["susceptible", "infected"]

"""Modules and tensors of all kinds, and residuals whose points need one another."""

import numpy as np
import pytest
import torch
from torch import nn

import twoaxis as ta


def derivative(u, t):
    return torch.autograd.grad(u.sum(), t, create_graph=True)[0]


def plain(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))


def codes(frozen):
    return [note.code for note in frozen.notes]


def close(found, wanted, rtol):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=rtol * np.abs(wanted).max())


RATE = {"rate": ta.Parameter(delivered=1.1, bounds=(0.1, 10.0))}
TIMES = torch.linspace(0, 1, 20, dtype=torch.float64)[:, None]


def falling(model, t, rate):
    u = model(t)
    return derivative(u, t) + rate * u


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("script", [torch.jit.script, lambda net: torch.jit.trace(net, TIMES[:3])])
def test_torchscript(script):
    torch.manual_seed(0)
    net = plain(1, 1).double()

    def loss(model, rate):
        return (falling(model, TIMES.clone().requires_grad_(True), rate) ** 2).mean()

    made, wanted = (
        ta.from_torch(each, falling, RATE, points=TIMES, observed=TIMES, loss=loss)
        for each in (script(net), net)
    )
    assert ta.score(made).displacement == pytest.approx(ta.score(wanted).displacement, rel=1e-10)
    start = wanted.weights.start
    np.testing.assert_array_equal(made.weights.start, start)
    rows, slopes = (
        [each.weights.residual_jacobian(start, TIMES, rate=1.1)][0] for each in (made, wanted)
    )
    close(rows[0], slopes[0], 1e-12)
    close(rows[1], slopes[1], 1e-12)
    gradients = [
        each.objective.value_and_gradient(each.objective.start)[1] for each in (made, wanted)
    ]
    close(*gradients, 1e-12)
    before = ta.score(made).displacement
    with torch.no_grad():
        net[0].weight.add_(1)
    assert ta.score(made).displacement == before


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_a_model_whose_precision_is_hidden():
    """Weights that are constants of a program show no precision."""
    torch.manual_seed(0)
    net = torch.jit.freeze(torch.jit.script(plain(1, 1).eval()))
    for model in (net, lambda t: net(t)):
        with pytest.raises(ta.InputError, match=r"Double and Float.*precision=.model. and points"):
            ta.from_torch(model, falling, RATE, points=TIMES.float())
        frozen = ta.from_torch(model, falling, RATE, points=TIMES.float(), precision="model")
        assert np.isfinite(ta.score(frozen).displacement["rate"])


def on_meta(net):
    with torch.device("meta"):
        return nn.Sequential(net, nn.Linear(1, 1, dtype=torch.float64))


def test_tensors_without_values():
    torch.manual_seed(0)
    net = plain(1, 1).double()
    empty = on_meta(net)
    with pytest.raises(ta.InputError, match=r"weights on the device 'meta'.*model\.to_empty"):
        ta.from_torch(empty, falling, RATE, points=TIMES)
    filled = nn.Sequential(net, nn.Linear(1, 1)).double()
    empty = empty.to_empty(device="cpu")
    empty.load_state_dict(filled.state_dict())
    ta.from_torch(empty, falling, RATE, points=TIMES)
    meta = TIMES.to("meta")
    for call in (
        lambda: ta.from_torch(net, falling, RATE, points=meta),
        lambda: ta.from_torch(net, falling, RATE, points=TIMES, observed=meta),
        lambda: ta.from_torch(lambda t: torch.exp(-t), falling, RATE, points=meta),
        lambda: ta.FrozenResidual(lambda rate: rate * TIMES, RATE, TIMES, data=meta),
        lambda: ta.FrozenResidual(lambda rate: rate * TIMES, RATE, TIMES, field=meta[:, 0]),
        lambda: ta.FrozenResidual(lambda rate: rate * meta, RATE, TIMES).at(np.zeros(1)),
        lambda: ta.FrozenResidual(lambda rate: rate * TIMES, RATE, TIMES.to_sparse()),
        lambda: ta.from_torch(net, falling, RATE, points=TIMES.to_sparse()),
    ):
        with pytest.raises(ta.InputError, match="one dense array of floats"):
            call()
    for call in (
        lambda: ta.Parameter(delivered=meta[0, 0], bounds=(0.1, 10)),
        lambda: ta.Parameter(delivered=TIMES, bounds=(0.1, 10)),
        lambda: ta.Parameter(bounds=meta[:2, 0]),
        lambda: ta.ParameterArray(delivered=meta, bounds=(0.1, 10)),
        lambda: ta.UnknownFunction(nodes=[0, 1], delivered=meta[:2, 0], bounds=(0.1, 10)),
    ):
        with pytest.raises(ta.InputError, match="finite"):
            call()


def test_bfloat16():
    torch.manual_seed(0)
    net = plain(1, 1).bfloat16()
    points = TIMES.bfloat16()
    exact = ta.from_torch(net, falling, RATE, points=points)
    low = ta.from_torch(net, falling, RATE, points=points, precision="model")
    found, wanted = ta.score(low).displacement["rate"], ta.score(exact).displacement["rate"]
    assert found == pytest.approx(wanted, abs=0.1)
    assert codes(low) == ["precision.model"]
    frozen = ta.FrozenResidual(
        lambda rate: (rate * torch.exp(-TIMES) - 0.5).bfloat16(), RATE, points, data=points,
        fitted=points, observed=points, field=points[:, 0],
    )  # fmt: skip
    np.testing.assert_array_equal(frozen.data, points.double())
    np.testing.assert_array_equal(frozen.field, points.double()[:, 0])
    several = ta.ParameterArray(delivered=points[1:3, 0], bounds=(1e-3, 10))
    np.testing.assert_array_equal(several.delivered, points[1:3, 0].double())
    assert frozen.at(np.zeros(1)) == pytest.approx(np.exp(-TIMES[:, 0].numpy()) - 0.5, abs=0.01)


def test_several_equations_in_one_vector():
    def joined(model, t, rate):
        return torch.cat([falling(model, t, rate), derivative(model(t), t)])

    def columns(model, t, rate):
        return torch.cat([falling(model, t, rate), derivative(model(t), t)], dim=1)

    def separate(model, t, rate):
        return falling(model, t, rate), derivative(model(t), t)

    net = plain(1, 1).double()
    for wrong in (joined, columns):
        with pytest.raises(ta.InputError, match="fix: return a tuple"):
            ta.from_torch(net, wrong, RATE, points=TIMES)
    frozen = ta.from_torch(net, separate, RATE, points=TIMES)
    assert frozen.at(np.zeros(1)).shape == (40,)
    with pytest.raises(ta.InputError, match=r"got 27 for .* exactly the points .* a tuple"):
        ta.from_torch(net, lambda *a, rate: joined(*a, rate)[:27], RATE, points=TIMES)


# ---------------------------------------------------------------- points that need one another

MATRIX = torch.tril(torch.ones(20, 20, dtype=torch.float64)) / 20  # an integral from the start


def integral(matrix):
    """u' + rate * (the integral of u): a residual at a point takes all points before it."""

    def residual(model, t, rate):
        u = model(t)
        return derivative(u, t) + rate * (matrix(t) @ u)

    return residual


def test_an_integro_differential_equation_is_refined_at_its_own_points():
    torch.manual_seed(0)
    net = plain(1, 1).double()
    data = np.cos(np.linspace(0, 1, 20))  # u'' = -u, with a rate of one
    values = []
    for matrix in (lambda _: MATRIX, lambda t: torch.tril(torch.ones_like(t @ t.T)) / len(t)):
        frozen = ta.from_torch(
            net, integral(lambda t, matrix=matrix: matrix(t).double()), RATE, points=TIMES,
            observed=TIMES,
        )  # fmt: skip
        assert "residual.coupled" in codes(frozen)
        assert "in batches" in frozen.weights.how
        with pytest.warns(ta.AccuracyWarning, match="20 numbers for 25 weights"):
            refined = ta.refine(frozen, data=data, noise=0.01, progress=False)
        values.append(refined.values["rate"])
    assert values[0] == pytest.approx(values[1], rel=1e-9)
    assert values[0] == pytest.approx(1.0, abs=0.1)
    with pytest.raises(ta.InputError, match="known at its points alone"):
        frozen.moved_to(TIMES[:5])


def test_a_pointwise_residual_may_be_evaluated_elsewhere():
    source = torch.linspace(0, 1, 20, dtype=torch.float64)[:, None]
    net = plain(1, 1).double()
    kept = ta.from_torch(net, lambda *a, rate: falling(*a, rate) + source, RATE, points=TIMES)
    assert "residual.coupled" in codes(kept)
    free = ta.from_torch(net, lambda m, t, rate: falling(m, t, rate) + t, RATE, points=TIMES)
    assert codes(free) == []
    assert free.moved_to(TIMES[:5]).at(np.zeros(1)) == pytest.approx(kept.at(np.zeros(1))[:5])

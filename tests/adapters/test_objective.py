"""A PyTorch loss as an objective: double precision, the user's model untouched."""

import numpy as np
import pytest
import torch

import twoaxis as ta

TIMES = torch.linspace(0, 2, 40, dtype=torch.float64)[:, None]
READINGS = torch.exp(-1.0 * TIMES[::4]) + 0.02 * torch.cos(40 * TIMES[::4])


def decay(model, t, rate):
    u = model(t)
    (u_t,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    return u_t + rate * u


def loss(model, rate):
    kind = next(model.parameters()).dtype
    t = TIMES.to(kind).requires_grad_(True)
    misfit = model(TIMES[::4].to(kind)) - READINGS.to(kind)
    return torch.mean(misfit**2) + 0.5 * torch.mean(decay(model, t, rate) ** 2)


def trained(steps=150):
    """A network of 32-bit floats that was stopped early, and its parameter."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1)
    )
    net.eval()
    log_rate = torch.tensor(np.log(3.0), dtype=torch.float32, requires_grad=True)
    optimizer = torch.optim.Adam([*net.parameters(), log_rate], lr=5e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(net, log_rate.exp()).backward()
        optimizer.step()
    optimizer.zero_grad()
    rate = float(log_rate.detach().exp())
    return net, {"rate": ta.Parameter(truth=1.0, delivered=rate, bounds=(0.1, 10.0))}


@pytest.fixture(scope="module")
def model():
    return trained()


def test_the_start_is_the_model(model):
    net, known = model
    objective = ta.objective(net, loss, known, residual=decay, points=TIMES)
    weights = np.concatenate([p.detach().double().numpy().ravel() for p in net.parameters()])
    np.testing.assert_array_equal(objective.start[:-1], weights)
    assert objective.start[-1] == pytest.approx(np.log(known["rate"].delivered))
    value, _ = objective.value_and_gradient(objective.start)
    assert value == pytest.approx(loss(net, known["rate"].delivered).item(), rel=1e-5)


def test_gradient_is_that_of_differences(model):
    net, known = model
    objective = ta.objective(net, loss, known, residual=decay, points=TIMES)
    generator = np.random.default_rng(0)
    _, gradient = objective.value_and_gradient(objective.start)
    own = np.zeros_like(objective.start)
    own[-1] = 1.0
    for direction in (own, generator.standard_normal(own.size)):
        ahead, behind = (
            objective.value_and_gradient(objective.start + s * 1e-6 * direction)[0] for s in (1, -1)
        )
        assert (ahead - behind) / 2e-6 == pytest.approx(gradient @ direction, rel=1e-5)


def test_early_stopping_is_found_and_the_model_stays(model):
    net, known = model
    net.train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    objective = ta.objective(net, loss, known, residual=decay, points=TIMES)
    frozen = ta.from_torch(net, decay, known, points=TIMES)
    found = ta.polish(frozen, objective, iterations=300, progress=False)
    assert abs(found.gap_before["rate"]) > 5
    assert found.closed_percent["rate"] >= 90
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name])
    assert net.training
    assert all(each.grad is None or not each.grad.any() for each in net.parameters())
    assert all(each.dtype == torch.float32 for each in net.parameters())
    net.eval()
    # What was found can be taken out as a module, and an earlier residual does not follow it.
    module = objective.module(found.finish.vector)
    values = module(TIMES).detach().numpy()[:, 0]
    np.testing.assert_allclose(found.finish.frozen.field, values, rtol=1e-12)
    objective.value_and_gradient(objective.start)
    np.testing.assert_allclose(found.finish.frozen.field, values, rtol=1e-12)


def test_weights_that_are_held_stay_out_of_the_vector(model):
    net, known = model
    for each in net[0].parameters():
        each.requires_grad_(False)
    objective = ta.objective(net, loss, known, residual=decay, points=TIMES)
    assert objective.start.size == 8 + 1 + 1
    module = objective.module(objective.start + 1)
    assert torch.equal(module[0].weight, net[0].weight.double())
    for each in net[0].parameters():
        each.requires_grad_(True)


def test_a_linear_coordinate_is_the_value_itself(model):
    net, _ = model
    known = {"rate": ta.Parameter(delivered=-0.5, bounds=(-2.0, 2.0), coordinate="linear", scale=1)}
    objective = ta.objective(net, loss, known, residual=decay, points=TIMES)
    assert objective.start[-1] == -0.5
    moved = objective.start.copy()
    moved[-1] = 5.0  # outside the bounds, which are widened to hold it
    assert objective.frozen(moved).parameters["rate"].bounds == (-2.0, 5.0)


def test_a_subject_that_knows_its_loss_needs_nothing_else(model):
    """As a run does: whatever has a method `objective` is asked for it."""
    net, known = model
    made = ta.objective(net, loss, known, residual=decay, points=TIMES)

    class Run:
        def objective(self):
            return made

    assert ta.objective(Run()) is made
    with pytest.raises(ta.InputError, match="a run and parameters, points"):
        ta.objective(Run(), None, known, points=TIMES)


def test_bad_input(model):
    net, known = model

    def refused(words, net=net, loss=loss, known=known, residual=decay, points=TIMES):
        with pytest.raises(ta.InputError, match=words):
            ta.objective(net, loss, known, residual=residual, points=points)

    refused("a torch.nn.Module", net=lambda t: t)
    refused("loss to be a function of model and the parameters", loss=3.0)
    refused("loss to take model and the keywords rate", loss=lambda model: model)
    refused("residual to take model, points and the keywords rate", residual=lambda model: model)
    refused("no loss, points", loss=None, points=None)
    refused("finite points", points=np.array([np.nan]))
    unknown = {"rate": ta.Parameter(truth=1.0, bounds=(0.1, 10.0))}
    refused("a delivered value for every parameter", known=unknown)
    single = READINGS.float()
    refused("differentiated in float64", loss=lambda m, rate: m(single).mean() * rate)
    refused("differentiated in float64", loss=lambda m, rate: (m(TIMES) * rate)[:, 0])
    refused("differentiated in float64", loss=lambda m, rate: (m(TIMES).mean() * rate).detach())
    refused("a finite loss", loss=lambda m, rate: m(TIMES).mean() * rate * np.inf)
    still = torch.nn.Linear(1, 1).requires_grad_(False)
    refused("weights that can be trained", net=still)

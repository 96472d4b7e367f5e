"""A follower in loops of PyTorch and JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import twoaxis as ta

QUIET = {"every": 5, "progress": False, "max_share": 1.0}
BOUNDS = (0.1, 10.0)


class Dropped(torch.nn.Module):
    """A network with random numbers of its own."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh())
        self.drop, self.last = torch.nn.Dropout(0.2), torch.nn.Linear(8, 1)

    def forward(self, t):
        return self.last(self.drop(self.layers(t)))


def decay(model, t, rate):
    u = model(t)
    (slope,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    return slope + rate * u


def train_torch(following):
    """Train u' = -rate u for a few steps, and return the state, with the follower."""
    torch.manual_seed(0)
    net, log_rate = Dropped(), torch.tensor(0.5, requires_grad=True)
    sites = torch.linspace(0, 1, 9)[:, None]
    points = torch.linspace(0, 1, 20)[:, None].requires_grad_(True)
    optimizer = torch.optim.Adam([*net.parameters(), log_rate], lr=1e-2)

    def freeze():
        known = {"rate": ta.Parameter(delivered=log_rate.exp().item(), bounds=BOUNDS)}
        return ta.from_torch(net, decay, known, points=points, observed=sites)

    data = np.exp(-sites.numpy()[:, 0])
    follower = ta.Follower(freeze, data=data, noise=0.1, **QUIET)
    for step in range(16):
        optimizer.zero_grad()
        misfit = net(sites) - torch.exp(-sites)
        ((misfit**2).mean() + (decay(net, points, log_rate.exp()) ** 2).mean()).backward()
        optimizer.step()
        if following:
            follower(step)
    return [each.detach().clone() for each in (*net.parameters(), log_rate)], follower, freeze


def test_a_followed_training_gives_the_same_numbers():
    state, follower, freeze = train_torch(True)
    assert follower.messages == []
    assert all(map(torch.equal, state, train_torch(False)[0]))
    assert [row.step for row in follower.rows] == [0, 5, 10, 15]
    found = follower.result.data.isel(step=-1)
    frozen = freeze()
    last = ta.follow([(15, frozen)]).data.isel(step=0)
    for name in ("value", "preferred", "displacement", "strength", "alignment"):
        np.testing.assert_allclose(found[name], last[name], rtol=1e-7)
    misfit = (np.exp(-np.linspace(0, 1, 9)) - np.ravel(frozen.fitted)) / 0.1
    assert found["data_misfit"].item() == pytest.approx(np.sqrt(np.mean(misfit**2)), rel=1e-6)


def test_a_network_that_diverges_is_recorded():
    net, rate = torch.nn.Linear(1, 1), torch.tensor(1.0)
    points = torch.linspace(0, 1, 9)[:, None]

    def freeze():
        known = {"rate": ta.Parameter(delivered=rate.item(), bounds=BOUNDS)}
        return ta.from_torch(net, decay, known, points=points)

    follower = ta.Follower(freeze, **QUIET)
    follower(0)
    with torch.no_grad():
        net.weight.fill_(float("nan"))
    with pytest.warns(UserWarning, match="step 5 was not measured"):
        follower(5)
    assert follower.rows[1].status == "parameter or field not finite"


def test_the_state_of_jax_is_passed_along():
    points = jnp.linspace(0, 1, 20)[:, None]

    def field(state, t):
        return jnp.exp(-state["speed"] * t[:, 0])

    def residual(state, t, rate):
        return (rate - state["speed"]) * field(state, t)

    def freeze(state):
        known = {"rate": ta.Parameter(delivered=float(state["rate"]), bounds=BOUNDS)}
        return ta.from_jax(state, residual, known, points=points, field=field)

    follower = ta.Follower(freeze, **QUIET)
    state = {"speed": jnp.array(2.0), "rate": jnp.array(0.5)}
    for step in range(11):
        state = jax.tree.map(lambda value: value + 0.1, state)
        follower(step, state)
    assert follower.messages == []
    data = follower.result.data
    np.testing.assert_allclose(data["preferred"].values[:, 0], [2.1, 2.6, 3.1], rtol=1e-6)
    np.testing.assert_allclose(data["value"].values[:, 0], [0.6, 1.1, 1.6], rtol=1e-6)


def test_an_observed_field_may_be_a_derivative_of_the_network():
    """As the velocity of a stream function is."""
    torch.manual_seed(0)
    net, points = torch.nn.Linear(2, 1).double(), torch.rand(9, 2, dtype=torch.float64)

    def velocity(model, at):
        at = at.clone().requires_grad_(True)
        slope = torch.autograd.grad(model(at).sum(), at, create_graph=True)[0]
        return torch.stack([slope[:, 1], -slope[:, 0]], dim=1)

    frozen = ta.from_torch(
        net,
        lambda model, at, k: model(at)[:, 0] - k,
        {"k": ta.Parameter(delivered=1.0, bounds=BOUNDS)},
        points=points,
        observed=points,
        field=velocity,
    )
    right, up = net.weight[0].tolist()
    np.testing.assert_allclose(frozen.fitted, np.tile([up, -right], (9, 1)))
    assert all(each.grad is None for each in net.parameters())

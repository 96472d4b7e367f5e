"""Derivatives of residuals that differentiate a network inside, and of both libraries afresh."""

import subprocess
import sys

import numpy as np
import pytest

import twoaxis as ta

torch = pytest.importorskip("torch")

N = 30
POINTWISE = ta.views.Pointwise()


class Field(torch.nn.Module):
    """A small field u(x, t)."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(2, 16),
            torch.nn.Tanh(),
            torch.nn.Linear(16, 16),
            torch.nn.Tanh(),
            torch.nn.Linear(16, 1),
        ).double()

    def forward(self, xt):
        return self.layers(xt)


XT = torch.tensor(np.random.default_rng(0).random((N, 2)))


def field_derivatives(net):
    points = XT.clone().requires_grad_(True)
    u = net(points)
    ones = torch.ones_like(u)
    first = torch.autograd.grad(u, points, ones, create_graph=True)[0]
    u_x, u_t = first[:, :1], first[:, 1:]
    u_xx = torch.autograd.grad(u_x, points, ones, create_graph=True)[0][:, :1]
    return u, u_x, u_t, u_xx


def burgers(net):
    def residual(nu):
        u, u_x, u_t, u_xx = field_derivatives(net)
        return u_t + u * u_x - nu * u_xx

    return residual


@pytest.mark.parametrize("training", [True, False])
def test_a_torch_network_with_gradients_inside_the_residual(training):
    net = Field().train(training)
    marked = torch.ones_like(net.layers[0].weight)
    net.layers[0].weight.grad = marked.clone()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    u, u_x, u_t, u_xx = (part.detach().numpy()[:, 0] for part in field_derivatives(net))
    parameters = {"nu": ta.Parameter(truth=0.01, bounds=(0.002, 0.05))}
    found = ta.score(burgers(net), parameters, POINTWISE, points=XT, derivative="exact")
    slope, values = -0.01 * u_xx, u_t + u * u_x - 0.01 * u_xx
    assert found.derivative == "exact, by PyTorch"
    assert pytest.approx(slope @ slope / N, rel=1e-13) == found.H
    assert pytest.approx(slope @ values / N, rel=1e-13) == found.B
    assert pytest.approx(slope @ values / N, rel=1e-10) == found.C  # affine in nu: C = B
    scan = ta.frozen_scan(burgers(net), parameters, POINTWISE, points=XT)
    assert scan.affine
    # Nothing of the network has changed, and no gradient was added anywhere.
    assert net.training is training
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert torch.equal(net.layers[0].weight.grad, marked)
    others = [p for name, p in net.named_parameters() if name != "layers.0.weight"]
    assert all(p.grad is None and p.requires_grad for p in others)


def test_a_torch_network_in_single_precision():
    net = Field().float()
    points = XT.float()

    def residual(nu):
        x = points.clone().requires_grad_(True)
        u = net(x)
        first = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
        return first[:, 1:] - nu * first[:, :1]

    parameters = {"nu": ta.Parameter(truth=0.5, bounds=(0.1, 2.0))}
    found = ta.score(residual, parameters, POINTWISE, points=points, derivative="exact")
    x = points.clone().requires_grad_(True)
    u = net(x)
    slope = -0.5 * torch.autograd.grad(u, x, torch.ones_like(u))[0][:, 0].double().numpy()
    assert pytest.approx(slope @ slope / N, rel=1e-6) == found.H


ALONE = """
import warnings, jax.numpy as jnp, numpy as np, torch, twoaxis as ta
warnings.simplefilter("error")
a, f = np.random.default_rng(0).normal(size=(2, 30)).astype(np.float32)
parameters = {"k": ta.Parameter(truth=0.7, bounds=(0.1, 4.0))}
for array in (jnp.asarray, torch.tensor):
    found = ta.score(
        lambda k: array(a) + k * array(f), parameters, ta.views.Pointwise(),
        points=np.arange(30.0), derivative="exact",
    )
    expected = 0.49 * np.mean(f.astype(float) ** 2)
    assert abs(found.H / expected - 1) < 1e-6, (found.H, expected)
print("quiet")
"""


@pytest.mark.long
def test_single_precision_and_no_warnings():
    pytest.importorskip("jax")
    # In a process of its own: JAX with its default precision, and everything loaded anew.
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    assert done.stdout == "quiet\n", done.stderr

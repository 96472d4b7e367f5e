"""What does a PyTorch network prefer? Its residual by autograd, and exact derivatives.

A bar conducts heat and loses some to the air, u_t = kappa u_xx - loss u. A small network is
fitted to noisy readings of it and then frozen. Which two coefficients does it prefer?
"""

import numpy as np
import torch

import twoaxis as ta

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)  # in float32 an affine residual is not recognized
torch.set_num_threads(1)  # enough for a network of this size
kappa, loss = 0.05, 0.4


def temperature(x, t):
    """The true field: two modes, each with a decay of its own."""
    first = np.exp(-(kappa * np.pi**2 + loss) * t) * np.sin(np.pi * x)
    third = np.exp(-(9 * kappa * np.pi**2 + loss) * t) * np.sin(3 * np.pi * x)
    return first + 0.5 * third


generator = np.random.default_rng(0)
sites = generator.random((400, 2))  # columns x and t
readings = temperature(*sites.T) + 0.02 * generator.standard_normal(400)

net = torch.nn.Sequential(
    torch.nn.Linear(2, 24), torch.nn.Tanh(), torch.nn.Linear(24, 24), torch.nn.Tanh(),
    torch.nn.Linear(24, 1),
)  # fmt: skip
inputs, outputs = torch.tensor(sites), torch.tensor(readings)[:, None]
optimizer = torch.optim.LBFGS(net.parameters(), max_iter=600, line_search_fn="strong_wolfe")


def misfit():
    optimizer.zero_grad()
    value = torch.mean((net(inputs) - outputs) ** 2)
    value.backward()
    return value


optimizer.step(misfit)
print(f"root mean square misfit to the readings: {float(misfit().detach().sqrt()):.4f}\n")


def residual_at(points, kappa, loss):
    """The residual of the network, its derivatives by autograd."""
    xt = torch.tensor(points, requires_grad=True)
    u = net(xt)
    (slope,) = torch.autograd.grad(u.sum(), xt, create_graph=True)
    u_xx = torch.autograd.grad(slope[:, 0].sum(), xt)[0][:, 0]
    return slope[:, 1].detach() - kappa * u_xx + loss * u[:, 0].detach()


points = generator.random((2000, 2))
frozen = ta.FrozenResidual(
    residual=lambda kappa, loss: residual_at(points, kappa, loss),
    parameters={
        "kappa": ta.Parameter(truth=kappa, bounds=(0.005, 0.5)),
        "loss": ta.Parameter(truth=loss, bounds=(0.04, 4.0)),
    },
    points=points,
    view=ta.views.Pointwise(),
    residual_at=residual_at,
)
score = ta.score(frozen, fresh=4)
print(f"derivatives: {score.derivative}")
columns = ["displacement", "sampling_deviation", "fresh_displacement", "diagonal_displacement"]
print(score.summary()[columns].to_string())
print(f"coupling of the two: {score.coupling[0, 1]:+.2f}\n")
print(score.directions().round(4).to_string(), "\n")
scan = ta.frozen_scan(frozen)
print(f"exact minimum ({'affine' if scan.affine else 'not affine'} residual, {scan.status}):")
print(", ".join(f"{name} = {value:.4f}" for name, value in scan.minimum.items()))

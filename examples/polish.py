"""Was it the optimization? An inverse PINN in PyTorch that was stopped too early.

Heat in a bar, u_t = kappa u_xx, is observed 100 times with noise. A network and kappa are trained
together for a few hundred steps of Adam, far too few. Then the result is polished: first kappa
alone with the field held, then network and kappa together by L-BFGS, on the same loss. The
trained model itself is not changed.
"""

import argparse

import numpy as np
import torch

import twoaxis as ta

options = argparse.ArgumentParser()
options.add_argument("--steps", type=int, default=300)
options.add_argument("--iterations", type=int, default=300)
chosen = options.parse_args()
torch.manual_seed(0)
torch.set_num_threads(1)  # enough for a network of this size


def temperature(xt, kappa):
    x, t = xt.T
    fast = np.exp(-9 * np.pi**2 * kappa * t) * np.sin(3 * np.pi * x)
    return np.exp(-(np.pi**2) * kappa * t) * np.sin(np.pi * x) + 0.5 * fast


def heat(model, xt, kappa):
    u = model(xt)
    (slope,) = torch.autograd.grad(u.sum(), xt, create_graph=True)
    (bend,) = torch.autograd.grad(slope[:, 0].sum(), xt, create_graph=True)
    return slope[:, 1] - kappa * bend[:, 0]


generator = np.random.default_rng(0)
sites = generator.random((100, 2))  # columns x and t
readings = temperature(sites, 0.05) + 0.02 * generator.standard_normal(100)
# The loss is written for any precision: the training is in float32, the polishing in float64.
data = {
    kind: (torch.tensor(sites, dtype=kind), torch.tensor(readings, dtype=kind)[:, None])
    for kind in (torch.float32, torch.float64)
}
points = torch.rand(500, 2)


def loss(model, kappa):
    kind = next(model.parameters()).dtype
    inputs, outputs = data[kind]
    residual = heat(model, points.to(kind).requires_grad_(True), kappa)
    return torch.mean((model(inputs) - outputs) ** 2) + 0.1 * torch.mean(residual**2)


net = torch.nn.Sequential(
    torch.nn.Linear(2, 24), torch.nn.Tanh(), torch.nn.Linear(24, 24), torch.nn.Tanh(),
    torch.nn.Linear(24, 1),
)  # fmt: skip
log_kappa = torch.tensor(np.log(0.2), dtype=torch.float32, requires_grad=True)
optimizer = torch.optim.Adam([*net.parameters(), log_kappa], lr=3e-3)
for _ in range(chosen.steps):
    optimizer.zero_grad()
    loss(net, log_kappa.exp()).backward()
    optimizer.step()
delivered = float(log_kappa.detach().exp())
print(f"after {chosen.steps} steps: kappa = {delivered:.4f} (truth: 0.05)\n")

known = {"kappa": ta.Parameter(truth=0.05, delivered=delivered, bounds=(0.005, 0.5))}
frozen = ta.from_torch(net, heat, known, points=points)
objective = ta.objective(net, loss, known, residual=heat, points=points)
print(ta.polish(frozen, objective, iterations=chosen.iterations, progress=False))

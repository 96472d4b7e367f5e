"""An inverse PINN in PyTorch, audited in five lines.

Heat in a bar, u_t = kappa u_xx, is observed 100 times with noise. A network and kappa are trained
together, in single precision, as usual in PyTorch. The default of few steps shows in seconds that
the program runs, but its numbers are not meaningful; a full run takes --steps 10000.
"""

import argparse

import numpy as np
import torch

import twoaxis as ta

options = argparse.ArgumentParser()
options.add_argument("--steps", type=int, default=100)
steps = options.parse_args().steps
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
points = torch.rand(1000, 2)


def loss(model, kappa):
    kind = next(model.parameters()).dtype  # the audit evaluates it in double precision
    inputs, outputs = (torch.tensor(each, dtype=kind) for each in (sites, readings[:, None]))
    residual = heat(model, points.detach().clone().to(kind).requires_grad_(True), kappa)
    return torch.mean((model(inputs) - outputs) ** 2) + 0.1 * torch.mean(residual**2)


net = torch.nn.Sequential(
    torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32), torch.nn.Tanh(),
    torch.nn.Linear(32, 1),
)  # fmt: skip
log_kappa = torch.tensor(np.log(0.2), dtype=torch.float32, requires_grad=True)
optimizer = torch.optim.Adam([*net.parameters(), log_kappa], lr=3e-3)
for _ in range(steps):
    optimizer.zero_grad()
    loss(net, log_kappa.exp()).backward()
    optimizer.step()
delivered = float(log_kappa.detach().exp())
print(f"after {steps} steps: kappa = {delivered:.4f} (truth: 0.05)\n")

# The five lines.
known = {"kappa": ta.Parameter(truth=0.05, delivered=delivered, bounds=(0.005, 0.5))}
resolution = ta.resolve(lambda kappa: temperature(sites, kappa), known, 0.02, progress=False)
frozen = ta.from_torch(net, heat, known, points=points, observed=sites, loss=loss)
tolerance = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)
print(ta.audit(frozen, resolution=resolution, data=readings, tolerance=tolerance))
if steps < 5000:
    print(f"\nAfter {steps} steps these numbers are not meaningful: use --steps 10000.")

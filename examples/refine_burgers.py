"""Two coefficients of Burgers' equation from precise data: a usual training, then refinement.

u_t + lambda_1 u u_x = lambda_2 u_xx starts from u = -sin(pi x). Data lie anywhere in space and
time, and the network knows neither initial nor boundary values. Training of usual length leaves
both coefficients off; refinement carries a copy of the network on to where the equation holds. The
default is a smoother case with a small network, which takes seconds. --full is the inverse problem
of Raissi, Perdikaris and Karniadakis (2019), with 2,000 data and a noise of 0.001, a steep front
and a network of 3,021 weights; it takes about ten minutes.
"""

import argparse

import numpy as np
import torch

import twoaxis as ta

options = argparse.ArgumentParser()
options.add_argument("--full", action="store_true", help="the problem of Raissi et al.")
options.add_argument("--draws", type=int, default=1, help="of the noise, to check standard errors")
chosen = options.parse_args()
full = chosen.full
viscosity, noise, count = (0.01 / np.pi, 1e-3, 2000) if full else (0.1 / np.pi, 1e-2, 200)
depth, steps, rate, inside = (8, 10_000, 1e-3, 6500) if full else (3, 600, 5e-3, 1900)
width = 20
torch.manual_seed(0)
torch.set_num_threads(1)
generator = np.random.default_rng(0)


def exact(x, t):
    """The solution of Cole and Hopf, by Gauss-Hermite quadrature."""
    nodes, mass = np.polynomial.hermite.hermgauss(200)
    shifted = x[:, None] - np.sqrt(4 * viscosity * t)[:, None] * nodes
    level = -np.cos(np.pi * shifted) / (2 * np.pi * viscosity)
    share = mass * np.exp(level - level.max(axis=1, keepdims=True))
    return -(np.sin(np.pi * shifted) * share).sum(axis=1) / share.sum(axis=1)


sites = generator.uniform([-1, 0], [1, 1], (count, 2))  # columns x and t
clean = exact(*sites.T)
data = clean + noise * generator.standard_normal(count)
points = generator.uniform([-1, 0], [1, 1], (inside, 2))


def burgers(model, xt, lambda_1, lambda_2):
    u = model(xt)
    (slope,) = torch.autograd.grad(u.sum(), xt, create_graph=True)
    (bend,) = torch.autograd.grad(slope[:, 0].sum(), xt, create_graph=True)
    return slope[:, 1] + lambda_1 * u[:, 0] * slope[:, 0] - lambda_2 * bend[:, 0]


layers = [torch.nn.Linear(2, width), torch.nn.Tanh()]
for _ in range(depth - 1):
    layers += [torch.nn.Linear(width, width), torch.nn.Tanh()]
net = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))
for each in net[::2]:
    torch.nn.init.xavier_normal_(each.weight)

# The training: mean squares of misfit and residual at the data, as in the paper.
first, logarithm = torch.tensor(0.0, requires_grad=True), torch.tensor(-6.0, requires_grad=True)
optimizer = torch.optim.Adam([*net.parameters(), first, logarithm], lr=rate)
seen, readings = (torch.tensor(each, dtype=torch.float32) for each in (sites, data[:, None]))
for _ in range(steps):
    optimizer.zero_grad()
    residual = burgers(net, seen.requires_grad_(True), first, logarithm.exp())
    loss = torch.mean((net(seen) - readings) ** 2) + torch.mean(residual**2)
    loss.backward()
    optimizer.step()

# The refinement.
trained = {"lambda_1": first.item(), "lambda_2": logarithm.exp().item()}
known = {
    "lambda_1": ta.Parameter(delivered=trained["lambda_1"], bounds=(-2, 3), coordinate="linear"),
    "lambda_2": ta.Parameter(delivered=trained["lambda_2"], bounds=(3e-4, 0.3)),
}
frozen = ta.from_torch(net, burgers, known, points=points, observed=sites)
refined = ta.refine(frozen, data, noise=noise, progress=False)
print(f"{refined}\ntrusted: {refined.trusted}; {refined.data.attrs['seconds']:.0f} s\n")
truths = {"lambda_1": 1.0, "lambda_2": viscosity}
for name, truth in truths.items():
    before, after = (100 * (found[name] / truth - 1) for found in (trained, refined.values))
    error = 100 * refined.standard_error[name] / truth
    print(f"{name}: {before:+.2f}% before, {after:+.3f}% after, standard error {error:.3f}%")

# Other draws of the noise: each refinement starts from the field of the last.
found = [refined]
for draw in range(1, chosen.draws):
    again = clean + noise * np.random.default_rng(50 + draw).standard_normal(count)
    found.append(ta.refine(found[-1].frozen, again, noise=noise, progress=False))
if chosen.draws > 1:
    for name, truth in truths.items():
        z = np.array([(each.values[name] - truth) / each.standard_error[name] for each in found])
        size = np.sqrt(np.mean(z**2))
        print(f"{name}: {size:.2f}, root mean square of error / standard error, {len(z)} draws")

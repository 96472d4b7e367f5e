"""Raissi's Burgers equation with two unknowns, in plain PyTorch: residual points are the sites."""

import sys

import numpy as np
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
sites = np.random.default_rng(0).uniform([-1, 0], [1, 1], (2000, 2))  # columns x and t
nodes, weights = np.polynomial.hermite.hermgauss(80)


def simulate(l1, l2):
    """The exact field at the sites, by the transformation of Cole and Hopf."""
    x, t = sites[:, :1], sites[:, 1:]
    y = x - np.sqrt(4 * l2 * t) * nodes
    depth = -l1 * np.cos(np.pi * y) / (2 * np.pi * l2)
    share = weights * np.exp(depth - depth.max(axis=1, keepdims=True))
    return -(share * np.sin(np.pi * y)).sum(axis=1) / share.sum(axis=1)


readings = simulate(1.0, 0.01 / np.pi)
wide = [torch.nn.Linear(20, 20) for _ in range(7)]
hidden = [each for layer in wide for each in (layer, torch.nn.Tanh())]
net = torch.nn.Sequential(torch.nn.Linear(2, 20), torch.nn.Tanh(), *hidden, torch.nn.Linear(20, 1))
unknown = torch.nn.ParameterDict({"l1": torch.tensor(0.0), "l2": torch.tensor(-6.0)})
xt, target = torch.tensor(sites).float(), torch.tensor(readings).float()


def equation(model, xt, l1, l2):
    xt = xt.requires_grad_(True)
    u = model(xt)[:, 0]
    u_x, u_t = torch.autograd.grad(u.sum(), xt, create_graph=True)[0].T
    u_xx = torch.autograd.grad(u_x.sum(), xt, create_graph=True)[0][:, 0]
    return u_t + l1 * u * u_x - l2 * u_xx


optimizer = torch.optim.Adam([*net.parameters(), *unknown.parameters()], lr=1e-3)

# --- train
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    residual = equation(net, xt, unknown["l1"], torch.exp(unknown["l2"]))
    loss = ((net(xt)[:, 0] - target) ** 2).mean() + (residual**2).mean()
    loss.backward()
    optimizer.step()

# --- follow
import twoaxis as ta


def freeze():
    l1, l2 = unknown["l1"].item(), unknown["l2"].exp().item()
    parameters = {
        "l1": ta.Parameter(truth=1.0, delivered=l1, bounds=(-0.5, 3), coordinate="linear"),
        "l2": ta.Parameter(truth=0.01 / np.pi, delivered=l2, bounds=(3e-4, 0.05)),
    }
    return ta.from_torch(net, equation, parameters, points=xt, observed=xt, axes=("x", "t"))


follower = ta.Follower(freeze, every=100, progress=False)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    residual = equation(net, xt, unknown["l1"], torch.exp(unknown["l2"]))
    loss = ((net(xt)[:, 0] - target) ** 2).mean() + (residual**2).mean()
    loss.backward()
    optimizer.step()
    follower(step)
# --- first verdict
frozen = freeze()
first = ta.audit(frozen, data=readings, history=follower)
# --- audit
resolution = ta.resolve(simulate, frozen.parameters, data=readings)
tolerance = ta.Tolerance(material=5, resolution=5, preference=5)
audit = ta.audit(frozen, resolution=resolution, history=follower, tolerance=tolerance)

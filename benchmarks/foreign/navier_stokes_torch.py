"""Raissi's Navier-Stokes identification in plain PyTorch: a stream function and a pressure.

The unknowns are the factors of advection and of viscosity. The original takes a simulated wake
of a cylinder from a file; here a vortex street that drifts and decays takes its place, which
solves the same equations exactly.
"""

import sys

import numpy as np
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
sites = np.random.default_rng(0).uniform([1, -2, 0], [8, 2, 7], (1000, 3))


def simulate(C1, C2):
    """The velocities at the sites."""
    x, y, t = sites.T
    phase, decay = x - C1 * t, np.exp(-2 * C2 * t)
    return np.stack(
        [1 - np.cos(phase) * np.sin(y) * decay, np.sin(phase) * np.cos(y) * decay], axis=1
    )


readings = simulate(1.0, 0.01)
hidden = [each for _ in range(7) for each in (torch.nn.Linear(20, 20), torch.nn.Tanh())]
net = torch.nn.Sequential(torch.nn.Linear(3, 20), torch.nn.Tanh(), *hidden, torch.nn.Linear(20, 2))
unknown = torch.nn.ParameterDict({"C1": torch.tensor(0.0), "C2": torch.tensor(0.0)})
xyt, target = torch.tensor(sites).float().requires_grad_(True), torch.tensor(readings).float()


def slope(values, at):
    return torch.autograd.grad(values.sum(), at, create_graph=True)[0].T


def velocity(model, at):
    at = at if at.requires_grad else at.clone().requires_grad_(True)
    psi_x, psi_y, _ = slope(model(at)[:, 0], at)
    return torch.stack([psi_y, -psi_x], dim=1)


def equations(model, at, C1, C2):
    p_x, p_y, _ = slope(model(at)[:, 1], at)
    found = []
    u, v = velocity(model, at).T
    for own, push in ((u, p_x), (v, p_y)):
        own_x, own_y, own_t = slope(own, at)
        bent = slope(own_x, at)[0] + slope(own_y, at)[1]
        found.append(own_t + C1 * (u * own_x + v * own_y) + push - C2 * bent)
    return tuple(found)


optimizer = torch.optim.Adam([*net.parameters(), *unknown.parameters()], lr=1e-3)

# --- train
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    residuals = equations(net, xyt, unknown["C1"], unknown["C2"])
    misfit = ((velocity(net, xyt) - target) ** 2).mean()
    (misfit + sum((each**2).mean() for each in residuals)).backward()
    optimizer.step()

# --- follow
import twoaxis as ta


def freeze():
    C1, C2 = unknown["C1"].item(), unknown["C2"].item()
    parameters = {
        "C1": ta.Parameter(truth=1.0, delivered=C1, bounds=(-0.5, 2), coordinate="linear"),
        "C2": ta.Parameter(truth=0.01, delivered=C2, bounds=(-0.1, 0.2), coordinate="linear"),
    }
    names = {"axes": ("x", "y", "t"), "fields": ("u", "v")}
    return ta.from_torch(
        net, equations, parameters, points=xyt, observed=xyt, field=velocity, **names
    )


follower = ta.Follower(freeze, every=100, progress=False)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    residuals = equations(net, xyt, unknown["C1"], unknown["C2"])
    misfit = ((velocity(net, xyt) - target) ** 2).mean()
    (misfit + sum((each**2).mean() for each in residuals)).backward()
    optimizer.step()
    follower(step)
# --- first verdict
frozen = freeze()
first = ta.audit(frozen, data=readings, history=follower)
# --- audit
resolution = ta.resolve(simulate, frozen.parameters, data=readings)
tolerance = ta.Tolerance(material=5, resolution=5, preference=5)
audit = ta.audit(frozen, resolution=resolution, history=follower, tolerance=tolerance)

"""A model of DeepXDE, refined: a tracer in a stream, without a solver.

A cloud of tracer drifts and spreads, u_t + v u_x = D u_xx, from a known shape. Sixty readings of it
are noisy, and training was stopped early. Refinement takes the equation, the initial condition and
the readings from the DeepXDE model. The exact solution is used at the end only, to check.
"""

import argparse
import os

os.environ.setdefault("DDE_BACKEND", "pytorch")

import deepxde as dde
import numpy as np
import torch

import twoaxis as ta

options = argparse.ArgumentParser()
options.add_argument("--steps", type=int, default=400, help="training steps")
steps = options.parse_args().steps
dde.config.set_random_seed(0)
torch.set_num_threads(1)  # enough for a network of this size

truth, noise = {"v": 0.5, "D": 0.05}, 0.02
generator = np.random.default_rng(0)
sites = generator.uniform([-1, 0], [2, 1], (60, 2))  # columns x and t


def cloud(xt, v, D):
    x, t = xt.T
    spread = 0.1 + 2 * D * t
    return np.sqrt(0.1 / spread) * np.exp(-((x - v * t) ** 2) / (2 * spread))


readings = cloud(sites, **truth) + noise * generator.standard_normal(60)
v, logarithm = dde.Variable(1.0), dde.Variable(-2.0)


def equation(xt, u):
    u_x, u_t = (dde.grad.jacobian(u, xt, j=j) for j in (0, 1))
    return u_t + v * u_x - torch.exp(logarithm) * dde.grad.hessian(u, xt, i=0, j=0)


# More residual points than the network has weights, 337.
domain = dde.geometry.GeometryXTime(dde.geometry.Interval(-1, 2), dde.geometry.TimeDomain(0, 1))
conditions = [
    dde.icbc.PointSetBC(sites, readings[:, None]),
    dde.icbc.IC(domain, lambda xt: cloud(xt, 0.0, 0.0)[:, None], lambda _, on_initial: on_initial),
]
data = dde.data.TimePDE(domain, equation, conditions, num_domain=800, num_initial=60)
model = dde.Model(data, dde.nn.FNN([2, 16, 16, 1], "tanh", "Glorot uniform"))
model.compile("adam", lr=2e-3, external_trainable_variables=[v, logarithm], verbose=0)
model.train(iterations=steps, verbose=0)

known = {"v": ta.Parameter(bounds=(0.05, 5.0)), "D": ta.Parameter(bounds=(0.002, 1.0))}
frozen = ta.from_deepxde(
    model, known, unknowns={"v": v, "D": logarithm}, transform={"D": torch.exp}
)
refined = ta.refine(frozen, noise=noise, progress=False)
print(f"{refined}\ntrusted: {refined.trusted}\n")

# The check: a fit of the exact solution to the same readings.
solved = ta.resolve(
    lambda v, D: cloud(sites, v, D),
    frozen.parameters, noise, data=readings, replicas=20, progress=False,
)  # fmt: skip
fitted = solved.data_summary().droplevel("layout")
for name, true in truth.items():
    values = (frozen.parameters[name].delivered, refined.values[name], fitted["estimate"][name])
    before, after, exact = (f"{100 * (value / true - 1):+.1f}%" for value in values)
    print(f"{name}: {before} before, {after} refined, {exact} by the exact solution")

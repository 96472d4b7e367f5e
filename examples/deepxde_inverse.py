"""Are the coefficients that DeepXDE found right? A tracer in a stream, trained and audited.

A cloud of tracer drifts and spreads, u_t + v u_x = D u_xx. There are sixty
noisy readings of it. The dispersion D is stored as its logarithm, so that it stays positive.
"""

import argparse
import os

os.environ.setdefault("DDE_BACKEND", "pytorch")

import deepxde as dde
import numpy as np
import torch

import twoaxis as ta

options = argparse.ArgumentParser()
options.add_argument("--steps", type=int, default=400, help="training steps (20000 for a full run)")
options.add_argument("--page", default="deepxde_inverse.html")
chosen = options.parse_args()
dde.config.set_random_seed(0)
torch.set_num_threads(1)  # enough for a network of this size

truth, noise = {"v": 0.5, "D": 0.05}, 0.02
generator = np.random.default_rng(0)
sites = generator.uniform([-1, 0], [2, 1], (60, 2))  # columns x and t


def simulate(v, D):
    """The concentration at the sites: a cloud of width sqrt(0.1) at the start."""
    x, t = sites.T
    spread = 0.1 + 2 * D * t
    return np.sqrt(0.1 / spread) * np.exp(-((x - v * t) ** 2) / (2 * spread))


readings = simulate(**truth) + noise * generator.standard_normal(60)

# The inverse problem, as a user of DeepXDE writes it.
v, logarithm = dde.Variable(1.0), dde.Variable(-2.0)


def equation(xt, u):
    u_x, u_t = (dde.grad.jacobian(u, xt, j=j) for j in (0, 1))
    return u_t + v * u_x - torch.exp(logarithm) * dde.grad.hessian(u, xt, i=0, j=0)


domain = dde.geometry.GeometryXTime(dde.geometry.Interval(-1, 2), dde.geometry.TimeDomain(0, 1))
observed = dde.icbc.PointSetBC(sites, readings[:, None])
data = dde.data.TimePDE(domain, equation, [observed], num_domain=500, anchors=sites)
model = dde.Model(data, dde.nn.FNN([2, 24, 24, 24, 1], "tanh", "Glorot uniform"))
model.compile(
    "adam", lr=2e-3, loss_weights=[1, 10], external_trainable_variables=[v, logarithm], verbose=0
)
model.train(iterations=chosen.steps, verbose=0)

# The audit: what can the readings resolve, and what does the trained field prefer?
about = {
    "v": ta.Parameter(truth=truth["v"], bounds=(0.05, 5.0)),
    "D": ta.Parameter(truth=truth["D"], bounds=(0.002, 1.0)),
}
frozen = ta.from_deepxde(
    model, about, unknowns={"v": v, "D": logarithm}, transform={"D": torch.exp}
)
resolution = ta.resolve(simulate, about, noise, replicas=40, progress=False)
tolerance = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)
audit = ta.audit(frozen, resolution=resolution, data=readings, tolerance=tolerance)
print(audit)
audit.to_html(chosen.page)

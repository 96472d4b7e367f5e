"""Where should the next readings be taken, if only a DeepXDE estimate is known?

A cloud of tracer drifts down a stream and spreads, u_t + v u_x = D u_xx. Sixteen readings were
taken, and DeepXDE estimated v and D from them. An audit shows what such readings can resolve;
then twenty more are placed, at least six minutes or 300 m apart, and none under the bridge.
"""

import argparse
import os

os.environ.setdefault("DDE_BACKEND", "pytorch")

import deepxde as dde
import numpy as np
import torch

import twoaxis as ta

options = argparse.ArgumentParser()
options.add_argument("--steps", type=int, default=1500, help="training steps")
options.add_argument("--plot", help="write the figure to this file")
options.add_argument("--page", default="suggest_sites.html")
chosen = options.parse_args()
dde.config.set_random_seed(0)
torch.set_num_threads(1)  # enough for a network of this size

# All places and times at which a reading could be taken, in kilometers and hours.
x, t = (axis.ravel() for axis in np.meshgrid(np.linspace(-1, 2, 61), np.linspace(0, 1, 21)))
bridge = (x > 0.4) & (x < 0.7)
noise = 0.02


def cloud(v, D):
    """The concentration everywhere: a cloud of width sqrt(0.1) at the start."""
    spread = 0.1 + 2 * D * t
    return np.sqrt(0.1 / spread) * np.exp(-((x - v * t) ** 2) / (2 * spread))


generator = np.random.default_rng(1)
taken = generator.choice(np.flatnonzero(~bridge), 16, replace=False)
readings = cloud(v=0.5, D=0.05)[taken] + noise * generator.standard_normal(16)

# The inverse problem, as a user of DeepXDE writes it.
v, logarithm = dde.Variable(1.0), dde.Variable(-2.0)


def equation(xt, u):
    u_x, u_t = (dde.grad.jacobian(u, xt, j=j) for j in (0, 1))
    return u_t + v * u_x - torch.exp(logarithm) * dde.grad.hessian(u, xt, i=0, j=0)


domain = dde.geometry.GeometryXTime(dde.geometry.Interval(-1, 2), dde.geometry.TimeDomain(0, 1))
sites = np.stack([x, t], axis=1)[taken]
observed = dde.icbc.PointSetBC(sites, readings[:, None])
data = dde.data.TimePDE(domain, equation, [observed], num_domain=300, anchors=sites)
model = dde.Model(data, dde.nn.FNN([2, 24, 24, 24, 1], "tanh", "Glorot uniform"))
model.compile(
    "adam", lr=2e-3, loss_weights=[1, 10], external_trainable_variables=[v, logarithm], verbose=0
)
model.train(iterations=chosen.steps, verbose=0)

# The audit, centered on the delivered values: no truth is known.
known = {"v": ta.Parameter(bounds=(0.05, 5.0)), "D": ta.Parameter(bounds=(0.002, 1.0))}
frozen = ta.from_deepxde(
    model, known, unknowns={"v": v, "D": logarithm}, transform={"D": torch.exp}
)
resolution = ta.resolve(
    cloud, frozen.parameters, noise, {"taken": taken}, replicas=100, starts=1, progress=False
)
tolerance = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)
audit = ta.audit(frozen, resolution=resolution, data=readings, tolerance=tolerance)

# Twenty more readings, good on average over a factor of 1.5: the estimates may be wrong.
values = {name: one.delivered for name, one in frozen.parameters.items()}
ranges = {name: (value / 1.5, value * 1.5) for name, value in values.items()}
found = ta.suggest_sites(
    cloud, frozen.parameters, noise, 20, at=ranges, design_points=32, present=taken,
    points={"x": x, "t": t}, spacing=(0.3, 0.1), forbidden=bridge, progress=False,
)  # fmt: skip
print(found, "\n")
verified = found.verify(replicas=100, starts=1, progress=False)
print(verified, "\n")

plan = ta.remedy(audit, found, verified)
print(plan)
plan.to_html(chosen.page)
if chosen.plot:
    left, _ = found.plot()
    left.get_figure().savefig(chosen.plot, dpi=110)

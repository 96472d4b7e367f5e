"""DeepXDE's inverse Navier-Stokes problem: u and v observed in plane and time, pressure not.

The unknowns are the factors of advection and of viscosity. The original takes a simulated wake
of a cylinder from a file; here a vortex street that drifts and decays takes its place, which
solves the same equations exactly.
"""

import os
import sys

os.environ["DDE_BACKEND"] = "pytorch"

import deepxde as dde
import numpy as np
import torch

dde.config.set_random_seed(0)
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
C1, C2 = dde.Variable(0.0), dde.Variable(0.0)


def flow(x, y):
    u, v = y[:, 0:1], y[:, 1:2]
    (u_x, u_y, u_t), (v_x, v_y, v_t) = (
        [dde.grad.jacobian(y, x, i=i, j=j) for j in range(3)] for i in (0, 1)
    )
    p_x, p_y = (dde.grad.jacobian(y, x, i=2, j=j) for j in (0, 1))
    u_xx, u_yy, v_xx, v_yy = (
        dde.grad.hessian(y, x, component=i, i=j, j=j) for i in (0, 1) for j in (0, 1)
    )
    return [
        u_x + v_y,
        u_t + C1 * (u * u_x + v * u_y) + p_x - C2 * (u_xx + u_yy),
        v_t + C1 * (u * v_x + v * v_y) + p_y - C2 * (v_xx + v_yy),
    ]


domain = dde.geometry.GeometryXTime(
    dde.geometry.Rectangle([1, -2], [8, 2]), dde.geometry.TimeDomain(0, 7)
)
observed = [dde.icbc.PointSetBC(sites, readings[:, n : n + 1], component=n) for n in (0, 1)]
data = dde.data.TimePDE(
    domain, flow, observed, num_domain=700, num_boundary=200, num_initial=100, anchors=sites
)
model = dde.Model(data, dde.nn.FNN([3, 50, 50, 50, 50, 3], "tanh", "Glorot uniform"))
model.compile("adam", lr=1e-3, external_trainable_variables=[C1, C2], verbose=0)

# --- train
model.train(iterations=int(sys.argv[1]), verbose=0)

# --- follow
import twoaxis as ta

parameters = {
    "C1": (C1, ta.Parameter(truth=1.0, bounds=(-0.5, 2), coordinate="linear")),
    "C2": (C2, ta.Parameter(truth=0.01, bounds=(-0.1, 0.2), coordinate="linear")),
}
follower = ta.Follower(lambda: ta.from_deepxde(model, parameters), every=100, progress=False)
callbacks = [ta.deepxde_callback(follower)]
model.train(iterations=int(sys.argv[1]), verbose=0, callbacks=callbacks)
# --- first verdict
frozen = ta.from_deepxde(model, parameters)
first = ta.audit(frozen, history=follower)
# --- audit
resolution = ta.resolve(simulate, parameters, data=readings)
tolerance = ta.Tolerance(material=5, resolution=5, preference=5)
audit = ta.audit(frozen, resolution=resolution, history=follower, tolerance=tolerance)

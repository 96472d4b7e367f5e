"""DeepXDE's inverse diffusion-reaction system: two species, a diffusivity and a rate."""

import os
import sys

os.environ["DDE_BACKEND"] = "pytorch"

import deepxde as dde
import numpy as np
import torch
from scipy.integrate import solve_ivp
from scipy.interpolate import RegularGridInterpolator

dde.config.set_random_seed(0)
torch.set_num_threads(1)
grid = np.linspace(0, 1, 61)
sites = np.stack(np.meshgrid(np.linspace(0, 1, 25), np.linspace(0, 10, 12)), -1).reshape(-1, 2)


def simulate(kf, D):
    """Both concentrations at the sites: central differences in space, LSODA in time."""

    def rates(_, c):
        a, b = c.reshape(2, -1)
        eaten, width = kf * a * b**2, (grid[1] - grid[0]) ** 2
        change = np.zeros((2, len(grid)))
        for k, (own, factor) in enumerate(((a, 1), (b, 2))):
            spread = (own[2:] - 2 * own[1:-1] + own[:-2]) / width
            change[k, 1:-1] = 1e-3 * D * spread - factor * eaten[1:-1]
        return change.ravel()

    start, times = np.tile(np.exp(-20 * grid), 2), np.linspace(0, 10, 101)
    states = solve_ivp(
        rates, (0, 10), start, "LSODA", times, rtol=1e-7, atol=1e-9, lband=61, uband=61
    )
    each = states.y.reshape(2, len(grid), -1)
    return np.stack([RegularGridInterpolator((grid, times), c)(sites) for c in each], axis=1)


readings = simulate(0.1, 2.0)
kf, D = dde.Variable(0.05), dde.Variable(1.0)


def reaction(x, y):
    a, b = y[:, 0:1], y[:, 1:2]
    a_t, b_t = (dde.grad.jacobian(y, x, i=i, j=1) for i in (0, 1))
    a_xx, b_xx = (dde.grad.hessian(y, x, component=i, i=0, j=0) for i in (0, 1))
    eaten = kf * a * b**2
    return [a_t - 1e-3 * D * a_xx + eaten, b_t - 1e-3 * D * b_xx + 2 * eaten]


domain = dde.geometry.GeometryXTime(dde.geometry.Interval(0, 1), dde.geometry.TimeDomain(0, 10))
conditions = [
    kind(domain, lambda x: np.exp(-20 * x[:, 0:1]), lambda _, at: at, component=n)
    for kind in (dde.icbc.DirichletBC, dde.icbc.IC)
    for n in (0, 1)
]
observed = [dde.icbc.PointSetBC(sites, readings[:, n : n + 1], component=n) for n in (0, 1)]
data = dde.data.TimePDE(
    domain, reaction, [*conditions, *observed], num_domain=2000, num_boundary=100,
    num_initial=100, anchors=sites,
)  # fmt: skip
model = dde.Model(data, dde.nn.FNN([2, 20, 20, 20, 2], "tanh", "Glorot uniform"))
model.compile("adam", lr=1e-3, external_trainable_variables=[kf, D], verbose=0)

# --- train
model.train(iterations=int(sys.argv[1]), verbose=0)

# --- follow
import twoaxis as ta

parameters = {
    "kf": (kf, ta.Parameter(truth=0.1, bounds=(0.005, 1))),
    "D": (D, ta.Parameter(truth=2.0, bounds=(0.1, 20))),
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

"""DeepXDE's Brinkman-Forchheimer flow: viscosity and permeability from five readings."""

import os
import sys

os.environ["DDE_BACKEND"] = "pytorch"

import deepxde as dde
import numpy as np
import torch

dde.config.set_random_seed(0)
torch.set_num_threads(1)
force, viscosity, porosity = 1.0, 1e-3, 0.4
sites = np.linspace(1 / 6, 5 / 6, 5)[:, None]


def simulate(ve, K):
    """The velocity at the five sites, a column as the network returns it."""
    rate = np.sqrt(viscosity * porosity / (ve * K))
    decay = (np.exp(-rate * sites) + np.exp(-rate * (1 - sites))) / (1 + np.exp(-rate))
    return force * K / viscosity * (1 - decay)


readings = simulate(1e-3, 1e-3)
ve, K = dde.Variable(0.1), dde.Variable(0.1)


def brinkman(x, u):
    return -ve / porosity * dde.grad.hessian(u, x) + viscosity * u / K - force


domain = dde.geometry.Interval(0, 1)
observed = dde.icbc.PointSetBC(sites, readings)
data = dde.data.PDE(domain, brinkman, [observed], num_domain=100, train_distribution="uniform")
net = dde.nn.FNN([1, 20, 20, 20, 1], "tanh", "Glorot uniform")
net.apply_output_transform(lambda x, u: x * (1 - x) * u)
model = dde.Model(data, net)
model.compile("adam", lr=1e-3, external_trainable_variables=[ve, K], verbose=0)

# --- train
model.train(iterations=int(sys.argv[1]), verbose=0)

# --- follow
import twoaxis as ta

parameters = {
    "ve": (ve, ta.Parameter(truth=1e-3, bounds=(1e-5, 1))),
    "K": (K, ta.Parameter(truth=1e-3, bounds=(1e-5, 1))),
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

"""DeepXDE's forced Lorenz system: three unknowns, and a force that is known at 200 times alone."""

import os
import sys

os.environ["DDE_BACKEND"] = "pytorch"

import deepxde as dde
import numpy as np
import torch
from scipy.integrate import solve_ivp
from scipy.interpolate import make_interp_spline

dde.config.set_random_seed(0)
torch.set_num_threads(1)
times, forced = np.linspace(0, 3, 25)[:, None], np.linspace(0, 3, 200)
force = make_interp_spline(forced, 10 * np.sin(2 * np.pi * forced))


def simulate(sigma, rho, beta):
    """The states at the observed times."""

    def rates(t, s):
        pushed = s[0] * s[1] - beta * s[2] - force(t)
        return [sigma * (s[1] - s[0]), s[0] * (rho - s[2]) - s[1], pushed]

    return solve_ivp(rates, (0, 3), [-8, 7, 27], t_eval=times[:, 0], rtol=1e-8, atol=1e-8).y.T


states = simulate(10.0, 15.0, 8 / 3)
sigma, rho, beta = (dde.Variable(1.0) for _ in range(3))


def lorenz(t, s, push):
    x, y, z = s[:, 0:1], s[:, 1:2], s[:, 2:3]
    x_t, y_t, z_t = (dde.grad.jacobian(s, t, i=i) for i in range(3))
    return [x_t - sigma * (y - x), y_t - x * (rho - z) + y, z_t - x * y + beta * z + push]


domain = dde.geometry.TimeDomain(0, 3)
starts = [
    dde.icbc.IC(domain, lambda _: -8.0, lambda _, at: at, component=0),
    dde.icbc.IC(domain, lambda _: 7.0, lambda _, at: at, component=1),
    dde.icbc.IC(domain, lambda _: 27.0, lambda _, at: at, component=2),
]
observed = [dde.icbc.PointSetBC(times, states[:, n : n + 1], component=n) for n in range(3)]
data = dde.data.PDE(
    domain, lorenz, [*starts, *observed], num_domain=400, num_boundary=2, anchors=times,
    auxiliary_var_function=force,
)  # fmt: skip
model = dde.Model(data, dde.nn.FNN([1, 40, 40, 40, 3], "tanh", "Glorot uniform"))
unknowns = [sigma, rho, beta]
model.compile("adam", lr=1e-3, external_trainable_variables=unknowns, verbose=0)

# --- train
model.train(iterations=int(sys.argv[1]), verbose=0)

# --- follow
import twoaxis as ta

parameters = {
    "sigma": (sigma, ta.Parameter(truth=10.0, bounds=(0.01, 100))),
    "rho": (rho, ta.Parameter(truth=15.0, bounds=(0.01, 100))),
    "beta": (beta, ta.Parameter(truth=8 / 3, bounds=(0.01, 100))),
}
follower = ta.Follower(lambda: ta.from_deepxde(model, parameters), every=100, progress=False)
callbacks = [ta.deepxde_callback(follower)]
model.train(iterations=int(sys.argv[1]), verbose=0, callbacks=callbacks)
# --- first verdict
frozen = ta.from_deepxde(model, parameters)
first = ta.audit(frozen, history=follower)
# --- audit
resolution = ta.resolve(simulate, parameters, data=states)
tolerance = ta.Tolerance(material=5, resolution=5, preference=5)
audit = ta.audit(frozen, resolution=resolution, history=follower, tolerance=tolerance)

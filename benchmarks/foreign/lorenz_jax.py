"""DeepXDE's inverse Lorenz system: three unknowns, twenty-five observed states, on JAX."""

import os
import sys

os.environ["DDE_BACKEND"] = "jax"

import deepxde as dde
import numpy as np
from scipy.integrate import solve_ivp

dde.config.set_random_seed(0)
times = np.linspace(0, 3, 25)[:, None]


def simulate(sigma, rho, beta):
    """The states at the observed times."""

    def rates(_, s):
        return [sigma * (s[1] - s[0]), s[0] * (rho - s[2]) - s[1], s[0] * s[1] - beta * s[2]]

    return solve_ivp(rates, (0, 3), [-8, 7, 27], t_eval=times[:, 0], rtol=1e-8, atol=1e-8).y.T


states = simulate(10.0, 15.0, 8 / 3)
sigma, rho, beta = (dde.Variable(1.0) for _ in range(3))


unknowns = [sigma, rho, beta]


def lorenz(t, s, unknowns=unknowns):
    sigma, rho, beta = unknowns
    x, y, z = s[0][:, 0:1], s[0][:, 1:2], s[0][:, 2:3]
    x_t, y_t, z_t = (dde.grad.jacobian(s, t, i=i)[0] for i in range(3))
    return [x_t - sigma * (y - x), y_t - x * (rho - z) + y, z_t - x * y + beta * z]


domain = dde.geometry.TimeDomain(0, 3)
starts = [
    dde.icbc.IC(domain, lambda _: -8.0, lambda _, at: at, component=0),
    dde.icbc.IC(domain, lambda _: 7.0, lambda _, at: at, component=1),
    dde.icbc.IC(domain, lambda _: 27.0, lambda _, at: at, component=2),
]
observed = [dde.icbc.PointSetBC(times, states[:, n : n + 1], component=n) for n in range(3)]
data = dde.data.PDE(
    domain, lorenz, [*starts, *observed], num_domain=400, num_boundary=2, anchors=times
)
model = dde.Model(data, dde.nn.FNN([1, 40, 40, 40, 3], "tanh", "Glorot uniform"))
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

"""jinns' inverse Burgers equation: the viscosity from readings of the field."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import jinns
import numpy as np
import optax
from jinns.parameters import Params

sites = np.random.default_rng(0).uniform([0, -1], [1, 1], (1000, 2))  # columns t and x
nodes, weights = np.polynomial.hermite.hermgauss(80)


def simulate(nu):
    """The exact field at the sites, by the transformation of Cole and Hopf."""
    t, x = sites[:, :1], sites[:, 1:]
    y = x - np.sqrt(4 * nu * t) * nodes
    depth = -np.cos(np.pi * y) / (2 * np.pi * nu)
    share = weights * np.exp(depth - depth.max(axis=1, keepdims=True))
    return -(share * np.sin(np.pi * y)).sum(axis=1, keepdims=True) / share.sum(
        axis=1, keepdims=True
    )


readings = simulate(0.01 / np.pi)
keys = jax.random.split(jax.random.PRNGKey(0), 3)
layer, tanh = eqx.nn.Linear, (jax.nn.tanh,)
layers = ((layer, 2, 20), tanh, (layer, 20, 20), tanh, (layer, 20, 20), tanh, (layer, 20, 1))
u, start = jinns.nn.PINN_MLP.create(key=keys[0], eqx_list=layers, eq_type="PDENonStatio")
start = Params(nn_params=start, eq_params={"nu": jnp.array(0.05)})
loss = jinns.loss.LossPDENonStatio(
    u=u,
    dynamic_loss=jinns.loss.BurgersEquation(Tmax=1),
    initial_condition_fun=lambda x: -jnp.sin(jnp.pi * x),
    loss_weights=jinns.loss.LossWeightsPDENonStatio(
        dyn_loss=1.0, initial_condition=1.0, observations=10.0
    ),
    derivative_keys=jinns.parameters.DerivativeKeysPDENonStatio.from_str(
        params=start, dyn_loss="both"
    ),
)
data = jinns.data.CubicMeshPDENonStatio(
    key=keys[1], n=2000, nb=None, ni=100, dim=1, min_pts=(-1.0,), max_pts=(1.0,), tmin=0.0,
    tmax=1.0, domain_batch_size=500, border_batch_size=None, initial_batch_size=100,
)  # fmt: skip
observed = jinns.data.DataGeneratorObservations(
    key=keys[2], obs_batch_size=250,
    observed_pinn_in=jnp.array(sites), observed_values=jnp.array(readings),
)  # fmt: skip
options = {"optimizer": optax.adam(2e-3), "obs_data": observed, "verbose": False}

# --- train
trained, _, _, data, loss, _, _, _, observed, *_ = jinns.solve(
    n_iter=int(sys.argv[1]), init_params=start, data=data, loss=loss, **options
)

# --- follow
import twoaxis as ta

parameters = {"nu": ta.Parameter(truth=0.01 / np.pi, bounds=(3e-4, 0.05))}
follower = ta.Follower(
    lambda loss, params, data, observed: ta.from_jinns(
        loss, params, parameters, points=data, observed=observed
    ),
    every=100, progress=False,
)  # fmt: skip
trained, _, _, data, loss, _, _, _, observed, *_ = ta.jinns_solve(
    follower, n_iter=int(sys.argv[1]), init_params=start, data=data, loss=loss, **options
)
# --- first verdict
frozen = ta.from_jinns(loss, trained, parameters, points=data, observed=observed)
first = ta.audit(frozen, history=follower)
# --- audit
resolution = ta.resolve(simulate, parameters, data=readings)
tolerance = ta.Tolerance(material=5, resolution=5, preference=5)
audit = ta.audit(frozen, resolution=resolution, history=follower, tolerance=tolerance)

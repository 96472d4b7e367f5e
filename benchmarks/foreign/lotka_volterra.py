"""jinns' generalized Lotka-Volterra system of four species: a vector and a matrix of unknowns."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import jinns
import numpy as np
import optax
from jinns.parameters import Params

times = np.linspace(0, 4, 60)
growth = np.array([1.0, 0.8, 0.6, -0.3])
interactions = np.array(
    [[1.0, 0.3, 0.0, 0.5], [0.2, 1.0, 0.4, 0.0], [0.0, 0.3, 1.0, 0.2], [-0.6, 0.0, -0.2, 0.4]]
)


def simulate(r, i):
    """The four populations at the observed times, for many parameters at once (Runge-Kutta)."""

    def rates(n):
        return n * (r - np.einsum("bjk,bk->bj", i, n))

    n = np.tile([0.2, 0.3, 0.4, 0.5], (len(r), 1))
    states, step = [n], (times[1] - times[0]) / 4
    for _ in times[1:]:
        for _ in range(4):
            a = rates(n)
            b = rates(n + step / 2 * a)
            c = rates(n + step / 2 * b)
            n = n + step / 6 * (a + 2 * b + 2 * c + rates(n + step * c))
        states.append(n)
    return np.stack(states, axis=1)


counts = simulate(growth[None], interactions[None])[0]


class LotkaVolterra(jinns.loss.ODE):
    def equation(self, t, u, params):
        slope = jax.jacfwd(lambda at: u(at, params))(t)[:, 0]
        n, p = u(t, params), params.eq_params
        return slope - n * (p.r - p.i @ n)


keys = jax.random.split(jax.random.PRNGKey(0), 3)
layer, tanh = eqx.nn.Linear, (jax.nn.tanh,)
layers = ((layer, 1, 24), tanh, (layer, 24, 24), tanh, (layer, 24, 4))
u, start = jinns.nn.PINN_MLP.create(key=keys[0], eqx_list=layers, eq_type="ODE")
start = Params(nn_params=start, eq_params={"r": jnp.zeros(4), "i": jnp.zeros((4, 4))})
loss = jinns.loss.LossODE(
    u=u,
    dynamic_loss=LotkaVolterra(),
    loss_weights=jinns.loss.LossWeightsODE(dyn_loss=1.0, observations=1.0),
    derivative_keys=jinns.parameters.DerivativeKeysODE.from_str(params=start, dyn_loss="both"),
)
data = jinns.data.DataGeneratorODE(key=keys[1], nt=200, tmin=0.0, tmax=4.0)
observed = jinns.data.DataGeneratorObservations(
    key=keys[2], observed_pinn_in=jnp.array(times)[:, None], observed_values=jnp.array(counts)
)
options = {"optimizer": optax.adam(3e-3), "obs_data": observed, "verbose": False}

# --- train
trained, _, _, data, loss, _, _, _, observed, *_ = jinns.solve(
    n_iter=int(sys.argv[1]), init_params=start, data=data, loss=loss, **options
)

# --- follow
import twoaxis as ta

parameters = {
    "r": ta.ParameterArray(truth=growth, bounds=(-2, 2), coordinate="linear"),
    "i": ta.ParameterArray(truth=interactions, bounds=(-2, 2), coordinate="linear"),
}
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
resolution = ta.resolve(simulate, parameters, data=counts, vectorized=True)
tolerance = ta.Tolerance(material=5, resolution=5, preference=5)
audit = ta.audit(frozen, resolution=resolution, history=follower, tolerance=tolerance)

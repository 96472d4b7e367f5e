"""Are the rates that jinns found right? Predator and prey, trained with jinns and audited.

Prey grow and are eaten, u' = a u - b u v; predators grow on them and die, v' = c u v - v. Both
are counted thirty times, with errors. Three unknowns: growth a, hunting b and feeding c.
"""

import argparse
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import jinns
import numpy as np
import optax
from jinns.parameters import Params
from scipy.integrate import odeint

import twoaxis as ta

options = argparse.ArgumentParser()
options.add_argument(
    "--steps", type=int, default=3000, help="training steps (50000 for a full run)"
)
steps = options.parse_args().steps
warnings.filterwarnings("ignore", "Initial condition wasn't provided")  # the counts begin at zero

truth, noise, times = {"a": 1.2, "b": 0.8, "c": 0.6}, 0.05, np.linspace(0, 4, 30)


def simulate(a, b, c):
    """The numbers of prey and predators at the times of the counts."""

    def rates(n, _):
        return a * n[0] - b * n[0] * n[1], c * n[0] * n[1] - n[1]

    return odeint(rates, [2.0, 1.0], times, rtol=1e-8, atol=1e-10)


counts = simulate(**truth) + noise * np.random.default_rng(0).standard_normal((30, 2))


class PredatorPrey(jinns.loss.ODE):
    def equation(self, t, u, params):
        slope = jax.jacfwd(lambda at: u(at, params))(t)[:, 0]
        (prey, predators), p = u(t, params), params.eq_params
        met = prey * predators
        return slope - jnp.stack([p.a * prey - p.b * met, p.c * met - predators])


layer, tanh = eqx.nn.Linear, (jax.nn.tanh,)
layers = ((layer, 1, 24), tanh, (layer, 24, 24), tanh, (layer, 24, 2))
keys = jax.random.split(jax.random.PRNGKey(0), 3)
u, weights = jinns.nn.PINN_MLP.create(key=keys[0], eqx_list=layers, eq_type="ODE")
start = Params(nn_params=weights, eq_params={name: jnp.array(1.0) for name in truth})
loss = jinns.loss.LossODE(
    u=u,
    dynamic_loss=PredatorPrey(),
    loss_weights=jinns.loss.LossWeightsODE(dyn_loss=1.0, observations=1.0),
    derivative_keys=jinns.parameters.DerivativeKeysODE.from_str(params=start, dyn_loss="both"),
)
data = jinns.data.DataGeneratorODE(key=keys[1], nt=200, tmin=0.0, tmax=4.0)
observed = jinns.data.DataGeneratorObservations(
    key=keys[2], observed_pinn_in=jnp.array(times)[:, None], observed_values=jnp.array(counts)
)
trained, _, _, data, loss, *_ = jinns.solve(
    n_iter=steps, init_params=start, data=data, loss=loss, optimizer=optax.adam(5e-3),
    obs_data=observed, verbose=False,
)  # fmt: skip

# The audit: what could the counts resolve, and what does the trained field prefer?
known = {n: ta.Parameter(truth=v, bounds=(v / 10, 10 * v)) for n, v in truth.items()}
resolution = ta.resolve(simulate, known, noise, replicas=40, seed=0)
tolerance = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)
frozen = ta.from_jinns(loss, trained, known, points=data, observed=observed)
audit = ta.audit(frozen, resolution=resolution, data=counts, tolerance=tolerance)
print(audit)
audit.to_html("jinns_inverse.html")

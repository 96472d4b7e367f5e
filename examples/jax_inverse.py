"""Is the damping that a JAX network found right? A pendulum, trained with equinox and audited.

A pendulum swings and loses its energy, angle'' + damping * angle' + sin(angle) = 0. There are forty
noisy readings of the angle.
"""

import argparse

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.integrate import odeint

import twoaxis as ta

options = argparse.ArgumentParser()
options.add_argument("--steps", type=int, default=500, help="training steps (20000: a full run)")
steps = options.parse_args().steps
truth, noise, times = 0.3, 0.05, np.linspace(0, 8, 40)


def simulate(damping):
    """The angle at the times of the readings."""
    return odeint(lambda s, _: (s[1], -damping * s[1] - np.sin(s[0])), [1.2, 0.0], times)[:, 0]


readings = simulate(truth) + noise * np.random.default_rng(0).standard_normal(40)

# The inverse problem, in plain JAX: a field and the logarithm of the damping, trained together.
points = np.random.default_rng(1).uniform(0, 8, (300, 1))
network = eqx.nn.MLP(1, "scalar", 32, 2, jnp.tanh, key=jax.random.key(0))


def angle(model, t):
    return model(jnp.array([t / 4 - 1]))


def residual(model, points, damping):
    def one(t):
        slope = jax.grad(angle, argnums=1)
        bend = jax.grad(slope, argnums=1)(model, t)
        return bend + damping * slope(model, t) + jnp.sin(angle(model, t))

    return jax.vmap(one)(points[:, 0])


def loss(trained):
    model, logarithm = trained
    misfit = jax.vmap(angle, (None, 0))(model, jnp.array(times)) - readings
    return jnp.mean(misfit**2) + jnp.mean(
        residual(model, jnp.array(points), jnp.exp(logarithm)) ** 2
    )


@eqx.filter_jit
def update(trained, state):
    change, state = optimizer.update(eqx.filter_grad(loss)(trained), state)
    return eqx.apply_updates(trained, change), state


optimizer, trained = optax.adam(3e-3), (network, jnp.array(0.0))
state = optimizer.init(eqx.filter(trained, eqx.is_array))
for _ in range(steps):
    trained, state = update(trained, state)
model, delivered = trained[0], float(jnp.exp(trained[1]))

# The audit: what could the readings resolve, and what does the trained field prefer?
known = {"damping": ta.Parameter(truth=truth, delivered=delivered, bounds=(0.02, 3.0))}
frozen = ta.from_jax(
    model,
    residual,
    known,
    points=points,
    field=lambda m, t: jax.vmap(angle, (None, 0))(m, t[:, 0]),
)
resolution = ta.resolve(simulate, known, noise, seed=0)
tolerance = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)
audit = ta.audit(frozen, resolution=resolution, data=readings, tolerance=tolerance)
print(audit)
audit.to_html("jax_inverse.html")

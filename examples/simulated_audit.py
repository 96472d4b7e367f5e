"""How biased is a PINN if the truth is unknown? An audit of data simulated at its own result.

A population grows as u' = r u (1 - u). A small JAX network is trained on thirty noisy counts and on
the equation, with a penalty on its weights that keeps it smooth, and delivers r. Around the
delivered value an audit cannot measure an error. So data are simulated at that value, the same
training is run on them, and there its bias is measured.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

import twoaxis as ta

truth, noise = 1.5, 0.03
rate = ta.Parameter(bounds=(0.2, 8.0), start=1.0)
times = np.linspace(0, 6, 30)
points = jnp.linspace(0, 6, 60)[:, None]


def population(r):
    """The exact solution at the times of observation, from u(0) = 0.05."""
    return 1 / (1 + 19 * np.exp(-r * times))


def network(layers, t):
    """One hidden layer; time is scaled to -1 to 1."""
    slope, shift, weight, bias = layers
    return jnp.tanh((t / 3 - 1) * slope + shift) @ weight + bias


def residual(layers, points, r):
    """u' - r u (1 - u) at the points."""
    u = jax.vmap(network, (None, 0))(layers, points[:, 0])
    return jax.vmap(jax.grad(network, 1), (None, 0))(layers, points[:, 0]) - r * u * (1 - u)


def loss(state, values, penalty=1e-2):
    layers, log_r = state
    misfit = jax.vmap(network, (None, 0))(layers, jnp.asarray(times)) - values
    equation = residual(layers, points, jnp.exp(log_r))
    size = sum(jnp.sum(part**2) for part in layers)
    return jnp.mean(misfit**2) + 0.1 * jnp.mean(equation**2) + penalty * size / 16


def train(seed, values, steps=2500, step_size=0.02):
    """Adam, written out, so that only JAX is needed."""
    keys = jax.random.split(jax.random.PRNGKey(seed), 3)
    scales = zip((3.0, 2.0, 0.3), keys, strict=True)
    layers = (*(scale * jax.random.normal(key, (16,)) for scale, key in scales), jnp.zeros(()))
    state = layers, jnp.log(rate.start)
    zeros = jax.tree.map(jnp.zeros_like, state)

    def one(carry, step):
        state, mean, square = carry
        slope = jax.grad(loss)(state, values)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, slope)
        square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, square, slope)
        sizes = 1 - 0.9**step, 1 - 0.999**step

        def move(p, m, s):
            return p - step_size * (m / sizes[0]) / (jnp.sqrt(s / sizes[1]) + 1e-8)

        return (jax.tree.map(move, state, mean, square), mean, square), None

    return jax.lax.scan(one, (state, zeros, zeros), jnp.arange(1.0, steps + 1))[0][0]


# All datasets of a call are trained in one batch.
train_all = jax.jit(jax.vmap(train))


def pipeline(values, seeds):
    """Train on every row of values, and freeze the results."""
    layers, log_r = train_all(jnp.asarray(seeds), jnp.asarray(values))
    return [
        ta.from_jax(
            tuple(part[k] for part in layers),
            residual,
            {"r": replace(rate.holding(float(r)), delivered=float(r))},
            points=points,
        )
        for k, r in enumerate(np.exp(log_r))
    ]


readings = population(truth) + noise * np.random.default_rng(0).standard_normal(times.size)
(mine,) = pipeline(readings[None], np.array([0]))
delivered = mine.parameters["r"].delivered
print(f"delivered r = {delivered:.4f}\n")

found = ta.simulated_audit(
    pipeline,
    population,
    {"r": replace(rate, delivered=delivered)},
    noise,
    replicas=16,
    seed=1,
    vectorized_pipeline=True,
    tolerance=ta.Tolerance(material=3.0, resolution=5.0, preference=3.0),
)
print(found, "\n")
late = ta.views.Weighted(loss_weights=np.linspace(0, 1, 60))
views = {"all points": ta.views.Pointwise(), "patches": ta.views.Patch(cells=6), "late": late}
print(found.rank_views(views).round(4).to_string(), "\n")
print(f"The truth is r = {truth}: delivered {delivered / truth - 1:+.1%}, ", end="")
print(f"corrected {found.corrected['r'] / truth - 1:+.1%}.")

"""A confidence set for the parameter that a biased JAX PINN delivers, without the truth.

A population grows as u' = r u (1 - u). A small network and r are fitted together to noisy counts
and to the equation, by Levenberg and Marquardt's method in JAX. A penalty on the weights keeps the
network smooth, too smooth for a steep rise, so that r comes out too small, and the more so the
faster the growth. The library does not know that. The trained network is audited; then the
training is repeated on data simulated at several candidates, and the set keeps the candidates
whose distribution of delivered values contains the one at hand.
"""

import argparse
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

import twoaxis as ta

options = argparse.ArgumentParser()
options.add_argument("--page", default="confidence_set.html")
page = options.parse_args().page
jax.config.update("jax_enable_x64", True)

times, points = np.linspace(0, 6, 40), jnp.linspace(0, 6, 60)[:, None]
noise, truth, units = 0.05, 1.8, 8
rate = ta.Parameter(bounds=(0.5, 3.0), start=1.0)


def population(r):
    """The exact solution at the times of observation, from u(0) = 0.05."""
    return 1 / (1 + 19 * np.exp(-r * times))


def network(layers, t):
    """One hidden layer; time is scaled to -1 to 1."""
    slope, shift, weight, bias = jnp.split(layers, [units, 2 * units, 3 * units])
    return jnp.tanh((t / 3 - 1) * slope + shift) @ weight + bias[0]


def residual(layers, points, r):
    """u' - r u (1 - u) at the points."""
    u = jax.vmap(network, (None, 0))(layers, points[:, 0])
    return jax.vmap(jax.grad(network, 1), (None, 0))(layers, points[:, 0]) - r * u * (1 - u)


def parts(state, values):
    """The residuals of the least-squares training: data, equation and penalty."""
    layers, r = state[:-1], jnp.exp(state[-1])
    misfit = jax.vmap(network, (None, 0))(layers, jnp.asarray(times)) - values
    equation = residual(layers, points, r)
    sizes = (misfit.size, equation.size / 2, layers.size / 1e-2)
    return jnp.concatenate(
        [part / jnp.sqrt(n) for part, n in zip((misfit, equation, layers), sizes, strict=True)]
    )


def train(seed, values, steps=40):
    """Levenberg-Marquardt: damp less after a step that helped, more after one that did not."""
    start = jax.random.normal(jax.random.PRNGKey(seed), (3, units)) * jnp.array([[3], [2], [0.3]])
    state = jnp.concatenate([start.ravel(), jnp.array([0.5, jnp.log(rate.start)])])

    def one(carry, _):
        state, damping = carry
        now, slopes = parts(state, values), jax.jacfwd(parts)(state, values)
        square = slopes.T @ slopes + damping * jnp.eye(state.size)
        trial = state - jnp.linalg.solve(square, slopes.T @ now)
        better = jnp.sum(parts(trial, values) ** 2) < jnp.sum(now**2)
        return (jnp.where(better, trial, state), damping * jnp.where(better, 0.3, 4.0)), None

    return jax.lax.scan(one, (state, 1e-2), length=steps)[0][0]


# All datasets of a call are trained in one batch.
train_all = jax.jit(jax.vmap(train))


def pipeline(values, seeds):
    """Train on every row of values, and return the rates."""
    return np.exp(train_all(jnp.asarray(seeds), jnp.asarray(values))[:, -1])


# The PINN and its audit: its frozen field agrees with the value that it delivered.
readings = population(truth) + noise * np.random.default_rng(0).standard_normal(times.size)
state = train(0, jnp.asarray(readings))
known = {"r": replace(rate, delivered=float(np.exp(state[-1])))}
frozen = ta.from_jax(state[:-1], residual, known, points=points)
resolution = ta.resolve(population, known, noise, replicas=100, progress=False)
tolerance = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)
audit = ta.audit(frozen, resolution=resolution, data=readings, tolerance=tolerance)

found = ta.confidence_set(
    pipeline, population, known, noise,  # for the delivered value; for data: noise, readings
    candidates=11, replicas=59, seed=1, vectorized_pipeline=True, progress=False,
)  # fmt: skip
print(found, "\n")
print(found.candidates.round(4).to_string(), "\n")
plan = ta.remedy(audit, found)
print(plan, "\n")
plan.to_html(page)
print(f"The truth, r = {truth}, is {'in' if found.contains(truth) else 'not in'} the set.")
print(f"Error of the delivered value {found.estimate / truth - 1:+.1%}, ", end="")
print(f"of the corrected one {found.corrected / truth - 1:+.1%}.")

# The same calibration is valid for other datasets of this layout and noise. Its coverage:
generator = np.random.default_rng(8)
truths = np.exp(generator.uniform(np.log(0.7), np.log(2.4), 100))
rows = np.stack([population(r) for r in truths])
rows += noise * generator.standard_normal(rows.shape)
delivered = pipeline(rows, np.arange(100))
sets = [found.calibration.confidence_set(estimate=float(r)) for r in delivered]
held = sum(one.contains(r) for one, r in zip(sets, truths, strict=True))
corrected = np.array([one.corrected or np.nan for one in sets])
print(f"\n100 new datasets at other truths: {held} sets contain the truth.")
print(f"Mean error: delivered {np.mean(np.abs(delivered / truths - 1)):.1%}, ", end="")
print(f"corrected {np.nanmean(np.abs(corrected / truths - 1)):.1%}.")

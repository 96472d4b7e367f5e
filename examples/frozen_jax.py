"""What does a JAX network prefer? A parameter inside a fraction, and exact derivatives.

A substance diffuses and is consumed, u_t = 0.02 u_xx - u / (K + u). The unknown K is the
concentration at which the reaction runs at half its speed, and the residual is not affine in
it: the score is local, and the frozen scan shows where that approximation is valid.
"""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.integrate import solve_ivp
from scipy.interpolate import RectBivariateSpline
from scipy.optimize import minimize

import twoaxis as ta

jax.config.update("jax_enable_x64", True)
diffusion, truth = 0.02, 0.5
x, t = np.linspace(0, 1, 101), np.linspace(0, 1, 51)


def rate(_, u):
    """Central differences in space, no flux through the ends."""
    around = np.pad(u, 1, mode="reflect")
    return diffusion * np.diff(around, 2) / (x[1] - x[0]) ** 2 - u / (truth + u)


start = 0.2 + np.exp(-30 * (x - 0.5) ** 2)
solved = solve_ivp(rate, (0, 1), start, t_eval=t, method="LSODA", rtol=1e-8, atol=1e-10)
field = RectBivariateSpline(x, t, solved.y)

# A small network, fitted to noisy readings of that field.
generator = np.random.default_rng(0)
widths = (2, 20, 20, 1)
layers = [(generator.normal(size=s) / np.sqrt(s[0]), np.zeros(s[1])) for s in pairwise(widths)]
first, unravel = ravel_pytree(layers)


def network(weights, x, t):
    h = jnp.stack([x, t])
    *hidden, (last, shift) = unravel(weights)
    for weight, bias in hidden:
        h = jnp.tanh(h @ weight + bias)
    return (h @ last + shift)[0]


sites = generator.random((500, 2))
readings = field(*sites.T, grid=False) + 0.05 * generator.standard_normal(500)
values = jax.vmap(network, in_axes=(None, 0, 0))
misfit = jax.jit(jax.value_and_grad(lambda w: jnp.mean((values(w, *sites.T) - readings) ** 2)))
fitted = minimize(misfit, first, jac=True, method="L-BFGS-B", options={"maxiter": 400})
print(f"root mean square misfit to the readings: {np.sqrt(fitted.fun):.4f}\n")


@jax.jit
def residual_at(points, K):
    """The residual of the network, differentiated point by point."""
    u, u_t, u_xx = (
        jax.vmap(function, in_axes=(None, 0, 0))(fitted.x, *points.T)
        for function in (network, jax.grad(network, 2), jax.grad(jax.grad(network, 1), 1))
    )
    return u_t - diffusion * u_xx + u / (K + u)


points = generator.random((1000, 2))
frozen = ta.FrozenResidual(
    residual=lambda K: residual_at(points, K),
    parameters={"K": ta.Parameter(truth=truth, bounds=(0.05, 5.0))},
    points=points,
    view=ta.views.Pointwise(),
    residual_at=residual_at,
)
print(ta.score(frozen, fresh=10), "\n")
print(ta.frozen_scan(frozen), "\n")
print("The same by central differences, for three steps and two grids:")
print(ta.step_robustness(frozen).round(6).to_string())

"""What a run is trained on, and the two terms of its loss.

`run_data` holds what stays the same while a run trains: sites, observations, conditions. The
residual and the misfit are functions of it, of the network and of the coordinates.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from twoaxis.parameters import Parameters
from twoaxis.problems import SteadyProblem
from twoaxis.training.network import PLAIN, Field, field_arrays
from twoaxis.training.residual_loss import form_of
from twoaxis.training.settings import RunSpec, Settings

FloatArray = NDArray[np.float64]
Arrays = dict[str, Any]  # a tree of NumPy arrays
Tree = Any

# Streams of random numbers of a run.
NETWORK, SITES, BOUNDARY, POOL = 0, 1, 2, 3
# Sites that collocation points are drawn from, for each of them.
POOL_SIZE = 32
# Sites that the pool is drawn from, for each of its own.
CANDIDATES = 2


def residual_sites(settings: Settings, spec: RunSpec) -> FloatArray:
    """Draw the residual sites of a run, uniform in the domain, shape (N, k)."""
    return uniform_sites(
        settings, spec.generator(SITES).random((settings.residual_points, len(settings.axes)))
    )


def run_data(settings: Settings, spec: RunSpec) -> Arrays:
    """Return everything that stays the same while a run trains."""
    recipe = settings.method.recipe()
    points = residual_sites(settings, spec)
    known = settings.problem.coefficients(points)
    data: Arrays = {
        "residual": field_arrays(settings.problem, settings.conditions, points),
        "coefficients": dict(known),
        "observed": field_arrays(settings.problem, settings.conditions, spec.dataset.coordinates),
        "values": np.asarray(spec.dataset.values, dtype=float),
        "form": form_of(recipe.view, points, recipe.weights.needs_modes),
        "free": np.array([name not in spec.fixed for name in settings.problem.parameters], float),
    }
    if settings.has_boundary_term:
        edge = boundary_sites(settings, spec)
        assert isinstance(settings.problem, SteadyProblem)
        data["boundary"] = field_arrays(settings.problem, "soft", edge)
        data["boundary_values"] = settings.problem.field(edge[:, 0], edge[:, 1])
    if recipe.continuation is not None:
        data |= _continuation_data(settings, spec)
        data["residual"]["weight"] = point_weights(settings, spec, points)
    return data


def _continuation_data(settings: Settings, spec: RunSpec) -> Arrays:
    """Return what second-order steps need besides: a pool of sites, noise, bounds, a random key."""
    generator = spec.generator(POOL)
    pool, weight = _pool(settings, spec, generator)
    arrays = field_arrays(settings.problem, settings.conditions, pool)
    bounds = Parameters(settings.problem.parameters).coordinate_bounds
    return {
        "pool": {
            **arrays,
            "coefficients": dict(settings.problem.coefficients(pool)),
            "weight": weight,
        },
        "noise": np.asarray(float(spec.dataset.noise_scale)),
        "lowest": bounds[0],
        "highest": bounds[1],
        "key": generator.integers(2**32, size=2, dtype=np.uint32),
    }


def _pool(
    settings: Settings, spec: RunSpec, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw a pool of sites, with more of them where the initial field has a step; their factors."""
    size = POOL_SIZE * settings.residual_points
    among = uniform_sites(settings, generator.random((CANDIDATES * size, len(settings.axes))))
    weights = point_weights(settings, spec, among)
    chance = 1 / weights
    chosen = generator.choice(len(among), size, replace=False, p=chance / chance.sum())
    return among[chosen], weights[chosen]


def point_weights(settings: Settings, spec: RunSpec, points: FloatArray) -> FloatArray:
    r"""Return factors of the residual at points, which tame conditions that are not smooth.

    .. math:: w = 1 / (1 + |r_g| / \overline{|r_g|})

    with the residual :math:`r_g` of the lift alone, the ansatz with a network of zero. Where the
    initial field has a step, it is infinite at the beginning, no smooth network can cancel it,
    and least squares would spend all its effort there. A positive factor does not change which
    fields satisfy the equation.
    """
    problem = settings.problem
    if settings.conditions == "soft" or problem.ansatz is None:
        return np.ones(len(points))
    lift = problem.ansatz.lift(points)
    values = {name: lift[name] for name in problem.derivatives}
    size = np.abs(problem.residual(**values, **problem.coefficients(points), **spec.start))
    mean = float(size.mean())
    weights: FloatArray = 1 / (1 + size / mean) if mean > 0 else np.ones(len(points))
    return weights


def boundary_sites(settings: Settings, spec: RunSpec) -> FloatArray:
    """Draw sites on the edges of a rectangle, every edge as often as the others, (N, 2)."""
    generator = spec.generator(BOUNDARY)
    unit = generator.random((settings.boundary_points, 2))
    edge = np.arange(settings.boundary_points) % 4
    unit[np.arange(len(unit)), edge // 2] = edge % 2
    return uniform_sites(settings, unit)


def physical_values(settings: Settings, coordinates: jax.Array) -> dict[str, jax.Array]:
    """Return the physical parameters by name."""
    return {
        name: jnp.exp(q) if p.coordinate == "log" else q
        for (name, p), q in zip(settings.problem.parameters.items(), coordinates, strict=True)
    }


def residual_values(
    settings: Settings, data: Tree, layers: Tree, coordinates: jax.Array, field: Field = PLAIN
) -> jax.Array:
    """Return the residual of the equation at the residual sites."""
    problem = settings.problem
    found = field.derivatives(layers, data["residual"], settings.axes, problem.derivatives, jnp)
    physical = physical_values(settings, coordinates)
    residual: jax.Array = problem.residual(**found, **data["coefficients"], **physical)
    return residual


def data_loss(settings: Settings, data: Tree, layers: Tree, field: Field = PLAIN) -> jax.Array:
    """Mean squared misfit to the observations, and to boundary values where they are a term."""
    loss = jnp.mean((field.value(layers, data["observed"], jnp) - data["values"]) ** 2)
    if settings.has_boundary_term:
        misfit = field.value(layers, data["boundary"], jnp) - data["boundary_values"]
        loss = loss + settings.boundary_weight * jnp.mean(misfit**2)
    return loss


def in_precision(settings: Settings, tree: Tree) -> Tree:
    """Return a tree with its floating-point arrays in the precision of the training."""

    def converted(leaf: Any) -> Any:
        array = np.asarray(leaf)
        return array.astype(settings.precision) if array.dtype.kind == "f" else array

    return jax.tree.map(converted, tree)


def uniform_sites(settings: Settings, unit: FloatArray) -> FloatArray:
    """Return points of the unit cube as points of the domain."""
    low, high = np.array(list(settings.problem.domain.values())).T
    sites: FloatArray = low + (high - low) * unit
    return sites

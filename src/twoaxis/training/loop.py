"""One training step, and the loop around it: the same for every method, problem and network.

The program of a batch is a pure function of arrays,

    ``advance(state, data, start, steps) -> state``

for one run, which a backend batches, spreads or exports as it likes. The state is a tree of
arrays that holds all that changes: cut a training anywhere, store the state, go on, and the
numbers are the same. `run_data` holds what stays the same: sites, observations, conditions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from twoaxis.parameters import Parameter
from twoaxis.problems import SteadyProblem
from twoaxis.training.network import field_arrays, field_derivatives, field_value
from twoaxis.training.residual_loss import form_of, loss_and_slope
from twoaxis.training.rules import Moment
from twoaxis.training.settings import RunSpec, Settings

FloatArray = NDArray[np.float64]
Arrays = dict[str, Any]  # a tree of NumPy arrays

NETWORK, SITES, BOUNDARY = 0, 1, 2


def residual_sites(settings: Settings, spec: RunSpec) -> FloatArray:
    """Draw the residual sites of a run, uniform in the domain, shape (N, k)."""
    return _uniform(
        settings, spec.generator(SITES).random((settings.residual_points, _axes(settings)))
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
    return data


def boundary_sites(settings: Settings, spec: RunSpec) -> FloatArray:
    """Draw sites on the edges of a rectangle, every edge as often as the others, (N, 2)."""
    generator = spec.generator(BOUNDARY)
    unit = generator.random((settings.boundary_points, 2))
    edge = np.arange(settings.boundary_points) % 4
    unit[np.arange(len(unit)), edge // 2] = edge % 2
    return _uniform(settings, unit)


def initial_network(settings: Settings, spec: RunSpec) -> list[tuple[Any, Any]]:
    """Draw the network of a run."""
    return settings.network.initial(_axes(settings), spec.generator(NETWORK))


def starting_coordinates(parameters: dict[str, Parameter], spec: RunSpec) -> FloatArray:
    """Return the starting coordinates, shape (d,)."""
    return np.array([float(p.to_coordinate(spec.start[n])) for n, p in parameters.items()])


def _axes(settings: Settings) -> int:
    return len(settings.axes)


def _uniform(settings: Settings, unit: FloatArray) -> FloatArray:
    low, high = np.array(list(settings.problem.domain.values())).T
    sites: FloatArray = low + (high - low) * unit
    return sites


Tree = Any
NOT_DIVERGED = -1


def initial_state(settings: Settings, spec: RunSpec, data: Tree) -> Tree:
    """Return the state of one run before its first step, in the settings' precision."""
    layers = initial_network(settings, spec)
    coordinates = starting_coordinates(dict(settings.problem.parameters), spec)
    factor = data["form"].get("factor", np.empty((0, 0)))
    weights = settings.method.recipe().weights.initial(settings.residual_points, len(factor))
    layers, coordinates, weights = in_precision(settings, (layers, coordinates, weights))
    optimizer = optax.adam(settings.learning_rate)
    zero = np.zeros((), settings.precision)
    state = {
        "layers": layers,
        "coordinates": coordinates,
        "weights": weights,
        "layers_adam": optimizer.init(layers),
        "coordinates_adam": optimizer.init(coordinates),
        "loss_data": zero,
        "loss_residual": zero,
        "diverged": np.asarray(NOT_DIVERGED, np.int32),
    }
    return jax.tree.map(np.asarray, state)


def in_precision(settings: Settings, tree: Tree) -> Tree:
    """Return a tree with its floating-point arrays in the precision of the training."""

    def converted(leaf: Any) -> Any:
        array = np.asarray(leaf)
        return array.astype(settings.precision) if array.dtype.kind == "f" else array

    return jax.tree.map(converted, tree)


def build_advance(settings: Settings) -> Callable[[Tree, Tree, Any, Any], Tree]:
    """Return ``advance(state, data, start, steps)`` for one run.

    ``start`` counts the steps done before, ``steps`` those to do; both may be traced, so that
    one compilation serves every cut of the work.
    """
    step = partial(_step, settings)

    def advance(state: Tree, data: Tree, start: Any, steps: Any) -> Tree:
        # Reduced-precision products bias the parameter: see the documentation of the engine.
        with jax.default_matmul_precision("highest"):
            return jax.lax.fori_loop(
                start, start + steps, lambda number, current: step(current, data, number), state
            )

    return advance


def _step(settings: Settings, state: Tree, data: Tree, number: jax.Array) -> Tree:
    """Evaluate the loss, renew the weights, move the network and the parameters once."""
    recipe = settings.method.recipe()
    layers, coordinates = state["layers"], state["coordinates"]

    residual, pull_back = jax.vjp(partial(residual_values, settings, data), layers, coordinates)
    moment = Moment(
        residual=residual,
        sensitivity=lambda: jax.jacfwd(partial(residual_values, settings, data, layers))(
            coordinates
        ),
        modes=data["form"].get("factor"),
        step=number,
        steps=settings.steps,
        warmup=settings.warmup_steps,
    )
    weights = recipe.weights.update(state["weights"], moment)
    loss_residual, slope = loss_and_slope(data["form"], weights, residual)
    by_layers, by_coordinates = pull_back(settings.physics_weight * slope)
    loss_data, of_data = jax.value_and_grad(partial(data_loss, settings, data))(layers)

    optimizer = optax.adam(settings.learning_rate)
    gradient = recipe.gradient.combine(of_data, by_layers)
    change, layers_adam = optimizer.update(gradient, state["layers_adam"])
    moved = {
        "layers": optax.apply_updates(layers, change),
        "layers_adam": layers_adam,
        "weights": weights,
        "loss_data": loss_data,
        "loss_residual": loss_residual,
        "diverged": state["diverged"],
    }
    moved |= _moved_coordinates(settings, optimizer, state, by_coordinates * data["free"], number)
    # A positive parameter may neither overflow nor vanish: its inverse must be finite too.
    coordinates = moved["coordinates"]
    physical = [_physical(settings, q) for q in (coordinates, -coordinates)]
    return _kept_finite(state, moved, physical, number)


def _physical(settings: Settings, coordinates: jax.Array) -> dict[str, jax.Array]:
    """Return the physical parameters by name."""
    return {
        name: jnp.exp(q) if p.coordinate == "log" else q
        for (name, p), q in zip(settings.problem.parameters.items(), coordinates, strict=True)
    }


def residual_values(
    settings: Settings, data: Tree, layers: Tree, coordinates: jax.Array
) -> jax.Array:
    """Return the residual of the equation at the residual sites."""
    problem = settings.problem
    found = field_derivatives(layers, data["residual"], settings.axes, problem.derivatives, jnp)
    physical = _physical(settings, coordinates)
    residual: jax.Array = problem.residual(**found, **data["coefficients"], **physical)
    return residual


def data_loss(settings: Settings, data: Tree, layers: Tree) -> jax.Array:
    """Mean squared misfit to the observations, and to boundary values where they are a term."""
    loss = jnp.mean((field_value(layers, data["observed"], jnp) - data["values"]) ** 2)
    if settings.has_boundary_term:
        misfit = field_value(layers, data["boundary"], jnp) - data["boundary_values"]
        loss = loss + settings.boundary_weight * jnp.mean(misfit**2)
    return loss


def _moved_coordinates(
    settings: Settings,
    optimizer: optax.GradientTransformation,
    state: Tree,
    gradient: jax.Array,
    number: jax.Array,
) -> dict[str, Tree]:
    """Move the parameters by an Adam of their own, which sleeps through the warm-up."""
    change, adam = optimizer.update(gradient, state["coordinates_adam"])
    moved = {
        "coordinates": optax.apply_updates(state["coordinates"], change),
        "coordinates_adam": adam,
    }
    resting = {name: state[name] for name in moved}
    awake = number >= settings.warmup_steps
    chosen: dict[str, Tree] = jax.tree.map(
        lambda new, old: jnp.where(awake, new, old), moved, resting
    )
    return chosen


def _kept_finite(before: Tree, after: Tree, physical: Tree, number: jax.Array) -> Tree:
    """Return the new state, or for a run that is no longer finite the last one that was.

    The run keeps the number of the step that failed and rests from then on; nothing of it can
    reach another run of the batch.
    """
    moved = (after["layers"], physical, after["loss_data"], after["loss_residual"])
    finite = jnp.isfinite(sum(jnp.sum(leaf) for leaf in jax.tree.leaves(moved)))
    going = finite & (before["diverged"] == NOT_DIVERGED)
    kept = jax.tree.map(lambda new, old: jnp.where(going, new, old), after, before)
    first = (before["diverged"] == NOT_DIVERGED) & ~finite
    kept["diverged"] = jnp.where(first, number, before["diverged"]).astype(jnp.int32)
    return kept

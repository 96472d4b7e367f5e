"""The loop around the steps of a training: the same for every method, problem and network.

The program of a batch is a pure function of arrays,

    ``advance(state, data, start, steps) -> state``

around the step of one run, which a backend batches, spreads or exports as it likes. The state is
a tree of arrays that holds all that changes: cut a training anywhere, store the state, go on, and
the numbers are the same. `run_data` holds what stays the same: sites, observations, conditions.

The step itself belongs to the optimizer: `adam` for first-order methods, `gauss_newton`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from twoaxis.parameters import Parameter
from twoaxis.training.adam import adam_state, adam_step
from twoaxis.training.gauss_newton import gauss_newton_state, gauss_newton_step
from twoaxis.training.network import PLAIN, Field
from twoaxis.training.run_data import NETWORK, in_precision, physical_values
from twoaxis.training.settings import RunSpec, Settings

FloatArray = NDArray[np.float64]
Tree = Any
NOT_DIVERGED = -1


def initial_network(settings: Settings, spec: RunSpec) -> list[tuple[Any, Any]]:
    """Draw the network of a run."""
    return settings.network.initial(settings.inputs, spec.generator(NETWORK))


def starting_coordinates(parameters: dict[str, Parameter], spec: RunSpec) -> FloatArray:
    """Return the starting coordinates, shape (d,)."""
    return np.array([float(p.to_coordinate(spec.start[n])) for n, p in parameters.items()])


def initial_state(settings: Settings, spec: RunSpec, data: Tree) -> Tree:
    """Return the state of one run before its first step, in the settings' precision."""
    layers = initial_network(settings, spec)
    coordinates = starting_coordinates(dict(settings.problem.parameters), spec)
    recipe = settings.method.recipe()
    factor = data["form"].get("factor", np.empty((0, 0)))
    weights = recipe.weights.initial(settings.residual_points, len(factor))
    layers, coordinates, weights = in_precision(settings, (layers, coordinates, weights))
    zero = np.zeros((), settings.precision)
    state = {
        "layers": layers,
        "coordinates": coordinates,
        "weights": weights,
        "loss_data": zero,
        "loss_residual": zero,
        "diverged": np.asarray(NOT_DIVERGED, np.int32),
    }
    own = adam_state if recipe.continuation is None else gauss_newton_state
    return jax.tree.map(np.asarray, state | own(settings, layers, coordinates))


def build_step(settings: Settings, field: Field = PLAIN) -> Callable[[Any, Tree, Tree], Tree]:
    """Return ``step(number, state, data)`` for one run, which leaves a run that rests as it is."""
    first_order = settings.method.recipe().continuation is None
    move = partial(adam_step, field=field) if first_order else gauss_newton_step

    def step(number: jax.Array, state: Tree, data: Tree) -> Tree:
        moved = {**state, **move(settings, state, data, number)}
        # A positive parameter may neither overflow nor vanish: its inverse must be finite too.
        coordinates = moved["coordinates"]
        physical = [physical_values(settings, q) for q in (coordinates, -coordinates)]
        return _kept_finite(state, moved, physical, number)

    return step


def build_advance(step: Callable[[Any, Tree, Tree], Tree]) -> Callable[..., Tree]:
    """Return ``advance(state, data, start, steps)`` for a step of one run or of many.

    ``start`` counts the steps done before, ``steps`` those to do; both may be traced, so that
    one compilation serves every cut of the work. Where runs can settle, it ends with the last.
    """

    def advance(state: Tree, data: Tree, start: Any, steps: Any) -> Tree:
        def goes_on(now: tuple[Any, Tree]) -> Any:
            more = now[0] < start + steps
            return more & ~jnp.all(_rests(now[1])) if "settled" in state else more

        def once(now: tuple[Any, Tree]) -> tuple[Any, Tree]:
            return now[0] + 1, step(*now, data)

        # Reduced-precision products bias the parameter: see the documentation of the engine.
        with jax.default_matmul_precision("highest"):
            return jax.lax.while_loop(goes_on, once, (jnp.asarray(start), state))[1]

    return advance


def _kept_finite(before: Tree, after: Tree, physical: Tree, number: jax.Array) -> Tree:
    """Return the new state, or for a run that is no longer finite the last one that was.

    The run keeps the number of the step that failed and rests from then on; nothing of it can
    reach another run of the batch. A run that has settled rests, too.
    """
    moved = (after["layers"], physical, after["loss_data"], after["loss_residual"])
    finite = jnp.isfinite(sum(jnp.sum(leaf) for leaf in jax.tree.leaves(moved)))
    going = finite & ~_rests(before)
    kept = jax.tree.map(lambda new, old: jnp.where(going, new, old), after, before)
    first = ~finite & ~_rests(before)
    kept["diverged"] = jnp.where(first, number, before["diverged"]).astype(jnp.int32)
    return kept


def _rests(state: Tree) -> Any:
    """Whether a run has diverged or settled."""
    return (state["diverged"] != NOT_DIVERGED) | state.get("settled", False)

"""The step of a first-order method: Adam on the network, and another Adam on the parameters."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from twoaxis.training.network import PLAIN, Field
from twoaxis.training.residual_loss import loss_and_slope
from twoaxis.training.rules import Moment
from twoaxis.training.run_data import data_loss, residual_values
from twoaxis.training.settings import Settings

Tree = Any


def adam_state(settings: Settings, layers: Tree, coordinates: Any) -> dict[str, Tree]:
    """Return what Adam keeps of a run, before its first step."""
    optimizer = optax.adam(settings.learning_rate)
    return {
        "layers_adam": optimizer.init(layers),
        "coordinates_adam": optimizer.init(coordinates),
    }


def adam_step(
    settings: Settings, state: Tree, data: Tree, number: jax.Array, field: Field = PLAIN
) -> Tree:
    """Evaluate the loss, renew the weights, move the network and the parameters once."""
    recipe = settings.method.recipe()
    layers, coordinates = state["layers"], state["coordinates"]

    def residual_at(layers: Tree, coordinates: jax.Array) -> jax.Array:
        return residual_values(settings, data, layers, coordinates, field)

    residual, pull_back = jax.vjp(residual_at, layers, coordinates)
    moment = Moment(
        residual=residual,
        sensitivity=lambda: jax.jacfwd(partial(residual_at, layers))(coordinates),
        modes=data["form"].get("factor"),
        step=number,
        steps=settings.steps,
        warmup=settings.warmup_steps,
    )
    weights = recipe.weights.update(state["weights"], moment)
    loss_residual, slope = loss_and_slope(data["form"], weights, residual)
    by_layers, by_coordinates = pull_back(settings.physics_weight * slope)
    loss_data, of_data = jax.value_and_grad(
        lambda layers: data_loss(settings, data, layers, field)
    )(layers)

    optimizer = optax.adam(settings.learning_rate)
    gradient = recipe.gradient.combine(of_data, by_layers)
    change, layers_adam = optimizer.update(gradient, state["layers_adam"])
    moved = {
        "layers": optax.apply_updates(layers, change),
        "layers_adam": layers_adam,
        "weights": weights,
        "loss_data": loss_data,
        "loss_residual": loss_residual,
    }
    moved |= _moved_coordinates(settings, optimizer, state, by_coordinates * data["free"], number)
    return moved


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

r"""Gradient rules: how the pull of the data and that of the residual share the network.

A rule takes the two gradients by the network's weights, as lists of arrays of equal shapes,
and returns the one that the optimiser sees. The physical parameters take the plain gradient of
the residual term under every rule: the data do not depend on them but through the field.

With :math:`g_d \cdot g_r < 0` the two are in *conflict*, and a projection removes from one the
part that undoes the other, :math:`g_d - (g_d \cdot g_r)\, g_r / |g_r|^2`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, final

import jax
import jax.numpy as jnp

from twoaxis.errors import InputError
from twoaxis.views.checks import is_real

Gradient = Any  # a pytree of arrays


class GradientRule(Protocol):
    """What a method needs of a gradient rule."""

    def combine(self, data: Gradient, residual: Gradient) -> Gradient:
        """Return the gradient that the optimiser sees."""
        ...


@final
@dataclass(frozen=True)
class Add:
    """The plain gradient of the joint loss."""

    def combine(self, data: Gradient, residual: Gradient) -> Gradient:
        """Return ``g_d + g_r``."""
        return jax.tree.map(jnp.add, data, residual)


@final
@dataclass(frozen=True)
class ProjectBoth:
    """Where the two are in conflict, each loses the part that undoes the other (PCGrad)."""

    def combine(self, data: Gradient, residual: Gradient) -> Gradient:
        """Return the sum of both projections; each uses the other as it came."""
        return Add().combine(without_conflict(data, residual), without_conflict(residual, data))


@final
@dataclass(frozen=True)
class ProjectResidual:
    """Where the two are in conflict, the residual yields; what remains of it is scaled.

    Parameters
    ----------
    scale : float
        Factor of the residual's gradient by the network's weights.
    """

    scale: float = 0.5

    def __post_init__(self) -> None:
        if not (is_real(self.scale) and 0 <= self.scale < float("inf")):
            raise InputError(
                "a scale of at least 0", f"scale={self.scale!r}", "the study has scale=0.5"
            )

    def combine(self, data: Gradient, residual: Gradient) -> Gradient:
        """Return ``g_d + scale * (g_r, projected where it conflicts with g_d)``."""
        kept = without_conflict(residual, data)
        return jax.tree.map(lambda d, r: d + self.scale * r, data, kept)


def without_conflict(gradient: Gradient, other: Gradient) -> Gradient:
    """Return `gradient`, projected on the plane normal to `other` where they conflict."""
    product = _dot(gradient, other)
    # Without the guard, a gradient of exactly zero would give 0 / 0.
    squared = _dot(other, other)
    share = jnp.where(product < 0, product / jnp.where(squared > 0, squared, 1), 0)
    return jax.tree.map(lambda g, o: g - share * o, gradient, other)


def _dot(left: Gradient, right: Gradient) -> jax.Array:
    products = jax.tree.map(lambda a, b: jnp.sum(a * b), left, right)
    return jnp.asarray(sum(jax.tree.leaves(products)))

r"""The step of the Gauss–Newton method: Levenberg–Marquardt on data and equation together.

A step solves one linear system for all weights of the field while the parameters are held; these
move at the end of a stage. See `twoaxis.gauss_newton` for the stacked residual and the growing
weight :math:`\lambda`. The
collocation points are drawn anew every few steps from a pool that stays fixed, in proportion to
:math:`1 + |r| / \overline{|r|}`, so that a shock gets its share of them and the program stays a
pure function of arrays.

In the units of the engine, :math:`L = \frac1n \sum_i (u(x_i) - y_i)^2 + w\, \frac1N \sum_k
(a\, r_k)^2` with the physics weight :math:`w`, the weight of a run's points is
:math:`a^2 = \lambda \sigma^2 / (n w)`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from twoaxis.gauss_newton import (
    FIRST_DAMPING,
    INERTIA,
    LEAST_DAMPING,
    LESS,
    LONGEST,
    MORE,
    MOST_DAMPING,
    RIDGE,
    TRIES,
    Continuation,
    damped_step,
)
from twoaxis.training.network import field_value
from twoaxis.training.residual_loss import loss_and_slope
from twoaxis.training.run_data import data_loss, residual_values
from twoaxis.training.settings import Settings

Tree = Any

# The covariance is computed with so many times the collocation points of a step.
CHUNKS = 4


def gauss_newton_state(settings: Settings, layers: Tree, coordinates: Any) -> dict[str, Tree]:
    """Return what the method keeps of a run, before its first step."""
    count = settings.residual_points
    weights = sum(leaf.size for leaf in jax.tree.leaves(layers))
    return {
        "weights": {"points": np.ones(count)},
        "damping": np.asarray(FIRST_DAMPING),
        "momentum": np.zeros(weights + len(coordinates)),
        "sites": np.arange(count, dtype=np.int32),
        "settled": np.asarray(False),
    }


def gauss_newton_step(settings: Settings, state: Tree, data: Tree, number: jax.Array) -> Tree:
    """Move the network and the parameters once, or leave them where the loss would not fall."""
    plan = continuation_of(settings)
    weight = plan.weight(number, jnp)
    system = StackedResidual(settings, data)
    vector, unravel = ravel_pytree((state["layers"], state["coordinates"]))
    sites = jax.lax.cond(
        number % plan.resample == 0,
        lambda: system.drawn(unravel(vector), number),
        lambda: state["sites"],
    )
    before, jacobian = system.linearized(vector, unravel, sites, weight)

    def misses(trial: Tree) -> Any:
        return ~trial["falls"] & (trial["tries"] < TRIES)

    def retry(trial: Tree) -> Tree:
        moved = vector + damped_step(jacobian, before, trial["damping"], trial["inertia"], solve)
        after = system.values(unravel(moved), sites=sites, weight=weight)
        falls = (after @ after < before @ before) & jnp.isfinite(after).all()
        return {
            "moved": jnp.where(falls, moved, vector),
            "falls": falls,
            "damping": trial["damping"] * jnp.where(falls, LESS, MORE),
            "inertia": jnp.zeros_like(vector),
            "tries": trial["tries"] + 1,
        }

    trial = jax.lax.while_loop(
        misses,
        retry,
        {
            "moved": vector,
            "falls": state["settled"],
            "damping": state["damping"],
            "inertia": INERTIA * state["momentum"],
            "tries": 0,
        },
    )
    end = jax.lax.cond(
        plan.ends_stage(number),
        lambda: _moved_parameters(plan, system, state, trial["moved"], unravel, weight),
        lambda: {"vector": trial["moved"], "settled": state["settled"]},
    )
    layers, coordinates = unravel(end.pop("vector"))
    points = system.point_weight(weight) * data["residual"]["weight"]
    # Losses are those of the field before the step, as for every method.
    residual = residual_values(settings, data, state["layers"], state["coordinates"])
    weights = {"points": jnp.where(state["settled"], state["weights"]["points"], points)}
    return {
        "layers": layers,
        "coordinates": coordinates,
        "weights": weights,
        "damping": jnp.clip(trial["damping"], LEAST_DAMPING, MOST_DAMPING),
        "momentum": trial["moved"] - vector,
        "sites": sites,
        "loss_data": data_loss(settings, data, state["layers"]),
        "loss_residual": loss_and_slope(data["form"], weights, residual)[0],
        **end,
    }


def _moved_parameters(
    plan: Continuation,
    system: StackedResidual,
    state: Tree,
    vector: Any,
    unravel: Any,
    weight: Any,
) -> Tree:
    r"""Move the parameters to the minimum of the linearized problem.

    They move by :math:`-C` times their gradient after the field has been eliminated, with the
    covariance C of the parameters. The field follows in the steps of the next stage: with the
    parameters held, the equation pulls it along with its whole weight. Moved together with the
    field, they would creep along a narrow valley.
    """
    count = len(state["coordinates"])
    columns, step = system.inverse_columns(vector, unravel, weight)
    errors = jnp.sqrt(jnp.diag(columns[-count:]))
    free = system.data["free"]
    step = jnp.where(state["settled"], 0.0, jnp.clip(step, -LONGEST, LONGEST) * free)
    lowest, highest = system.data["lowest"], system.data["highest"]
    coordinates = jnp.clip(vector[-count:] + step, lowest, highest)
    on_bound = (coordinates <= lowest) | (coordinates >= highest)
    small = (jnp.abs(step) <= plan.settled * errors) | (free == 0)
    quiet = jnp.all(small) & (weight >= plan.plateau)
    return {
        "vector": vector.at[-count:].set(coordinates),
        "settled": state["settled"] | (quiet & ~jnp.any(on_bound)),
    }


def continuation_of(settings: Settings) -> Continuation:
    """Return the continuation of a method that has one."""
    plan = settings.method.recipe().continuation
    assert plan is not None  # the loop asked for it
    return plan


class StackedResidual:
    """The stacked residual of one run, its Jacobian by points, and its information matrix.

    Parameters
    ----------
    settings : Settings
    data : tree
        Of the run, with its pool of collocation points.
    """

    def __init__(self, settings: Settings, data: Tree) -> None:
        self.settings, self.data = settings, data

    def point_weight(self, weight: Any) -> Any:
        """Return the factor of a residual value in the loss of the engine."""
        data = self.data
        return jnp.sqrt(
            weight * data["noise"] ** 2 / (data["values"].size * self.settings.physics_weight)
        )

    def drawn(self, state: Tree, number: Any) -> Any:
        """Draw collocation points from the pool, the more often the larger the residual."""
        layers, coordinates = state
        residual = jnp.abs(self._residual(layers, coordinates, self.data["pool"]))
        chance = jnp.log(1 + residual / jnp.maximum(residual.mean(), 1e-300))
        key = jax.random.fold_in(self.data["key"], number)
        # The largest of so many perturbed logarithms are a draw without replacement.
        noisy = chance + jax.random.gumbel(key, chance.shape)
        return jax.lax.top_k(noisy, self.settings.residual_points)[1].astype(jnp.int32)

    def values(self, state: Tree, *, sites: Any, weight: Any) -> Any:
        """Return the stacked residual, shape (n + N,)."""
        layers, coordinates = state
        residual = self._residual(layers, coordinates, _at(self.data["pool"], sites))
        data, *boundary = self._misfits(layers, weight)
        return jnp.concatenate([data, jnp.sqrt(weight / len(sites)) * residual, *boundary])

    def _misfits(self, layers: Tree, weight: Any) -> list[Any]:
        """Return the misfit to the data, and to boundary values where they are a term."""
        data = self.data
        parts = [(field_value(layers, data["observed"], jnp) - data["values"]) / data["noise"]]
        if self.settings.has_boundary_term:
            misfit = field_value(layers, data["boundary"], jnp) - data["boundary_values"]
            parts.append(self._boundary_factor(weight) * misfit)
        return parts

    def linearized(self, vector: Any, unravel: Any, sites: Any, weight: Any) -> tuple[Any, Any]:
        """Return the stacked residual and its Jacobian, with zero columns for the parameters."""
        before = self.values(unravel(vector), sites=sites, weight=weight)
        jacobian = jnp.concatenate(
            [
                self._data_jacobian(vector, unravel),
                jnp.sqrt(weight / len(sites))
                * self._residual_jacobian(vector, unravel, _at(self.data["pool"], sites)),
                *self._boundary_jacobian(vector, unravel, weight),
            ]
        )
        return before, jacobian.at[:, -len(self.data["free"]) :].set(0.0)

    def inverse_columns(self, vector: Any, unravel: Any, weight: Any) -> tuple[Any, Any]:
        r"""Return the columns of :math:`A^{-1}` of the parameters, and their Newton step.

        :math:`A = J^\top J` over several times as many points as a step has: with fewer points
        than weights the field could bend between them. Shapes (n, d) and (d,).
        """
        pool, chunk = self.data["pool"], self.settings.residual_points
        count = min(CHUNKS, pool["inputs"].shape[-1] // chunk)
        layers, coordinates = unravel(vector)
        boundary = self._boundary_jacobian(vector, unravel, weight)
        rows_known = jnp.concatenate([self._data_jacobian(vector, unravel), *boundary])
        values_known = jnp.concatenate(self._misfits(layers, weight))

        def add(number: Any, total: Any) -> Any:
            matrix, gradient = total
            part = _at(pool, number * chunk + jnp.arange(chunk))
            rows = self._residual_jacobian(vector, unravel, part)
            residual = self._residual(layers, coordinates, part)
            share = weight / (count * chunk)
            return matrix + share * rows.T @ rows, gradient + share * rows.T @ residual

        matrix, gradient = jax.lax.fori_loop(
            0, count, add, (rows_known.T @ rows_known, rows_known.T @ values_known)
        )
        free = self.data["free"]
        # A fixed parameter has no column; a unit diagonal keeps the matrix regular.
        moving = jnp.concatenate([jnp.ones(len(vector) - len(free)), free])
        matrix = matrix * moving[:, None] * moving + jnp.diag(1 - moving)
        unit = jnp.eye(len(vector))[:, -len(free) :] * free
        columns = solve(matrix, RIDGE * jnp.trace(matrix) / len(matrix), unit)
        return columns, -columns.T @ gradient

    def _residual(self, layers: Tree, coordinates: Any, pool: Tree) -> Any:
        given = {"residual": pool, "coefficients": pool["coefficients"]}
        return pool["weight"] * residual_values(self.settings, given, layers, coordinates)

    def _residual_jacobian(self, vector: Any, unravel: Any, pool: Tree) -> Any:
        def at_one(point: Tree) -> Any:
            alone = jax.tree.map(lambda leaf: leaf[..., None], point)

            def value(moved: Any) -> Any:
                layers, coordinates = unravel(moved)
                return self._residual(layers, coordinates, alone)[0]

            return jax.grad(value)(vector)

        return jax.vmap(at_one, in_axes=-1)(pool)

    def _data_jacobian(self, vector: Any, unravel: Any) -> Any:
        return field_jacobian(vector, unravel, self.data["observed"]) / self.data["noise"]

    def _boundary_factor(self, weight: Any) -> Any:
        count = self.data["boundary_values"].size
        return jnp.sqrt(self.settings.boundary_weight * weight / count)

    def _boundary_jacobian(self, vector: Any, unravel: Any, weight: Any) -> list[Any]:
        if not self.settings.has_boundary_term:
            return []
        factor = self._boundary_factor(weight)
        return [factor * field_jacobian(vector, unravel, self.data["boundary"])]


def field_jacobian(vector: Any, unravel: Any, arrays: Tree) -> Any:
    """Return the derivatives of the field at points by all weights and coordinates."""

    def at_one(point: Tree) -> Any:
        alone = jax.tree.map(lambda leaf: leaf[..., None], point)
        return jax.grad(lambda v: field_value(unravel(v)[0], alone, jnp)[0])(vector)

    return jax.vmap(at_one, in_axes=-1)(arrays)


def _at(pool: Tree, sites: Any) -> Tree:
    """Return the arrays of some points of a pool; the points are on the last axis."""
    return jax.tree.map(lambda leaf: leaf[..., sites], pool)


def _solve_one(matrix: Any, damping: Any, right: Any) -> Any:
    damped = matrix + damping * jnp.eye(len(matrix), dtype=matrix.dtype)
    factor = jax.scipy.linalg.cho_factor(damped, lower=True)
    return jax.scipy.linalg.cho_solve(factor, right)


# Solve with ``matrix + damping * identity``, one run after the other: a factorization of this size
# fills a device by itself, and a batched one is made for small matrices.
solve: Any = jax.custom_batching.sequential_vmap(_solve_one)  # type: ignore[no-untyped-call]

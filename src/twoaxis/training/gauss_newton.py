r"""The step of the Gauss–Newton method: Levenberg–Marquardt on data and equation together.

A step solves one linear system for all weights of the field while the parameters are held; these
move at the end of a stage. See `twoaxis.gauss_newton` for the stacked residual and the growing
weight :math:`\lambda`. The collocation points are drawn anew every few steps from a pool that stays
fixed, in proportion to :math:`1 + |r| / \overline{|r|}`, so that a shock gets its share of them and
the program stays a pure function of arrays.

In the units of the engine, :math:`L = \frac1n \sum_i (u(x_i) - y_i)^2 + w\, \frac1N \sum_k
(a\, r_k)^2` with the physics weight :math:`w`, the weight of a run's points is
:math:`a^2 = \lambda \sigma^2 / (n w)`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
    coordinate_steps,
    damped_step,
)
from twoaxis.training.network import field_value
from twoaxis.training.residual_loss import loss_and_slope
from twoaxis.training.run_data import data_loss, residual_values
from twoaxis.training.settings import Settings

Tree = Any

# The linearized problem is taken at so many times the collocation points of a step: at the end of
# a stage, and for the standard errors of the last field.
CHUNKS, LAST_CHUNKS = 4, 16
# Least information in any direction of the parameters, relative to all of it: keeps the matrix
# regular where the data say nothing about a combination of them.
LEAST_INFORMATION = 1e-12


class Reduced(NamedTuple):
    """The linearized problem of d parameters whose field, of n weights, obeys the equation.

    Attributes
    ----------
    tangent : array, shape (n, d)
        How the weights follow the parameters.
    covariance : array, shape (d, d)
        Of the coordinates; zeros for fixed ones.
    step : array, shape (d,)
        To the best coordinates of the linearized problem.
    """

    tangent: Any
    covariance: Any
    step: Any


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
            "falls": state["settled"],  # a run that rests beside others needs no trial
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
    weights = {"points": points}
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
    r"""Move the parameters to the minimum of the linearized problem, see `StackedResidual.reduced`.

    The field follows in the steps of the next stage: with the parameters held, the equation pulls
    it along with its whole weight. Moved together with the field, they would creep along a narrow
    valley.
    """
    count = len(state["coordinates"])
    reduced = system.reduced(vector, unravel, weight)
    errors = jnp.sqrt(jnp.diag(reduced.covariance))
    free = system.data["free"]
    most = LONGEST * system.steps
    step = jnp.clip(reduced.step, -most, most) * free
    lowest, highest = system.data["lowest"], system.data["highest"]
    coordinates = jnp.clip(vector[-count:] + step, lowest, highest)
    on_bound = (coordinates <= lowest) | (coordinates >= highest)
    small = (jnp.abs(step) <= plan.settled * errors) | (free == 0)
    quiet = jnp.all(small) & (weight >= plan.plateau)
    return {
        "vector": vector.at[-count:].set(coordinates),
        "settled": quiet & ~jnp.any(on_bound),
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
        self.steps = coordinate_steps(settings.problem.parameters)

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

    def reduced(self, vector: Any, unravel: Any, weight: Any, chunks: int = CHUNKS) -> Reduced:
        r"""Return the linearized problem of the parameters alone, the field obeying the equation.

        With the Jacobians :math:`J_\theta, J_q` of the residual r, and :math:`K` of the field at
        the data, the field follows the parameters along the tangent T and is corrected by c,

        .. math:: T = -J_\theta^+ J_q, \qquad c = -J_\theta^+ r, \qquad
                  S = K T, \qquad \delta q = -(S^\top S)^{-1} S^\top (m + K c)

        with the misfit m in noise levels: the step of Gauss and Newton for a field that satisfies
        the equation, whatever the weight of the equation is. The inverse of the whole system
        would have the same limit, but multiplies by that weight what the ridge leaves of
        :math:`J_q + J_\theta T`.

        The equation is taken at several times as many points as a step has: with fewer points
        than weights the field could bend between them. Where initial or boundary values are left
        to the observations, the equation alone does not determine the field, and the data join
        it, with the given weight.
        """
        pool, chunk = self.data["pool"], self.settings.residual_points
        count = min(chunks, pool["inputs"].shape[-1] // chunk)
        layers, coordinates = unravel(vector)
        at_data = self._data_jacobian(vector, unravel)
        misfit, *edge = self._misfits(layers, weight)
        at_edge = self._boundary_jacobian(vector, unravel, weight)
        if self.settings.conditions_are_open:
            at_edge, edge = [*at_edge, at_data], [*edge, misfit]
        held = jnp.concatenate([jnp.zeros((0, len(vector))), *at_edge])
        off = jnp.concatenate([jnp.zeros(0), *edge])

        def add(number: Any, total: Any) -> Any:
            matrix, gradient = total
            part = _at(pool, number * chunk + jnp.arange(chunk))
            rows = self._residual_jacobian(vector, unravel, part)
            residual = self._residual(layers, coordinates, part)
            share = weight / (count * chunk)
            return matrix + share * rows.T @ rows, gradient + share * rows.T @ residual

        matrix, gradient = jax.lax.fori_loop(0, count, add, (held.T @ held, held.T @ off))
        free = self.data["free"]
        weights = len(vector) - len(free)
        of_field = matrix[:weights, :weights]
        ridge = RIDGE * jnp.trace(of_field) / weights
        right = jnp.column_stack([matrix[:weights, weights:] * free, gradient[:weights]])
        *tangent, correction = -solve(of_field, ridge, right).T
        tangent = jnp.column_stack(tangent)
        slopes = at_data[:, :weights] @ tangent
        by_steps = slopes * self.steps  # whatever the units of the parameters
        # A fixed parameter has no slope; a unit on the diagonal keeps the matrix regular.
        information = by_steps.T @ by_steps + jnp.diag(1 - free)
        information += LEAST_INFORMATION * jnp.trace(information) * jnp.eye(len(free))
        moving = self.steps * free
        covariance = jnp.linalg.inv(information) * moving[:, None] * moving
        step = -covariance @ slopes.T @ (misfit + at_data[:, :weights] @ correction)
        return Reduced(tangent, covariance, step)

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

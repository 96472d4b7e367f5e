r"""Other minima of the parameters: a refinement ends in the one that its start leads to.

Where the equation weighs little, field and parameters have hardly any minima but the global one.
So the refined field is let go until it follows the data, and linearized there. With the Jacobian
:math:`J` of the stacked residual :math:`f` by the weights and by all parameters but :math:`q_j`,

.. math:: c_j(v) = \min_d |f(\theta, q_j = v) + J d|^2

is a profile over the whole range of :math:`q_j` at the price of one linear system per value, since
the tangents of a network span fields of all kinds. A minimum of it that is about as low as the
value where the refinement ended, beyond a barrier, is a start for another refinement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoaxis.gauss_newton import damped_step
from twoaxis.remedies.refine.notes import DEVIANCE
from twoaxis.remedies.refine.stacked_model import StackedModel
from twoaxis.remedies.refine.stages import Field, solve_damped

FloatArray = NDArray[np.float64]

# Steps in which the field is let go, and the weight of the equation in the profile, in those at
# which a continuation begins.
RELAXING_STEPS, PROFILE_WEIGHT = 15, 10.0
# Values of a parameter, and how many systems are solved for all parameters, about.
CANDIDATES, SYSTEMS = 25, 64
# Ridge of a linear system, relative to the mean of its diagonal.
RIDGE = 1e-6
# A minimum of the profile is pursued behind a barrier of this height.
BARRIER = 1.0


@dataclass(frozen=True, eq=False)
class Rival:
    """Where another minimum may lie.

    Attributes
    ----------
    q : array, shape (d,)
        Coordinates of the parameters.
    weights : array
        Of the field that follows the data.
    cost : float
        The profile there, less that where the refinement ended.
    """

    q: FloatArray
    weights: FloatArray
    cost: float


def find_rivals(
    model: StackedModel, weights: FloatArray, q: FloatArray, first: float
) -> list[Rival]:
    """Return where minima of the profiles lie that are about as low as the present one.

    Parameters
    ----------
    model : StackedModel
    weights, q : array
        Field and coordinates where a refinement ended.
    first : float
        The weight of the equation at which a continuation begins.

    Returns
    -------
    list of Rival
        The lowest first.
    """
    field = Field(model, weights)
    for _ in range(RELAXING_STEPS):
        field.move(q, model.points, first)
    found = [
        rival
        for j in range(q.size)
        for rival in _along(model, field.weights, q, j, PROFILE_WEIGHT * first)
    ]
    return sorted(found, key=lambda rival: rival.cost)


def _along(
    model: StackedModel, weights: FloatArray, q: FloatArray, j: int, weight: float
) -> list[Rival]:
    """Return the minima of the profile of one parameter but the one around its value."""
    low, high = (bound[j] for bound in model.known.coordinate_bounds)
    count = int(np.clip(SYSTEMS // q.size, 3, CANDIDATES))
    values = np.sort(np.append(np.linspace(low, high, count), q[j]))
    here = int(np.searchsorted(values, q[j]))
    starts, costs = zip(*(_profiled(model, weights, q, j, v, weight) for v in values), strict=True)
    cost = np.array(costs)
    padded = np.concatenate([[np.inf], cost, [np.inf]])
    lowest = np.flatnonzero((cost <= padded[:-2]) & (cost <= padded[2:]))
    found = []
    for k in lowest:
        first, last = sorted((int(k), here))
        between = cost[first : last + 1]
        barrier = between.max() - max(cost[k], cost[here])
        # Downhill all the way: the refinement stopped on the slope of another minimum.
        slope = cost[k] < cost[here] - DEVIANCE
        if slope or (cost[k] < cost[here] + DEVIANCE and barrier > BARRIER):
            found.append(Rival(starts[k], weights, float(cost[k] - cost[here])))
    return found


def _profiled(
    model: StackedModel, weights: FloatArray, q: FloatArray, j: int, value: float, weight: float
) -> tuple[FloatArray, float]:
    """Return the coordinates and the cost of the linearized problem with one of them held."""
    held = np.where(np.arange(q.size) == j, value, q)
    rest = model.values(weights, held, model.points, weight)
    by_weights, by_steps = model.jacobian(weights, held, model.points, weight)
    jacobian = np.concatenate([by_weights, np.delete(by_steps, j, axis=1)], axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        ridge = RIDGE * float((jacobian**2).sum()) / min(jacobian.shape)
    if not np.isfinite(ridge + rest @ rest):
        return held, np.inf
    change = damped_step(jacobian, rest, ridge, np.zeros(jacobian.shape[1]), solve_damped)
    left = rest + jacobian @ change
    moved = np.insert(change[weights.size :], j, 0.0) * model.steps
    return np.clip(held + moved, *model.known.coordinate_bounds), float(left @ left)

r"""The linearized problem of a run of the Gauss–Newton method: what its data say, without a solver.

At the end of the continuation the field obeys the equation, and its linearization holds what a
solver would be asked for: how the field changes with the parameters while it goes on to obey the
equation, and from that their covariance. `twoaxis.training.gauss_newton.StackedResidual.reduced`
has the formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from twoaxis.runs.run import Run
from twoaxis.training.gauss_newton import LAST_CHUNKS, StackedResidual, field_jacobian
from twoaxis.training.network import field_arrays
from twoaxis.training.run_data import in_precision, point_weights, run_data
from twoaxis.training.settings import Settings
from twoaxis.views import Weighted

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Linearized:
    """The end of a refinement.

    Attributes
    ----------
    covariance : array, shape (d, d)
        Of the coordinates, at the noise of the dataset; fixed parameters have zeros.
    step : array, shape (d,)
        Where the linearized problem would still move them.
    sensitivity : array, shape (n, d)
        ``du/dq`` at the observed sites, along fields that obey the equation.
    misfit : float
        Mean squared misfit, in units of the noise variance.
    residual : float
        Root mean square of the residual, with the weights of the points.
    weight : float
        The weight of the equation.
    """

    covariance: FloatArray
    step: FloatArray
    sensitivity: FloatArray
    misfit: float
    residual: float
    weight: float


def linearized(
    run: Run, points: FloatArray | None = None, weight: float | None = None
) -> Linearized:
    """Linearize a run of the Gauss–Newton method at its end.

    Parameters
    ----------
    run : Run
    points : array, shape (n, k), optional
        Where the sensitivity is wanted; the observed sites without it.
    weight : float, optional
        Of the equation; the one that the run ended with without it.
    """
    settings, spec = run.settings, run.spec
    used = last_weight(run) if weight is None else float(weight)
    where = run.dataset.coordinates if points is None else np.asarray(points, dtype=float)
    known = run.problem.parameters
    coordinates = np.array([float(p.to_coordinate(run.delivered[n])) for n, p in known.items()])
    layers = [tuple(np.asarray(part, dtype=float) for part in pair) for pair in run.final.layers]
    with jax.enable_x64(True):
        data = in_precision(settings, run_data(settings, spec))
        arrays = field_arrays(run.problem, settings.conditions, where)
        found = _program(settings)(layers, coordinates, data, arrays, used)
        reduced, slopes, stacked = jax.tree.map(np.array, found)
    observed = len(run.dataset.values)
    equation = stacked[observed : observed + settings.residual_points]
    return Linearized(
        covariance=reduced.covariance,
        step=reduced.step,
        sensitivity=slopes[:, : len(reduced.tangent)] @ reduced.tangent,
        misfit=float((stacked[:observed] ** 2).mean()),
        residual=float(np.sqrt((equation**2).sum() / used)),
        weight=used,
    )


@lru_cache(maxsize=8)
def _program(settings: Settings) -> Callable[..., Any]:
    """Return the compiled linearization, which serves all runs with these settings."""

    def evaluated(layers: Any, coordinates: Any, data: Any, arrays: Any, weight: Any) -> Any:
        vector, unravel = ravel_pytree((layers, coordinates))
        system = StackedResidual(settings, data)
        sites = jnp.arange(settings.residual_points)
        return (
            system.reduced(vector, unravel, weight, LAST_CHUNKS),
            field_jacobian(vector, unravel, arrays),
            system.values((layers, coordinates), sites=sites, weight=weight),
        )

    return jax.jit(evaluated)


def last_weight(run: Run) -> float:
    r"""Return the weight :math:`\lambda` that a run ended with, from the weights of its points."""
    assert isinstance(run.view, Weighted)  # as the method leaves it
    held = point_weights(run.settings, run.spec, run.points) ** 2
    share = float(np.mean(np.asarray(run.view.loss_weights) / held))
    count = len(run.dataset.values) * run.settings.physics_weight
    return share * count / run.dataset.noise_scale**2

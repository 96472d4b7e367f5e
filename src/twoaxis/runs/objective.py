r"""The loss that a run was trained on, as a function of one flat vector in float64.

.. math:: L(\theta, q) = L_{data}(\theta) + \lambda\, r(\theta, q)^\top M\, r(\theta, q)

with the view ``M`` that the run ended with: adaptive weights are frozen at those of the last
evaluated loss. The vector holds the network, layer by layer, and then the coordinates of the
parameters that were free. A second-order optimizer can go on from where training stopped.

How a method *shares* its gradients (projections, a warm-up) is a rule of its path, not a part of
its loss, and is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameters
from twoaxis.problems import SteadyProblem
from twoaxis.runs.run import Run, Snapshot
from twoaxis.training.network import field_arrays
from twoaxis.training.residual_loss import form_of, loss_and_slope
from twoaxis.training.run_data import boundary_sites, data_loss, residual_values

FloatArray = NDArray[np.float64]
Tree = Any


def run_objective(run: Run) -> RunObjective:
    """Return the training loss of a run, for `twoaxis.polish`.

    Parameters
    ----------
    run : Run
        Trained here or read from a file. The code of a user's own method is not needed: the view
        that the run ended with defines its loss.

    Examples
    --------
    >>> from twoaxis.runs import train
    >>> runs = train("burgers", datasets=8, steps=3, residual_points=50, progress=False)
    >>> objective = run_objective(runs[0])
    >>> value, gradient = objective.value_and_gradient(objective.start)
    >>> gradient.shape == objective.start.shape, objective.names
    (True, ['nu'])
    """
    if not isinstance(run, Run):
        raise InputError(
            "a run that twoaxis.train returned", type(run).__name__, "pass runs[0], for instance"
        )
    if not run.finished:
        raise InputError(
            "a run that stayed finite to its end",
            run.status,
            "train it again with a smaller learning rate; nothing can be finished from here",
        )
    if set(run.problem.parameters) <= set(run.spec.fixed):
        raise InputError(
            "a run that trained at least one parameter",
            f"one with {', '.join(sorted(run.spec.fixed))} fixed",
            "train without fixed=, so that there is something to deliver",
        )
    return RunObjective(run)


@dataclass(frozen=True, eq=False)
class RunObjective:
    """The training loss of a run, its frozen weights held.

    Made by `twoaxis.objective`.

    Attributes
    ----------
    run : Run
    """

    run: Run

    @property
    def names(self) -> list[str]:
        """Names of the parameters, the fixed ones included."""
        return list(self.run.problem.parameters)

    @cached_property
    def start(self) -> FloatArray:
        """Network and free coordinates as they were delivered, float64."""
        delivered, parameters = self.run.delivered, self.run.problem.parameters
        free = [float(parameters[name].to_coordinate(delivered[name])) for name in self._free]
        return np.concatenate([*(part.ravel() for part in self._leaves), free])

    @property
    def positions(self) -> dict[str, int]:
        """Where in the vector the coordinate of each free parameter stands."""
        first = self.start.size - len(self._free)
        return {name: first + k for k, name in enumerate(self._free)}

    @cached_property
    def _free(self) -> list[str]:
        return [name for name in self.names if name not in self.run.spec.fixed]

    @cached_property
    def _leaves(self) -> list[FloatArray]:
        return [np.asarray(part, dtype=float) for pair in self.run.final.layers for part in pair]

    def value_and_gradient(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its gradient at a vector shaped like `start`."""
        with jax.enable_x64(True):
            value, gradient = self._compiled(jnp.asarray(vector, dtype=float))
            return float(value), np.asarray(gradient, dtype=float)

    @cached_property
    def _compiled(self) -> Callable[[Any], tuple[Any, Any]]:
        settings, data = self.run.settings, _data(self.run)
        layers = [tuple(pair) for pair in zip(*[iter(self._leaves)] * 2, strict=True)]
        unravel = ravel_pytree((layers, np.zeros(len(self._free))))[1]
        base = self._coordinates(self.start)
        moving = np.flatnonzero([name in self._free for name in self.names])

        def loss(vector: Any) -> Any:
            layers, free = unravel(vector)
            coordinates = jnp.asarray(base).at[moving].set(free)
            residual = residual_values(settings, data, layers, coordinates)
            of_residual, _ = loss_and_slope(data["form"], {}, residual)
            return data_loss(settings, data, layers) + settings.physics_weight * of_residual

        return jax.jit(jax.value_and_grad(loss))

    def _coordinates(self, vector: FloatArray) -> FloatArray:
        """Return the coordinates of all parameters."""
        parameters, delivered = self.run.problem.parameters, self.run.delivered
        moved = dict(zip(self._free, vector[len(vector) - len(self._free) :], strict=True))
        return np.array(
            [
                float(moved.get(name, p.to_coordinate(delivered[name])))
                for name, p in parameters.items()
            ]
        )

    def finished_run(self, vector: FloatArray) -> Run:
        """Return the run with the network and the parameters of a vector."""
        sizes = np.cumsum([leaf.size for leaf in self._leaves])
        parts = np.split(np.asarray(vector, dtype=float), sizes)[: len(self._leaves)]
        shaped = [part.reshape(leaf.shape) for part, leaf in zip(parts, self._leaves, strict=True)]
        layers = list(zip(*[iter(shaped)] * 2, strict=True))
        values = Parameters(self.run.problem.parameters).named(
            Parameters(self.run.problem.parameters).physical(self._coordinates(vector))
        )
        values |= {name: self.run.delivered[name] for name in self.run.spec.fixed}
        final = Snapshot(self.run.final.step, layers, values, self.run.view)
        return replace(self.run, final=final)

    def frozen(self, vector: FloatArray) -> FrozenResidual:
        """Return the frozen residual at a vector, with the parameters in it as delivered."""
        return self.finished_run(vector).frozen


def _data(run: Run) -> Tree:
    """Return the arrays of the loss; they are those of the training, in float64."""
    settings, problem = run.settings, run.problem
    data: Tree = {
        "residual": field_arrays(problem, settings.conditions, run.points),
        "coefficients": dict(problem.coefficients(run.points)),
        "observed": field_arrays(problem, settings.conditions, run.dataset.coordinates),
        "values": np.asarray(run.dataset.values, dtype=float),
        "form": form_of(run.view, run.points, as_modes=False),
    }
    if settings.has_boundary_term:
        assert isinstance(problem, SteadyProblem)
        edge = boundary_sites(settings, run.spec)
        data["boundary"] = field_arrays(problem, "soft", edge)
        data["boundary_values"] = problem.field(edge[:, 0], edge[:, 1])
    return data

r"""The training loss of a foreign model as an objective, a function of one flat vector.

.. math:: L(\theta, q) = L_{data}(\theta) + \lambda\, r(\theta, q)^\top M\, r(\theta, q)

The vector holds the weights :math:`\theta` that training moved and then the coordinates :math:`q`
of the parameters. An adapter says how its library evaluates the loss at weights and physical
parameters :math:`p`; the gradient by the coordinates follows by the chain rule,
:math:`\partial L / \partial q = \partial L / \partial p \; \mathrm{d}p / \mathrm{d}q`. All of it
is computed in double precision, which a second-order optimizer needs, on copies: the model is
not changed, and training it further does not change the objective.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np

from twoaxis.adapters.foreign import explained
from twoaxis.adapters.unknowns import Unknown
from twoaxis.arrays import FloatArray
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameters
from twoaxis.result import Message


class LossAt(NamedTuple):
    """A loss, and its derivatives by the weights and by the parameters, in their order."""

    value: float
    by_weights: FloatArray
    by_parameters: FloatArray


@final
@dataclass(frozen=True, eq=False, repr=False)
class ModelObjective:
    """The training loss of a PyTorch, JAX, DeepXDE, PINA or jinns model, in double precision.

    Made by the adapters and by `twoaxis.objective`. Nothing is evaluated before it is used.

    Attributes
    ----------
    parameters : Parameters
        With the values that training delivered.
    weights : array
        The weights that training moved, one after another.
    loss_at : callable
        ``loss_at(weights, values)``: the loss at weights and physical parameters by name.
    freeze : callable
        ``freeze(weights, parameters)``: the frozen residual of this state.
    network : callable
        ``network(weights)``: the library's own network, or tree of weights, in this state.
    """

    parameters: Parameters
    weights: FloatArray
    loss_at: Callable[[FloatArray, Mapping[str, float]], LossAt]
    freeze: Callable[[FloatArray, Parameters], FrozenResidual]
    network: Callable[[FloatArray], Any]

    def __repr__(self) -> str:
        return f"<training loss of {', '.join(self.names)}; weights: {self.weights.size:,}>"

    @property
    def names(self) -> list[str]:
        """Names of the parameters."""
        return self.parameters.names

    @cached_property
    def start(self) -> FloatArray:
        """The delivered state, shape (n,)."""
        delivered = self.parameters.coordinates(self.parameters.require("delivered"))
        return np.concatenate([self.weights, delivered])

    @property
    def positions(self) -> dict[str, int]:
        """The position of each parameter's coordinate in the vector."""
        return {name: self.weights.size + k for k, name in enumerate(self.parameters)}

    def value_and_gradient(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its gradient at a vector shaped like `start`."""
        weights, values = self._split(vector)
        with explained(
            "a training loss that can be evaluated and differentiated in float64",
            "convert the data of the loss to double precision, return one number, and detach "
            "nothing on the way",
        ):
            found = self.loss_at(weights, values)
        # dp/dq is p in a log coordinate.
        stretch = [
            values[name] if p.coordinate == "log" else 1.0 for name, p in self.parameters.items()
        ]
        return found.value, np.concatenate(
            [found.by_weights, found.by_parameters * np.array(stretch)]
        )

    def frozen(self, vector: FloatArray) -> FrozenResidual:
        """Return the frozen residual at a vector, with the parameters in it as delivered."""
        weights, values = self._split(vector)
        known = {
            name: replace(p.holding(values[name]), delivered=values[name])
            for name, p in self.parameters.items()
        }
        return self.freeze(weights, Parameters(known))

    def module(self, vector: FloatArray) -> Any:
        """Return a copy of the network with the weights of a vector, in double precision."""
        return self.network(self._split(vector)[0])

    def _split(self, vector: FloatArray) -> tuple[FloatArray, dict[str, float]]:
        parts = np.split(np.asarray(vector, dtype=float), [self.weights.size])
        return parts[0], self.parameters.named(self.parameters.physical(parts[1]))


def at_stored_numbers(
    loss: Callable[[FloatArray, Mapping[Any, float]], LossAt], unknowns: Sequence[Unknown]
) -> Callable[[FloatArray, Mapping[str, float]], LossAt]:
    r"""Return a loss of stored numbers as one of physical parameters.

    With the transform :math:`p = g(s)` of an unknown,
    :math:`\partial L / \partial p = (\partial L / \partial s) / g'(s)`.

    Parameters
    ----------
    loss : callable
        ``loss(weights, stored)``, with the stored numbers by their places, and derivatives by them.
    unknowns : sequence of Unknown
    """

    def loss_at(weights: FloatArray, values: Mapping[str, float]) -> LossAt:
        stored = {each.place: each.stored(values[each.name]) for each in unknowns}
        found = loss(weights, stored)
        slopes = [each.physical(stored[each.place])[1] for each in unknowns]
        return found._replace(by_parameters=found.by_parameters / np.array(slopes))

    return loss_at


def without_objective(why: str) -> Message:
    """Return the note that the training loss of a model is not known."""
    text = f"the whole training loss is not known: {why}; whether training had finished is open"
    return Message("objective.unknown", text)


# ---------------------------------------------------------------- flat vectors


def flat_tensors(tensors: Sequence[Any]) -> FloatArray:
    """Return PyTorch tensors as one vector in double precision."""
    parts = [each.detach().cpu().double().numpy().ravel() for each in tensors]
    return np.concatenate(parts) if parts else np.empty(0)


def put_into(torch: Any, tensors: Sequence[Any], vector: FloatArray) -> None:
    """Write a vector into PyTorch tensors, in their order."""
    ends = np.cumsum([each.numel() for each in tensors])[:-1]
    with torch.no_grad():
        for each, part in zip(tensors, np.split(np.array(vector, float), ends), strict=True):
            each.copy_(torch.from_numpy(part).reshape(each.shape))


def torch_gradient(torch: Any, loss: Any, tensors: Sequence[Any]) -> list[FloatArray]:
    """Return derivatives of a scalar by tensors, flat; zero where it does not depend on one."""
    found = torch.autograd.grad(loss, list(tensors), allow_unused=True)
    return [
        np.zeros(each.numel()) if slope is None else flat_tensors([slope])
        for slope, each in zip(found, tensors, strict=True)
    ]

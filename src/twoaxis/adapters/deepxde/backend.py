"""The two backends of DeepXDE that an audit can use: PyTorch and JAX.

A backend evaluates the equations of a trained model at given values of its unknowns, and their
exact derivatives. PyTorch keeps an unknown as a leaf tensor that the user's PDE has captured, so
its value is set during a call and restored; in JAX the PDE receives the unknowns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from twoaxis.adapters.jacobians import PointFunction
from twoaxis.adapters.jets import FieldSlot
from twoaxis.adapters.model_loss import LossAt
from twoaxis.adapters.unknowns import Arithmetic, Conditions, Model
from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameters

#: DeepXDE keeps derivatives in one cache of the process, and a PDE its unknowns: only one thread
#: evaluates at a time.
ONE_AT_A_TIME = RLock()


@dataclass(frozen=True, eq=False)
class CompiledLoss:
    """What ``model.compile`` made the training loss of.

    Attributes
    ----------
    data : deepxde.data.PDE
        A shallow copy, with the points of the last step.
    functions : callable or sequence of callable
        The loss function of each equation and condition, or one for all.
    factors : array or None
        The loss weights.
    """

    data: Any
    functions: Any
    factors: FloatArray | None


class Backend(Model):
    """A trained DeepXDE model, frozen.

    A place is the index of an unknown among the model's external trainable variables.
    """

    arithmetic: Arithmetic

    @abstractmethod
    def is_variable(self, given: Any) -> bool:
        """Tell whether this is a ``dde.Variable``."""

    @abstractmethod
    def value_of(self, variable: Any) -> FloatArray:
        """Return the value of a variable."""

    @abstractmethod
    def field(self, points: FloatArray) -> FloatArray:
        """Return the outputs of the network, (N, outputs)."""

    @abstractmethod
    def loss(
        self, compiled: CompiledLoss, weights: FloatArray, stored: Mapping[Any, float]
    ) -> LossAt:
        """Return the training loss, with its derivatives by weights and stored numbers."""

    @abstractmethod
    def equations_by_weights(self, places: Sequence[int]) -> PointFunction:
        """Return the equations, a column each, as a function of weights and numbers at places."""

    @abstractmethod
    def outputs_by_weights(self, places: Sequence[int]) -> PointFunction:
        """Return the outputs of the network as a function of weights."""

    @abstractmethod
    def misfits_by_weights(
        self, data: Any, conditions: Sequence[int], places: Sequence[int]
    ) -> PointFunction:
        """Return misfits of some conditions, (K, 1), whose squares have the sum of their means."""

    @abstractmethod
    def condition_by_weights(
        self, data: Any, condition: int, places: Sequence[int]
    ) -> PointFunction:
        """Return the error of one condition, (K, m), as a function of weights and numbers."""

    @abstractmethod
    def slot(
        self,
        data: Any,
        conditions: Sequence[int],
        places: Sequence[int],
        points: FloatArray,
        freeze: Callable[[Self, Parameters], FrozenResidual],
    ) -> FieldSlot | None:
        """Return the model with a place for any field, or None where it has none.

        Parameters
        ----------
        data : deepxde.data.PDE
        conditions : sequence of int
            Numbers of the conditions that are imposed.
        places : sequence of int
            Of the unknowns.
        points : array
            At which the network is called, to find what a field can replace.
        freeze : callable
            ``freeze(backend, parameters)``.
        """

    @abstractmethod
    def conditions_with(self, data: Any) -> Mapping[int, list[int]]:
        """Return the numbers of the conditions that depend on each unknown."""

    @abstractmethod
    def errors(
        self, data: Any, conditions: Sequence[int], stored: Mapping[Any, float]
    ) -> list[FloatArray]:
        """Return the errors of some conditions at the points of the training, (K, m) each."""

    @abstractmethod
    def error_derivatives(
        self, data: Any, conditions: Sequence[int], stored: Mapping[Any, float]
    ) -> list[FloatArray]:
        """Return their derivatives by the stored numbers, (K, m, d) each."""


@final
@dataclass(frozen=True, eq=False)
class Imposed(Conditions):
    """Some conditions of a model, by their numbers.

    Attributes
    ----------
    backend : Backend
    data : deepxde.data.PDE
        With the points of the last step.
    numbers : sequence of int
    """

    backend: Backend
    data: Any
    numbers: Sequence[int]

    def errors(self, stored: Mapping[Any, float]) -> list[FloatArray]:
        """Return one array (K, m) per condition."""
        return self.backend.errors(self.data, self.numbers, stored)

    def slopes(self, stored: Mapping[Any, float]) -> list[FloatArray]:
        """Return one array (K, m, d) per condition."""
        return self.backend.error_derivatives(self.data, self.numbers, stored)


def error_of(data: Any, number: int, inputs: Any, outputs: Any) -> Any:
    """Return the error of one condition at the points of the training, (K, m)."""
    ends = np.cumsum([0, *data.num_bcs]).tolist()
    # The array of the training itself: DeepXDE caches values by its identity.
    found = data.bcs[number].error(data.train_x, inputs, outputs, ends[number], ends[number + 1])
    return found[:, None] if found.ndim == 1 else found


def misfits_of(data: Any, conditions: Sequence[int], inputs: Any, outputs: Any, join: Any) -> Any:
    """Return misfits of conditions at the points of the training, (K, 1).

    Those of a condition with n values are divided by the root of n.
    """
    parts = []
    for number in conditions:
        flat = error_of(data, number, inputs, outputs).reshape(-1, 1)
        parts.append(flat / len(flat) ** 0.5)
    return join(parts)


def rows_of(data: Any, conditions: Sequence[int]) -> NDArray[np.intp]:
    """Return which points of the training belong to conditions."""
    ends = np.cumsum([0, *data.num_bcs])
    parts = [np.arange(ends[number], ends[number + 1]) for number in conditions]
    return np.concatenate([np.zeros(0, dtype=np.intp), *parts])


def as_columns(found: Any, rows: int) -> list[Any]:
    """Return the output of a PDE as one array (N, m) per equation."""
    parts = list(found) if isinstance(found, (list, tuple)) else [found]
    if not parts:
        raise InputError("a PDE with an equation", "an empty list", "return its residual")
    columns = [part[:, None] if getattr(part, "ndim", 0) == 1 else part for part in parts]
    for part in columns:
        shape = tuple(getattr(part, "shape", ()))
        if len(shape) != 2 or shape[0] != rows:
            raise InputError(
                f"a residual of shape ({rows}, 1), one row per point",
                f"the shape {shape}",
                "return an array (N, 1), or a list of such arrays for several equations",
            )
        if shape[1] == rows > 1:
            raise InputError(
                f"a residual of shape ({rows}, 1), one row per point",
                f"the shape {shape}, by broadcasting",
                "keep columns, as in y[:, 0:1]; y[:, 0] and an array (N, 1) broadcast to (N, N)",
            )
    return columns

r"""Unknowns as a library stores them, and a frozen model as a function of physical parameters.

A library stores a number :math:`s` for each unknown; the parameter is :math:`p = g(s)` with the
transform :math:`g` that the equation uses (the identity where there is none). A frozen model
evaluates its equations at stored numbers, with exact derivatives. The residual as a function of
the physical parameters follows by the inverse of :math:`g`, and its Jacobian by the chain rule,

.. math:: \frac{\partial r}{\partial p} = \frac{\partial r}{\partial s} \Big/ g'(s) .
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np

from twoaxis.adapters.foreign import alone, as_numpy, explained
from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError
from twoaxis.frozen import ROUNDING, check_same, in_training
from twoaxis.parameters import Parameter
from twoaxis.result import Message

#: From the stored number to the physical parameter, alone or with its inverse.
Transform = Callable[[Any], Any] | tuple[Callable[[Any], Any], Callable[[Any], Any]]


# ---------------------------------------------------------------- one unknown


class Arithmetic(ABC):
    """Functions of few numbers in the arrays of a library, computed in float64."""

    @abstractmethod
    def slope(self, function: Callable[[Any], Any], at: float) -> tuple[float, float]:
        """Return the value and the derivative of a function of one number."""

    @abstractmethod
    def call(self, function: Callable[..., Any], *arrays: Any) -> float:
        """Return the one number that a function of arrays returns."""


@final
class TorchArithmetic(Arithmetic):
    """With tensors, on the CPU: some GPUs have no float64."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def slope(self, function: Callable[[Any], Any], at: float) -> tuple[float, float]:
        """Return the value and the derivative, by reverse mode."""
        torch = self._torch
        with torch.inference_mode(False), torch.enable_grad():
            x = torch.tensor(at, dtype=torch.float64, device="cpu", requires_grad=True)
            y = function(x)
            if not isinstance(y, torch.Tensor) or not y.requires_grad:
                raise TypeError(f"its result is {type(y).__name__} without a derivative")
            (slope,) = torch.autograd.grad(y.sum(), x)
        return y.item(), slope.item()

    def call(self, function: Callable[..., Any], *arrays: Any) -> float:
        """Call a function with tensors."""
        torch = self._torch
        given = [torch.tensor(array, dtype=torch.float64, device="cpu") for array in arrays]
        with torch.no_grad():
            return float(function(*given))


@final
class JaxArithmetic(Arithmetic):
    """With JAX arrays."""

    def __init__(self, jax: Any) -> None:
        self._jax = jax

    def slope(self, function: Callable[[Any], Any], at: float) -> tuple[float, float]:
        """Return the value and the derivative, by forward mode."""
        with self._jax.enable_x64(True):
            x = self._jax.numpy.asarray(at, "float64")
            y, slope = self._jax.jvp(function, (x,), (self._jax.numpy.ones_like(x),))
            return float(y), float(slope)

    def call(self, function: Callable[..., Any], *arrays: Any) -> float:
        """Call a function with JAX arrays."""
        with self._jax.enable_x64(True):
            number = self._jax.numpy.asarray
            return float(function(*(number(array, "float64") for array in arrays)))


@final
@dataclass(frozen=True)
class Unknown:
    """One physical parameter, and the number that stores it.

    Parameters
    ----------
    name : str
    place : hashable
        Where the model stores it.
    start : float
        The stored number at the end of training.
    arithmetic : Arithmetic
    to_physical, to_stored : callable, optional
        The transform, and its inverse.
    """

    name: str
    place: Hashable
    start: float
    arithmetic: Arithmetic
    to_physical: Callable[[Any], Any] | None = None
    to_stored: Callable[[Any], Any] | None = None

    @property
    def delivered(self) -> float:
        """The physical parameter at the end of training."""
        return self.physical(self.start)[0]

    def physical(self, stored: float) -> tuple[float, float]:
        """Return the physical parameter and its derivative by the stored number."""
        if self.to_physical is None:
            return stored, 1.0
        with explained(
            f"a transform of {self.name} that takes and returns arrays of the library",
            "write it with its functions, as in "
            f'transform={{"{self.name}": torch.exp}} or jax.numpy.exp',
        ):
            return self.arithmetic.slope(self.to_physical, stored)

    def stored(self, value: float) -> float:
        """Return the number to store, so that the physical parameter has this value."""
        if self.to_physical is None:
            return value
        if self.to_stored is None:
            return self._solved(value)
        stored = self.arithmetic.call(self.to_stored, value)
        found = self.physical(stored)[0]
        if not abs(found - value) <= 1e-6 * abs(value) + 1e-12:
            raise InputError(
                f"a transform of {self.name} whose second function inverts its first",
                f"{self.name}={value:g}, which becomes {stored:g} and then {found:g}",
                f'write transform={{"{self.name}": (to_physical, to_stored)}}, or leave the '
                "inverse out",
            )
        return stored

    def _solved(self, value: float) -> float:
        """Invert the transform: Newton's method, in steps that reduce the distance."""
        stored = self.start
        found, slope = self.physical(stored)
        magnitude = max(abs(value), 1e-4 * abs(found))  # of a value that may be zero
        for _ in range(200):
            miss = found - value
            step = -miss / slope if slope else 0.0
            for _ in range(80):
                other = self.physical(stored + step)
                if abs(other[0] - value) < abs(miss):  # also false where it is not a number
                    break
                step /= 2
            else:
                break
            stored, (found, slope) = stored + step, other
        if abs(found - value) <= 1e-8 * magnitude:
            return stored
        raise InputError(
            f"values of {self.name} that its transform can reach",
            f"{self.name}={value:g}; the search from the stored {self.start:g} ends at {found:g}",
            "move the bounds inside the transform's range, or give its inverse too, as in "
            f'transform={{"{self.name}": (to_physical, to_stored)}}',
        )


def read_unknown(
    name: str, place: Hashable, stored: Any, arithmetic: Arithmetic, transform: Any
) -> Unknown:
    """Return the unknown that a model stores as `stored`, an array of one number."""
    array = as_numpy(stored)
    if array.size != 1:
        raise InputError(
            f"one number stored for {name}",
            f"an array of shape {array.shape}",
            "give each number a variable and a name of its own",
        )
    if not np.isfinite(array).all():
        raise InputError(
            f"a finite value of {name} from training",
            str(array.item()),
            "train again, for instance with a smaller learning rate: the training has diverged",
        )
    both = tuple(transform) if isinstance(transform, (tuple, list)) else (transform, None)
    if transform is not None and not (
        len(both) == 2 and callable(both[0]) and (both[1] is None or callable(both[1]))
    ):
        raise InputError(
            f"the transform of {name} as a function, or a function and its inverse",
            repr(transform),
            f'write transform={{"{name}": torch.exp}}, from the stored number to the parameter',
        )
    return Unknown(name, place, float(array.item()), arithmetic, *both)


def with_delivered(parameter: Parameter, unknown: Unknown) -> tuple[Parameter, list[Message]]:
    """Return the parameter with the value from training; a value that it has already stays.

    Bounds are not widened: a value outside of them is refused.
    """
    name, value = unknown.name, unknown.delivered
    if parameter.delivered is None:
        try:
            return replace(parameter, delivered=value), []
        except InputError as error:
            raise InputError(f"{name}: {error.expected}", error.got, error.fix) from error
    given = parameter.delivered
    if abs(given - value) <= 1e-6 * abs(value):
        return parameter, []
    text = f"{name} is audited at the given delivered={given:g}; the model holds {value:g}"
    return parameter, [Message("delivered.given", text, "warning", {"given": given, "held": value})]


# ---------------------------------------------------------------- a frozen model


class Model(ABC):
    """A trained model, frozen: its equations as functions of points and stored numbers.

    Numbers are given by the places at which the model stores them; what is not given keeps the
    value that it had when the model was frozen. Points are whatever the model takes.

    Attributes
    ----------
    own, precision : str
        The data type of the weights, and that of the evaluation.
    """

    own: str
    precision: str

    @abstractmethod
    def equations(self, points: Any, stored: Mapping[Any, float]) -> list[Any]:
        """Return one array (N, m) per equation."""

    @abstractmethod
    def derivatives(self, points: Any, stored: Mapping[Any, float]) -> list[Any]:
        """Return one array (N, m, d) per equation: derivatives by the d stored numbers."""

    def check_deterministic(self, points: Any, stored: Mapping[Any, float]) -> None:
        """Refuse equations that draw random numbers."""
        first, again = (self.equations(points, stored) for _ in range(2))
        for one, other in zip(first, again, strict=True):
            check_same("residual", one, other, ROUNDING.get(self.precision, 2.0**-52))

    @property
    @abstractmethod
    def weights(self) -> FloatArray:
        """The weights that training moved, one after another."""

    @abstractmethod
    def moved(self, weights: FloatArray) -> Self:
        """Return the same model with other weights."""

    @abstractmethod
    def network(self) -> Any:
        """Return a copy of the network, or of its tree of weights."""


class Conditions(ABC):
    """Conditions of a training that contain unknowns, at their own points."""

    @abstractmethod
    def errors(self, stored: Mapping[Any, float]) -> list[Any]:
        """Return one array (K, m) per condition."""

    @abstractmethod
    def slopes(self, stored: Mapping[Any, float]) -> list[Any]:
        """Return one array (K, m, d) per condition: derivatives by the d stored numbers."""


@final
class FrozenEquations:
    """The equations of a frozen model as functions of the physical parameters.

    Parameters
    ----------
    model : Model
    unknowns : sequence of Unknown
        In the order of the parameters.
    skipped : int
        How many of the first points are evaluated without being residual points.
    conditions : Conditions, optional
        Conditions of the training that follow the equations, at points of their own.
    """

    def __init__(
        self,
        model: Model,
        unknowns: Sequence[Unknown],
        skipped: int = 0,
        conditions: Conditions | None = None,
    ) -> None:
        self.model, self.skipped, self.conditions = model, skipped, conditions
        self.unknowns = {unknown.name: unknown for unknown in unknowns}

    def _stored(self, values: Mapping[str, Any]) -> dict[Hashable, float]:
        return {each.place: each.stored(float(values[n])) for n, each in self.unknowns.items()}

    def _values(self, points: Any, stored: Mapping[Any, float]) -> list[Any]:
        """Return one array (N, m) per equation, then one per condition."""
        found = [part[self.skipped :] for part in self.model.equations(points, stored)]
        return found if self.conditions is None else [*found, *self.conditions.errors(stored)]

    def _slopes(self, points: Any, stored: Mapping[Any, float]) -> list[Any]:
        """Return their derivatives by the stored numbers, (N, m, d) each."""
        found = [part[self.skipped :] for part in self.model.derivatives(points, stored)]
        return found if self.conditions is None else [*found, *self.conditions.slopes(stored)]

    def residual(self, points: Any, values: Mapping[str, Any]) -> Any:
        """Return one array (N,) per column of each equation, alone where there is one."""
        parts = self._values(points, self._stored(values))
        return alone([column for part in parts for column in part.T])

    def jacobian(self, points: Any, values: Mapping[str, Any]) -> FloatArray:
        """Return exact derivatives by the physical parameters, (N, d), equations joined."""
        stored = self._stored(values)
        parts = self._slopes(points, stored)
        columns = [part[:, k] for part in parts for k in range(part.shape[1])]
        slopes = [each.physical(stored[each.place])[1] for each in self.unknowns.values()]
        with np.errstate(divide="ignore", invalid="ignore"):  # where the transform is flat
            found: FloatArray = np.concatenate(columns).astype(float) / np.array(slopes)
        return found

    def check(self, points: Any, parameters: Mapping[str, Parameter]) -> Influence:
        """Evaluate everything once, so that errors are raised early; find who moves what."""
        lower = self.model.precision != self.model.own
        with explained(
            "equations that can be evaluated at the training points"
            + (f" in {self.model.precision}" if lower else ""),
            ('pass precision="model" if they compute in its precision alone; otherwise ' * lower)
            + "check the names of the unknowns, the shapes and the number of coordinates",
        ):
            return self._influence(points, parameters)

    def _influence(self, points: Any, parameters: Mapping[str, Parameter]) -> Influence:
        bounds = {
            name: [each.stored(bound) for bound in parameters[name].bounds]
            for name, each in self.unknowns.items()
        }
        center = {each.place: each.start for each in self.unknowns.values()}
        values = self._values(points, center)
        slopes = self._slopes(points, center)
        if not in_training():
            self.model.check_deterministic(points, center)
        unseen, lost = [], []
        for column, (name, each) in enumerate(self.unknowns.items()):
            if _any(slopes, column):
                continue
            moved = [{**center, each.place: bound} for bound in bounds[name]]
            if not any(_differ(values, self._values(points, at)) for at in moved):
                unseen.append(name)
            elif not any(_any(self._slopes(points, at), column) for at in moved):
                lost.append(name)
        return Influence([part.shape[1] for part in values], unseen, lost)


@dataclass(frozen=True)
class Influence:
    """How the residual depends on the unknowns.

    Attributes
    ----------
    widths : list of int
        The number of columns of each equation.
    unseen : list of str
        Unknowns that do not change the residual anywhere inside the bounds.
    lost : list of str
        Unknowns that change it although their derivative is zero throughout, as behind
        ``detach`` or ``stop_gradient``.
    """

    widths: list[int]
    unseen: list[str]
    lost: list[str]

    def notes(self) -> list[Message]:
        """Return what a reader must know of it."""
        return [
            Message("parameter.unseen", f"the residual does not depend on {n}: H = 0", "warning")
            for n in self.unseen
        ] + [
            Message(
                "parameter.differences",
                f"the equation stops the derivative by {n}: central differences replace it",
                "warning",
            )
            for n in self.lost
        ]


def _any(slopes: Sequence[Any], column: int) -> bool:
    return any(bool(part[..., column].any()) for part in slopes)


def _differ(one: Sequence[Any], other: Sequence[Any]) -> bool:
    pairs = zip(one, other, strict=True)
    return any(not np.array_equal(a, b, equal_nan=True) for a, b in pairs)


# ---------------------------------------------------------------- derivatives


def torch_jacobian(torch: Any, parts: Sequence[Any], leaves: Sequence[Any]) -> list[FloatArray]:
    """Return derivatives of tensors (N, m) by scalar leaves, one array (N, m, d) per tensor.

    The gradient of ``v . r`` by an unknown is linear in v, and its gradient by v is the column
    of the Jacobian: two reverse passes per unknown, whatever the number of points.
    """
    flat = torch.cat([part.reshape(-1) for part in parts])
    columns = [torch.zeros_like(flat)] * len(leaves)
    if flat.requires_grad:
        v = torch.zeros_like(flat, requires_grad=True)
        options: dict[str, Any] = {"create_graph": True, "allow_unused": True}
        for j, slope in enumerate(torch.autograd.grad(flat, list(leaves), v, **options)):
            if slope is not None and slope.requires_grad:
                (column,) = torch.autograd.grad(slope.sum(), v, **options)
                columns[j] = columns[j] if column is None else column
    joined = as_numpy(torch.stack(columns, dim=1))
    shapes = [tuple(part.shape) for part in parts]
    ends = np.cumsum([n * m for n, m in shapes])[:-1]
    each = zip(np.split(joined, ends), shapes, strict=True)
    return [part.reshape(*shape, len(leaves)) for part, shape in each]


def jax_jacobian(
    jax: Any, function: Callable[..., Any], primals: Sequence[Any], places: Sequence[int]
) -> list[Any]:
    """Return derivatives of the arrays that ``function(*primals)`` returns.

    One array per output, with the primals at these places along its last axis: one forward pass
    for each of them.
    """
    columns = []
    for place in places:
        tangents = [jax.numpy.ones_like(each) * (n == place) for n, each in enumerate(primals)]
        columns.append(jax.jvp(function, tuple(primals), tuple(tangents))[1])
    return [jax.numpy.stack(parts, axis=-1) for parts in zip(*columns, strict=True)]

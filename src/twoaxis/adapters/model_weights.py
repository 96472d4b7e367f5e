"""A foreign model as a least-squares system in its weights: what all adapters share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from twoaxis.adapters.foreign import as_points, explained, typical_values
from twoaxis.adapters.jacobians import PointFunction
from twoaxis.adapters.jets import FieldSlot
from twoaxis.adapters.model_loss import LossAt, ModelObjective, at_stored_numbers
from twoaxis.adapters.observed import alone_or_columns
from twoaxis.adapters.unknowns import Model, Unknown
from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, in_training
from twoaxis.parameters import Parameters

State = TypeVar("State", bound=Model)
#: Conditions know their points themselves.
NOWHERE = np.zeros((1, 1))
#: Points that tell how Jacobians are computed.
FEW = 8


@final
@dataclass(frozen=True, eq=False, repr=False)
class ModelWeights:
    """A PyTorch, JAX, DeepXDE, PINA or jinns model, a `WeightedModel` in double precision.

    Made by the adapters. Nothing is evaluated before it is used.

    Attributes
    ----------
    parameters : Parameters
        With the values that training delivered.
    start : array
        The weights that training moved, one after another.
    points : array, or sequence of arrays
        The residual points.
    equations : sequence of PointFunction
        One for all equations, or several that have points of their own.
    outputs : PointFunction
        The outputs of the network.
    freeze : callable
        ``freeze(weights, parameters)``: the frozen residual of this state.
    network : callable
        ``network(weights)``: the library's own network, or tree of weights, in this state.
    unknowns : sequence of Unknown
        Where numbers are stored other than as physical parameters.
    columns : sequence of int, or array
        The observed outputs, all by default; an array with one for each of the observations,
        where these differ.
    observed : array, optional
        Where the observations lie.
    misfits : PointFunction, optional
        The misfits of the conditions, (K, 1).
    slot : callable
        Returns the model with a place for any field, or None where the network has no such place.
    """

    parameters: Parameters
    start: FloatArray
    points: Any
    equations: Sequence[PointFunction]
    outputs: PointFunction
    freeze: Callable[[FloatArray, Parameters], FrozenResidual]
    network: Callable[[FloatArray], Any]
    unknowns: Sequence[Unknown] = ()
    columns: Sequence[int] | NDArray[np.intp] | None = None
    observed: FloatArray | None = None
    misfits: PointFunction | None = None
    slot: Callable[[], FieldSlot | None] = lambda: None

    def __repr__(self) -> str:
        return f"<least squares in {self.start.size:,} weights and {', '.join(self.parameters)}>"

    @property
    def how(self) -> str:
        """How Jacobians of the residual are computed; tried at a few points where none was."""
        if not all(each.tried for each in self.equations):
            several = isinstance(self.points, (tuple, list))
            few: Any = self.points
            if all(each.pointwise for each in self.equations):
                few = [each[:FEW] for each in few] if several else few[:FEW]
            numbers = self._delivered
            with _evaluated("residual"):
                self._each(few, lambda f, where: f.by_weights(self.start, numbers, where))
        return "; ".join(dict.fromkeys(each.how for each in self.equations))

    # ------------------------------------------------------------- residual

    def residual(self, weights: FloatArray, points: Any, **physical: Any) -> FloatArray:
        """Return the residual at any points, equations joined in order, shape (N,)."""
        numbers, _ = self.numbers(physical)

        def values(function: PointFunction, where: FloatArray) -> FloatArray:
            return function.values(_vector(weights), numbers, where)

        with _evaluated("residual"):
            return np.concatenate([part.T.ravel() for part in self._each(points, values)])

    def residual_jacobian(
        self, weights: FloatArray, points: Any, **physical: Any
    ) -> tuple[FloatArray, FloatArray]:
        """Return derivatives by the weights, (N, W), and by the physical parameters, (N, d)."""
        numbers, slopes = self.numbers(physical)
        vector = _vector(weights)
        by_numbers: list[FloatArray] = []

        def by_weights(function: PointFunction, where: FloatArray) -> FloatArray:
            found = function.by_weights(vector, numbers, where)
            by_numbers.append(function.by_numbers(vector, numbers, where))
            function.check_against_differences(vector, numbers, where, found, by_numbers[-1])
            return found

        with _evaluated("residual"):
            rows = _joined(self._each(points, by_weights))
        return rows, _joined(by_numbers) / slopes

    def _each(
        self, points: Any, call: Callable[[PointFunction, FloatArray], FloatArray]
    ) -> list[FloatArray]:
        """Call each function at its points; points of several equations have a set for each."""
        if not isinstance(points, (tuple, list)):
            where = as_points(points)
            return [call(function, where) for function in self.equations]
        found: list[FloatArray] = []
        for function in self.equations:
            first = sum(part.shape[1] for part in found)
            found.append(call(function, as_points(points[first])))
        return found

    def numbers(self, physical: Mapping[str, Any]) -> tuple[FloatArray, FloatArray]:
        """Return the numbers that the model stores, and derivatives of the parameters by them."""
        given = self.parameters.by_member(physical)
        if set(given) != set(self.parameters):
            raise InputError(
                f"values of the parameters {', '.join(self.parameters)}",
                ", ".join(given) or "none",
                "give each of them by its name",
            )
        values = [float(given[name]) for name in self.parameters]
        if not self.unknowns:
            return np.array(values), np.ones(len(values))
        pairs = list(zip(self.unknowns, values, strict=True))
        stored = [unknown.stored(value) for unknown, value in pairs]
        slopes = [u.physical(number)[1] for (u, _), number in zip(pairs, stored, strict=True)]
        return np.array(stored), np.array(slopes)

    # ------------------------------------------------------------- field and conditions

    def field(self, weights: FloatArray, points: Any = None) -> FloatArray:
        """Return the observed fields, (n,) or (n, m); at the observations by default."""
        where = self._where(points)
        with _evaluated("field"):
            found = self.outputs.values(_vector(weights), self._delivered, where)
        return alone_or_columns(self._seen(found), len(where))

    def field_jacobian(self, weights: FloatArray, points: Any = None) -> FloatArray:
        """Return derivatives of `field` by the weights, (n m, W), rows in its C order."""
        where = self._where(points)
        with _evaluated("field"):
            found = self.outputs.by_weights(_vector(weights), self._delivered, where)
        return self._seen(found).reshape(-1, self.start.size)

    def _where(self, points: Any) -> FloatArray:
        if points is None and self.observed is None:
            raise InputError(
                "points for the field, or observations of the model",
                "neither",
                "pass points, or observed=... to the adapter",
            )
        where = as_points(self.observed if points is None else points)
        mixed = isinstance(self.columns, np.ndarray)
        if mixed and not np.array_equal(where, as_points(self.observed)):
            raise InputError(
                "the points of the observations, where observed fields differ from point to point",
                "other points",
                "leave points out",
            )
        return where

    def _seen(self, outputs: FloatArray) -> FloatArray:
        """Return the observed ones of all outputs, which lie along the second axis."""
        return outputs if self.columns is None else _chosen(outputs, self.columns)

    @property
    def _delivered(self) -> FloatArray:
        return self.numbers(typical_values(self.parameters))[0]

    def conditions(self, weights: FloatArray) -> FloatArray:
        """Return misfits of the soft conditions, shape (K,), parameters as delivered."""
        if self.misfits is None:
            return np.empty(0)
        with _evaluated("conditions"):
            return self.misfits.values(_vector(weights), self._delivered, NOWHERE)[:, 0]

    def conditions_jacobian(self, weights: FloatArray) -> FloatArray:
        """Return derivatives of `conditions` by the weights, (K, W)."""
        if self.misfits is None:
            return np.empty((0, self.start.size))
        with _evaluated("conditions"):
            return self.misfits.by_weights(_vector(weights), self._delivered, NOWHERE)[:, 0]

    # ------------------------------------------------------------- the model in another state

    def frozen(self, weights: FloatArray, values: Mapping[str, float]) -> FrozenResidual:
        """Return the frozen residual with these weights and delivered values."""
        return self.freeze(_vector(weights), self.parameters.delivering(values))


class Functions(NamedTuple):
    """The parts of a `ModelWeights` that a library evaluates, of one state of a model."""

    equations: Sequence[PointFunction]
    outputs: PointFunction
    misfits: PointFunction | None
    slot: Callable[[], FieldSlot | None] = lambda: None


@final
@dataclass(frozen=True, eq=False)
class Trained(Generic[State]):
    """A model whose library knows its training, and what every state of it shares.

    Attributes
    ----------
    exact : Model
        In double precision.
    freeze : callable
        ``freeze(state, parameters, **more)``: the frozen residual of a state.
    functions : callable
        ``functions(state)``: what the library evaluates.
    points : array, or sequence of arrays
        The residual points.
    unknowns : sequence of Unknown
    loss : callable or None
        ``loss(weights, stored)``: the training loss, where it is known.
    observations : mapping
        `observed`, `data` and `fitted`, as far as they are known.
    columns : sequence of int, or array
        The observed outputs, as for `ModelWeights`.
    more : mapping
        Of the frozen residual: `notes` and `about`.
    field : callable, optional
        ``field(state, points)``: all outputs, (n, m). Needed for `of_field`.
    """

    exact: State
    freeze: Callable[..., FrozenResidual]
    functions: Callable[[State], Functions]
    points: Any
    unknowns: Sequence[Unknown]
    loss: Callable[[FloatArray, Mapping[Any, float]], LossAt] | None
    observations: Mapping[str, Any]
    columns: Sequence[int] | NDArray[np.intp]
    more: Mapping[str, Any]
    field: Callable[[State, FloatArray], FloatArray] | None = None

    def frozen(self, model: State, parameters: Mapping[str, Any]) -> FrozenResidual:
        """Return the residual of the delivered model, evaluated in the precision of `model`."""
        return self._frozen(model, self.exact, parameters, self.observations)

    def of_field(self, state: State, parameters: Mapping[str, Any]) -> FrozenResidual:
        """Return the residual of a state that has a field in the place of the network."""
        seen = dict(self.observations)
        if "fitted" in seen and self.field is not None:
            found = _chosen(self.field(state, seen["observed"]), self.columns)
            seen["fitted"] = alone_or_columns(found, len(found))
        return self.freeze(state, parameters, **self.more, **seen)

    def _moved(self, weights: FloatArray, parameters: Parameters) -> FrozenResidual:
        """Return the residual with other weights, with all that the delivered one has."""
        state, seen = self.exact.moved(weights), dict(self.observations)
        if "fitted" in seen:
            seen["fitted"] = self._weights(state, parameters).field(weights)
        return self._frozen(state, state, parameters, seen)

    def _frozen(
        self, model: State, state: State, parameters: Mapping[str, Any], seen: Mapping[str, Any]
    ) -> FrozenResidual:
        whole: dict[str, Any] = {}
        if not in_training():
            whole["objective"] = self._objective(state, parameters)
            whole["weights"] = self._weights(state, parameters)
        return self.freeze(model, parameters, **self.more, **seen, **whole)

    def _network(self, weights: FloatArray) -> Any:
        return self.exact.moved(weights).network()

    def _objective(self, state: State, parameters: Mapping[str, Any]) -> ModelObjective | None:
        if self.loss is None:
            return None
        return ModelObjective(
            Parameters(parameters),
            state.weights,
            at_stored_numbers(self.loss, self.unknowns),
            lambda weights, known: self.freeze(self.exact.moved(weights), known),
            self._network,
        )

    def _weights(self, state: State, parameters: Mapping[str, Any]) -> ModelWeights:
        equations, outputs, misfits, slot = self.functions(state)
        return ModelWeights(
            Parameters(parameters),
            state.weights,
            self.points,
            equations,
            outputs,
            self._moved,
            self._network,
            unknowns=self.unknowns,
            columns=self.columns,
            observed=self.observations.get("observed"),
            misfits=misfits,
            slot=slot,
        )


def _chosen(outputs: FloatArray, columns: Sequence[int] | NDArray[np.intp]) -> FloatArray:
    """Return columns of outputs, (n, m, ...); one of each row where they are an array."""
    if isinstance(columns, np.ndarray):
        return outputs[np.arange(len(outputs)), columns][:, None]
    return outputs[:, list(columns)]


def _vector(weights: Any) -> FloatArray:
    return np.asarray(weights, dtype=float)


def _joined(parts: Sequence[FloatArray]) -> FloatArray:
    """Return derivatives (N, m, k) as rows, equation after equation."""
    rows = [part.swapaxes(0, 1).reshape(-1, part.shape[2]) for part in parts]
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def _evaluated(what: str) -> Any:
    return explained(
        f"a {what} that can be evaluated and differentiated by the weights in float64",
        "convert its constants to double precision, and detach nothing on the way",
    )

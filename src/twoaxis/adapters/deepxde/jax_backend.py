"""DeepXDE on JAX: pure functions of the weights, the points and the unknowns."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np

from twoaxis.adapters.deepxde.backend import (
    ONE_AT_A_TIME,
    Backend,
    CompiledLoss,
    as_columns,
    error_of,
    misfits_of,
    rows_of,
)
from twoaxis.adapters.foreign import as_numpy, check_program, foreign
from twoaxis.adapters.jacobians import JaxFunction
from twoaxis.adapters.jets import FieldSlot
from twoaxis.adapters.model_loss import LossAt
from twoaxis.adapters.unknowns import JaxArithmetic, jax_jacobian
from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, kept_program
from twoaxis.parameters import Parameters


@final
class JaxProgram:
    """The compiled functions of a network and a PDE; weights, points and unknowns are arguments.

    So the model can be evaluated after every step of a training without compiling it again.
    """

    def __init__(self, jax: Any, net: Any, pde: Any, takes_unknowns: bool) -> None:
        self._jax, self.net, self.pde, self.takes_unknowns = jax, net, pde, takes_unknowns
        self.compiled = jax.jit(self.evaluate)
        self.compiled_slopes = jax.jit(self._slopes, static_argnums=2)
        self.compiled_field = jax.jit(lambda tree, at: net.apply(tree, at, training=False))

    def evaluate(self, weights: Any, points: Any, unknowns: list[Any]) -> list[Any]:
        """Return one array (N, m) per equation."""

        def outputs(inputs: Any) -> Any:
            return self.net.apply(weights, inputs, training=False)

        return self.equations_of(outputs, points, unknowns)

    def equations_of(
        self, outputs: Callable[[Any], Any], points: Any, unknowns: list[Any]
    ) -> list[Any]:
        """Return one array (N, m) per equation, for any outputs."""
        given = {"unknowns": unknowns} if self.takes_unknowns and unknowns else {}
        return as_columns(self.pde(points, (outputs(points), outputs), **given), len(points))

    def _slopes(self, weights: Any, points: Any, places: tuple[int, ...], base: list[Any]) -> Any:
        """Return derivatives by the numbers at these places."""

        def evaluate(*unknowns: Any) -> list[Any]:
            return self.evaluate(weights, points, list(unknowns))

        return jax_jacobian(self._jax, evaluate, base, places)


@final
@dataclass(frozen=True, eq=False)
class Inner:
    """A network without its output transform, and its weights."""

    net: Any
    tree: Any

    def __call__(self, inputs: Any) -> Any:
        """Return the outputs."""
        return self.net.apply(self.tree, inputs, training=False)


@final
@dataclass(frozen=True, eq=False)
class Transformed:
    """A network, or a field in its place, within its output transform."""

    inner: Any
    around: Callable[[Any, Any], Any] | None

    def __call__(self, inputs: Any) -> Any:
        """Return the outputs."""
        found = self.inner(inputs)
        return found if self.around is None else self.around(inputs, found)


@final
@dataclass(frozen=True, eq=False)
class FieldNetwork:
    """A field, called as networks of flax are; it has no tree of weights."""

    field: Callable[[Any], Any]

    def apply(self, tree: Any, inputs: Any, training: bool) -> Any:
        """Return the outputs."""
        del tree, training
        return self.field(inputs)


@final
class JaxBackend(Backend):
    """Pure functions: the weights are captured, and the PDE takes ``unknowns=``."""

    def __init__(self, dde: Any, model: Any, double: bool) -> None:
        self._dde, self._jax = dde, dde.backend.lib
        self.arithmetic = JaxArithmetic(self._jax)
        if model.data.auxiliary_var_fn is not None:
            raise InputError(
                "a PDE without auxiliary variables",
                "auxiliary_var_function, which DeepXDE does not support with JAX",
                "compute them inside the PDE",
            )
        pde, net, self._variable = model.data.pde, model.net, dde.Variable
        self._net = net
        self._program = kept_program(
            lambda known: isinstance(known, JaxProgram) and known.net is net and known.pde is pde,
            lambda: JaxProgram(self._jax, net, pde, dde.utils.get_num_args(pde) == 3),
        )
        leaves = self._jax.tree.leaves(model.net.params)
        self.own = str(leaves[0].dtype)
        self.precision = "float64" if double else self.own
        with self._exact():
            cast = self._cast
            self._weights = self._jax.tree.map(cast, model.net.params)
            self._held = [cast(each.value) for each in model.external_trainable_variables]
        self._losses: dict[int, tuple[CompiledLoss, Any]] = {}

    @contextmanager
    def _exact(self) -> Iterator[None]:
        """Allow float64 where the evaluation needs it, and clear DeepXDE's derivatives.

        DeepXDE caches derivatives by the ``id`` of arrays, which Python reuses.
        """
        with ONE_AT_A_TIME, self._jax.enable_x64(self.precision == "float64"):
            self._dde.gradients.clear()
            try:
                yield
            finally:
                self._dde.gradients.clear()

    def _cast(self, array: Any) -> Any:
        # Through NumPy, here and below, which compiles nothing.
        found = np.asarray(array)
        found = found if self.precision == self.own else found.astype(self.precision)
        return self._jax.numpy.asarray(found)

    def is_variable(self, given: Any) -> bool:
        """Tell whether this is a ``dde.Variable``."""
        return isinstance(given, self._variable)

    def value_of(self, variable: Any) -> FloatArray:
        """Return the value of a variable."""
        return as_numpy(variable.value)

    def _unknowns(self, stored: Mapping[Any, float]) -> list[Any]:
        number = self._jax.numpy.asarray
        return [
            number(np.full(held.shape, stored[place], held.dtype)) if place in stored else held
            for place, held in enumerate(self._held)
        ]

    def _points(self, points: FloatArray) -> Any:
        return self._jax.numpy.asarray(np.asarray(points, dtype=self.precision))

    def equations(self, points: FloatArray, stored: Mapping[Any, float]) -> list[FloatArray]:
        """Return one array (N, m) per equation."""
        with self._exact():
            where, unknowns = self._points(points), self._unknowns(stored)
            found = self._program.compiled(self._weights, where, unknowns)
            return [as_numpy(part) for part in found]

    def check_deterministic(self, points: FloatArray, stored: Mapping[Any, float]) -> None:
        """Refuse a PDE that draws random numbers when it is compiled."""
        with self._exact():
            arrays = self._weights, self._points(points), self._unknowns(stored)
            check_program(self._jax, "residual", self._program.evaluate, *arrays)

    def derivatives(self, points: FloatArray, stored: Mapping[Any, float]) -> list[FloatArray]:
        """Return one array (N, m, d) per equation, by forward mode."""
        with self._exact():
            where, base = self._points(points), self._unknowns(stored)
            found = self._program.compiled_slopes(self._weights, where, tuple(stored), base)
            return [as_numpy(part) for part in found]

    def field(self, points: FloatArray) -> FloatArray:
        """Return the outputs of the network."""
        with self._exact():
            return as_numpy(self._program.compiled_field(self._weights, self._points(points)))

    def _flat(self) -> tuple[Any, Any]:
        """Return the weights as one vector, and how a vector becomes weights again."""
        tools = foreign("jax.flatten_util", "deepxde", "twoaxis.from_deepxde")
        found: tuple[Any, Any] = tools.ravel_pytree(self._weights)
        return found

    @property
    def weights(self) -> FloatArray:
        """The weights of the network, one after another."""
        with self._exact():
            return as_numpy(self._flat()[0])

    def moved(self, weights: FloatArray) -> Self:
        """Return the same model with other weights."""
        other = copy.copy(self)
        with self._exact():
            other._weights = self._flat()[1](self._jax.numpy.asarray(weights, self.precision))
        return other

    def network(self) -> Any:
        """Return the tree of weights."""
        return self._weights

    def loss(
        self, compiled: CompiledLoss, weights: FloatArray, stored: Mapping[Any, float]
    ) -> LossAt:
        """Return the training loss, with its derivatives by weights and stored numbers."""
        with self._exact():
            if id(compiled) not in self._losses:
                self._losses[id(compiled)] = compiled, self._traced_loss(compiled)
            function = self._losses[id(compiled)][1]
            vector = self._jax.numpy.asarray(weights, self.precision)
            value, (by_weights, by_held) = function(vector, self._unknowns(stored))
            by_stored = [float(np.sum(as_numpy(by_held[place]))) for place in stored]
            return LossAt(float(value), as_numpy(by_weights), np.array(by_stored))

    def _traced_loss(self, compiled: CompiledLoss) -> Any:
        """Return the loss and its derivatives by the weights and all unknowns, compiled."""
        jax, data, unravel = self._jax, compiled.data, self._flat()[1]
        inputs = self._points(data.train_x)

        def loss(vector: Any, held: list[Any]) -> Any:
            tree = unravel(vector)

            def field(at: Any) -> Any:
                return self._net.apply(tree, at, training=False)

            parts = data.losses(
                None, field(inputs), compiled.functions, inputs, None, aux=[field, held]
            )
            losses = jax.numpy.asarray(parts)
            if compiled.factors is not None:
                losses = losses * jax.numpy.asarray(compiled.factors)
            total = losses.sum()
            if self._net.regularizer is not None:
                total = total + self._net.regularizer(jax.tree.leaves(tree["params"]))
            return total

        return jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))

    def _by_weights(
        self,
        places: Sequence[int],
        function: Callable[[Any, Any, list[Any]], Any],
        pointwise: bool = True,
    ) -> JaxFunction:
        """Return a function of the tree of weights, points and unknowns as one of weights."""
        with self._exact():
            unravel = self._flat()[1]

        def called(vector: Any, numbers: Any, points: Any) -> Any:
            # Cleared here as well: one program may contain several calls.
            self._dde.gradients.clear()
            return function(unravel(vector), points, self._with_numbers(places, numbers))

        return JaxFunction(self._jax, called, self._exact, pointwise=pointwise)

    def equations_by_weights(self, places: Sequence[int]) -> JaxFunction:
        """Return the equations, a column each, as a function of weights and numbers at places."""

        def equations(tree: Any, points: Any, unknowns: list[Any]) -> Any:
            return self._jax.numpy.concatenate(
                self._program.evaluate(tree, points, unknowns), axis=1
            )

        return self._by_weights(places, equations)

    def outputs_by_weights(self, places: Sequence[int]) -> JaxFunction:
        """Return the outputs of the network as a function of weights."""
        return self._by_weights(
            places, lambda tree, points, _: self._net.apply(tree, points, training=False)
        )

    def misfits_by_weights(
        self, data: Any, conditions: Sequence[int], places: Sequence[int]
    ) -> JaxFunction:
        """Return misfits of some conditions, (K, 1), whose squares have the sum of their means."""

        def misfits(tree: Any, _: Any, unknowns: list[Any]) -> Any:
            del unknowns  # DeepXDE passes them to the PDE alone
            inputs = self._points(data.train_x)
            outputs = self._net.apply(tree, inputs, training=False)
            return misfits_of(data, conditions, inputs, outputs, self._jax.numpy.concatenate)

        return self._by_weights(places, misfits, pointwise=False)

    def slot(
        self,
        data: Any,
        conditions: Sequence[int],
        places: Sequence[int],
        points: FloatArray,
        freeze: Callable[[Self, Parameters], FrozenResidual],
    ) -> FieldSlot | None:
        """Return the model with a place for any field; an output transform stays around it."""
        from twoaxis.adapters.jax_jets import Trained, jax_slot

        xp, around = self._jax.numpy, getattr(self._net, "_output_transform", None)
        alone = self._net if around is None else self._net.clone(_output_transform=None)
        with self._exact():
            flat, unravel = self._flat()
        weights = as_numpy(flat)
        rows = rows_of(data, conditions)

        def moved(vector: Any) -> Transformed:
            return Transformed(Inner(alone, unravel(vector)), around)

        def equations(model: Any, numbers: Any, at: Any) -> Any:
            with self._traced():
                unknowns = self._with_numbers(places, numbers)
                found = self._program.equations_of(model, at, unknowns)
                return xp.concatenate(found, axis=1)

        def misfits(model: Any, numbers: Any, at: Any) -> Any:
            del (
                numbers,
                at,
            )  # DeepXDE passes unknowns to the PDE alone; conditions know their points
            with self._traced():
                inputs = self._points(data.train_x)
                at_rows = model(inputs[rows])
                # Conditions know their points by their places among those of the training.
                outputs = xp.zeros((len(inputs), at_rows.shape[1]), at_rows.dtype)
                outputs = outputs.at[rows].set(at_rows)
                return misfits_of(data, conditions, inputs, outputs, xp.concatenate)

        def frozen(model: Any, known: Parameters) -> FrozenResidual:
            other, program = copy.copy(self), self._program
            other._net, other._weights = FieldNetwork(model), {}
            other._program = JaxProgram(self._jax, other._net, program.pde, program.takes_unknowns)
            return freeze(other, known)

        with self._exact():
            exact = moved(self._jax.numpy.asarray(weights))
        return jax_slot(
            Trained(
                exact,
                weights,
                moved,
                lambda part: weights.size * isinstance(part, (Transformed, Inner)),
            ),
            equations,
            lambda model, _, at: model(at),
            misfits if conditions else None,
            frozen,
            np.array([as_numpy(self._held[place]).item() for place in places]),
            points,
        )

    @contextmanager
    def _traced(self) -> Iterator[None]:
        """Clear DeepXDE's derivatives around the trace of a program."""
        with ONE_AT_A_TIME:
            self._dde.gradients.clear()
            try:
                yield
            finally:
                self._dde.gradients.clear()

    def _with_numbers(self, places: Sequence[int], numbers: Any) -> list[Any]:
        """Return the unknowns with numbers at places."""
        unknowns = list(self._held)
        for place, number in zip(places, numbers, strict=True):
            unknowns[place] = self._jax.numpy.full_like(unknowns[place], number)
        return unknowns

    def conditions_with(self, data: Any) -> dict[int, list[int]]:  # noqa: ARG002
        """Return nothing: with JAX, DeepXDE passes the unknowns to the PDE alone."""
        return {}

    def condition_by_weights(self, data: Any, condition: int, places: Sequence[int]) -> JaxFunction:
        """Return the error of one condition, (K, m), as a function of weights and numbers."""

        def error(tree: Any, _: Any, unknowns: list[Any]) -> Any:
            del unknowns
            inputs = self._points(data.train_x)
            outputs = self._net.apply(tree, inputs, training=False)
            return error_of(data, condition, inputs, outputs)

        return self._by_weights(places, error, pointwise=False)

    def errors(
        self, data: Any, conditions: Sequence[int], stored: Mapping[Any, float]
    ) -> list[FloatArray]:
        """Return the errors of some conditions at the points of the training, (K, m) each."""
        del stored
        with self._exact():
            inputs = self._points(data.train_x)
            outputs = self._net.apply(self._weights, inputs, training=False)
            return [as_numpy(error_of(data, n, inputs, outputs)) for n in conditions]

    def error_derivatives(
        self, data: Any, conditions: Sequence[int], stored: Mapping[Any, float]
    ) -> list[FloatArray]:
        """Return zeros: no condition contains an unknown."""
        return [
            np.zeros((*part.shape, len(stored))) for part in self.errors(data, conditions, stored)
        ]

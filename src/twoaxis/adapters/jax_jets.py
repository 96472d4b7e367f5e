r"""Any field in the place of a JAX model: `twoaxis.adapters.jets` for functions of JAX.

A model is called in many ways: with all points, with one of them under ``jax.vmap``, with a number
under ``jax.grad``, with its coordinates one by one. A field in its place takes whatever it takes,
and returns outputs in the same shapes (`JaxCore.shaped`). Where it is called is recorded by
callbacks, which see numbers whatever transformation surrounds them (`Recorder`).

What is replaced is the smallest part that holds all weights (`find_jax_core`). Its code cannot be
read, and conditions may be built into it: :math:`u = x (1 - x) N(x)` vanishes at both ends whatever
the weights are, and splines in its place would not. So there is no place for another field where a
value, a slope, or a difference of values at opposite ends does not change with the weights, or
where outputs and slopes at a point are linearly dependent for all weights (`has_built_in`). What is
no linear relation is not seen: an output that is positive by construction may become negative.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, partial
from math import factorial, prod
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from twoaxis.adapters.built_in import has_built_in
from twoaxis.adapters.foreign import FIELD_EXPECTED, FIELD_FIX, as_numpy, explained
from twoaxis.adapters.jets import (
    AGREEMENT,
    MAX_ORDER,
    FieldSlot,
    JetFunction,
    Linearized,
    Order,
)
from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameters
from twoaxis.splines import DEGREE, TensorSplines, orders_up_to

#: Points at which a program is evaluated at once: one program serves any number of them.
BLOCK = 256
#: Points that tell how a model is called.
FEW = 8
#: Weights by which derivatives are taken, at most, and how far they are moved, in their size.
MAX_WEIGHTS, MOVED = 256, 0.1
#: Values by jets are those of the network to this share of their terms.
SAME_VALUES = 1e-8

#: ``function(model, numbers, points)`` with values (N, E).
ModelFunction = Callable[[Any, Any, Any], Any]


def exact() -> AbstractContextManager[Any]:
    """Return a context in which arrays have double precision."""
    context: AbstractContextManager[Any] = jax.enable_x64(True)
    return context


@final
@jax.tree_util.register_pytree_node_class
class PlainField:
    """One everywhere, with the same slopes in all outputs: it stands where a field is to be put.

    It takes points (n, k), a point (k,), the coordinates one by one, or, of one variable, numbers.
    """

    def __init__(self, slopes: Any, outputs: int) -> None:
        self.slopes, self.outputs = slopes, outputs

    @classmethod
    def with_slopes(cls, slopes: FloatArray, outputs: int) -> PlainField:
        """Return a field with these slopes."""
        return cls(jnp.asarray(slopes), outputs)

    def __call__(self, *inputs: Any) -> Any:
        """Return the outputs, in the shape of the inputs without their coordinates."""
        size = self.slopes.size
        arrays = [jnp.asarray(each) for each in inputs]
        points = arrays[0] if len(arrays) == 1 else jnp.stack(arrays, axis=-1)
        numbers = size == 1 and len(arrays) == 1 and points.ndim < 2 and points.shape != (1,)
        lead = points.shape if numbers else points.shape[:-1]
        values = 1.0 + points.reshape(*lead, size) @ self.slopes[:, None] * jnp.ones(self.outputs)
        return values.reshape(lead) if numbers and self.outputs == 1 else values

    def tree_flatten(self) -> tuple[tuple[Any], int]:
        """Return the slopes, which are weights, and the number of outputs."""
        return (self.slopes,), self.outputs

    @classmethod
    def tree_unflatten(cls, outputs: int, children: tuple[Any]) -> PlainField:
        """Return a field of its parts."""
        return cls(*children, outputs)


# ---------------------------------------------------------------- the part that is replaced


@dataclass(frozen=True, eq=False)
class JaxCore:
    """The part of a model for which a field is put: itself, or a part that holds its weights.

    Attributes
    ----------
    model : Any
    path : tuple
        Names and indices that lead to the part; empty for the whole.
    shapes : tuple of tuple of int
        Of the inputs in a call at one place.
    options : mapping
        Further arguments of this call.
    shift, back : array, shape (k,), (k, k)
        It is called with ``inputs``, and ``(inputs - shift) @ back`` are points: the field is one
        of points, as all derivatives in its jets are.
    weigh : callable
        ``weigh(part)``: number of weights in a part of the model.
    """

    model: Any
    path: tuple[Any, ...]
    shapes: tuple[tuple[int, ...], ...]
    options: dict[str, Any]
    shift: FloatArray
    back: FloatArray
    weigh: Callable[[Any], int]

    @property
    def inputs(self) -> int:
        """Number of variables."""
        return len(self.shift)

    @cached_property
    def original(self) -> Any:
        """The part as it is."""
        return _part(self.model, self.path)

    @cached_property
    def outputs(self) -> int:
        """Number of components."""
        with exact():
            return int(jax.eval_shape(self.at, np.zeros(self.inputs)).size)

    def replaced(self, part: Any) -> Any:
        """Return the model with another callable in the place of the part."""
        return _replaced(self.model, self.path, part)

    def at(self, place: Any, original: Any = None) -> Any:
        """Return the outputs of the part at one place, flat, by default with its own weights."""
        called = self.shift + place @ np.linalg.inv(self.back)
        sizes = [prod(shape) for shape in self.shapes]
        parts = jnp.split(called, np.cumsum(sizes)[:-1])
        inputs = [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return (self.original if original is None else original)(*inputs, **self.options).ravel()

    def places(self, inputs: Sequence[Any]) -> Any:
        """Return the places of a call, (n, inputs)."""
        arrays = [jnp.asarray(each) for each in inputs]
        count, rest = divmod(sum(each.size for each in arrays), self.inputs)
        if rest or not count:
            raise TypeError(f"a model of {self.inputs} variables is called with {inputs}")
        rows = jnp.concatenate([each.reshape(count, -1) for each in arrays], axis=1)
        return (rows - self.shift) @ self.back

    def shaped(self, values: Any, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
        """Return values (n, m) in the shape in which the part returns its outputs."""

        def shape_of(*shapes: tuple[int, ...]) -> tuple[int, ...]:
            given = [np.empty(shape, values.dtype) for shape in shapes]
            found = jax.eval_shape(lambda *arrays: self.original(*arrays, **options), *given)
            return tuple(found.shape)

        called = [jnp.shape(each) for each in inputs]
        count, shape = len(values), shape_of(*called)
        if prod(shape) != values.size:
            raise TypeError(f"outputs of shape {shape} of a model at {count} places")
        if count == 1 or values.shape[1] == 1:
            return values.reshape(shape)
        if any(each[:1] != (count,) for each in called):
            lead = called[0][:-1]
            if len(called) > 1 or shape[: len(lead)] != lead:
                raise TypeError(f"inputs of shapes {called} of a model at {count} places")
            return values.reshape(shape)
        longer = shape_of(*((count + 1, *each[1:]) for each in called))
        axes = [n for n, (one, other) in enumerate(zip(shape, longer, strict=True)) if one != other]
        if len(axes) != 1 or shape[axes[0]] != count:
            raise TypeError(f"outputs of shape {shape} of a model at {count} places")
        rest = shape[: axes[0]] + shape[axes[0] + 1 :]
        return jnp.moveaxis(values.reshape(count, *rest), 0, axes[0])


def _part(model: Any, path: Sequence[Any]) -> Any:
    for key in path:
        model = model[key] if isinstance(model, (tuple, list, dict)) else vars(model)[key]
    return model


def _replaced(model: Any, path: Sequence[Any], part: Any) -> Any:
    if not path:
        return part
    key, rest = path[0], path[1:]
    inner = _replaced(_part(model, [key]), rest, part)
    if isinstance(model, (tuple, list)):
        return type(model)(inner if n == key else each for n, each in enumerate(model))
    if isinstance(model, dict):
        return {**model, key: inner}
    found = copy.copy(model)
    object.__setattr__(found, key, inner)  # a module of equinox is frozen
    return found


def _split(inputs: Sequence[Any], options: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arrays of a call, and its further arguments."""
    if any(isinstance(each, (bool, str)) or each is None for each in inputs):
        raise TypeError("a model that is called with coordinates alone, and options by name")
    if any(hasattr(each, "dtype") for each in options.values()):
        raise TypeError("a model that is called with arrays by name")
    return list(inputs), options


class Recorder:
    """A part of a model that keeps where it is called, and what of it is asked for.

    Parameters
    ----------
    original : callable
    places : callable
        ``places(inputs)``: what is kept of a call; all numbers in a row by default.
    """

    def __init__(self, original: Any, places: Callable[[Sequence[Any]], Any] | None = None) -> None:
        self._original, self._places = original, places or _row
        self._point: Any = np.zeros(())
        self.calls: list[tuple[FloatArray, FloatArray]] = []
        self.shapes: list[tuple[tuple[int, ...], ...]] = []
        self.options: list[dict[str, Any]] = []
        self.read: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        found = _attribute(self._original, name)
        self.read.append(found)
        return found

    def at(self, point: Any) -> Recorder:
        """Keep this point along with calls."""
        self._point = point
        return self

    def reads_weights(self, weigh: Callable[[Any], int]) -> bool:
        """Whether something was asked for that holds weights or may use them."""
        return any(callable(each) or weigh(each) for each in self.read)

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Return the outputs, and keep where they were asked for."""
        arrays, options = _split(inputs, options)
        self.shapes.append(tuple(jnp.shape(each) for each in arrays))
        self.options.append(options)
        io_callback(
            lambda rows, point: self.calls.append((as_numpy(rows), as_numpy(point))),
            None,
            jax.lax.stop_gradient(self._places(arrays)),
            self._point,
        )
        return self._original(*inputs, **options)


def _row(inputs: Sequence[Any]) -> Any:
    return jnp.concatenate([jnp.asarray(each, "float64").ravel() for each in inputs])


jax.tree_util.register_pytree_node(Recorder, lambda each: ((), each), lambda each, _: each)


def _attribute(original: Any, name: str) -> Any:
    # Libraries ask an object what it is, and equinox whether it has a mode of inference.
    if name.startswith("_") or name == "inference":
        raise AttributeError(name)
    return getattr(original, name)


def _wait() -> None:
    """Wait until all callbacks have been made."""
    barrier: Callable[[], None] = jax.effects_barrier
    barrier()


def _recorded(
    recorder: Recorder, model: Any, function: ModelFunction, numbers: Any, points: FloatArray
) -> None:
    """Evaluate a function at points, one by one, with a recorder in the model."""

    def one(values: Any, point: Any) -> Any:
        recorder.at(point)
        return function(model, values, point[None])

    with exact():
        arrays = (jnp.asarray(each, "float64") for each in (numbers, points))
        as_numpy(jax.jit(jax.vmap(one, (None, 0)))(*arrays))
        _wait()


def find_jax_core(
    model: Any,
    weigh: Callable[[Any], int],
    function: ModelFunction,
    numbers: FloatArray,
    points: FloatArray,
) -> JaxCore | None:
    """Return the smallest part of a model that a field can replace, or None.

    It holds all weights, so that whatever is around it stays: scaled inputs, outputs that obey a
    condition by construction. It is called with points, or one affine function of them, and
    nothing else of it is read that holds weights or can be called.

    Parameters
    ----------
    model : callable
    weigh : callable
        ``weigh(part)``: number of weights in a part.
    function : callable
        Calls the model at points.
    numbers : array
    points : array
        A few.
    """
    found, path, whole = None, tuple[Any, ...](), weigh(model)
    while True:
        part = _part(model, path)
        if callable(part):
            recorder = Recorder(part)
            try:
                _recorded(recorder, _replaced(model, path, recorder), function, numbers, points)
            except Exception:  # a user's code that cannot be called so
                recorder.calls.clear()
            described = _described(model, path, recorder, weigh)
            if described is not None:
                found = described
            elif path and recorder.calls:
                return found  # it is called with something else than points
        inner = [key for key, each in _children(part) if weigh(each) == whole]
        if len(inner) != 1:
            return found
        path = (*path, inner[0])


def _children(part: Any) -> list[tuple[Any, Any]]:
    if isinstance(part, (tuple, list)):
        return list(enumerate(part))
    if isinstance(part, dict):
        return list(part.items())
    every = vars(part) if hasattr(part, "__dict__") else {}
    return [(name, each) for name, each in every.items() if not hasattr(each, "dtype")]


def _described(
    model: Any, path: tuple[Any, ...], recorder: Recorder, weigh: Callable[[Any], int]
) -> JaxCore | None:
    """Return the part as a core if every call is one of points, or of one affine function."""
    if not recorder.calls or recorder.reads_weights(weigh):
        return None
    width = recorder.calls[0][1].size
    if any(row.size != width for row, _ in recorder.calls):
        return None
    rows, points = (np.stack(each) for each in zip(*recorder.calls, strict=True))
    constant = np.column_stack([np.ones(len(points)), points])
    affine = np.linalg.lstsq(constant, rows, rcond=None)[0]
    exactly = np.abs(constant @ affine - rows).max() <= AGREEMENT * np.abs(rows).max()
    if not exactly or np.linalg.matrix_rank(affine[1:]) < width:
        return None
    if np.linalg.matrix_rank(constant) <= width:
        return None
    affine[np.abs(affine) <= AGREEMENT * np.abs(affine).max(axis=0)] = 0.0  # rounding
    if np.abs(rows - points).max() <= AGREEMENT * np.abs(rows).max():
        affine = np.eye(width + 1, width, k=-1)
    back = np.linalg.inv(affine[1:])
    return JaxCore(model, path, recorder.shapes[0], recorder.options[0], affine[0], back, weigh)


# ---------------------------------------------------------------- fields


class JaxField:
    """A field in the place of a part, called as this is; a tree of its arrays, for JAX.

    Parameters
    ----------
    core : JaxCore
        The part for which it stands, whose attributes it has.
    """

    def __init__(self, core: JaxCore) -> None:
        self._core = core

    def __getattr__(self, name: str) -> Any:
        return _attribute(self._core.original, name)

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Return the values in the shape of the outputs of the part."""
        arrays, options = _split(inputs, options)
        values = self._values(self._core.places(arrays))
        return self._core.shaped(values, arrays, options)

    def _values(self, places: Any) -> Any:
        """Return the values at places, (n, m)."""
        raise NotImplementedError


@final
class JetField(JaxField):
    """A field with given jets.

    Parameters
    ----------
    core : JaxCore
    orders : sequence of tuple of int
    jets : array, shape (orders, m) or (orders, P, m)
        The same at all places, or those of each.
    where : array, shape (P, inputs), optional
        The places.
    """

    def __init__(
        self, core: JaxCore, orders: Sequence[Order], jets: Any, where: Any = None
    ) -> None:
        super().__init__(core)
        self._orders, self._jets, self._where = tuple(orders), jets, where

    def _values(self, places: Any) -> Any:
        return jax.vmap(self._at)(places)

    def _at(self, place: Any) -> Any:
        fixed = jax.lax.stop_gradient(place)
        jets = self._jets
        if self._where is not None:
            jets = jets[:, jnp.argmin(((self._where - fixed) ** 2).sum(axis=1))]
        powers = np.array(self._orders)
        terms = 1.0 / np.array([prod(map(factorial, order)) for order in self._orders])
        for j, along in enumerate(powers.T):
            terms = terms * _powers((place - fixed)[j], int(along.max()))[along]
        return terms @ jets


def _flat_jets(each: JetField) -> tuple[tuple[Any, Any], tuple[JaxCore, tuple[Order, ...]]]:
    return (each._jets, each._where), (each._core, each._orders)


jax.tree_util.register_pytree_node(
    JetField, _flat_jets, lambda fixed, arrays: JetField(*fixed, *arrays)
)


def _powers(number: Any, most: int) -> Any:
    """Return powers from 0 on, whose derivatives are finite at 0."""
    found = [jnp.ones_like(number)]
    for _ in range(most):
        found.append(found[-1] * number)
    return jnp.stack(found)


@final
class SplineField(JaxField):
    """A field of splines, evaluated by JAX; beyond their ends, the outer polynomials go on."""

    def __init__(self, core: JaxCore, splines: TensorSplines, coefficients: FloatArray) -> None:
        super().__init__(core)
        self._axes = [(axis.breaks, axis.pieces) for axis in splines.axes]
        self._coefficients = coefficients.reshape(*splines.shape, -1)
        self._first = self  # of all fields on these splines: what they have in common

    def _values(self, places: Any) -> Any:
        return _of_splines(self._axes, self._coefficients, places)

    def with_coefficients(self, coefficients: Any) -> SplineField:
        """Return another field on the same splines."""
        found = object.__new__(SplineField)  # no copy asks the original for attributes
        found.__dict__.update(self.__dict__, _coefficients=coefficients)
        return found


@jax.jit
@partial(jax.vmap, in_axes=(None, None, 0))
def _of_splines(axes: Sequence[tuple[Any, Any]], coefficients: Any, place: Any) -> Any:
    """Return a field of splines at one place, (m,), from breaks and pieces of its axes."""
    cells, basis = [], []
    for number, (breaks, pieces) in zip(place, axes, strict=True):
        cell = jnp.searchsorted(breaks, jax.lax.stop_gradient(number), side="right") - 1
        cell = jnp.clip(cell, 0, len(pieces) - 1)
        inside = (number - breaks[cell]) / (breaks[cell + 1] - breaks[cell])
        cells.append(cell)
        basis.append(pieces[cell] @ _powers(inside, DEGREE))
    shape = (*[DEGREE + 1] * len(cells), coefficients.shape[-1])
    found = jax.lax.dynamic_slice(coefficients, (*cells, jnp.zeros_like(cells[0])), shape)
    for each in basis:
        found = jnp.tensordot(each, found, axes=1)
    return found


# Coefficients are its weights: what was refined can be refined again.
jax.tree_util.register_pytree_node(
    SplineField,
    lambda each: ((each._coefficients,), each._first),
    lambda first, children: first.with_coefficients(*children),
)


# ---------------------------------------------------------------- functions of jets


@final
class JaxJets(JetFunction):
    """A function ``function(model, numbers, points)`` whose model is replaced by jets.

    A pointwise one is evaluated point by point, vectorized: the part is called at the point alone.
    Any other is evaluated at all points, with the places recorded at which it calls the part.

    Parameters
    ----------
    function : callable
        Evaluated in double precision.
    core : JaxCore
    pointwise : bool
    """

    def __init__(self, function: ModelFunction, core: JaxCore, *, pointwise: bool) -> None:
        self._function, self.core = function, core
        self.inputs, self.outputs, self.pointwise = core.inputs, core.outputs, pointwise
        self._programs: dict[tuple[Order, ...], tuple[Any, Any]] = {}
        self._asked: tuple[FloatArray, FloatArray] | None = None
        self._checked = pointwise
        self._of_network = jax.jit(lambda *arrays: function(core.model, *arrays))

    def places(self, numbers: FloatArray, points: FloatArray) -> FloatArray:
        """Return the points, or where the part is called, each place once."""
        if self.pointwise:
            return points
        if self._asked is None or not np.array_equal(self._asked[0], points):
            self._asked = points, self._recorded(numbers, points)
            if not self._checked:
                self._check(numbers, points)
        return self._asked[1]

    def _recorded(self, numbers: FloatArray, points: FloatArray) -> FloatArray:
        """Return where the part is called."""
        core = self.core
        recorder = Recorder(core.original, core.places)
        called = jax.jit(lambda *arrays: self._function(core.replaced(recorder), *arrays))
        with exact(), explained(FIELD_EXPECTED, FIELD_FIX):
            as_numpy(called(*(jnp.asarray(each, "float64") for each in (numbers, points))))
            _wait()
        if not recorder.calls or recorder.reads_weights(core.weigh):
            raise InputError(
                "a function of the outputs of the model",
                "one that reads its weights, or does not call it",
                "compute what was observed from what the model returns",
            )
        return np.unique(np.concatenate([rows for rows, _ in recorder.calls]), axis=0)

    def _check(self, numbers: FloatArray, points: FloatArray) -> None:
        """Refuse, once, a function that is not one of the field in the place of the network."""
        self._checked = True
        if not agrees(self, numbers, points):
            raise InputError(
                "a function that takes any field in the place of the model",
                "other values for a field with the derivatives of the model",
                "compute what was observed from what the model returns",
            )

    def of_network(self, numbers: FloatArray, points: FloatArray) -> FloatArray:
        """Return the values with the trained network."""
        with exact():
            arrays = (jnp.asarray(each, "float64") for each in (numbers, points))
            return as_numpy(self._of_network(*arrays))

    def values(
        self, jets: FloatArray, orders: Sequence[Order], numbers: FloatArray, points: FloatArray
    ) -> FloatArray:
        """Return the values."""
        return self._run(self._compiled(orders)[0], jets, numbers, points)[0]

    def linearized(
        self, jets: FloatArray, orders: Sequence[Order], numbers: FloatArray, points: FloatArray
    ) -> Linearized:
        """Return values and derivatives, by reverse mode."""
        program = self._compiled(orders)[1]
        values, by_jets, by_numbers = self._run(program, jets, numbers, points)
        if self.pointwise:  # (N, E, A, m)
            return Linearized(values, by_jets.transpose(2, 0, 1, 3), by_numbers)
        return Linearized(values, by_jets.reshape(values.size, *jets.shape), by_numbers)

    def _compiled(self, orders: Sequence[Order]) -> tuple[Any, Any]:
        core, key = self.core, tuple(orders)

        def whole(jets: Any, numbers: Any, points: Any, where: Any) -> Any:
            model = core.replaced(JetField(core, key, jets, where))
            found = self._function(model, numbers, points)
            return found, found

        def one(jets: Any, numbers: Any, point: Any) -> Any:
            found = whole(jets, numbers, point[None], None)[0][0]
            return found, found

        def values(*arrays: Any) -> tuple[Any]:
            return ((one if self.pointwise else whole)(*arrays)[0],)

        def both(*arrays: Any) -> tuple[Any, Any, Any]:
            function = one if self.pointwise else whole
            slopes, found = jax.jacrev(function, argnums=(0, 1), has_aux=True)(*arrays)
            return found, *slopes

        if key not in self._programs:
            programs: list[Callable[..., Any]] = [values, both]
            if self.pointwise:
                programs = [jax.vmap(each, (1, None, 0)) for each in programs]
            self._programs[key] = jax.jit(programs[0]), jax.jit(programs[1])
        return self._programs[key]

    def _run(
        self, program: Any, jets: FloatArray, numbers: FloatArray, points: FloatArray
    ) -> list[FloatArray]:
        if not self.pointwise:
            return _called(program, jets, numbers, points, self.places(numbers, points))
        return _by_blocks(lambda jet, at: _called(program, jet, numbers, at), jets, points)


def _called(program: Any, *arrays: FloatArray) -> list[FloatArray]:
    with exact():
        found = program(*(jnp.asarray(each, "float64") for each in arrays))
        return [as_numpy(each) for each in found]


def _by_blocks(
    call: Callable[[FloatArray, FloatArray], list[FloatArray]], jets: FloatArray, points: FloatArray
) -> list[FloatArray]:
    """Call a function of jets (orders, N, m) and points (N, k) with as many of them each time."""
    count = len(points)
    rows = np.minimum(np.arange(-(-count // BLOCK) * BLOCK), count - 1).reshape(-1, BLOCK)
    found = [call(jets[:, each], points[each]) for each in rows]
    return [np.concatenate(parts)[:count] for parts in zip(*found, strict=True)]


def network_jets(core: JaxCore, places: FloatArray, orders: Sequence[Order]) -> FloatArray:
    """Return derivatives of the trained network, (orders, P, m)."""

    def jets(place: Any) -> Any:
        return jnp.stack([_derivative(core.at, order)(place) for order in orders])

    with exact():
        found = jax.jit(jax.vmap(jets, out_axes=1))(jnp.asarray(places, "float64"))
        return as_numpy(found)


def _derivative(function: Callable[[Any], Any], order: Order) -> Callable[[Any], Any]:
    for j, times in enumerate(order):
        along = np.eye(len(order))[j]
        for _ in range(times):
            function = _slope(function, along)
    return function


def _slope(function: Callable[[Any], Any], along: FloatArray) -> Callable[[Any], Any]:
    return lambda place: jax.jvp(function, (place,), (jnp.asarray(along),))[1]


# ---------------------------------------------------------------- what an adapter returns


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained JAX model, for `jax_slot`.

    Attributes
    ----------
    model : callable
        In double precision.
    weights : array
    moved : callable
        ``moved(weights)``: the model with other weights, which may be traced.
    weigh : callable
        ``weigh(part)``: number of weights in a part of the model.
    """

    model: Any
    weights: FloatArray
    moved: Callable[[Any], Any]
    weigh: Callable[[Any], int]


def jax_slot(
    trained: Trained,
    equations: ModelFunction,
    observed: ModelFunction,
    conditions: ModelFunction | None,
    freeze: Callable[[Any, Parameters], FrozenResidual],
    numbers: FloatArray,
    points: FloatArray,
) -> FieldSlot | None:
    """Return a JAX model with a place for any field, or None where it has none.

    Parameters
    ----------
    trained : Trained
    equations, observed, conditions : callable
        ``function(model, numbers, points)`` with values (N, E).
    freeze : callable
        ``freeze(model, parameters)``.
    numbers : array
        At which the functions are tried.
    points : array, shape (N, k)
    """
    if not callable(trained.model):
        return None
    generator = np.random.default_rng(0)
    few = points[generator.permutation(len(points))[:FEW]]
    core = find_jax_core(trained.model, trained.weigh, equations, numbers, few)
    if core is None or not _free(core, trained, points):
        return None

    def jets(function: ModelFunction) -> JaxJets | None:
        try:
            if called_at_points(function, core, numbers, few):
                found = JaxJets(function, core, pointwise=True)
                return found if agrees(found, numbers, few) else None
        except Exception:  # a user's code that knows its own points alone
            return None
        return None

    def observing(of: Callable[[Any, Any], Any]) -> JaxJets:
        def call(model: Any, _: Any, at: Any) -> Any:
            return jnp.asarray(of(model, at)).reshape(len(at), -1)

        found = jets(call)
        return JaxJets(call, core, pointwise=False) if found is None else found

    def network(places: FloatArray) -> FloatArray:
        return np.asarray(network_jets(core, places, [(0,) * core.inputs])[0])

    def frozen(
        splines: TensorSplines, coefficients: FloatArray, known: Parameters
    ) -> FrozenResidual:
        return freeze(core.replaced(SplineField(core, splines, coefficients)), known)

    equation_jets = jets(equations)
    if equation_jets is None:
        return None
    condition_jets = None
    if conditions is not None:
        condition_jets = JaxJets(conditions, core, pointwise=False)
        try:
            condition_jets.places(numbers, np.zeros((1, 1)))
        except Exception:  # a user's code that does not take another field
            return None
    return FieldSlot(
        [equation_jets],
        jets(observed) or JaxJets(observed, core, pointwise=False),
        observing,
        condition_jets,
        network,
        frozen,
    )


def _free(core: JaxCore, trained: Trained, points: FloatArray) -> bool:
    """Whether no condition is built into the part of a model."""

    def outputs(weights: Any, place: Any) -> Any:
        return core.at(place, _part(trained.moved(weights), core.path))

    if isinstance(core.original, PlainField | SplineField):
        return True
    try:
        changes = _Changes(outputs, trained.weights)
        return not has_built_in(changes, points.min(axis=0), points.max(axis=0))
    except Exception:  # a model that cannot be called so
        return False


@final
class _Changes:
    """Derivatives by weights of outputs and slopes, (n, 1 + k, m, W), at LINE places at once."""

    def __init__(self, outputs: Callable[[Any, Any], Any], weights: FloatArray) -> None:
        generator = np.random.default_rng(1)
        size = float(np.sqrt((weights**2).mean())) or 1.0
        moved = weights + MOVED * size * generator.standard_normal(weights.size)
        chosen = generator.permutation(weights.size)[:MAX_WEIGHTS]

        def jets(change: Any, place: Any) -> Any:
            vector = jnp.asarray(moved).at[chosen].add(change)
            slopes = jax.jacfwd(lambda at: outputs(vector, at))(place)  # (m, k)
            return jnp.concatenate([outputs(vector, place)[None], slopes.T])

        rows = jax.vmap(jax.jacrev(jets), (None, 0))
        self._compiled = jax.jit(lambda places: rows(jnp.zeros(len(chosen)), places))

    def __call__(self, places: FloatArray) -> FloatArray:
        with jax.enable_x64(True):
            return as_numpy(self._compiled(jnp.asarray(places, "float64")))


def called_at_points(
    function: ModelFunction, core: JaxCore, numbers: FloatArray, points: FloatArray
) -> bool:
    """Whether a function calls the part at its own points alone, whatever the numbers are."""
    recorder = Recorder(core.original, core.places)
    other = 1.01 * numbers + 1e-3 * (numbers == 0)
    _recorded(recorder, core.replaced(recorder), function, other, points)
    if recorder.reads_weights(core.weigh):
        return False
    size = np.abs(points).max()
    return all(np.abs(rows - point).max() <= AGREEMENT * size for rows, point in recorder.calls)


def agrees(function: JaxJets, numbers: FloatArray, points: FloatArray) -> bool:
    """Whether the jets of the trained network give the values of the network itself."""
    places = function.places(numbers, points)
    orders = function.orders_used(numbers, points, 1.0)
    if not orders:  # none, or more than splines have, which is said elsewhere
        orders = orders_up_to(function.inputs, MAX_ORDER + 1)
    jets = network_jets(function.core, places, orders)
    found = function.linearized(jets, orders, numbers, points)
    wanted = function.of_network(numbers, points)
    one = "apem,apm->pe" if function.pointwise else "rapm,apm->r"
    terms = np.einsum(one, np.abs(found.by_jets), np.abs(jets))
    size = max(float(terms.max(initial=0.0)), float(np.abs(wanted).max(initial=0.0)))
    if wanted.shape != found.values.shape:
        return False
    return float(np.abs(wanted - found.values).max()) <= SAME_VALUES * size

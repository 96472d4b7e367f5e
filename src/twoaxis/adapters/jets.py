r"""Functions of a network, taken as functions of the jets of any field in its place.

A residual sees the network only through values and derivatives at places,
:math:`U_\alpha = \partial^\alpha u(z_n)`. The field

.. math:: z \mapsto \sum_\alpha U_{\alpha n} \frac{(z - \mathrm{sg}(z))^\alpha}{\alpha!}

with sg, which stops the gradient, has just these derivatives under automatic differentiation, and
nothing else of it is ever used. So with the jets as leaves, one backward pass returns
:math:`\partial r / \partial U` at all places, whatever the field is made of: splines are linear in
their coefficients, and the Jacobian follows from a sparse matrix for each order.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import factorial, prod
from typing import Any, NamedTuple, final

import numpy as np

from twoaxis.adapters.built_in import has_built_in
from twoaxis.adapters.foreign import as_numpy
from twoaxis.adapters.jacobians import TorchFunction
from twoaxis.adapters.unknowns import torch_jacobian
from twoaxis.arrays import FloatArray
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameters
from twoaxis.splines import TensorSplines, orders_up_to

#: Derivatives that a residual may take of the field: splines of degree 5 have them.
MAX_ORDER = 4
#: Derivatives of the values by the jets agree with those of a weighted sum to this share.
AGREEMENT = 1e-9
#: Points at which a module is called, to see with what it calls its parts.
PROBES = 64

#: Coefficients below this share of the largest are due to rounding.
ROUNDING = 1e-12
#: Weights that tell of conditions that are built in, and how far they are moved, in their size.
DIRECTIONS, MOVED = 16, 0.1

Order = tuple[int, ...]
#: ``supply(module, places)`` returns derivatives of a field there, tensors (orders, P, outputs).
Supply = Callable[[Any, FloatArray], Any]


class Linearized(NamedTuple):
    """Values and their derivatives.

    Attributes
    ----------
    values : array, shape (N, E)
    by_jets : array
        By the jets: (orders, P, E, m) where row n depends on the places n, n + N, ... alone, else
        (N E, orders, P, m).
    by_numbers : array, shape (N, E, d)
    """

    values: FloatArray
    by_jets: FloatArray
    by_numbers: FloatArray


class JetFunction(ABC):
    """A function of the jets of a field, of numbers and of points, with values (N, E).

    Attributes
    ----------
    inputs, outputs : int
        Numbers of variables of the field, and of its components.
    pointwise : bool
        Whether a row depends on the jets of its own places alone.
    """

    inputs: int
    outputs: int
    pointwise: bool

    @abstractmethod
    def places(self, numbers: FloatArray, points: FloatArray) -> FloatArray:
        """Return where the field is asked, (P, inputs), call after call."""

    @abstractmethod
    def linearized(
        self, jets: FloatArray, orders: Sequence[Order], numbers: FloatArray, points: FloatArray
    ) -> Linearized:
        """Return values and derivatives; jets (orders, P, outputs)."""

    @abstractmethod
    def values(
        self, jets: FloatArray, orders: Sequence[Order], numbers: FloatArray, points: FloatArray
    ) -> FloatArray:
        """Return the values alone, (N, E)."""

    @abstractmethod
    def of_network(self, numbers: FloatArray, points: FloatArray) -> FloatArray:
        """Return the values with the trained network itself, (N, E)."""

    def count(self, numbers: FloatArray, points: FloatArray) -> int:
        """Return the number of values at each point."""
        places = self.places(numbers, points)
        jets = np.ones((1, len(places), self.outputs))
        return int(self.values(jets, [(0,) * self.inputs], numbers, points).shape[1])

    def stays(self, numbers: FloatArray, points: FloatArray) -> bool:
        """Whether the field is asked at the same places whatever the numbers are."""
        other = 1.01 * numbers + 1e-3 * (numbers == 0)
        here, there = self.places(numbers, points), self.places(other, points)
        return np.array_equal(here, there)

    def orders_used(self, numbers: FloatArray, points: FloatArray, size: float) -> list[Order]:
        """Return the derivatives that the function takes; none where it takes higher ones.

        Parameters
        ----------
        size : float
            Of a typical value of the field, of which random jets are made.
        """
        every = orders_up_to(self.inputs, MAX_ORDER + 1)
        where = self.places(numbers, points)
        generator = np.random.default_rng(0)
        jets = size * generator.uniform(0.5, 1.5, (len(every), len(where), self.outputs))
        slopes = self.linearized(jets, every, numbers, points).by_jets
        axis = 0 if self.pointwise else 1
        rest = tuple(k for k in range(slopes.ndim) if k != axis)
        used = (np.nan_to_num(slopes) != 0).any(axis=rest)  # some random jets may have no value
        found = [order for order, each in zip(every, used, strict=True) if each]
        return [] if any(sum(order) > MAX_ORDER for order in found) else found


# ---------------------------------------------------------------- PyTorch


@dataclass(frozen=True, eq=False)
class TorchCore:
    """The part of a module for which a field is put: itself, or a submodule that holds its weights.

    Attributes
    ----------
    torch : module
    module : torch.nn.Module
    path : str
        Of the part; empty for the whole.
    shift, back : array, shape (k,), (k, k)
        It is called with ``inputs``, and ``(inputs - shift) @ back`` are points: the field is one
        of points, as all derivatives in its jets are.
    tail : tuple of int
        Shape of its output without the axis of the points.
    kind : type
        Of its output: a class of tensors.
    """

    torch: Any
    module: Any
    path: str
    shift: FloatArray
    back: FloatArray
    tail: tuple[int, ...]
    kind: Any

    @property
    def inputs(self) -> int:
        """Number of variables."""
        return len(self.shift)

    @property
    def outputs(self) -> int:
        """Number of components."""
        return prod(self.tail)

    def replaced(self, field: Any) -> Any:
        """Return a module with another field in the place of the core."""
        if not self.path:
            return field
        *above, name = self.path.split(".")
        found = copy.copy(self.module)
        part = found
        part._modules = dict(part._modules)
        for each in above:
            inner = copy.copy(part._modules[each])
            inner._modules = dict(inner._modules)
            part._modules[each] = inner
            part = inner
        part._modules[name] = field
        return found

    @cached_property
    def original(self) -> Any:
        """The core as it is."""
        return self.module.get_submodule(self.path)

    def field(self, supply: Supply, orders: Sequence[Order]) -> Any:
        """Return a module with the jets ``supply(module, places)``, (orders, n, outputs)."""
        return self._field_class(supply, orders).eval()

    @cached_property
    def _field_class(self) -> Any:
        """Modules that stand for the core: one class for all evaluations."""
        torch: Any = self.torch
        original, tail, kind = self.original, self.tail, self.kind
        shift, back = (torch.tensor(each) for each in (self.shift, self.back))

        class Field(torch.nn.Module):  # type: ignore[misc]
            def __init__(self, supply: Supply, orders: Sequence[Order]) -> None:
                super().__init__()
                self._supply, self._orders = supply, orders

            def forward(self, *inputs: Any) -> Any:
                plain = [each.as_subclass(torch.Tensor) for each in inputs]
                called = torch.cat([each.reshape(len(each), -1) for each in plain], dim=1)
                rows = (called - shift) @ back
                fixed = rows.detach()
                jets = self._supply(self, as_numpy(fixed))
                moved = (rows - fixed).unbind(dim=1)
                # Zero, and so are its derivatives of any order: the graph of what is never used.
                total = 0.0 * torch.exp(rows - fixed).sum(dim=1, keepdim=True)
                for order, jet in zip(self._orders, jets, strict=True):
                    terms = [moved[j] for j, times in enumerate(order) for _ in range(times)]
                    scale = prod(map(factorial, order))
                    total = total + (jet * (prod(terms) / scale)[:, None] if terms else jet)
                return total.reshape(len(rows), *tail).as_subclass(kind)

            def __getattr__(self, name: str) -> Any:
                # A residual may ask the module for more than its outputs.
                try:
                    return super().__getattr__(name)
                except AttributeError:
                    return getattr(original, name)

        return Field


def find_torch_core(
    torch: Any, module: Any, names: Sequence[str], evaluate: Callable[[], Any], points: FloatArray
) -> TorchCore | None:
    """Return the smallest part of a module that a field can replace, or None.

    It holds all weights that move, so that whatever is around it stays: scaled inputs, outputs
    that obey a condition by construction. It is called with points, or affine functions of them.

    Parameters
    ----------
    names : sequence of str
        Of the weights that move.
    evaluate : callable
        Calls the module at the points.
    """
    found, path = None, ""
    while True:
        part = module.get_submodule(path)
        seen = _seen(torch, part, evaluate)
        described = None if seen is None else _described(torch, module, path, seen, points)
        if described is not None:
            found = described
        elif path and seen:
            return found  # it is called with something else than points
        inner = [
            name
            for name, _ in part.named_children()
            if all(each.startswith(f"{path}.{name}.".lstrip(".")) for each in names)
        ]
        if len(inner) != 1:
            return found
        path = f"{path}.{inner[0]}".lstrip(".")


def _seen(torch: Any, part: Any, evaluate: Callable[[], Any]) -> list[tuple[Any, Any]] | None:
    """Return inputs and output of each call of a part; None where it returns no tensor."""
    calls: list[tuple[Any, Any]] = []
    handle = part.register_forward_hook(
        lambda _, inputs, output: calls.append((inputs, output)), always_call=False
    )
    try:
        evaluate()
    finally:
        handle.remove()
    tensors = (each for inputs, output in calls for each in (*inputs, output))
    return calls if all(isinstance(each, torch.Tensor) for each in tensors) else None


def _described(
    torch: Any, module: Any, path: str, calls: list[tuple[Any, Any]], points: FloatArray
) -> TorchCore | None:
    """Return the part as a core if every call is one of points, or of affine functions of them."""
    count, width = points.shape
    constant = np.column_stack([np.ones(count), points])
    if np.linalg.matrix_rank(constant) <= width:  # all on a line: many functions would do
        return None
    found = None
    for inputs, output in calls:
        if not inputs or any(each.ndim == 0 or len(each) != count for each in inputs):
            return None
        rows = np.concatenate([as_numpy(each).reshape(count, -1) for each in inputs], axis=1)
        affine = np.linalg.lstsq(constant, rows, rcond=None)[0]
        affine[np.abs(affine) < ROUNDING * np.abs(affine).max()] = 0.0
        exact = np.abs(constant @ affine - rows).max() <= AGREEMENT * np.abs(rows).max()
        fits = output.ndim in (1, 2) and len(output) == count and rows.shape[1] == width
        if not (exact and fits) or np.linalg.matrix_rank(affine[1:]) < width:
            return None
        tail = tuple(output.shape[1:])
        if found is None:
            back, kind = np.linalg.inv(affine[1:]), type(output)
            found = TorchCore(torch, module, path, affine[0], back, tail, kind)
        if found.tail != tail:
            return None
    return found


def is_free(core: TorchCore, points: FloatArray) -> bool:
    """Whether no condition is built into the part; those of PyTorch, and splines, have none."""
    parts = core.original.modules()
    if all(type(each).__module__.startswith(("torch.nn.", __name__)) for each in parts):
        return True
    try:
        return not has_built_in(_TorchChanges(core), points.min(axis=0), points.max(axis=0))
    except (RuntimeError, TypeError, ValueError):  # a part that cannot be called so
        return False


@final
class _TorchChanges:
    """How outputs and slopes differ between weights near the trained ones, (n, 1 + k, m, R)."""

    def __init__(self, core: TorchCore) -> None:
        torch: Any = core.torch
        self._core, self._back = core, np.linalg.inv(core.back)
        generator = np.random.default_rng(1)
        self._parts = []
        for _ in range(1 + max(DIRECTIONS, 2 * (1 + core.inputs) * core.outputs)):
            part = copy.deepcopy(core.original)
            with torch.no_grad():
                for weight in part.parameters():
                    size = float(weight.square().mean().sqrt()) or 1.0
                    more = generator.standard_normal(tuple(weight.shape))
                    weight += MOVED * size * torch.as_tensor(more, dtype=weight.dtype)
            self._parts.append(part)

    def __call__(self, places: FloatArray) -> FloatArray:
        torch: Any = self._core.torch
        back, shift = torch.tensor(self._back), torch.tensor(self._core.shift)
        found = []
        for part in self._parts:
            at = torch.tensor(places, requires_grad=True)
            values = part(at @ back + shift).as_subclass(torch.Tensor).reshape(len(places), -1)
            slopes = [torch.autograd.grad(v.sum(), at, retain_graph=True)[0] for v in values.T]
            jets = torch.stack([values, *torch.stack(slopes, dim=2).unbind(dim=1)], dim=1)
            found.append(as_numpy(jets))
        every = np.stack(found, axis=-1)
        return every[..., 1:] - every[..., :1]


@final
class TorchJets(JetFunction):
    """A `TorchFunction` whose network is replaced by jets."""

    def __init__(
        self, function: TorchFunction, core: TorchCore, *, pointwise: bool | None = None
    ) -> None:
        self._function, self._core = function, core
        self.inputs, self.outputs = core.inputs, core.outputs
        # Whether it is shows when it is first linearized.
        self.pointwise = function.pointwise if pointwise is None else pointwise
        self._checked = not self.pointwise

    def _evaluate(
        self,
        supply: Supply,
        orders: Sequence[Order],
        leaves: Any,
        points: Any,
    ) -> Any:
        module = self._core.replaced(self._core.field(supply, orders))
        return self._function.call(module, leaves, self._function.inputs(points))

    def places(self, numbers: FloatArray, points: FloatArray) -> FloatArray:
        """Return where the field is asked."""
        asked: list[FloatArray] = []

        def supply(_: Any, places: FloatArray) -> Any:
            asked.append(places)
            return self._function.like(np.ones((1, len(places), self.outputs)))

        with self._function.opened(numbers) as leaves:
            self._evaluate(supply, [(0,) * self.inputs], leaves, points)
        return np.concatenate(asked or [np.zeros((0, self.inputs))])

    def of_network(self, numbers: FloatArray, points: FloatArray) -> FloatArray:
        """Return the values with the trained network."""
        function = self._function
        with function.opened(numbers) as leaves:
            return as_numpy(function.call(function.module, leaves, function.inputs(points)))

    def _with_leaves(
        self, jets: FloatArray, orders: Sequence[Order], numbers: Any, points: FloatArray
    ) -> tuple[Any, list[Any]]:
        used: list[Any] = []

        def supply(_: Any, places: FloatArray) -> Any:
            first = sum(each.shape[1] for each in used)
            leaf = self._function.like(jets[:, first : first + len(places)])
            used.append(leaf.requires_grad_(True))
            return used[-1]

        return self._evaluate(supply, orders, numbers, points), used

    def values(
        self, jets: FloatArray, orders: Sequence[Order], numbers: FloatArray, points: FloatArray
    ) -> FloatArray:
        """Return the values."""
        with self._function.opened(numbers) as leaves:
            return as_numpy(self._with_leaves(jets, orders, leaves, points)[0])

    def linearized(
        self, jets: FloatArray, orders: Sequence[Order], numbers: FloatArray, points: FloatArray
    ) -> Linearized:
        """Return values and derivatives, from a backward pass for each equation."""
        torch = self._core.torch
        with self._function.opened(numbers) as leaves:
            values, used = self._with_leaves(jets, orders, leaves, points)

            def pulled(along: Any) -> FloatArray:
                found: Sequence[Any] = [None] * len(used)
                if along.requires_grad:
                    found = torch.autograd.grad(along, used, retain_graph=True, allow_unused=True)
                parts = [
                    np.zeros(leaf.shape) if slope is None else as_numpy(slope)
                    for slope, leaf in zip(found, used, strict=True)
                ]
                return np.concatenate(parts, axis=1)

            by_numbers = torch_jacobian(torch, [values], list(leaves))[0]
            if self.pointwise:
                by_jets = np.stack([pulled(column.sum()) for column in values.T], axis=2)
                if not self._checked:
                    self.pointwise = self._rows_agree(values, by_jets, pulled)
                    self._checked = True
            if not self.pointwise:
                by_jets = np.stack([pulled(each) for each in values.reshape(-1)])
        return Linearized(as_numpy(values), by_jets, by_numbers)

    def _rows_agree(
        self, values: Any, by_jets: FloatArray, pulled: Callable[[Any], FloatArray]
    ) -> bool:
        """Whether a row depends on its own places alone."""
        count = len(values)
        if by_jets.shape[1] % count:
            return False
        along = np.random.default_rng(0).standard_normal(tuple(values.shape))
        wanted = pulled((values * self._function.like(along)).sum())
        rows = np.arange(by_jets.shape[1]) % count
        found = np.einsum("apem,pe->apm", by_jets, along[rows])
        return bool(np.abs(found - wanted).max() <= AGREEMENT * np.abs(by_jets).max())


# ---------------------------------------------------------------- several experiments


@final
class OneOfSeveral(JetFunction):
    """A function of the field of one experiment, as one of the fields of all experiments."""

    def __init__(self, function: JetFunction, experiment: int, experiments: int) -> None:
        self._function, size = function, function.outputs
        self.inputs, self.outputs = function.inputs, size * experiments
        self._own = slice(size * experiment, size * (experiment + 1))

    @property
    def pointwise(self) -> bool:  # type: ignore[override]
        """Whether a row depends on the jets of its own places alone."""
        return self._function.pointwise

    def places(self, numbers: FloatArray, points: FloatArray) -> FloatArray:
        """Return where the field is asked."""
        return self._function.places(numbers, points)

    def of_network(self, numbers: FloatArray, points: FloatArray) -> FloatArray:
        """Return the values with the trained network."""
        return self._function.of_network(numbers, points)

    def values(
        self, jets: FloatArray, orders: Sequence[Order], numbers: FloatArray, points: FloatArray
    ) -> FloatArray:
        """Return the values."""
        return self._function.values(jets[..., self._own], orders, numbers, points)

    def linearized(
        self, jets: FloatArray, orders: Sequence[Order], numbers: FloatArray, points: FloatArray
    ) -> Linearized:
        """Return values and derivatives."""
        found = self._function.linearized(jets[..., self._own], orders, numbers, points)
        by_jets = np.zeros((*found.by_jets.shape[:-1], self.outputs))
        by_jets[..., self._own] = found.by_jets
        return found._replace(by_jets=by_jets)


def _by_rows(function: JetFunction, found: Linearized) -> Linearized:
    """Return derivatives by all places, (N E, orders, P, m), also of a pointwise function."""
    if not function.pointwise:
        return found
    orders, places, equations, outputs = found.by_jets.shape
    full = np.zeros((len(found.values), equations, orders, places, outputs))
    every = np.arange(places)
    full[every % len(found.values), :, :, every] = found.by_jets.transpose(1, 2, 0, 3)
    return found._replace(by_jets=full.reshape(-1, orders, places, outputs))


@final
class AllOfThem(JetFunction):
    """The values of several functions that are not pointwise, one after another."""

    pointwise = False

    def __init__(self, functions: Sequence[JetFunction]) -> None:
        self._functions = functions
        self.inputs, self.outputs = functions[0].inputs, functions[0].outputs

    def _parts(self, jets: FloatArray, numbers: FloatArray, points: FloatArray) -> list[FloatArray]:
        sizes = [len(each.places(numbers, points)) for each in self._functions]
        return np.split(jets, np.cumsum(sizes)[:-1], axis=1)

    def places(self, numbers: FloatArray, points: FloatArray) -> FloatArray:
        """Return where the field is asked."""
        return np.concatenate([each.places(numbers, points) for each in self._functions])

    def of_network(self, numbers: FloatArray, points: FloatArray) -> FloatArray:
        """Return the values with the trained network."""
        return np.concatenate([each.of_network(numbers, points) for each in self._functions])

    def values(
        self, jets: FloatArray, orders: Sequence[Order], numbers: FloatArray, points: FloatArray
    ) -> FloatArray:
        """Return the values."""
        pairs = zip(self._functions, self._parts(jets, numbers, points), strict=True)
        return np.concatenate([each.values(part, orders, numbers, points) for each, part in pairs])

    def linearized(
        self, jets: FloatArray, orders: Sequence[Order], numbers: FloatArray, points: FloatArray
    ) -> Linearized:
        """Return values and derivatives."""
        pairs = zip(self._functions, self._parts(jets, numbers, points), strict=True)
        found = [
            _by_rows(each, each.linearized(part, orders, numbers, points)) for each, part in pairs
        ]
        rows, places = (sum(each.by_jets.shape[k] for each in found) for k in (0, 2))
        by_jets = np.zeros((rows, len(orders), places, self.outputs))
        row = place = 0
        for each in found:
            size = each.by_jets.shape
            by_jets[row : row + size[0], :, place : place + size[2]] = each.by_jets
            row, place = row + size[0], place + size[2]
        return Linearized(
            np.concatenate([each.values for each in found]),
            by_jets,
            np.concatenate([each.by_numbers for each in found]),
        )


# ---------------------------------------------------------------- what an adapter returns


@dataclass(frozen=True, eq=False)
class FieldSlot:
    """A model in which any field can take the place of the network.

    Attributes
    ----------
    equations : sequence of JetFunction
        One for all equations, or several that have points of their own.
    observed : JetFunction
        What was observed, at the observed points.
    observing : callable
        ``observing(of)``: what ``of(model, points)`` returns, in its place.
    conditions : JetFunction or None
        Misfits of conditions, (K, 1).
    network : callable
        ``network(places)``: outputs of the trained network in the place of the field.
    freeze : callable
        ``freeze(splines, coefficients, parameters)``: the frozen residual with a field of splines.
    experiments : int
        That share the parameters, each with a field of its own.
    """

    equations: Sequence[JetFunction]
    observed: JetFunction
    observing: Callable[[Callable[[Any, Any], Any]], JetFunction]
    conditions: JetFunction | None
    network: Callable[[FloatArray], FloatArray]
    freeze: Callable[[TensorSplines, FloatArray, Parameters], FrozenResidual]
    experiments: int = 1

    @property
    def inputs(self) -> int:
        """Number of variables of the field."""
        return self.observed.inputs

    @property
    def outputs(self) -> int:
        """Number of its components."""
        return self.observed.outputs * self.experiments

    def seeing(self, of: Any, experiment: int = 0) -> JetFunction:
        """Return what was observed in an experiment, for `of` as in `twoaxis.Observations`."""
        found = self.observing(of) if callable(of) else self.observed
        return OneOfSeveral(found, experiment, self.experiments) if self.experiments > 1 else found

    def repeated(self, experiments: int) -> FieldSlot:
        """Return a slot for the fields of several experiments, one after another."""
        if experiments == 1:
            return self

        def each(function: JetFunction) -> list[JetFunction]:
            return [OneOfSeveral(function, k, experiments) for k in range(experiments)]

        conditions = self.conditions
        return replace(
            self,
            equations=[one for function in self.equations for one in each(function)],
            conditions=None if conditions is None else AllOfThem(each(conditions)),
            experiments=experiments,
        )


def torch_slot(
    equations: Sequence[TorchFunction],
    observed: TorchFunction,
    conditions: TorchFunction | None,
    freeze: Callable[[Any, Parameters], FrozenResidual],
    points: FloatArray,
    around: tuple[type, ...] = (),
) -> FieldSlot | None:
    """Return a PyTorch module with a place for any field, or None where it has none.

    Parameters
    ----------
    equations, observed, conditions : TorchFunction
        Of one module.
    freeze : callable
        ``freeze(module, parameters)``.
    points : array
        At which the module is called, to find its core.
    around : tuple of type
        Modules that stay around the field: there is no slot where it would replace one.
    """
    torch, module = observed.torch, observed.module
    # Drawn, since every so many points of a grid may lie on a line.
    count = min(len(points), PROBES)
    few = points[np.random.default_rng(0).choice(len(points), count, replace=False)]
    with observed.opened(np.zeros(0)) as leaves:
        core = find_torch_core(
            torch,
            module,
            observed.names,
            lambda: observed.call(module, leaves, observed.inputs(few)),
            few,
        )
    if core is None or any(isinstance(part, around) for part in core.original.modules()):
        return None
    with observed.opened(np.zeros(0)):
        if not is_free(core, points):
            return None

    def network(places: FloatArray) -> FloatArray:
        with observed.opened(np.zeros(0)), torch.no_grad():
            found = core.original(observed.like(places @ np.linalg.inv(core.back) + core.shift))
        return as_numpy(found).reshape(len(places), -1)

    def frozen(
        splines: TensorSplines, coefficients: FloatArray, known: Parameters
    ) -> FrozenResidual:
        orders = orders_up_to(core.inputs, MAX_ORDER)

        def supply(field: Any, places: FloatArray) -> Any:
            index, basis = splines.local(places, orders)
            chosen = field.coefficients[torch.as_tensor(index)]
            return torch.einsum("apl,plm->apm", observed.like(basis), chosen)

        field = core.field(supply, orders)
        # Weights of the field: what was refined can be refined again.
        field._parameters["coefficients"] = torch.nn.Parameter(observed.like(coefficients))
        return freeze(core.replaced(field), known)

    def observing(of: Callable[[Any, Any], Any]) -> TorchJets:
        def call(model: Any, _: Any, at: Any) -> Any:
            return of(model, at).reshape(len(at), -1)

        function = TorchFunction(torch, module, observed.names, call, observed.opened)
        return TorchJets(function, core)

    return FieldSlot(
        [TorchJets(each, core) for each in equations],
        TorchJets(observed, core),
        observing,
        None if conditions is None else TorchJets(conditions, core, pointwise=True),
        network,
        frozen,
    )

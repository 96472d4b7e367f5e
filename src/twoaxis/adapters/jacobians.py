r"""Jacobians by the weights: of a function of weights, numbers and points, in PyTorch or JAX.

A residual mostly depends on the weights point by point: row n of its Jacobian needs point n
alone, and all rows together cost about as much as one gradient. This fails where points are
coupled, as by a mean over them, and where the code of a user cannot be called in such a way.
Ways are therefore tried in order, and every one but the last is checked at each new set of points
against the gradient of the whole batch: with random :math:`v`,

.. math:: v^\top J = \frac{\partial}{\partial \theta} \big( v^\top r(\theta) \big)

holds with probability one only for the right :math:`J`. The last way is a backward pass for each
row of the whole batch, which is right for any function.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from threading import RLock
from typing import Any, final

import numpy as np

from twoaxis.adapters.foreign import as_numpy, check_program
from twoaxis.adapters.model_loss import put_into
from twoaxis.adapters.unknowns import torch_jacobian
from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError
from twoaxis.frozen import check_same

#: Entries of a Jacobian that are computed at once: 32 MB. More of them are not faster.
ENTRIES = 2**22
#: Numbers per layer unit that backward passes of rows hold at once; more of them are slower.
ROW_ENTRIES = 2**15
#: Two Jacobians agree to this share of the largest column: rounding alone is far below it.
AGREEMENT = 1e-9
#: Relative change of the numbers for a difference, and how much of it a derivative may miss: the
#: former is well above the rounding of a residual that is computed in float32 inside.
STEP, DIFFERENCE = 1e-3, 0.02
#: A change of this share of the values is none: it may be their rounding.
NOTHING = 1e-6

Way = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]


class PointFunction(ABC):
    """A function of weights, numbers and points with values (N, m), and its Jacobian.

    Attributes
    ----------
    ways : sequence of (str, callable)
        What is left to try, best first: a phrase and ``way(weights, numbers, points)``, which
        returns derivatives by the weights, (N, m, W).
    pointwise : bool
        Whether a point may be evaluated alone.
    """

    ways: Sequence[tuple[str, Way]]
    _checked: FloatArray | None = None
    _compared: bool = False

    def __init__(self, pointwise: bool) -> None:
        self.pointwise, self._lock = pointwise, RLock()

    @property
    def how(self) -> str:
        """How derivatives by the weights are computed, as far as it was tried."""
        return self.ways[0][0]

    @property
    def tried(self) -> bool:
        """Whether a Jacobian has been computed."""
        return self._checked is not None

    @abstractmethod
    def values(self, weights: FloatArray, numbers: FloatArray, points: FloatArray) -> FloatArray:
        """Return the values, (N, m)."""

    @abstractmethod
    def check_deterministic(
        self, weights: FloatArray, numbers: FloatArray, points: FloatArray
    ) -> None:
        """Refuse a function that draws random numbers."""

    @abstractmethod
    def by_numbers(
        self, weights: FloatArray, numbers: FloatArray, points: FloatArray
    ) -> FloatArray:
        """Return derivatives by the numbers, (N, m, d)."""

    @abstractmethod
    def gradient(
        self, weights: FloatArray, numbers: FloatArray, points: FloatArray, along: FloatArray
    ) -> FloatArray:
        """Return the gradient of ``(along * values).sum()`` by the weights, from one pass."""

    def by_weights(
        self, weights: FloatArray, numbers: FloatArray, points: FloatArray
    ) -> FloatArray:
        """Return derivatives by the weights, (N, m, W)."""
        with self._lock:
            if not self.tried:
                self.check_deterministic(weights, numbers, points)
            while len(self.ways) > 1:
                try:
                    found = self.ways[0][1](weights, numbers, points)
                    if self._agrees(found, weights, numbers, points):
                        return found
                except MemoryError:
                    raise
                except Exception:  # a user's code that cannot be called so; the last way tells why
                    pass
                self.ways = self.ways[1:]
            self._checked = points
            return self.ways[0][1](weights, numbers, points)

    def check_against_differences(
        self,
        weights: FloatArray,
        numbers: FloatArray,
        points: FloatArray,
        by_weights: FloatArray,
        by_numbers: FloatArray,
    ) -> None:
        """Refuse, once, a function that does not follow its own derivatives.

        Values that were detached on the way have no derivative, which no other check can see. The
        median decides: a network with kinks may jump at few points.
        """
        if self._compared:
            return
        random = np.random.default_rng(1).choice([-STEP, STEP], weights.size + numbers.size)
        along = random * np.abs(np.concatenate([weights, numbers]))
        for name, found, step in (
            ("weights", by_weights @ along[: weights.size], (along[: weights.size], 0.0)),
            ("parameters", by_numbers @ along[weights.size :], (0.0, along[weights.size :])),
        ):
            ahead, behind = (
                self.values(weights + sign * step[0], numbers + sign * step[1], points)
                for sign in (0.5, -0.5)
            )
            change = ahead - behind
            off, size = float(np.median(np.abs(found - change))), _mean_size(change)
            if off > max(DIFFERENCE * size, NOTHING * _mean_size(ahead)):
                raise InputError(
                    f"values that change with the {name} as their derivatives say",
                    f"a change of {size:.3g} that is missed by {off:.3g}, at the median",
                    "detach nothing on the way to the residual, and stop no gradient",
                )
        self._compared = True

    def _agrees(
        self, found: FloatArray, weights: FloatArray, numbers: FloatArray, points: FloatArray
    ) -> bool:
        """Compare a Jacobian with the gradient of the whole batch, at points that are new."""
        if self._checked is not None and np.array_equal(self._checked, points):
            return True
        along = np.random.default_rng(0).standard_normal(found.shape[:2])
        gradient = self.gradient(weights, numbers, points, along)
        if not np.isfinite(gradient).all():
            return True  # weights at which nothing can be told
        rows = found.reshape(along.size, -1)
        size = np.sqrt(np.einsum("nw,nw->w", rows, rows).max())
        right = bool(np.abs(along.ravel() @ rows - gradient).max() <= AGREEMENT * size)
        if right:
            self._checked = points.copy()
        return right


def _mean_size(values: FloatArray) -> float:
    return float(np.sqrt((values**2).mean()))


# ---------------------------------------------------------------- JAX


@final
class JaxFunction(PointFunction):
    """A pure JAX function ``function(weights, numbers, points)`` with values (N, m).

    Parameters
    ----------
    jax : module
    function : callable
    exact : callable
        A context manager in which it is evaluated in double precision.
    pointwise : bool
        Whether a point may be evaluated alone.
    """

    def __init__(
        self,
        jax: Any,
        function: Callable[[Any, Any, Any], Any],
        exact: Callable[[], AbstractContextManager[Any]],
        *,
        pointwise: bool = True,
    ) -> None:
        super().__init__(pointwise)
        self._jax, self._function, self._exact = jax, function, exact

        def by_points(weights: Any, numbers: Any, points: Any) -> Any:
            def one(vector: Any, point: Any) -> Any:
                return function(vector, numbers, point[None])[0]

            each = partial(jax.jacrev(one), weights)
            most = max(1, ENTRIES // weights.size)
            if len(points) <= most:
                return jax.vmap(each)(points)
            return jax.lax.map(each, points, batch_size=most)

        def by_rows(weights: Any, numbers: Any, points: Any) -> Any:
            values, pull = jax.vjp(lambda vector: function(vector, numbers, points), weights)

            def row(number: Any) -> Any:
                along = jax.numpy.zeros(values.size, values.dtype).at[number].set(1)
                return pull(along.reshape(values.shape))[0]

            most = max(1, ROW_ENTRIES // values.size)
            found = jax.lax.map(row, jax.numpy.arange(values.size), batch_size=most)
            return found.reshape(*values.shape, -1)

        def gradient(weights: Any, numbers: Any, points: Any, along: Any) -> Any:
            return jax.vjp(lambda vector: function(vector, numbers, points), weights)[1](along)[0]

        self._values = jax.jit(function)
        self._slopes = jax.jit(jax.jacfwd(function, argnums=1))
        self._gradient = jax.jit(gradient)
        self.ways = [
            ("point by point, vectorized (jax.vmap of jax.jacrev)", self._called(by_points)),
            ("a backward pass for each residual value (jax.vjp)", self._called(by_rows)),
        ][0 if pointwise else 1 :]

    def check_deterministic(
        self, weights: FloatArray, numbers: FloatArray, points: FloatArray
    ) -> None:
        """Refuse two different programs of one function."""
        with self._exact():
            arrays = [self._jax.numpy.asarray(a, "float64") for a in (weights, numbers, points)]
            check_program(self._jax, "function of the weights", self._function, *arrays)

    def _called(self, function: Callable[..., Any]) -> Way:
        compiled = self._jax.jit(function)
        return lambda *arrays: self._run(compiled, *arrays)

    def _run(self, compiled: Callable[..., Any], *arrays: FloatArray) -> FloatArray:
        with self._exact():
            return as_numpy(compiled(*(self._jax.numpy.asarray(a, "float64") for a in arrays)))

    def values(self, weights: FloatArray, numbers: FloatArray, points: FloatArray) -> FloatArray:
        """Return the values, (N, m)."""
        return self._run(self._values, weights, numbers, points)

    def by_numbers(
        self, weights: FloatArray, numbers: FloatArray, points: FloatArray
    ) -> FloatArray:
        """Return derivatives by the numbers, by forward mode."""
        return self._run(self._slopes, weights, numbers, points)

    def gradient(
        self, weights: FloatArray, numbers: FloatArray, points: FloatArray, along: FloatArray
    ) -> FloatArray:
        """Return the gradient by the weights."""
        return self._run(self._gradient, weights, numbers, points, along)


# ---------------------------------------------------------------- PyTorch


@final
class TorchFunction(PointFunction):
    """A PyTorch function ``function(module, leaves, points)`` with values (N, m).

    Parameters
    ----------
    torch : module
    module : torch.nn.Module
        In double precision and evaluation mode; its weights are overwritten.
    names : sequence of str
        Of the weights that move, in the order of the vector.
    function : callable
        It calls the module, or one that is put into its place.
    opened : callable
        ``opened(numbers)``: a context manager in which the function is evaluated, and nothing
        else of the module in another thread. It yields the leaves that hold the numbers.
    pointwise : bool
        Whether a point may be evaluated alone.
    """

    def __init__(
        self,
        torch: Any,
        module: Any,
        names: Sequence[str],
        function: Callable[[Any, Any, Any], Any],
        opened: Callable[[FloatArray], AbstractContextManager[Any]],
        *,
        pointwise: bool = True,
    ) -> None:
        super().__init__(pointwise)
        self.torch, self.module, self.names = torch, module, list(names)
        self.call, self.opened = function, opened
        parameters = dict(module.named_parameters())
        self._tensors = [parameters[name] for name in names]
        self.ways = [
            ("one backward pass, with a copy of the weights for each point", self._by_copies),
            ("point by point, vectorized (torch.func.vmap of jacrev)", self._by_points),
            ("a backward pass for each residual value, in batches", self._by_batched_rows),
            ("a backward pass for each residual value", self._by_rows),
        ][0 if pointwise else 2 :]

    def inputs(self, points: FloatArray) -> Any:
        """Return points as a tensor that can be differentiated by."""
        tensor = self.torch.tensor(points, dtype=self.torch.float64, device=self._device)
        return tensor.requires_grad_(True)

    @property
    def _device(self) -> Any:
        return self._tensors[0].device

    def _evaluate(self, weights: FloatArray, leaves: Any, points: FloatArray) -> Any:
        """Return the values of the whole batch, with a graph to the weights."""
        put_into(self.torch, self._tensors, weights)
        for each in self._tensors:
            each.requires_grad_(True)
        return self.call(self.module, leaves, self.inputs(points))

    def values(self, weights: FloatArray, numbers: FloatArray, points: FloatArray) -> FloatArray:
        """Return the values, (N, m)."""
        with self.opened(numbers) as leaves:
            return as_numpy(self._evaluate(weights, leaves, points))

    def check_deterministic(
        self, weights: FloatArray, numbers: FloatArray, points: FloatArray
    ) -> None:
        """Refuse two evaluations that differ."""
        first, again = (self.values(weights, numbers, points) for _ in range(2))
        check_same("function of the weights", first, again)

    def by_numbers(
        self, weights: FloatArray, numbers: FloatArray, points: FloatArray
    ) -> FloatArray:
        """Return derivatives by the numbers, by reverse mode twice."""
        with self.opened(numbers) as leaves:
            found = self._evaluate(weights, leaves, points)
            return torch_jacobian(self.torch, [found], list(leaves))[0]

    def gradient(
        self, weights: FloatArray, numbers: FloatArray, points: FloatArray, along: FloatArray
    ) -> FloatArray:
        """Return the gradient by the weights."""
        with self.opened(numbers) as leaves:
            found = self._evaluate(weights, leaves, points)
            return as_numpy(self._pulled(found, self._tensors, self.like(along), ()))

    def like(self, array: FloatArray) -> Any:
        """Return an array as a tensor like the weights."""
        return self.torch.as_tensor(array, dtype=self.torch.float64, device=self._device)

    def _pulled(
        self, values: Any, tensors: Sequence[Any], along: Any, lead: tuple[int, ...], **options: Any
    ) -> Any:
        """Return derivatives by all weights, flat, with the axes `lead` in front."""
        found: Sequence[Any] = [None] * len(tensors)
        if values.requires_grad:
            found = self.torch.autograd.grad(
                values, list(tensors), along, allow_unused=True, retain_graph=True, **options
            )
        parts = [
            along.new_zeros((*lead, weight.numel()))
            if slope is None
            else slope.reshape(*lead, weight.numel())
            for slope, weight in zip(found, self._tensors, strict=True)
        ]
        return self.torch.cat(parts, dim=-1)

    def _by_copies(
        self, weights: FloatArray, numbers: FloatArray, points: FloatArray
    ) -> FloatArray:
        """Evaluate every point with weights of its own: one pass returns all rows."""
        torch = self.torch
        found = []
        for part in _parts(points, ENTRIES // weights.size):
            with self.opened(numbers) as leaves:
                put_into(torch, self._tensors, weights)
                many = {
                    name: each.detach().expand(len(part), *each.shape).clone().requires_grad_(True)
                    for name, each in zip(self.names, self._tensors, strict=True)
                }
                module = _with_copies(torch, self.module, many)
                values = self.call(module, leaves, self.inputs(part))
                rows = [
                    self._pulled(column, list(many.values()), torch.ones_like(column), (len(part),))
                    for column in values.T
                ]
            found.append(as_numpy(torch.stack(rows, dim=1)))
        return np.concatenate(found)

    def _by_points(
        self, weights: FloatArray, numbers: FloatArray, points: FloatArray
    ) -> FloatArray:
        """Differentiate one point, vectorized over the points."""
        torch = self.torch
        with self.opened(numbers) as leaves:
            put_into(torch, self._tensors, weights)
            held = {
                f"module.{name}": each.detach().clone()
                for name, each in zip(self.names, self._tensors, strict=True)
            }
            caller = _caller(torch, self.module, self.call, leaves)

            def one(moving: Mapping[str, Any], point: Any) -> Any:
                return torch.func.functional_call(caller, moving, (point[None],))[0]

            slopes = torch.func.vmap(
                torch.func.jacrev(one),
                in_dims=(None, 0),
                chunk_size=max(1, ENTRIES // weights.size),
            )(held, self.inputs(points).detach())
        flat = [slope.flatten(start_dim=2) for slope in slopes.values()]
        return as_numpy(torch.cat(flat, dim=2))

    def _by_batched_rows(
        self, weights: FloatArray, numbers: FloatArray, points: FloatArray
    ) -> FloatArray:
        """Take the backward passes of many values at once."""
        with self.opened(numbers) as leaves:
            values = self._evaluate(weights, leaves, points)
            flat = values.reshape(-1)
            size = flat.numel()
            found = []
            for rows in _parts(np.arange(size), ROW_ENTRIES // size):
                along = self.like(np.arange(size) == rows[:, None])
                pulled = self._pulled(
                    flat, self._tensors, along, (len(rows),), is_grads_batched=True
                )
                found.append(as_numpy(pulled))
        return np.concatenate(found).reshape(*values.shape, -1)

    def _by_rows(self, weights: FloatArray, numbers: FloatArray, points: FloatArray) -> FloatArray:
        """Take one backward pass after another."""
        with self.opened(numbers) as leaves:
            values = self._evaluate(weights, leaves, points)
            one = values.new_ones(())
            rows = [
                as_numpy(self._pulled(each, self._tensors, one, ())) for each in values.reshape(-1)
            ]
        return np.stack(rows).reshape(*values.shape, -1)


def _parts(array: Any, most: int) -> Iterator[Any]:
    """Return an array in parts of at most so many rows."""
    step = max(1, most)
    return (array[first : first + step] for first in range(0, len(array), step))


def _with_copies(torch: Any, module: Any, many: Mapping[str, Any]) -> Any:
    """Return a module that evaluates row n of its inputs with row n of the weights."""

    def one(weights: Mapping[str, Any], *inputs: Any) -> Any:
        # With an axis for the batch, which modules expect.
        rows = tuple(each[None] for each in inputs)
        found = torch.func.functional_call(module, weights, rows)
        if not isinstance(found, torch.Tensor):
            raise TypeError("a module that returns one tensor is needed here")
        return found[0]

    class WithCopies(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *inputs: Any) -> Any:
            return torch.func.vmap(one)(dict(many), *inputs)

        def __getattr__(self, name: str) -> Any:
            # A residual may ask the module for more than its outputs.
            return getattr(module, name)

    return WithCopies().eval()


def _caller(torch: Any, module: Any, function: Callable[..., Any], leaves: Any) -> Any:
    """Return a module of the points alone, whose weights can be replaced in a call."""

    class Caller(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, points: Any) -> Any:
            return function(self.module, leaves, points)

    return Caller().eval()

"""DeepXDE on JAX: pure functions of the weights, the points and the unknowns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

import numpy as np

from twoaxis.adapters.building import as_numpy, same_random_numbers
from twoaxis.adapters.deepxde.backend import Backend, FloatArray, as_columns
from twoaxis.errors import InputError


@final
class JaxBackend(Backend):
    """Pure functions: the weights are captured, and the PDE takes ``unknowns=``."""

    def __init__(self, dde: Any, model: Any, double: bool) -> None:
        self._dde, self._jax = dde, dde.backend.lib
        if model.data.auxiliary_var_fn is not None:
            raise InputError(
                "a PDE without auxiliary variables",
                "auxiliary_var_function, which DeepXDE itself does not serve with JAX",
                "compute them inside the PDE",
            )
        self._pde, self._net, self._variable = model.data.pde, model.net, dde.Variable
        self._takes_unknowns = dde.utils.get_num_args(self._pde) == 3
        leaves = self._jax.tree.leaves(model.net.params)
        self.own = str(leaves[0].dtype)
        self.precision = "float64" if double else self.own
        with self._exact():
            cast = self._cast
            self._weights = self._jax.tree.map(cast, model.net.params)
            self._held = [cast(each.value) for each in model.external_trainable_variables]
        self._compiled = self._jax.jit(self._evaluate)
        self._compiled_slopes = self._jax.jit(self._slopes, static_argnums=2)

    @contextmanager
    def _exact(self) -> Iterator[None]:
        """Allow float64 where the evaluation needs it; keep no derivative of an earlier call.

        DeepXDE finds derivatives again by the ``id`` of arrays, which Python gives away anew.
        """
        with same_random_numbers(), self._jax.enable_x64(self.precision == "float64"):
            self._dde.gradients.clear()
            try:
                yield
            finally:
                self._dde.gradients.clear()

    def _cast(self, array: Any) -> Any:
        # By way of NumPy, here and below: there is nothing to compile then.
        found = np.asarray(array)
        found = found if self.precision == self.own else found.astype(self.precision)
        return self._jax.numpy.asarray(found)

    def is_variable(self, given: Any) -> bool:
        """Tell whether this is a ``dde.Variable``."""
        return isinstance(given, self._variable)

    def stored(self, variable: Any) -> FloatArray:
        """Return what a variable holds."""
        return as_numpy(variable.value)

    def _evaluate(self, weights: Any, points: Any, unknowns: list[Any]) -> list[Any]:
        def outputs(inputs: Any) -> Any:
            return self._net.apply(weights, inputs, training=False)

        given = {"unknowns": unknowns} if self._takes_unknowns and unknowns else {}
        return as_columns(self._pde(points, (outputs(points), outputs), **given), len(points))

    def _slopes(self, weights: Any, points: Any, places: tuple[int, ...], base: list[Any]) -> Any:
        """Return derivatives by the numbers at these places, one forward pass for each."""

        def along(place: int) -> list[Any]:
            tangents = [
                self._jax.numpy.ones_like(each) * (n == place) for n, each in enumerate(base)
            ]
            call = lambda *given: self._evaluate(weights, points, list(given))  # noqa: E731
            return list(self._jax.jvp(call, tuple(base), tuple(tangents))[1])

        each = [along(place) for place in places]
        return [self._jax.numpy.stack(parts, axis=-1) for parts in zip(*each, strict=True)]

    def _unknowns(self, raw: Mapping[int, float]) -> list[Any]:
        number = self._jax.numpy.asarray
        return [
            number(np.full(held.shape, raw[place], held.dtype)) if place in raw else held
            for place, held in enumerate(self._held)
        ]

    def _points(self, points: FloatArray) -> Any:
        return self._jax.numpy.asarray(np.asarray(points, dtype=self.precision))

    def equations(self, points: FloatArray, raw: Mapping[int, float]) -> list[FloatArray]:
        """Return one array (N, m) for each equation."""
        with self._exact():
            found = self._compiled(self._weights, self._points(points), self._unknowns(raw))
            return [as_numpy(part) for part in found]

    def derivatives(self, points: FloatArray, raw: Mapping[int, float]) -> list[FloatArray]:
        """Return derivatives by forward mode."""
        with self._exact():
            where, base = self._points(points), self._unknowns(raw)
            found = self._compiled_slopes(self._weights, where, tuple(raw), base)
            return [as_numpy(part) for part in found]

    def field(self, points: FloatArray) -> FloatArray:
        """Return the outputs of the network."""
        with self._exact():
            apply = self._jax.jit(lambda weights, at: self._net.apply(weights, at, training=False))
            return as_numpy(apply(self._weights, self._points(points)))

    def slope(self, function: Callable[[Any], Any], at: float) -> tuple[float, float]:
        """Return the value and the derivative of a function of one number."""
        with self._jax.enable_x64(True):
            x = self._jax.numpy.asarray(at, "float64")
            y, slope = self._jax.jvp(function, (x,), (self._jax.numpy.ones_like(x),))
            return float(y), float(slope)

    def call(self, function: Callable[..., Any], *arrays: Any) -> float:
        """Call a function of the user's with JAX arrays."""
        with self._jax.enable_x64(True):
            number = self._jax.numpy.asarray
            return float(function(*(number(array, "float64") for array in arrays)))

    def conditions_with(self, data: Any) -> dict[int, list[str]]:  # noqa: ARG002
        """Return nothing: with JAX, DeepXDE hands the unknowns to the PDE alone."""
        return {}

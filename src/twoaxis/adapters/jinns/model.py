"""The residual of a network trained with jinns, as a function of points and physical values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.adapters.building import as_numpy
from twoaxis.adapters.jinns.unknowns import Unknown
from twoaxis.errors import InputError
from twoaxis.parameters import Parameter

FloatArray = NDArray[np.float64]


class Model:
    """A loss of jinns with trained parameters, in which only the unknowns can still move."""

    def __init__(
        self, jax: Any, loss: Any, params: Any, unknowns: Sequence[Unknown], precision: str
    ) -> None:
        self.jax, self.loss, self.unknowns, self.precision = jax, loss, unknowns, precision
        leaves = jax.tree.leaves(params.nn_params)
        self.trained_in = str(np.result_type(*[leaf.dtype for leaf in leaves]))
        self.components: list[int] = []
        with jax.enable_x64(precision == "float64"):
            self.params = jax.tree.map(self._cast, params)
        self._parts = jax.jit(self._evaluate)
        self._columns = jax.jit(jax.jacfwd(self._evaluate, argnums=1))

    def _cast(self, leaf: Any) -> Any:
        numbers = self.jax.numpy
        if numbers.issubdtype(numbers.result_type(leaf), numbers.floating):
            return numbers.asarray(leaf, self.precision)
        return leaf

    def moved(self, values: Any) -> Any:
        """Return the parameters with other unknowns; `values` has one entry for each."""
        params = self.params
        for unknown, value in zip(self.unknowns, values, strict=True):
            params = unknown.placed(params, value)
        return params

    def _evaluate(self, points: Any, values: Any) -> list[Any]:
        params = self.moved(values)
        return [
            self.jax.vmap(lambda point, each=each: each.evaluate(point, self.loss.u, params))(
                points
            ).reshape(len(points), -1)
            for each in self.loss.dynamic_loss
        ]

    def _inputs(self, points: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        vector = [float(values[unknown.name]) for unknown in self.unknowns]
        number = self.jax.numpy.asarray
        return number(as_numpy(points), self.precision), number(vector, self.precision)

    def residual(self, points: Any, values: Mapping[str, Any]) -> Any:
        """Return one array for each component of each equation, alone where there is one."""
        with self.jax.enable_x64(self.precision == "float64"):
            try:
                found = [np.asarray(part) for part in self._parts(*self._inputs(points, values))]
            except (TypeError, ValueError, AttributeError) as error:
                raise InputError(
                    "a dynamic loss that can be evaluated at the points",
                    f"{type(error).__name__}: {str(error).splitlines()[0]}",
                    "check the number of columns, time first, and the names in eq_params",
                ) from error
        self.components = [part.shape[1] for part in found]
        columns = [part[:, k] for part in found for k in range(part.shape[1])]
        return tuple(columns) if len(columns) > 1 else columns[0]

    def jacobian(self, points: Any, values: Mapping[str, Any]) -> FloatArray:
        """Return derivatives by the physical values, (N, d), the equations below each other."""
        with self.jax.enable_x64(self.precision == "float64"):
            found = [np.asarray(part) for part in self._columns(*self._inputs(points, values))]
        columns = [part[:, k] for part in found for k in range(part.shape[1])]
        return np.concatenate(columns).astype(float)

    def field(self, points: Any, values: Mapping[str, Any] | None = None) -> FloatArray:
        """Return the first output of the network at the points."""
        at = {u.name: u.delivered for u in self.unknowns} if values is None else values
        with self.jax.enable_x64(self.precision == "float64"):
            inputs, vector = self._inputs(points, at)
            params = self.moved(vector)
            outputs = self.jax.vmap(lambda point: self.loss.u(point, params))(inputs)
        return as_numpy(outputs).reshape(len(as_numpy(points)), -1)[:, 0]

    def precision_notes(self) -> list[str]:
        """Return what to say of the precision."""
        if self.precision == "float32":
            return ['the residual is evaluated in float32; precision="float64" evaluates in double']
        if self.trained_in == "float64":
            return []
        return [f"the network was trained in {self.trained_in}; it is evaluated in float64"]

    def influence(
        self, points: FloatArray, parameters: Mapping[str, Parameter]
    ) -> tuple[list[str], list[str]]:
        """Return the unknowns that move the residual, and those whose derivative is lost.

        A derivative is lost where the residual moves and its derivative is zero throughout, as
        behind ``jax.lax.stop_gradient``.
        """
        center = {unknown.name: unknown.delivered for unknown in self.unknowns}
        at_center = np.atleast_2d(self.residual(points, center))
        columns = self.jacobian(points, center)
        seen, lost = [], []
        for number, name in enumerate(center):
            moved = [
                np.atleast_2d(self.residual(points, {**center, name: bound}))
                for bound in parameters[name].bounds
            ]
            if columns[:, number].any():
                seen.append(name)
            elif any(not np.array_equal(at_center, other) for other in moved):
                seen.append(name)
                lost.append(name)
        return seen, lost

    def notes(
        self,
        points: FloatArray,
        parameters: Mapping[str, Parameter],
        seen: Sequence[str],
        lost: Sequence[str],
    ) -> list[str]:
        """Return what a reader must know of this training and this residual."""
        notes = []
        center = {unknown.name: unknown.delivered for unknown in self.unknowns}
        mask = self.loss.derivative_keys.dyn_loss.eq_params
        for unknown in self.unknowns:
            name = unknown.name
            # jinns turns these flags into arrays while it trains.
            if not np.all(getattr(mask, unknown.leaf, True)):
                notes.append(
                    f"the residual loss did not move {name} in training: derivative_keys.dyn_loss "
                    "leaves it out, as is the default of jinns"
                )
            if name not in seen:
                notes.append(
                    f"the residual does not change with {name}: H = 0 there, it does not see {name}"
                )
            if name in lost:
                notes.append(f"the equation stops the derivative by {name}: differences instead")
            moved = {**center, name: parameters[name].bounds[0]}
            if not np.array_equal(self.field(points), self.field(points, moved)):
                notes.append(
                    f"the network takes {name} as an input or in a transform, and moves with it"
                )
        return notes

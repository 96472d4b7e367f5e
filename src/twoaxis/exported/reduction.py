r"""A residual reduced to numbers: its dependence on the parameters, without the code behind it.

Where the residual is affine in the physical parameters, ``r(p) = a + sum_j p_j b_j``, the
vectors ``a`` and ``b_j`` are all of it, everywhere. Any other residual is sampled at Chebyshev
nodes of the coordinates, inside the bounds, until interpolation between them is accurate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.exported.chebyshev import TensorGrid
from twoaxis.parameters import Parameter

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class AffineForm:
    """``r(p) = constant + slopes @ p``, in physical parameters.

    Attributes
    ----------
    constant : array, shape (N,)
    slopes : array, shape (N, d)
    """

    constant: FloatArray
    slopes: FloatArray

    def residual(
        self, parameters: Mapping[str, Parameter], values: Mapping[str, Any]
    ) -> FloatArray:
        """Return the residual, shape (N,), at physical values by name."""
        physical = np.array([float(values[name]) for name in parameters])
        return np.asarray(self.constant + self.slopes @ physical)

    def jacobian(
        self, parameters: Mapping[str, Parameter], values: Mapping[str, Any]
    ) -> FloatArray:
        """Return derivatives by the physical parameters, shape (N, d)."""
        del parameters, values  # the same everywhere
        return self.slopes.copy()

    def in_words(self) -> str:
        """Say how the residual is kept."""
        return "affine in its parameters and kept as such"


@dataclass(frozen=True)
class SampledForm:
    """Samples on a tensor grid of Chebyshev nodes of the coordinates.

    Attributes
    ----------
    grid : TensorGrid
    samples : array, shape (n_1, ..., n_d, N)
    """

    grid: TensorGrid
    samples: FloatArray

    def residual(
        self, parameters: Mapping[str, Parameter], values: Mapping[str, Any]
    ) -> FloatArray:
        """Return the interpolated residual, shape (N,), at physical values by name."""
        return self.grid.at(self.samples, self._coordinates(parameters, values))

    def jacobian(
        self, parameters: Mapping[str, Parameter], values: Mapping[str, Any]
    ) -> FloatArray:
        """Return the interpolant's derivatives by the physical parameters, shape (N, d)."""
        where = self._coordinates(parameters, values)
        # dr/dp = dr/dq / (dp/dq), and dp/dq = p in log coordinates.
        stretch = [
            float(values[name]) if p.coordinate == "log" else 1.0 for name, p in parameters.items()
        ]
        return np.asarray(self.grid.slopes(self.samples, where) / np.array(stretch))

    def in_words(self) -> str:
        """Say how the residual is kept."""
        return f"interpolated between {' x '.join(map(str, self.grid.shape))} samples"

    def _coordinates(
        self, parameters: Mapping[str, Parameter], values: Mapping[str, Any]
    ) -> FloatArray:
        found = []
        for (name, parameter), nodes in zip(parameters.items(), self.grid.nodes, strict=True):
            value = float(values[name])
            low, high = (float(parameter.to_value(q)) for q in nodes[[0, -1]])
            # The ends themselves may leave the range by rounding, through exp and log.
            slack = 1e-12 * max(abs(low), abs(high))
            if not low - slack <= value <= high + slack:
                raise InputError(
                    f"{name} where the residual was sampled, {low:g} to {high:g}",
                    f"{name}={value:g}",
                    "stay inside, or export the residual again from its model with wider bounds",
                )
            inside = min(max(value, low), high)
            q = float(parameter.to_coordinate(inside))
            found.append(min(max(q, nodes[0]), nodes[-1]))
        return np.array(found)


Form = AffineForm | SampledForm


def as_functions(
    form: Form, parameters: Mapping[str, Parameter], sizes: list[int]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return ``residual(**values)`` and ``jacobian(**values)``, equations in a tuple."""
    ends = np.cumsum(sizes)[:-1]

    def residual(**values: Any) -> Any:
        found = form.residual(parameters, values)
        return tuple(np.split(found, ends)) if len(ends) else found

    def jacobian(**values: Any) -> FloatArray:
        return form.jacobian(parameters, values)

    return residual, jacobian

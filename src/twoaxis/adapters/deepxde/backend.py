"""The two backends of DeepXDE that an audit can use: PyTorch and JAX.

A backend evaluates the equations of a trained model at given values of its unknowns, and their
exact derivatives. PyTorch keeps an unknown as a leaf tensor that the user's PDE has captured, so
its value is set for the length of a call and put back; in JAX the PDE is handed the unknowns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError

FloatArray = NDArray[np.float64]


class Backend(ABC):
    """A trained model, frozen: its equations as functions of points and unknowns.

    Unknowns are given as the numbers that the model stores, keyed by their place among the
    model's external trainable variables; the others keep the values they had when frozen.

    Attributes
    ----------
    own, precision : str
        The precision of the model, and that of the evaluation.
    """

    own: str
    precision: str

    @abstractmethod
    def is_variable(self, given: Any) -> bool:
        """Tell whether this is a ``dde.Variable``."""

    @abstractmethod
    def stored(self, variable: Any) -> FloatArray:
        """Return what a variable holds."""

    @abstractmethod
    def equations(self, points: FloatArray, raw: Mapping[int, float]) -> list[FloatArray]:
        """Return one array (N, m) for each equation."""

    @abstractmethod
    def derivatives(self, points: FloatArray, raw: Mapping[int, float]) -> list[FloatArray]:
        """Return one array (N, m, d) for each equation: derivatives by the stored numbers."""

    @abstractmethod
    def field(self, points: FloatArray) -> FloatArray:
        """Return the outputs of the network, (N, outputs)."""

    @abstractmethod
    def slope(self, function: Callable[[Any], Any], at: float) -> tuple[float, float]:
        """Return the value and the derivative of a function of one number, in float64."""

    @abstractmethod
    def call(self, function: Callable[..., Any], *arrays: Any) -> float:
        """Call a function of the user's with arrays of the backend; return its one number."""

    @abstractmethod
    def conditions_with(self, data: Any) -> dict[int, list[str]]:
        """Return which conditions depend on which unknown."""


def as_columns(found: Any, rows: int) -> list[Any]:
    """Return what a PDE returned as one array (N, m) for each equation."""
    parts = list(found) if isinstance(found, (list, tuple)) else [found]
    if not parts:
        raise InputError("a PDE with an equation", "an empty list", "return its residual")
    columns = [part[:, None] if getattr(part, "ndim", 0) == 1 else part for part in parts]
    for part in columns:
        shape = tuple(getattr(part, "shape", ()))
        if len(shape) != 2 or shape[0] != rows:
            raise InputError(
                f"a residual of shape ({rows}, 1), a row for each point",
                f"the shape {shape}",
                "return an array (N, 1), or a list of such for several equations",
            )
        if shape[1] == rows > 1:
            raise InputError(
                f"a residual of shape ({rows}, 1), a row for each point",
                f"the shape {shape}: every point combined with every other",
                "keep columns, as in y[:, 0:1]; y[:, 0] next to an array (N, 1) spreads it out",
            )
    return columns

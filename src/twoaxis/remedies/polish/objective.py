"""What polishing needs of a training loss, whatever library computes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual

FloatArray = NDArray[np.float64]


@runtime_checkable
class Objective(Protocol):
    """The training loss of a field and its parameters, as a function of one flat vector.

    `twoaxis.run_objective` makes one of a run, `twoaxis.torch_objective` one of a PyTorch model;
    any object with these four members is one. One that also has ``positions``, a mapping from the
    names of the parameters to their places in the vector, where their coordinates stand, keeps
    them from running away: they stay between bounds ten times as wide as declared.
    """

    @property
    def names(self) -> Sequence[str]:
        """Names of the parameters."""
        ...

    @property
    def start(self) -> FloatArray:
        """The delivered state, float64, shape (n,)."""
        ...

    def value_and_gradient(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its gradient, with adaptive weights held."""
        ...

    def frozen(self, vector: FloatArray) -> FrozenResidual:
        """Return the frozen residual of this state, with its parameters as delivered."""
        ...


def checked_objective(objective: Any, frozen: FrozenResidual) -> tuple[FloatArray, float]:
    """Return the start of an objective and the size of its gradient there, or say what is wrong."""
    missing = [
        name for name in ("names", "start", "value_and_gradient", "frozen")
        if not hasattr(objective, name)
    ]  # fmt: skip
    if missing or isinstance(objective, type):
        raise InputError(
            "an objective with names, start, value_and_gradient and frozen",
            f"{type(objective).__name__} without {', '.join(missing)}" if missing else "a class",
            "pass twoaxis.run_objective(run), twoaxis.torch_objective(...) or an object of your "
            "own that has them",
        )
    if list(objective.names) != frozen.names:
        raise InputError(
            f"an objective of the parameters {', '.join(frozen.names)}",
            f"one of {', '.join(map(str, objective.names))}",
            "pass the frozen residual and the objective of the same model",
        )
    start = np.asarray(objective.start)
    if start.dtype.kind != "f" or start.ndim != 1 or not np.isfinite(start).all():
        raise InputError(
            "start as a flat vector of finite floats",
            f"an array of {start.dtype} with shape {start.shape}",
            "concatenate the weights and the coordinates of the parameters in float64",
        )
    return start.astype(float), _first_call(objective, start.astype(float), frozen)


def _first_call(objective: Any, start: FloatArray, frozen: FrozenResidual) -> float:
    """Evaluate an objective once, so that what is wrong is said before the work begins."""
    value, gradient = objective.value_and_gradient(start)
    gradient = np.asarray(gradient, dtype=float)
    if gradient.shape != start.shape or not (np.isfinite(value) and np.isfinite(gradient).all()):
        raise InputError(
            f"a finite loss and a finite gradient of shape {start.shape} at the start",
            f"the loss {value} and a gradient of shape {gradient.shape}, "
            f"{int((~np.isfinite(gradient)).sum())} of its entries not finite",
            "check the loss at the delivered state",
        )
    there = objective.frozen(start).parameters
    for name, parameter in frozen.parameters.items():
        ours, theirs = parameter.delivered, there[name].delivered
        if ours is None or theirs is None or not np.isclose(ours, theirs, rtol=1e-5, atol=0.0):
            raise InputError(
                f"an objective that starts from the delivered {name} = {ours}",
                f"one that starts from {theirs}",
                "make it of the model and the parameters that were frozen",
            )
    return float(np.abs(gradient).max())

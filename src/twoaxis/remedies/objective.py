"""What polishing needs of a training loss, whatever library computes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from twoaxis.arrays import is_integer
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual

FloatArray = NDArray[np.float64]


@runtime_checkable
class Objective(Protocol):
    """The training loss of a field and its parameters, as a function of one flat vector.

    `twoaxis.objective` makes one of a run or of a PyTorch model; any object with these four
    members is one. One that also has ``positions``, a mapping from the
    names of the parameters that it moves to the positions of their coordinates in the vector,
    says two things more. These parameters stay within bounds that are wider than declared, by a
    factor of ten on each side in a log coordinate, three times as wide in a linear one. And all
    other parameters are held as delivered, so that they have no gap.
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


def checked_objective(
    objective: Any, frozen: FrozenResidual
) -> tuple[FloatArray, float, FloatArray]:
    """Return the start of an objective, loss and gradient there, or raise for an unusable one."""
    missing = [
        name for name in ("names", "start", "value_and_gradient", "frozen")
        if not hasattr(objective, name)
    ]  # fmt: skip
    if missing or isinstance(objective, type):
        raise InputError(
            "an objective with names, start, value_and_gradient and frozen",
            f"{type(objective).__name__} without {', '.join(missing)}" if missing else "a class",
            "pass twoaxis.objective(...), or an object of your own that has them",
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
    _check_positions(objective, frozen, start.size)
    return start.astype(float), *_first_call(objective, start.astype(float), frozen)


def places_of(objective: Any) -> dict[str, int]:
    """Return where the coordinates of the moving parameters stand; empty where that is not said."""
    return dict(getattr(objective, "positions", {}))


def moving_part(objective: Any, frozen: FrozenResidual) -> FrozenResidual:
    """Return a frozen residual as a function of the parameters that an objective moves.

    Only in these is a minimum of the loss stationary; the others are held as delivered.
    """
    moving = places_of(objective) or frozen.names
    held = {name: p.delivered for name, p in frozen.parameters.items() if name not in moving}
    if not held:
        return frozen
    columns = np.flatnonzero([name in moving for name in frozen.names])
    jacobian = frozen.jacobian
    return replace(
        frozen,
        parameters={name: p for name, p in frozen.parameters.items() if name in moving},
        residual=partial(frozen.residual, **held),
        residual_at=frozen.residual_at and partial(frozen.residual_at, **held),
        jacobian=jacobian and (lambda **values: jacobian(**held, **values)[:, columns]),
    )


def _check_positions(objective: Any, frozen: FrozenResidual, size: int) -> None:
    given = getattr(objective, "positions", {})
    if not isinstance(given, Mapping) or not all(
        name in frozen.parameters and is_integer(place) and 0 <= place < size
        for name, place in given.items()
    ):
        raise InputError(
            f"positions from names of parameters to places in a vector of {size} entries",
            repr(given),
            f"name some of {', '.join(frozen.names)}, or leave positions out",
        )


def _first_call(
    objective: Any, start: FloatArray, frozen: FrozenResidual
) -> tuple[float, FloatArray]:
    """Evaluate an objective once, to find faults before the work begins."""
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
    return float(value), gradient

r"""Polishing: first the parameter, with the field held; then both together, to second order.

The delivery gap :math:`q_{train} - q_{profile}` is what lies between the delivered parameter and
the one that its own field prefers under the training view. At a stationary point of the joint loss

.. math:: L(\theta, q) = L_{data}(\theta) + \lambda\, r^\top M r, \qquad
          \partial_q L = 2 \lambda\, J^\top M r = 0,

the frozen profile is stationary in ``q``, too, and the gap is zero (in the basin that training
ended in). A gap therefore speaks of training that had not arrived, or of another basin. Two steps
tell: the parameter moves to its frozen minimum, in closed form where the residual is affine; then
L-BFGS goes on from the delivered state with network and parameters together. If the gap closes,
it was optimisation.

Neither step knows the truth. A field that prefers the wrong parameter delivers it all the better
once it is polished.

What polishing needs of a training loss, whatever library computes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from twoaxis.arrays import is_integer, is_real
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameters
from twoaxis.progress import progress_bar
from twoaxis.remedies.polish.result import Finish, Polish, stage_of, wider_bounds
from twoaxis.views import View

FloatArray = NDArray[np.float64]


@runtime_checkable
class Objective(Protocol):
    """The training loss of a field and its parameters, as a function of one flat vector.

    `twoaxis.objective` makes one of a run or of a PyTorch model;
    any object with these four members is one. One that also has ``positions``, a mapping from the
    names of the parameters that it moves to the places of their coordinates in the vector, says
    two things more. These parameters do not run away: they stay between wider bounds than
    declared, by a factor of ten on each side in a log coordinate, three times as wide in a linear
    one. And all others are held as delivered, so that they have no gap.
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
    """Return the start of an objective, loss and gradient there, or say what is wrong."""
    missing = [
        name for name in ("names", "start", "value_and_gradient", "frozen")
        if not hasattr(objective, name)
    ]  # fmt: skip
    if missing or isinstance(objective, type):
        raise InputError(
            "an objective with names, start, value_and_gradient and frozen",
            f"{type(objective).__name__} without {', '.join(missing)}" if missing else "a class",
            "pass twoaxis.objective(...) or an object of your own that has them",
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
    return float(value), gradient


# Pairs of steps that L-BFGS remembers: a network's loss has many scales.
MEMORY = 50
# A gradient of this size counts as none.
FLAT_GRADIENT = 1e-9


def polish(
    subject: Any,
    objective: Objective | None = None,
    *,
    view: View | None = None,
    tolerance: float = 1.0,
    iterations: int = 500,
    candidates: int = 81,
    progress: bool = True,
) -> Polish:
    """Ask how much of a delivery gap was optimisation, by finishing the training.

    Parameters
    ----------
    subject : FrozenResidual or an object with one as its ``frozen``
        Such as a run. Its parameters have `delivered` values.
    objective : Objective, optional
        The training loss, from `twoaxis.objective`. Without it
        only the parameter is moved, with the field held. Parameters that it holds fixed have no
        gap, and are left out of the result.
    view : View, optional
        The training view, where the frozen residual does not carry it.
    tolerance : float
        A gap of at most so many percent leaves little to gain.
    iterations : int
        Most iterations of L-BFGS.
    candidates : int
        Of the frozen scans.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Polish

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 50)
    >>> frozen = ta.FrozenResidual(
    ...     lambda k: k * np.ones(50) - 1.1, {"k": ta.Parameter(delivered=1.0, bounds=(0.5, 2.0))},
    ...     x, view=ta.views.Pointwise(),
    ... )
    >>> found = polish(frozen)
    >>> round(found.frozen_minimum["k"], 6), round(found.gap_before["k"], 2)
    (1.1, -9.09)
    """
    frozen = _frozen_of(subject)
    _check_options(tolerance, iterations)
    if objective is None:
        before = stage_of("delivered", frozen, view, candidates)
        return Polish(before=before, tolerance=float(tolerance))
    start, first, gradient = checked_objective(objective, frozen)
    before = stage_of("delivered", moving_part(objective, frozen), view, candidates)
    box = _box(objective, frozen, start.size)
    result, evaluations = _minimised(objective, start, first, box, int(iterations), progress)
    finished = objective.frozen(result.x)
    moved = moving_part(objective, finished)
    finish = Finish(
        stage=stage_of("finished", moved, view or frozen.view, candidates),
        frozen=finished,
        vector=result.x,
        loss_before=first,
        loss_after=float(result.fun),
        gradient_before=float(np.abs(gradient).max()),
        gradient_after=float(np.abs(result.jac).max()),
        iterations=int(result.nit),
        evaluations=evaluations,
        converged=_arrived(result.x, result.jac, box),
    )
    return Polish(before=before, tolerance=float(tolerance), finish=finish)


def _frozen_of(subject: Any) -> FrozenResidual:
    frozen = subject if isinstance(subject, FrozenResidual) else getattr(subject, "frozen", None)
    if not isinstance(frozen, FrozenResidual):
        raise InputError(
            "a frozen residual, or a run that has one",
            type(subject).__name__,
            "pass runs[0], or what twoaxis.from_torch and the other adapters return",
        )
    Parameters(frozen.parameters).require("delivered")
    return frozen


def _check_options(tolerance: Any, iterations: Any) -> None:
    if not (is_real(tolerance) and 0 < tolerance < float("inf")):
        raise InputError(
            "tolerance as a positive number of percent", repr(tolerance), "pass tolerance=1.0"
        )
    if not (is_integer(iterations) and iterations >= 1):
        raise InputError(
            "at least one iteration", f"iterations={iterations!r}", "pass iterations=500"
        )


def _box(objective: Any, frozen: FrozenResidual, size: int) -> Bounds:
    """Return no bounds but for parameters whose places are known.

    In a log coordinate the loss grows flat towards zero: too long a step would never come back.
    """
    low, high = np.full(size, -np.inf), np.full(size, np.inf)
    for name, place in places_of(objective).items():
        parameter = frozen.parameters[name]
        low[place], high[place] = parameter.to_coordinate(wider_bounds(parameter))
    return Bounds(low, high)


def _arrived(vector: FloatArray, gradient: FloatArray, box: Bounds) -> bool:
    """Whether the projected gradient, ``x - clip(x - g)``, has vanished.

    The optimiser's own word does not tell: it also stops where the loss has ceased to fall.
    """
    projected = vector - np.clip(vector - gradient, box.lb, box.ub)
    return bool(np.abs(projected).max() <= FLAT_GRADIENT)


def _minimised(
    objective: Objective,
    start: FloatArray,
    first: float,
    box: Bounds,
    iterations: int,
    progress: bool,
) -> tuple[Any, int]:
    """Return what L-BFGS found from `start`, and how often the loss was evaluated.

    `first` is the loss at `start`.
    """
    evaluations = 0
    # Above every loss that has been accepted, as these only fall.
    refused = first + abs(first) + 1

    def loss(vector: FloatArray) -> tuple[float, FloatArray]:
        nonlocal evaluations
        evaluations += 1
        value, gradient = objective.value_and_gradient(vector)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            # Too long a step. The line search interpolates, and comes back from a finite loss
            # alone: an infinite one makes it give up where it stands, and call that convergence.
            return refused, np.zeros_like(vector)
        return value, gradient

    with progress_bar("finishing the training", iterations, progress) as advance:
        found = minimize(
            loss,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=box,
            callback=lambda _: advance(1),
            options={
                "maxiter": iterations,
                "maxfun": 20 * iterations,
                "maxcor": MEMORY,
                "gtol": FLAT_GRADIENT,
                "ftol": 0.0,
            },
        )
    return found, evaluations

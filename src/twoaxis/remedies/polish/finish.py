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
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import delivered_values
from twoaxis.progress import progress_bar
from twoaxis.remedies.polish.objective import (
    Objective,
    checked_objective,
    moving_part,
    places_of,
)
from twoaxis.remedies.polish.result import Finish, Polish
from twoaxis.remedies.polish.stages import stage_of, wider_bounds
from twoaxis.views import View
from twoaxis.views.checks import is_real, is_whole

FloatArray = NDArray[np.float64]

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
        The training loss, from `twoaxis.run_objective` or `twoaxis.torch_objective`. Without it
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
    delivered_values(frozen.parameters)
    return frozen


def _check_options(tolerance: Any, iterations: Any) -> None:
    if not (is_real(tolerance) and 0 < tolerance < float("inf")):
        raise InputError(
            "tolerance as a positive number of percent", repr(tolerance), "pass tolerance=1.0"
        )
    if not (is_whole(iterations) and iterations >= 1):
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

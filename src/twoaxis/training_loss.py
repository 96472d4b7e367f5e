r"""The training loss of a field and its parameters, whatever library computes it.

.. math:: L(\theta, q) = L_{data}(\theta) + \lambda\, r(\theta, q)^\top M\, r(\theta, q)

as a function of one flat vector, the weights :math:`\theta` and the coordinates :math:`q`
together. Training has finished where its gradient has vanished. If a few iterations of L-BFGS
move the parameters far from the delivered state, it had not (`probe`); if they do not, nothing is
known: in a slow valley many more iterations may. Many of them finish it (`twoaxis.polish`).
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from twoaxis.arrays import is_integer
from twoaxis.errors import InputError
from twoaxis.gauss_newton import coordinate_steps
from twoaxis.parameters import Parameter, Parameters
from twoaxis.progress import progress_bar

if TYPE_CHECKING:
    from twoaxis.frozen import FrozenResidual

FloatArray = NDArray[np.float64]

MEMBERS = ("names", "start", "value_and_gradient", "frozen")
# Pairs of steps that L-BFGS remembers: a network's loss has many scales.
MEMORY = 50
# A gradient of this size counts as none.
FLAT_GRADIENT = 1e-9
# Bounds of a log coordinate are moved by this factor, those of a linear one by their width.
WIDER = 10.0
# Ranges of parameters up to this many times one, and down to its inverse, are ordinary numbers.
ORDINARY = 1e3
# Evaluations of the loss that an iteration of `probe` may take: its line searches rarely need two.
EVALUATIONS_EACH = 3


@runtime_checkable
class Objective(Protocol):
    """The training loss of a field and its parameters, as a function of one flat vector.

    `twoaxis.objective` makes one of a run or of a PyTorch model, and the adapters of DeepXDE, PINA
    and jinns know that of their model; any object with these four members is one. One that also has
    ``positions``, a mapping from the names of the parameters that it moves to the positions of
    their coordinates in the vector, says two things more. These parameters stay within bounds that
    are wider than declared, by a factor of ten on each side in a log coordinate, three times as
    wide in a linear one. And all other parameters are held as delivered, so that they have no gap.
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


def check_members(objective: Any) -> None:
    """Refuse what is no objective, without evaluating anything of it."""
    absent = object()
    missing = [
        name for name in MEMBERS if inspect.getattr_static(objective, name, absent) is absent
    ]
    if missing or isinstance(objective, type):
        raise InputError(
            f"an objective with {', '.join(MEMBERS[:-1])} and {MEMBERS[-1]}",
            f"{type(objective).__name__} without {', '.join(missing)}" if missing else "a class",
            "pass twoaxis.objective(...), or an object of your own that has them",
        )


def checked_objective(
    objective: Any, frozen: FrozenResidual
) -> tuple[FloatArray, float, FloatArray]:
    """Return the start of an objective, loss and gradient there, or raise for an unusable one."""
    check_members(objective)
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
    value, gradient = _loss_at(objective, start)
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        raise InputError(
            "a finite loss and a finite gradient at the start",
            f"the loss {value} and a gradient with {int((~np.isfinite(gradient)).sum())} of its "
            f"{gradient.size} entries not finite",
            "check the loss at the delivered state",
        )
    there = _delivered_by(objective, start, frozen)
    for name, parameter in frozen.parameters.items():
        ours, theirs = parameter.delivered, there[name]
        if ours is None or theirs is None or not np.isclose(ours, theirs, rtol=1e-5, atol=0.0):
            raise InputError(
                f"an objective that starts from the delivered {name} = {ours}",
                f"one that starts from {theirs}",
                "make it of the model and the parameters that were frozen",
            )
    return value, gradient


def _asked(objective: Any, method: str, vector: FloatArray, expected: str) -> Any:
    """Call a method of an objective; what it raises becomes an `InputError` with that cause."""
    try:
        return getattr(objective, method)(vector)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # whatever a user's function or its library raises
        raise InputError(
            f"{method} to return {expected}",
            f"{type(error).__name__}: {error}",
            f"call {method}(start) by itself, and correct it",
        ) from error


def _loss_at(objective: Any, vector: FloatArray) -> tuple[float, FloatArray]:
    expected = f"a loss and a gradient of shape {vector.shape}"
    answer = _asked(objective, "value_and_gradient", vector, expected)
    try:
        value, gradient = float(answer[0]), np.asarray(answer[1], dtype=float)
    except (TypeError, ValueError, LookupError):
        value, gradient = np.nan, np.empty(0)
    if gradient.shape != vector.shape:
        raise InputError(
            f"value_and_gradient to return {expected}",
            f"a gradient of shape {gradient.shape}"
            if gradient.size
            else f"no such pair, but {type(answer).__name__}",
            "return both in a tuple, with an entry of the gradient for each of the vector",
        )
    return value, gradient


def frozen_at(objective: Any, vector: FloatArray) -> FrozenResidual:
    """Return the frozen residual of a state, or raise for an objective that does not give it."""
    expected = "the FrozenResidual of a state"
    found: FrozenResidual = _asked(objective, "frozen", vector, expected)
    if not isinstance(getattr(found, "parameters", None), Parameters):
        raise InputError(
            f"frozen to return {expected}",
            type(found).__name__,
            "return twoaxis.FrozenResidual(...) with the delivered values of that state",
        )
    return found


def _delivered_by(
    objective: Any, vector: FloatArray, frozen: FrozenResidual
) -> dict[str, float | None]:
    """Return the parameters of a state; where the places of all are known nothing is frozen."""
    places = places_of(objective)
    if set(places) == set(frozen.parameters):
        known = frozen.parameters
        return {name: float(known[name].to_value(vector[at])) for name, at in places.items()}
    return {name: p.delivered for name, p in frozen_at(objective, vector).parameters.items()}


# ------------------------------------------------------------------ minimization


def wider_bounds(parameter: Parameter) -> tuple[float, float]:
    """Return bounds far outside of the declared ones: a parameter beyond them has diverged."""
    low, high = parameter.bounds
    if parameter.coordinate == "log":
        return low / WIDER, high * WIDER
    return 2 * low - high, 2 * high - low


@dataclass(frozen=True, eq=False)
class Minimization:
    """Where L-BFGS ended.

    Attributes
    ----------
    vector, gradient : array, shape (n,)
    loss : float
    iterations, evaluations : int
    converged : bool
        Whether the gradient vanished, to 1e-9, except for entries that push a parameter against
        the bound it is at.
    """

    vector: FloatArray
    gradient: FloatArray
    loss: float
    iterations: int
    evaluations: int
    converged: bool


def minimize_loss(
    objective: Objective,
    frozen: FrozenResidual,
    start: FloatArray,
    first: float,
    *,
    iterations: int,
    evaluations: int,
    callback: Callable[[FloatArray, float], None],
) -> Minimization:
    """Minimize a training loss by L-BFGS, network and parameters together.

    Parameters
    ----------
    objective : Objective
    frozen : FrozenResidual
        For the bounds of the parameters whose places are known.
    start : array, shape (n,)
    first : float
        The loss at `start`.
    iterations, evaluations : int
        No iteration begins after so many of either.
    callback : callable
        Called with vector and loss after every iteration.
    """
    # At call time: this module is imported with every residual, and scipy.optimize is slow to load.
    from scipy.optimize import Bounds, minimize

    low, high = _box(objective, frozen, start.size)
    steps = _steps(objective, frozen, start.size)
    calls = 0
    # Above every loss that has been accepted, as these only fall.
    refused = first + abs(first) + 1

    def loss(scaled: FloatArray) -> tuple[float, FloatArray]:
        nonlocal calls
        calls += 1
        value, gradient = _loss_at(objective, scaled * steps)
        gradient = gradient * steps
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            # Too long a step. The line search interpolates, and comes back from a finite loss
            # alone: an infinite one makes it give up where it stands, and call that convergence.
            return refused, np.zeros_like(scaled)
        return value, gradient

    def after_iteration(intermediate_result: Any) -> None:
        callback(intermediate_result.x * steps, float(intermediate_result.fun))

    found = minimize(
        loss,
        start / steps,
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(low / steps, high / steps),
        callback=after_iteration,
        options={
            "maxiter": iterations,
            "maxfun": evaluations,
            "maxcor": MEMORY,
            "gtol": FLAT_GRADIENT,
            "ftol": 0.0,
        },
    )
    # The optimizer's own status does not tell: it also stops where the loss no longer falls.
    projected = found.x - np.clip(found.x - found.jac, low / steps, high / steps)
    return Minimization(
        vector=found.x * steps,
        gradient=np.asarray(found.jac / steps, dtype=float),
        loss=float(found.fun),
        iterations=int(found.nit),
        evaluations=calls,
        converged=bool(np.abs(projected).max() <= FLAT_GRADIENT),
    )


def _box(objective: Any, frozen: FrozenResidual, size: int) -> tuple[FloatArray, FloatArray]:
    """Return no bounds but for parameters whose places are known.

    In a log coordinate the loss grows flat towards zero: too long a step would never come back.
    """
    low, high = np.full(size, -np.inf), np.full(size, np.inf)
    for name, place in places_of(objective).items():
        parameter = frozen.parameters[name]
        low[place], high[place] = parameter.to_coordinate(wider_bounds(parameter))
    return low, high


def _steps(objective: Any, frozen: FrozenResidual, size: int) -> FloatArray:
    """Return the units in which the optimizer sees the entries of a vector.

    A linear coordinate has the units of its parameter. In very large or very small numbers the
    optimizer would not move it, or move nothing else; others are taken as training takes them.
    """
    steps = np.ones(size)
    for name, place in places_of(objective).items():
        step = float(coordinate_steps({name: frozen.parameters[name]})[0])
        steps[place] = 1.0 if 1 / ORDINARY <= step <= ORDINARY else step
    return steps


# ------------------------------------------------------------------ does training move on?


@dataclass(frozen=True, eq=False)
class Probe:
    r"""What a few more iterations on the training loss change. Made by `probe`.

    Attributes
    ----------
    displacement : dict of str to float
        Signed change of each parameter in its coordinate, :math:`q_{probe} - q_{delivered}`; a
        parameter that the objective holds fixed has 0.
    losses : array, shape (iterations + 1,)
        The loss at the delivered state and after every iteration.
    path : array, shape (iterations + 1, d)
        The displacement of every parameter after every iteration. An objective that does not say
        where its parameters stand has the first and the last row alone.
    gradient_before, gradient_after : float
        The largest absolute entry of the gradient.
    iterations, evaluations : int
    converged : bool
        Whether the gradient vanished, to 1e-9.
    seconds : float
        Time that it took.
    """

    displacement: dict[str, float]
    losses: FloatArray
    path: FloatArray
    gradient_before: float
    gradient_after: float
    iterations: int
    evaluations: int
    converged: bool
    seconds: float

    @property
    def relative_decrease(self) -> float:
        """How much of the loss went away, ``1 - after / before``; 0 for a loss of zero."""
        before, after = float(self.losses[0]), float(self.losses[-1])
        return (before - after) / abs(before) if before else 0.0


def probe(
    objective: Objective,
    frozen: FrozenResidual | None = None,
    *,
    iterations: int = 50,
    progress: bool = False,
) -> Probe:
    """Continue a training for a few iterations of L-BFGS, to see whether it moves on.

    The model is not changed, and the same state gives the same numbers.

    Parameters
    ----------
    objective : Objective
        Such as ``frozen.objective``.
    frozen : FrozenResidual, optional
        Of the delivered state, for its parameters and their bounds; made by the objective where
        it is not given.
    iterations : int
        Maximum number of iterations; no iteration begins after three times as many evaluations
        of the loss.
    progress : bool
        Whether to show progress.

    Returns
    -------
    Probe
    """
    if not (is_integer(iterations) and iterations >= 1):
        raise InputError("at least one iteration", f"iterations={iterations!r}", "pass 50")
    check_members(objective)
    began = time.perf_counter()
    known = frozen_at(objective, objective.start) if frozen is None else frozen
    start, value, gradient = checked_objective(objective, known)
    places, names = places_of(objective), known.names
    losses, path = [value], [np.zeros(len(names))]

    with progress_bar("probing the training loss", int(iterations), progress) as advance:

        def record(vector: FloatArray, loss: float) -> None:
            advance(1)
            losses.append(loss)
            if places:
                moved = {name: vector[at] - start[at] for name, at in places.items()}
                path.append(np.array([moved.get(name, 0.0) for name in names]))

        found = minimize_loss(
            objective,
            known,
            start,
            value,
            iterations=int(iterations),
            evaluations=EVALUATIONS_EACH * int(iterations),
            callback=record,
        )
    if not places:
        ends = [known.parameters, frozen_at(objective, found.vector).parameters]
        first, last = (known.coordinates(Parameters(each).require("delivered")) for each in ends)
        path.append(last - first)
    return Probe(
        displacement=dict(zip(names, path[-1].tolist(), strict=True)),
        losses=np.array(losses),
        path=np.array(path),
        gradient_before=float(np.abs(gradient).max()),
        gradient_after=float(np.abs(found.gradient).max()),
        iterations=found.iterations,
        evaluations=found.evaluations,
        converged=found.converged,
        seconds=time.perf_counter() - began,
    )

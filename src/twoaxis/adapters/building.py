"""What all adapters share: foreign imports, points, parameters, and the view of the training."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.parameters import Parameter, checked_parameters
from twoaxis.views import Blocks, Pointwise, View, Weighted

FloatArray = NDArray[np.float64]


def foreign(module: str, extra: str, call: str) -> Any:
    """Import a foreign library, or say which extra brings it.

    Parameters
    ----------
    module : str
        Such as ``"torch"``.
    extra : str
        The extra of this package that installs it.
    call : str
        Who needs it, such as ``"twoaxis.from_torch"``.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise  # the library is there; something that it needs itself is not
        raise InputError(
            f"the library {module} for {call}",
            "an environment without it",
            f"run pip install 'twoaxis[{extra}]'",
        ) from error


def as_numpy(array: Any) -> FloatArray:
    """Return points or weights of any library as a float64 array."""
    if hasattr(array, "detach"):  # a PyTorch tensor, perhaps with a graph, perhaps on a GPU
        array = array.detach().cpu().numpy()
    return np.asarray(array, dtype=float)


def first_call(
    evaluate: Callable[..., Any], points: Any, parameters: Mapping[str, Parameter]
) -> Any:
    """Call a residual once, in order to say plainly what is wrong with it."""
    values = {name: _some_value(p) for name, p in parameters.items()}
    try:
        return evaluate(points, values)
    except InputError:
        raise
    except TypeError as error:
        raise InputError(
            f"a residual(model, points, {', '.join(parameters)})",
            f"one that cannot be called so ({error})",
            "name its arguments like the parameters, and return arrays of the library",
        ) from error
    except (RuntimeError, ValueError) as error:
        raise InputError(
            "a residual that can be evaluated at the points",
            f"{type(error).__name__}: {error}",
            "check shapes, devices and precision; in PyTorch a missing graph is mended by "
            "create_graph=True, and by not detaching what derivatives need",
        ) from error


def _some_value(parameter: Parameter) -> float:
    """Return a value at which the residual should be defined."""
    for value in (parameter.delivered, parameter.truth, parameter.start):
        if value is not None:
            return value
    return sum(parameter.bounds) / 2


def with_delivered(
    parameters: Mapping[str, Parameter], delivered: Mapping[str, float]
) -> dict[str, Parameter]:
    """Return the parameters with what training returned; a value that they name wins.

    Bounds are not widened: a value outside of them is the user's to look at.
    """
    checked = checked_parameters(parameters)
    return {
        name: replace(p, delivered=float(delivered[name]))
        if p.delivered is None and name in delivered
        else p
        for name, p in checked.items()
    }


def training_view(view: View | None, loss_weights: Any, equations: int, points: int) -> View | None:
    """Return the view that a field was trained under, from what the caller knows of it.

    Parameters
    ----------
    view : View, optional
        Given as it is; then no weights may be given beside it.
    loss_weights : optional
        The factors of the squared residual in the loss: one number for each equation, or an
        array with one for each point, or a sequence of such arrays, one for each equation.
    equations, points : int
        How many there are.
    """
    if view is not None:
        if loss_weights is not None:
            raise InputError(
                "a view, or loss weights from which it follows",
                "both",
                "leave one of them out",
            )
        return view
    if loss_weights is None:
        each: list[Any] = [None] * equations
    else:
        each = _by_equation(loss_weights, equations, points)
    views: list[View] = [
        Pointwise() if w is None or w.size == 1 else Weighted(loss_weights=w) for w in each
    ]
    factors = [1.0 if w is None or w.size > 1 else float(w.ravel()[0]) for w in each]
    if equations == 1:
        # One positive factor of the whole loss changes neither displacement nor alignment.
        return views[0]
    return Blocks(views, weights=factors)


def _by_equation(weights: Any, equations: int, points: int) -> list[FloatArray]:
    """Return the weights of each equation: one number, or one for each point."""
    if isinstance(weights, Sequence) and len(weights) == equations:
        found = [as_numpy(each) for each in weights]
    else:
        whole = as_numpy(weights)
        if whole.ndim == 0 or whole.size == 1:
            found = [whole.reshape(1)] * equations
        elif equations == 1 or whole.shape == (points,):
            found = [whole.ravel()] * equations
        elif whole.shape == (equations,):
            found = [whole[n : n + 1] for n in range(equations)]
        else:
            found = []
    if len(found) != equations or any(w.size not in (1, points) for w in found):
        shapes = np.shape(weights) if not isinstance(weights, Sequence) else len(weights)
        raise InputError(
            f"loss weights for {equations} equations at {points} points: a number or {points} "
            "numbers for each equation",
            f"weights of shape {shapes}",
            "pass loss_weights=[w_1, w_2] in the order of the equations",
        )
    return found

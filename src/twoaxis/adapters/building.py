"""What all adapters share: foreign imports, points, parameters, and the view of the training."""

from __future__ import annotations

import importlib
import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.parameters import Parameter, Parameters
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
        array = array.detach().cpu()
        try:
            array = array.numpy()
        except TypeError:  # NumPy lacks some of PyTorch's types, such as bfloat16
            array = array.double().numpy()
    return np.asarray(array, dtype=float)


def as_points(points: Any) -> FloatArray:
    """Return residual points of any library as a finite float64 array (N, k)."""
    try:
        array = as_numpy(points)
        came = f"an array of shape {array.shape}"
    except (TypeError, ValueError, RuntimeError) as error:
        array, came = np.empty(0), f"{type(points).__name__} ({error})"
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or not array.size or not np.isfinite(array).all():
        bad = array.size - np.isfinite(array).sum()
        raise InputError(
            "points as finite numbers of shape (N, k), a row for each residual value",
            f"{came} with {bad} values that are not finite" if bad else came,
            "stack the coordinates as columns, as in numpy.column_stack([x, t])",
        )
    return array


@contextmanager
def same_random_numbers() -> Iterator[None]:
    """Put the random numbers of Python and NumPy back to where they were."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - the global one
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def equations_of(output: Any) -> Any:
    """Return what a residual function returned; equations by name become a tuple, in order."""
    return tuple(output.values()) if isinstance(output, Mapping) else output


def check_callable(residual: Any, model: Any, parameters: Mapping[str, Parameter]) -> None:
    """Say now that a residual cannot be called with the names of the parameters."""
    if not callable(residual):
        raise InputError(
            "residual as a function of the model, the points and the parameters",
            type(residual).__name__,
            f"pass a callable residual(model, points, {', '.join(parameters)})",
        )
    try:
        signature = inspect.signature(residual)
    except (TypeError, ValueError):  # built-in callables may have no signature
        return
    try:
        signature.bind(model, None, **dict.fromkeys(parameters))
    except TypeError as error:
        raise InputError(
            f"a residual(model, points, {', '.join(parameters)})",
            f"the signature residual{signature} ({error})",
            "name its arguments like the parameters, or wrap it in a lambda that does",
        ) from error


def first_call(
    evaluate: Callable[..., Any], points: Any, parameters: Mapping[str, Parameter]
) -> Any:
    """Call a residual once, in order to say plainly what is wrong with it."""
    values = some_values(parameters)
    try:
        return evaluate(points, values)
    except (InputError, MemoryError):
        raise
    # Whatever the user's function or their library raises, it means the same.
    except Exception as error:
        raise InputError(
            "a residual that can be evaluated at the points",
            f"{type(error).__name__}: {error}",
            "check shapes, devices and precision; in PyTorch a missing graph is mended by "
            "create_graph=True, and by not detaching what derivatives need",
        ) from error


def some_values(parameters: Mapping[str, Parameter]) -> dict[str, float]:
    """Return values at which the residual should be defined."""
    return {name: _some_value(p) for name, p in parameters.items()}


def _some_value(parameter: Parameter) -> float:
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
    checked = Parameters(parameters)
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
        The factors of the squared residual in the loss: one number for all or for each equation,
        an array with one for each point, one of shape (points, equations) or (equations,
        points), or a sequence or mapping with one of these for each equation, in order.
    equations, points : int
        How many there are.

    Examples
    --------
    >>> training_view(None, [1.0, 0.1], equations=2, points=50).describe()
    '1 * (pointwise) + 0.1 * (pointwise)'
    >>> training_view(None, np.linspace(0, 1, 50), equations=1, points=50).describe()
    'weighted'
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
    given = list(weights.values()) if isinstance(weights, Mapping) else weights
    shape: Any = None
    try:
        if isinstance(given, Sequence) and not isinstance(given, str) and len(given) == equations:
            found = [as_numpy(each).ravel() for each in given]
            shape = [w.size for w in found]
        else:
            whole = as_numpy(given)
            shape = whole.shape
            found = _dealt(whole, equations, points)
    except (TypeError, ValueError, RuntimeError):
        found = []
    if len(found) != equations or any(w.size not in (1, points) for w in found):
        raise InputError(
            f"loss weights for {equations} equations at {points} points: a number or {points} "
            "numbers for each equation",
            f"weights of shape {shape}" if shape is not None else repr(weights)[:80],
            "pass loss_weights=[w_1, w_2] in the order of the equations",
        )
    flat = np.concatenate(found)
    if not np.isfinite(flat).all() or flat.min() < 0 or not flat.any():
        raise InputError(
            "loss weights that are finite, not negative and not all zero",
            f"values from {flat.min():g} to {flat.max():g}",
            "pass the factors of the squared residual; a method that squares its weights in the "
            "loss, as residual-based attention does, passes their squares",
        )
    return found


def _dealt(whole: FloatArray, equations: int, points: int) -> list[FloatArray]:
    """Deal one array out to the equations."""
    if whole.size == 1:
        return [whole.reshape(1)] * equations
    squeezed = whole.squeeze()
    if equations == 1 or squeezed.shape == (points,):
        return [whole.ravel()] * equations
    if squeezed.shape == (equations,):
        return [squeezed[n : n + 1] for n in range(equations)]
    if whole.shape == (equations, points):
        return list(whole)
    return list(whole.T) if whole.shape == (points, equations) else []

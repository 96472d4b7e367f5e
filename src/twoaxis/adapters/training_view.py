"""The view that a model was trained under, from the weights of its loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twoaxis.adapters.foreign import as_numpy
from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError
from twoaxis.views import Blocks, Pointwise, View, Weighted


def check_view(view: View | None, loss_weights: Any) -> None:
    """Refuse a view and loss weights at the same time."""
    if view is not None and loss_weights is not None:
        raise InputError(
            "a view, or loss weights from which it follows", "both", "leave one of them out"
        )


def training_view(view: View | None, loss_weights: Any, sizes: Sequence[int]) -> View:
    """Return the given view, or the one that follows from the weights of the loss.

    Parameters
    ----------
    view : View, optional
        Returned as it is; then no weights may be given.
    loss_weights : optional
        The factors of the squared residual in the loss: one number for all or per equation,
        an array with one per point, one of shape (points, equations) or (equations, points),
        or a sequence or mapping with one of these per equation, in order.
    sizes : sequence of int
        The number of points of each equation.

    Examples
    --------
    >>> training_view(None, [1.0, 0.1], [50, 50]).describe()
    '1 * (pointwise) + 0.1 * (pointwise)'
    >>> training_view(None, np.linspace(0, 1, 50), [50]).describe()
    'weighted'
    """
    check_view(view, loss_weights)
    if view is not None:
        return view
    weights = [np.ones(1)] * len(sizes)
    if loss_weights is not None:
        weights = _by_equation(loss_weights, sizes)
    views: list[View] = [
        Pointwise() if each.size == 1 else Weighted(loss_weights=each) for each in weights
    ]
    if len(views) == 1:
        # One positive factor of the whole loss changes neither displacement nor alignment.
        return views[0]
    factors = [float(each[0]) if each.size == 1 else 1.0 for each in weights]
    return Blocks(views, weights=factors)


def _by_equation(weights: Any, sizes: Sequence[int]) -> list[FloatArray]:
    """Return the weights of each equation: one number, or one per point."""
    given = list(weights.values()) if isinstance(weights, Mapping) else weights
    shape: Any = None
    try:
        if isinstance(given, Sequence) and not isinstance(given, str) and len(given) == len(sizes):
            found = [as_numpy(each).ravel() for each in given]
            shape = [each.size for each in found]
        else:
            array = as_numpy(given)
            shape = array.shape
            found = _split(array, sizes)
    except (TypeError, ValueError, RuntimeError):
        found = []
    if len(found) != len(sizes) or any(
        each.size not in (1, size) for each, size in zip(found, sizes, strict=True)
    ):
        raise InputError(
            f"loss weights for {len(sizes)} equations with {', '.join(map(str, sizes))} points: "
            "one number, or one number per point, for each equation",
            f"weights of shape {shape}" if shape is not None else repr(weights)[:80],
            "pass loss_weights=[w_1, w_2, ...] in the order of the equations",
        )
    flat = np.concatenate(found)
    if not np.isfinite(flat).all() or flat.min() < 0 or not flat.any():
        raise InputError(
            "loss weights that are finite, not negative and not all zero",
            f"values from {flat.min():g} to {flat.max():g}",
            "pass the factors of the squared residual; for a method that squares its weights in "
            "the loss, such as residual-based attention, pass their squares",
        )
    return found


def _split(array: FloatArray, sizes: Sequence[int]) -> list[FloatArray]:
    """Split one array among the equations; an empty list if its shape fits none."""
    equations, points = len(sizes), sizes[0]
    if array.size == 1:
        return [array.reshape(1)] * equations
    squeezed = array.squeeze()
    if equations == 1 or squeezed.shape == (points,):
        return [array.ravel()] * equations
    if squeezed.shape == (equations,):
        return [squeezed[n : n + 1] for n in range(equations)]
    if array.shape == (equations, points):
        return list(array)
    return list(array.T) if array.shape == (points, equations) else []

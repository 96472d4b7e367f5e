"""What a view accepts: points, residual vectors and loss weights."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError, refuse_masked

FloatArray = NDArray[np.float64]


def checked_points(points: ArrayLike) -> FloatArray:
    """Return `points` as finite floats of shape (N, k), N and k at least 1."""
    array = _real_array("points", points)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.size == 0:
        raise InputError(
            "points of shape (N, k) or (N,) with at least one point",
            f"shape {np.shape(points)}",
            "stack the coordinates as columns, for instance numpy.column_stack([x, t])",
        )
    _check_finite("points", array)
    return array


def checked_columns(name: str, vectors: ArrayLike, size: int) -> tuple[FloatArray, tuple[int, ...]]:
    """Return `vectors` as finite columns (size, d), and the shape that follows their length."""
    array = _real_array(name, vectors)
    if array.ndim not in (1, 2) or len(array) != size:
        raise InputError(
            f"{name} of shape ({size},) or ({size}, d), one entry for each residual point",
            f"shape {array.shape}",
            "evaluate the residual at the points that the view was bound to",
        )
    _check_finite(name, array)
    return (array if array.ndim == 2 else array[:, None]), array.shape[1:]


def checked_weights(name: str, weights: ArrayLike) -> FloatArray:
    """Return `weights` as a vector of finite, non-negative floats that are not all zero."""
    array = _real_array(name, weights)
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"{name} of shape (n,) with n at least 1",
            f"shape {array.shape}",
            f"flatten {name} to one number a residual",
        )
    _check_finite(name, array)
    if array.min() < 0:
        raise InputError(
            f"{name} that are not negative",
            f"{int((array < 0).sum())} negative of {array.size}, the smallest {array.min():g}",
            "pass the factors that multiply r squared; they are squares where the method "
            "multiplies r",
        )
    if array.max() == 0:
        raise InputError(
            f"at least one positive value among {name}",
            f"{array.size} zeros",
            "a view that sees no residual says nothing: pass the weights that training ended with",
        )
    return array


def is_whole(number: Any) -> TypeGuard[int]:
    """Tell whether `number` is an int, NumPy's included; True and False are not."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def is_real(number: Any) -> bool:
    """Tell whether `number` is a real number, NumPy's included; True and False are not."""
    return is_whole(number) or isinstance(number, float | np.floating)


def _real_array(name: str, values: ArrayLike) -> FloatArray:
    refuse_masked(name, values)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} as an array of numbers", str(error), "pass floats") from error
    if array.dtype.kind not in "iuf":
        raise InputError(
            f"{name} as real numbers", f"an array of {array.dtype}", "convert them to floats"
        )
    return array.astype(float, copy=False)


def _check_finite(name: str, array: FloatArray) -> None:
    # The sum is finite if all entries are, save for overflow: no mask is made for good input.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum()):
            return
    broken = np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))
    if broken.size:
        some = ", ".join(map(str, broken[:5])) + (", ..." if broken.size > 5 else "")
        raise InputError(
            f"finite {name}",
            f"NaN or infinity in {broken.size} of {len(array)} entries, at index {some}",
            "drop these residual points, or find out why the model is not finite there",
        )

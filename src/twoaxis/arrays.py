"""Numbers and arrays that users pass: what is accepted, and errors that say what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError, refuse_masked

FloatArray = NDArray[np.float64]


def is_integer(number: Any) -> TypeGuard[int]:
    """Whether `number` is an int, including NumPy's; True and False are not."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def is_real(number: Any) -> bool:
    """Whether `number` is a real number, including NumPy's; True and False are not."""
    return is_integer(number) or isinstance(number, float | np.floating)


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Return an array of any library as one of NumPy, which has no bfloat16: that is float32."""
    refuse_masked(name, values)
    try:
        if hasattr(values, "detach"):  # a PyTorch tensor, perhaps with a graph, perhaps on a GPU
            values = values.detach().cpu()
            values = values.float() if str(values.dtype) == "torch.bfloat16" else values
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name} as an array of numbers",
            str(error),
            "pass one dense array of floats, with .to_dense() for a sparse tensor; one on the "
            "device 'meta' has no values",
        ) from error
    return array.astype(np.float32) if str(array.dtype) == "bfloat16" else array


def real_array(name: str, values: ArrayLike) -> FloatArray:
    """Return real numbers as an array of floats, of any shape."""
    array = as_array(name, values)
    if array.dtype.kind not in "iuf":
        raise InputError(
            f"{name} as real numbers", f"an array of {array.dtype}", "convert them to floats"
        )
    return array.astype(float, copy=False)


def check_finite(name: str, array: FloatArray) -> None:
    """Refuse NaN and infinity, and say in which rows they are."""
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


def refuse_columns(points: Any) -> None:
    """Refuse one array per coordinate: a list of fewer 1-D arrays than each of them is long.

    A list of points, each an array of its own, has as many or more.
    """
    if not isinstance(points, list | tuple):
        return
    shapes = [tuple(getattr(each, "shape", ())) for each in points]
    if shapes and all(len(shape) == 1 and shape[0] > len(shapes) for shape in shapes):
        raise InputError(
            "points as one array of shape (n, d), a row for each point and a column for each "
            "coordinate",
            f"a {type(points).__name__} of arrays of the lengths "
            f"{', '.join(str(length) for (length,) in shapes)}",
            "join the coordinates as columns: np.column_stack([x, t])",
        )


def checked_points(points: ArrayLike) -> FloatArray:
    """Return `points` as finite floats of shape (N, k), N and k at least 1."""
    refuse_columns(points)
    array = real_array("points", points)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.size == 0:
        raise InputError(
            "points of shape (N, k) or (N,) with at least one point",
            f"shape {np.shape(points)}",
            "stack the coordinates as columns, for instance numpy.column_stack([x, t])",
        )
    check_finite("points", array)
    return array


def check_seed(seed: Any) -> None:
    """Refuse anything but one nonnegative integer or several.

    A generator is refused, too: its state, and so the result, would depend on earlier calls.
    """
    given = list(seed) if isinstance(seed, Sequence | np.ndarray) and np.ndim(seed) else [seed]
    if not (given and all(is_integer(s) and s >= 0 for s in given)):
        raise InputError(
            "a nonnegative integer, or several, as the seed",
            f"seed={seed!r}"[:80],
            "pass seed=0",
        )

"""What the statistics ask of their input."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError, refuse_masked

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


def checked_sample(name: str, values: ArrayLike) -> Floats:
    """Return `values` as a one-dimensional array of finite floats."""
    refuse_masked(name, values)
    try:
        sample = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"numbers as {name}", str(error), f"convert {name} to floats") from error
    if sample.ndim != 1 or not sample.size:
        raise InputError(
            f"{name} of shape (n,) with n at least 1",
            f"shape {sample.shape}",
            f"flatten {name} to one observation an entry",
        )
    missing = int(np.count_nonzero(~np.isfinite(sample)))
    if missing:
        raise InputError(
            f"finite {name}",
            f"NaN or infinity in {missing} of {sample.size} entries",
            "remove those observations, and say how many were removed",
        )
    return sample


def checked_pairs(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Return `x` and `y` as at least two pairs of finite floats."""
    first, second = checked_sample("x", x), checked_sample("y", y)
    if first.size != second.size or first.size < 2:
        raise InputError(
            "at least two pairs, x and y of one length",
            f"{first.size} values of x and {second.size} of y",
            "give one y for each x, in the same order",
        )
    return first, second


def checked_weights(weights: ArrayLike, size: int) -> Floats:
    """Return `weights` as (..., size) floats, non-negative, with a positive sum a row."""
    refuse_masked("weights", weights)
    counts = np.asarray(weights, dtype=float)
    if counts.ndim == 0 or counts.shape[-1] != size:
        raise InputError(
            f"weights of shape (..., {size}), one for each observation",
            f"shape {counts.shape}",
            "put the observations on the last axis of the weights",
        )
    # A NaN or an infinity among the weights makes its row's sum not finite.
    totals = counts.sum(axis=-1)
    if np.any(counts < 0) or not np.all(np.isfinite(totals) & (totals > 0)):
        raise InputError(
            "finite, non-negative weights with a positive sum in every row",
            "a negative or non-finite weight, or a row of zeros",
            "pass how often each observation was drawn, and drop draws that took none",
        )
    return counts


def checked_labels(
    name: str, labels: ArrayLike, size: int | None = None
) -> tuple[NDArray[np.generic], Indices]:
    """Return the distinct labels in order, and for each entry the number of its label."""
    refuse_masked(name, labels)
    array = np.asarray(labels)
    if array.ndim != 1 or (size is not None and array.size != size) or not array.size:
        raise InputError(
            f"{name} of shape ({'n' if size is None else size},), one label an observation",
            f"shape {array.shape}",
            "give a single label for each observation; join several keys into one string",
        )
    try:
        # A missing label (NaN, NaT) differs from itself, and is no cluster of its own.
        comparable = not np.any(array != array)
        names, label_of = np.unique(array, return_inverse=True)
    except TypeError:
        comparable = False
    if not comparable:
        raise InputError(
            f"{name} of one sortable type, none missing",
            f"labels of type {array.dtype} with missing or mixed entries",
            "convert the labels to strings or whole numbers and drop the missing ones",
        )
    return names, label_of

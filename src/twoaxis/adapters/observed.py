"""What was observed: where, which values, and what the learned field predicts for them.

Some libraries keep the observations in the model: then nothing of this must be given. Otherwise
`observed=` says where they lie, and the field is evaluated there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.adapters.foreign import as_numpy, as_points
from twoaxis.arrays import FloatArray, is_integer
from twoaxis.errors import InputError
from twoaxis.result import Message


@dataclass(frozen=True, eq=False)
class Readings:
    """One set of observations.

    Attributes
    ----------
    name : str
        What the model calls it.
    points : array, shape (n, k)
    values : array, shape (n, m)
        One column per observed field.
    fitted : array, shape (n, m)
    outputs : list of int
        Which outputs of the network the columns are.
    """

    name: str
    points: FloatArray
    values: FloatArray
    fitted: FloatArray
    outputs: list[int]


def alone_or_columns(array: Any, rows: int) -> FloatArray:
    """Return a field at `rows` points, shape (rows,) for one field and (rows, m) for several."""
    found = as_numpy(array)
    if found.size == 0 or found.size % rows:
        raise InputError(
            f"a field with values at the {rows} observed points",
            f"an array of shape {found.shape}",
            "return one row per point, and a column for each observed field",
        )
    columns = found.reshape(rows, -1)
    return columns[:, 0] if columns.shape[1] == 1 else columns


def observed_points(observed: Any, columns: int) -> FloatArray:
    """Return the coordinates of the observations, shape (n, columns)."""
    array = as_points(observed)
    if array.shape[1] != columns:
        raise InputError(
            f"observed points of shape (n, {columns}), as the network takes them",
            f"the shape {array.shape}",
            "stack the coordinates as columns, in the order of the residual points",
        )
    return array


def observed_columns(field: Any, count: int) -> list[int]:
    """Return which of the `count` outputs of a network were observed; all where none is named."""
    if field is None:
        return list(range(count))
    chosen = list(field) if isinstance(field, (Sequence, np.ndarray)) else [field]
    if not chosen or not all(is_integer(n) and 0 <= n < count for n in chosen):
        raise InputError(
            f"field as one or several outputs of the network, 0 to {count - 1}",
            f"field={field!r}",
            "pass the numbers of the observed outputs, or leave it out",
        )
    return [int(n) for n in chosen]


def field_names(columns: Sequence[int], outputs: Sequence[str]) -> dict[str, Any]:
    """Return `fields` of a residual: names of observed outputs, where there are several."""
    return {"fields": tuple(outputs[n] for n in columns)} if len(columns) > 1 else {}


def output_names(count: int, given: Sequence[str] = ()) -> list[str]:
    """Return names of the outputs of a network to which its library gives none."""
    if isinstance(given, str) or len(given) not in (0, count):
        raise InputError(
            f"fields as {count} names, one for each output of the network",
            repr(given),
            'write fields=("u", "v"), or leave it out',
        )
    if given:
        return list(map(str, given))
    return ["u"] if count == 1 else [f"output {n + 1}" for n in range(count)]


def joined(parts: Sequence[Readings], outputs: Sequence[str]) -> dict[str, Any]:
    """Return several sets of observations as `observed`, `data`, `fitted` and `fields`.

    Sets on the same points become columns; others follow one another, column by column, with a
    point for each value. `outputs` are names of all outputs of the network.
    """
    if not parts:
        return {}
    first = parts[0].points
    if all(np.array_equal(first, each.points) for each in parts):
        values, fitted = (
            np.concatenate([getattr(each, name) for each in parts], axis=1)
            for name in ("values", "fitted")
        )
        rows = len(first)
        return {
            "observed": first,
            "data": alone_or_columns(values, rows),
            "fitted": alone_or_columns(fitted, rows),
            **field_names([output for each in parts for output in each.outputs], outputs),
        }
    return {
        "observed": np.concatenate([np.tile(p.points, (p.values.shape[1], 1)) for p in parts]),
        "data": np.concatenate([each.values.T.ravel() for each in parts]),
        "fitted": np.concatenate([each.fitted.T.ravel() for each in parts]),
    }


def observed_outputs(parts: Sequence[Readings]) -> list[int] | NDArray[np.intp]:
    """Return which outputs of a network were observed, as `joined` orders the observations.

    One list for all points; an array with an output for each value where sets of different
    outputs follow one another.
    """
    first = parts[0]
    if all(np.array_equal(first.points, each.points) for each in parts):
        return [output for each in parts for output in each.outputs]
    found = np.concatenate([np.repeat(each.outputs, len(each.points)) for each in parts])
    return [int(found[0])] if np.ptp(found) == 0 else found


def found_note(parts: Sequence[Readings]) -> list[Message]:
    """Say which observations were found in a model."""
    if not parts:
        return []
    count = sum(each.values.size for each in parts)
    names = ", ".join(each.name for each in parts)
    text = f"the observations are those of the training: {names}; {count:,} values"
    return [Message("data.found", text, numbers={"values": float(count)})]

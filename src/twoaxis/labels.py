"""Labels of xarray and pandas input: what belongs together is put together by them, or refused.

An `xarray.DataArray` names its axes and may label their entries; a pandas Series or DataFrame
labels them by its index. Of the arrays that describe the same entries, the first that carries
labels sets the order: what ``forward`` returns, then data, then noise. The others are brought into
this order by their own labels: axes by name, entries by label. Labels that do not match are
refused, and so is another order than that of noise, which does not say how ``forward`` orders what
it returns. Where only one of two has labels, or where labels merely count 0, 1, 2, ..., there is
nothing to compare: positions decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.arrays import real_array
from twoaxis.errors import InputError

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

# Labels are the same number when they differ by less than this share of their range: rounding.
SAME_LABEL = 1e-6


@dataclass(frozen=True, eq=False)
class Labels:
    """Names of the axes of an array, and labels of their entries.

    Attributes
    ----------
    shape : tuple of int
    names : tuple of str or None
    indexes : tuple of pandas.Index or None
        None for an axis without labels.
    source : str
        What carries them, for messages.
    """

    shape: tuple[int, ...]
    names: tuple[str | None, ...]
    indexes: tuple[pd.Index | None, ...]
    source: str

    @classmethod
    def of(cls, values: Any, source: str) -> Labels | None:
        """Return the labels of an array; None of one that has no axis with any."""
        if isinstance(values, xr.DataArray):
            names = tuple(None if str(dim).startswith("dim_") else str(dim) for dim in values.dims)
            indexes = tuple(_coordinates(values, dim) for dim in values.dims)
        elif isinstance(values, pd.Series | pd.DataFrame):
            named = [each.name for each in values.axes]
            names = tuple(None if each is None else str(each) for each in named)
            indexes = tuple(values.axes)
        else:
            return None
        return cls(values.shape, names, indexes, source) if values.ndim else None

    def after_first_axis(self) -> Labels:
        """Return the labels of one entry of the first axis."""
        return Labels(self.shape[1:], self.names[1:], self.indexes[1:], self.source)

    def rows(self) -> Labels:
        """Return the labels along the first axis alone."""
        return Labels(self.shape[:1], self.names[:1], self.indexes[:1], self.source)

    def at(self, sites: IndexArray) -> Labels | None:
        """Return the labels of some entries by flat index; None where an axis has no labels."""
        known = [index for index in self.indexes if index is not None]
        if len(known) < len(self.shape):
            return None
        index: Any = known[0]
        if len(known) > 1:
            index = pd.MultiIndex.from_product(cast("list[Any]", known), names=self.names)
        return Labels((len(sites),), (None,), (index[sites],), self.source)

    def flat(self) -> Labels | None:
        """Return the labels of all entries, along one axis."""
        return self.at(np.arange(int(np.prod(self.shape))))

    def squared(self) -> Labels | None:
        """Return the labels of a covariance over all entries."""
        flat = self.flat()
        if flat is None:
            return None
        return Labels(2 * flat.shape, (None, None), 2 * flat.indexes, self.source)


def _coordinates(values: xr.DataArray, dim: Any) -> pd.Index | None:
    """Return the labels along one dimension: its index, or its other coordinates."""
    index: pd.Index | None = values.indexes.get(dim)
    if index is not None and not _counts(index):
        return index
    others = {
        str(name): coordinate.values
        for name, coordinate in values.coords.items()
        if coordinate.dims == (dim,) and name != dim
    }
    if not others:
        return index
    return pd.MultiIndex.from_arrays(list(others.values()), names=list(others))


def _counts(index: pd.Index) -> bool:
    """Whether labels merely count 0, 1, 2, ..."""
    return bool(index.dtype.kind in "iu" and (index == np.arange(len(index))).all())


def first_labels(shape: tuple[int, ...] | None, inputs: Mapping[str, Any]) -> Labels | None:
    """Return the labels of the first of several inputs that has some, and this shape if any."""
    every = (Labels.of(values, name) for name, values in inputs.items())
    fitting = (each for each in every if each is not None and shape in (None, each.shape))
    return next(fitting, None)


def coordinate_columns(points: Any, names: Sequence[str]) -> Any:
    """Return points with their coordinates in the order of `names`, as far as both name them.

    Parameters
    ----------
    points : array (N, k) or mapping of str to array
        A DataFrame names its coordinates by its columns, a mapping by its keys.
    names : sequence of str
        Empty where the coordinates have no names of their own.
    """
    if isinstance(points, pd.DataFrame) and not _counts(points.columns):
        points = {str(name): points[name] for name in points.columns}
    if not isinstance(points, Mapping) or not points:
        return points
    if names and set(points) != set(names):
        raise InputError(
            f"points with the coordinates {', '.join(names)}",
            ", ".join(map(str, points)) or "none",
            "name them like the coordinates of the trained field, or pass an array of shape "
            f"(N, {len(names)}) in this order",
        )
    named = {f"points[{name!r}]": points[name] for name in names or points}
    first = first_labels(None, named)
    return np.column_stack([aligned(name, each, first).ravel() for name, each in named.items()])


def named_columns(points: Any, names: Sequence[Any]) -> Any:
    """Return the columns of a table of points in the order of `names`, without their names.

    What has no names, or a single coordinate, stays as it is.
    """
    if not isinstance(points, pd.DataFrame) or _counts(points.columns) or points.shape[1] < 2:
        return points
    if names and set(points.columns) != set(names):
        raise InputError(
            f"observed with the coordinates {', '.join(map(str, names))}",
            ", ".join(map(str, points.columns)),
            "name its columns like those of the points, or pass an array in their order",
        )
    ordered = points[list(names)] if names else points
    return ordered.set_axis(range(points.shape[1]), axis=1)


def aligned(name: str, values: Any, *references: Labels | None) -> FloatArray:
    """Return real numbers in the order of a reference, as an array that shares no memory.

    Parameters
    ----------
    name : str
        In messages.
    values : array
    references : Labels or None
        The first that fits the shape of `values` counts; those that are None do not. Where none
        fits, the caller will refuse the shape.
    """
    array = np.array(real_array(name, values))
    own = Labels.of(values, name)
    return array if own is None else in_order(array, own, *references)


def in_order(array: FloatArray, own: Labels, *references: Labels | None) -> FloatArray:
    """Return an array with labels of its own in the order of a reference; see `aligned`."""
    for reference in references:
        flat = reference
        if reference is not None and array.shape == (np.prod(reference.shape),):
            flat = reference.flat()
        if flat is not None and sorted(_core(own, flat)) == sorted(flat.shape):
            if flat.source == "noise" and not _in_this_order(array, own, flat):
                raise InputError(
                    f"{own.source} and noise in the order of what forward returns",
                    "the same labels in different orders, and none from forward",
                    "bring both into the order that forward returns, or label what it returns",
                )
            return _ordered(array, own, flat)
    return array


def check_labels(name: str, values: Any, *references: Labels | None) -> None:
    """Refuse values with labels of their own in another order than a reference; see `aligned`."""
    own = Labels.of(values, name)
    if own is None:
        return
    for reference in references:
        if reference is not None and sorted(_core(own, reference)) == sorted(reference.shape):
            if not _in_this_order(np.asarray(values), own, reference):
                raise InputError(
                    f"{name} in the order of {reference.source}",
                    "the same labels in another order",
                    f"bring {name} into this order, with transpose and reindex",
                )
            return


def _in_this_order(array: NDArray[Any], own: Labels, reference: Labels) -> bool:
    place = np.arange(float(array.size)).reshape(array.shape)
    return np.array_equal(_ordered(place, own, reference), place)


def _core(own: Labels, reference: Labels) -> tuple[int, ...]:
    """Return the shape without a last axis of one's own: coordinates of points, or a column."""
    extra = len(own.shape) == len(reference.shape) + 1
    return own.shape[:-1] if extra else own.shape


def _ordered(array: FloatArray, own: Labels, reference: Labels) -> FloatArray:
    count = len(reference.shape)
    axes = list(range(count))
    mine, theirs = own.names[:count], reference.names
    if count > 1 and None not in mine and None not in theirs:
        if set(mine) != set(theirs):
            got = f"the axes {', '.join(map(str, mine))} instead of {', '.join(map(str, theirs))}"
            raise _mismatch(own, reference, got)
        axes = [mine.index(each) for each in theirs]
    array = array.transpose([*axes, *range(count, array.ndim)])
    if array.shape[:count] != reference.shape:
        return array
    for axis, index in enumerate(reference.indexes):
        label = own.indexes[axes[axis]]
        if label is not None and index is not None:
            array = np.take(array, _order(own, reference, label, index), axis=axis)
    return array


def _order(own: Labels, reference: Labels, label: pd.Index, index: pd.Index) -> IndexArray:
    """Return where each label of `index` is in `label`."""
    size = len(index)
    same = np.arange(size)
    if _counts(label) or _counts(index):
        other = index if _counts(label) else label
        shuffled = other.dtype.kind in "iu" and (np.sort(other.to_numpy()) == same).all()
        if not shuffled:
            return same
    mine, theirs = _levels(label, index)
    if len(mine) != len(theirs):
        got = f"{len(mine)} labels for each entry instead of {len(theirs)}"
        raise _mismatch(own, reference, got)
    pairs = [a.append(b) for a, b in zip(mine, theirs, strict=True)]
    for rounding in (0.0, SAME_LABEL):
        first, second = np.split(_numbered(pairs, rounding), 2)
        if (first == second).all():
            return same
        by_label, by_index = np.argsort(first), np.argsort(second)
        unique = len(np.unique(first)) == size
        if unique and (first[by_label] == second[by_index]).all():
            order = np.empty(size, dtype=np.intp)
            order[by_index] = by_label
            return order
    strange = np.flatnonzero(~np.isin(first, second))
    got = "labels that repeat"
    if strange.size:
        got = f"{len(strange)} labels that are not there, such as {label[strange[0]]}"
    raise _mismatch(own, reference, got)


def _levels(label: pd.Index, index: pd.Index) -> tuple[list[pd.Index], list[pd.Index]]:
    """Return the parts of labels that consist of several, in the same order where named."""
    names: list[Any] = list(index.names)
    if None not in names and set(names) == set(label.names):
        return [label.get_level_values(n) for n in names], [
            index.get_level_values(n) for n in names
        ]
    return [label.get_level_values(k) for k in range(label.nlevels)], [
        index.get_level_values(k) for k in range(index.nlevels)
    ]


def _numbered(levels: Sequence[pd.Index], rounding: float) -> IndexArray:
    """Return a number for each label: the same for the same label, up to a share of the range."""
    columns = []
    for level in levels:
        if level.dtype.kind in "fiu":
            values = level.to_numpy(dtype=float)
            order = np.argsort(values)
            step = np.diff(values[order], prepend=values[order[:1]])
            number = np.empty(len(values), dtype=np.intp)
            number[order] = np.cumsum(step > rounding * np.ptp(values))
        else:
            number = pd.factorize(level)[0].astype(np.intp)
        columns.append(number)
    return np.unique(np.column_stack(columns), axis=0, return_inverse=True)[1].ravel()


def _mismatch(own: Labels, reference: Labels, got: str) -> InputError:
    return InputError(
        f"{own.source} with the labels of {reference.source}",
        got,
        f"label both alike, or pass {own.source} without labels (.to_numpy()), in the order of "
        f"{reference.source}",
    )

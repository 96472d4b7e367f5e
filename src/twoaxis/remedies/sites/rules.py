"""Where an observation may be placed: candidates, forbidden regions, spacing and cells.

Two rules keep sites apart. *Spacing*: two sites are at least one spacing apart in the given
coordinates, ``sum_j ((a_j - b_j) / s_j)^2 >= 1``. *Cells*: the output of the forward model is
divided into equal blocks of entries, and each block holds at most one site. Present observations
count: a new site keeps away from them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import KDTree

from twoaxis.arrays import real_array
from twoaxis.errors import InputError, refuse_masked
from twoaxis.labels import Labels, aligned, first_labels, in_order
from twoaxis.resolution.layouts import output_points

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.intp]

# Sites exactly one spacing apart are far enough, whatever rounding makes of their distance.
ROUNDING = 1e-9
# Squares of distances must be numbers.
LARGEST_DISTANCE = 1e100


@dataclass(frozen=True)
class Rules:
    """Candidates, and which of them a chosen site takes away.

    Attributes
    ----------
    candidates : array of int, shape (n,)
        Flat indices, ascending.
    cell : array of int, shape (N,), optional
        Number of the cell that holds each entry.
    scaled : array, shape (N, k), optional
        Positions of all entries, in units of the spacing.
    """

    candidates: IndexArray
    cell: IndexArray | None = None
    scaled: FloatArray | None = None

    @cached_property
    def _tree(self) -> KDTree | None:
        return None if self.scaled is None else KDTree(self.scaled[self.candidates])

    @cached_property
    def _by_cell(self) -> tuple[IndexArray, IndexArray]:
        """Candidates in the order of their cells, and those cells."""
        assert self.cell is not None
        cells = self.cell[self.candidates]
        order = np.argsort(cells, kind="stable")
        return order, cells[order]

    def taken_by(self, site: int) -> IndexArray:
        """Places, among the candidates, that a site takes away: its own, and those too near.

        The site is a flat index and need not be a candidate itself.
        """
        place = int(np.searchsorted(self.candidates, site))
        own = place < len(self.candidates) and self.candidates[place] == site
        taken = [np.array([place] if own else [], dtype=np.intp)]
        if self.cell is not None:
            order, cells = self._by_cell
            first, last = np.searchsorted(cells, [self.cell[site], self.cell[site] + 1])
            taken.append(order[first:last])
        if self._tree is not None and self.scaled is not None:
            near = self._tree.query_ball_point(self.scaled[site], 1 - ROUNDING)
            taken.append(np.array(near, dtype=np.intp))
        return np.unique(np.concatenate(taken))


class Free:
    """Which candidates may still be chosen, as sites are put down and taken up again."""

    def __init__(self, rules: Rules, present: IndexArray) -> None:
        self._rules = rules
        self._taken = np.zeros(len(rules.candidates), dtype=np.intp)
        for site in present:
            self._taken[rules.taken_by(int(site))] += 1

    @property
    def mask(self) -> BoolArray:
        """Whether each candidate may be chosen now."""
        return np.asarray(self._taken == 0)

    def put(self, place: int) -> None:
        """Choose a candidate."""
        self._change(place, 1)

    def take_up(self, place: int) -> None:
        """Undo the choice of a candidate."""
        self._change(place, -1)

    def _change(self, place: int, by: int) -> None:
        self._taken[self._rules.taken_by(int(self._rules.candidates[place]))] += by


def checked_rules(
    allowed: BoolArray,
    shape: tuple[int, ...],
    positions: FloatArray,
    spacing: Any,
    cells: Any,
) -> Rules:
    """Return the rules over the allowed entries, after checking spacing and cells."""
    scaled = None
    if spacing is not None:
        with np.errstate(over="ignore"):
            scaled = positions / _checked_spacing(spacing, positions)
        if not np.abs(scaled).max() < LARGEST_DISTANCE:
            raise InputError(
                f"points within {LARGEST_DISTANCE:g} times the spacing",
                f"one at {np.abs(scaled).max():.3g} times",
                "check the units of points and of spacing",
            )
    return Rules(
        candidates=np.flatnonzero(allowed),
        cell=None if cells is None else _cell_numbers(cells, shape),
        scaled=scaled,
    )


def named_positions(
    points: ArrayLike | Mapping[str, ArrayLike] | None,
    shape: tuple[int, ...],
    labels: Labels | None = None,
) -> tuple[list[str], FloatArray]:
    """Return names and values of the coordinates of all entries, (N, k)."""
    if not isinstance(points, Mapping):
        positions = output_points(points, shape, labels)
        word = "index " if points is None else "x"
        return [f"{word}{j}" for j in range(positions.shape[1])], positions
    columns = []
    labels = labels or first_labels(shape, points)
    for name, values in points.items():
        array = aligned(f"points[{name!r}]", values, labels)
        if array.shape not in (shape, (int(np.prod(shape)),)):
            raise InputError(
                f"points[{name!r}] in the shape {shape} of forward's output",
                f"the shape {array.shape}",
                "give one value for each entry, for instance with numpy.meshgrid or broadcast_to",
            )
        columns.append(array.ravel())
    if not columns:
        raise InputError("at least one coordinate", "an empty mapping", "leave points out")
    return [str(name) for name in points], output_points(np.column_stack(columns), shape)


def allowed_entries(
    forbidden: ArrayLike | Callable[[FloatArray], ArrayLike] | None,
    shape: tuple[int, ...],
    positions: FloatArray,
    labels: Labels | None = None,
) -> BoolArray:
    """Return which of the N entries may be observed."""
    size = len(positions)
    if forbidden is None:
        return np.ones(size, dtype=bool)
    if callable(forbidden):
        return ~_called(forbidden, positions)
    refuse_masked("forbidden", forbidden)
    try:
        array = np.asarray(forbidden)
    except ValueError:  # a ragged list
        array = np.empty(0, dtype=object)
    if array.size == 0 and array.dtype.kind != "O":
        return np.ones(size, dtype=bool)
    own = Labels.of(forbidden, "forbidden")
    if array.dtype.kind == "b" and own is not None:
        array = in_order(array, own, labels)
    if array.dtype.kind == "b" and array.shape in (shape, (size,)):
        return ~array.ravel()
    if array.dtype.kind in "iu" and array.ndim == 1 and ((array >= 0) & (array < size)).all():
        return ~np.isin(np.arange(size), array)
    raise InputError(
        f"forbidden as a mask of shape {shape}, as flat indices from 0 to {size - 1}, or as a "
        "function of the coordinates",
        f"an array of {array.dtype} with shape {array.shape}",
        "mark what must not be observed with True, or write forbidden=lambda x: x[:, 0] < 0.1",
    )


def _called(forbidden: Callable[[FloatArray], ArrayLike], positions: FloatArray) -> BoolArray:
    expected = (
        f"forbidden to return True or False for each of the {len(positions)} rows it is given"
    )
    fix = "write forbidden=lambda x: x[:, 0] < 0.1, with a column for each coordinate"
    try:
        given = forbidden(positions)
        marked = np.asarray(given)
    except Exception as error:  # the user's own function may fail in any way
        raise InputError(expected, f"{type(error).__name__}: {error}", fix) from error
    refuse_masked("the result of forbidden", given)
    if marked.dtype.kind != "b" or marked.shape != (len(positions),):
        raise InputError(expected, f"an array of {marked.dtype} with shape {marked.shape}", fix)
    return marked


def _checked_spacing(spacing: Any, positions: FloatArray) -> FloatArray:
    """Return one spacing for each coordinate; an infinite one takes a coordinate out."""
    array = real_array("spacing", spacing)
    width = positions.shape[1]
    if array.shape not in ((), (width,)) or not (array > 0).all() or not np.isfinite(array).any():
        raise InputError(
            f"spacing as one distance above zero, or one for each of the {width} coordinates",
            f"spacing={spacing!r}",
            "pass spacing=0.1; an infinite entry leaves its coordinate out of the distance",
        )
    return np.broadcast_to(array, (width,))


def _cell_numbers(cells: Any, shape: tuple[int, ...]) -> IndexArray:
    """Number the cells of a cell shape, and return that of each entry."""
    refuse_masked("cells", cells)
    array = np.asarray(cells)
    if array.dtype.kind not in "iu" or array.shape != (len(shape),) or (array < 1).any():
        raise InputError(
            f"cells as the shape of a cell, {len(shape)} integers of at least 1",
            f"cells={cells!r}",
            f"give one number of entries for each axis of forward's output, whose shape is {shape}",
        )
    grid = tuple(-(-n // c) for n, c in zip(shape, array.tolist(), strict=True))
    index = np.unravel_index(np.arange(int(np.prod(shape))), shape)
    inside = [axis // c for axis, c in zip(index, array.tolist(), strict=True)]
    return np.asarray(np.ravel_multi_index(inside, grid), dtype=np.intp)

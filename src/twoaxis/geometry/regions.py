"""Regions of the domain: the cells of a grid over the points, or groups with given labels.

Contributions of points to a score are summed over regions to say where a displacement comes
from. `Spectrum`, the actions of an audit and the evidence map all divide the domain here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.arrays import is_integer
from twoaxis.errors import InputError, refuse_masked
from twoaxis.views.view import MOST_CELLS, occupied_cells, unit_coordinates

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

CELLS = 8


@dataclass(frozen=True, eq=False)
class Regions:
    """A region for each residual value.

    Attributes
    ----------
    number : array of int, shape (N,)
        The region of each residual value, counted from 0; none is empty.
    names : list of str
        One for each of the R regions: the extent of a cell along each axis, such as
        "x 0.00 to 0.25, t 0.50 to 0.75", or the label.
    low, high : array, shape (R, k)
        The box of each: the walls of its cell, or the extent of the points with its label.
    count : array of int, shape (R,)
        Residual values in each.
    cells : bool
        Whether the regions are cells of a grid, which fill the domain.
    """

    number: IndexArray
    names: list[str]
    low: FloatArray
    high: FloatArray
    count: IndexArray
    cells: bool

    def __len__(self) -> int:
        return len(self.names)

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum values (N, ...) over each region, shape (R, ...)."""
        flat = values.reshape(len(values), -1)
        total = np.empty((len(self), flat.shape[1]))
        for own, column in zip(total.T, flat.T, strict=True):
            own[:] = np.bincount(self.number, column, len(self))
        return total.reshape(len(self), *values.shape[1:])

    def means(self, values: FloatArray) -> FloatArray:
        """Average values (N, k) over each region, shape (R, k)."""
        return np.asarray(self.sums(values) / self.count[:, None])


def cell_regions(per_axis: int, places: FloatArray, axes: Sequence[str]) -> Regions:
    """Divide the bounding box of `places` (N, k) into `per_axis` cells along every axis.

    Cells without a point are left out, and names leave out axes without extent.
    """
    if not is_integer(per_axis) or not 1 <= per_axis <= MOST_CELLS:
        raise InputError(f"from 1 to {MOST_CELLS} cells per axis", repr(per_axis), "pass 8")
    unit = unit_coordinates(places)
    number = occupied_cells(unit, [per_axis] * unit.shape[1])
    first = np.unique(number, return_index=True)[1]
    step = np.minimum((unit[first] * per_axis).astype(np.intp), per_axis - 1)
    start, extent = places.min(axis=0), np.ptp(places, axis=0)
    low, high = (start + extent * (step + side) / per_axis for side in (0, 1))
    shown = [j for j, size in enumerate(extent) if size > 0] or [0]
    digits = [_digits(extent[j] / per_axis) for j in range(len(extent))]
    names = [
        ", ".join(f"{axes[j]} {a[j]:.{digits[j]}f} to {b[j]:.{digits[j]}f}" for j in shown)
        for a, b in zip(low + 0.0, high + 0.0, strict=True)
    ]
    return Regions(number, _distinct(names), low, high, np.bincount(number), cells=True)


def equation_regions(
    per_axis: int,
    places: FloatArray,
    axes: Sequence[str],
    equations: tuple[Sequence[str], IndexArray],
) -> Regions:
    """Divide the points of every equation into cells of their own bounding box.

    `equations` are their names, and the row in them of each residual value, as from
    `FrozenResidual.equation_of`. Names of regions begin with that of their equation.
    """
    number = np.empty(len(places), dtype=np.intp)
    parts: list[Regions] = []
    for row, name in enumerate(equations[0]):
        own = equations[1] == row
        found = cell_regions(per_axis, places[own], axes)
        number[own] = found.number + sum(len(part) for part in parts)
        parts.append(replace(found, names=[f"{name}: {each}" for each in found.names]))
    return Regions(
        number,
        _distinct([name for part in parts for name in part.names]),
        np.concatenate([part.low for part in parts]),
        np.concatenate([part.high for part in parts]),
        np.concatenate([part.count for part in parts]),
        cells=False,  # boxes of several equations lie over each other
    )


def regions_of(
    regions: Any,
    places: FloatArray,
    axes: Sequence[str],
    points: int,
    equations: tuple[Sequence[str], IndexArray] | None = None,
) -> Regions:
    """Divide residual values at `places` (N, k) into at least two regions.

    Parameters
    ----------
    regions : int, array of labels or None
        Cells along every axis of the box of the points (8 without it), or a label for each
        residual value, or for each point where several equations share their points.
    places : array, shape (N, k)
    axes : sequence of str
        Names of the k coordinates.
    points : int
        How many points there are: N, or fewer where several equations share them.
    equations : tuple, optional
        Names of equations that have points of their own, and the row in them of each residual
        value: cells then belong to one equation (`equation_regions`).
    """
    chosen = CELLS if regions is None else regions
    refuse_masked("regions", chosen)
    if np.ndim(chosen) == 0:
        if not is_integer(chosen) or not 1 <= chosen <= MOST_CELLS:
            raise _unusable(repr(chosen), len(places), points)
        found = (
            cell_regions(int(chosen), places, axes)
            if equations is None
            else equation_regions(int(chosen), places, axes, equations)
        )
    else:
        found = _labelled(np.asarray(chosen), places, points)
    if len(found) < 2:
        raise InputError(
            "at least two regions that hold residual points",
            f"{len(found)}",
            "pass regions=8 for eight cells per axis, or labels that differ",
        )
    return found


def _labelled(labels: NDArray[Any], places: FloatArray, points: int) -> Regions:
    size = len(places)
    # Any other length that divides N would repeat along the points, and name no regions.
    fits = labels.ndim == 1 and labels.size in (size, points)
    if not fits or labels.dtype.kind not in "iubUS":
        raise _unusable(f"an array of {labels.dtype} with shape {labels.shape}", size, points)
    own, number = np.unique(np.tile(labels, size // labels.size), return_inverse=True)
    number = number.reshape(-1)
    boxes = [
        (places[number == k].min(axis=0), places[number == k].max(axis=0)) for k in range(len(own))
    ]
    low, high = (np.array(side) for side in zip(*boxes, strict=True))
    names = [each.decode() if isinstance(each, bytes) else str(each) for each in own.tolist()]
    return Regions(number, names, low, high, np.bincount(number), cells=False)


def _digits(width: float) -> int:
    """Return how many decimals tell the walls of a cell apart."""
    return int(np.clip(2 - np.floor(np.log10(width)), 0, 12)) - 1 if 0 < width < 10 else 0


def _distinct(names: list[str]) -> list[str]:
    """Number names that their digits do not tell apart, as of very small cells."""
    if len(set(names)) == len(names):
        return names
    return [f"{name} ({k})" for k, name in enumerate(names)]


def _unusable(came: str, size: int, points: int) -> InputError:
    shared = "" if points == size else f", or each of the {points} points"
    return InputError(
        f"regions as a number of cells per axis, or integers or strings that label each of "
        f"the {size} residual values{shared}",
        came,
        "pass regions=8, or an array with a label for each point",
    )

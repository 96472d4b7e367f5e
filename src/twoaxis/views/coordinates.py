"""Coordinates that views share: the unit box, and the cells that divide it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from twoaxis.views.checks import FloatArray


def unit_coordinates(points: FloatArray) -> FloatArray:
    """Map every coordinate of points (N, k) on [0, 1] by its own minimum and maximum.

    ``c = (x - min x) / (max x - min x)``; a coordinate that is the same at all points
    becomes 0. Space and time so count alike, whatever their units.
    """
    # Halves, so that a range of more than the largest float does not overflow.
    low = points.min(axis=0) / 2
    span = points.max(axis=0) / 2 - low
    coordinates: FloatArray = (points / 2 - low) / np.where(span > 0, span, 1.0)
    return coordinates


def occupied_cells(coordinates: FloatArray, cells: Sequence[int]) -> NDArray[np.intp]:
    """Number the occupied cells of a grid on the unit box from 0, and return each point's.

    With n cells along an axis the cell of ``c`` is ``min(floor(n c), n - 1)``: half-open
    cells, the last one closed.
    """
    number = np.zeros(len(coordinates), dtype=np.intp)
    for column, n in zip(coordinates.T, cells, strict=True):
        along = np.minimum((column * n).astype(np.intp), n - 1)
        # Renumbered after every axis: the flat index of 8^30 cells would not fit an integer.
        number = np.unique(number * n + along, return_inverse=True)[1]
    return number

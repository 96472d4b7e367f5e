"""Where the pull on a parameter comes from: the points of an audit, gathered into boxes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twoaxis.report.audited import Audited
from twoaxis.report.words import number
from twoaxis.text import visible
from twoaxis.views.coordinates import occupied_cells, unit_coordinates

# Boxes along each axis: few enough to be named, enough to be somewhere.
BOXES = 4


@dataclass(frozen=True)
class Region:
    """A box of the domain.

    Attributes
    ----------
    words : str
        Its extent along each axis.
    share : float
        Of the signed score B: contributions of all boxes add up to one.
    """

    words: str
    share: float


def strongest_pull(audited: Audited, name: str) -> Region | None:
    """Return the box with the largest share of B; None where B is zero or points were left out."""
    group = audited.need("/field")
    if group.attrs["points_kept"] < group.attrs["points_total"]:
        return None
    pull = group["contribution"].isel(parameter=audited.index(name)).values.astype(float)
    total = pull.sum()
    if not total:
        return None
    points = np.asarray(group["points"].values, dtype=float)
    low, high = points.min(axis=0), points.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    unit = unit_coordinates(points)
    box = occupied_cells(unit, [BOXES] * unit.shape[1])
    shares = np.bincount(box, pull) / total
    best = int(np.argmax(shares))
    inside = unit[np.argmax(box == best)]  # any of its points tells where it lies
    start = low + np.minimum(np.floor(BOXES * inside), BOXES - 1) * span / BOXES
    # Ends to a hundredth of the box: points are drawn at random, and more digits say nothing.
    digits = np.ceil(np.log10(100 * BOXES / span)).astype(int)
    words = ", ".join(
        f"{visible(axis)} from {number(_rounded(a, d))} to {number(_rounded(b, d))}"
        for axis, a, b, d, extends in zip(
            group["axis"].values, start, start + span / BOXES, digits, high > low, strict=True
        )
        if extends  # along an axis without extent no box lies anywhere
    )
    return Region(words, float(shares[best]))


def _rounded(value: float, digits: int) -> float:
    return round(float(value), int(digits)) + 0.0  # no minus before a zero

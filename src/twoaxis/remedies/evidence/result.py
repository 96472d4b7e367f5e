"""An evidence map as its reader meets it: ranked regions, a table, a picture, a sentence.

Regions of the domain: the cells of a grid, or whatever the reader's labels say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.errors import InputError, refuse_masked
from twoaxis.geometry.score import Score
from twoaxis.views.checks import is_whole
from twoaxis.views.view import occupied_cells, unit_coordinates

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
        One for each of the R regions.
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


def regions_of(regions: Any, places: FloatArray, axes: Sequence[str], points: int) -> Regions:
    """Divide residual values at `places` (N, k) into regions.

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
    """
    chosen = CELLS if regions is None else regions
    if isinstance(chosen, (bool, np.bool_)) or (np.ndim(chosen) == 0 and not is_whole(chosen)):
        raise _unusable(repr(chosen), len(places), points)
    refuse_masked("regions", chosen)
    found = (
        _cells(int(chosen), places, axes, points)
        if np.ndim(chosen) == 0
        else _labelled(np.asarray(chosen), places, points)
    )
    if len(found) < 2:
        raise InputError(
            "at least two regions that hold residual points",
            f"{len(found)}",
            "pass regions=8 for eight cells an axis, or labels that differ",
        )
    return found


def _cells(per_axis: int, places: FloatArray, axes: Sequence[str], points: int) -> Regions:
    if per_axis < 1:
        raise _unusable(repr(per_axis), len(places), points)
    unit = unit_coordinates(places)
    number = occupied_cells(unit, [per_axis] * unit.shape[1])
    count = np.bincount(number)
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
    return Regions(number, _distinct(names), low, high, count, cells=True)


def _labelled(labels: NDArray[Any], places: FloatArray, points: int) -> Regions:
    size = len(places)
    # Any other length that divides N would repeat along the points, and name no regions.
    fits = labels.ndim == 1 and labels.size in (size, points)
    if not fits or labels.dtype.kind not in "iubUS":
        raise _unusable(f"an array of {labels.dtype} with shape {labels.shape}", size, points)
    own, number = np.unique(np.tile(labels, size // labels.size), return_inverse=True)
    number = number.reshape(-1)
    boxes = [(places[number == k].min(axis=0), places[number == k].max(axis=0))
             for k in range(len(own))]  # fmt: skip
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
        f"regions as a number of cells an axis, or whole numbers or strings that label each of "
        f"the {size} residual values{shared}",
        came,
        "pass regions=8, or an array with a label for each point",
    )


# Rows of the printed table.
SHOWN = 6


@dataclass(frozen=True, eq=False)
class EvidenceMap:
    """Regions of the domain, ranked by how much of the displacement goes with them.

    The first ones cause the displacement; the last ones hold it back, and without them it would
    be larger. Made by `twoaxis.evidence_map`.

    Attributes
    ----------
    score : Score
        Of the whole field.
    data : xarray.Dataset
        Everything, by region (in the order of the ranking), parameter and mode.
    regions : Regions
        As they were before they were ranked.
    """

    score: Score
    data: xr.Dataset = field(repr=False)
    regions: Regions = field(repr=False)

    @property
    def displacement(self) -> dict[str, float]:
        """Displacement D of the whole field, by parameter."""
        return self.score.displacement

    @property
    def doubts(self) -> list[str]:
        """What stands in the way of a plain reading, as sentences."""
        lost = self.data["region"].values[~self.data["seen_without"].values]
        reasons = self.score.doubts
        if lost.size:
            some = "; ".join(map(str, lost[:3])) + ("; ..." if lost.size > 3 else "")
            reasons.append(f"without one of these a parameter is no longer seen: {some}")
        return reasons

    def leading(self, parameter: str | None = None) -> pd.Series[Any]:
        """Return the row of the region with which most of the displacement goes."""
        return self.summary(parameter).iloc[0]

    def summary(self, parameter: str | None = None) -> pd.DataFrame:
        """Return a table with a row for each region, the main cause of the displacement first.

        Parameters
        ----------
        parameter : str, optional
            Needed when there are several. The regions are then ranked for this one.

        Returns
        -------
        pandas.DataFrame
            ``points``; ``B`` and ``H``, the contributions; ``B_share``, of all contributions
            taken positive, and ``H_share``; ``residual_norm`` and ``alignment`` inside the
            region; ``without``, the displacement without it, and ``change``, that less D.
        """
        name = self._chosen(parameter)
        own = self.data.sel(parameter=name)
        columns: dict[str, Any] = {
            "points": own["points_in_region"].values,
            "B": own["B"].values,
            "B_share": own["B_share"].values,
            "H": own["H"].sel(other_parameter=name).values,
            "H_share": own["H_share"].values,
            "residual_norm": own["residual_norm"].values,
            "alignment": own["alignment"].values,
            "without": own["displacement_without"].values,
            "change": own["change"].values,
        }
        table = pd.DataFrame(columns, index=pd.Index(self.data["region"].values, name="region"))
        return table.iloc[ranking(columns["change"][:, None], np.array([self.displacement[name]]))]

    def modes(self, parameter: str | None = None) -> pd.DataFrame:
        """Return strength, signed contribution and their shares by residual mode.

        The modes are the view's own eigenvectors; a view that weighs every point by itself has
        none that mean something, and is resolved in those of the Gaussian kernel.
        """
        if "mode_strength" not in self.data:
            raise InputError(
                "an evidence map with modes",
                f"one of {self.score.view}, for which they were not computed",
                "pass modes=128 to evidence_map",
            )
        own = self.data.sel(parameter=self._chosen(parameter))
        strength, signed = own["mode_strength"].values, own["mode_signed"].values
        index = self.score.names.index(str(own["parameter"].item()))
        total, size = float(self.score.terms.H[index, index]), float(np.abs(signed).sum())
        columns = {
            "eigenvalue": own["mode_eigenvalue"].values,
            "strength": strength,
            "strength_share": strength / total if total > 0 else 0 * strength,
            "signed": signed,
            "signed_share": signed / size if size > 0 else 0 * signed,
        }
        return pd.DataFrame(columns, index=pd.Index(own["mode"].values, name="mode"))

    def to_dataset(self) -> xr.Dataset:
        """Return everything as a labelled dataset."""
        return self.data.copy()

    def plot(self, *, parameter: str | None = None, figure: Any = None) -> Any:
        """Draw the domain, coloured by what leaving a region out does to D, and the leading ones.

        Parameters
        ----------
        parameter : str, optional
            Needed when there are several.
        figure : matplotlib.figure.Figure, optional
            An empty one to draw into.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from twoaxis.remedies.evidence.figure import draw

        return draw(self, self._chosen(parameter), figure)

    def _chosen(self, parameter: str | None) -> str:
        names = self.score.names
        if parameter is None and len(names) == 1:
            return names[0]
        if parameter not in names:
            raise InputError(
                f"one of the parameters {', '.join(names)}", f"parameter={parameter!r}", "name one"
            )
        return parameter

    def __repr__(self) -> str:
        blocks = [
            f"Evidence map of {len(self.regions)} regions, view: {self.score.view}",
        ]
        for name, displacement in self.displacement.items():
            table = self.summary(name)
            shown = table.head(SHOWN).drop(columns=["B", "H", "points"])
            first = table.iloc[0]
            blocks += [
                f"D of {name} is {displacement:+.4g}; without {first.name} it would be "
                f"{first['without']:+.4g}",
                shown.to_string(float_format=lambda v: f"{v:.3g}"),
            ]
        blocks += [f"! {line}" for line in self.doubts]
        return "\n".join(blocks)


def ranking(change: FloatArray, displacement: FloatArray) -> NDArray[np.intp]:
    """Order regions by how much of the displacement (d,) goes with them; changes are (R, d).

    That is the part of the change that is opposite to the displacement. Where there is no
    displacement, pulls cancel, and the size of the change decides.
    """
    size = float(np.linalg.norm(displacement))
    gone = -change @ displacement / size if size > 0 else np.linalg.norm(change, axis=1)
    return np.argsort(-gone, kind="stable")

r"""Which residual modes see the parameter, and which push it, one way or the other.

In the eigenvectors :math:`v_k` of a view, with :math:`j_k = v_k^\top J` and
:math:`e_k = v_k^\top r`,

.. math:: H = \sum_k \lambda_k j_k^2, \qquad B = \sum_k \lambda_k j_k e_k.

Contributions to ``H`` only add up; those to ``B`` have signs and may cancel. Two readings of
strength are kept apart by name: ``strength`` weighs each mode by its eigenvalue and sums to
``H`` under the view; ``pointwise_strength`` is :math:`j_k^2 / N`, the pointwise strength
resolved in the same modes, which is the reading of the published table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.frozen import Points, Residual, as_frozen, bound_view
from twoaxis.geometry.derivatives import STEP, Derivative, linearize
from twoaxis.geometry.score import check_metric_size
from twoaxis.parameters import Parameter, Parameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twoaxis.views import BoundView, View

FloatArray = NDArray[np.float64]

# Beyond this many points only leading modes are computed, unless more are asked for.
ALL_MODES = 5000
LEADING_MODES = 256


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Contributions of the view's modes, and of the points, to strength and score.

    Made by `twoaxis.spectrum`. Bands are pairs of mode numbers, from 1, both included.

    Attributes
    ----------
    parameter : str
    eigenvalues : array, shape (K,)
        Largest first. Negative rounding is clipped to zero, for reporting only.
    strength : array, shape (K,)
        ``lambda_k j_k^2``; sums to H when all modes are there.
    signed : array, shape (K,)
        ``lambda_k j_k e_k``; sums to B.
    pointwise_strength : array, shape (K,)
        ``j_k^2 / N``.
    clipped : int
        How many eigenvalues were below zero.
    point_contributions : array, shape (N,)
        Signed share of every residual value in B: ``(J_i (M r)_i + r_i (M J)_i) / 2``.
    points : array, shape (N, k)
    B, H : float
        The totals, computed without the modes.
    pointwise_H : float
        ``J^T J / N``.
    complete : bool
        Whether all modes that the view sees are there.
    """

    parameter: str
    eigenvalues: FloatArray
    strength: FloatArray
    signed: FloatArray
    pointwise_strength: FloatArray
    clipped: int
    point_contributions: FloatArray
    points: FloatArray
    B: float
    H: float
    pointwise_H: float
    complete: bool
    view: str

    def strength_share(self, band: tuple[int, int]) -> float:
        """Share of H in a band of modes; 0 where H is."""
        return self._share(self.strength, band, self.H)

    def pointwise_strength_share(self, band: tuple[int, int]) -> float:
        """Share of the pointwise strength in a band of modes: the published reading."""
        return self._share(self.pointwise_strength, band, self.pointwise_H)

    def signed_share(self, band: tuple[int, int]) -> float:
        """Signed contribution of a band to B, relative to all contributions taken positive.

        It lies between -1 and 1, and the shares of all bands add up to B over that total.
        """
        return self._share(self.signed, band, float(np.abs(self.signed).sum()))

    def _share(self, values: FloatArray, band: tuple[int, int], total: float) -> float:
        first, last = _checked_band(band)
        if last > len(values) and not self.complete:
            raise InputError(
                f"a band among the {len(values)} modes that were computed",
                repr(band),
                f"compute more of them, as in spectrum(..., modes={last})",
            )
        return 0.0 if total == 0 else float(values[first - 1 : last].sum() / total)

    @property
    def cancellation(self) -> float:
        """How much of the signed mass cancels: ``1 - |sum| / sum of magnitudes``."""
        total = float(np.abs(self.signed).sum())
        return 0.0 if total == 0 else float(1 - abs(self.signed.sum()) / total)

    def rank_for(self, share: float) -> int | None:
        """Return the smallest number of leading modes that retains a share of H.

        None when the computed modes do not reach it.
        """
        real = isinstance(share, (int, float, np.integer, np.floating))
        if not (real and 0 < share <= 1):
            raise InputError("a share above 0 and up to 1", repr(share), "pass share=0.9")
        reached = np.flatnonzero(self.cumulative_strength >= share * (1 - 1e-12))
        return int(reached[0]) + 1 if reached.size else None

    @property
    def cumulative_strength(self) -> FloatArray:
        """Share of H in the leading k modes, for every k."""
        total = self.H if self.H > 0 else 1.0
        return np.cumsum(self.strength) / total

    @property
    def cumulative_signed(self) -> FloatArray:
        """Signed contribution of the leading k modes to B, for every k."""
        return np.cumsum(self.signed)

    def region_contributions(self, cells: int = 8) -> pd.DataFrame:
        """Return the signed contributions to B summed over a grid of cells.

        One row for each occupied cell: the mean of its points, their number and their contribution.
        """
        if not isinstance(cells, (int, np.integer)) or cells < 1:
            raise InputError("at least one cell an axis", f"cells={cells!r}", "pass cells=8")
        number = _cell_numbers(self.points, cells)
        count = np.bincount(number)
        table: dict[str, Any] = {
            f"x{axis}": np.bincount(number, self.points[:, axis]) / count
            for axis in range(self.points.shape[1])
        }
        table["points"] = count
        table["contribution"] = np.bincount(number, self.point_contributions)
        return pd.DataFrame(table).rename_axis("cell")

    def to_dataset(self) -> xr.Dataset:
        """Return everything as a labelled dataset."""
        mode = np.arange(1, len(self.eigenvalues) + 1)
        variables: dict[str, Any] = {
            "eigenvalue": (["mode"], self.eigenvalues, {"long_name": "eigenvalue of the view"}),
            "strength": (["mode"], self.strength, {"long_name": "contribution to H"}),
            "signed": (["mode"], self.signed, {"long_name": "signed contribution to B"}),
            "pointwise_strength": (
                ["mode"],
                self.pointwise_strength,
                {"long_name": "contribution to the pointwise strength"},
            ),
            "point_contribution": (
                ["point"],
                self.point_contributions,
                {"long_name": "signed contribution of the point to B"},
            ),
            "points": (["point", "axis"], self.points, {"long_name": "residual points"}),
        }
        attributes = {
            "parameter": self.parameter,
            "view": self.view,
            "B": self.B,
            "H": self.H,
            "pointwise_H": self.pointwise_H,
            "clipped": self.clipped,
            "complete": int(self.complete),
        }
        return xr.Dataset(variables, {"mode": mode}, attributes)

    def __repr__(self) -> str:
        kind = "all" if self.complete else "leading"
        return (
            f"Spectrum of {self.parameter}: {kind} {len(self.eigenvalues)} modes of {self.view}; "
            f"B = {self.B:.5g}, H = {self.H:.5g}, cancellation {100 * self.cancellation:.1f}%"
        )


def spectrum(
    residual: Residual,
    parameters: Mapping[str, Parameter] | None = None,
    view: View | BoundView | None = None,
    *,
    points: Points = None,
    parameter: str | None = None,
    modes: int | None = None,
    at: str | Mapping[str, float] | None = None,
    derivative: Derivative = "auto",
    step: float = STEP,
) -> Spectrum:
    """Resolve strength and score of a frozen field in the modes of a view.

    Parameters
    ----------
    residual, parameters, view, points, at, derivative, step
        As for `twoaxis.score`.
    parameter : str, optional
        Which parameter; needed when there are several.
    modes : int, optional
        How many leading modes; by default all of them up to 5,000 points, else 256.
    """
    frozen = as_frozen(residual, parameters, points)
    center = Parameters(frozen.parameters).center(at)
    metric = bound_view(frozen, view)
    column = _column(frozen.names, parameter)
    local = linearize(frozen, frozen.coordinates(center.values), derivative, step)
    check_metric_size(metric, local.residual)
    size = len(local.residual)
    if modes is not None and (not isinstance(modes, (int, np.integer)) or modes < 1):
        raise InputError("at least one mode", f"modes={modes!r}", "pass modes=64")
    wanted = modes if modes is not None else (None if size <= ALL_MODES else LEADING_MODES)
    values, vectors = metric.eigenpairs(wanted)
    j, r = local.jacobian[:, column], local.residual
    along_j, along_r = vectors.T @ j, vectors.T @ r
    clean = np.maximum(values, 0.0)
    both = metric.apply(np.column_stack([r, j]))
    return Spectrum(
        parameter=frozen.names[column],
        eigenvalues=clean,
        strength=clean * along_j**2,
        signed=clean * along_j * along_r,
        pointwise_strength=along_j**2 / size,
        clipped=int(np.sum(values < 0)),
        point_contributions=(j * both[:, 0] + r * both[:, 1]) / 2,
        points=frozen.places(size),
        B=float(j @ both[:, 0]),
        H=float(j @ both[:, 1]),
        pointwise_H=float(j @ j) / size,
        complete=len(values) >= metric.rank,
        view=metric.describe(),
    )


def _column(names: list[str], parameter: str | None) -> int:
    if parameter is None and len(names) == 1:
        return 0
    if parameter not in names:
        raise InputError(
            f"one of the parameters {', '.join(names)}", f"parameter={parameter!r}", "name one"
        )
    return names.index(parameter)


def _checked_band(band: Any) -> tuple[int, int]:
    pair = isinstance(band, (tuple, list)) and len(band) == 2
    whole = pair and all(isinstance(end, (int, np.integer)) for end in band)
    if not whole or not 1 <= band[0] <= band[1]:
        raise InputError(
            "a band of modes counted from 1, as in (1, 64)", repr(band), "put the lower first"
        )
    return int(band[0]), int(band[1])


def _cell_numbers(points: FloatArray, per_axis: int) -> NDArray[np.intp]:
    """Return the occupied cell of every point, numbered from 0, on min–max normalised axes."""
    low, extent = points.min(axis=0), np.ptp(points, axis=0)
    unit = (points - low) / np.where(extent > 0, extent, 1.0)
    cell = np.minimum((unit * per_axis).astype(np.intp), per_axis - 1)
    return np.unique(cell, axis=0, return_inverse=True)[1].reshape(-1)

r"""Which residual modes depend on a parameter, and which push it, one way or the other.

In the eigenvectors :math:`v_k` of a view, with :math:`j_k = v_k^\top J` and
:math:`e_k = v_k^\top r`,

.. math:: H = \sum_k \lambda_k j_k^2, \qquad B = \sum_k \lambda_k j_k e_k.

Contributions to ``H`` only add up; those to ``B`` have signs and may cancel. Two kinds of
strength are kept apart by name: ``strength`` weighs each mode by its eigenvalue and sums to
``H`` under the view; ``pointwise_strength`` is :math:`j_k^2 / N`, the pointwise strength
resolved in the same modes, which is the one of the published table.

A view that weighs every point by itself (pointwise, weighted) has unit vectors as modes. An
audit resolves its strength, ``|M^(1/2) J|^2``, in the eigenvectors of the Gaussian kernel
instead, from coarse to fine; any orthonormal basis keeps the sums. Of a block view every equation
has modes of its own.

Nuisance parameters are projected out of ``J`` and ``r`` first (`twoaxis.geometry.score` has the
formulas), so that the contributions to a parameter of interest sum to its strength ``S_ii`` and
its score ``b_i``. Those to a nuisance parameter itself sum to its own ``H_ii`` and ``B_i``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoaxis.arrays import is_integer, is_real
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, Points, Residual, as_frozen, bound_view
from twoaxis.geometry.derivatives import STEP, Derivative, Linearization, linearize
from twoaxis.geometry.regions import cell_regions, equation_regions
from twoaxis.geometry.score import check_metric_size, without_nuisance
from twoaxis.io import Layout, Variable
from twoaxis.parameters import Center, Parameters, Unknowns
from twoaxis.result import (
    CENTER_LAYOUT,
    PARAMETER_LAYOUT,
    CenteredResult,
    interest_first,
    interest_only,
    require,
)
from twoaxis.views.view import Block, BoundDiagonal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twoaxis.views import BoundView, View

FloatArray = NDArray[np.float64]

# Beyond this many points only leading modes are computed, unless more are asked for.
ALL_MODES = 5000
LEADING_MODES = 256
# Sums over points agree with totals to this share of the sum of magnitudes.
SAME_SUM = 1e-6

_MODES = ("mode", "parameter")
LAYOUT: Layout = {
    **PARAMETER_LAYOUT,
    **CENTER_LAYOUT,
    "mode": Variable(("mode",), "int", "number of the mode, from 1"),
    "eigenvalue": Variable(("mode",), "float", "eigenvalue of the basis", finite=True, least=0),
    "strength": Variable(_MODES, "float", "contribution to H", finite=True, least=0),
    "signed": Variable(_MODES, "float", "signed contribution to B", finite=True),
    "pointwise_strength": Variable(
        _MODES, "float", "contribution to the pointwise strength J^T J / N", finite=True, least=0
    ),
    "strength_total": Variable(("parameter",), "float", "H, of all modes", finite=True, least=0),
    "signed_total": Variable(("parameter",), "float", "B, of all modes", finite=True),
    "pointwise_strength_total": Variable(
        ("parameter",), "float", "J^T J / N, of all modes", finite=True, least=0
    ),
    "axis": Variable(("axis",), "text", "name of the coordinate of a point", required=False),
    "points": Variable(("point", "axis"), "float", "residual points", required=False, finite=True),
    "equation": Variable(("equation",), "text", "name of the equation", required=False),
    "equation_of": Variable(
        ("point",), "int", "row of the equation that the value belongs to", required=False
    ),
    "point_contribution": Variable(
        ("point", "parameter"),
        "float",
        "signed contribution of the point to B, (J_i (M r)_i + r_i (M J)_i) / 2",
        required=False,
        finite=True,
    ),
}


@final
class Spectrum(CenteredResult):
    """Contributions of the modes of a view, and of the points, to strength and score.

    Made by `twoaxis.spectrum`. Bands are pairs of mode numbers, from 1, both included. Arrays
    have one column per parameter, and none where there is only one parameter. Shares, ranks and
    sums over regions need a spectrum of one parameter: ``spectrum.of("nu")``.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 5, 40)
    >>> known = {"k": ta.Parameter(truth=0.8, delivered=0.93, bounds=(0.1, 4.0))}
    >>> u, u_t = np.exp(-0.9 * t), -0.9 * np.exp(-0.9 * t)  # a learned field
    >>> frozen = ta.FrozenResidual(lambda k: u_t + k * u, known, t, view=ta.views.Pointwise())
    >>> found = ta.spectrum(frozen, view=ta.views.Gaussian(rank=8))
    >>> found.eigenvalues.size, round(float(found.strength_share((1, 8))), 3)
    (8, 1.0)
    """

    schema = "spectrum"
    layouts = {"/": LAYOUT}  # noqa: RUF012
    attributes = {  # noqa: RUF012
        "/": ("view", "basis", "complete", "clipped", "centered_on")
    }

    def derived(self) -> dict[str, Any]:
        """Return the numbers of the modes."""
        return {"mode": np.arange(1, self.data.sizes["mode"] + 1)}

    def check(self) -> None:
        """Raise `InputError` unless contributions can come from one residual."""
        data = self.data
        contributions = self._points("point_contribution")
        consistent = {
            "eigenvalues, largest first": (np.diff(data["eigenvalue"].values) <= 0).all(),
            "modes that sum to H": self._sums("strength", whole=self.complete),
            "modes that sum to B": not self.complete or self._sums("signed", whole=True),
            # A view that does not see all of a residual has modes for what it sees.
            "modes that sum to at most the pointwise strength": self._sums(
                "pointwise_strength", whole=False
            ),
            "contributions of points that sum to B": contributions is None
            or np.allclose(
                contributions.sum(axis=0),
                data["signed_total"].values,
                rtol=0,
                atol=SAME_SUM * np.abs(contributions).sum(),
            ),
            "complete as 0 or 1, and a number of clipped eigenvalues": data.attrs["complete"]
            in (0, 1)
            and 0 <= data.attrs["clipped"] <= data.sizes["mode"],
        }
        require(consistent)
        super().check()

    def _sums(self, name: str, *, whole: bool) -> bool:
        """Whether modes sum to their total, or else to a part of it."""
        each, total = self.data[name].values, self.data[f"{name}_total"].values
        room = SAME_SUM * (np.abs(each).sum(axis=0) + np.abs(total))
        off = each.sum(axis=0) - total
        return bool((off <= room).all() and not (whole and (off < -room).any()))

    def of(self, parameter: str) -> Spectrum:
        """Return the spectrum of one of the parameters of interest."""
        choices = self.parameters.of_interest
        if parameter not in choices:
            raise InputError(
                f"one of the parameters {', '.join(choices)}",
                f"parameter={parameter!r}",
                "name one of them",
            )
        return Spectrum(self.data.sel(parameter=[parameter]))

    def _per_parameter(self, name: str) -> Any:
        """Return a variable whose last dimension is the parameter, without it if it has size 1."""
        array = self.data[name].values
        if array.shape[-1] > 1:
            return array
        return float(array[0]) if array.ndim == 1 else array[..., 0]

    def _single(self, name: str) -> Any:
        """Return the same for one parameter, or say that there are several."""
        if len(self.names) > 1:
            raise InputError(
                "a spectrum of one parameter",
                f"one of {', '.join(self.names)}",
                f'select one, as in spectrum.of("{self.parameters.of_interest[0]}")',
            )
        return self._per_parameter(name)

    def _points(self, name: str) -> FloatArray | None:
        return self.data[name].values if name in self.data else None

    @property
    def view(self) -> str:
        """The view, in words."""
        return str(self.data.attrs["view"])

    @property
    def basis(self) -> str:
        """What the modes are, in words."""
        return str(self.data.attrs["basis"])

    @property
    def complete(self) -> bool:
        """Whether all modes that contribute are there."""
        return bool(self.data.attrs["complete"])

    @property
    def clipped(self) -> int:
        """How many eigenvalues were below zero by rounding, and are reported as zero."""
        return int(self.data.attrs["clipped"])

    @property
    def eigenvalues(self) -> FloatArray:
        """Eigenvalues, largest first, shape (K,)."""
        values: FloatArray = self.data["eigenvalue"].values
        return values

    @property
    def strength(self) -> FloatArray:
        """``lambda_k j_k^2``, shape (K,) or (K, d); sums to H when all modes are there."""
        values: FloatArray = self._per_parameter("strength")
        return values

    @property
    def signed(self) -> FloatArray:
        """``lambda_k j_k e_k``, shape (K,) or (K, d); sums to B when all modes are there."""
        values: FloatArray = self._per_parameter("signed")
        return values

    @property
    def pointwise_strength(self) -> FloatArray:
        """``j_k^2 / N``, shape (K,) or (K, d)."""
        values: FloatArray = self._per_parameter("pointwise_strength")
        return values

    @property
    def B(self) -> Any:
        """Signed score, computed without the modes; shape (d,) for several parameters."""
        return self._per_parameter("signed_total")

    @property
    def H(self) -> Any:
        """Diagonal of the strength, computed without the modes."""
        return self._per_parameter("strength_total")

    @property
    def pointwise_H(self) -> Any:
        """``J^T J / N``, computed without the modes."""
        return self._per_parameter("pointwise_strength_total")

    @property
    def points(self) -> FloatArray | None:
        """Where each residual value lies, shape (N, k); None where they were not kept."""
        return self._points("points")

    @property
    def point_contributions(self) -> FloatArray | None:
        """Signed contribution of every residual value to B, shape (N,) or (N, d)."""
        return self._per_parameter("point_contribution") if self.points is not None else None

    def strength_share(self, band: tuple[int, int]) -> float:
        """Share of H in a band of modes; 0 where H is."""
        return self._share(self._single("strength"), band, self.H)

    def pointwise_strength_share(self, band: tuple[int, int]) -> float:
        """Share of the pointwise strength in a band of modes, as in the published table."""
        return self._share(self._single("pointwise_strength"), band, self.pointwise_H)

    def signed_share(self, band: tuple[int, int]) -> float:
        """Signed contribution of a band to B, relative to all contributions taken positive.

        It lies between -1 and 1, and the shares of all bands add up to B over that total.
        """
        signed = self._single("signed")
        return self._share(signed, band, float(np.abs(signed).sum()))

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
        """How much of the signed contributions cancels: ``1 - |sum| / sum of magnitudes``."""
        return _cancellation(self._single("signed"))

    def rank_for(self, share: float) -> int | None:
        """Return the smallest number of leading modes that retains a share of H.

        None when the computed modes do not reach it.
        """
        real = is_real(share)
        if not (real and 0 < share <= 1):
            raise InputError("a share above 0 and up to 1", repr(share), "pass share=0.9")
        reached = np.flatnonzero(self.cumulative_strength >= share * (1 - 1e-12))
        return int(reached[0]) + 1 if reached.size else None

    @property
    def cumulative_strength(self) -> FloatArray:
        """Share of H in the leading k modes, for every k."""
        strength = self._single("strength")
        return np.cumsum(strength) / (self.H if self.H > 0 else 1.0)

    @property
    def cumulative_signed(self) -> FloatArray:
        """Signed contribution of the leading k modes to B, for every k."""
        return np.cumsum(self._single("signed"))

    def region_contributions(self, cells: int = 8) -> pd.DataFrame:
        """Return the signed contributions to B summed over a grid of cells.

        One row per occupied cell: the mean of its points, their number and their contribution.
        Equations with points of their own have cells of their own, with a column that names them.

        Parameters
        ----------
        cells : int
            Cells along every axis of the bounding box of the points.
        """
        points = self.points
        if points is None:
            raise InputError(
                "a spectrum with its points", "one without", "compute it with twoaxis.spectrum"
            )
        contributions = self._single("point_contribution")
        axes = [str(name) for name in self.data["axis"].values]
        table: dict[str, Any] = {}
        if "equation_of" in self.data:
            names = [str(name) for name in self.data["equation"].values]
            rows = self.data["equation_of"].values
            regions = equation_regions(cells, points, axes, (names, rows))
            first = np.unique(regions.number, return_index=True)[1]
            table["equation"] = [names[row] for row in rows[first]]
        else:
            regions = cell_regions(cells, points, axes)
        table |= zip(axes, regions.means(points).T, strict=True)
        table["points"] = regions.count
        table["contribution"] = regions.sums(contributions)
        return pd.DataFrame(table).rename_axis("cell")

    def summary(self) -> pd.DataFrame:
        """Return a table with one row for each parameter, nuisance parameters last."""
        data = self.data
        strength, total = data["strength"].values, data["strength_total"].values
        table = {
            "B": data["signed_total"].values,
            "H": total,
            "modes": data.sizes["mode"],
            "share_of_H": strength.sum(axis=0) / np.where(total > 0, total, 1.0),
            "cancellation": [_cancellation(column) for column in data["signed"].values.T],
        }
        return interest_first(table, self.parameters)

    def __repr__(self) -> str:
        kind = "all" if self.complete else "leading"
        head = f"Spectrum: {kind} {self.data.sizes['mode']} modes, {self.basis}"
        return (
            f"{head}\n{interest_only(self.summary()).to_string(float_format=lambda v: f'{v:.5g}')}"
        )


def _cancellation(signed: FloatArray) -> float:
    total = float(np.abs(signed).sum())
    return 0.0 if total == 0 else float(1 - abs(signed.sum()) / total)


def spectrum(
    residual: Residual,
    parameters: Unknowns | None = None,
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
        Keep the spectrum of this parameter only; by default that of all.
    modes : int, optional
        How many leading modes; by default all of them up to 5,000 points, else 256.

    Returns
    -------
    Spectrum

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 50)
    >>> found = ta.spectrum(
    ...     lambda k: k * np.cos(3 * x) - np.cos(9 * x),
    ...     {"k": ta.Parameter(truth=1.0, bounds=(0.5, 2.0))},
    ...     ta.views.Gaussian(), points=x,
    ... )
    >>> found.rank_for(0.9)
    4
    """
    frozen = as_frozen(residual, parameters, points)
    center = Parameters(frozen.parameters).center(at)
    metric = bound_view(frozen, view)
    local = linearize(frozen, frozen.coordinates(center.values), derivative, step)
    found = spectrum_from(local, metric, frozen, center, modes=modes)
    return found if parameter is None else found.of(parameter)


def spectrum_from(
    local: Linearization,
    metric: Any,
    frozen: FrozenResidual,
    center: Center,
    *,
    modes: int | None = None,
    smooth: bool = False,
    keep_points: bool = True,
) -> Spectrum:
    """Return the spectrum of a residual that is linearized at `center`, under a bound view.

    Parameters
    ----------
    local : Linearization
        May be shared with `score_from` and `scan_from`.
    metric : BoundView
    frozen : FrozenResidual
        For the parameters and the points.
    center : Center
    modes : int, optional
        As for `spectrum`.
    smooth : bool
        Resolve a view that weighs every point by itself in the eigenvectors of the Gaussian
        kernel, from coarse to fine, rather than in its own, which are single points.
    keep_points : bool
        Whether the result holds the points and their contributions.
    """
    check_metric_size(metric, local.residual)
    size = len(local.residual)
    if modes is not None and (not is_integer(modes) or modes < 1):
        raise InputError("at least one mode", f"modes={modes!r}", "pass modes=64")
    count = modes if modes is not None else (None if size <= ALL_MODES else LEADING_MODES)
    known, places = Parameters(frozen.parameters), frozen.places(size)
    left, J = without_nuisance(local.residual, local.jacobian, metric, known.nuisance)
    # A nuisance parameter itself is read against the residual that it is fitted to.
    residuals, own = np.column_stack([left, local.residual]), known.nuisance.astype(np.intp)
    if smooth and any(isinstance(block.view, BoundDiagonal) for block in metric.blocks):
        values, vectors, weights, root = _smooth_modes(metric, places, count)
        along_j, along_r = (vectors.T @ (root[:, None] * each) for each in (J, residuals))
        kind = (
            "the Gaussian kernel" if len(metric.blocks) == 1 else "each equation's kernel or view"
        )
        basis = f"eigenvectors of {kind}, from coarse to fine"
        complete = len(values) >= sum(_mode_number(block) for block in metric.blocks)
    else:
        values, vectors = metric.eigenpairs(count)
        along_j, along_r = vectors.T @ J, vectors.T @ residuals
        weights = np.maximum(values, 0.0)
        basis = f"eigenvectors of the view: {metric.describe()}"
        complete = len(values) >= metric.rank
    r, applied_r = residuals[:, own], metric.apply(residuals)[:, own]
    applied_j = metric.apply(J)
    found = {
        **known.variables(),
        "center": [center.values[name] for name in known],
        "eigenvalue": np.maximum(values, 0.0),
        "strength": weights[:, None] * along_j**2,
        "signed": weights[:, None] * along_j * along_r[:, own],
        "pointwise_strength": (vectors.T @ J) ** 2 / size,
        "strength_total": np.einsum("nd,nd->d", J, applied_j),
        "signed_total": np.einsum("nd,nd->d", J, applied_r),
        "pointwise_strength_total": np.einsum("nd,nd->d", J, J) / size,
    }
    if keep_points:
        found |= {
            "axis": frozen.axis_names,
            "points": places,
            **_equations(frozen, size),
            "point_contribution": (J * applied_r + r * applied_j) / 2,
        }
    about = {
        "view": metric.describe(),
        "basis": basis,
        "complete": int(complete),
        "clipped": int(np.sum(values < 0)),
        "centered_on": center.kind,
    }
    return Spectrum.from_values(found, about)


def _equations(frozen: FrozenResidual, size: int) -> dict[str, Any]:
    """Return which equation each value belongs to, where they have points of their own."""
    if not isinstance(frozen.points, tuple):
        return {}
    names, rows = frozen.equation_of(size)
    return {"equation": names, "equation_of": rows}


def _mode_number(block: Block) -> int:
    """Return how many modes of a block contribute in `_smooth_modes`."""
    diagonal = isinstance(block.view, BoundDiagonal)
    return 0 if block.weight == 0 else block.view.size if diagonal else block.view.rank


def _smooth_modes(
    metric: BoundView, places: FloatArray, count: int | None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return modes that go from coarse to fine, for views that weigh every point by itself.

    Each equation has modes of its own, on its own points: the eigenvectors of the Gaussian
    kernel where its view is diagonal, and else those of its view. Modes of several equations are
    ordered by their eigenvalues as shares of the largest of their equation.

    Returns
    -------
    eigenvalues : array, shape (K,)
        Of the kernel for one equation, else relative, largest first.
    vectors : array, shape (N, K)
    weights : array, shape (K,)
        Of the squared components.
    root : array, shape (N,)
        What residual and sensitivity are multiplied by before their components are taken.
    """
    # Here and not above: only this needs a view of its own.
    from twoaxis.views import Gaussian

    root = np.ones(metric.size)
    found: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    for rows, weight, view in metric.blocks:
        if weight == 0:
            continue
        if isinstance(view, BoundDiagonal):
            kernel = Gaussian().bind(places[rows])
            values, vectors = kernel.eigenpairs(None if count is None else min(count, view.size))
            root[rows] = np.sqrt(weight * view.diagonal())
            weights = np.ones(len(values))
        else:
            values, vectors = view.eigenpairs(count)
            weights = weight * np.maximum(values, 0.0)
        if len(metric.blocks) > 1:
            values = values / values[0]
        wide = np.zeros((metric.size, len(values)))
        wide[rows] = vectors
        found.append((values, wide, weights))
    values, weights = (np.concatenate([each[k] for each in found]) for k in (0, 2))
    order = np.argsort(-values, kind="stable")[:count]
    return values[order], np.hstack([each[1] for each in found])[:, order], weights[order], root


def _checked_band(band: Any) -> tuple[int, int]:
    pair = isinstance(band, (tuple, list)) and len(band) == 2
    if not (pair and all(map(is_integer, band))) or not 1 <= band[0] <= band[1]:
        raise InputError(
            "a band of modes counted from 1, as in (1, 64)", repr(band), "put the lower first"
        )
    return int(band[0]), int(band[1])

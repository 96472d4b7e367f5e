r"""The evidence map: where in the domain, and in which residual modes, a displacement arises.

A displacement :math:`D = -H^\dagger B` is one number for the whole field. Its score is a sum over
the residual points, :math:`B = \sum_i J_i (M r)_i`, and so is its strength; summed over regions
they say where the pull comes from. Whether a region *matters* is another question, as pulls cancel
and a region brings strength as well: it is answered by leaving the region out, exactly. Regions are
ranked by how much of the displacement goes with them: those that cause it come first, those that
hold it back last.

The score with every region left out in turn, exactly and for all regions together.

With :math:`X = [J, r]` and :math:`X_R` its rows in region R, all others zero, the Gram matrix of
what remains is

.. math:: (X - X_R)^\top M\,(X - X_R),

the metric's submatrix on the other points and nothing else: no region is fitted again, and the
metric is not bound to the remaining points anew. It holds :math:`B_{-R}` and :math:`H_{-R}`,

.. math:: B_{-R} = B - J_R^\top (M r)_R - (M J)_R^\top r_R + J_R^\top M_{RR}\,r_R,

and the displacement without the region is :math:`-H_{-R}^\dagger B_{-R}`. The metric acts on the
columns :math:`X_R` of many regions at once; it is never formed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from twoaxis.diagnosis.modes import mode_contributions, modes_wanted
from twoaxis.frozen import FrozenResidual, Points, Residual, as_frozen, bound_view
from twoaxis.geometry import score
from twoaxis.geometry.derivatives import STEP, Derivative, linearize
from twoaxis.geometry.regions import Regions, regions_of
from twoaxis.geometry.score import NULL_SHARE, Score
from twoaxis.parameters import Parameter
from twoaxis.progress import progress_bar
from twoaxis.remedies.evidence.result import EvidenceMap, ranking
from twoaxis.views.view import BoundDiagonal

if TYPE_CHECKING:
    from twoaxis.views import BoundView, View

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# Numbers held at once while the metric acts on the columns of many regions.
VALUES_AT_ONCE = 8_000_000


@dataclass(frozen=True)
class RegionTerms:
    """What each of R regions holds, and what remains without it; d parameters.

    Attributes
    ----------
    B : array, shape (R, d)
        ``J_R^T (M r)_R``; sums to the score.
    H : array, shape (R, d, d)
        ``J_R^T (M J)_R``, made symmetric; sums to the strength.
    residual_norm : array, shape (R,)
        ``sqrt(r_R^T M_RR r_R)``: what the metric sees of the region's residual by itself.
    alignment : array, shape (R, d)
        Of residual and sensitivity inside the region, under ``M_RR``; zero where one vanishes.
    B_without, H_without : array, shape (R, d) and (R, d, d)
        Score and strength without the region.
    displacement_without : array, shape (R, d)
    seen_without : array of bool, shape (R,)
        Whether every direction that the whole residual sees is still seen.
    """

    B: FloatArray
    H: FloatArray
    residual_norm: FloatArray
    alignment: FloatArray
    B_without: FloatArray
    H_without: FloatArray
    displacement_without: FloatArray
    seen_without: BoolArray


def region_terms(
    residual: FloatArray,
    jacobian: FloatArray,
    metric: Any,
    regions: Regions,
    progress: bool = True,
) -> RegionTerms:
    """Take residual (N,) and Jacobian (N, d) apart by region, under a bound view."""
    columns = np.column_stack([jacobian, residual])
    applied = metric.apply(columns)
    inside, without = _grams(columns, applied, metric, regions, progress)
    share = regions.sums(columns[:, :, None] * applied[:, None, :])
    share = (share + share.transpose(0, 2, 1)) / 2
    own = regions.sums(jacobian * applied[:, -1:])
    whole = np.sum(share, axis=0)[:-1, :-1]
    strength = np.sqrt(np.maximum(np.diagonal(inside, axis1=1, axis2=2), 0.0))
    size = strength[:, :-1] * strength[:, -1:]
    alignment = np.where(size > 0, inside[:, :-1, -1] / np.where(size > 0, size, 1.0), 0.0)
    displacement, nullity = displacements(without[:, :-1, :-1], without[:, :-1, -1], whole)
    _, unseen = displacements(whole[None], np.zeros((1, len(whole))), whole)
    return RegionTerms(
        B=own,
        H=share[:, :-1, :-1],
        residual_norm=strength[:, -1],
        alignment=np.clip(alignment, -1, 1),
        B_without=without[:, :-1, -1],
        H_without=without[:, :-1, :-1],
        displacement_without=displacement,
        seen_without=nullity <= unseen[0],
    )


def _grams(
    columns: FloatArray, applied: FloatArray, metric: Any, regions: Regions, progress: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the Gram matrices inside each region and without it, each (R, d + 1, d + 1)."""
    size, width = columns.shape
    inside = np.zeros((len(regions), width, width))
    without = np.zeros_like(inside)
    with progress_bar("leaving regions out", len(regions), progress) as advance:
        for chunk in _chunks(len(regions), max(1, VALUES_AT_ONCE // (size * width))):
            member = regions.number[:, None] == np.arange(chunk.start, chunk.stop)
            held = np.where(member[:, :, None], columns[:, None, :], 0.0)
            seen = metric.apply(held.reshape(size, -1)).reshape(held.shape)
            inside[chunk] = np.einsum("nrk,nrl->rkl", held, seen, optimize=True)
            rest = columns[:, None, :] - held
            left = applied[:, None, :] - seen
            without[chunk] = np.einsum("nrk,nrl->rkl", rest, left, optimize=True)
            advance(chunk.stop - chunk.start)
    return tuple((each + each.transpose(0, 2, 1)) / 2 for each in (inside, without))  # type: ignore[return-value]


def _chunks(count: int, most: int) -> Iterator[slice]:
    for start in range(0, count, most):
        yield slice(start, min(start + most, count))


def displacements(
    H: FloatArray, B: FloatArray, whole: FloatArray
) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return ``-H^+ B`` of many strengths (R, d, d) and scores (R, d), and what each misses.

    As in `twoaxis.score`, every parameter is taken in units of its own strength before it is
    decided what is seen; here strength below rounding of the *whole* one counts as none.
    """
    total = np.maximum(np.diagonal(whole), 0.0)
    diagonal = np.diagonal(H, axis1=1, axis2=2)
    lost = diagonal <= NULL_SHARE * total
    scale = np.where(lost, 1.0, np.sqrt(np.where(lost, 1.0, diagonal)))
    kept = ~(lost[:, :, None] | lost[:, None, :])
    scaled = np.where(kept, H / (scale[:, :, None] * scale[:, None, :]), 0.0)
    values, vectors = np.linalg.eigh(scaled)
    null = values <= NULL_SHARE * np.maximum(values[:, -1:], 0.0)
    along = np.einsum("rij,ri->rj", vectors, np.where(lost, 0.0, B / scale))
    along = np.where(null, 0.0, along / np.where(null, 1.0, values))
    step = -np.einsum("rij,rj->ri", vectors, along) / scale
    # Of all solutions, the one of least norm in the coordinates.
    blind = np.where(null[:, None, :], vectors / scale[:, :, None], 0.0)
    excess = np.einsum("rij,rj->ri", np.linalg.pinv(blind), step)
    step = step - np.einsum("rij,rj->ri", blind, excess)
    return step, null.sum(axis=1)


# Unless asked for, modes are computed up to this many points, or where the view has few.
CHEAP_POINTS = 800
CHEAP_RANK = 256


def evidence_map(
    residual: Residual,
    parameters: Mapping[str, Parameter] | None = None,
    view: View | BoundView | None = None,
    *,
    points: Points = None,
    at: str | Mapping[str, float] | None = None,
    regions: Any = None,
    modes: bool | int | None = None,
    derivative: Derivative = "auto",
    step: float = STEP,
    progress: bool = True,
) -> EvidenceMap:
    """Find the regions and residual modes from which the displacement of a field comes.

    Parameters
    ----------
    residual, parameters, view, points, at, derivative, step
        As for `twoaxis.score`.
    regions : int or array of labels, optional
        Cells along every axis of the box of the points, 8 by default; or a whole number or
        string for each residual value that names its region (for each point, where several
        equations share their points).
    modes : bool or int, optional
        Resolve score and strength in so many leading modes, too. By default 128 of them where
        that is cheap: up to 800 points, or a view of low rank.
    progress : bool
        Show a progress bar where it takes long.

    Returns
    -------
    EvidenceMap

    Examples
    --------
    The field is wrong by a bump around x = 0.7, and there its evidence is to be mended:

    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 400)
    >>> bump = 2 * np.exp(-((x - 0.7) / 0.03) ** 2)
    >>> found = evidence_map(
    ...     lambda k: k * np.ones(400) - 1.0 - bump,
    ...     {"k": ta.Parameter(truth=1.0, bounds=(0.2, 5.0))},
    ...     ta.views.Pointwise(), points=x, regions=5,
    ... )
    >>> found.leading().name
    'x 0.60 to 0.80'
    """
    frozen = as_frozen(residual, parameters, points)
    metric = bound_view(frozen, view)
    places = _places(frozen, metric.size)
    axes = _axes(frozen, places.shape[1])
    divided = regions_of(regions, places, axes, frozen.size or len(places))
    wanted = modes_wanted(_cheap(metric) if modes is None else modes, metric)
    whole = score(frozen, view=metric, at=at, derivative=derivative, step=step)
    local = linearize(frozen, frozen.coordinates(whole.center.values), derivative, step)
    terms = region_terms(local.residual, local.jacobian, metric, divided, progress)
    data = _dataset(whole, divided, terms, places, axes)
    if wanted:
        found = mode_contributions(whole, local.residual, local.jacobian, places, metric, wanted)
        data = data.merge(_modes(found))
        data.attrs |= {f"modes_{name}": value for name, value in found.attrs.items()}
    return EvidenceMap(score=whole, data=data, regions=divided)


def _cheap(metric: BoundView) -> bool:
    """Whether modes take less time than the regions."""
    few = metric.rank <= CHEAP_RANK and not isinstance(metric, BoundDiagonal)
    return few or metric.size <= CHEAP_POINTS


def _places(frozen: FrozenResidual, size: int) -> FloatArray:
    """Return where the residual values lie; a view of another length is refused by the score."""
    count = len(frozen.places(0)) if isinstance(frozen.points, tuple) else frozen.size
    return frozen.places(size if size % count == 0 else count)


def _axes(frozen: FrozenResidual, count: int) -> list[str]:
    if len(frozen.axes) == count:
        return list(frozen.axes)
    return ["x"] if count == 1 else [f"x{j + 1}" for j in range(count)]


def _dataset(
    whole: Score, regions: Regions, terms: RegionTerms, places: FloatArray, axes: list[str]
) -> xr.Dataset:
    """Label the regions, the one with which most of the displacement goes first."""
    units = np.array([p.unit(whole.center.values[n]) for n, p in whole.parameters.items()])
    change = terms.displacement_without - whole.terms.displacement
    order = ranking(change / units, whole.terms.displacement / units)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    one, two = ["region", "parameter"], ["region", "parameter", "other_parameter"]
    size = np.abs(terms.B).sum(axis=0)
    strength = np.diagonal(terms.H, axis1=1, axis2=2)
    total = np.diagonal(whole.terms.H)
    variables: dict[str, Any] = {
        "points_in_region": (["region"], regions.count, "residual values in the region"),
        "low": (["region", "axis"], regions.low, "lower walls"),
        "high": (["region", "axis"], regions.high, "upper walls"),
        "B": (one, terms.B, "signed contribution J (M r) to the score; sums to B"),
        "B_share": (one, _ratio(terms.B, size), "of all contributions taken positive"),
        "H": (two, terms.H, "contribution J (M J) to the strength; sums to H"),
        "H_share": (one, _ratio(strength, total), "share of the strength of each parameter"),
        "residual_norm": (["region"], terms.residual_norm, "norm of the region's residual"),
        "alignment": (one, terms.alignment, "of residual and sensitivity inside the region"),
        "B_without": (one, terms.B_without, "score without the region"),
        "H_without": (two, terms.H_without, "strength without the region"),
        "displacement_without": (one, terms.displacement_without, "D without the region"),
        "change": (one, change, "D without the region, less D"),
        "seen_without": (["region"], terms.seen_without, "all directions are still seen"),
    }
    labelled = {
        name: (dims, values[order], {"long_name": words})
        for name, (dims, values, words) in variables.items()
    }
    labelled["region_of_point"] = (["point"], rank[regions.number], {"long_name": "its region"})
    labelled["points"] = (["point", "axis"], places, {"long_name": "residual points"})
    labelled["displacement"] = (["parameter"], whole.terms.displacement, {"long_name": "D"})
    coordinates = {
        "region": [regions.names[k] for k in order],
        "parameter": whole.names,
        "other_parameter": whole.names,
        "axis": axes,
    }
    attributes = {"view": whole.view, "centered_on": whole.center.kind}
    return xr.Dataset(labelled, coordinates, attributes)


def _modes(found: xr.Dataset) -> xr.Dataset:
    """Return strength and signed share by mode, under names of their own."""
    names = {"strength": "mode_strength", "signed": "mode_signed", "eigenvalue": "mode_eigenvalue"}
    return found[list(names)].rename(names).drop_attrs()


def _ratio(values: FloatArray, total: FloatArray) -> FloatArray:
    """Return shares (R, d) of totals (d,), zero where there is nothing to share."""
    return np.where(total > 0, values / np.where(total > 0, total, 1.0), 0.0)

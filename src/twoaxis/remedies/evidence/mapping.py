r"""The evidence map: where in the domain, and in which residual modes, a displacement arises.

A displacement :math:`D = -H^\dagger B` is one number for the whole field. Its score is a sum over
the residual points, :math:`B = \sum_i J_i (M r)_i`, and so is its strength; summed over regions
they say where the pull comes from. Whether a region *matters* is another question, as pulls cancel
and a region brings strength as well: it is answered by leaving the region out, exactly. Regions are
ranked by how much of the displacement goes with them: those that cause it come first, those that
hold it back last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from twoaxis.diagnosis.modes import mode_contributions, modes_wanted
from twoaxis.frozen import FrozenResidual, Points, Residual, as_frozen, bound_view
from twoaxis.geometry import score
from twoaxis.geometry.derivatives import STEP, Derivative, linearize
from twoaxis.geometry.score_result import Score
from twoaxis.parameters import Parameter
from twoaxis.remedies.evidence.leave_out import RegionTerms, region_terms
from twoaxis.remedies.evidence.regions import Regions, regions_of
from twoaxis.remedies.evidence.result import EvidenceMap, ranking
from twoaxis.views.diagonal import BoundDiagonal

if TYPE_CHECKING:
    from twoaxis.views import BoundView, View

FloatArray = NDArray[np.float64]

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

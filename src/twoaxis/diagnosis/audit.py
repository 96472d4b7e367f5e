"""The audit: both axes, delivery and the decision map in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from twoaxis.diagnosis.case import Case, ViewRelation
from twoaxis.diagnosis.data_check import match, observing, to_group
from twoaxis.diagnosis.decision_map import Tolerance
from twoaxis.diagnosis.directions import directions
from twoaxis.diagnosis.follow import history_group, snapshots_group
from twoaxis.diagnosis.messages import collect_messages
from twoaxis.diagnosis.modes import mode_contributions, modes_wanted
from twoaxis.diagnosis.reading import Reading, read, same_view
from twoaxis.diagnosis.result import (
    Audit,
    delivery_group,
    parameters_group,
    scan_group,
    score_group,
)
from twoaxis.diagnosis.tree import SCHEMA, labelled
from twoaxis.diagnosis.verdicts import judge
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, Points, Residual, as_frozen, bound_view
from twoaxis.geometry import delivery
from twoaxis.geometry.derivatives import STEP, Derivative, linearize
from twoaxis.parameters import Center, Parameter, Parameters
from twoaxis.resolution import Resolution
from twoaxis.version import __version__

if TYPE_CHECKING:
    from twoaxis.views import BoundView, View

FloatArray = NDArray[np.float64]

# Points that are kept for pictures: more would not be seen, and files would grow.
MOST_POINTS = 20_000


def audit(
    residual: Residual,
    parameters: Mapping[str, Parameter] | None = None,
    view: View | BoundView | None = None,
    *,
    points: Points = None,
    resolution: Resolution | None = None,
    data: ArrayLike | Mapping[Any, ArrayLike] | None = None,
    layout: Any = None,
    tolerance: Tolerance | None = None,
    at: str | Mapping[str, float] | None = None,
    candidates: int = 81,
    derivative: Derivative = "auto",
    step: float = STEP,
    spectrum: bool | int | None = None,
    history: Any = None,
    snapshots: xr.Dataset | None = None,
    notes: Sequence[str] = (),
) -> Audit:
    """Diagnose a frozen field: what can be resolved, what it prefers, what was delivered.

    Parameters
    ----------
    residual, parameters, view, points, at, derivative, step
        As for `twoaxis.score`. Centred on a truth (`at` left out, truths known), deviations are
        errors and all routes are open. Centred on the delivered value or on a point, the audit
        speaks of stability around it.
    resolution : Resolution, optional
        Axis 1 of the same parameters, from `twoaxis.resolve`. Without it the audit gives axis 2.
    data : array or mapping of str to array, optional
        The observations that the field was trained on. They are fitted with the matched model
        and simulated again at the delivered value; by default those that the resolution was
        made with.
    layout : str, optional
        The layout of the resolution that the field was trained on; by default all of them.
    tolerance : Tolerance, optional
        Without it the route is undetermined; all measurements are made.
    candidates : int
        Of the frozen scan.
    spectrum : bool or int, optional
        Whether to resolve strength and score in residual modes, or how many; by default where
        it is cheap.
    history : mapping, pandas.DataFrame or xarray.Dataset, optional
        Recorded along training: ``step``, losses by name, parameters by their names.
    snapshots : xarray.Dataset, optional
        What `twoaxis.follow` returned.
    notes : sequence of str
        Sentences of your own, which come first among the messages.

    Returns
    -------
    Audit

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 50)
    >>> found = ta.audit(
    ...     lambda k: k * np.ones(50) - 1.2 - 0.01 * np.cos(9 * x),
    ...     {"k": ta.Parameter(truth=1.0, delivered=1.2, bounds=(0.5, 2.0))},
    ...     ta.views.Pointwise(), points=x,
    ...     resolution=ta.resolve(
    ...         lambda k: np.exp(-k * x), {"k": ta.Parameter(truth=1.0, bounds=(0.5, 2.0))},
    ...         noise=0.01, replicas=50,
    ...     ),
    ...     tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
    ... )
    >>> found.route.value
    'strengthen residual evidence'
    """
    if tolerance is not None and not isinstance(tolerance, Tolerance):
        raise InputError(
            "a twoaxis.Tolerance",
            repr(tolerance),
            "write tolerance=twoaxis.Tolerance(material=5.0, resolution=5.0, preference=5.0)",
        )
    frozen = as_frozen(residual, parameters, points)
    center = Parameters(frozen.parameters).center(at)
    if center.kind != "truth":  # an audit around a candidate knows of no truth
        without = {name: replace(p, truth=None) for name, p in frozen.parameters.items()}
        frozen = replace(frozen, parameters=without)
    known: dict[str, Parameter] = dict(frozen.parameters)
    statistic = "mean" if tolerance is None else tolerance.statistic
    seen = observing(resolution, known, layout, statistic)
    recorded = None if history is None else history_group(history, known)
    followed = None if snapshots is None else snapshots_group(snapshots, list(known))
    metric = bound_view(frozen, view)
    modes = modes_wanted(spectrum, metric)

    audited = read(frozen, metric, center, candidates, derivative, step)
    training, relation = audited, _relation(frozen, view, metric)
    if relation == "another view":
        training = read(frozen, bound_view(frozen, None), center, candidates, derivative, step)
    # A minimum on a bound is where the scan was cut off: nothing can be delivered against it.
    minimum = None if training.bound_obstacle else training.scan.minimum
    whole = minimum is not None and all(p.delivered is not None for p in known.values())
    case = Case(
        parameters=known,
        center=center,
        audited=audited,
        training=training,
        relation=relation,
        directions=directions(audited.score),
        delivery=delivery(known, minimum) if whole else None,
        seen=seen,
        matching=match(seen, data, known, center),
        tolerance=tolerance,
    )
    local = linearize(frozen, frozen.coordinates(center.values), derivative, step)
    places = frozen.places(len(local.residual))
    groups = {
        "/field": _field(frozen, local.residual, local.jacobian, places, metric),
        "/history": recorded,
        "/snapshots": followed,
    }
    if modes:
        groups["/spectrum"] = mode_contributions(
            audited.score, local.residual, local.jacobian, places, metric, modes
        )
    return Audit(_tree(case, groups, [*notes, *frozen.notes]))


def _relation(frozen: FrozenResidual, view: Any, metric: Any) -> ViewRelation:
    """How the audited view relates to the training view."""
    if frozen.view is None:
        return "taken as the training view"
    if view is None or same_view(metric, bound_view(frozen, None)):
        return "the training view"
    return "another view"


def _tree(case: Case, groups: dict[str, xr.Dataset | None], notes: Sequence[str]) -> xr.DataTree:
    verdict, judged = judge(case)
    messages = [*(" ".join(str(note).split()) for note in notes), *collect_messages(case, verdict)]
    field = groups["/field"]
    if field is not None and field.attrs["points_kept"] < field.attrs["points_total"]:
        messages.append(
            f"pictures show {field.attrs['points_kept']:,} of {field.attrs['points_total']:,} "
            "points, drawn at random; every number rests on all of them"
        )
    root = parameters_group(case.parameters, case.center, messages)
    root.attrs = {
        "schema": SCHEMA,
        "title": f"twoaxis: audit around the {_kind(case.center)}",
        "written_by": f"twoaxis {__version__}",
        "centered_on": case.center.kind,
        "route": verdict.route.value,
        "reason": verdict.reason,
        "view": case.audited.score.view,
        "training_view": case.training.score.view,
        "view_relation": case.relation,
    }
    audited, training = case.audited, case.training
    whole: dict[str, xr.Dataset | None] = {
        "/": root,
        "/verdict": judged,
        **_axis_two("", audited),
        **(_axis_two("/training_view", training) if case.cross_view else {}),
        "/delivery": None,
        **groups,
        "/resolution": None if case.seen is None else to_group(case.seen),
        "/matched": case.matching.matched,
        "/resimulation": case.matching.resimulation,
    }
    if case.delivery is not None and training.scan.minimum is not None:
        whole["/delivery"] = delivery_group(
            case.delivery, training.scan.minimum, training.score.view
        )
    return xr.DataTree.from_dict({k: v for k, v in whole.items() if v is not None}, name="audit")


def _axis_two(prefix: str, reading: Reading) -> dict[str, xr.Dataset]:
    return {
        f"{prefix}/score": score_group(reading.score),
        f"{prefix}/scan": scan_group(reading.scan, reading.score),
    }


def _kind(center: Center) -> str:
    return {"truth": "truth", "delivered": "candidate", "point": "point"}[center.kind]


def _axes(frozen: FrozenResidual, count: int) -> list[str]:
    """Names of the coordinates, numbered where the frozen residual does not name them."""
    if len(frozen.axes) == count:
        return [str(name) for name in frozen.axes]
    return ["x"] if count == 1 else [f"x{k}" for k in range(count)]


def _field(
    frozen: FrozenResidual,
    residual: FloatArray,
    jacobian: FloatArray,
    places: FloatArray,
    metric: Any,
) -> xr.Dataset:
    """Residual, sensitivity and evidence at the points, at most `MOST_POINTS` of them."""
    total = len(residual)
    keep: Any = slice(None)
    if total > MOST_POINTS:
        chosen = np.random.default_rng(0).choice(total, MOST_POINTS, replace=False)
        keep = np.sort(chosen)
    contribution = jacobian * metric.apply(residual)[:, None]
    field = frozen.field
    if field is not None:
        field = np.tile(field, total // len(field))[keep]
    return labelled(
        "/field",
        {
            "axis": _axes(frozen, places.shape[1]),
            "points": places[keep],
            "residual": residual[keep],
            "sensitivity": jacobian[keep],
            "contribution": contribution[keep],
            "field": field,
        },
        {
            "points_total": total,
            "points_kept": min(total, MOST_POINTS),
            "field_name": str(frozen.field_name),
        },
    )

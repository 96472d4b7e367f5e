"""The audit: both axes, delivery and the decision map in one call."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from inspect import signature
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from twoaxis.arrays import is_integer, is_real
from twoaxis.diagnosis.data_check import Subject, match, resolution_for
from twoaxis.diagnosis.decision_map import Tolerance
from twoaxis.diagnosis.field_check import seen_field
from twoaxis.diagnosis.follow import Snapshots
from twoaxis.diagnosis.follower import Follower
from twoaxis.diagnosis.history import history_group
from twoaxis.diagnosis.messages import collect_messages
from twoaxis.diagnosis.questions import LEVEL
from twoaxis.diagnosis.refined_copy import refined_copy
from twoaxis.diagnosis.result import ASSUMED_VIEW, FIELD_LAYOUT, OTHER_VIEW, SAME_VIEW, Audit
from twoaxis.diagnosis.training_check import training_group
from twoaxis.diagnosis.verdict import Reading
from twoaxis.errors import InputError, check_mapping, check_words
from twoaxis.frozen import FrozenResidual, Points, Residual, as_frozen, bound_view
from twoaxis.geometry import delivery
from twoaxis.geometry.derivatives import STEP, Derivative, Linearization, linearize
from twoaxis.geometry.scan import check_candidates, scan_from
from twoaxis.geometry.score import score_from, without_nuisance
from twoaxis.geometry.spectrum import spectrum_from
from twoaxis.io import labelled
from twoaxis.labels import check_labels
from twoaxis.observations import Observations
from twoaxis.parameters import Parameters, Unknowns
from twoaxis.resolution import Resolution
from twoaxis.resolution.layouts import Missing
from twoaxis.result import Message, Result
from twoaxis.training_loss import Probe
from twoaxis.training_loss import probe as probe_loss
from twoaxis.version import __version__
from twoaxis.views.view import BoundDiagonal

if TYPE_CHECKING:
    from twoaxis.views import BoundView, View

# Points that are kept for pictures: more would not be seen, and files would grow.
MOST_POINTS = 20_000
# Views are the same when they differ by less than this on a probe, up to a factor.
SAME_VIEW_RTOL = 1e-9
# Unless asked for, modes are computed up to this many points, or where the view has few.
CHEAP_POINTS = 2500
CHEAP_RANK = 256
MODES = 128
# A probe of the loss that nobody asked for takes seconds: fewer iterations where weights times
# points exceed this.
LARGE_PROBE, FEW_ITERATIONS = 1e7, 20
# Starts of the scan of several parameters come from so many places over their bounds, where each
# costs an evaluation of the residual; `twoaxis.frozen_scan` takes a grid.
PLACES_PER_CANDIDATE = 12


class Auditable(Protocol):
    """What brings its own inputs to an audit: a run of `twoaxis.train`, or a refinement."""

    @property
    def audit_inputs(self) -> Callable[..., Mapping[str, Any]]:
        """A method that returns keyword arguments of `audit`; its options are its own."""
        ...


def audit(
    residual: Residual | Auditable,
    parameters: Unknowns | None = None,
    view: View | BoundView | None = None,
    *,
    points: Points = None,
    resolution: Resolution | None = None,
    data: ArrayLike | Mapping[Any, ArrayLike] | Observations | None = None,
    fitted: ArrayLike | Mapping[Any, ArrayLike] | None = None,
    noise: ArrayLike | None = None,
    missing: Missing = "raise",
    layout: Any = None,
    tolerance: Tolerance | None = None,
    level: float = LEVEL,
    at: str | Mapping[str, float] | None = None,
    candidates: int = 81,
    derivative: Derivative = "auto",
    step: float = STEP,
    spectrum: bool | int | None = None,
    history: Any = None,
    snapshots: Snapshots | None = None,
    probe: bool | int | None = None,
    refine: bool = True,
    progress: bool = True,
    notes: Sequence[str | Message] = (),
    about: Mapping[str, Any] | None = None,
    run: str = "",
    **options: Any,
) -> Audit:
    """Diagnose a frozen field: what can be resolved, what it prefers, what was delivered.

    Parameters
    ----------
    residual, parameters, view, points, at, derivative, step
        As for `twoaxis.score`; or, as `residual`, a run of `twoaxis.train`, which brings its
        field, data, resolution, history and snapshots (`Run.audit_inputs`), or what
        `twoaxis.refine` returned, which brings its field, its data and a resolution without a
        solver; ``field="before"`` audits the field as it was. Centered on a truth
        (`at` left out, truths known), deviations are errors and all routes are possible.
        Centered on the delivered value or on a point, the audit describes stability around it.
    resolution : Resolution, optional
        Axis 1 of the same parameters, from `twoaxis.resolve`. Without it the audit gives axis 2.
    data : Observations, array or mapping of str to array, optional
        The observations that the field was trained on; `Observations` bring their noise and
        places, and leave missing readings out. They are fitted with the matched model
        and compared with the forward model at the delivered value; by default those that the
        resolution was made with.
    fitted : array or mapping of str to array, optional
        What the trained field predicts for each observation, in the shape of `data`; by default
        what the frozen residual carries. It tells whether the network has fitted the data.
    noise : float or array, optional
        Standard deviation of the data, one for all or one for each, or a covariance: for data
        without a resolution, which has its noise.
    missing : {"raise", "drop"}
        What to do with NaN in `data`: refuse them, or leave those readings out and say how many.
    layout : str, optional
        The layout of the resolution that the field was trained on; by default all of them.
    tolerance : Tolerance, optional
        Without it the decision map is not read; all measurements are made, and the questions
        that come before the map are asked.
    level : float
        Confidence level of all tests of the audit together: ``1 - level`` is the chance of any
        false alarm.
    candidates : int
        Number of candidate values of the frozen scan.
    spectrum : bool or int, optional
        Whether to resolve strength and score in residual modes, or how many; by default where
        it is cheap.
    history : mapping, pandas.DataFrame, xarray.Dataset or Follower, optional
        Recorded along training: ``step``, losses by name, parameters by their names. A
        `twoaxis.Follower` is its own `snapshots`, too. Also DeepXDE's ``LossHistory``, the path
        of Lightning's ``metrics.csv``, or all outputs of ``jinns.solve`` or
        ``jinns.solve_alternate``.
    snapshots : Snapshots, optional
        What `twoaxis.follow` returned.
    probe : bool or int, optional
        Whether to continue training for a few iterations on the loss that the frozen residual
        carries, or how many, to see whether it moves on: far shows that it had not finished, and
        little shows nothing. By default where there is a loss, and neither a history of the
        parameters nor snapshots: 50 iterations, or 20 where weights times residual points exceed
        ten million.
    refine : bool
        Whether a copy of the model is refined where there are data and no resolution: both axes
        without a simulator, and the better value. It takes seconds; a model whose network nothing
        can replace is left alone.
    progress : bool
        Show progress bars.
    notes : sequence of str or Message
        Your own sentences, which come first among the messages.
    about : mapping of str to str, optional
        What the audit is about, for the head of the page, such as ``{"data": "run 7, 12 May"}``.
        Date, versions and the call are added.
    run : str
        Key of the audited run, by which runs and audits are matched.
    **options
        For a run or a refinement: arguments of its `audit_inputs`, such as ``replicas`` and
        ``seed``.

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
    given = dict(locals())
    if hasattr(residual, "audit_inputs"):
        return _audit_run(residual, given)
    if options:
        raise InputError(
            "arguments of twoaxis.audit",
            ", ".join(map(repr, options)),
            "check the spelling; options such as replicas belong to a run or a refinement",
        )
    if tolerance is not None and not isinstance(tolerance, Tolerance):
        raise InputError(
            "a twoaxis.Tolerance",
            repr(tolerance),
            "write tolerance=twoaxis.Tolerance(material=5.0, resolution=5.0, preference=5.0)",
        )
    if not (is_real(level) and 0 < level < 1):
        raise InputError("a level between 0 and 1", f"level={level!r}", "pass level=0.99")
    check_candidates(candidates)
    check_words("notes", notes)
    check_mapping("about", about)
    frozen = as_frozen(residual, parameters, points)
    if refine and resolution is None and fitted is None:
        copied, told = refined_copy(frozen, data, noise, progress)
        if copied is not None:
            for name in ("residual", "data", "noise", "parameters", "points"):
                given[name] = None
            given["options"] = {"field": "before"}
            return _audit_run(copied, given)
        notes = [*notes, *told]
    known = Parameters(frozen.parameters)
    center = known.center(at)
    if center.kind != "truth":  # an audit around a candidate knows of no truth
        known = known.replace(truth=None)
        frozen = replace(frozen, parameters=dict(known))
    found, chosen = resolution_for(resolution, known, layout)
    if isinstance(history, Follower):
        history = history.result
    if snapshots is None and isinstance(history, Snapshots):
        snapshots = history
    recorded = None if history is None else history_group(history, known)
    followed = None if snapshots is None else _checked_snapshots(snapshots, known.names)
    metric = bound_view(frozen, view)
    modes = mode_count(spectrum, metric)
    known.percent_units(center.values)  # a center of zero without a scale is refused here
    # One linearization serves score, scan and modes under every view.
    local = linearize(frozen, known.coordinates(center.values), derivative, step)

    def read(metric: Any) -> Reading:
        return Reading(
            score_from(local, metric, known, center),
            scan_from(
                frozen,
                metric,
                center,
                candidates,
                local=local,
                places=PLACES_PER_CANDIDATE * candidates,
            ),
        )

    audited = training = read(metric)
    relation = _relation(frozen, view, metric)
    if relation == OTHER_VIEW:
        training = read(bound_view(frozen, None))
    preferred = training.preferred
    delivers = preferred is not None and known.delivered is not None
    if data is None and found is None:
        data = frozen.data
    elif data is None and found is not None and found.live is not None:
        data = found.live.setup.observations
    if fitted is None and frozen.fitted is not None:
        check_labels("data", data, frozen.labels)
    seen = seen_field(frozen, data, fitted)
    subject = Subject(
        known,
        center,
        preferred,
        seen.fitted,
        frozen.axis_names,
        seen.observed,
        seen.fields,
        certain=fitted is not None,
    )
    matching = match(found, chosen, data, noise, subject, missing)
    followed_values = followed is not None or (recorded is not None and "value" in recorded)
    probed, unprobed = _probed(frozen, probe, not followed_values, progress)
    parts: dict[str, Result[xr.Dataset] | None] = {
        "/score": audited.score,
        "/scan": audited.scan,
        "/training_view/score": training.score if training is not audited else None,
        "/training_view/scan": training.scan if training is not audited else None,
        "/delivery": delivery(known, preferred, view=training.score.view) if delivers else None,
        "/resolution": found,
        "/spectrum": spectrum_from(
            local, metric, frozen, center, modes=modes, smooth=True, keep_points=False
        )
        if modes
        else None,
        "/snapshots": followed,
    }
    judged = Audit.from_parts(
        {
            **{path: None if part is None else part.data for path, part in parts.items()},
            "/field": _field(frozen, local, metric),
            **matching.groups,
            "/training": training_group(
                known, recorded, None if followed is None else followed.data, probed
            ),
            "/history": recorded,
        },
        {"view_relation": relation, "layout": chosen or "", "run": run},
        tolerance,
        float(level),
        _about(frozen, about, given),
    )
    own = [
        each if isinstance(each, Message) else Message("note", str(each))
        for each in (*notes, *frozen.notes, *unprobed)
    ]
    return judged.with_messages([*own, *collect_messages(judged, matching.messages)])


def _audit_run(run: Any, given: dict[str, Any]) -> Audit:
    """Audit an object that brings its own inputs; arguments of the call replace them."""
    options = given.pop("options")
    for name in ("residual", "parameters", "points"):
        if name != "residual" and given[name] is not None:
            raise InputError(
                f"no {name} beside a run or a refinement, which brings its own",
                f"{name}=...",
                f"leave {name} out",
            )
        del given[name]
    accepted = signature(run.audit_inputs).parameters
    own = [name for name in accepted if name not in ("truth", "resolution", "progress")]
    unknown = [name for name in options if name not in own]
    if unknown:
        raise InputError(
            f"arguments of twoaxis.audit, or {', '.join(own)}",
            ", ".join(f"{name}=..." for name in unknown),
            'check the spelling; at="delivered" leaves a truth out',
        )
    if "progress" in accepted:
        options["progress"] = given["progress"]
    inputs = run.audit_inputs(
        truth=given["at"] != "delivered", resolution=given["resolution"], **options
    )
    defaults = {name: p.default for name, p in signature(audit).parameters.items()}
    said = {name: value for name, value in given.items() if value is not defaults[name]}
    notes = [*inputs.get("notes", ()), *given["notes"]]
    return audit(**{**inputs, **said, "notes": notes})


def _probed(
    frozen: FrozenResidual, probe: bool | int | None, alone: bool, progress: bool
) -> tuple[Probe | None, list[Message]]:
    """Continue training on the loss of the frozen residual, where that is asked for or needed.

    A loss that nobody asked for and that cannot be evaluated does not stop an audit; a message
    says so.
    """
    if probe is False or (probe is None and not alone):
        return None, []
    if frozen.objective is None:
        if probe is None:
            return None, []
        raise InputError(
            "a frozen residual with its training loss",
            f"probe={probe!r} and no objective",
            "pass FrozenResidual(..., objective=twoaxis.objective(...)), or leave probe out",
        )
    iterations: Any = {} if probe is None or probe is True else {"iterations": probe}
    if probe is None and np.size(frozen.objective.start) * _count(frozen) > LARGE_PROBE:
        iterations = {"iterations": FEW_ITERATIONS}
    try:
        return probe_loss(frozen.objective, frozen, progress=progress, **iterations), []
    except InputError as error:
        if probe is not None:
            raise
        text = f"whether training had finished is not known: {error}"
        return None, [Message("training.not_probed", text, "warning")]


def _count(frozen: FrozenResidual) -> int:
    """Return the number of residual points."""
    points = frozen.points
    return sum(map(len, points)) if isinstance(points, tuple) else len(points)


def _about(
    frozen: FrozenResidual, about: Mapping[str, Any] | None, given: Mapping[str, Any]
) -> dict[str, str]:
    """Return what the audit is about; the user's words come first."""
    named = {**frozen.about, **(about or {})}
    defaults = {name: p.default for name, p in signature(audit).parameters.items()}
    said = [name for name in given if name != "options" and given[name] is not defaults[name]]
    shown = ", ".join(
        name if name == "residual" else f"{name}={_briefly(given[name])}" for name in said
    )
    made = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "versions": f"twoaxis {__version__}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}",
        "call": f"twoaxis.audit({shown})",
    }
    return {str(key): str(value) for key, value in {**made, **named}.items() if str(value)}


def _briefly(value: Any) -> str:
    """Return an argument as a call shows it: numbers and text in full, anything else as ``...``."""
    if isinstance(value, Tolerance):
        return f"Tolerance({value.material:g}, {value.resolution:g}, {value.preference:g})"
    return repr(value) if isinstance(value, (bool, int, float, str)) else "..."


def _checked_snapshots(snapshots: Any, names: list[str]) -> Snapshots:
    """Return what `follow` made, if it is that, and of these parameters."""
    if not isinstance(snapshots, Snapshots):
        raise InputError(
            "snapshots as twoaxis.follow returns them",
            type(snapshots).__name__,
            "pass snapshots=twoaxis.follow([(step, frozen), ...])",
        )
    if snapshots.names != names:
        raise InputError(
            f"snapshots of the parameters {', '.join(names)}",
            ", ".join(snapshots.names),
            "follow the training that is audited",
        )
    return snapshots


def _relation(frozen: FrozenResidual, view: Any, metric: Any) -> str:
    """How the audited view relates to the training view."""
    if frozen.view is None:
        return ASSUMED_VIEW
    if view is None or same_view(metric, bound_view(frozen, None)):
        return SAME_VIEW
    return OTHER_VIEW


def same_view(metric: Any, other: Any) -> bool:
    """Whether two bound views are the same up to a positive factor, which moves no minimum.

    Both act on a few random residuals; views that differ anywhere differ there.
    """
    if metric is other:
        return True
    if metric.size != other.size:
        return False
    probe = np.random.default_rng(0).standard_normal((metric.size, 2))
    a, b = metric.apply(probe).ravel(), other.apply(probe).ravel()
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    return bool(np.linalg.norm(a - b) <= SAME_VIEW_RTOL)


def mode_count(spectrum: bool | int | None, metric: Any) -> int:
    """Return how many modes to compute; 0 for none. By default as many as are cheap."""
    if spectrum is None:
        few = metric.rank <= CHEAP_RANK and not isinstance(metric, BoundDiagonal)
        return MODES if few or metric.size <= CHEAP_POINTS else 0
    if isinstance(spectrum, (bool, np.bool_)):
        return MODES if spectrum else 0
    if not is_integer(spectrum) or spectrum < 1:
        raise InputError(
            "spectrum as True, False or a number of modes", f"spectrum={spectrum!r}", "pass 128"
        )
    return int(spectrum)


def _field(frozen: FrozenResidual, local: Linearization, metric: Any) -> xr.Dataset:
    """Residual, sensitivity and evidence at the points, at most `MOST_POINTS` of them."""
    total = len(local.residual)
    keep: Any = slice(None)
    if total > MOST_POINTS:
        keep = np.sort(np.random.default_rng(0).choice(total, MOST_POINTS, replace=False))
    field = frozen.field
    if field is not None:
        field = np.tile(field, total // len(field))[keep]
    equations, rows = frozen.equation_of(total)
    # What nuisance parameters absorb is no evidence about the others.
    hidden = Parameters(frozen.parameters).nuisance
    left, jacobian = without_nuisance(local.residual, local.jacobian, metric, hidden)
    pulls = metric.apply(np.column_stack([left, local.residual]))[:, hidden.astype(np.intp)]
    values = {
        "parameter": list(frozen.parameters),
        "axis": frozen.axis_names,
        "equation": equations,
        "equation_of": rows[keep],
        "points": frozen.places(total)[keep],
        "residual": local.residual[keep],
        "sensitivity": jacobian[keep],
        "contribution": (jacobian * pulls)[keep],
        "field": field,
    }
    about = {
        "points_total": total,
        "points_kept": min(total, MOST_POINTS),
        "field_name": str(frozen.field_name),
    }
    return labelled(FIELD_LAYOUT, values, about)

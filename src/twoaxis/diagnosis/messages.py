"""What a reader must know beside the route: messages with codes, and calls that add missing parts.

Codes are stable; programs test them, not the texts. Those made here:

==========================  =====================================================================
code                        meaning
==========================  =====================================================================
view.other                  the audited view is not the training view
view.assumed                nobody said that the view is the training view
score.*                     doubts about the local displacement (`Score.doubts`)
scan.other_side             displacement and scan lie on different sides of the tolerance
scan.other_basin            the lowest minimum lies in another basin than the center
scan.undersampled           a deeper minimum may lie between the candidates of the scan
direction.null              the residual does not see a direction
direction.weak              the residual sees a direction weakly
delivery.small_gap          delivery is the last suspect, and the gap is small
delivery.gap                the delivery gap exceeds its tolerance beside another route
resolution.luck             the delivered value is within tolerance, the observations are loose
resolution.other_center     the replicas were simulated elsewhere than at the center
resolution.several_layouts  the resolution is that of several layouts together
resolution.*                messages of the resolution
tolerance.assumed           somebody else than the user chose the tolerances
history.other_end           the history ends elsewhere than at the delivered value
question.*                  a bad answer that did not become the route
data.size, data.outliers,   a check of the residuals of the matched fit alarms
data.normality, data.whiteness
data.on_bound               the matched fit lies on a bound of a parameter
missing.*                   a part is missing: tolerance, resolution, data, delivered, evidence
field.thinned               pictures show a sample of the points
==========================  =====================================================================

Those of `twoaxis.diagnosis.data_check` start with ``data.``; ``note`` is a sentence of the user.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from twoaxis.diagnosis.decision_map import Route
from twoaxis.diagnosis.functions import one_message_per_function
from twoaxis.diagnosis.overview import MOST_DIRECTIONS
from twoaxis.diagnosis.questions import matched_on_bound, material_percent, tested
from twoaxis.diagnosis.verdict import Directions
from twoaxis.result import Message
from twoaxis.text import number, p_equals, percent

if TYPE_CHECKING:
    from twoaxis.diagnosis.result import Audit

# A gap below this share of the tolerated displacement is negligible.
NO_GAP = 0.2


def collect_messages(audit: Audit, of_data: Sequence[Message] = ()) -> list[Message]:
    """Return the messages of an audit, the most consequential first.

    `of_data` are those of the matched fit and the re-simulation.
    """
    found = [
        *_view(audit),
        *_trust(audit),
        *_directions(audit),
        *_small_gap(audit),
        *_luck(audit),
        *_gap_beside(audit),
        *_answers(audit),
        *_other_end(audit),
        *of_data,
        *_axis_one(audit),
        *_missing(audit, of_data),
        *_thinned(audit),
    ]
    different = list({message.text: message for message in found}.values())
    return one_message_per_function(audit.parameters, different)


def _answers(audit: Audit) -> list[Message]:
    """Bad answers that did not become the route, and tests that alarm without a question."""
    found = [
        Message(
            f"question.{question.code}",
            f"{question.route.value}: {question.reason}",
            "warning",
            {
                name: value
                for name in ("measured", "limit", "p_value")
                if not math.isnan(value := getattr(question, name))
            },
        )
        for question in audit.questions
        if question.route is not None and question.route not in audit.routes.values()
    ]
    checks = audit.group("/checks")
    if checks is None:
        return found
    bound = matched_on_bound(audit)
    if bound:
        text = f"{bound}: the data may want a value beyond it; widen its bounds"
        found.append(Message("data.on_bound", text, "warning"))
    made = list(tested(audit))
    for row in range(checks.sizes["check"]):
        one = checks.isel(check=row)
        name, p = str(one["check"].values), float(one["p_value"])
        if p * len(made) < 1 - audit.level:
            text = f"the matched fit to the data: {one['meaning'].values} (p {p_equals(p)})"
            found.append(Message(f"data.{name}", text, "warning", {"p_value": p}))
    return found


def _other_end(audit: Audit) -> list[Message]:
    """Say that a history ends elsewhere: of another run, or with another value chosen from it."""
    history = audit.group("/history")
    if history is None or "value" not in history:
        return []
    limit, found = material_percent(audit), []
    for name in audit.names:
        delivered = audit.parameters[name].delivered
        path = history["value"].sel(parameter=name).dropna("step").values
        if delivered is None or not path.size:
            continue
        apart = float(abs(audit.parameters[name].percent(path[-1], delivered)))
        if apart > limit:
            text = (
                f"the history ends at {name} = {number(path[-1])}, {percent(apart)} from the "
                "delivered value; check that it belongs to this training"
            )
            found.append(Message("history.other_end", text, "warning", {"percent": apart}))
    return found


def _view(audit: Audit) -> list[Message]:
    relation = audit.data.attrs["view_relation"]
    if relation == "other":
        text = (
            f"the audited view ({audit.score.view}) is not the one that the field was trained "
            f"under ({audit.training.score.view}): delivery is assessed under the training view "
            "only, and both displacements are given"
        )
        return [Message("view.other", text)]
    if relation == "assumed":
        text = (
            "the view is assumed to be the one that the field was trained under, in which alone "
            "delivery can be assessed; twoaxis.FrozenResidual(..., view=...) makes it certain"
        )
        return [Message("view.assumed", text)]
    return []


def _trust(audit: Audit) -> list[Message]:
    found = [
        Message(m.code, f"the local displacement is in doubt: {m.text}", m.severity, m.numbers)
        for m in audit.score.doubts
    ]
    if audit.tolerance is not None:
        limit = audit.tolerance.preference
        for name in audit.names:
            local, scanned = audit.audited.local(name), audit.audited.preference(name)
            if local is None or scanned is None or (local > limit) == (scanned > limit):
                continue
            text = (
                f"local displacement and frozen scan minimum of {name} lie on different sides of "
                f"the tolerance: {percent(local)} and {percent(scanned)}; the route follows the "
                "scan"
            )
            numbers = {"displacement": local, "scan": scanned, "tolerance": limit}
            found.append(Message("scan.other_side", text, "warning", numbers))
    basins = audit.scan.local_minima
    if len(basins) > 1 and not bool(basins["holds_center"].iloc[0]):
        text = (
            "the lowest minimum of the frozen profile lies in another basin than the center: the "
            "local displacement does not describe it"
        )
        found.append(Message("scan.other_basin", text, "warning"))
    if audit.scan.undersampled:
        text = f"{audit.scan.doubt}: pass candidates=1000 to twoaxis.audit, or narrower bounds"
        numbers = {"intervals": float(audit.scan.undersampled)}
        found.append(Message("scan.undersampled", text, "warning", numbers))
    return found


def _directions(audit: Audit) -> list[Message]:
    if len(audit.names) == 1:
        return []
    found = []
    directions = Directions.of(audit.score)
    told = set()
    for k, status in enumerate(directions.status):
        words = directions.in_words(k)
        function = directions.parameters.main_function(directions.vectors[k])
        if function is not None:
            if (function.name, status) in told:
                continue  # the weakest is enough; `Score.function` has them all
            told.add((function.name, status))
        if directions.parameters.arrays and directions.status[:k].count(status) >= MOST_DIRECTIONS:
            continue  # `Score.directions` has them all
        share = float(directions.strength[k] / (directions.strength[-1] or 1.0))
        if status == "null":
            text = f"the residual does not see the direction {words}"
            found.append(Message("direction.null", text, "warning", {"direction": k}))
        if status == "weak":
            size = number(share, ".2g")
            text = f"the direction {words} is weak: its strength is {size} of the largest"
            numbers = {"direction": k, "share": share}
            found.append(Message("direction.weak", text, "warning", numbers))
    return found


def _small_gap(audit: Audit) -> list[Message]:
    """Around a truth, delivery may be the last suspect and still be clean."""
    if not audit.around_truth or audit.route is not Route.INSPECT_ENDPOINT_DELIVERY:
        return []
    if audit.delivery is None or audit.tolerance is None:
        return []
    gaps = [abs(audit.delivery.gap_percent[name]) for name in audit.names]
    largest = max((gap for gap in gaps if not math.isnan(gap)), default=math.inf)
    if largest > NO_GAP * audit.tolerance.preference:
        return []
    text = (
        f"the delivery gap is only {percent(largest)}: the tolerated displacement is most of the "
        "delivered error; a smaller Tolerance(preference=...) would show it, and a wrong model "
        "specification is the other candidate cause"
    )
    return [Message("delivery.small_gap", text, "warning", {"gap": largest})]


def _luck(audit: Audit) -> list[Message]:
    """An error within tolerance may be owed to one draw of the noise."""
    tolerance = audit.tolerance
    if audit.route is not Route.WITHIN_TOLERANCE or audit.resolution is None or tolerance is None:
        return []
    often = "on average" if tolerance.statistic == "mean" else "or more in one of ten draws"
    found = []
    for name in audit.names:
        value = audit.percent("resolution", name)
        if value > tolerance.resolution:
            text = (
                f"the delivered {name} is within tolerance for these data, but the observations "
                f"are loose: a matched fit to another draw of the noise deviates by "
                f"{percent(value)} {often}"
            )
            found.append(Message("resolution.luck", text, "warning", {"resolution": value}))
    return found


def _gap_beside(audit: Audit) -> list[Message]:
    """A route for the field does not say that training delivered what the field prefers."""
    about_the_field = (
        Route.STRENGTHEN_RESIDUAL_EVIDENCE,
        Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE,
        Route.IMPROVE_OBSERVATIONS,
    )
    if audit.delivery is None or audit.tolerance is None or audit.route not in about_the_field:
        return []
    limit = audit.tolerance.preference
    return [
        Message(
            "delivery.gap",
            f"the delivery gap of {name} is {gap:+.3g}%, which also exceeds the tolerated "
            f"displacement of {limit:g}%",
            "warning",
            {"gap": gap, "tolerance": limit},
        )
        for name, gap in audit.delivery.gap_percent.items()
        if name in audit.names and abs(gap) > limit
    ]


def _axis_one(audit: Audit) -> list[Message]:
    resolution = audit.resolution
    if resolution is None:
        return []
    found = []
    centers = {n: float(resolution.data["center"].sel(parameter=n)) for n in audit.names}
    away = {
        name: value
        for name, value in centers.items()
        if abs(value - audit.center.values[name]) > 1e-9 * abs(value)
    }
    if away:
        where = ", ".join(
            f"{name} = {number(value)}" for name, value in away.items() if name in audit.scalars
        )
        if not where:
            where = audit.parameters.value_words({**audit.center.values, **centers})
        text = (
            f"the replicas of the resolution were simulated at {where}, not at the center of the "
            "audit"
        )
        found.append(Message("resolution.other_center", text, "warning", away))
    layouts = resolution.layout_names
    if audit.layout is None and len(layouts) > 1:
        text = (
            f"the resolution is that of {len(layouts)} layouts together; "
            f'layout="{layouts[0]}" selects one'
        )
        found.append(Message("resolution.several_layouts", text, numbers={"layouts": len(layouts)}))
    found += [
        Message(m.code, f"resolution: {m.text}", m.severity, m.numbers) for m in resolution.messages
    ]
    return found


def _missing(audit: Audit, of_data: Sequence[Message]) -> list[Message]:
    found = []
    if audit.tolerance is None:
        text = (
            "no tolerance declared, so the decision map is not used; add "
            "tolerance=twoaxis.Tolerance(material=5.0, resolution=5.0, preference=5.0), in "
            "percent, with your own numbers"
        )
        found.append(Message("missing.tolerance", text))
    elif audit.tolerance.assumed:
        t = audit.tolerance
        numbers = {n: getattr(t, n) for n in ("material", "resolution", "preference")}
        sizes = ", ".join(dict.fromkeys(f"{value:g}%" for value in numbers.values()))
        text = (
            f"the tolerances of {sizes} were assumed, not declared: other tolerances may give "
            "another route"
        )
        found.append(Message("tolerance.assumed", text, "warning", numbers))
    if audit.resolution is None:
        text = (
            "no resolution given, so it is not known what the observations can resolve; add "
            "resolution=twoaxis.resolve(forward, parameters, noise=...)"
        )
        found.append(Message("missing.resolution", text))
    elif audit.group("/matched") is None and not of_data:
        text = (
            "no data given, so the delivered value is not simulated; add data=... with the "
            "observed values"
        )
        found.append(Message("missing.data", text))
    if audit.parameters.delivered is None:
        text = (
            "no delivered value, so delivery cannot be assessed; add "
            "Parameter(delivered=..., bounds=...)"
        )
        found.append(Message("missing.delivered", text))
    if not audit.around_truth:
        text = (
            f"around a {audit.center_word} the evidence column of the decision map is "
            "undetermined: the displacement describes stability and delivery, not where the "
            "parameter should be"
        )
        found.append(Message("missing.evidence", text))
    return found


def _thinned(audit: Audit) -> list[Message]:
    kept, total = (int(audit.field.attrs[n]) for n in ("points_kept", "points_total"))
    if kept == total:
        return []
    text = (
        f"pictures show {kept:,} of {total:,} points, drawn at random; all numbers use all points"
    )
    return [Message("field.thinned", text, numbers={"kept": kept, "total": total})]

"""From single remedies to the plan of an audit: what to do first, with the computed numbers.

Each computed remedy as an action: what it found, in sentences and numbers.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from twoaxis.diagnosis import Audit
from twoaxis.diagnosis.actions import Action, Number, first_steps
from twoaxis.errors import InputError
from twoaxis.remedies.calibration.result import ConfidenceSet, interval_words
from twoaxis.remedies.evidence.result import EvidenceMap
from twoaxis.remedies.polish.result import Polish
from twoaxis.remedies.simulated.result import SimulatedAudit
from twoaxis.remedies.sites.result import SuggestedSites, Verification
from twoaxis.report.audited import Audited

# From these shares of a displacement on, a region carries most or some of it.
MOST, SOME = 0.5, 0.1
# So many suggested sites are named; the others are in the result.
NAMED_SITES = 5


@singledispatch
def action_of(found: Any) -> Action:
    """Return what a remedy found as an action.

    Parameters
    ----------
    found : SuggestedSites, Verification, EvidenceMap, Polish, SimulatedAudit or ConfidenceSet
    """
    raise InputError(
        "what suggest_sites, its verify(), evidence_map, polish, simulated_audit or "
        "confidence_set returned",
        type(found).__name__,
        "pass the results themselves, as in twoaxis.remedy(audit, twoaxis.polish(frozen))",
    )


@action_of.register
def _(found: SuggestedSites) -> Action:
    table = found.summary()
    count = int(table["observations"].iloc[0])
    told, numbers = [], []
    for name, row in table.iterrows():
        told.append(
            f"{len(found.sites)} suggested sites should bring the mean deviation of {name} to "
            f"{row['predicted']:.3g}%; as many of average information give {row['at_random']:.3g}%."
        )
        numbers += [
            Number(f"{name}: predicted with {count} observations", float(row["predicted"]), "%"),
            Number(f"{name}: the same at average sites", float(row["at_random"]), "%"),
        ]
    axes = ", ".join(map(str, found.data["axis"].values))
    first = "; ".join(
        ", ".join(f"{value:.4g}" for value in site)
        for site in found.coordinates.values[:NAMED_SITES]
    )
    told.append(f"The first of them lie at ({axes}) = {first}.")
    title = f"Observe at {len(found.sites)} suggested sites"
    return Action(
        "observations", title, " ".join(told), "twoaxis.suggest_sites(...).sites", tuple(numbers)
    )


@action_of.register
def _(found: Verification) -> Action:
    told, numbers = [], []
    for name, rows in found.summary().groupby(level="parameter", sort=False):
        worst = rows.loc[rows["verified"] == rows["verified"].max()].iloc[0]
        interval = f"{worst['verified']:.3g}% ({worst['low']:.3g} to {worst['high']:.3g})"
        if len(rows) == 1:
            place = "inside" if worst["inside"] else "outside"
            told.append(
                f"Refits at {name} = {worst['value']:.4g} verify {interval}; the prediction lies "
                f"{place}."
            )
        else:
            told.append(
                f"Refits at {len(rows)} points verify {rows['verified'].mean():.3g}% for {name} on "
                f"average and {interval} at the worst of them, {name} = {worst['value']:.4g}; "
                f"{int(rows['inside'].sum())} of {len(rows)} predictions lie inside."
            )
            numbers.append(Number(f"{name}: verified on average", rows["verified"].mean(), "%"))
        numbers.append(
            Number(f"{name}: verified by refits at {worst['value']:.4g}", worst["verified"], "%")
        )
    return Action("observations", "Verify the sites", " ".join(told), "", tuple(numbers))


@action_of.register
def _(found: EvidenceMap) -> Action:
    told, numbers = [], []
    for name, moved in found.displacement.items():
        table = found.summary(name)
        first, share = table.iloc[0], table["points"].iloc[0] / table["points"].sum()
        where = f"{first.name} ({share:.0%} of the points)"
        becomes = f"D is {first['without']:+.3g} instead of {moved:+.3g}"
        carried = 1 - first["without"] / moved if moved else 0.0
        if carried > MOST:
            told.append(
                f"Most of the pull on {name} goes with one region: without {where}, {becomes}."
            )
        elif carried > SOME:
            told.append(
                f"A part of the pull on {name} goes with one region: without {where}, {becomes}."
            )
        else:
            told.append(
                f"No single region carries the pull on {name}: without the leading one, {where}, "
                f"{becomes}."
            )
        last = table.iloc[-1]
        if abs(last["without"]) > (1 + SOME) * abs(moved):
            told.append(
                f"The region {last.name} holds it back: without that one it is "
                f"{last['without']:+.3g}."
            )
        numbers += [
            Number(f"{name}: D without its leading region", float(first["without"])),
            Number(f"{name}: alignment inside that region", float(first["alignment"])),
        ]
    title = "Look at the residual where the pull comes from"
    return Action("evidence", title, " ".join(told), "twoaxis.evidence_map(frozen)", tuple(numbers))


@action_of.register
def _(found: Polish) -> Action:
    numbers = []
    for stage in found.stages:
        numbers += [Number(f"{name}, {stage.name}", v) for name, v in stage.values.items()]
    for word, gaps in (("delivered", found.gap_before), ("finished", found.gap_after)):
        if gaps is not None:
            numbers += [Number(f"gap of {name}, {word}", gap, "%") for name, gap in gaps.items()]
    text = f"{found.verdict} {found.about_the_parameter}"
    call = "twoaxis.polish(frozen, objective)"
    return Action("delivery", "Finish the training", text, call, tuple(numbers))


@action_of.register
def _(found: SimulatedAudit) -> Action:
    told, numbers = [], []
    for name, corrected in found.corrected.items():
        if np.isnan(corrected):  # the messages say why
            continue
        told.append(
            f"On {found.replicas} datasets simulated at {name} = {found.simulated_at[name]:.4g}, "
            f"training came out off by {found.bias[name]:+.3g} ± {found.bias_error[name]:.1g} in "
            f"its coordinate, of which the fields explain {found.displacement[name]:+.3g}. If the "
            f"bias is the same here, {name} is {corrected:.5g} and not "
            f"{found.delivered[name]:.5g}."
        )
        numbers += [
            Number(f"bias of {name}", found.bias[name]),
            Number(f"standard error of the bias of {name}", found.bias_error[name]),
            Number(f"mean displacement D of {name}", found.displacement[name]),
            Number(f"corrected {name}", corrected),
        ]
    told += [f"{line[0].upper()}{line[1:]}." for line in found.messages]
    call = "twoaxis.simulated_audit(pipeline, forward, parameters, noise)"
    title = "Take the bias off that simulations show"
    return Action("bias", title, " ".join(told), call, tuple(numbers))


@action_of.register
def _(found: ConfidenceSet) -> Action:
    name = found.calibration.name
    inside = " and ".join(interval_words(part) for part in found.intervals) or "no value"
    told = (
        f"The {100 * found.level:g}% confidence set of {name} for this pipeline holds {inside}, "
        f"from {found.retrainings} retrainings."
    )
    numbers = [
        Number(f"delivered {name}", found.estimate),
        Number("width of the set", found.width_percent, "%"),
    ]
    if found.corrected is not None and np.isfinite(found.corrected):
        told += f" Its bias-corrected value is {found.corrected:.5g}."
        numbers.append(Number("bias-corrected", found.corrected))
    call = "twoaxis.confidence_set(pipeline, forward, parameters, noise, data)"
    return Action("bias", f"State {name} with its confidence set", told, call, tuple(numbers))


def remedy(audit: Audit, *found: Any) -> Audit:
    """Put computed remedies into the "what to do" of an audit.

    Each of them joins the action of its kind that the audit had by itself, and those come in the
    order that the route asks for: for a co-design, the axis first that is further beyond its
    tolerance. Remedies that the route did not ask for follow.

    Parameters
    ----------
    audit : Audit
    *found : SuggestedSites, Verification, EvidenceMap, Polish, SimulatedAudit or ConfidenceSet
        What the remedies returned.

    Returns
    -------
    Audit
        The same audit with these actions; its page and its file show them.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 50)
    >>> frozen = ta.FrozenResidual(
    ...     lambda k: k * np.ones(50) - 1.2 - 0.01 * np.cos(9 * x),
    ...     {"k": ta.Parameter(truth=1.0, delivered=1.2, bounds=(0.5, 2.0))},
    ...     x, view=ta.views.Pointwise(),
    ... )
    >>> plan = ta.remedy(ta.audit(frozen), ta.evidence_map(frozen))
    >>> [action.kind for action in plan.actions]
    ['declare', 'evidence']
    """
    if not isinstance(audit, Audit):
        raise InputError(
            "an audit", type(audit).__name__, "pass what twoaxis.audit or load_audit returned"
        )
    computed = [action_of(each) for each in found]
    actions = []
    for step in first_steps(Audited.of(audit.tree)):
        own = [each for each in computed if each.kind == step.kind]
        computed = [each for each in computed if each.kind != step.kind]
        actions.append(_joined(step, own) if own else step)
    while computed:
        kind = computed[0].kind
        own = [each for each in computed if each.kind == kind]
        computed = [each for each in computed if each.kind != kind]
        actions.append(_joined(own[0], own[1:]))
    return audit.with_actions(actions)


def _joined(first: Action, others: list[Action]) -> Action:
    """Return one action that says what several of a kind say."""
    every = [first, *others]
    calls = [each.call for each in others if each.call] or [first.call]
    return Action(
        first.kind,
        first.title,
        "\n".join(each.text for each in every),
        calls[0],
        tuple(dict.fromkeys(number for each in every for number in each.numbers)),
    )

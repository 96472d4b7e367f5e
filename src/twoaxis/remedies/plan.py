"""From single remedies to the plan of an audit: what to do first, with the computed numbers."""

from __future__ import annotations

from typing import Any

from twoaxis.diagnosis import Audit
from twoaxis.diagnosis.actions import Action, first_steps
from twoaxis.errors import InputError
from twoaxis.remedies.told import action_of
from twoaxis.report.audited import Audited


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

"""What to do about an audit, computed: remedies joined with the actions that the route asks for.

Every result of a remedy has ``actions()``: what it found, in sentences and numbers. `remedy` puts
them into the audit. For a run of a built-in problem, whose simulator, loss and training are all
known, it computes them first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twoaxis.diagnosis import Audit
from twoaxis.diagnosis import audit as run_audit
from twoaxis.diagnosis.actions import Action, first_steps
from twoaxis.errors import InputError, needs_extra
from twoaxis.parameters import Parameters
from twoaxis.problems import EvolutionProblem
from twoaxis.remedies.confidence_set import ConfidenceSet
from twoaxis.remedies.evidence_map import EvidenceMap, evidence_map
from twoaxis.remedies.other_views import OtherViews, rank_other_views, train_under
from twoaxis.remedies.polish import Polish, polish
from twoaxis.remedies.refine import Refinement, refine
from twoaxis.remedies.simulated import SimulatedAudit, simulated_audit
from twoaxis.remedies.sites import SuggestedSites, suggest_sites
from twoaxis.remedies.sites.result import Verification
from twoaxis.views import View

if TYPE_CHECKING:
    from twoaxis.runs import Run
    from twoaxis.runs.engines import Engine
    from twoaxis.runs.pipeline import Pipeline
    from twoaxis.training.backends import Device

REMEDIES = (
    SuggestedSites,
    Verification,
    EvidenceMap,
    Polish,
    Refinement,
    SimulatedAudit,
    ConfidenceSet,
    OtherViews,
)
# Suggested sites keep apart: at most one per cell of time levels by space nodes, or, for a steady
# field, of rows by columns. Without a rule all of them would be in one place.
MOVING_CELL, STEADY_CELL = (20, 2), (4, 4)


def remedy(
    audit: Audit,
    *found: Any,
    run: Run | None = None,
    view: View | None = None,
    count: int | None = None,
    verify: int = 100,
    simulate: int = 0,
    retrain: bool = False,
    refined: bool = False,
    store: str | Path | None = None,
    engine: str | Engine | None = None,
    device: Device = "auto",
    seed: int = 0,
    progress: bool = True,
) -> Audit:
    """Put computed remedies into the "what to do" of an audit.

    Each of them joins the action of its kind that the audit has by itself, and those come in the
    order that the route asks for: for a co-design, first the axis that exceeds its tolerance by the
    larger factor. Remedies that the route did not ask for follow.

    Parameters
    ----------
    audit : Audit
    *found
        Results of `twoaxis.suggest_sites` and its ``verify()``, `twoaxis.evidence_map`,
        `twoaxis.polish`, `twoaxis.refine`, `twoaxis.simulated_audit` or
        `twoaxis.confidence_set`.
    run : Run, optional
        The audited run of a built-in problem: what the route asks for is computed. The other
        arguments are used with a run only.
    view : View, optional
        The audited view, where it is not the training view.
    count : int, optional
        Number of observations to place; by default the present number.
    verify : int
        Replicas for the verification of suggested sites; 0 leaves it out.
    simulate : int
        Replicas of the simulated audit, each a training on data simulated at the delivered value;
        0 leaves it out. Where the route asks for residual evidence, views are ranked on these
        fields as well.
    retrain : bool
        Train the simulated and the real data again, under the best of the other views.
    refined : bool
        Refine the field, and say which route it has then.
    store, engine, device
        Of these trainings, as for `twoaxis.Pipeline`.
    seed : int
        Seed of all simulated noise.
    progress : bool
        Show progress bars.

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
            "an audit", type(audit).__name__, "pass the result of twoaxis.audit or twoaxis.load"
        )
    for each in found:
        if not isinstance(each, REMEDIES):
            raise InputError(
                "results of suggest_sites, its verify(), evidence_map, polish, refine, "
                "simulated_audit or confidence_set",
                type(each).__name__,
                "pass the results themselves, as in twoaxis.remedy(audit, twoaxis.polish(frozen))",
            )
    computed: list[Any] = list(found)
    if run is not None:
        computed += _of_run(
            run,
            audit,
            view,
            count=count,
            verify=verify,
            simulate=simulate,
            retrain=retrain,
            refined=refined,
            seed=seed,
            progress=progress,
            training={"store": store, "engine": engine, "device": device},
        )
    return audit.with_actions(_joined_actions(audit, computed))


def _joined_actions(audit: Audit, found: Iterable[Any]) -> list[Action]:
    """Return the actions of an audit, each with what the remedies of its kind found."""
    computed = [action for each in found for action in each.actions()]
    actions = []
    for step in first_steps(audit):
        own = [each for each in computed if each.kind == step.kind]
        computed = [each for each in computed if each.kind != step.kind]
        actions.append(_joined(step, own) if own else step)
    while computed:
        kind = computed[0].kind
        own = [each for each in computed if each.kind == kind]
        computed = [each for each in computed if each.kind != kind]
        actions.append(_joined(own[0], own[1:]))
    return actions


def _joined(first: Action, others: list[Action]) -> Action:
    """Return one action with the texts and numbers of several of its kind."""
    every = [first, *others]
    calls = [each.call for each in others if each.call] or [first.call]
    return Action(
        first.kind,
        first.title,
        "\n".join(each.text for each in every),
        calls[0],
        tuple(dict.fromkeys(number for each in every for number in each.numbers)),
    )


# ------------------------------------------------------------------ remedies of a run


def _of_run(
    run: Run,
    audit: Audit,
    view: View | None,
    *,
    count: int | None,
    verify: int,
    simulate: int,
    retrain: bool,
    refined: bool,
    seed: int,
    progress: bool,
    training: dict[str, Any],
) -> list[Any]:
    """Compute the remedies that the route of an audited run asks for."""
    # Not at the top: remedies of other models need no JAX.
    with needs_extra("train", "twoaxis.remedy(run=...)"):
        from twoaxis.adapters import objective
        from twoaxis.runs import Run
        from twoaxis.runs.pipeline import Pipeline

    if not isinstance(run, Run):
        raise InputError("a run that twoaxis.train returned", type(run).__name__, "pass runs[0]")
    _check_same(run, audit, view)
    if retrain and not simulate:
        raise InputError(
            "simulated datasets on which the views can be ranked",
            "retrain=True and simulate=0",
            "pass simulate=20 as well",
        )
    kinds = {action.kind for action in audit.actions}
    known = Parameters(run.frozen.parameters).replace(truth=None)
    frozen = run.frozen
    if not audit.around_truth:
        frozen = replace(frozen, parameters=known)
    found: list[Any] = []
    if "observations" in kinds:
        found += _sites(run, audit, count, verify, seed, progress)
    if "evidence" in kinds:
        found.append(evidence_map(frozen, view=view, progress=progress))
    if "delivery" in kinds:
        found.append(polish(frozen, objective(run), progress=progress))
    if refined:
        found.append(_refined(run, audit, seed, progress, training))
    if not simulate:
        return found
    like = partial(Pipeline.like, run, **training, progress=progress)

    def simulated_by(pipeline: Pipeline) -> SimulatedAudit:
        return simulated_audit(
            pipeline,
            pipeline.forward,
            known,
            pipeline.noise,
            replicas=simulate,
            seed=seed,
            tolerance=audit.tolerance,
            view=view if pipeline.settings is run.settings else None,
            vectorized=True,
            progress=progress,
        )

    simulated = simulated_by(like())
    found.append(simulated)
    if retrain or "evidence" in kinds:
        ranked = rank_other_views(run, simulated)
        if retrain and ranked.chosen:
            ranked = train_under(ranked, run, like(method=ranked.chosen), simulated_by)
        found.append(ranked)
    return found


def _refined(
    run: Run, audit: Audit, seed: int, progress: bool, training: dict[str, Any]
) -> Refinement:
    """Refine the field of a run, and note the route before and after."""
    found = refine(run, seed=seed, progress=progress, **training)
    after = run_audit(found, tolerance=audit.tolerance, progress=False)
    return found.routed(audit.route.value, after.route.value)


def _sites(
    run: Run, audit: Audit, count: int | None, verify: int, seed: int, progress: bool
) -> list[Any]:
    moving = isinstance(run.problem, EvolutionProblem)
    found = suggest_sites(
        run.problem,
        count=len(run.dataset.values) if count is None else count,
        at=_design_values(audit),
        cells=MOVING_CELL if moving else STEADY_CELL,
        progress=progress,
    )
    if not verify:
        return [found]
    at = audit.center.values
    return [found, found.verify(replicas=verify, seed=seed, at=at, progress=progress)]


def _design_values(audit: Audit) -> dict[str, Any]:
    """Return the parameter values for which a layout is designed.

    Around a truth that is the truth. Without one it is the interval that the data leave open, or,
    where that is not known, a factor of two around the delivered value: sites that are designed
    for a wrong value can be worse than random ones.
    """
    center = audit.center.values
    if audit.around_truth or len(audit.parameters) > 1:
        return dict(center)
    ((name, parameter),) = audit.parameters.items()
    matched, (least, most) = audit.group("/matched"), parameter.bounds
    if matched is not None:
        # An open end is the bound but for rounding.
        low = max(least, float(matched["lower"][0]))
        high = min(most, float(matched["upper"][0]))
        if low < high:
            return {name: (low, high)}
    middle = float(parameter.to_coordinate(center[name]))
    reach = np.log(2) * parameter.percent_unit(center[name])
    ends = parameter.to_value(middle + reach * np.array([-1, 1]))
    return {name: (max(least, float(ends[0])), min(most, float(ends[1])))}


def _check_same(run: Run, audit: Audit, view: View | None) -> None:
    """Refuse an audit of another run, whose numbers would be attributed to this one."""
    if audit.run != run.key:
        raise InputError(
            f"an audit of the run {run.key}, made by twoaxis.audit(run)",
            f"one of the run {audit.run}" if audit.run else "one that was not made from a run",
            "pass the run that was audited",
        )
    if view is None and audit.cross_view:
        raise InputError(
            "the view of the audit",
            f"none, for an audit under {audit.score.view}",
            "pass view=..., as for twoaxis.audit",
        )

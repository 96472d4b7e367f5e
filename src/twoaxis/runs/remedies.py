"""Remedies of a run of a built-in problem, whose simulator, loss and training are all known."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from twoaxis.diagnosis import Audit
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.problems import EvolutionProblem
from twoaxis.remedies.evidence import evidence_map
from twoaxis.remedies.plan import remedy
from twoaxis.remedies.polish.polish import polish
from twoaxis.remedies.simulated.result import SimulatedAudit
from twoaxis.remedies.simulated.simulated_audit import simulated_audit
from twoaxis.remedies.sites.suggest import suggest_sites_for_problem
from twoaxis.runs.engines import Engine
from twoaxis.runs.objective import run_objective
from twoaxis.runs.other_view import rank_other_views, train_under
from twoaxis.runs.pipeline import Pipeline
from twoaxis.runs.run import Run, without_truth
from twoaxis.training.backends import Device
from twoaxis.views import View

# Suggested sites keep apart: at most one in a cell of so many time levels by space nodes, or, for
# a steady field, of so many nodes by nodes. Without a rule all of them would sit in one place.
MOVING_CELL, STEADY_CELL = (20, 2), (4, 4)


def remedy_run(
    run: Run,
    audit: Audit,
    *,
    view: View | None = None,
    sites: int | None = None,
    verify: int = 100,
    simulate: int = 0,
    retrain: bool = False,
    store: str | Path | None = None,
    engine: str | Engine | None = None,
    device: Device = "auto",
    seed: int = 0,
    progress: bool = True,
) -> Audit:
    """Compute the remedies that the route of an audited run asks for.

    Parameters
    ----------
    run : Run
    audit : Audit
        Of this run, from `twoaxis.audit_run`.
    view : View, optional
        The audited view, where it is not that of the training.
    sites : int, optional
        How many observations may be placed anew; as many as there are without it.
    verify : int
        Noisy replicas to verify the suggested sites with; 0 leaves that out.
    simulate : int
        Retrainings on data simulated at the delivered value; 0 leaves the simulated audit out,
        which is the expensive part. Where the route asks for residual evidence, views are ranked
        on these fields as well.
    retrain : bool
        Train the simulated and the real data once more, under the best of the other views.
    store, engine, device
        Of these retrainings, as for `Pipeline`.
    seed : int
        Of all simulated noise.
    progress : bool

    Returns
    -------
    Audit
        With the computed actions; see `twoaxis.remedy`.
    """
    if not isinstance(run, Run):
        raise InputError("a run that twoaxis.train returned", type(run).__name__, "pass runs[0]")
    _check_same(run, audit, view)
    if retrain and not simulate:
        raise InputError(
            "simulated datasets on which the views can be ranked",
            "retrain=True and simulate=0",
            "pass simulate=20 as well",
        )
    wanted = {action.kind for action in audit.actions}
    known = audit.centered_on == "truth"
    frozen = run.frozen if known else without_truth(run.frozen)
    found: list[Any] = []
    if "observations" in wanted:
        found += _sites(run, audit, sites, verify, seed, progress)
    if "evidence" in wanted:
        found.append(evidence_map(frozen, view=view, progress=progress))
    if "delivery" in wanted:
        found.append(polish(frozen, run_objective(run), progress=progress))
    if simulate:
        like = partial(
            Pipeline.like, run, store=store, engine=engine, device=device, progress=progress
        )

        def simulated_by(pipeline: Pipeline) -> SimulatedAudit:
            return simulated_audit(
                pipeline,
                pipeline.forward,
                _delivered(run.frozen),
                pipeline.noise,
                replicas=simulate,
                seed=seed,
                tolerance=audit.tolerance,
                view=view if pipeline.settings is run.settings else None,
                vectorized_forward=True,
                progress=progress,
            )

        simulated = simulated_by(like())
        found.append(simulated)
        if retrain or "evidence" in wanted:
            ranked = rank_other_views(run, simulated)
            if retrain and ranked.chosen:
                ranked = train_under(ranked, run, like(method=ranked.chosen), simulated_by)
            found.append(ranked)
    return remedy(audit, *found)


def _sites(
    run: Run, audit: Audit, count: int | None, verify: int, seed: int, progress: bool
) -> list[Any]:
    moving = isinstance(run.problem, EvolutionProblem)
    found = suggest_sites_for_problem(
        run.problem,
        len(run.dataset.values) if count is None else count,
        at=_where(audit),
        cells=MOVING_CELL if moving else STEADY_CELL,
        progress=progress,
    )
    if not verify:
        return [found]
    at = audit.center.values
    return [found, found.verify(replicas=verify, seed=seed, at=at, progress=progress)]


def _where(audit: Audit) -> dict[str, Any]:
    """Return the parameter values that a layout should be good for.

    Around a truth that is the truth. Without one it is the set that the data leave open, or, where
    that is not known, a factor of two around the delivered value: sites that are made for a wrong
    value alone can be worse than random ones.
    """
    center = audit.center.values
    if audit.centered_on == "truth" or len(audit.parameters) > 1:
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
    ends = parameter.to_value(middle + np.log(2) * parameter.unit(center[name]) * np.array([-1, 1]))
    return {name: (max(least, float(ends[0])), min(most, float(ends[1])))}


def _delivered(frozen: FrozenResidual) -> dict[str, Any]:
    return {name: replace(p, truth=None) for name, p in frozen.parameters.items()}


def _check_same(run: Run, audit: Audit, view: View | None) -> None:
    """Refuse an audit of another run: its numbers would be taken for this one's."""
    theirs = {name: p.delivered for name, p in audit.parameters.items()}
    if theirs != run.delivered:
        raise InputError(
            f"an audit of this run, which delivered {_words(run.delivered)}",
            f"one of {_words(theirs)}",
            "pass the run that was audited",
        )
    if view is None and audit.tree.attrs["view_relation"] == "another view":
        raise InputError(
            "the view of the audit",
            f"none, for an audit under {audit.tree.attrs['view']}",
            "pass view=..., the one that audit_run was called with",
        )


def _words(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())

r"""What to do about a verdict, with the numbers that this audit holds.

Each route comes with an action. What the audit alone can say is said here; a remedy that is
computed for it (`twoaxis.remedy`) takes its place. To first order,

- matched errors fall with the noise and with the root of the number of observations, so that an
  error :math:`E` comes down to a tolerance :math:`T` with :math:`(E/T)^2` times as many
  observations of the same kind, or with noise :math:`T/E` times as large;
- the displacement :math:`D = -\rho\,\lVert r\rVert_M/\sqrt H` falls with the residual norm, so
  that it is tolerated once the norm is smaller by :math:`|D / \log(1 \pm T)|`, with the sign of
  :math:`D`, if alignment and strength stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from twoaxis.diagnosis.decision_map import Route
from twoaxis.diagnosis.functions import deciding_node
from twoaxis.diagnosis.overview import statistic_word
from twoaxis.diagnosis.questions import leads_away, noise_free, noise_left, reason_of
from twoaxis.geometry.regions import cell_regions, equation_regions
from twoaxis.geometry.score import least_step
from twoaxis.io import Layout, Variable
from twoaxis.resolution import needed_observations
from twoaxis.statistics import squares_limit
from twoaxis.text import listed, number, p_equals, percent, sentence, visible

if TYPE_CHECKING:
    from twoaxis.diagnosis.result import Audit

# Routes of values that nothing speaks against.
AGREEING = (Route.SELF_CONSISTENT, Route.CONSISTENT_WITH_DATA)
# A standard error this many times the measured deviation says that bounds limit the latter.
LIMITED = 3.0
# Names that a title lists.
MOST_NAMES = 4
# Routes that say what the data allow, which depends on the noise.
BY_NOISE = (
    Route.IMPROVE_OBSERVATIONS,
    Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE,
    Route.CONSISTENT_WITH_DATA,
)
# Kinds of actions that come before whatever the route advises.
BEFORE_ROUTE = ("equation", "identifiability", "noise", "loss")
# The likelihood has several minima when they are found in more than this share of the replicas.
OFTEN = 0.1
# More observations than this are not counted.
COUNTABLE = 10**9
# What to try, unless it is known to lead away.
LONGER = "Or train longer."
# Boxes along each axis: few enough to be named, enough to be somewhere.
BOXES = 4


@dataclass(frozen=True)
class Region:
    """A box of the domain, its extent in words, and its share of a displacement."""

    words: str
    share: float


def strongest_pull(audit: Audit, name: str) -> Region | None:
    """Return the box that moves a parameter most, in the direction of its displacement.

    The displacement of all parameters of interest together is ``-S^+ b``, and b is a sum over the
    points, so that each box moves every parameter by a part of it. Shares are of the sum of the
    sizes of these parts. None where nothing moves, or where points were left out.
    """
    group = audit.field
    if group.attrs["points_kept"] < group.attrs["points_total"]:
        return None
    axes, points = list(map(visible, group["axis"].values)), group["points"].values
    equations = list(map(visible, group["equation"].values))
    boxes = (
        cell_regions(BOXES, points, axes)
        if len(equations) == 1
        else equation_regions(BOXES, points, axes, (equations, group["equation_of"].values))
    )
    kept = ~audit.parameters.nuisance
    strength, own = (audit.score.data[n].values[np.ix_(kept, kept)] for n in ("strength", "H"))
    sizes = np.sqrt(np.maximum(np.diag(own), 0.0))
    pulls = boxes.sums(group["contribution"].sel(parameter=audit.names).values)
    parts, _ = least_step(strength, pulls, sizes)
    moved = parts[:, audit.names.index(name)]
    total = float(np.abs(moved).sum())
    if not total:
        return None
    best = int(np.argmax(moved * np.sign(moved.sum())))
    return Region(boxes.names[best], float(abs(moved[best]) / total))


class Number(NamedTuple):
    """One number of an action.

    Attributes
    ----------
    label : str
    value : float
    unit : str
        "%", "p-value", the name of a unit, or nothing.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 5, 40)
    >>> known = {"k": ta.Parameter(truth=0.8, delivered=0.93, bounds=(0.1, 4.0))}
    >>> u, u_t = np.exp(-0.9 * t), -0.9 * np.exp(-0.9 * t)  # a learned field
    >>> audit = ta.audit(
    ...     ta.FrozenResidual(lambda k: u_t + k * u, known, t, view=ta.views.Pointwise()),
    ...     resolution=ta.resolve(lambda k: np.exp(-k * t), known, noise=0.02, progress=False),
    ...     tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
    ... )
    >>> for number in audit.actions[0].numbers[:3]:
    ...     print(f"{number.label}: {number.value:.3g} {number.unit}".rstrip())
    local displacement D: 0.125
    field displacement: 12.5 %
    tolerance: 5 %
    """

    label: str
    value: float
    unit: str = ""


@dataclass(frozen=True)
class Action:
    """Something to do next.

    Attributes
    ----------
    kind : str
        "observations", "identifiability", "evidence", "delivery", "bias", "declare", "equation",
        "noise", "model", "fit", "training", "loss" or "contradiction".
    title : str
        A few words.
    text : str
        What it would bring, in sentences; each line is a paragraph.
    call : str
        The Python call that computes it for this case, or what was called.
    numbers : tuple of Number

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 5, 40)
    >>> known = {"k": ta.Parameter(truth=0.8, delivered=0.93, bounds=(0.1, 4.0))}
    >>> u, u_t = np.exp(-0.9 * t), -0.9 * np.exp(-0.9 * t)  # a learned field
    >>> frozen = ta.FrozenResidual(lambda k: u_t + k * u, known, t, view=ta.views.Pointwise())
    >>> action = ta.audit(frozen).actions[0]
    >>> action.kind, action.title
    ('declare', 'Measure what is missing for k')
    """

    kind: str
    title: str
    text: str
    call: str = ""
    numbers: tuple[Number, ...] = ()

    @property
    def paragraphs(self) -> list[str]:
        """The text, a paragraph for each remedy that has a say."""
        return [line for line in self.text.split("\n") if line.strip()]


def first_steps(audit: Audit) -> list[Action]:
    """Return what an audit by itself can say about what to do, the most urgent first."""
    found = [*_connect(audit), *_declare_noise(audit)]
    for name, verdict in audit.subjects.items():
        if verdict.route in AGREEING:
            found.append(_simulate(audit, verdict.route))
        elif name in audit.functions:
            found += _of_function(audit, name)
        else:
            found += _of_parameter(audit, name)
    # Parameters that need the same thing in the same words get it once.
    return list(dict.fromkeys(found))


def next_step(audit: Audit) -> str:
    """Return what to do next in a sentence: the advice of the route, or what comes before it.

    The advice of a route does not help against an unknown that is not in the loss, nor against
    a direction that the data do not depend on, nor where training leads away from the data.
    """
    for first in audit.actions[:1]:
        if first.kind in BEFORE_ROUTE:
            return sentence(first.title)
    return audit.route.advice


def _connect(audit: Audit) -> Iterator[Action]:
    """Ask where an unknown enters that the residual does not contain; before all else."""
    own = audit.score.data["H"].values.diagonal()
    strength = dict(zip(audit.parameters.names, own, strict=True))
    lost = [name for name in audit.scalars if not strength[name]]
    if lost:
        names = listed(lost if len(lost) <= MOST_NAMES else [*lost[:MOST_NAMES], "others"])
        text = (
            f"The residual is the same for every value of {names}: unless something else in the "
            "training loss depends on it, training cannot find it, however long it runs. Check "
            "that the unknown itself enters the equation or a condition, and not a number that was "
            "read from it once."
        )
        yield Action("equation", f"Find out where {names} enters the loss", text)


def _declare_noise(audit: Audit) -> Iterator[Action]:
    """Ask for the right noise where it is declared too large, and the route rests on it."""
    left = noise_left(audit)
    if left < 1 and audit.route in BY_NOISE:
        share = number(left, ".2g")
        text = (
            f"The residuals of the matched fit are {share} times as large as the declared noise. "
            "Intervals, resolutions and numbers of observations are those of the declared noise, "
            "and far too large. Declare that much less, or leave the noise out and let it be "
            "estimated from the data."
        )
        title = f"Declare {share} times the noise, and run the audit again"
        yield Action("noise", title, text, "", (Number("noise that the matched fit leaves", left),))


def _of_function(audit: Audit, name: str) -> Iterator[Action]:
    """Return the actions of an unknown function: those of the node that needs each of them most."""
    group, deciding = audit.functions[name], audit.subjects[name].route
    routes = dict.fromkeys(audit.routes[member] for member in group.members)
    # Needs of different nodes may add up to a route that none of them has.
    for route in [deciding] if deciding in routes else routes:
        node = deciding_node(audit, group, route)
        count = sum(audit.routes[member] is route for member in group.members)
        where = f"Of {count} nodes of {name} with this route, {node} needs it most. "
        for action in _of_parameter(audit, node):
            title = action.title.replace(node, name)
            yield replace(action, title=title, text=(where if count > 1 else "") + action.text)


def _of_parameter(audit: Audit, name: str) -> Iterator[Action]:
    route = audit.routes[name]
    if route is Route.INSPECT_ENDPOINT_DELIVERY:
        yield _deliver(audit, name)
    elif route is Route.STRENGTHEN_RESIDUAL_EVIDENCE:
        yield _strengthen(audit, name)
    elif route is Route.IMPROVE_OBSERVATIONS:
        yield _observe(audit, name)
    elif route is Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE:
        # The axis that is further beyond its tolerance comes first.
        resolution = _beyond(audit, name, "resolution")
        first = [_observe, _strengthen]
        if _beyond(audit, name, "preference") > resolution:
            first.reverse()
        yield from (make(audit, name) for make in first)
    elif route is Route.UNDETERMINED:
        direction = audit.undetermined_direction(name)
        yield _determine(direction) if direction else _declare(audit, name)
    elif route is Route.WITHIN_TOLERANCE and _beyond(audit, name, "resolution") > 1:
        found = _observe(audit, name)
        # Within tolerance by luck: with another draw of the noise it may not be.
        luck = f"The delivered {name} is within tolerance, but these data do not determine it. "
        title = f"Before the next dataset: improve the observations of {name}"
        yield replace(found, title=title, text=luck + found.text)
    elif route is Route.MODEL_DOES_NOT_FIT:
        yield _mend_model(audit)
    elif route is Route.FIELD_DOES_NOT_FIT:
        yield _fit_data(audit)
    elif route is Route.FIELD_FITS_NOISE:
        yield _leave_noise(audit)
    elif route is Route.TRAINING_NOT_FINISHED:
        yield _train_on(audit)
    elif route is Route.CONTRADICTED_BY_DATA:
        numbers = [other for other in audit.scalars if audit.routes[other] is route]
        yield _contradicted(audit, numbers if name in numbers else [name])  # or one node


def _beyond(audit: Audit, name: str, axis: str) -> float:
    """Return a measured size in units of its tolerance."""
    return audit.percent(axis, name) / _limit(audit, axis)


def _limit(audit: Audit, axis: str) -> float:
    """Return a declared tolerance in percent; NaN where there is none."""
    return math.nan if audit.tolerance is None else float(getattr(audit.tolerance, axis))


def _observe(audit: Audit, name: str) -> Action:
    direction = audit.undetermined_direction(name)
    if direction:
        return _determine(direction)
    elsewhere = _several_minima(audit)
    if elsewhere:
        return _tell_apart(name if len(audit.names) == 1 else "the parameters", elsewhere)
    measured = audit.percent("resolution", name)
    tolerated = _limit(audit, "resolution")
    count = float(audit.used_layouts["observations"].values.mean())
    error = audit.standard_error_percent[name]
    limited = LIMITED * measured < error < math.inf
    need = needed_observations(error if limited else measured, tolerated, round(count))
    numbers = [
        Number(f"{audit.matched_noun} ({statistic_word(audit)})", measured, "%"),
        *([Number("standard error without bounds", error, "%")] if limited else []),
        Number("tolerance", tolerated, "%"),
        Number("observations", need.count),
        Number("observations needed, of the same kind", need.observations),
        Number("noise factor that is enough instead", need.noise_factor),
    ]
    much = (
        f"{number(need.factor, '.3g')} times as many observations of the same kind "
        f"({need.observations:,} instead of {need.count:,}), or "
        f"{number(need.noise_factor, '.2g')} times the noise"
    )
    if need.observations > COUNTABLE:
        much = "more than a billion observations of the same kind: these say next to nothing"
    but = f", but only because of its bounds: the standard error is {percent(error)}"
    text = (
        f"These observations resolve {name} to {percent(measured)}{but if limited else ''}; the "
        f"tolerance is {percent(tolerated)}. To first order this takes {much}. Sites that are "
        "chosen for their sensitivity may need far fewer."
    )
    call = "twoaxis.suggest_sites(forward, parameters, noise, 200, points=...)"
    title = f"Improve the observations of {name}"
    return Action("observations", title, text, call, tuple(numbers))


def _several_minima(audit: Audit) -> float:
    """Return the share of the replicas that another value explains as well; 0 for few."""
    assert audit.resolution is not None
    counts = [
        message.numbers["count"]
        for message in audit.resolution.messages
        if message.code == "resolution.several_minima"
    ]
    share = sum(counts) / audit.resolution.data["estimate"].sel(parameter=audit.names[0]).size
    return share if share >= OFTEN else 0.0


def _tell_apart(name: str, share: float) -> Action:
    """Return what to do where the data are explained by separate values."""
    text = (
        f"Of the noisy replicas, {percent(100 * share)} are explained as well or better by a "
        "value of the parameters far from the one that they were simulated at: the likelihood has "
        "several minima, and how many observations would decide between them cannot be "
        "extrapolated. Bound the parameters to the values that are possible, or observe another "
        "quantity, place or time at which these values differ."
    )
    title = f"Tell separate values of {name} apart: by bounds, or by observing something else"
    return Action("identifiability", title, text)


def _determine(direction: str) -> Action:
    """Return what to do about a direction that the observations do not depend on."""
    text = (
        f"The observations do not depend on the direction {direction}, in coordinates of the "
        "parameters (logarithms, unless declared linear). However many are made of this kind, they "
        "determine no parameter in it by itself. Hold one of these parameters at a value that is "
        "known otherwise, observe another quantity, or report the combination that is determined."
    )
    title = "Observe something else, or hold a parameter that the data do not determine"
    return Action("identifiability", title, text)


def _strengthen(audit: Audit, name: str) -> Action:
    moved = audit.score.displacement[name]
    tolerated = _limit(audit, "preference")
    factor = abs(moved) / _coordinate_limit(audit, name, tolerated, moved)
    shape, aligned = "residual of the same shape", []
    if len(audit.names) == 1:  # of several parameters, alignments do not give the displacement
        alignment = float(audit.score.data["alignment"].sel(parameter=name))
        shape = f"residual with the same alignment, {number(alignment, '+.2f')},"
        aligned = [Number("alignment of residual and sensitivity", alignment)]
    numbers = [
        Number("local displacement D", moved),
        Number("field displacement", audit.percent("preference", name), "%"),
        Number("tolerance", tolerated, "%"),
        *aligned,
        Number("factor by which the residual norm must fall", factor),
    ]
    way = "up" if moved > 0 else "down"
    text = (
        f"The frozen residual pulls {name} {way} by {percent(audit.percent('preference', name))}. "
        f"A {shape} would have to be {number(factor, '.3g')} times smaller to reach the tolerance. "
        "Residuals that are not aligned with the sensitivity do not matter for the parameter."
    )
    region = strongest_pull(audit, name)
    if region is not None:
        text += f" {_where(region)}"
        numbers.append(
            Number("share of the displacement from the leading region", 100 * region.share, "%")
        )
    call = "twoaxis.evidence_map(frozen)"
    title = f"Strengthen the residual evidence about {name}"
    return Action("evidence", title, text, call, tuple(numbers))


def _coordinate_limit(audit: Audit, name: str, tolerated: float, moved: float) -> float:
    """Return the size of the displacement, on its side, that a percentage stands for."""
    parameter = audit.parameters[name]
    if parameter.coordinate == "log":
        # Downwards no displacement is larger than 100%: all of them are tolerated then.
        share = max(math.copysign(tolerated, moved) / 100, -1 + 1e-9)
        return abs(math.log1p(share))
    return tolerated / 100 * parameter.percent_unit(audit.center.values[name])


def _where(region: Region) -> str:
    return (
        f"The region {region.words} contributes most to the displacement, {region.share:.0%} of "
        "all contributions."
    )


def _deliver(audit: Audit, name: str) -> Action:
    delivered = audit.parameters[name].delivered
    if audit.delivery is None or delivered is None:
        text = (
            f"The frozen profile has no minimum of {name} inside the parameter bounds; widen the "
            "bounds, or look at the frozen scan."
        )
        return Action("delivery", f"Check the delivery of {name}", text)
    gap = audit.percent("gap", name)
    preferred = float(audit.delivery.data["preferred"].sel(parameter=name))
    numbers = (
        Number("delivered value", delivered),
        Number("frozen scan minimum", preferred),
        Number("delivery gap", gap, "%"),
    )
    text = (
        f"Training returned {name} = {number(delivered, '.5g')}, and its own field prefers "
        f"{number(preferred, '.5g')}: a delivery gap of {percent(gap, '+')}. "
    )
    if _contradicts(audit, "preferred"):
        # What the field prefers is not better only because the field prefers it.
        p = _p_of(audit, "preferred")
        how = "" if math.isnan(p) else f" (p {p_equals(p)})"
        text += (
            f"Do not move there: the data contradict that value{how}. Train network and parameter "
            "together with a second-order method until they converge; the field itself must change."
        )
    else:
        text += (
            "Start from that value, and train network and parameter together with a second-order "
            "method until they converge; a gap that remains is not due to the optimizer."
        )
    call = "twoaxis.polish(frozen, objective=...)"
    return Action("delivery", f"Finish the delivery of {name}", text, call, numbers)


def _contradicts(audit: Audit, label: str) -> bool:
    """Whether the data contradict a simulated value; False where it was not simulated.

    Noise-free data do so where the deviance is beyond its limit for the assumed noise.
    """
    if not noise_free(audit):
        return _p_of(audit, label) < 1 - audit.level
    group = audit.need("/resimulation")
    limit = squares_limit(audit.level, int(group.attrs["held"]))
    known = label in group["value_of"].values
    return known and float(group["deviance"].sel(value_of=label)) > limit


def _p_of(audit: Audit, label: str) -> float:
    """Return the p-value of a simulated value; NaN where it was not simulated."""
    group = audit.group("/resimulation")
    if group is None or label not in group["value_of"].values:
        return math.nan
    return float(group["p_value"].sel(value_of=label))


def _mend_model(audit: Audit) -> Action:
    group = audit.need("/checks")
    numbers = tuple(
        Number(f"p-value: {visible(name)}", float(p), "p-value")
        for name, p in zip(group["check"].values, group["p_value"].values, strict=True)
    )
    text = (
        f"{sentence(reason_of(audit, 'model'))} Compare the residuals of the matched fit with "
        "time, place and sensor; look for a missing term, a wrong condition, a solver that is too "
        "coarse, correlated noise, or single bad readings. Every number of this audit that uses "
        "the forward model is in doubt until then."
    )
    return Action("model", "Correct the forward model, or the noise", text, "", numbers)


def _fit_data(audit: Audit) -> Action:
    group = audit.need("/field_fit")
    worst = group.isel(group=int(group["group_rms"].values.argmax()))
    numbers = (
        Number("misfit of the field, in noise levels", float(group["rms"])),
        Number(f"misfit in the region {visible(worst['group'].values)}", float(worst["group_rms"])),
    )
    text = (
        f"{sentence(reason_of(audit, 'field'))} A parameter from a field that misses the data says "
        "nothing about them. Raise the weight of the data loss, or the capacity of the network, or "
        f"scale inputs and outputs to about one. {sentence(leads_away(audit)) or LONGER}"
    )
    return Action("fit", "Let the network fit the data", text, "", numbers)


def _leave_noise(audit: Audit) -> Action:
    rms = float(audit.need("/field_fit")["rms"])
    numbers = (Number("misfit of the field, in noise levels", rms),)
    text = (
        f"{sentence(reason_of(audit, 'noise'))} The residual then sees the noise, not the "
        "equation. Raise the weight of the residual loss, use more residual points, a smaller "
        "network, or stop training earlier."
    )
    return Action("fit", "Keep the network from fitting the noise", text, "", numbers)


def _train_on(audit: Audit) -> Action:
    call, away = "twoaxis.polish(frozen, objective=...)", leads_away(audit)
    reason = sentence(reason_of(audit, "training"))
    if away:
        text = (
            f"{reason} But {away}. Report the matched fit, and change what the loss asks for "
            "before training on: its weights, its residual points, its conditions."
        )
        return Action("loss", "Change the loss before training on", text)
    text = (
        f"{reason} Nothing else is worth changing before: train on, with a learning rate that lets "
        "the parameter arrive, or finish with a second-order method."
    )
    return Action("training", "Finish the training", text, call)


def _contradicted(audit: Audit, names: Sequence[str]) -> Action:
    """Return what to do about values that the data contradict: they were simulated together."""
    matched = audit.need("/matched")
    several = len(names) > 1
    numbers, said, better, allowed = [], [], [], []
    for name in names:
        one = matched.sel(parameter=name)
        estimate, low, high = (float(one[n]) for n in ("estimate", "lower", "upper"))
        level = f"{100 * float(one['level']):g}%"
        delivered = audit.parameters[name].delivered
        assert delivered is not None  # it was simulated
        of = f" of {name}" if several else ""
        numbers += [
            Number(f"delivered value{of}", delivered),
            Number(f"matched estimate{of}", estimate),
            Number(f"{level} profile interval{of}, lower end", low),
            Number(f"{level} profile interval{of}, upper end", high),
        ]
        said.append(f"{name} = {number(delivered)}")
        better.append(number(estimate))
        allowed.append(f"{number(low)} to {number(high)}")
    value, its, it = ("values", "their", "them") if several else ("value", "its", "it")
    if not noise_free(audit):
        numbers.append(
            Number(f"p-value of the delivered {value}", _p_of(audit, "delivered"), "p-value")
        )
    text = (
        f"Put back into the forward model, {listed(said)} {'explain' if several else 'explains'} "
        f"the data worse than {listed(better)} {'do' if several else 'does'}; the data allow "
        f"{listed(allowed)}. Report {'these' if several else 'that'}, not the delivered {value}. "
    )
    simulated = "preferred" in audit.need("/resimulation")["value_of"].values
    if any(math.isnan(audit.percent("gap", name)) for name in names) or not simulated:
        text += "What the field prefers is not determined, so that the cause stays open."
    elif _contradicts(audit, "preferred"):
        text += (
            f"The {value} that {its} own field prefers {'are' if several else 'is'} contradicted, "
            "too: the field is the cause. "
            "Give its residual more evidence (views, weights, points), or train it with the "
            f"matched {value} fixed and look where the residual stays large."
        )
    else:
        text += (
            f"The data do not contradict the {value} that {its} own field prefers: training did "
            f"not deliver {it}. Finish network and {'parameters' if several else 'parameter'} "
            "together with a second-order method."
        )
    call = "twoaxis.evidence_map(frozen)"
    title = f"Use the matched fit of {listed(list(names))}"
    return Action("contradiction", title, text, call, tuple(numbers))


def _simulate(audit: Audit, route: Route) -> Action:
    """Return what to do about all values that nothing speaks against, of one route."""
    names = [visible(name) for name, verdict in audit.subjects.items() if verdict.route is route]
    some = listed(names)
    if route is Route.SELF_CONSISTENT:
        why = (
            f"Training stopped at the value of {some} that its own field prefers, which says "
            "nothing about a bias of the field itself."
        )
    else:
        why = (
            f"Data and field agree on {some}. A bias that is smaller than what these data can tell "
            "would not show."
        )
    known = f"{some} {'is' if len(names) == 1 else 'are'} then known"
    text = (
        f"{why} Simulate data at the candidate, where {known}, train on them in the same way, and "
        "measure the deviation there."
    )
    call = "twoaxis.simulated_audit(pipeline, forward, parameters, noise)"
    return Action("bias", f"Estimate the bias of {some} by simulation", text, call)


def _declare(audit: Audit, name: str) -> Action:
    """Say what is missing; parameters that miss the same share one action."""
    reason = audit.verdicts[name].reason
    alike = [n for n in audit.scalars if audit.verdicts[n].reason == reason] or [name]
    names = listed(alike if len(alike) <= MOST_NAMES else [*alike[:MOST_NAMES], "others"])
    text = f"The route of {names} is undetermined: {reason}."
    return Action("declare", f"Measure what is missing for {names}", text)


# ------------------------------------------------------------------ as labelled data

_A, _N = ("action",), ("number",)
ACTION_LAYOUT: Layout = {
    "kind": Variable(_A, "text", "what the action is about"),
    "title": Variable(_A, "text", "the action in a few words"),
    "text": Variable(_A, "text", "what it brings, in sentences"),
    "call": Variable(_A, "text", "the call that computed it, or would"),
    "number_action": Variable(_N, "int", "row of the action that the number belongs to"),
    "number_label": Variable(_N, "text", "what the number is"),
    "number_value": Variable(_N, "float", "value of the number"),
    "number_unit": Variable(_N, "text", "unit of the number; empty where it has none"),
}


def action_variables(actions: Sequence[Action]) -> dict[str, Any]:
    """Return actions as the variables of `ACTION_LAYOUT`."""
    numbers = [(k, each) for k, action in enumerate(actions) for each in action.numbers]
    return {
        **{
            n: [getattr(action, n) for action in actions] for n in ("kind", "title", "text", "call")
        },
        "number_action": np.array([k for k, _ in numbers], dtype=np.int64),
        "number_label": [each.label for _, each in numbers],
        "number_value": np.array([each.value for _, each in numbers], dtype=float),
        "number_unit": [each.unit for _, each in numbers],
    }


def actions_from(group: xr.Dataset) -> list[Action]:
    """Return the actions that a group holds."""
    numbers: dict[int, list[Number]] = {}
    for k, owner in enumerate(group["number_action"].values.tolist()):
        label, value, unit = (group[f"number_{n}"].values[k] for n in ("label", "value", "unit"))
        numbers.setdefault(owner, []).append(Number(str(label), float(value), str(unit)))
    texts = {n: list(map(str, group[n].values)) for n in ("kind", "title", "text", "call")}
    return [
        Action(
            texts["kind"][k],
            texts["title"][k],
            texts["text"][k],
            texts["call"][k],
            tuple(numbers.get(k, ())),
        )
        for k in range(group.sizes["action"])
    ]

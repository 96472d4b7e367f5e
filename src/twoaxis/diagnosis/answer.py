"""The answer in a line: the parameter, its interval, and the verdict in words of a scientist.

Terminal, page, notebook and `Audit.summary` begin with it, so that it is written once, here:

- ``nu = 0.0144, 44% above the truth; the data allow ±16%; the learned field is the cause``
- ``beta = 0.482 is contradicted by the data; the matched fit gives 0.400 (95% 0.388 to 0.413)``
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from twoaxis.diagnosis.decision_map import QUESTION_ROUTES, Route
from twoaxis.diagnosis.functions import deciding_node, place_of
from twoaxis.diagnosis.questions import noise_left, reason_of
from twoaxis.text import listed, measured, number, percent, visible

if TYPE_CHECKING:
    from twoaxis.diagnosis.result import Audit

Severity = Literal["good", "attention", "bad", "neutral"]

# Beyond this many parameters of interest the answer counts them.
MOST_PARAMETERS = 4
# Beyond so many separate intervals of a parameter the answer counts them.
MOST_PARTS = 3

_SEVERITY: Mapping[Route, Severity] = {
    **dict.fromkeys(QUESTION_ROUTES, "bad"),
    Route.WITHIN_TOLERANCE: "good",
    Route.CONSISTENT_WITH_DATA: "good",
    Route.SELF_CONSISTENT: "neutral",  # nothing was compared with data
    Route.UNDETERMINED: "neutral",
}
# Routes about the whole audit: they hold for every parameter.
ABOUT_ALL = tuple(route for route in QUESTION_ROUTES if route is not Route.CONTRADICTED_BY_DATA)
_CAUSE = {
    Route.STRENGTHEN_RESIDUAL_EVIDENCE: "the learned field is the cause",
    Route.IMPROVE_OBSERVATIONS: "the observations are the cause",
    Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE: (
        "both the observations and the learned field are the cause"
    ),
    Route.INSPECT_ENDPOINT_DELIVERY: "neither the data nor the field explains it",
    Route.UNDETERMINED: "the cause is not determined",
}


def severity_of(audit: Audit) -> Severity:
    """Return how the route of an audit reads; no green over a value that nothing tested."""
    return _SEVERITY.get(audit.route, "attention")


def answer_of(audit: Audit) -> str:
    """Return the answer: a sentence for each of a few parameters, or what many have in common."""
    names = list(audit.subjects)
    if len(names) <= MOST_PARAMETERS:
        if len(names) > 1 and _stopped_alike(audit):
            return _about_all(audit, names)
        return "\n".join(answer_about(audit, name) for name in names)
    routes: dict[Route, list[str]] = {}
    for name, verdict in audit.subjects.items():
        routes.setdefault(verdict.route, []).append(name)
    counts = "; ".join(
        f"{route.value}: {len(some)} ({', '.join(map(visible, some[:3]))}"
        f"{', ...' if len(some) > 3 else ''})"
        for route, some in routes.items()
    )
    return f"{len(names)} parameters. {counts}"


def _stopped_alike(audit: Audit) -> bool:
    """Whether one question about the whole audit stops all parameters, none of them a function."""
    about_values = audit.around_truth or audit.functions or audit.parameters.delivered is None
    routes = {verdict.route for verdict in audit.subjects.values()}
    return not about_values and len(routes) == 1 and routes <= set(ABOUT_ALL)


def _about_all(audit: Audit, names: list[str]) -> str:
    """Return the answer about parameters that the same question stops, said once."""
    (route,) = {verdict.route for verdict in audit.subjects.values()}
    values = listed([_value(audit, name) for name in names])
    said = f"{values} {_stop(audit, route, several=True)}"
    better = [_matched(audit, name) for name in names]
    if route is Route.MODEL_DOES_NOT_FIT or not all(better):
        return said
    fits = [f"{visible(name)} = {fit}" for name, fit in zip(names, better, strict=True)]
    return f"{said}\nThe matched fit gives {listed(fits)}"


def answer_about(audit: Audit, name: str) -> str:
    """Return the answer about one parameter, or about one unknown function."""
    if name in audit.functions:
        return _about_function(audit, name)
    parameter = audit.parameters[name]
    if parameter.delivered is None:
        return (
            f"{visible(name)}: no delivered value; {_alternative(audit, name) or 'no data given'}"
        )
    if audit.around_truth:
        return _around_truth(audit, name)
    return _around_candidate(audit, name)


def _about_function(audit: Audit, name: str) -> str:
    """Count the nodes of a function that share its route, and answer about the deciding one."""
    group, route = audit.functions[name], audit.subjects[name].route
    node = deciding_node(audit, group)
    count = sum(audit.routes[member] is route for member in group.members)
    # Needs of different nodes may add up to a route that none of them has.
    total = len(group.members)
    nodes = f"at {count} of {total} nodes" if 0 < count < total else f"at all {total} nodes"
    most = "least certain" if route is Route.CONSISTENT_WITH_DATA else "most"
    function = f"{visible(name)}({visible(group.argument)})"
    where = place_of(group, node)
    return f"{function}, {nodes}, {most} at {where}: {answer_about(audit, node)}"


def _around_truth(audit: Audit, name: str) -> str:
    route = audit.routes[name]
    delivered = audit.parameters[name].delivered
    assert delivered is not None
    off = audit.off(name, delivered)
    side = "above" if off > 0 else "below"
    of = audit.parameters[name].percent_of(audit.center.values[name])
    words = [f"{_value(audit, name)}, {percent(abs(off))}{of} {side} the truth"]
    spread = audit.percent("resolution", name)
    if audit.undetermined_direction(name):
        words.append("the data do not determine it")
    elif not math.isnan(spread):
        words.append(f"the data allow ±{percent(spread)}")
    if route is Route.WITHIN_TOLERANCE and audit.tolerance is not None:
        words.append(f"within the tolerance of {percent(audit.tolerance.material)}")
    else:
        words.append(_CAUSE.get(route, route.value))
    if any(q.route is Route.MODEL_DOES_NOT_FIT for q in audit.questions):
        words.append(f"but {Route.MODEL_DOES_NOT_FIT.value}")
    return "; ".join(words)


def _around_candidate(audit: Audit, name: str) -> str:
    route, value = audit.routes[name], _value(audit, name)
    better = _alternative(audit, name)
    instead = f"; {better}" if better else ""
    if route is Route.CONTRADICTED_BY_DATA:
        return f"{value} is contradicted by the data{instead}"
    if route in ABOUT_ALL:
        kept = "" if route is Route.MODEL_DOES_NOT_FIT else instead
        return f"{value} {_stop(audit, route)}{kept}"
    if route is Route.WITHIN_TOLERANCE:
        return _tolerated(audit, name)
    interval = _interval(audit, name)
    obstacle = audit.audited.obstacle(name)
    because = f" ({obstacle})" if obstacle else ""
    words = {
        Route.CONSISTENT_WITH_DATA: _consistent(audit, name),
        Route.SELF_CONSISTENT: f"the value that its own field prefers; {_asked(audit)}",
        Route.IMPROVE_OBSERVATIONS: _loose(audit, name),
        Route.INSPECT_ENDPOINT_DELIVERY: _elsewhere(audit, name),
        Route.UNDETERMINED: f"the verdict is not determined{because}",
    }[route]
    left = noise_left(audit)
    times = number(1 / left, ".2g")
    declared = f"; the noise is declared {times} times too large" if left < 1 else ""
    return f"{value}{interval}: {words}{declared}"


def _stop(audit: Audit, route: Route, several: bool = False) -> str:
    """Say why no value of an audit can be used, with the verb of one value or of several."""
    brief = next(q.brief for q in audit.questions if q.route is route)
    verb = "are" if several else "is"
    if route is Route.TRAINING_NOT_FINISHED:
        return f"{verb} not final: training has not finished ({brief})"
    return f"{verb} not to be trusted: {route.value} ({brief}){_also(audit)}"


def _loose(audit: Audit, name: str) -> str:
    """Say that the data hardly determine a value, or not at all."""
    direction = audit.undetermined_direction(name)
    if direction:
        return f"not determined, because the data do not depend on {direction}"
    outside = _outside(audit, name)
    first = f"{outside}; " if outside else ""
    return f"{first}consistent with its field, but the data hardly determine it"


def _consistent(audit: Audit, name: str) -> str:
    """Say that the data do not contradict a value, also where it lies outside of the interval.

    The level of the tests of an audit is higher than that of the interval.
    """
    outside = _outside(audit, name)
    if outside:
        return f"{outside}; consistent with its own field"
    return "consistent with the data and with its own field"


def _outside(audit: Audit, name: str) -> str:
    """Say that a value lies outside of its interval, where no test contradicts it."""
    ends, delivered = _ends(audit, name), audit.parameters[name].delivered
    assert delivered is not None
    parts = separate(audit, ends) if ends else []
    if not parts or any(low <= delivered <= high for low, high in parts):
        return ""
    level = f"{100 * audit.level:g}%"
    what = "that interval" if len(parts) == 1 else "those intervals"
    return f"outside {what}, but not contradicted at the {level} level of the tests"


def _asked(audit: Audit) -> str:
    """Say why the data say nothing about a value: they were not there, or cannot."""
    if audit.group("/matched") is None:
        return "not compared with data"
    return reason_of(audit, "contradiction")


def _also(audit: Audit) -> str:
    """Say that a field that misses the data was not trained to the end, where that is so."""
    missed = audit.route is Route.FIELD_DOES_NOT_FIT
    stopped = any(q.route is Route.TRAINING_NOT_FINISHED for q in audit.questions)
    return ", and training has not finished" if missed and stopped else ""


def _tolerated(audit: Audit, name: str) -> str:
    """Return the answer about a value that the data tell from the matched fit, but not by much."""
    assert audit.tolerance is not None  # it was compared with
    matched = audit.need("/matched").sel(parameter=name)
    off = float(matched["difference_percent"])
    of = audit.parameters[name].percent_of(float(matched["estimate"]))
    side = "above" if off > 0 else "below"
    return (
        f"{_value(audit, name)}, {percent(abs(off))}{of} {side} the matched fit, which is within "
        f"the tolerance of {percent(audit.tolerance.material)}; {_alternative(audit, name)}"
    )


def _elsewhere(audit: Audit, name: str) -> str:
    minimum = audit.training.scan.minimum
    prefers = "another value" if minimum is None else number(minimum[name])
    return f"its own field prefers {prefers}, which training did not deliver"


def _value(audit: Audit, name: str) -> str:
    """Return the delivered value with its unit, to the digits that the data can tell."""
    parameter = audit.parameters[name]
    assert parameter.delivered is not None
    ends = _ends(audit, name)
    shown = measured(parameter.delivered, *(ends or ()))
    return f"{visible(name)} = {shown}{_unit(audit, name)}"


def _ends(audit: Audit, name: str) -> tuple[float, float] | None:
    """Return the interval of the matched fit; None where there is none."""
    group = audit.group("/matched")
    if group is None:
        return None
    one = group.sel(parameter=name)
    low, high = float(one["lower"]), float(one["upper"])
    return None if math.isnan(low) or math.isnan(high) else (low, high)


def _interval(audit: Audit, name: str) -> str:
    """Return the interval that belongs to the delivered value, and where it comes from."""
    ends = _ends(audit, name)
    if ends is not None:
        level = 100 * float(audit.need("/matched")["level"])
        return f" ({level:g}% {_range(audit, ends)} by the matched fit)"
    error = audit.standard_error_percent[name]
    return (
        "" if not math.isfinite(error) else f" (95% ±{percent(1.96 * error)} by the observations)"
    )


def _alternative(audit: Audit, name: str) -> str:
    """Say what the matched fit gives, with its interval."""
    fit = _matched(audit, name)
    return f"the matched fit gives {fit}" if fit else ""


def _matched(audit: Audit, name: str) -> str:
    """Return the matched estimate with its interval."""
    ends = _ends(audit, name)
    if ends is None:
        return ""
    matched = audit.need("/matched").sel(parameter=name)
    estimate, level = float(matched["estimate"]), 100 * float(matched["level"])
    best = f"{measured(estimate, *ends)}{_unit(audit, name)}"
    return f"{best} ({level:g}% {_range(audit, ends)})"


def separate(audit: Audit, ends: tuple[float, float]) -> list[tuple[float, float]]:
    """Return the intervals that the data allow, lowest first, of which `ends` are the outermost."""
    for message in audit.messages:
        known = message.numbers
        if message.code != "resolution.separate_intervals":
            continue
        places = range(1, int(known["intervals"]) + 1)
        parts = [(known[f"lower {k}"], known[f"upper {k}"]) for k in places]
        if (parts[0][0], parts[-1][1]) == ends:
            return parts
    return [ends]


def _range(audit: Audit, ends: tuple[float, float]) -> str:
    """Return an interval in words, or several."""
    parts = separate(audit, ends)
    if len(parts) > MOST_PARTS:
        low, high = (measured(end, *ends) for end in ends)
        return f"{len(parts)} separate intervals from {low} to {high}"
    words = (" to ".join(measured(end, *part) for end in part) for part in parts)
    return " or ".join(words)


def _unit(audit: Audit, name: str) -> str:
    unit = audit.parameters[name].unit
    return f" {visible(unit)}" if unit else ""

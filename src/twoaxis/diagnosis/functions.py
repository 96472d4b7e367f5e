"""An unknown function in an audit: one verdict, one answer and one table, not one for each node.

Every node value has its own place on the decision map. What is shown of a function is what its
nodes have in common, and the node where it matters most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from twoaxis.diagnosis.decision_map import Route, Verdict, join
from twoaxis.parameters import Parameters
from twoaxis.result import Message
from twoaxis.text import visible
from twoaxis.unknown_function import FunctionGroup

if TYPE_CHECKING:
    from twoaxis.diagnosis.result import Audit


def functions_of_interest(parameters: Parameters) -> dict[str, FunctionGroup]:
    """Return the unknown functions that are no nuisance."""
    wanted = set(parameters.of_interest)
    return {n: g for n, g in parameters.functions.items() if wanted.issuperset(g.members)}


def verdicts_by_subject(
    parameters: Parameters, verdicts: Mapping[str, Verdict]
) -> dict[str, Verdict]:
    """Return one verdict for each number and for each unknown function, in order.

    The verdict of a function is what those of its nodes add up to. Its reason counts the nodes of
    each route, and quotes the first node of the route that decides.
    """
    groups = functions_of_interest(parameters)
    found: dict[str, Verdict] = {}
    for name in parameters.subjects:
        group = groups.get(name)
        if group is None:
            if name in verdicts:
                found[name] = verdicts[name]
            continue
        own = {member: verdicts[member] for member in group.members}
        route = join(own).route
        if len({v.reason for v in own.values()}) == 1:
            found[name] = Verdict(route, next(iter(own.values())).reason)
            continue
        routes: dict[Route, list[str]] = {}
        for member, verdict in own.items():
            routes.setdefault(verdict.route, []).append(member)
        # Needs that add up to co-design are the needs of different nodes.
        first = route if route in routes else next(iter(routes))
        ordered = [first, *(each for each in routes if each is not first)]
        counts = "; ".join(f"{each.value} at {_places(group, routes[each])}" for each in ordered)
        example = routes[first][0]
        found[name] = Verdict(route, f"{counts}. At {example}, {own[example].reason}")
    return found


def _places(group: FunctionGroup, members: list[str]) -> str:
    """Name some nodes of a function: their number, and the range that they lie in."""
    if len(members) == len(group.members):
        return f"all {len(members)} nodes"
    if len(members) == 1:
        return group.place_of(members[0])
    count, last = f"{len(members)} of {len(group.members)} nodes", group.place_of(members[-1])
    if len(group.basis.axes) > 1:  # they need not be neighbors
        return count
    return f"{count} from {group.place_of(members[0])} to {last.rpartition(' ')[2]}"


def deciding_node(audit: Audit, group: FunctionGroup, route: Route | None = None) -> str:
    """Return the node where it matters most, among those of a route or else of the function's."""
    chosen = route or audit.subjects[group.name].route
    members = [m for m in group.members if audit.routes[m] is chosen] or list(group.members)
    if chosen is Route.CONTRADICTED_BY_DATA:
        return _largest(members, lambda name: _standard_errors_off(audit, name))
    if chosen in (Route.IMPROVE_OBSERVATIONS, Route.CONSISTENT_WITH_DATA):
        return _largest(members, lambda name: audit.percent("resolution", name))
    if audit.around_truth:
        return _largest(members, lambda name: audit.percent("delivered", name))
    return _largest(members, lambda name: audit.percent("preference", name))


def _standard_errors_off(audit: Audit, name: str) -> float:
    """Distance of the delivered node value from the matched one, in widths of its interval."""
    matched, delivered = audit.group("/matched"), audit.parameters[name].delivered
    if matched is None or delivered is None:
        return math.nan
    one = matched.sel(parameter=name)
    width = float(one["upper"]) - float(one["lower"])
    return abs(delivered - float(one["estimate"])) / width if width > 0 else math.nan


def _largest(members: list[str], size: Callable[[str], float]) -> str:
    """Return the member of the largest size; one whose size is not known comes last."""

    def known(name: str) -> float:
        value = size(name)
        return -math.inf if math.isnan(value) else abs(value)

    return max(members, key=known)


def largest_node(audit: Audit, group: FunctionGroup, quantity: str) -> str:
    """Return the node with the largest of a percentage of ``/verdict``."""
    return _largest(list(group.members), lambda name: audit.percent(quantity, name))


def place_of(group: FunctionGroup, member: str) -> str:
    """Return where a node lies, as ``x = 0.5``."""
    return visible(group.place_of(member)).replace("-", "−")


def one_message_per_function(parameters: Parameters, messages: list[Message]) -> list[Message]:
    """Keep one of the messages that say the same of several nodes of a function.

    It is the one with the largest number, and says of how many other nodes the same holds.
    """
    groups = functions_of_interest(parameters)
    kept: dict[object, list[Message]] = {}
    for position, message in enumerate(messages):
        owners = [g.name for g in groups.values() if any(m in message.text for m in g.members)]
        key: object = (message.code, owners[0]) if len(owners) == 1 else position
        kept.setdefault(key, []).append(message)

    def size(message: Message) -> float:
        return abs(next(iter(message.numbers.values()), 0.0))

    found = []
    for same in kept.values():
        worst = max(same, key=size)
        if len(same) > 1:
            others = len(same) - 1
            also = f"{worst.text} (and {others} other node{'s' * (others > 1)} alike)"
            worst = Message(worst.code, also, worst.severity, worst.numbers)
        found.append(worst)
    return found

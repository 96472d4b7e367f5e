"""A simulated audit: what the pipeline does to data whose parameter is known."""

from __future__ import annotations

from typing import Any

from twoaxis.remedies import SimulatedAudit
from twoaxis.report.inputs import choose, part_of
from twoaxis.report.theme import axis_or_new, named, strip


def plot_simulated_audit(result: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """Draw one dot per simulated dataset: delivered, preferred, matched, and the delivery gap.

    Parameters
    ----------
    result : SimulatedAudit
    parameter : str, optional
        Needed when there are several.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    found = part_of(result, SimulatedAudit, "simulated_audit")
    name = choose(found.parameters, parameter)
    one = found.data.sel(parameter=name)
    rows, roles = {}, {}
    for variable, words, role in (
        ("delivered_error", "delivered error", "delivered"),
        ("preferred_error", "frozen scan minimum", "preferred"),
        ("gap", "delivery gap", "muted"),
        ("matched_error", "matched error", "matched"),
    ):
        if variable in one:
            rows[words], roles[words] = one[variable].values, role
    log = "log " if found.parameters[name].coordinate == "log" else ""
    own = found.parameters[name]
    words = f"difference of {log}{named(own, name)} from the simulated value"
    return strip(axis_or_new(ax), rows, roles, words, of=own)

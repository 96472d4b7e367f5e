"""The delivery waterfall: from the truth to the preferred value, and on to the delivered one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from twoaxis.geometry import Delivery
from twoaxis.report.inputs import choose, part_of
from twoaxis.report.theme import axis_or_new, color, label, named, open_frame, plain
from twoaxis.text import number, percent, visible

SIZE = (4.8, 2.3)
UNSEEN = "the residual does not see the parameter"


class Step(NamedTuple):
    """One bar: from where to where in the coordinate, and in percent."""

    word: str
    start: float
    end: float
    percent: float
    role: str


def steps_of(found: Delivery, name: str) -> list[Step]:
    """Return the bars of one parameter, the first on top; without those that are not known."""
    return [step for step in _every_step(found, name) if not math.isnan(step.end - step.start)]


def _every_step(found: Delivery, name: str) -> list[Step]:
    parameter = found.parameters[name]
    gap, gap_percent = found.gap[name], found.gap_percent[name]
    preferred, delivered = found.preferred[name], parameter.delivered
    if found.preference is not None and found.total is not None:
        preference, total = found.preference[name], found.total[name]
        moved, whole = (_percent(found, name, v, parameter.truth) for v in (preferred, delivered))
        return [
            Step("preferred minus true", 0.0, preference, moved, "preferred"),
            Step("delivery gap", preference, total, gap_percent, "muted"),
            Step("delivered minus true", 0.0, total, whole, "delivered"),
        ]
    apart = _percent(found, name, preferred, delivered)
    return [
        Step("preferred minus delivered", 0.0, -gap, apart, "preferred"),
        Step("delivery gap", -gap, 0.0, gap_percent, "muted"),
    ]


def _percent(found: Delivery, name: str, value: float | None, center: float | None) -> float:
    """Return a value relative to a center in signed percent, NaN where that has no meaning."""
    parameter = found.parameters[name]
    if value is None or center is None or not parameter.has_percentages(center):
        return math.nan
    return float(parameter.percent(value, center))


def describe(found: Delivery, name: str) -> str:
    """Return the steps of the waterfall as text."""
    parts = [
        f"{step.word} {number(step.end - step.start, '+.4f')} ({percent(step.percent, '+')})"
        for step in steps_of(found, name)
    ]
    words = "; ".join(parts) or UNSEEN
    return f"Delivery of {visible(name)} in its coordinate: {words}."


def plot_delivery(result: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """Draw how the delivered value came about, in the coordinate, where steps add up.

    Around a truth: delivered - truth = (preferred - truth) + (delivered - preferred). Around a
    candidate there is one step, from the delivered value to the one that its own field prefers,
    and back. All of it is under the training view.

    Parameters
    ----------
    result : Delivery or Audit
    parameter : str, optional
        Needed when there are several.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    from matplotlib.ticker import MaxNLocator

    found = part_of(result, Delivery, "delivery")
    name = choose(found.parameters, parameter)
    steps = steps_of(found, name)
    ax = axis_or_new(ax, SIZE)
    for row, step in enumerate(steps):
        hatch = "////" if step.role == "muted" else None
        ax.barh(
            row,
            step.end - step.start,
            left=step.start,
            height=0.56,
            color=color(step.role) if hatch is None else "none",
            edgecolor=color(step.role),
            hatch=hatch,
            lw=1.2,
            zorder=2,
        )
        # Without length a bar is a tick: it still has a place.
        ax.plot([step.end] * 2, [row - 0.28, row + 0.28], color=color(step.role), lw=2, zorder=3)
        if row + 1 < len(steps):
            ax.plot([step.end] * 2, [row, row + 1], color=color("muted"), lw=0.9, zorder=1)
    ax.set_yticks(range(len(steps)), [_words(step) for step in steps])
    plain(*ax.get_yticklabels())
    ax.set_ylim(max(len(steps), 1) - 0.5, -0.5)
    if not steps:
        ax.text(0.5, 0.5, UNSEEN, transform=ax.transAxes, ha="center", color=color("muted"))
    start = "delivered value" if found.total is None else "truth"
    ax.axvline(0, color=color("center"), lw=1.6, zorder=4)
    ends = [0.0, *(step.end for step in steps)]
    room = 0.08 * (max(ends) - min(ends)) or 0.05
    ax.set_xlim(min(ends) - room, max(ends) + room)
    log = "log " if found.parameters[name].coordinate == "log" else ""
    own = found.parameters[name]
    label(ax, f"{log}{named(own, name)} minus {log}{start}", of=own)
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.tick_params(axis="y", length=0)
    open_frame(ax, "top", "right", "left")
    return ax


def _words(step: Step) -> str:
    return f"{step.word}\n{number(step.end - step.start, '+.4f')} ({percent(step.percent, '+')})"

"""The delivery waterfall: from the centre over the field's preference to what was delivered."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from twoaxis.report.audited import Audited
from twoaxis.report.theme import axis_or_new, colour, label, open_frame, plain
from twoaxis.text import number, percent, shortened

SIZE = (4.8, 2.3)


class Step(NamedTuple):
    """One bar: from where to where in the coordinate, and in percent."""

    word: str
    start: float
    end: float
    percent: float
    role: str


def steps_of(audited: Audited, name: str) -> list[Step]:
    """Return the bars of one parameter, the first on top."""
    audited.need("/delivery")
    preferred, gap, gap_percent, preference, total = (
        audited.value("/delivery", variable, name)
        for variable in ("preferred", "gap", "gap_percent", "preference", "total")
    )
    if audited.around_truth:
        whole = audited.off(name, audited.delivered(name))
        wanted = audited.off(name, preferred)
        return [
            Step("field's preference", 0.0, preference, wanted, "preferred"),
            Step("delivery gap", preference, total, gap_percent, "muted"),
            Step("delivered, in total", 0.0, total, whole, "delivered"),
        ]
    delivered = audited.delivered(name)
    apart = math.nan if delivered == 0 else audited.off(name, preferred, delivered)
    return [
        Step("where the field wants it", 0.0, -gap, apart, "preferred"),
        Step("delivery gap, back again", -gap, 0.0, gap_percent, "muted"),
    ]


def plot_delivery(audit: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """Draw how the delivered value came about, in the coordinate, where steps add up.

    Around a truth: delivered - truth = (preferred - truth) + (delivered - preferred). Around a
    candidate there is one step, from the delivered value to what its own field prefers, and
    back. All of it is read under the training view.

    Parameters
    ----------
    audit : Audit or xarray.DataTree
    parameter : str, optional
        Needed when there are several.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    from matplotlib.ticker import MaxNLocator

    audited = Audited.of(audit)
    name = audited.choose(parameter)
    steps = steps_of(audited, name)
    ax = axis_or_new(ax, SIZE)
    for row, step in enumerate(steps):
        hatch = "////" if step.role == "muted" else None
        ax.barh(
            row,
            step.end - step.start,
            left=step.start,
            height=0.56,
            color=colour(step.role) if hatch is None else "none",
            edgecolor=colour(step.role),
            hatch=hatch,
            lw=1.2,
            zorder=2,
        )
        # Without length a bar is a tick: it still has a place.
        ax.plot([step.end] * 2, [row - 0.28, row + 0.28], color=colour(step.role), lw=2, zorder=3)
        if row + 1 < len(steps):
            ax.plot([step.end] * 2, [row, row + 1], color=colour("muted"), lw=0.9, zorder=1)
    ax.set_yticks(range(len(steps)), [_words(step) for step in steps])
    plain(*ax.get_yticklabels())
    ax.set_ylim(len(steps) - 0.5, -0.5)
    start = audited.center_word if audited.around_truth else "delivered value"
    ax.axvline(0, color=colour("center"), lw=1.6, zorder=4)
    ends = [0.0, *(step.end for step in steps)]
    room = 0.08 * (max(ends) - min(ends)) or 0.05
    ax.set_xlim(min(ends) - room, max(ends) + room)
    log = "log " if audited.parameters[name].coordinate == "log" else ""
    label(ax, f"{log}{shortened(name)} minus {log}{start}")
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.tick_params(axis="y", length=0)
    open_frame(ax, "top", "right", "left")
    return ax


def _words(step: Step) -> str:
    return f"{step.word}\n{number(step.end - step.start, '+.4f')} ({percent(step.percent, '+')})"

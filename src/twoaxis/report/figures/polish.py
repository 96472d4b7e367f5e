"""A polished field: value and preferred value before, at the frozen minimum and after."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoaxis.remedies import Polish
from twoaxis.report.inputs import choose, part_of
from twoaxis.report.theme import axis_or_new, color, label, legend_above, named, open_frame, plain
from twoaxis.text import number


def plot_polish(result: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """Draw the value of a parameter and the one that the field prefers, stage by stage.

    Parameters
    ----------
    result : Polish
    parameter : str, optional
        Needed when there are several.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    found = part_of(result, Polish, "polish")
    name = choose(found.parameters, parameter)
    one = found.data.sel(parameter=name)
    ax = axis_or_new(ax)
    stages = np.arange(one.sizes["stage"])
    ax.plot(stages, one["preferred"].values, "s-.", color=color("preferred"), label="preferred")
    ax.plot(stages, one["value"].values, "o-", color=color("delivered"), label="value")
    truth = found.parameters[name].truth
    if truth is not None:
        ax.axhline(truth, color=color("center"), lw=1.4, label=f"truth {number(truth)}")
    ax.set_xticks(stages, [str(stage) for stage in one["stage"].values])
    ax.set_xlim(-0.3, len(stages) - 0.7)
    plain(*ax.get_xticklabels())
    own = found.parameters[name]
    label(ax, y=named(own, name, unit=True), of=own)
    open_frame(ax)
    legend_above(ax)
    return ax

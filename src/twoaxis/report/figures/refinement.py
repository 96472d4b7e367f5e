"""The path of a refinement: the parameter against the weight of the equation."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoaxis.remedies import Refinement
from twoaxis.report.inputs import choose, part_of
from twoaxis.report.theme import axis_or_new, color, label, legend_above, named, open_frame
from twoaxis.text import number


def plot_refinement(result: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """Draw a parameter against the weight of the equation, with its final 95% interval.

    Parameters
    ----------
    result : Refinement
    parameter : str, optional
        Needed when there are several.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    found = part_of(result, Refinement, "refinement")
    name = choose(found.parameters, parameter)
    one, own = found.data.sel(parameter=name), found.parameters[name]
    low, high = found.interval[name]
    ax = axis_or_new(ax)
    # Stages at the last weight stand beside each other.
    steps = np.arange(one.sizes["stage"])
    ax.axhspan(low, high, color=color("matched"), alpha=0.18, lw=0, label="95% interval")
    ax.plot(steps, one["value"].values, "o-", color=color("matched"), ms=4, label="refined")
    if own.delivered is not None:
        ax.axhline(own.delivered, color=color("delivered"), ls="--", lw=1.4, label="before")
    if own.truth is not None:
        ax.axhline(own.truth, color=color("center"), lw=1.4, label=f"truth {number(own.truth)}")
    shown = np.unique(np.linspace(0, len(steps) - 1, min(6, len(steps))).round().astype(int))
    weights = one["weight"].values[shown]
    ax.set_xticks(shown, [f"{weight:.0e}".replace("e+0", "e") for weight in weights])
    label(ax, x="weight of the equation", y=named(own, name, unit=True), of=own)
    open_frame(ax)
    legend_above(ax)
    return ax

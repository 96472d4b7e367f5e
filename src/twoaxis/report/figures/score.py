"""The displacement of each parameter, with the part that is due to the sample of points."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoaxis.geometry import Score
from twoaxis.report.inputs import center_word, part_of
from twoaxis.report.theme import (
    WIDE,
    axis_or_new,
    color,
    label,
    legend_above,
    name_rows,
    open_frame,
)


def plot_score(result: Any, *, ax: Any = None) -> Any:
    """Draw the displacement D of each coordinate, and that of each parameter by itself.

    Bars around D are two standard deviations over samples of as many residual points. Where the
    two markers of a parameter differ, the parameters are coupled.

    Parameters
    ----------
    result : Score or Audit
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    found = part_of(result, Score, "score")
    names = found.names
    ax = axis_or_new(ax, size_of(found))
    rows = np.arange(len(names))
    moved, spread = (found.data[n].values for n in ("displacement", "sampling_deviation"))
    own = found.data["diagonal_displacement"].values
    bars = {"fmt": "o", "color": color("preferred"), "ms": 6, "capsize": 3}
    ax.errorbar(moved, rows, xerr=2 * spread, label="displacement D", **bars)
    if len(names) > 1:
        ax.plot(own, rows, "d", mfc="none", color=color("muted"), label="without coupling")
    ax.axvline(0, color=color("center"), lw=1.2, zorder=0)
    name_rows(ax, found.parameters)
    label(ax, f"displacement from the {center_word(found.center.kind)}, in the coordinate")
    open_frame(ax, "top", "right", "left")
    legend_above(ax)
    return ax


def size_of(found: Score) -> tuple[float, float]:
    """Return the size of the figure, in inches."""
    return WIDE[0], 1.2 + 0.5 * len(found.names)

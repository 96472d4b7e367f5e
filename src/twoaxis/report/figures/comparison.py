"""Several audits side by side: a row for each, or a dot for each where there are many."""

from __future__ import annotations

from typing import Any

from twoaxis.diagnosis import Comparison
from twoaxis.report.figures.forest import plot_forest
from twoaxis.report.figures.forest import size_of as forest_size
from twoaxis.report.inputs import choose, part_of
from twoaxis.report.theme import WIDE, axis_or_new, named, strip

# More audits than this are dots, not rows.
MOST_ROWS = 30


def plot_comparison(result: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """Draw delivered, preferred and matched values of several audits.

    Up to 30 audits are the rows of a forest plot (`plot_forest`). More of them are dots:
    delivered, preferred, and the gap between them, in the coordinate.

    Parameters
    ----------
    result : Comparison
    parameter : str, optional
        Needed when there are several.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    found = part_of(result, Comparison, "comparison")
    name = choose(found.parameters, parameter)
    if found.count <= MOST_ROWS:
        return plot_forest(found, parameter=name, ax=ax)
    one = found.data.sel(parameter=name)
    start = {"truth": "truth", "delivered": "mean candidate"}.get(found.centered_on, "point")
    rows = {
        f"delivered minus {start}": one["total"].values,
        f"preferred minus {start}": one["preference"].values,
        "delivery gap": one["gap"].values,
    }
    roles = dict(zip(rows, ("delivered", "preferred", "muted"), strict=True))
    own = found.parameters[name]
    log = "log " if own.coordinate == "log" else ""
    return strip(axis_or_new(ax), rows, roles, f"difference of {log}{named(own, name)}", of=own)


def size_of(found: Comparison) -> tuple[float, float]:
    """Return the size of the figure, in inches."""
    return forest_size(found) if found.count <= MOST_ROWS else WIDE

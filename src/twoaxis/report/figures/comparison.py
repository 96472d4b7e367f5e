"""Several retrainings: delivered values, preferred values and delivery gaps side by side."""

from __future__ import annotations

from typing import Any

from twoaxis.diagnosis import Comparison
from twoaxis.report.inputs import choose, part_of
from twoaxis.report.theme import axis_or_new, strip
from twoaxis.text import shortened


def plot_comparison(result: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """Draw one dot per retraining: delivered, preferred, and the gap between them.

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
    name = choose(found.parameters.names, parameter)
    one = found.data.sel(parameter=name)
    start = {"truth": "truth", "delivered": "mean candidate"}.get(found.centered_on, "point")
    rows = {
        f"delivered minus {start}": one["total"].values,
        f"preferred minus {start}": one["preference"].values,
        "delivery gap": one["gap"].values,
    }
    roles = dict(zip(rows, ("delivered", "preferred", "muted"), strict=True))
    log = "log " if found.parameters[name].coordinate == "log" else ""
    return strip(axis_or_new(ax), rows, roles, f"difference of {log}{shortened(name)}")

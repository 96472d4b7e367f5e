"""Trained runs: the error of the delivered value, by problem and method."""

from __future__ import annotations

from typing import Any

from twoaxis.errors import InputError
from twoaxis.report.inputs import choose
from twoaxis.report.theme import axis_or_new, strip
from twoaxis.text import shortened


def plot_runs(result: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """Draw one dot per run: the signed error of the delivered value, in percent.

    Parameters
    ----------
    result : Runs
    parameter : str, optional
        Needed when there are several.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    # Recognized by its schema: the class needs the libraries of training.
    if getattr(result, "schema", "") != "runs":
        raise InputError("runs", type(result).__name__, "pass what twoaxis.train returned")
    names = [str(name) for name in result.data["parameter"].values]
    name = choose(names, parameter)
    data = result.data
    labels = [
        f"{problem}, {method}"
        for problem, method in zip(data["problem"].values, data["method"].values, strict=True)
    ]
    error = data["error_percent"].sel(parameter=name).values
    rows = {
        shortened(each, 30): [e for e, own in zip(error, labels, strict=True) if own == each]
        for each in dict.fromkeys(labels)
    }
    size = (4.8, 1.0 + 0.6 * len(rows))
    roles = dict.fromkeys(rows, "delivered")
    return strip(axis_or_new(ax, size), rows, roles, f"error of the delivered {shortened(name)}, %")

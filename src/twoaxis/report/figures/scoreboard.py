"""Training methods on one problem: what each delivers, beside what the data resolve."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoaxis.diagnosis.scoreboard import QUANTITIES, Scoreboard
from twoaxis.errors import InputError
from twoaxis.report.inputs import choose
from twoaxis.report.theme import axis_or_new, color, label, legend_above, open_frame, plain
from twoaxis.text import percent, shortened, visible

ROLES = {"error": "delivered", "displacement": "preferred", "gap": "theory"}
MARKERS = {"error": "o", "displacement": "s", "gap": "D"}
# Where each quantity stands in the row of its method.
PLACES = {"error": -0.25, "displacement": 0.0, "gap": 0.25}
# On a logarithmic axis smaller percentages are drawn here.
SMALLEST = 0.01
READING = (
    "In the pictures small dots are single runs. Where the displacement is about as large as the "
    "error, the residual prefers the wrong value; where the gap is, training did not deliver what "
    "the field prefers. Left of the dotted line, an error is smaller than the mean error of a "
    "matched fit to such data, and better training cannot be expected to lower it."
)


def plot_scoreboard(
    board: Scoreboard, *, problem: str | None = None, parameter: str | None = None, ax: Any = None
) -> Any:
    """Draw the methods on one problem, one row each.

    Parameters
    ----------
    board : Scoreboard
    problem : str, optional
        The first one without it.
    parameter : str, optional
        The first one of the problem without it.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    name, parameter = _chosen(board, problem, parameter)
    table = board.summary()
    table = table[(table["problem"] == name) & (table["parameter"] == parameter)]
    rows = board.rows
    rows = rows[(rows["problem"] == name) & (rows["parameter"] == parameter)]
    axis = axis_or_new(ax, scoreboard_size(board, name))
    for k, line in enumerate(table.to_dict("records")):
        own = rows[rows["method"] == line["method"]]
        for quantity, words in QUANTITIES.items():
            at, role = k + PLACES[quantity], color(ROLES[quantity])
            runs = np.maximum(own[f"{quantity}_percent"].abs(), SMALLEST)
            axis.plot(runs, np.full(len(runs), at), ".", ms=3, alpha=0.45, color=role, zorder=2)
            low, high = line[f"{quantity}_low"], line[f"{quantity}_high"]
            if np.isfinite(high):
                ends = np.maximum([low, high], SMALLEST)
                axis.plot(ends, [at, at], color=role, lw=1.8, alpha=0.7, zorder=3)
            value = max(line[quantity], SMALLEST)
            mark = {"marker": MARKERS[quantity], "ms": 6, "mfc": "none", "mew": 1.6}
            axis.plot(value, at, ls="", color=role, zorder=4,
                      label="_nolegend_" if k else words, **mark)  # fmt: skip
    resolved = board.resolution(name, parameter)
    if np.isfinite(resolved):
        style = {"color": color("matched"), "ls": ":", "lw": 2.2, "zorder": 1}
        axis.axvline(resolved, label=f"matched error {percent(resolved)}", **style)
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=9))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_yticks(range(len(table)), [shortened(each, 24) for each in table["method"]])
    plain(*axis.get_yticklabels())
    axis.set_ylim(len(table) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x", color=color("rule"), lw=0.6, zorder=0)
    axis.set_axisbelow(True)
    for k in range(1, len(table)):
        axis.axhline(k - 0.5, color=color("rule"), lw=0.6, zorder=0)
    label(axis, f"{shortened(parameter)}: error, displacement and delivery gap, %")
    open_frame(axis, "top", "right", "left")
    legend_above(axis, 4)
    return axis


def scoreboard_size(board: Scoreboard, problem: str) -> tuple[float, float]:
    """Return the size of the picture of a problem, in inches."""
    methods = board.rows.loc[board.rows["problem"] == problem, "method"].nunique()
    return (6.0, 0.8 + 0.44 * methods)


def describe_scoreboard(board: Scoreboard, problem: str, parameter: str) -> str:
    """Return the picture as text."""
    table = board.summary()
    table = table[(table["problem"] == problem) & (table["parameter"] == parameter)]
    parts = [
        f"{visible(row['method'])} error {percent(row['error'])}, displacement "
        f"{percent(row['displacement'])}, delivery gap {percent(row['gap'])}"
        for row in table.to_dict("records")
    ]
    resolved = percent(board.resolution(problem, parameter))
    head = f"Methods on {visible(problem)}, {visible(parameter)}; matched error {resolved}"
    return f"{head}: {'; '.join(parts)}."


def _chosen(board: Scoreboard, problem: str | None, parameter: str | None) -> tuple[str, str]:
    if not isinstance(board, Scoreboard):
        raise InputError(
            "a scoreboard", type(board).__name__, "pass what twoaxis.compare_methods returned"
        )
    name = problem or next(iter(board.problems), "")
    if name not in board.problems:
        known = ", ".join(board.problems) or "none"
        raise InputError(f"one of the problems {known}", repr(name), "choose one of them")
    names = list(board.rows.loc[board.rows["problem"] == name, "parameter"].unique())
    return name, choose(names, parameter or str(names[0]))

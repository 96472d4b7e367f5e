"""The figure of the score: against the frozen minimum, and against what training delivered."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from twoaxis.report.theme import SMALL_SIZE, color, label, legend_above, open_frame, plain
from twoaxis.studies.figures.panels import (
    FILLS,
    MARKERS,
    ROLES,
    Drawing,
    FloatArray,
    Found,
    Panel,
    beside_published,
    numbers,
    problems_in,
    title_of,
)
from twoaxis.text import number, shortened

SHAPES = "osD^vP*X"
# In percent. Below the first the scale is linear, so that zero has a place; beyond the second a
# point stands at the edge.
LINEAR, LARGEST = 1.0, 1e4
DELTA = "delta_percent"


def score_drawing(found: Found) -> Drawing | None:
    """Return the figure of the score, with the panels whose tables are there."""
    panels = (
        _panel(
            found,
            "development",
            ("view", "grid_error_percent"),
            "pooled_r",
            "error of the frozen minimum",
            "Δ against the error of the frozen minimum, {} profiles.",
            "A profile on the line is one whose minimum lies where the score alone puts it.",
        ),
        _panel(
            found,
            "fresh-noise",
            ("replica", "delivered_error_percent"),
            "aligned_absolute_r",
            "error of the delivered value",
            "Δ against the delivered error, {} trainings on fresh noise.",
            "A training on the line delivered what its own frozen field prefers.",
        ),
    )
    drawn = tuple(panel for panel in panels if panel is not None)
    title = "Scores against frozen minima and delivered values"
    return Drawing("score", title, drawn) if drawn else None


def _panel(
    found: Found,
    block: str,
    columns: tuple[str, str],
    correlation: str,
    error: str,
    caption: str,
    reading: str,
) -> Panel | None:
    """Return Δ against the error in the last of `columns`, or None without such a table."""
    column = columns[-1]
    rows = found.table(block, "problem", *columns, DELTA)
    if rows is None:
        return None
    remark = beside_published(found.figure(block, correlation), "r")
    return Panel(
        partial(_scatter, rows, column, f"{error}, %", remark),
        caption.format(len(rows)),
        reading,
        _alt(rows, column, f"the {error}", remark),
    )


def _scatter(rows: pd.DataFrame, column: str, words: str, remark: str, *, ax: Any) -> Any:
    """Draw Δ against an error: color and fill by problem, shape by view where there are some."""
    shapes = _shapes(rows)
    top = _percent_axes(ax, np.concatenate([numbers(rows[DELTA]), numbers(rows[column])]))
    ax.plot([0, top], [0, top], color=color("muted"), lw=1.0, ls="--", zorder=1)
    for problem in problems_in(rows):
        own = rows[rows["problem"] == problem]
        for view, shape in (shapes or {"": MARKERS[problem]}).items():
            chosen = own[own["view"] == view] if view else own
            ax.plot(
                np.clip(numbers(chosen[column]), 0, top),
                np.clip(numbers(chosen[DELTA]), 0, top),
                **_style(problem, shape),
                zorder=3,
                clip_on=False,
            )
    _add_legend(ax, problems_in(rows), shapes)
    label(ax, words, "Δ, %")
    open_frame(ax)
    legend_above(ax, columns=3, margin=10.0)
    if remark:
        style = {"ha": "right", "va": "bottom", "fontsize": SMALL_SIZE}
        plain(ax.text(0.98, 0.04, remark, transform=ax.transAxes, **style))
    return ax


def _shapes(rows: pd.DataFrame) -> dict[str, str]:
    if "view" not in rows:
        return {}
    return dict(zip(dict.fromkeys(rows["view"]), SHAPES, strict=False))


def _style(problem: str, shape: str) -> dict[str, Any]:
    from matplotlib.colors import to_rgba

    shade = color(ROLES[problem])
    return {
        "ls": "",
        "marker": shape,
        "ms": 4.6,
        "mec": shade,
        "mew": 0.9,
        "mfc": to_rgba(shade, FILLS[problem]),
    }


def _add_legend(ax: Any, problems: list[str], shapes: Mapping[str, str]) -> None:
    """Name problems, and views below them: a legend is filled column by column."""
    entries = [(title_of(p), _style(p, "o" if shapes else MARKERS[p])) for p in problems]
    plain_style = {"ls": "", "ms": 4.6, "mec": color("ink"), "mfc": "none", "mew": 0.9}
    views = [(shortened(v), plain_style | {"marker": shape}) for v, shape in shapes.items()]
    while entries or views:
        for kind in (entries, views):
            if kind:
                words, style = kind.pop(0)
                ax.plot([], [], label=words, **style)


def _percent_axes(ax: Any, values: FloatArray) -> float:
    """Give both axes one scale from zero, logarithmic above 1%; return its end."""
    from matplotlib.ticker import FixedLocator, NullLocator

    known = values[np.isfinite(values)]
    top = 1.15 * float(np.clip(known.max(initial=10.0), 10.0, LARGEST))
    steps = [m * 10.0**p for p in range(6) for m in (1.0, 3.0)]
    if top > 300:
        steps = [step for step in steps if f"{step:g}"[0] == "1"]
    for axis, scale, limits in (
        (ax.xaxis, ax.set_xscale, ax.set_xlim),
        (ax.yaxis, ax.set_yscale, ax.set_ylim),
    ):
        scale("symlog", linthresh=LINEAR, linscale=0.35)
        limits(0, top)
        axis.set_major_locator(FixedLocator([0.0, *(s for s in steps if s <= top)]))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    return top


def _alt(rows: pd.DataFrame, column: str, words: str, remark: str) -> str:
    delta, error = numbers(rows[DELTA]), numbers(rows[column])
    known = np.isfinite(delta) & np.isfinite(error)
    parts = []
    for problem in problems_in(rows):
        own = known & np.asarray(rows["problem"] == problem)
        if own.any():
            parts.append(
                f"{title_of(problem)}: median Δ {number(float(np.median(delta[own])), '.3g')}, "
                f"median error {number(float(np.median(error[own])), '.3g')}"
            )
    beyond = int((np.fmax(delta, error) > LARGEST).sum())
    at_edge = f" {beyond} lie beyond {LARGEST:g}%, at the edge." if beyond else ""
    medians = "; ".join([*parts, remark] if remark else parts)
    return f"{len(rows)} points, Δ against {words}, in percent. {medians}.{at_edge}"

"""Estimates with intervals: ours, the published ones and what theory predicts, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from twoaxis.report.theme import SMALL_SIZE, colour, label, legend_above, open_frame, plain
from twoaxis.report.words import number
from twoaxis.studies.drawings.drawing import THIRD, Panel
from twoaxis.studies.drawings.found import Found, ends, printed_ends, title_of
from twoaxis.studies.fields import PROBLEMS

OVERALL = "overall"


class Estimate(NamedTuple):
    """A value with its interval, and its row."""

    row: int
    value: float
    interval: tuple[float, float] | None


class Series(NamedTuple):
    """Estimates of one kind, how they are drawn, and how far above the middle of their row."""

    name: str
    role: str
    marker: str
    filled: bool
    above: float
    estimates: list[Estimate]


def series_of(found: Found, block: str, key: str) -> list[Series]:
    """Return our estimates and the published ones of ``KEY_PROBLEM``, a row for each problem."""
    printed = [
        Estimate(row, float(figure["published"]), printed_ends(figure))
        for row, problem in enumerate((*PROBLEMS, OVERALL))
        if (figure := found.figure(block, f"{key}_{problem}"))
    ]
    return [
        Series("ours", "preferred", "o", True, 0.0, our_estimates(found, block, key)),
        Series("published", "ink", "s", False, 0.2, printed),
    ]


def our_estimates(found: Found, block: str, key: str) -> list[Estimate]:
    """Return our figures ``KEY_PROBLEM`` of a block."""
    return [
        Estimate(row, float(figure["ours"]), ends(figure))
        for row, problem in enumerate((*PROBLEMS, OVERALL))
        if (figure := found.figure(block, f"{key}_{problem}"))
    ]


def estimates_panel(
    series: list[Series], words: str, caption: str, reading: str, *, zero: bool = False
) -> Panel | None:
    """Return a panel of estimates, or nothing where there are none of ours.

    Parameters
    ----------
    series : list of Series
        Ours first.
    words : str
        What the axis shows.
    caption, reading : str
    zero : bool
        Whether zero is a line to compare with; else it is where the axis starts.
    """
    if not series[0].estimates:
        return None
    names = [*map(title_of, PROBLEMS), OVERALL]
    parts = []
    for row, name in enumerate(names):
        told = [
            f"{one.name} {_told(estimate)}"
            for one in series
            for estimate in one.estimates
            if estimate.row == row
        ]
        if told:
            parts.append(f"{name}: {', '.join(told)}")
    return Panel(
        partial(_draw_estimates, series, names, words, zero),
        caption,
        reading,
        f"{caption} {'; '.join(parts)}.",
        THIRD,
    )


def _told(estimate: Estimate) -> str:
    value = number(estimate.value, ".3g")
    if estimate.interval is None:
        return value
    low, high = (number(end, ".3g") for end in estimate.interval)
    return f"{value} ({low} to {high})"


def _draw_estimates(
    series: list[Series], names: list[str], words: str, zero: bool, *, ax: Any
) -> Any:
    if zero:
        ax.axvline(0, color=colour("muted"), lw=1.0, ls="--", zorder=1)
    for one in series:
        shade = colour(one.role)
        for number_, (row, value, interval) in enumerate(one.estimates):
            place = row + 0.1 - one.above
            if interval is not None:
                ax.plot(interval, [place, place], color=shade, lw=1.6, zorder=2)
                ax.plot(interval, [place, place], color=shade, ls="", marker="|", ms=6, zorder=2)
            ax.plot(
                [value],
                [place],
                ls="",
                marker=one.marker,
                ms=5.5,
                mec=shade,
                mew=1.3,
                mfc=shade if one.filled else colour("paper"),
                zorder=3,
                label=None if number_ else one.name,
            )
    name_rows(ax, names, above=0.26, ground=zero)
    if not zero:
        ax.set_xlim(left=0)
    label(ax, words)
    open_frame(ax, "top", "right", "left")
    legend_above(ax, columns=3, margin=0.0)
    return ax


def name_rows(ax: Any, names: Sequence[str], above: float, *, ground: bool = False) -> None:
    """Write the name of each row above it: beside it, names would take half of a small panel.

    With a ground of their own, names are not crossed by a line behind them.
    """
    box = {"facecolor": colour("paper"), "edgecolor": "none", "pad": 0.6} if ground else None
    style: dict[str, Any] = {"va": "bottom", "fontsize": SMALL_SIZE, "zorder": 5, "bbox": box}
    for row, name in enumerate(names):
        plain(ax.text(0.0, row - above, name, transform=ax.get_yaxis_transform(), **style))
    ax.set_yticks([])
    ax.set_ylim(len(names) - 0.45, -0.6)

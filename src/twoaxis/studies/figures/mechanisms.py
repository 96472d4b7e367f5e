"""The figure of the mechanisms: residual scales, resolution, and excess over the matched fit.

Estimates stand with their intervals, row by row: ours, the published ones, and theory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from twoaxis.report.theme import SMALL_SIZE, color, label, legend_above, open_frame, plain
from twoaxis.studies.fields import PROBLEMS
from twoaxis.studies.figures.panels import (
    THIRD,
    Drawing,
    Found,
    Panel,
    ends,
    numbers,
    printed_ends,
    problems_in,
    title_of,
)
from twoaxis.text import number, shortened

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
        estimates = [
            f"{one.name} {_in_words(estimate)}"
            for one in series
            for estimate in one.estimates
            if estimate.row == row
        ]
        if estimates:
            parts.append(f"{name}: {', '.join(estimates)}")
    return Panel(
        partial(_draw_estimates, series, names, words, zero),
        caption,
        reading,
        f"{caption} {'; '.join(parts)}.",
        THIRD,
    )


def _in_words(estimate: Estimate) -> str:
    value = number(estimate.value, ".3g")
    if estimate.interval is None:
        return value
    low, high = (number(end, ".3g") for end in estimate.interval)
    return f"{value} ({low} to {high})"


def _draw_estimates(
    series: list[Series], names: list[str], words: str, zero: bool, *, ax: Any
) -> Any:
    if zero:
        ax.axvline(0, color=color("muted"), lw=1.0, ls="--", zorder=1)
    for one in series:
        shade = color(one.role)
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
                mfc=shade if one.filled else color("paper"),
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
    box = {"facecolor": color("paper"), "edgecolor": "none", "pad": 0.6} if ground else None
    style: dict[str, Any] = {"va": "bottom", "fontsize": SMALL_SIZE, "zorder": 5, "bbox": box}
    for row, name in enumerate(names):
        plain(ax.text(0.0, row - above, name, transform=ax.get_yaxis_transform(), **style))
    ax.set_yticks([])
    ax.set_ylim(len(names) - 0.45, -0.6)


MODES = "modes_"
SUITES = ("development", "holdout")
# Bands from the leading modes on, dark to light, so that they differ in gray.
SHADES = (1.0, 0.55, 0.18, 0.08)


def mechanisms_drawing(found: Found) -> Drawing | None:
    """Return the figure of the mechanisms, with the panels whose numbers are there."""
    panels = [
        panel for panel in (_shares(found), _resolution(found), _excess(found)) if panel is not None
    ]
    title = "Residual scales, resolution of the observations, and excess over the matched fit"
    return Drawing("mechanisms", title, tuple(panels), 3) if panels else None


def _shares(found: Found) -> Panel | None:
    rows = found.table("spectrum", "suite", "problem", "reading")
    if rows is None:
        return None
    bands = [str(c).removeprefix(MODES) for c in rows.columns if str(c).startswith(MODES)]
    rows = rows[rows["reading"] == "pointwise"]
    groups = [(suite, problem) for problem in problems_in(rows) for suite in SUITES]
    shares = {
        (suite, problem): [float(numbers(own[f"{MODES}{band}"])[0]) for band in bands]
        for suite, problem in groups
        if len(own := rows[(rows["suite"] == suite) & (rows["problem"] == problem)])
    }
    if not bands or not shares:
        return None
    printed = {group: _printed_shares(found, group, bands) for group in shares}
    parts = [
        f"{title_of(group[1])}, {group[0]}: {_listed(own)}"
        + (f" (published {_listed(printed[group])})" if printed[group] else "")
        for group, own in shares.items()
    ]
    return Panel(
        partial(_draw_shares, shares, printed, bands),
        "Share of the parameter's strength by residual scale.",
        "The thick bar is ours, the thin one above it is published; leading modes are the "
        "smoothest.",
        f"Shares of the strength in percent, in modes {', '.join(map(_band, bands))}. "
        f"{'; '.join(parts)}.",
        THIRD,
    )


def _listed(shares: Sequence[float]) -> str:
    return ", ".join(number(share, ".3g") for share in shares)


def _printed_shares(found: Found, group: tuple[str, str], bands: Sequence[str]) -> list[float]:
    """Return the published shares of a group, or nothing unless all of them are there."""
    keys = [f"{group[0]}_{group[1]}_{band}".replace("-", "_") for band in bands]
    figures = [found.figure("spectrum", key) for key in keys]
    return [float(f["published"]) for f in figures if f] if all(figures) else []


def _band(band: str) -> str:
    return shortened(band.replace("_", "–").replace("-", "–"))


def _draw_shares(
    shares: Mapping[tuple[str, str], list[float]],
    printed: Mapping[tuple[str, str], list[float]],
    bands: Sequence[str],
    *,
    ax: Any,
) -> Any:
    from matplotlib.colors import to_rgba

    shade = color("theory")
    for row, group in enumerate(shares):
        for values, middle, height, named in (
            (printed[group], row - 0.08, 0.14, False),
            (shares[group], row + 0.21, 0.36, row == 0),
        ):
            start = 0.0
            for share, band, strength in zip(values, bands, SHADES, strict=False):
                ax.barh(
                    middle,
                    share,
                    left=start,
                    height=height,
                    color=to_rgba(shade, strength),
                    edgecolor=shade,
                    lw=0.7,
                    label=_legend(band, start) if named else None,
                )
                start += share
    name_rows(ax, [f"{title_of(problem)}, {suite}" for suite, problem in shares], above=0.17)
    ax.set_xlim(0, 100)
    label(ax, "share of the strength, %")
    open_frame(ax, "top", "right", "left")
    legend_above(ax, columns=3, margin=0.0)
    return ax


def _legend(band: str, start: float) -> str:
    return _band(band) if start else f"modes {_band(band)}"


def _resolution(found: Found) -> Panel | None:
    series = [
        *series_of(found, "resolution", "mean"),
        Series(
            "Fisher prediction",
            "theory",
            "D",
            True,
            -0.2,
            our_estimates(found, "resolution", "fisher"),
        ),
    ]
    return estimates_panel(
        series,
        "mean error of the matched fit, %",
        "Error of the matched fit over repeated noise.",
        "What these observations resolve; Fisher information predicts it to first order.",
    )


def _excess(found: Found) -> Panel | None:
    return estimates_panel(
        series_of(found, "fresh-noise", "excess"),
        "RBA minus matched error, points",
        "Excess of RBA over the matched fit of the same data.",
        "Left of the line RBA does better than the matched fit, right of it worse.",
        zero=True,
    )

"""The paper's figures, drawn again from the tables of a reproduction.

What a drawing is: panels that stand beside each other in a file, and wherever a page has room.

A page gives each panel a picture of its own, so that a phone can show them one below the other;
a file holds them all in one row.

What the records of a reproduction hold, looked up by block; what is missing is None.

The score against the frozen minimum, and against what training delivered.

Which residual scales see the parameter, what observations resolve, and who does better.

Estimates with intervals: ours, the published ones and what theory predicts, row by row.

The full and the diagonal step of Darcy fields against the refined minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoaxis.files import write_whole
from twoaxis.report.theme import (
    MIDDLE,
    SIZE,
    SMALL_SIZE,
    STYLE,
    colour,
    inline_svg,
    label,
    legend_above,
    open_frame,
    plain,
)
from twoaxis.studies.fields import PROBLEMS, TITLES
from twoaxis.studies.record import table_frame
from twoaxis.text import number, shortened

# Of a panel of which three stand beside each other.
THIRD = (3.2, 3.1)
# Room for a panel's letter, in inches.
LETTER = 0.4
# A file stands alone: it has a ground of its own, and no reader's font decides its letters.
ALONE: Any = {
    "figure.facecolor": "#ffffff",
    "savefig.facecolor": "#ffffff",
    "svg.fonttype": "path",
}


@dataclass(frozen=True)
class Panel:
    """One picture.

    Attributes
    ----------
    draw : callable
        ``draw(ax=ax)`` draws on an axis and returns it.
    caption : str
        What it shows.
    reading : str
        How to read it.
    alt : str
        The same in words and numbers, for readers who do not see it.
    size : tuple of float
        In inches.
    """

    draw: Callable[..., Any]
    caption: str
    reading: str
    alt: str
    size: tuple[float, float] = MIDDLE

    def svg(self) -> str:
        """Return the panel as an ``<svg>`` element for a page."""
        return inline_svg(self.draw, alt=self.alt, size=self.size)


@dataclass(frozen=True)
class Drawing:
    """One figure of the paper.

    Attributes
    ----------
    name : str
        Of its files.
    title : str
    panels : tuple of Panel
    beside : int
        How many of them stand beside each other where a page has room.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    beside: int = 2

    def figure(self) -> Any:
        """Return all panels in one row, as a matplotlib figure; call it in `house_style`."""
        from matplotlib.figure import Figure

        widths = [panel.size[0] + LETTER for panel in self.panels]
        height = max(panel.size[1] for panel in self.panels)
        figure = Figure(figsize=(sum(widths), height), layout="constrained")
        axes = figure.subplots(1, len(widths), squeeze=False, width_ratios=widths)[0]
        for letter, ax, panel in zip("abcdefgh", axes, self.panels, strict=False):
            panel.draw(ax=ax)
            if len(widths) > 1:
                _write_letter(ax, f"({letter})")
        return figure


@contextmanager
def house_style() -> Iterator[None]:
    """Draw and save as this package does, whatever the reader's settings are."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        for setting, value in (STYLE | ALONE).items():
            mpl.rcParams[setting] = value
        yield


def _write_letter(ax: Any, letter: str) -> None:
    """Name a panel at its upper left corner, beside the legend."""
    ax.annotate(
        letter,
        (0, 1),
        (-36, 5),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=SIZE,
        fontweight="bold",
    )


FloatArray = NDArray[np.float64]
Record = Mapping[str, Any]

# Colour, marker and fill of each problem: fills tell them apart where there is no colour.
ROLES = dict(zip(PROBLEMS, ("minus", "observe", "matched"), strict=True))
MARKERS = dict(zip(PROBLEMS, ("o", "s", "^"), strict=True))
FILLS = dict(zip(PROBLEMS, (0.8, 0.0, 0.3), strict=True))


class Found:
    """The records of a reproduction by block."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = {str(record["name"]): record for record in records}

    def table(self, block: str, *columns: str) -> pd.DataFrame | None:
        """Return the first table of a block that has all of these columns, and rows."""
        for table in self._records.get(block, {}).get("tables", {}).values():
            if set(columns) <= set(table["columns"]) and table["rows"]:
                return table_frame(table)
        return None

    def figure(self, block: str, key: str) -> Mapping[str, Any] | None:
        """Return a figure of a block that has a value."""
        for figure in self._records.get(block, {}).get("figures", ()):
            if figure["key"] == key and figure["ours"] is not None:
                chosen: Mapping[str, Any] = figure
                return chosen
        return None


def numbers(values: Any) -> FloatArray:
    """Return a column as numbers; what is none is not a number."""
    return np.asarray(pd.to_numeric(pd.Series(values), errors="coerce"), dtype=float)


def ends(figure: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the ends of our interval, where there is one and it is finite."""
    low, high = figure["interval"] or (None, None)
    return None if low is None or high is None else (float(low), float(high))


def printed_ends(figure: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the ends of the printed interval as numbers."""
    texts = figure["printed_interval"]
    return None if texts is None else (float(texts[0]), float(texts[1]))


def title_of(problem: object) -> str:
    """Return a problem's name as a reader knows it."""
    return TITLES.get(str(problem), shortened(problem))


def problems_in(rows: pd.DataFrame) -> list[str]:
    """Return the problems that a table holds, in the order of the study."""
    there = set(rows["problem"])
    return [problem for problem in PROBLEMS if problem in there]


def beside_published(figure: Mapping[str, Any] | None, symbol: str) -> str:
    """Return ``symbol = ours (published ...)``, or nothing where there is no such figure."""
    if figure is None:
        return ""
    return f"{symbol} = {figure['ours_text']} (published {figure['printed']})"


SHAPES = "osD^vP*X"
# In percent. Below the first the scale is linear, so that zero has a place; beyond the second a
# point stands at the edge.
LINEAR, LARGEST = 1.0, 1e4
DELTA = "delta_percent"


def score_drawing(found: Found) -> Drawing | None:
    """Return the figure of the score, with the panels whose tables are there."""
    panels = [panel for panel in (_profiles(found), _endpoints(found)) if panel is not None]
    title = "Scores against frozen minima and delivered values"
    return Drawing("score", title, tuple(panels)) if panels else None


def _profiles(found: Found) -> Panel | None:
    column = "grid_error_percent"
    rows = found.table("development", "problem", "view", DELTA, column)
    if rows is None:
        return None
    words = beside_published(found.figure("development", "pooled_r"), "r")
    return Panel(
        partial(_scatter, rows, column, "error of the frozen minimum, %", words),
        f"Δ against the error of the frozen minimum, {len(rows)} profiles.",
        "A profile on the line is one whose minimum lies where the score alone puts it.",
        _alt(rows, column, "the error of the frozen minimum", words),
    )


def _endpoints(found: Found) -> Panel | None:
    column = "delivered_error_percent"
    rows = found.table("fresh-noise", "problem", "replica", DELTA, column)
    if rows is None:
        return None
    words = beside_published(found.figure("fresh-noise", "aligned_absolute_r"), "r")
    return Panel(
        partial(_scatter, rows, column, "error of the delivered value, %", words),
        f"Δ against the delivered error, {len(rows)} trainings on fresh noise.",
        "A training on the line delivered what its own frozen field prefers.",
        _alt(rows, column, "the delivered error", words),
    )


def _scatter(rows: pd.DataFrame, column: str, words: str, remark: str, *, ax: Any) -> Any:
    """Draw Δ against an error: colour and fill by problem, shape by view where there are some."""
    shapes = _shapes(rows)
    top = _percent_axes(ax, np.concatenate([numbers(rows[DELTA]), numbers(rows[column])]))
    ax.plot([0, top], [0, top], color=colour("muted"), lw=1.0, ls="--", zorder=1)
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

    shade = colour(ROLES[problem])
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
    plain_style = {"ls": "", "ms": 4.6, "mec": colour("ink"), "mfc": "none", "mew": 0.9}
    views = [(shortened(v), plain_style | {"marker": shape}) for v, shape in shapes.items()]
    while entries or views:
        for kind in (entries, views):
            if kind:
                words, style = kind.pop(0)
                ax.plot([], [], label=words, **style)


def _percent_axes(ax: Any, values: FloatArray) -> float:
    """Give both axes one scale from zero, logarithmic above one percent; return its end."""
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
    told = f" {beyond} lie beyond {LARGEST:g} percent, at the edge." if beyond else ""
    numbers_told = "; ".join([*parts, remark] if remark else parts)
    return f"{len(rows)} points, Δ against {words}, in percent. {numbers_told}.{told}"


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


MODES = "modes_"
SUITES = ("development", "holdout")
# Bands from the leading modes on, dark to light, so that they differ in grey.
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

    shade = colour("theory")
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


COMPONENTS = (0, 1)
UNKNOWNS = ("λ₀", "λ₁")
DARCY_SHAPES = ("o", "s")
DARCY_ROLES = ("minus", "observe")
NAMES = {"pcgrad": "PCGrad", "patch": "PatchEvidence"}
STEPS = ("full", "diagonal")
# Fields that were hardly trained may step anywhere; beyond this a step stands at the edge.
DARCY_LARGEST = 1e3
# A logarithmic axis that is shorter has marks at 1, 2 and 5 too.
FEW_DECADES = 200.0


def darcy_drawing(found: Found) -> Drawing | None:
    """Return the figure of the Darcy fields, with the panels whose columns are there."""
    panels = [_steps(found, step) for step in STEPS]
    drawn = tuple(panel for panel in (*panels, _errors(found)) if panel is not None)
    title = "Steps of Darcy fields against the refined minimum"
    return Drawing("darcy", title, drawn, 3) if drawn else None


def _steps(found: Found, step: str) -> Panel | None:
    columns = [f"{kind}_{c}" for kind in ("refined", *STEPS) for c in COMPONENTS]
    rows = found.table("darcy", "method", *columns)
    if rows is None:
        return None
    # Both panels have one scale, so that they can be compared by eye.
    every = np.concatenate([numbers(rows[column]) for column in columns])
    limits = _limits(every)
    parts = [
        f"{UNKNOWNS[c]}: largest miss "
        + number(_largest(numbers(rows[f"{step}_{c}"]) - numbers(rows[f"refined_{c}"])), ".3g")
        for c in COMPONENTS
    ]
    reading = {
        "full": "A point on the line is a step that ends at the minimum.",
        "diagonal": "The diagonal step leaves the coupling of the two unknowns out.",
    }[step]
    return Panel(
        partial(_draw_steps, rows, step, limits),
        f"The {step} step against the displacement of the refined minimum, {len(rows)} fields.",
        reading,
        f"{step.capitalize()} step of {len(rows)} fields against the displacement of the refined "
        f"minimum, for both unknowns. {'; '.join(parts)}.",
        THIRD,
    )


def _limits(values: FloatArray) -> tuple[float, float]:
    """Return ends of an axis that shows all values, and zero."""
    known = np.clip(values[np.isfinite(values)], -DARCY_LARGEST, DARCY_LARGEST)
    low, high = float(known.min(initial=0.0)), float(known.max(initial=0.0))
    room = 0.06 * (high - low) or 1.0
    return low - room, high + room


def _draw_steps(rows: pd.DataFrame, step: str, limits: tuple[float, float], *, ax: Any) -> Any:
    ax.plot(limits, limits, color=colour("muted"), lw=1.0, ls="--", zorder=1)
    for component, shape in zip(COMPONENTS, DARCY_SHAPES, strict=True):
        for k, (_, own) in enumerate(rows.groupby("method", sort=False)):
            ax.plot(
                np.clip(numbers(own[f"refined_{component}"]), *limits),
                np.clip(numbers(own[f"{step}_{component}"]), *limits),
                **_style_darcy(k, shape),
            )
    for unknown, shape in zip(UNKNOWNS, DARCY_SHAPES, strict=True):
        hollow = _style_darcy(0, shape) | {"mec": colour("ink"), "mfc": "none"}
        ax.plot([], [], **hollow, label=unknown)
    for k, method in enumerate(dict.fromkeys(rows["method"])):
        ax.plot([], [], **_style_darcy(k, "o"), label=_name(method))
    ax.set_xlim(limits)
    ax.set_ylim(limits)
    label(ax, "refined displacement", f"{step} step")
    open_frame(ax)
    legend_above(ax, columns=2, margin=0.0)
    return ax


def _errors(found: Found) -> Panel | None:
    for names in (("full_error", "diagonal_error"), STEPS):
        rows = found.table("darcy", "method", "dataset", *names)
        if rows is not None:
            break
    else:
        return None
    full, diagonal = (numbers(rows[name]) for name in names)
    if not np.isfinite(full).any() or not np.isfinite(diagonal).any():
        return None
    middle = [number(float(np.nanmedian(values)), ".3g") for values in (full, diagonal)]
    wins = int((full < diagonal).sum())
    return Panel(
        partial(_draw_errors, rows, names),
        f"Relative error of both steps, {len(rows)} fields.",
        "Below the line the full step is nearer to the minimum than the diagonal one.",
        f"Relative error of the full step against that of the diagonal step, {len(rows)} fields: "
        f"medians {middle[0]} and {middle[1]}; the full step is nearer in {wins}.",
        THIRD,
    )


def _draw_errors(rows: pd.DataFrame, names: tuple[str, str], *, ax: Any) -> Any:
    from matplotlib.ticker import LogLocator, NullLocator

    every = np.concatenate([numbers(rows[name]) for name in names])
    known = every[np.isfinite(every) & (every > 0)]
    low, high = (known.min(), known.max()) if known.size else (0.1, 1.0)
    ends = float(low / 1.6), float(high * 1.6)
    marks = (1.0, 2.0, 5.0) if ends[1] < FEW_DECADES * ends[0] else (1.0,)
    ax.plot(ends, ends, color=colour("muted"), lw=1.0, ls="--", zorder=1)
    for k, (method, own) in enumerate(rows.groupby("method", sort=False)):
        full, diagonal = (np.maximum(numbers(own[name]), ends[0]) for name in names)
        ax.plot(diagonal, full, **_style_darcy(k, "o"), label=_name(method))
    for axis, scale, limits in (
        (ax.xaxis, ax.set_xscale, ax.set_xlim),
        (ax.yaxis, ax.set_yscale, ax.set_ylim),
    ):
        scale("log")
        limits(*ends)
        axis.set_major_locator(LogLocator(subs=marks, numticks=8))
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_locator(NullLocator())
    label(ax, "relative error, diagonal step", "relative error, full step")
    open_frame(ax)
    legend_above(ax, columns=2, margin=0.0)
    return ax


def _style_darcy(number_: int, shape: str) -> dict[str, Any]:
    """Return how a method is drawn: the first filled, the second hollow."""
    shade = colour(DARCY_ROLES[number_ % len(DARCY_ROLES)])
    fill = shade if number_ == 0 else "none"
    return {"ls": "", "marker": shape, "ms": 5, "mec": shade, "mew": 1.0, "mfc": fill, "zorder": 3}


def _name(method: object) -> str:
    return NAMES.get(str(method), shortened(method))


def _largest(values: FloatArray) -> float:
    return float(np.nanmax(np.abs(values), initial=0.0))


FIGURES = (score_drawing, mechanisms_drawing, darcy_drawing)
DPI = 150
# Neither dates nor versions: the same records give the same bytes.
METADATA: dict[str, Any] = {
    "png": {"Software": None},
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
}


def draw(records: Sequence[Mapping[str, Any]]) -> dict[str, Drawing]:
    """Return the figures of the paper whose tables are there, by name.

    A figure without any of its tables is left out, and so is a panel without its own.

    Parameters
    ----------
    records : sequence of mapping
        As ``blocks/NAME.json`` holds them.

    Returns
    -------
    dict of str to Drawing
        ``"score"``, ``"mechanisms"``, ``"darcy"``.
    """
    found = Found(records)
    drawings = (make(found) for make in FIGURES)
    return {drawing.name: drawing for drawing in drawings if drawing is not None}


def save(figures: Mapping[str, Drawing], directory: Path) -> list[Path]:
    """Write every figure as PNG and SVG, and return the files."""
    written = []
    for name, drawing in figures.items():
        with house_style():
            figure = drawing.figure()
            for suffix, metadata in METADATA.items():
                write = partial(figure.savefig, format=suffix, dpi=DPI, metadata=metadata)
                written.append(write_whole(Path(directory) / f"{name}.{suffix}", write))
    return written

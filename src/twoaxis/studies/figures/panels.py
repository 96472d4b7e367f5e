"""What the figures share: panels, drawings, and where their numbers come from.

A page gives each panel its own picture, so that a phone can show them one below the other; a file
holds all panels of a figure in one row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoaxis.report.theme import MIDDLE, SIZE, STYLE, inline_svg
from twoaxis.studies.fields import PROBLEMS, TITLES
from twoaxis.studies.record import table_frame
from twoaxis.text import shortened

FloatArray = NDArray[np.float64]
Record = Mapping[str, Any]

# Of a panel of which three stand beside each other.
THIRD = (3.2, 3.1)
# Room for a panel's letter, in inches.
LETTER = 0.4
# A file stands alone: it has a ground of its own, and no reader's font decides its letters.
ALONE: Any = STYLE | {
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
        """Return all panels in one row, as a matplotlib figure; call it in the style `ALONE`."""
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


# Color, marker and fill of each problem: fills tell them apart where there is no color.
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

"""What a drawing is: panels that stand beside each other in a file, and wherever a page has room.

A page gives each panel a picture of its own, so that a phone can show them one below the other;
a file holds them all in one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from twoaxis.report.svg import STYLE, inline_svg
from twoaxis.report.theme import MIDDLE, SIZE

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

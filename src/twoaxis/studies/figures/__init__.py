"""The paper's figures, drawn from the tables of a reproduction: one figure per file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from twoaxis.files import write_whole
from twoaxis.report.theme import house_style
from twoaxis.studies.figures.darcy import darcy_drawing
from twoaxis.studies.figures.mechanisms import mechanisms_drawing
from twoaxis.studies.figures.panels import ALONE, Drawing, Found, Panel, ends, printed_ends
from twoaxis.studies.figures.score import score_drawing

__all__ = ["Drawing", "Panel", "draw", "ends", "printed_ends", "save"]

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
        with house_style(ALONE):
            figure = drawing.figure()
            for suffix, metadata in METADATA.items():
                write = partial(figure.savefig, format=suffix, dpi=DPI, metadata=metadata)
                written.append(write_whole(Path(directory) / f"{name}.{suffix}", write))
    return written

"""A strip: our initialisations as dots, our interval as a band, the published value as a line.

Places along a strip are percentages of its width, so that one drawing fits a screen and a phone
while dots stay round. Every strip has a scale of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from twoaxis.report.words import number
from twoaxis.studies.drawings.found import ends, printed_ends
from twoaxis.studies.published import UNREADABLE
from twoaxis.studies.verdict import ENOUGH
from twoaxis.text import visible

# In percent of the width: room at both ends, so that no dot is cut.
MARGIN = 3.0
# In pixels: dots stand in turn at these heights, so that equal ones can be told apart.
HEIGHTS = (17, 13, 21)
MOST_DECIMALS = 8


class Strip(NamedTuple):
    """Where everything stands.

    Attributes
    ----------
    dots : list of (float, int)
        Percent of the width, and pixels from the top; the first is the figure that is shown.
    band, printed_band : tuple of float, optional
        Start and end of our interval and of the printed one.
    published : float
    low, high : str
        The numbers at both ends of the scale; empty where it has no length.
    alt : str
    """

    dots: list[tuple[float, int]]
    band: tuple[float, float] | None
    published: float
    printed_band: tuple[float, float] | None
    low: str
    high: str
    alt: str


def strip_of(figure: Mapping[str, Any]) -> Strip | None:
    """Return the strip of a figure, or nothing with too few initialisations or no finite scale."""
    values = [float(value) for value in figure["values"] if value is not None]
    if len(values) < ENOUGH or figure["ours"] is None:
        return None
    published = float(figure["published"])
    ours, printed = ends(figure), printed_ends(figure)
    shown = [*values, published, *(ours or ()), *(printed or ())]
    low, high = min(shown), max(shown)
    span = high - low
    if not math.isfinite(span):
        return None

    def place(value: float) -> float:
        return round(MARGIN + (100 - 2 * MARGIN) * (value - low) / span, 2) if span else 50.0

    return Strip(
        [(place(value), HEIGHTS[k % len(HEIGHTS)]) for k, value in enumerate(values)],
        None if ours is None else (place(ours[0]), place(ours[1])),
        place(published),
        None if printed is None else (place(printed[0]), place(printed[1])),
        _end(low, span),
        _end(high, span),
        _alt(figure, values),
    )


def _end(value: float, span: float) -> str:
    """Return the number at an end of the scale, with the digits that its length calls for."""
    if span == 0:
        return ""
    decimals = max(0, 1 - math.floor(math.log10(span)))
    return number(
        value, ".3g" if decimals > MOST_DECIMALS or abs(value) >= UNREADABLE else f".{decimals}f"
    )


def _alt(figure: Mapping[str, Any], values: list[float]) -> str:
    texts = figure["interval_text"]
    interval = f", interval {texts[0]} to {texts[1]}" if texts else ""
    return visible(
        f"Published {figure['printed']}; ours {figure['ours_text']}{interval}; "
        f"{len(values)} initialisations from {number(min(values))} to {number(max(values))}."
    )

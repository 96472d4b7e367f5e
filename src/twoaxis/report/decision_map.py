"""The decision map: what can be resolved against what the field prefers, and the route there.

Places for labels in a picture, so that they neither cover points nor each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from twoaxis.report.audited import Audited
from twoaxis.report.theme import SMALL_SIZE, axis_or_new, colour, label, plain, route_colour
from twoaxis.text import percent, shortened

Box = tuple[float, float, float, float]

GAP = 0.025


class Placer:
    """Writes texts into an axis where there is room, in the order in which they come.

    The room that a text takes is estimated from its characters and the size of the figure, in
    fractions of the axis: what is drawn must not depend on the fonts of the reader.
    """

    def __init__(self, ax: Any) -> None:
        self.ax = ax
        width, height = ax.get_figure(root=True).get_size_inches()
        box = ax.get_position()
        shown = (width * box.width, height * box.height)
        self.character = 0.62 * SMALL_SIZE / 72 / max(shown[0], 0.5)
        self.line = 1.25 * SMALL_SIZE / 72 / max(shown[1], 0.5)
        self.taken: list[Box] = []
        self.lines: list[Box] = []

    def occupy(self, x: float, y: float) -> None:
        """Keep the place of a marker free."""
        self.taken.append((x - GAP, x + GAP, y - GAP, y + GAP))

    def avoid_line(self, x: float | None = None, y: float | None = None) -> None:
        """Keep labels off a vertical line at `x` or a horizontal one at `y`."""
        if x is not None:
            self.lines.append((x - 0.01, x + 0.01, 0.0, 1.0))
        if y is not None:
            self.lines.append((0.0, 1.0, y - 0.01, y + 0.01))

    def size(self, words: str) -> tuple[float, float]:
        """Estimate width and height of a text."""
        lines = words.split("\n")
        return max(map(len, lines)) * self.character, len(lines) * self.line

    def beside(self, words: str, anchors: Sequence[tuple[float, float]]) -> Any:
        """Write a label next to a marker, or to whichever of several anchors has most room."""
        w, h = self.size(words)
        g = GAP + 0.01
        found = []
        for x, y in anchors:
            level, above, below = y - h / 2, y + g, y - g - h
            beside = [(left, low) for left in (x + g, x - g - w) for low in (level, above, below)]
            for left, low in [*beside, (x - w / 2, above), (x - w / 2, below)]:
                box = self._inside((left, left + w, low, low + h))
                found.append((box, bool(box[0] > x)))
        (left, right, low, _), on_right = min(found, key=lambda one: self._crowding(one[0]))
        text = self._text(words, left if on_right else right, low, "left" if on_right else "right")
        text.set_color(colour("ink"))
        return text

    def corner(self, words: str, span: tuple[float, float], rise: tuple[float, float]) -> Any:
        """Write into the emptiest corner of a cell."""
        w, h = self.size(words)
        pad = 0.02
        boxes = [
            (left, left + w, low, low + h)
            for low in (rise[1] - pad - h, rise[0] + pad)
            for left in (span[0] + pad, span[1] - pad - w)
        ]
        left, right, low, _ = min(boxes, key=self._crowding)
        near_left = left == boxes[0][0]
        return self._text(
            words, left if near_left else right, low, "left" if near_left else "right"
        )

    def write(self, words: str, spots: Sequence[tuple[float, float]]) -> Any:
        """Write centred at the first free spot."""
        w, h = self.size(words)
        boxes = [(x - w / 2, x + w / 2, y - h / 2, y + h / 2) for x, y in spots]
        best = min(boxes, key=self._crowding)
        return self._text(words, (best[0] + best[1]) / 2, best[2], "center")

    def _text(self, words: str, x: float, low: float, side: str) -> Any:
        w, h = self.size(words)
        left = {"left": x, "right": x - w, "center": x - w / 2}[side]
        self.taken.append((left, left + w, low, low + h))
        text = self.ax.text(
            x,
            low,
            words,
            transform=self.ax.transAxes,
            ha=side,
            va="bottom",
            multialignment=side,
            fontsize=SMALL_SIZE,
            color=colour("muted"),
            linespacing=1.2,
            zorder=7,
        )
        plain(text)
        if any(_overlap((left, left + w, low, low + h), line) for line in self.lines):
            ground = {"facecolor": colour("paper"), "alpha": 0.8, "edgecolor": "none", "pad": 1.0}
            text.set_bbox(ground)
        return text

    def _inside(self, box: Box) -> Box:
        """Shift a box to the side until it lies in the axis."""
        shift = min(0.0, 0.99 - box[1]) or max(0.0, 0.01 - box[0])
        return box[0] + shift, box[1] + shift, box[2], box[3]

    def _crowding(self, box: Box) -> float:
        """How much of a box is taken or outside the axis."""
        covered = sum(_overlap(box, other) for other in self.taken)
        covered += sum(_overlap(box, line) for line in self.lines)
        area = (box[1] - box[0]) * (box[3] - box[2])
        return covered + 2 * (area - _overlap(box, (0.0, 1.0, 0.0, 1.0)))


def _overlap(a: Box, b: Box) -> float:
    wide = min(a[1], b[1]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[2], b[2])
    return max(wide, 0.0) * max(high, 0.0)


SIZE = (4.8, 3.9)
# Below this many percent the scale is linear, so that zero has a place.
LINEAR = 0.1
LARGEST = 1e5
MARKERS = "osDv^P*X"
# More parameters than this have their names alone beside their markers.
CROWD = 2

# Cells as (low or high displacement, tight or weak observations); None is both.
AROUND_TRUTH = {
    ("small", "tight"): "inspect endpoint delivery",
    ("large", "tight"): "strengthen residual evidence",
    ("small", "weak"): "improve observations",
    ("large", "weak"): "co-design observations and residual evidence",
}
AROUND_CANDIDATE = {
    ("small", "tight"): "self-consistent",
    ("small", "weak"): "improve observations",
    ("large", None): "inspect endpoint delivery",
}


@dataclass(frozen=True)
class Place:
    """Where one parameter stands, in percent; NaN where a coordinate is missing."""

    name: str
    x: float
    y: float
    route: str
    trained: float = math.nan


def places_of(audited: Audited, names: list[str]) -> list[Place]:
    """Return the measured coordinates of parameters."""
    own = audited.around_truth and audited.cross_view
    return [
        Place(
            name,
            audited.displacement(name),
            audited.value("/verdict", "resolution_percent", name),
            audited.route(name),
            audited.value("/verdict", "training_preference_percent", name) if own else math.nan,
        )
        for name in names
    ]


def plot_decision_map(audit: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """Draw the measured coordinates on the decision map, with the tolerances as lines.

    Around a truth the map has four cells. Around a candidate the column of residual evidence
    does not exist: a displacement says where training stopped, not where it should have. A
    coordinate that is not known leaves a dashed line through all that it may be. A hollow
    marker is a value within the material tolerance.

    Parameters
    ----------
    audit : Audit or xarray.DataTree
    parameter : str, optional
        One parameter; by default all of them.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    audited = Audited.of(audit)
    names = audited.names if parameter is None else [audited.choose(parameter)]
    places = places_of(audited, names)
    ax = axis_or_new(ax, SIZE)
    limits = audited.tolerance("preference"), audited.tolerance("resolution")
    _scale(ax.set_xscale, ax.set_xlim, ax.xaxis, [limits[0], *(p.x for p in places)])
    _scale(ax.set_yscale, ax.set_ylim, ax.yaxis, [limits[1], *(p.y for p in places)])
    _name_axes(ax, audited)
    placer = Placer(ax)
    if not math.isnan(limits[0]):
        placer.avoid_line(*_fraction(ax, *limits))
    spots = [
        _draw_place(ax, place, MARKERS[k % len(MARKERS)], placer) for k, place in enumerate(places)
    ]
    for place, spot in zip(places, spots, strict=True):
        _write_place(place, spot, placer, len(names))
    if math.isnan(limits[0]):
        placer.write("no tolerance declared, and so no cells", [(0.5, 0.97), (0.5, 0.03)])
    else:
        cells = AROUND_TRUTH if audited.around_truth else AROUND_CANDIDATE
        _draw_cells(ax, cells, limits, {p.route for p in places}, placer)
    return ax


def _scale(set_scale: Any, set_limits: Any, axis: Any, values: list[float]) -> None:
    """Choose a scale that shows a tenth of a percent and several hundred alike."""
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    known = [min(v, LARGEST) for v in values if not math.isnan(v)]
    limit = values[0]
    threshold = LINEAR if math.isnan(limit) else min(LINEAR, 10 ** math.floor(math.log10(limit)))
    top = max([100.0, *(2.5 * v for v in known)])
    if not math.isnan(limit):
        top = max(top, 20 * limit)
    set_scale("symlog", linthresh=threshold, linscale=0.45)
    set_limits(0, top)
    powers = range(round(math.log10(threshold)), math.floor(math.log10(top)) + 1)
    axis.set_major_locator(FixedLocator([0.0, *(10.0**p for p in powers)]))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _name_axes(ax: Any, audited: Audited) -> None:
    statistic = "" if audited.statistic == "mean" else ", 90th percentile"
    if audited.around_truth:
        x = "field's displacement from the truth, %"
        y = f"matched error under repeated noise{statistic}, %"
    else:
        under = " under the training view" if audited.cross_view else ""
        start = "delivered value" if audited.kind == "point" else audited.center_word
        x = f"field's displacement from the {start}{under}, %"
        y = f"matched deviation under repeated noise{statistic}, %"
    label(ax, fill(x, 46), y)


def _fraction(ax: Any, x: float, y: float) -> tuple[float, float]:
    """Data to fractions of the axis."""
    point = ax.transAxes.inverted().transform(ax.transData.transform((x, y)))
    return float(point[0]), float(point[1])


def _draw_place(ax: Any, place: Place, marker: str, placer: Placer) -> tuple[float, float] | None:
    """Draw a marker, or a line and a marker on the margin; return its place in the axis."""
    x, y = min(place.x, LARGEST), min(place.y, LARGEST)
    if math.isnan(x) and math.isnan(y):
        return None
    shown = colour(route_colour(place.route))
    at_x, at_y = _fraction(ax, 0.0 if math.isnan(x) else x, 0.0 if math.isnan(y) else y)
    line = {"color": shown, "ls": (0, (4, 3)), "lw": 1.3, "zorder": 2}
    if math.isnan(y):
        ax.axvline(x, **line)
        placer.avoid_line(x=at_x)
        at_y = 1.0
    if math.isnan(x):
        ax.axhline(y, **line)
        placer.avoid_line(y=at_y)
        at_x = 1.0
    hollow = place.route in ("within tolerance", "undetermined")
    style = {"mec": shown, "transform": ax.transAxes, "clip_on": False, "zorder": 6}
    fill_colour = "none" if hollow else shown
    ax.plot([at_x], [at_y], marker, ms=9, mew=2, mfc=fill_colour, **style)
    placer.occupy(at_x, at_y)
    if not math.isnan(place.trained) and not math.isnan(y):
        other, _ = _fraction(ax, min(place.trained, LARGEST), y)
        ax.plot([at_x, other], [at_y, at_y], color=shown, lw=1, transform=ax.transAxes, zorder=4)
        ax.plot([other], [at_y], "d", ms=6, mfc="none", **style)
        placer.occupy(other, at_y)
        placer.avoid_line(y=at_y)
    return at_x, at_y


def _write_place(
    place: Place, spot: tuple[float, float] | None, placer: Placer, count: int
) -> None:
    """Write the name beside the marker and, where there is room for it, the coordinates."""
    name = shortened(place.name)
    if spot is None:
        words = f"{name}\nneither coordinate\nis known"
        placer.write(words, [(x, y) for y in (0.3, 0.75, 0.5) for x in (0.3, 0.5, 0.75)])
        return
    x, y = spot
    anchors = [spot]
    if math.isnan(place.y):
        anchors = [(x, 0.42), (x, 0.3), (x, 0.15), spot]
        words = f"{name}\n{percent(place.x)}\nresolution\nnot known"
    elif math.isnan(place.x):
        anchors = [(0.4, y), (0.2, y), spot]
        words = f"{name}\n{percent(place.y)}\ndisplacement\nnot determined"
    else:
        words = f"{name}\n{percent(place.x)}, {percent(place.y)}"
        if count == 1 and not math.isnan(place.trained):
            words += "\n(diamond: training view)"
    placer.beside(words if count <= CROWD else name, anchors)


def _draw_cells(
    ax: Any,
    cells: Any,
    limits: tuple[float, float],
    routes: set[str],
    placer: Placer,
) -> None:
    line = {"color": colour("muted"), "lw": 1.2, "zorder": 1}
    x, y = _fraction(ax, *limits)
    ax.axvline(limits[0], **line)
    if ("large", None) in cells:  # tight or weak makes no difference there
        ax.plot([0, x], [y, y], transform=ax.transAxes, **line)
    else:
        ax.axhline(limits[1], **line)
    spans = {"small": (0.0, x), "large": (x, 1.0)}
    heights = {"tight": (0.0, y), "weak": (y, 1.0), None: (0.0, 1.0)}
    for (column, row), route in cells.items():
        (left, right), (low, high) = spans[column], heights[row]
        active = route in routes
        if active:
            ax.fill_between(
                [left, right],
                low,
                high,
                color=colour(route_colour(route)),
                alpha=0.13,
                lw=0,
                transform=ax.transAxes,
                zorder=0,
            )
        words = fill(route, max(10, min(24, int(50 * (right - left)))))
        text = placer.corner(words, (left, right), (low, high))
        text.set_color(colour(route_colour(route)) if active else colour("muted"))
        text.set_fontweight("bold" if active else "normal")

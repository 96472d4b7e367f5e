"""The decision map: matched error against field displacement, tolerances and routes.

`Placer` finds places for labels, so that they cover neither points nor each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from twoaxis.diagnosis import Audit, Route
from twoaxis.diagnosis.decision_map import (
    AROUND_CANDIDATE,
    AROUND_TRUTH,
    CONSISTENT,
    TOLERATED,
    Cell,
)
from twoaxis.diagnosis.functions import deciding_node
from twoaxis.parameters import Parameter
from twoaxis.report.inputs import as_audit, choose
from twoaxis.report.theme import SMALL_SIZE, axis_or_new, color, label, named, plain, route_color
from twoaxis.text import percent, shortened, visible

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
        self.markers: list[tuple[float, float]] = []
        self.lines: list[Box] = []

    def occupy(self, x: float, y: float) -> None:
        """Keep the place of a marker free."""
        self.markers.append((x, y))
        self.taken.append(_around(x, y, GAP))

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

    def beside(
        self, words: str, anchors: Sequence[tuple[float, float]], of: Parameter, *, needed: bool
    ) -> None:
        """Write a label next to a marker, or to whichever of several anchors has most room.

        A label that is not needed is left out where it would cover something, or seem to belong
        to another marker. Close to other markers, a line leads from the label to its own.
        """
        w, h = self.size(words)
        g = GAP + 0.01
        found = []
        for x, y in anchors:
            level, above, below = y - h / 2, y + g, y - g - h
            beside = [(left, low) for left in (x + g, x - g - w) for low in (level, above, below)]
            for left, low in [*beside, (x - w / 2, above), (x - w / 2, below)]:
                box = self._inside((left, left + w, low, low + h))
                crowded = self._crowding(box) + self._ambiguity(box, (x, y), 2 * GAP)
                found.append((crowded, box, (x, y)))
        crowded, box, own = min(found, key=lambda one: one[0])
        if crowded > 0 and not needed:
            return
        left, right, low, _ = box
        on_right = left > own[0]
        if self._ambiguity(box, own, 4 * GAP) > 0:
            self._lead(box, own)
        text = self._text(words, left if on_right else right, low, "left" if on_right else "right")
        text.set_color(color("ink"))
        plain(text, of=of)

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
        """Write centerd at the first free spot."""
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
            color=color("muted"),
            linespacing=1.2,
            zorder=7,
        )
        plain(text)
        if any(_overlap((left, left + w, low, low + h), line) for line in self.lines):
            ground = {"facecolor": color("paper"), "alpha": 0.8, "edgecolor": "none", "pad": 1.0}
            text.set_bbox(ground)
        return text

    def _inside(self, box: Box) -> Box:
        """Shift a box to the side until it lies in the axis."""
        shift = min(0.0, 0.99 - box[1]) or max(0.0, 0.01 - box[0])
        return box[0] + shift, box[1] + shift, box[2], box[3]

    def _lead(self, box: Box, marker: tuple[float, float]) -> None:
        """Draw a line from the edge of a marker to the nearest point of a label."""
        x, y = marker
        end = min(max(x, box[0]), box[1]), min(max(y, box[2]), box[3])
        part = min(1.0, GAP / (math.dist(marker, end) or GAP))
        x, y = x + part * (end[0] - x), y + part * (end[1] - y)
        style = {"color": color("muted"), "lw": 0.8, "zorder": 5}
        self.ax.plot([x, end[0]], [y, end[1]], transform=self.ax.transAxes, **style)

    def _ambiguity(self, box: Box, own: tuple[float, float], reach: float) -> float:
        """How much of a box is within reach of markers other than its own."""
        near = [_around(x, y, reach) for x, y in self.markers if (x, y) != own]
        return sum(_overlap(box, other) for other in near)

    def _crowding(self, box: Box) -> float:
        """How much of a box is taken or outside the axis."""
        covered = sum(_overlap(box, other) for other in self.taken)
        covered += sum(_overlap(box, line) for line in self.lines)
        area = (box[1] - box[0]) * (box[3] - box[2])
        return covered + 2 * (area - _overlap(box, (0.0, 1.0, 0.0, 1.0)))


def _around(x: float, y: float, reach: float) -> Box:
    return x - reach, x + reach, y - reach, y + reach


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


@dataclass(frozen=True)
class Place:
    """Where one parameter stands, in percent; NaN where a coordinate is missing."""

    name: str
    parameter: Parameter
    x: float
    y: float
    route: Route
    trained: float = math.nan


def places_of(audit: Audit, names: list[str]) -> list[Place]:
    """Return the measured coordinates of parameters."""
    own = audit.around_truth and audit.cross_view
    return [
        Place(
            name,
            audit.parameters[name],
            _displacement(audit, name),
            audit.percent("resolution", name),
            audit.routes[name],
            audit.percent("training_preference", name) if own else math.nan,
        )
        for name in names
    ]


def _displacement(audit: Audit, name: str) -> float:
    """Return the size by which a parameter is placed on the map, in percent.

    Around a truth it is that of the audited view. Around a candidate it describes delivery, which
    only the training view can assess; around a chosen point it is the delivery gap.
    """
    own = audit.percent("preference", name)
    if audit.around_truth:
        return own
    trained = audit.percent("training_preference", name) if audit.cross_view else own
    gap = abs(audit.percent("gap", name))
    if audit.centered_on == "point" and not math.isnan(gap) and not math.isnan(trained):
        return gap
    return trained


def limits_of(audit: Audit) -> tuple[float, float]:
    """Return the tolerances of displacement and resolution; NaN where none is declared."""
    tolerance = audit.tolerance
    return (math.nan,) * 2 if tolerance is None else (tolerance.preference, tolerance.resolution)


def describe(audit: Audit) -> str:
    """Return coordinates, tolerances and routes as text."""

    def known(value: float) -> str:
        return "not known" if math.isnan(value) else percent(value)

    parts = [
        f"{visible(p.name)}: field displacement {known(p.x)}, {audit.matched_noun} {known(p.y)}, "
        f"route {p.route.value}"
        for p in places_of(audit, audit.names)
    ]
    limits = limits_of(audit)
    declared = (
        "no tolerance declared"
        if math.isnan(limits[0])
        else f"the tolerances are {percent(limits[0])} and {percent(limits[1])}"
    )
    return f"Decision map. {'; '.join(parts)}; {declared}."


def plot_decision_map(audit: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """Draw the measured coordinates on the decision map, with the tolerances as lines.

    Around a truth the map has four cells. Around a candidate the column of residual evidence
    does not exist: a displacement says where training stopped, not where it should have. A
    coordinate that is not known leaves a dashed line. A hollow marker is a value within the
    material tolerance, or an undetermined route.

    Parameters
    ----------
    audit : Audit
    parameter : str, optional
        One parameter; by default all of them.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    audit = as_audit(audit)
    names = audit.names if parameter is None else [choose(audit.names, parameter)]
    places = places_of(audit, names)
    ax = axis_or_new(ax, SIZE)
    limits = limits_of(audit)
    _scale(ax.set_xscale, ax.set_xlim, ax.xaxis, [limits[0], *(p.x for p in places)])
    _scale(ax.set_yscale, ax.set_ylim, ax.yaxis, [limits[1], *(p.y for p in places)])
    _name_axes(ax, audit)
    placer = Placer(ax)
    if not math.isnan(limits[0]):
        placer.avoid_line(*_fraction(ax, *limits))
    markers = _markers(places)
    spots = [_draw_place(ax, place, markers[place.name], placer) for place in places]
    deciding = [deciding_node(audit, group) for group in audit.functions.values()]
    # Of the nodes of a function, the deciding one is named first, and others where there is room.
    needed = [p.parameter.node is None or p.name in deciding or len(names) == 1 for p in places]
    for first in (True, False):
        for place, spot, need in zip(places, spots, needed, strict=True):
            if need is first:
                _write_place(place, spot, placer, len(names), need)
    if math.isnan(limits[0]):
        placer.write("no tolerance declared, so no cells", [(0.5, 0.97), (0.5, 0.03)])
    else:
        cells = AROUND_TRUTH if audit.around_truth else AROUND_CANDIDATE
        if Route.CONSISTENT_WITH_DATA in audit.routes.values():
            cells = CONSISTENT
        elif not audit.around_truth and Route.WITHIN_TOLERANCE in audit.routes.values():
            cells = TOLERATED
        _draw_cells(ax, cells, limits, {p.route for p in places}, placer)
    return ax


def _markers(places: list[Place]) -> dict[str, str]:
    """Return a marker for each parameter; the nodes of a function share one."""
    owners = [p.name if p.parameter.node is None else p.parameter.node.function for p in places]
    order = {owner: k for k, owner in enumerate(dict.fromkeys(owners))}
    return {
        p.name: MARKERS[order[owner] % len(MARKERS)]
        for p, owner in zip(places, owners, strict=True)
    }


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


def _name_axes(ax: Any, audit: Audit) -> None:
    mean = audit.tolerance is None or audit.tolerance.statistic == "mean"
    statistic = "mean" if mean else "90th percentile"
    if audit.around_truth:
        x = "field displacement from the truth, %"
    else:
        under = " under the training view" if audit.cross_view else ""
        start = "delivered value" if audit.centered_on == "point" else audit.center_word
        x = f"field displacement from the {start}{under}, %"
    label(ax, fill(x, 46), f"{audit.matched_noun} ({statistic}), %")


def _fraction(ax: Any, x: float, y: float) -> tuple[float, float]:
    """Data to fractions of the axis."""
    point = ax.transAxes.inverted().transform(ax.transData.transform((x, y)))
    return float(point[0]), float(point[1])


def _draw_place(ax: Any, place: Place, marker: str, placer: Placer) -> tuple[float, float] | None:
    """Draw a marker, or a line and a marker on the margin; return its place in the axis."""
    x, y = min(place.x, LARGEST), min(place.y, LARGEST)
    if math.isnan(x) and math.isnan(y):
        return None
    shown = color(route_color(place.route))
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
    hollow = place.route in (Route.WITHIN_TOLERANCE, Route.UNDETERMINED)
    style = {"mec": shown, "transform": ax.transAxes, "clip_on": False, "zorder": 6}
    fill_color = "none" if hollow else shown
    ax.plot([at_x], [at_y], marker, ms=9, mew=2, mfc=fill_color, **style)
    placer.occupy(at_x, at_y)
    if not math.isnan(place.trained) and not math.isnan(y):
        other, _ = _fraction(ax, min(place.trained, LARGEST), y)
        ax.plot([at_x, other], [at_y, at_y], color=shown, lw=1, transform=ax.transAxes, zorder=4)
        ax.plot([other], [at_y], "d", ms=6, mfc="none", **style)
        placer.occupy(other, at_y)
        placer.avoid_line(y=at_y)
    return at_x, at_y


def _write_place(
    place: Place, spot: tuple[float, float] | None, placer: Placer, count: int, needed: bool
) -> None:
    """Write the name beside the marker and, where there is room for it, the coordinates."""
    name = named(place.parameter, place.name)
    if spot is None:
        words = f"{shortened(place.name)}\nneither coordinate\nis known"
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
    words = words if count <= CROWD else name
    placer.beside(words, anchors, place.parameter, needed=needed)


def _draw_cells(
    ax: Any,
    cells: Mapping[Cell, Route],
    limits: tuple[float, float],
    routes: set[Route],
    placer: Placer,
) -> None:
    line = {"color": color("muted"), "lw": 1.2, "zorder": 1}
    x, y = _fraction(ax, *limits)
    ax.axvline(limits[0], **line)
    if ("large", None) in cells:  # tight or loose makes no difference there
        ax.plot([0, x], [y, y], transform=ax.transAxes, **line)
    else:
        ax.axhline(limits[1], **line)
    spans = {"small": (0.0, x), "large": (x, 1.0)}
    heights: dict[str | None, tuple[float, float]] = {
        "tight": (0.0, y),
        "loose": (y, 1.0),
        None: (0.0, 1.0),
    }
    for (column, row), route in cells.items():
        (left, right), (low, high) = spans[column], heights[row]
        active = route in routes
        if active:
            ax.fill_between(
                [left, right],
                low,
                high,
                color=color(route_color(route)),
                alpha=0.13,
                lw=0,
                transform=ax.transAxes,
                zorder=0,
            )
        words = fill(route.value, max(10, min(24, int(50 * (right - left)))))
        text = placer.corner(words, (left, right), (low, high))
        text.set_color(color(route_color(route)) if active else color("muted"))
        text.set_fontweight("bold" if active else "normal")

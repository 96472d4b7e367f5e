"""Places for labels in a picture, so that they neither cover points nor each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twoaxis.report.theme import SMALL_SIZE, colour, plain

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

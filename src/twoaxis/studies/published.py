"""The figures that the study printed, as data: one file a block, every number as it stands there.

Digits matter, because *exact* means the same to the printed digits; so numbers are kept as text.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

# Numbers from here on are written with an exponent.
UNREADABLE = 1e7

KINDS = {
    # What a figure is, and the range that it cannot leave.
    "correlation": (-1.0, 1.0),
    "positive": (0.0, float("inf")),
    "percent": (0.0, float("inf")),
    "signed": (float("-inf"), float("inf")),
    "count": (0.0, float("inf")),
    "share": (0.0, 1.0),
    "percentage": (0.0, 100.0),
}


@dataclass(frozen=True)
class Published:
    """One printed figure.

    Attributes
    ----------
    key : str
        The name under which the block measures it.
    label : str
        What it is, in words.
    printed : str
        As it stands in the paper: ``".960"``, ``"237/240"``, or a range ``".9656–.9659"``.
    kind : str
        One of `KINDS`.
    interval : tuple of str, optional
        The printed interval.
    bound : str
        ``"below"`` where the paper says that a number is smaller than the one printed, and
        ``"above"`` likewise.
    where : str
        The table or section.
    if_differs : str
        The most likely reason, shown where our figure differs.
    headline : bool
        Whether it is one of the main claims.
    chance : bool
        Whether it depends on noise or initialization.
    """

    key: str
    label: str
    printed: str
    kind: str
    interval: tuple[str, str] | None = None
    bound: str = ""
    where: str = ""
    if_differs: str = ""
    headline: bool = False
    chance: bool = True

    @property
    def value(self) -> float:
        """The printed number; of a count the numerator, of a range its middle."""
        numbers = [float(text) for text in self._numbers]
        return sum(numbers) / len(numbers)

    @property
    def _numbers(self) -> list[str]:
        return self.printed.split("/")[0].split("–")

    @property
    def of(self) -> int | None:
        """What a count is out of."""
        return int(self.printed.split("/")[1]) if "/" in self.printed else None

    @property
    def limits(self) -> tuple[float, float]:
        """The range that the figure cannot leave."""
        low, high = KINDS[self.kind]
        return low, float(self.of) if self.of is not None else high

    @property
    def ends(self) -> tuple[float, float]:
        """The printed interval or range, or the value twice."""
        low, high = self.interval or (self._numbers[0], self._numbers[-1])
        return float(low), float(high)

    def shown(self, number: float) -> str:
        """Return another number with as many digits as the printed one."""
        text = self._numbers[0]
        if not math.isfinite(number):
            return "undefined"
        if abs(number) >= UNREADABLE:
            return f"{number:.2e}"
        if "e" in text:
            return f"{number:.{len(text.split('e')[0].partition('.')[2])}e}"
        written = f"{number:.{len(text.partition('.')[2])}f}"
        if float(written) == 0:
            written = written.lstrip("-")
        return written

    def same(self, number: float) -> bool:
        """Whether a number prints like this one; a range is no single number."""
        return len(self._numbers) == 1 and float(self.shown(number)) == self.value


def published_figures(block: str) -> list[Published]:
    """Return the printed figures of a block, in their order."""
    text = (files("twoaxis.studies") / "published" / f"{block}.toml").read_text()
    return [_figure(entry) for entry in tomllib.loads(text)["figure"]]


def _figure(entry: dict[str, Any]) -> Published:
    ends = entry.pop("interval", None)
    figure = Published(**entry, interval=None if ends is None else (str(ends[0]), str(ends[1])))
    if figure.kind not in KINDS:
        raise ValueError(f"{figure.key}: a kind among {', '.join(KINDS)}, not {figure.kind!r}")
    if figure.bound not in ("", "below", "above"):
        raise ValueError(f"{figure.key}: bound is below or above, not {figure.bound!r}")
    return figure

"""The figures that the study printed, as data: one file a block, every number as it stands there.

Digits matter, because *exact* means the same to the printed digits; so numbers are kept as text.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from decimal import Decimal
from importlib.resources import files
from typing import Any, Literal, get_args

# What is drawn anew between two runs of the study: see `twoaxis.studies.verdict`.
Chance = Literal["none", "initialization", "noise"]

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
    chance : {"initialization", "noise", "none"}
        What it depends on: initializations on the study's own data, noise as well, or nothing.
    precise : str
        The same number with more digits, where the paper prints it twice. It is the one that is
        judged, so that both places have one verdict.
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
    chance: Chance = "initialization"
    precise: str = ""

    @property
    def value(self) -> float:
        """The printed number; of a count the numerator, of a range its middle."""
        numbers = [float(text) for text in _numbers(self.precise or self.printed)]
        return sum(numbers) / len(numbers)

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
    def rounded(self) -> tuple[float, float]:
        """All numbers that would be printed like this one; what a bound allows."""
        numbers = _numbers(self.precise or self.printed)
        half = 0.0 if self.kind == "count" else max(map(_half_a_digit, numbers))
        low, high = float(numbers[0]) - half, float(numbers[-1]) + half
        if self.bound:
            return (-math.inf, high) if self.bound == "below" else (low, math.inf)
        return low, high

    def shown(self, number: float) -> str:
        """Return another number with as many digits as the printed one."""
        text = _numbers(self.printed)[0]
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
        numbers = _numbers(self.printed)
        single = len(numbers) == 1 and math.isfinite(number)
        return single and float(self.shown(number)) == float(numbers[0])


def published_figures(block: str) -> list[Published]:
    """Return the printed figures of a block, in their order.

    ``chance`` at the head of a file holds for all figures that do not state it themselves.
    """
    text = (files("twoaxis.studies") / "published" / f"{block}.toml").read_text()
    found = tomllib.loads(text)
    common = {name: value for name, value in found.items() if name != "figure"}
    return [_figure(common | entry) for entry in found["figure"]]


def _numbers(text: str) -> list[str]:
    """Return the printed numbers: the ends of a range, the numerator of a count, or the one."""
    return text.split("/")[0].split("–")


def _half_a_digit(text: str) -> float:
    """Return half a unit of the last printed digit.

    >>> _half_a_digit(".960"), _half_a_digit("615")
    (0.0005, 0.5)
    """
    exponent = Decimal(text).as_tuple().exponent
    return float(Decimal(5).scaleb(int(exponent) - 1))


def _figure(entry: dict[str, Any]) -> Published:
    ends = entry.pop("interval", None)
    figure = Published(**entry, interval=None if ends is None else (str(ends[0]), str(ends[1])))
    if figure.kind not in KINDS:
        raise ValueError(f"{figure.key}: a kind among {', '.join(KINDS)}, not {figure.kind!r}")
    if figure.chance not in get_args(Chance):
        raise ValueError(f"{figure.key}: chance among {get_args(Chance)}, not {figure.chance!r}")
    if figure.bound not in ("", "below", "above"):
        raise ValueError(f"{figure.key}: bound is below or above, not {figure.bound!r}")
    return figure

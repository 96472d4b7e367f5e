"""All stored verdicts, read again by another route: from printed texts as decimal numbers."""

from __future__ import annotations

import json
import math
import statistics
import tomllib
from decimal import Decimal
from pathlib import Path

import pytest
from scipy import special

import twoaxis

ROOT = Path(__file__).parents[2]
STORED = ROOT / "results" / "reproduction" / "blocks"
PRINTED = Path(twoaxis.__file__).parent / "studies" / "published"
# A block of our own that has no printed figures.
UNPRINTED = "generating-solver"
LIMITS = {"correlation": (-1, 1), "percentage": (0, 100), "share": (0, 1), "signed": (-1e9, 1e9)}


def rounded(text: str, kind: str) -> tuple[float, float, float]:
    """Lowest and highest number that is printed so, and the middle."""
    numbers = [Decimal(part.lstrip("+")) for part in text.split("/")[0].split("–")]
    digit = max(Decimal((0, (1,), number.as_tuple().exponent)) for number in numbers)
    half = 0 if kind == "count" else digit / 2
    return float(numbers[0] - half), float(numbers[-1] + half), float(sum(numbers) / len(numbers))


def predicted(values: list[float], printed: str, kind: str) -> tuple[float, float]:
    low, high = LIMITS.get(kind, (0, 1e9))
    high = float(printed.split("/")[1]) if "/" in printed else high
    n = len(values)
    reach = special.stdtrit(n - 1, 0.975) * math.sqrt(statistics.variance(values) * (n + 1) / n)
    middle = statistics.fmean(values)
    return min(max(middle - reach, low), high), min(max(middle + reach, low), high)


def prints_like(number: float, text: str) -> bool:
    wanted = Decimal(text.split("/")[0].lstrip("+"))
    return Decimal(number).quantize(Decimal((0, (1,), wanted.as_tuple().exponent))) == wanted


def verdict(figure: dict, printed: dict, chance: str) -> str:
    low, high, middle = rounded(printed.get("precise", printed["printed"]), printed["kind"])
    ends = figure["interval"]
    if chance == "initialization":
        ends = predicted(figure["values"], printed["printed"], printed["kind"])
        assert figure["interval"] == pytest.approx(ends, rel=1e-9, abs=1e-12), figure["key"]
    if chance == "none" and prints_like(figure["ours"], printed["printed"]):
        return "exact"
    first, last = ends or (figure["ours"], figure["ours"])
    if printed.get("bound") == "below":
        return "agrees" if first <= high else "differs"
    assert ends or chance == "none", figure["key"]
    if not (first <= high and low <= last):
        return "differs"
    return "not contradicted" if 0 < last - first >= abs(middle) else "agrees"


JUDGED = sorted(path for path in STORED.glob("*.json") if path.stem != UNPRINTED)


@pytest.mark.parametrize("path", JUDGED, ids=lambda path: path.stem)
def test_every_stored_verdict_follows_from_the_printed_text(path):
    record = json.loads(path.read_text())
    table = tomllib.loads((PRINTED / f"{record['figures_of']}.toml").read_text())
    printed = {figure["key"]: figure for figure in table["figure"]}
    assert printed.keys() == {figure["key"] for figure in record["figures"]}
    for figure in record["figures"]:
        own = printed[figure["key"]]
        chance = own.get("chance", table.get("chance", "initialization"))
        assert figure["verdict"] == verdict(figure, own, chance), figure["key"]

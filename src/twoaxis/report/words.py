"""Words and numbers as pictures and pages show them; strange names stay names."""

from __future__ import annotations

import math

from twoaxis.text import visible

# Longer names are cut in pictures; tables give them whole.
NAME_LENGTH = 22
# A smaller percentage is zero but for rounding.
ROUNDING = 1e-9


def shortened(text: object, length: int = NAME_LENGTH) -> str:
    """Return a printable text of at most `length` characters."""
    shown = visible(text)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def number(value: float, form: str = ".4g") -> str:
    """Return a number with a true minus sign, or a dash where there is none.

    >>> number(-0.25), number(float("nan"))
    ('−0.25', '–')
    """
    if math.isnan(value):
        return "–"
    return format(value, form).replace("-", "−")


def percent(value: float, sign: str = "") -> str:
    r"""Return a percentage with three digits.

    >>> percent(12.345)
    '12.3\xa0%'
    """
    if abs(value) < ROUNDING:
        return "0\xa0%"
    return "–" if math.isnan(value) else f"{number(value, sign + '.3g')}\xa0%"


def quantity(value: float, unit: str) -> str:
    """Return a number with its unit, as the tables of actions show it.

    >>> quantity(0.25, "m"), quantity(2.0, "")
    ('0.25 m', '2')
    """
    return percent(value) if unit == "%" else f"{number(value, '.5g')} {visible(unit)}".strip()


def around(kind: str, centers: dict[str, float]) -> str:
    """Say around what an audit is made: a truth, a candidate or a chosen point."""
    values = ", ".join(f"{visible(n)} = {number(value, '.6g')}" for n, value in centers.items())
    return {
        "truth": f"Audit around the truth {values}",
        "delivered": f"Audit of the stability around the candidate {values}",
    }.get(kind, f"Audit of the stability around the chosen point {values}")


def sentence(words: str) -> str:
    """Return words with a capital at the start and a full stop at the end."""
    text = visible(" ".join(words.split()))
    if not text:
        return ""
    end = "" if text[-1] in ".?!" else "."
    return text[0].upper() + text[1:] + end

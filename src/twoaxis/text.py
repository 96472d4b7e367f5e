"""Text and numbers as terminal, tables, pictures and pages show them.

A name or a sentence that a file holds is quoted in errors, warnings, tables and pages. Whoever
wrote the file must not be able to command the terminal that shows it: `visible` writes out every
character that is not printable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

# Longer names are cut in pictures; tables give them whole.
NAME_LENGTH = 22
# A smaller percentage is zero but for rounding.
ROUNDING = 1e-9
# A larger one says no more than that it is large.
BEYOND_SENSE = 1_000_000
# Smaller numbers are written out.
PLAIN = 1e6


def visible(text: Any, *, most: int | None = None, lines: bool = False) -> str:
    r"""Return a text in which every character that is not printable is written out.

    A terminal obeys escape sequences, a line break fakes a line of output, and a change of
    direction reorders what is read: all of them become letters.

    Parameters
    ----------
    text : str
        Anything else is turned into text first.
    most : int, optional
        Cut what is longer, and show that it was cut.
    lines : bool
        Keep line breaks, in a text that has lines of its own.

    Examples
    --------
    >>> print(visible("finished\x1b[2J\nall is well"))
    finished\x1b[2J\nall is well
    >>> visible("a long story", most=6)
    'a long...'
    """
    plain = str(text)
    if most is not None and len(plain) > most:
        plain = plain[:most] + "..."
    if lines:
        return "\n".join(visible(line) for line in plain.split("\n"))
    return "".join(c if c.isprintable() else _written_out(c) for c in plain)


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def shortened(text: object, length: int = NAME_LENGTH) -> str:
    """Return a printable text of at most `length` characters."""
    shown = visible(text)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def listed(words: Sequence[str]) -> str:
    """Return words with commas, and the last with "and".

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def sentence(words: str) -> str:
    """Return words with a capital at the start and a full stop at the end."""
    text = visible(" ".join(words.split()))
    if not text:
        return ""
    end = "" if text[-1] in ".?!" else "."
    return text[0].upper() + text[1:] + end


def number(value: float, form: str = ".4g") -> str:
    """Return a number with a true minus sign, or a dash where there is none.

    Up to a million it has no exponent.

    >>> number(-0.25), number(float("nan")), number(6503.2, ".2g")
    ('−0.25', '–', '6500')
    """
    if math.isnan(value):
        return "–"
    shown = format(value, form)
    if "e+" in shown and abs(value) < PLAIN:
        shown = format(float(shown), f"{'+' if '+' in form else ''}.0f")
    return shown.replace("-", "−")


def percent(value: float, sign: str = "") -> str:
    """Return a percentage with three digits; one that is beyond all sense as a bound.

    >>> percent(12.345), percent(-5.0, "+"), percent(5.2e40)
    ('12.3%', '−5%', '> 1,000,000%')
    """
    if abs(value) < ROUNDING:
        return "0%"
    if abs(value) > BEYOND_SENSE:
        return f"> {BEYOND_SENSE:,}%" if value > 0 else f"< −{BEYOND_SENSE:,}%"
    return "–" if math.isnan(value) else f"{number(value, sign + '.3g')}%"


def p_value(value: float, digits: int = 2) -> str:
    """Return a p-value with a few digits, and one that underflows as a bound.

    >>> p_value(0.01234), p_value(0.0)
    ('0.012', '< 1e−300')
    """
    return "< 1e−300" if value == 0 else number(value, f".{digits}g")


def p_equals(value: float) -> str:
    """Return a p-value with its relation, to be written after "p".

    >>> p_equals(0.01234), p_equals(0.0)
    ('= 0.012', '< 1e−300')
    """
    return p_value(value) if value == 0 else f"= {p_value(value)}"


def quantity(value: float, unit: str) -> str:
    """Return a number with its unit, as the tables of actions show it.

    >>> quantity(0.25, "m"), quantity(2.0, ""), quantity(0.012345, "p-value")
    ('0.25 m', '2', '0.0123')
    """
    if unit == "p-value":
        return p_value(value, 3)
    return percent(value) if unit == "%" else f"{number(value, '.5g')} {visible(unit)}".strip()


def measured(value: float, low: float = math.nan, high: float = math.nan) -> str:
    """Return a measured value to the digits that its uncertainty leaves; to four without one.

    As the Particle Data Group rounds: to two digits of a standard error that begins with 1.00 to
    3.54, and to one digit of any other.

    >>> measured(0.40012, 0.388, 0.4125), measured(0.40012, 0.395, 0.405), measured(0.0144321)
    ('0.400', '0.4001', '0.01443')
    """
    width = (high - low) / 4  # about a standard error, for an interval of 95%
    if not (math.isfinite(width) and width > 0 and value):
        return number(value)
    order = math.floor(math.log10(width))
    decimals = (1 if width / 10**order < 3.55 else 0) - order
    digits = math.floor(math.log10(abs(value))) + 1 + decimals
    if not 1 <= digits <= 12 or not -4 <= math.log10(abs(value)) < 6:
        return number(value, f".{min(max(digits, 2), 12)}g")
    return number(round(value, decimals) + 0.0, f".{max(decimals, 0)}f")

"""Text from files, made safe to look at.

A name or a sentence that a file holds is quoted in errors, warnings, tables and pages. Whoever
wrote the file must not be able to command the terminal that shows it.
"""

from __future__ import annotations

from typing import Any

# The space before a percent sign, at which no line is broken. It shows as a space.
UNBROKEN = "\xa0"


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
    return "".join(c if c.isprintable() or c == UNBROKEN else _written_out(c) for c in plain)


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")

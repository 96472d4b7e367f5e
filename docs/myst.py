"""Texts, numbers, lists and tables as Markdown, in which strange texts stay texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# What Markdown, tables, formulas and roles would take for their own.
SPECIAL = re.compile(r"([\\`*_\[\]<>|$~&{}#])")

# A sign before a number; that of an exponent stays.
MINUS = re.compile(r"(?<![\w.])-(?=[\d.])")


def table(heads: Sequence[str], sides: str, rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; `sides` has an l or r for each column, missing cells are empty."""
    rule = ["---" if side == "l" else "--:" for side in sides]
    lines = [list(heads), rule, *map(list, rows)]
    full = [line + [""] * (len(sides) - len(line)) for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in full)


def compact(shown: str) -> str:
    """Return a table in small print whose first column has room for words."""
    return f"```{{rst-class}} compact\n```\n\n{shown}"


def escaped(text: str) -> str:
    """Return a text that Markdown shows as it stands."""
    return SPECIAL.sub(r"\\\1", text)


def value(text: str, interval: str, mark: str = "") -> str:
    """Return a number with its interval, which may go to a second line as a whole."""
    shown = _number(text)
    if interval:
        shown += " " + _number(interval) + (f"{{sup}}`{mark}`" if mark else "")
    return shown


def _number(text: str) -> str:
    """Return one or two numbers in one piece, with true minus signs."""
    signed = MINUS.sub("\N{MINUS SIGN}", text)
    return escaped(signed).replace(" ", "\N{NO-BREAK SPACE}")


def many(count: int, word: str) -> str:
    """Return a count with its word, in the plural where it is not one."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def sentence(words: str) -> str:
    """Return words with a capital at the start and a full stop at the end."""
    return words[:1].upper() + words[1:] + "."


def code(text: str) -> str:
    """Return a text as code, whatever backticks it holds."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"


def bullets(items: Iterable[str]) -> str:
    """Return a list of items that are Markdown already."""
    return "\n".join(f"- {item}" for item in items)


def numbered(items: Iterable[str]) -> str:
    """Return a numbered list of items that are Markdown already."""
    return "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1))


def paragraphs(*parts: str) -> str:
    """Return parts with an empty line between them; empty ones are left out."""
    return "\n\n".join(part for part in parts if part) + "\n"

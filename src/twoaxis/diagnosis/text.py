"""An audit laid out: for a terminal of eighty columns, and for a notebook."""

from __future__ import annotations

from html import escape
from textwrap import wrap
from typing import Any

import xarray as xr

from twoaxis.diagnosis.routes import Route
from twoaxis.diagnosis.rows import (
    direction_rows,
    headline,
    parameter_rows,
    printable,
    resimulation_rows,
    resimulation_title,
    view_in_words,
)
from twoaxis.diagnosis.tree import group_of

WIDTH = 80
NAME_WIDTH = 20


def as_text(tree: xr.DataTree) -> str:
    """Return the audit as lines of at most eighty columns."""
    lines = [*_wrapped(headline(tree)), *_wrapped(f"View: {view_in_words(tree)}"), ""]
    again = resimulation_rows(tree)
    if again:  # the check that users ask for first
        lines += _wrapped(resimulation_title(tree))
        for label, *cells in again:
            lines.append(_cut(f"  {label:<11}" + "".join(f"{cell:>16}" for cell in cells)))
        lines.append("")
    lines += _wrapped(f"Route: {tree.attrs['route']}")
    lines += _wrapped(_sentence(str(tree.attrs["reason"])), "  ")
    lines += _wrapped(Route(str(tree.attrs["route"])).advice, "  ")
    head = f"  {'':<24}{'measured':>11}{'tolerated':>11}"
    for name, rows in parameter_rows(tree).items():
        lines += ["", _cut(_short(name) + head[len(_short(name)) :]).rstrip()]
        for row in rows:
            line = f"  {row.label:<24}{row.measured:>11}{row.tolerated:>11}  {row.note}"
            lines.append(_cut(line.rstrip()))
    directions = direction_rows(tree)
    if directions:
        lines += ["", "Eigen-directions, weakest first"]
        for line in directions:
            lines += _wrapped(line, "  ")
    messages = [str(message) for message in group_of(tree, "/")["message"].values]
    if messages:
        lines.append("")
    for message in messages:
        lines += _wrapped(message, "! ", "  ")
    return "\n".join(lines)


def as_html(tree: xr.DataTree) -> str:
    """Return the same for a notebook; all that came from elsewhere is escaped."""
    route = Route(str(tree.attrs["route"]))
    parts = [
        f"<p>{_html(headline(tree))}<br>View: {_html(view_in_words(tree))}</p>",
        f"<p><strong>Route: {_html(route.value)}</strong><br>"
        f"{_html(_sentence(str(tree.attrs['reason'])))}<br>{_html(route.advice)}</p>",
    ]
    again = resimulation_rows(tree)
    if again:
        body = "".join(_html_row(row) for row in again[1:])
        head = _html_row(again[0], "th")
        parts.append(f"<p>{_html(resimulation_title(tree))}</p><table>{head}{body}</table>")
    for name, rows in parameter_rows(tree).items():
        head = _html_row((name, "measured", "tolerated", ""), "th")
        parts.append(f"<table>{head}{''.join(_html_row(row) for row in rows)}</table>")
    directions = direction_rows(tree)
    if directions:
        items = "".join(f"<li>{_html(line)}</li>" for line in directions)
        parts.append(f"<p>Eigen-directions, weakest first</p><ul>{items}</ul>")
    messages = "".join(f"<li>{_html(str(m))}</li>" for m in group_of(tree, "/")["message"].values)
    return "\n".join(parts) + (f"<ul>{messages}</ul>" if messages else "")


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:].rstrip(".") + "."


def _short(name: str) -> str:
    return name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + "…"


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def _wrapped(text: str, first: str = "", rest: str | None = None) -> list[str]:
    later = first if rest is None else rest
    shown = printable(" ".join(text.split()))
    return wrap(shown, WIDTH, initial_indent=first, subsequent_indent=later) or [first]


def _html(text: Any) -> str:
    return escape(printable(str(text)))


def _html_row(cells: tuple[str, ...], tag: str = "td") -> str:
    return "<tr>" + "".join(f"<{tag}>{_html(cell)}</{tag}>" for cell in cells) + "</tr>"

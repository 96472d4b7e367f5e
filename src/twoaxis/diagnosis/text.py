"""An audit laid out for a terminal of eighty columns; the page shows the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

import xarray as xr

from twoaxis.diagnosis.actions import Action
from twoaxis.diagnosis.decision_map import Route
from twoaxis.report.audited import Audited, around
from twoaxis.report.tables import coordinate_rows, direction_rows, resimulation_rows
from twoaxis.text import sentence, shortened, visible

WIDTH = 80
NAME_WIDTH = 20


def as_text(tree: xr.DataTree, actions: Sequence[Action] = ()) -> str:
    """Return the audit, and what to do about it, as lines of at most eighty columns."""
    audited = Audited.of(tree)
    lines = [
        *_wrapped(around(audited.kind, audited.centers)),
        *_wrapped(f"View: {_view_in_words(tree)}"),
        "",
        *_resimulation(audited),  # the check that users ask for first
        *_wrapped(f"Route: {tree.attrs['route']}"),
        *_wrapped(sentence(str(tree.attrs["reason"])), "  "),
        *_wrapped(Route(str(tree.attrs["route"])).advice, "  "),
    ]
    head = f"  {'':<24}{'measured':>11}{'tolerated':>11}"
    for name in audited.names:
        title = shortened(name, NAME_WIDTH)
        lines += ["", title + head[len(title) :]]
        for row in coordinate_rows(audited, name):
            said = "; ".join(part for part in (row.reading, row.note) if part)
            line = f"  {row.label:<24}{row.measured:>11}{row.tolerated:>11}  {said}"
            lines.append(_cut(line.rstrip()))
    directions = direction_rows(audited)
    if directions:
        lines += ["", "Eigen-directions, weakest first"]
        for one in directions:
            told = f"{one.words} ({one.status}): displacement {one.displacement}; {one.route}"
            lines += _wrapped(told, "  ")
    for action in actions:
        lines += ["", *_wrapped(f"To do: {action.title}")]
        for paragraph in action.paragraphs:
            lines += _wrapped(paragraph, "  ")
    messages = audited.messages()
    if messages:
        lines.append("")
    for message in messages:
        lines += _wrapped(message, "! ", "  ")
    return "\n".join(lines)


def _resimulation(audited: Audited) -> list[str]:
    rows = resimulation_rows(audited)
    if not rows:
        return []
    again = audited.need("/resimulation").attrs
    lines = _wrapped(
        f"Put back into the solver, against {int(again['observations'])} observations "
        f"(layout {again['layout']}; misfit in standard deviations of the noise)"
    )
    head = ("rms misfit", "chi2 / freedom", "deviance", "p")
    lines.append(f"  {'':<11}" + "".join(f"{cell:>16}" for cell in head))
    for row in rows:
        # Why a value could not be simulated stands among the messages.
        cells = ["failed"] if row.status else [row.rms, row.reduced, row.deviance, row.p_value]
        lines.append(f"  {row.label:<11}" + "".join(f"{cell:>16}" for cell in cells))
    return [*lines, ""]


def _view_in_words(tree: xr.DataTree) -> str:
    """Name the audited view, and the training view where that is another one."""
    attributes = tree.attrs
    if attributes["view_relation"] == "another view":
        return f"{attributes['view']}; the field was trained under {attributes['training_view']}"
    return f"{attributes['view']} ({attributes['view_relation']})"


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def _wrapped(text: str, first: str = "", rest: str | None = None) -> list[str]:
    later = first if rest is None else rest
    shown = visible(" ".join(text.split()))
    return wrap(shown, WIDTH, initial_indent=first, subsequent_indent=later) or [first]

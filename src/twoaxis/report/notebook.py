"""Results in a notebook: HTML fragments with their own styles, which affect nothing around them."""

from __future__ import annotations

from html import escape
from typing import Any

from twoaxis.diagnosis import Audit
from twoaxis.report.html import colors, heading, measured, template
from twoaxis.report.sections import map_section, profile_section
from twoaxis.text import visible


def audit_fragment(audit: Audit) -> str:
    """Return verdict, table, decision map and profile of an audit."""
    pictures = [*map_section(audit).pictures, *profile_section(audit).pictures]
    fragment: str = template("notebook.html").render(
        **heading(audit), **measured(audit), pictures=pictures, **colors()
    )
    return fragment


def table_fragment(result: Any) -> str:
    """Return the first line, the table and the messages of any other result."""
    first = repr(result).splitlines()[0]
    table = result.summary().map(lambda v: visible(v) if isinstance(v, str) else v)
    table = table.rename(index=_shown, columns=_shown)
    html = table.to_html(float_format=lambda v: f"{v:.5g}", border=0, escape=True)
    messages = "".join(
        f"<li>{escape(visible(message.text))}</li>" for message in getattr(result, "messages", ())
    )
    listed = f"<ul>{messages}</ul>" if messages else ""
    return f"<div><p>{escape(visible(first))}</p>{html}{listed}</div>"


def _shown(label: Any) -> Any:
    return visible(label) if isinstance(label, str) else label

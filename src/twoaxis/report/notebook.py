"""Results in a notebook: HTML fragments with their own styles, which affect nothing around them."""

from __future__ import annotations

from typing import Any

from twoaxis.diagnosis import Audit
from twoaxis.report.html import (
    TWO_AXES,
    colors,
    heading,
    measured,
    questions,
    result_pictures,
    template,
)
from twoaxis.report.sections import (
    data_section,
    function_section,
    map_section,
    parameters_section,
    profile_section,
)
from twoaxis.text import visible

# Of results with many parameters, or many rows, a notebook shows the first.
MOST_PICTURES = 3
MOST_ROWS = 30


def audit_fragment(audit: Audit) -> str:
    """Return answer, questions, table and the leading pictures of an audit."""
    several = len(audit.parameters.scalars) > 1
    functions = [function_section(audit, name) for name in audit.parameters.functions]
    pictures = [
        *data_section(audit).pictures[:1],
        *(section.pictures[0] for section in functions),
        *(parameters_section(audit).pictures[:1] if several else ()),
        *map_section(audit).pictures,
        *profile_section(audit, close=False).pictures,
    ]
    fragment: str = template("notebook.html").render(
        **heading(audit),
        **measured(audit),
        questions=questions(audit),
        pictures=pictures,
        **colors(),
    )
    return fragment


def table_fragment(result: Any) -> str:
    """Return the first line, the table, the messages and the picture of any other result."""
    table = result.summary().map(lambda v: visible(v) if isinstance(v, str) else v)
    table = table.rename(index=_shown, columns=_shown)
    rows = table.to_html(
        float_format=lambda v: f"{v:.5g}", border=0, escape=True, max_rows=MOST_ROWS
    )
    fragment: str = template("notebook_result.html").render(
        title=visible(repr(result).splitlines()[0]),
        table=rows,
        messages=[visible(message.text) for message in getattr(result, "messages", ())],
        pictures=result_pictures(result, MOST_PICTURES),
        wide=result.schema in TWO_AXES,
        **colors(),
    )
    return fragment


def _shown(label: Any) -> Any:
    return visible(label) if isinstance(label, str) else label

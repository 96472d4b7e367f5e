"""The audit in a notebook: verdict, table, decision map and profile, in styles of their own."""

from __future__ import annotations

from typing import Any

from twoaxis.report.audited import Audited
from twoaxis.report.page import colours, heading, measured, template
from twoaxis.report.pictures import map_section, profile_section


def notebook_html(audit: Any, *, advice: str = "") -> str:
    """Return the body of ``_repr_html_``: an HTML fragment that disturbs nothing around it.

    Parameters
    ----------
    audit : Audit or xarray.DataTree
    advice : str
        What the route asks the reader to do, as a sentence.
    """
    audited = Audited.of(audit)
    pictures = [*map_section(audited).pictures, *profile_section(audited).pictures]
    fragment: str = template("notebook.html").render(
        **heading(audited, advice), **measured(audited), pictures=pictures, **colours()
    )
    return fragment

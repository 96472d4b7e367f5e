"""The page of an audit: one self-contained HTML file.

It holds no script and asks nobody for anything. All that came from a file or a user passes
through the template's escaping; pictures are SVG elements whose texts are escaped where they are
drawn. The same audit gives the same bytes.

The audit in a notebook: verdict, table, decision map and profile, in styles of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from twoaxis.report.audited import MISSING, Audited, around
from twoaxis.report.pictures import Missing, map_section, profile_section, sections
from twoaxis.report.tables import coordinate_rows, direction_rows, resimulation_rows
from twoaxis.report.theme import PALETTE, route_colour
from twoaxis.text import number, percent, quantity, sentence, visible

DECLARED = "declared"


def render(audit: Any, *, advice: str = "", actions: Sequence[Any] = ()) -> str:
    """Return the page of an audit as HTML text.

    Parameters
    ----------
    audit : Audit or xarray.DataTree
    advice : str
        What the route asks the reader to do, as a sentence; ``audit.route.advice``.
    actions : sequence of Action
        What to do, with numbers; ``audit.actions``.

    Returns
    -------
    str
    """
    audited = Audited.of(audit)
    page: str = template("page.html").render(
        **heading(audited, advice),
        **measured(audited),
        actions=[_action(each) for each in actions],
        sections=list(sections(audited)),
        claims=claims(audited),
        footer=_footer(audited),
        **colours(),
    )
    return page


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("twoaxis.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def template(name: str) -> Any:
    """Return a template; everything that it prints is escaped."""
    return _environment().get_template(name)


def colours() -> dict[str, dict[str, str]]:
    """Return the palette for light and for dark pages."""
    return {
        "light": {name: pair[0] for name, pair in PALETTE.items()},
        "dark": {name: pair[1] for name, pair in PALETTE.items()},
    }


def heading(audited: Audited, advice: str = "") -> dict[str, Any]:
    """Return the verdict in words."""
    values = ", ".join(f"{visible(n)} = {number(audited.center(n), '.6g')}" for n in audited.names)
    route = str(audited.tree.attrs["route"])
    verdicts = [
        {
            "name": visible(name),
            "route": visible(audited.route(name)),
            "role": route_colour(audited.route(name)),
            "reason": sentence(audited.text("/verdict", "reason", name)),
        }
        for name in audited.names
    ]
    return {
        "title": f"{route}: {values}",
        "around": around(audited.kind, audited.centers),
        "candidate": not audited.around_truth,
        "route": sentence(route).rstrip("."),
        "role": route_colour(route),
        "reason": sentence(str(audited.tree.attrs["reason"])),
        "verdicts": verdicts,
        "advice": advice,
    }


def _action(action: Any) -> dict[str, Any]:
    """Return an action as the page shows it."""
    rows = [(visible(each.label), quantity(each.value, each.unit)) for each in action.numbers]
    return {
        "title": sentence(action.title).rstrip("."),
        "paragraphs": [sentence(line) for line in action.paragraphs],
        "call": visible(action.call),
        "numbers": rows,
    }


def measured(audited: Audited) -> dict[str, Any]:
    """Return tables, tolerances and messages."""
    group = audited.group("/resimulation")
    return {
        "tables": [(visible(name), coordinate_rows(audited, name)) for name in audited.names],
        "directions": direction_rows(audited),
        "tolerances": _tolerances(audited),
        "assumed": _assumed(audited),
        "resimulated": resimulation_rows(audited),
        "resimulation_words": _resimulation_words(audited),
        "observations": "" if group is None else int(group.attrs["observations"]),
        "layout": "" if group is None else visible(group.attrs["layout"]),
        "resimulation_missing": Missing(*MISSING["/resimulation"]),
        "messages": [sentence(message) for message in audited.messages()],
    }


def _tolerances(audited: Audited) -> str:
    limits = {kind: audited.tolerance(kind) for kind in ("material", "resolution", "preference")}
    if math.isnan(limits["material"]):
        return ""
    if not audited.around_truth:
        del limits["material"]
    return ", ".join(f"{kind} {percent(limit)}" for kind, limit in limits.items())


def _assumed(audited: Audited) -> str:
    """Say that a tolerance was assumed, where the audit says so."""
    origin = audited.verdict.attrs.get(
        "tolerance_origin", audited.tree.attrs.get("tolerance_origin", DECLARED)
    )
    if str(origin) != DECLARED:
        return sentence(f"tolerances: {origin}")
    for message in audited.messages():
        if "toleranc" in message.lower() and "assum" in message.lower():
            return sentence(message)
    return ""


def _resimulation_words(audited: Audited) -> str:
    """Answer the first question of all: does the delivered value explain the data?"""
    group = audited.group("/resimulation")
    if group is None:
        return ""
    rms = dict(zip(map(str, group["value_of"].values), group["rms"].values, strict=True))
    told = [
        f"the {'matched estimate' if kind == 'matched' else 'delivered value'} misses them by "
        f"{number(float(rms[kind]), '.3g')}"
        for kind in ("delivered", "matched")
        if kind in rms and math.isfinite(rms[kind])
    ]
    if not told:
        return ""
    count = int(group.attrs["observations"])
    scale = "standard deviations of the noise, root mean square"
    return sentence(f"against {count} observations, {' and '.join(told)} {scale}")


def claims(audited: Audited) -> list[str]:
    """Say what the diagnosis does not claim."""
    known = audited.around_truth
    own = (
        "The coordinates are not parts of the delivered error: displacement, resolution and gap "
        "are measured one by one, may cancel, and do not add up to it."
        if known
        else "Nothing here says how far the candidate is from the physical value: the audit sees "
        "the candidate, its field and the observations, and how well they agree."
    )
    return [
        "The route names the next thing to try. It is no proof of a cause, and with other "
        "tolerances the same measurements may lead to another route.",
        own,
        "Resolution belongs to one matched estimator with one solver, noise model and layout of "
        "observations. Another estimator may do better, and a wrong solver makes it meaningless.",
        "The preference is that of one frozen field under one view with its weights held. It "
        "does not say what another training run would prefer, and to first order it is a local "
        "reading: where the frozen scan disagrees, the scan is the better guide, while the route "
        "follows the local reading and a message says where they part.",
        "Delivery can be read only under the view that the field was trained under.",
        "Places and modes with much evidence show where the pull on the parameter comes from. "
        "They are not by themselves places where the field or the data are bad.",
    ]


def _footer(audited: Audited) -> list[tuple[str, str]]:
    from twoaxis.version import __version__

    attributes, field = audited.tree.attrs, audited.need("/field").attrs
    kept, total = int(field["points_kept"]), int(field["points_total"])
    points = f"{total:,}" if kept == total else f"{total:,}, of which pictures show {kept:,}"
    return [
        ("View", visible(attributes["view"])),
        ("Training view", f"{visible(attributes['training_view'])} ({_relation(audited)})"),
        ("Residual points", points),
        ("Tolerances", _tolerances(audited) or "none declared"),
        ("Audit written by", visible(attributes["written_by"])),
        ("Page written by", f"twoaxis {__version__}"),
        ("Schema", visible(attributes["schema"])),
    ]


def _relation(audited: Audited) -> str:
    relation = visible(audited.tree.attrs["view_relation"])
    return {"the training view": "the audited one", "another view": "not the audited one"}.get(
        relation, "taken to be the audited one"
    )


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

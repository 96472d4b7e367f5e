"""The page of an audit: one self-contained HTML file.

It holds no script and loads nothing. All that came from a file or a user passes through the
escaping of the template; pictures are SVG elements whose texts are escaped where they are drawn.
The same audit gives the same bytes.
"""

from __future__ import annotations

import math
from functools import cache
from inspect import signature
from typing import Any

from twoaxis.diagnosis import Audit
from twoaxis.diagnosis.overview import (
    GLOSSARY,
    coordinate_rows,
    direction_rows,
    headline,
    observations_in_words,
    resimulation_rows,
)
from twoaxis.diagnosis.result import MISSING
from twoaxis.report import drawing_function
from twoaxis.report.inputs import as_audit
from twoaxis.report.sections import Missing, sections
from twoaxis.report.theme import PALETTE, WIDE, inline_svg, route_color
from twoaxis.text import number, percent, quantity, sentence, visible
from twoaxis.version import __version__


def render(audit: Audit) -> str:
    """Return the page of an audit as HTML text."""
    audit = as_audit(audit)
    page: str = template("page.html").render(
        **heading(audit),
        **measured(audit),
        actions=[_action(each) for each in audit.actions],
        sections=list(sections(audit)),
        claims=claims(audit),
        footer=_footer(audit),
        glossary=GLOSSARY,
        **colors(),
    )
    return page


# Pictures that consist of two axes side by side.
TWO_AXES = ("suggested-sites",)


def render_table(result: Any) -> str:
    """Return a page with the text, the table and the pictures of any other result."""
    draw = drawing_function(result)
    names: list[str | None] = [None]
    if "parameter" in signature(draw).parameters and "parameter" in result.data.coords:
        names = [str(name) for name in result.data["parameter"].values]
    count = 2 if result.schema in TWO_AXES else 1
    pictures = []
    for name in names:
        options = {} if name is None else {"parameter": name}
        size = (count * WIDE[0], WIDE[1])
        words = visible(repr(result).splitlines()[0])
        pictures.append(inline_svg(draw, result, alt=words, size=size, columns=count, **options))
    lines = [visible(line) for line in repr(result).splitlines()]
    messages = [sentence(message.text) for message in getattr(result, "messages", ())]
    page: str = template("result.html").render(
        title=lines[0],
        text="\n".join(lines),
        pictures=pictures,
        messages=messages,
        footer=[
            ("Schema", visible(result.data.attrs["schema"])),
            ("Page written by", f"twoaxis {__version__}"),
        ],
        **colors(),
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


def colors() -> dict[str, dict[str, str]]:
    """Return the palette for light and for dark pages."""
    return {
        "light": {name: pair[0] for name, pair in PALETTE.items()},
        "dark": {name: pair[1] for name, pair in PALETTE.items()},
    }


def heading(audit: Audit) -> dict[str, Any]:
    """Return the verdict in words."""
    values = ", ".join(f"{visible(n)} = {number(v, '.6g')}" for n, v in audit.center.values.items())
    verdicts = [
        {
            "name": visible(name),
            "route": verdict.route.value,
            "role": route_color(verdict.route),
            "reason": sentence(verdict.reason),
        }
        for name, verdict in audit.verdicts.items()
    ]
    return {
        "title": f"{audit.route.value}: {values}",
        "around": headline(audit),
        "candidate": not audit.around_truth,
        "route": sentence(audit.route.value).rstrip("."),
        "role": route_color(audit.route),
        "reason": sentence(audit.reason),
        "verdicts": verdicts,
        "advice": audit.route.advice,
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


def measured(audit: Audit) -> dict[str, Any]:
    """Return tables, tolerances and messages."""
    there = audit.group("/resimulation") is not None
    assumed = [m for m in audit.messages if m.code == "tolerance.assumed"]
    return {
        "tables": [(visible(name), coordinate_rows(audit, name)) for name in audit.names],
        "directions": direction_rows(audit),
        "tolerances": _tolerances(audit),
        "assumed": sentence(assumed[0].text) if assumed else "",
        "resimulated": resimulation_rows(audit),
        "resimulation_words": _resimulation_words(audit),
        "observations": observations_in_words(audit) if there else "",
        "resimulation_missing": Missing(*MISSING["/resimulation"]),
        "messages": [(m.severity, sentence(m.text)) for m in audit.messages if m not in assumed],
    }


def _tolerances(audit: Audit) -> str:
    tolerance = audit.tolerance
    if tolerance is None:
        return ""
    kinds = ("material", "resolution", "preference")[0 if audit.around_truth else 1 :]
    words = ", ".join(f"{kind} {percent(getattr(tolerance, kind))}" for kind in kinds)
    return f"{words} (assumed)" if tolerance.assumed else words


def _resimulation_words(audit: Audit) -> str:
    """Answer the first question: does the delivered value explain the data?"""
    group = audit.group("/resimulation")
    if group is None:
        return ""
    rms = dict(zip(map(str, group["value_of"].values), group["rms"].values, strict=True))
    words = [
        f"{number(float(rms[kind]), '.3g')} at the {noun}"
        for kind, noun in (("delivered", "delivered value"), ("matched", "matched estimate"))
        if kind in rms and math.isfinite(rms[kind])
    ]
    if not words:
        return ""
    scale = "in standard deviations of the noise"
    return sentence(f"the rms misfit {scale} is {' and '.join(words)}")


def claims(audit: Audit) -> list[str]:
    """Say what the diagnosis does not claim."""
    own = (
        "The coordinates are not parts of the delivered error: displacement, resolution and gap "
        "are measured one by one, can cancel, and do not add up to it."
        if audit.around_truth
        else "Nothing here says how far the candidate is from the physical value: the audit "
        "compares the candidate, its field and the observations."
    )
    return [
        "The route is the next thing to try. It is not a proof of a cause, and with other "
        "tolerances the same measurements can lead to another route.",
        own,
        "Resolution belongs to one matched estimator with one forward model, noise model and "
        "layout of observations. Another estimator can be better, and a wrong forward model makes "
        "it meaningless.",
        "The displacement is that of one frozen field under one view with its weights held. It "
        "does not say what another training run would prefer, and it is local: where the frozen "
        "scan disagrees, the scan is more reliable, while the route follows the local "
        "displacement and a message says where they differ.",
        "Delivery can be assessed only under the view that the field was trained under.",
        "Regions and modes with much evidence show where the pull on the parameter comes from. "
        "They are not by themselves regions where the field or the data are wrong.",
    ]


def _footer(audit: Audit) -> list[tuple[str, str]]:
    attributes, field = audit.data.attrs, audit.field.attrs
    kept, total = int(field["points_kept"]), int(field["points_total"])
    points = f"{total:,}" if kept == total else f"{total:,}, of which pictures show {kept:,}"
    relation = {"same": "same as the view", "other": "another view", "assumed": "assumed"}
    rows = [
        ("View", visible(audit.score.view)),
        (
            "Training view",
            f"{visible(audit.training.score.view)} ({relation[attributes['view_relation']]})",
        ),
        ("Residual points", points),
        ("Tolerances", _tolerances(audit) or "none declared"),
        ("Audit written by", visible(attributes["written_by"])),
        ("Page written by", f"twoaxis {__version__}"),
        ("Schema", visible(attributes["schema"])),
    ]
    return [*rows, ("Run", visible(audit.run))] if audit.run else rows

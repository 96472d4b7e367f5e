"""The page of an audit: one self-contained HTML file.

It holds no script and loads nothing. All that came from a file or a user passes through the
escaping of the template; pictures are SVG elements whose texts are escaped where they are drawn.
The same audit gives the same bytes.
"""

from __future__ import annotations

import math
import sys
from functools import cache
from inspect import signature
from typing import Any

from twoaxis.diagnosis import Audit, Scoreboard
from twoaxis.diagnosis.functions import functions_of_interest
from twoaxis.diagnosis.overview import (
    GLOSSARY,
    direction_rows,
    headline,
    observations_in_words,
    resimulation_rows,
    tables,
)
from twoaxis.diagnosis.result import MISSING
from twoaxis.report import PLOTS, drawing_function
from twoaxis.report.figures.function import plot_function, plot_function_displacement
from twoaxis.report.figures.scoreboard import (
    READING,
    describe_scoreboard,
    plot_scoreboard,
    scoreboard_size,
)
from twoaxis.report.inputs import as_audit
from twoaxis.report.sections import MANY, Missing, leading_sections, one_by_one, sections
from twoaxis.report.theme import PALETTE, WIDE, inline_svg, route_color
from twoaxis.text import number, percent, quantity, sentence, visible
from twoaxis.unknown_function import FunctionGroup
from twoaxis.version import __version__


def render(audit: Audit) -> str:
    """Return the page of an audit as HTML text."""
    audit = as_audit(audit)
    page: str = template("page.html").render(
        **heading(audit),
        **measured(audit),
        questions=questions(audit),
        actions=[_action(each) for each in audit.actions],
        leading=list(leading_sections(audit)),
        sections=list(sections(audit)),
        claims=claims(audit),
        footer=_footer(audit),
        glossary=GLOSSARY,
        **colors(),
    )
    return page


# Results that show an unknown function as a curve, and how.
FUNCTION_PLOTS = {
    "refinement": plot_function,
    "resolution": plot_function,
    "score": plot_function_displacement,
    "frozen-scan": plot_function_displacement,
}
# Pictures that consist of two axes side by side.
TWO_AXES = ("suggested-sites",)


def render_table(result: Any) -> str:
    """Return a page with the text, the table and the pictures of any other result."""
    lines = [visible(line) for line in repr(result).splitlines()]
    messages = [sentence(message.text) for message in getattr(result, "messages", ())]
    page: str = template("result.html").render(
        title=lines[0],
        text="\n".join(lines),
        pictures=result_pictures(result),
        messages=messages,
        footer=[
            ("Schema", visible(result.data.attrs["schema"])),
            ("Page written by", f"twoaxis {__version__}"),
        ],
        **colors(),
    )
    return page


def render_scoreboard(board: Scoreboard) -> str:
    """Return the page of a scoreboard: a picture and a table for each problem."""
    parts = []
    for problem in board.problems:
        heads, rows = board.cells(problem)
        rows_of = board.rows[board.rows["problem"] == problem]
        pictures = []
        for name in rows_of["parameter"].unique():
            chosen = {"problem": problem, "parameter": name}
            alt = describe_scoreboard(board, **chosen)
            size = scoreboard_size(board, problem)
            svg = inline_svg(plot_scoreboard, board, alt=alt, size=size, **chosen)
            pictures.append({"svg": svg, "caption": visible(name)})
        parts.append({"name": visible(problem), "heads": heads, "rows": rows, "pictures": pictures})
    attributes = board.data.attrs
    page: str = template("scoreboard.html").render(
        title=repr(board).splitlines()[0],
        parts=parts,
        notes=board.notes,
        reading=READING,
        footer=[
            ("Versions", visible(attributes["versions"])),
            ("Replicas of the matched error", visible(attributes["replicas"])),
            ("Schema", visible(attributes["schema"])),
            ("Page written by", f"twoaxis {__version__}"),
        ],
        **colors(),
    )
    return page


def result_pictures(result: Any, most: int | None = None) -> list[str]:
    """Return the pictures of a result other than an audit, at most `most`.

    Of each unknown function where the result has a picture of it, and of each other parameter.
    """
    if result.schema not in PLOTS:
        return []
    draw = drawing_function(result)
    names: list[str | None] = [None]
    if "parameter" in signature(draw).parameters and "parameter" in result.data.coords:
        every = [str(name) for name in result.data["parameter"].values]
        names = [*every]
        if "nuisance" in result.data:
            hidden = result.data["nuisance"].values
            names = [name for name, out in zip(every, hidden, strict=True) if not out]
    count = 2 if result.schema in TWO_AXES else 1
    # A figure whose height depends on what it shows says so.
    size_of = getattr(sys.modules[draw.__module__], "size_of", None)
    size = (count * WIDE[0], WIDE[1]) if size_of is None else size_of(result)
    words = visible(repr(result).splitlines()[0])
    pictures = []
    functions = _functions(result)
    for function in list(functions)[:most]:
        chosen: dict[str, Any] = {"function": function}
        if result.schema == "resolution":
            chosen["layout"] = result.layout_names[0]
        drawn = FUNCTION_PLOTS[result.schema]
        pictures.append(inline_svg(drawn, result, alt=words, size=WIDE, panels=True, **chosen))
    nodes = {node for group in functions.values() for node in group.members}
    names = [name for name in names if name not in nodes]
    for name in names[: None if most is None else max(most - len(pictures), 0)]:
        options: dict[str, Any] = {} if name is None else {"parameter": name}
        pictures.append(inline_svg(draw, result, alt=words, size=size, columns=count, **options))
    return pictures


def _functions(result: Any) -> dict[str, FunctionGroup]:
    """Return the unknown functions of interest that a result has a picture of."""
    if result.schema not in FUNCTION_PLOTS or getattr(result, "flat", False):
        return {}
    return functions_of_interest(result.parameters)


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
    """Return the answer, the verdict and what the audit is about, in words."""
    answers = [visible(line) for line in audit.answer.split("\n")]
    few = [*one_by_one(audit), *audit.functions]
    verdicts = [
        {
            "name": visible(name),
            "route": verdict.route.value,
            "role": route_color(verdict.route),
            "reason": sentence(verdict.reason),
        }
        for name, verdict in audit.subjects.items()
        if name in few
    ]
    alike = len({(one["route"], one["reason"]) for one in verdicts}) == 1
    return {
        "title": answers[0],
        "answers": answers,
        "around": headline(audit),
        "candidate": not audit.around_truth,
        "route": sentence(audit.route.value).rstrip("."),
        "severity": audit.severity,
        "reason": sentence(audit.reason) if alike else "",
        "verdicts": [] if alike else verdicts,
        "advice": audit.next_step,
        "about": about(audit),
    }


# What a reader asks first of an audit; anything else that was given comes before the last three.
ABOUT_FIRST = ("problem", "data", "method", "seed")
ABOUT_LAST = ("date", "versions", "call")


def about(audit: Audit) -> list[tuple[str, str]]:
    """Return what the audit is about: names and values, in the order of a reader's questions."""
    known = {name: value for name, value in audit.about.items() if value}
    others = [name for name in known if name not in (*ABOUT_FIRST, *ABOUT_LAST)]
    order = [name for name in (*ABOUT_FIRST, *others, *ABOUT_LAST) if name in known]
    return [(sentence(name).rstrip("."), visible(known[name])) for name in order]


def questions(audit: Audit) -> list[dict[str, str]]:
    """Return what is asked before the decision map, with the answers, in order."""
    return [
        {
            "asked": question.asked,
            "answer": question.answer,
            "role": {"yes": "good", "no": "bad"}.get(question.answer, "neutral"),
            "reason": sentence(question.reason),
        }
        for question in audit.questions
    ]


def nuisance_rows(audit: Audit) -> list[str]:
    """Say what the nuisance parameters came out as, one sentence each."""
    rows = []
    group = audit.group("/matched")
    for name, parameter in audit.parameters.items():
        if not parameter.nuisance:
            continue
        words = [f"{visible(name)} = {number(audit.center.values[name], '.5g')}"]
        if group is not None:
            one = group.sel(parameter=name)
            words += _fitted(*(float(one[n]) for n in ("estimate", "lower", "upper")))
        rows.append(", ".join(words))
    if group is not None:
        for k, name in enumerate(map(str, group["other"].values)):
            ends = (float(group[f"other_{n}"][k]) for n in ("estimate", "lower", "upper"))
            rows.append(f"{visible(name)}: {', '.join(_fitted(*ends)) or 'not known'}")
    return rows


def _fitted(estimate: float, low: float, high: float) -> list[str]:
    if math.isnan(estimate):
        return []
    ends = f" ({number(low)} to {number(high)})" if not math.isnan(low + high) else ""
    return [f"matched estimate {number(estimate, '.5g')}{ends}"]


def short_rows(audit: Audit) -> list[tuple[str, ...]]:
    """Return one row for each of many parameters."""
    group = audit.group("/matched")
    rows: list[tuple[str, ...]] = []
    for name in audit.scalars:
        delivered = audit.parameters[name].delivered
        interval = "–"
        if group is not None:
            one = group.sel(parameter=name)
            fitted = _fitted(*(float(one[n]) for n in ("estimate", "lower", "upper")))
            interval = fitted[0].removeprefix("matched estimate ") if fitted else "–"
        rows.append(
            (
                visible(name),
                "–" if delivered is None else number(delivered, ".5g"),
                percent(audit.percent("preference", name)),
                percent(audit.percent("resolution", name)),
                interval,
                audit.routes[name].value,
            )
        )
    return rows


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
        "tables": [
            table
            for name, table in zip(audit.subjects, tables(audit), strict=True)
            if name in audit.functions or name in one_by_one(audit)
        ],
        "short_rows": [] if one_by_one(audit) else short_rows(audit),
        "nuisance": nuisance_rows(audit),
        "directions": direction_rows(audit) if len(audit.subjects) <= MANY else [],
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
        "The field displacement is that of one frozen field under one view with its weights held. "
        "It does not say what another training run would prefer. The local displacement is its "
        "estimate to first order: the route follows the frozen scan, and a message says where the "
        "two are on different sides of the tolerance.",
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

"""An audit as rows and as text of eighty columns: what was measured beside what is tolerated.

The terminal and the page show the same rows, so that every label is written once, here.
"""

from __future__ import annotations

import math
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from twoaxis.diagnosis.answer import separate
from twoaxis.diagnosis.functions import largest_node, place_of
from twoaxis.parameters import Parameters
from twoaxis.text import number, p_value, percent, sentence, shortened, visible

if TYPE_CHECKING:
    from twoaxis.diagnosis.result import Audit

WIDTH = 80
NAME_WIDTH = 30
# Directions that are listed where there is an unknown function.
MOST_DIRECTIONS = 3
GLOSSARY = "Terms are explained in docs/glossary.md."


# ------------------------------------------------------------------ rows


class Row(NamedTuple):
    """One measured coordinate.

    Attributes
    ----------
    label, measured, tolerated : str
    reading : str
        The side of the tolerance on which it lies, in one or two words.
    note : str
    within : bool or None
        Whether it is tolerated; None where nothing is declared or known.
    """

    label: str
    measured: str
    tolerated: str = ""
    reading: str = ""
    note: str = ""
    within: bool | None = None


def coordinate_rows(audit: Audit, name: str) -> list[Row]:
    """Return the table of one parameter."""
    rows = []
    delivered = audit.parameters[name].delivered
    if delivered is not None:
        rows.append(Row("delivered value", number(delivered, ".5g")))
    if audit.around_truth:
        words = ("within tolerance", "above tolerance")
        rows.append(_compared(audit, name, "delivered error", "delivered", "material", words))
    label = f"{audit.matched_noun} ({statistic_word(audit)})"
    rows.append(_compared(audit, name, label, "resolution", "resolution", ("tight", "loose")))
    rows += _displacement(audit, name)
    if audit.cross_view:
        trained = audit.percent("training_preference", name)
        rows.append(Row("displacement, training view", percent(trained)))
    gap = audit.percent("gap", name)
    if not math.isnan(gap):
        rows.append(Row("delivery gap", percent(gap, "+"), note=_identity(audit, name)))
    elif delivered is not None and name in audit.training.score.unseen:
        rows.append(Row("delivery gap", "–", reading="not seen by the residual"))
    return rows + _matched_rows(audit, name)


def function_rows(audit: Audit, name: str) -> list[Row]:
    """Return the table of an unknown function: of every coordinate the largest, and where."""
    group = audit.functions[name]
    members = list(group.members)

    def spread(values: list[float]) -> str:
        return f"{number(min(values))} to {number(max(values))}"

    def largest(label: str, quantity: str, kind: str, words: tuple[str, str]) -> Row:
        node = largest_node(audit, group, quantity)
        row = _compared(audit, node, f"largest {label}", quantity, kind, words)
        return row if row.measured == "–" else row._replace(note=f"at {place_of(group, node)}")

    rows = []
    delivered = [audit.parameters[member].delivered for member in members]
    if None not in delivered:
        rows.append(Row("delivered values", spread([float(v) for v in delivered if v is not None])))
    if audit.around_truth:
        words = ("within tolerance", "above tolerance")
        rows.append(largest("delivered error", "delivered", "material", words))
    rows.append(largest(audit.matched_noun, "resolution", "resolution", ("tight", "loose")))
    rows.append(largest("field displacement", "preference", "preference", ("small", "large")))
    if not all(math.isnan(audit.percent("gap", member)) for member in members):
        node = largest_node(audit, group, "gap")
        size = percent(audit.percent("gap", node), "+")
        rows.append(Row("largest delivery gap", size, note=f"at {place_of(group, node)}"))
    if audit.resolution is not None:
        layout = audit.layout or audit.resolution.layout_names[0]
        found = audit.resolution.function(name, layout=layout)
        share = f"{found.degrees_of_freedom:.1f} of {len(members)}"
        rows.append(Row("nodes that data determine", share))
        scales = [
            found.data[name].values
            for name in ("length_scale", "length_scale_second")
            if name in found.data
        ]
        finest = " × ".join(number(float(scale.min()), ".3g") for scale in scales)
        rows.append(Row("finest length scale", finest))
    matched = audit.group("/matched")
    if matched is not None:
        own = matched.sel(parameter=members)
        rows.append(Row("matched estimates", spread(own["estimate"].values.tolist())))
        if not bool(own["difference_percent"].isnull().any()):
            off = own["difference_percent"].values
            k = int(abs(off).argmax())
            where = f"at {place_of(group, members[k])}"
            rows.append(
                Row("delivered relative to matched", percent(float(off[k]), "+"), note=where)
            )
    return rows


def tables(audit: Audit) -> list[tuple[str, list[Row]]]:
    """Return the title and the rows of each table: a number or an unknown function."""
    found = []
    for name in audit.subjects:
        if name in audit.functions:
            title = f"{visible(name)}({visible(audit.functions[name].argument)})"
            found.append((title, function_rows(audit, name)))
        else:
            found.append((visible(name), coordinate_rows(audit, name)))
    return found


def statistic_word(audit: Audit) -> str:
    """What of the matched deviations is compared with the tolerance: "mean" or "p90"."""
    return "mean" if audit.tolerance is None else audit.tolerance.statistic


def _compared(
    audit: Audit, name: str, label: str, quantity: str, kind: str, words: tuple[str, str]
) -> Row:
    value = audit.percent(quantity, name)
    limit = math.nan if audit.tolerance is None else getattr(audit.tolerance, kind)
    tolerated = "" if math.isnan(limit) else percent(limit)
    if math.isnan(value):
        return Row(label, "–", tolerated, "not known")
    if math.isnan(limit):
        return Row(label, percent(value))
    return Row(label, percent(value), tolerated, words[value > limit], within=value <= limit)


def _displacement(audit: Audit, name: str) -> list[Row]:
    """Distance of the scan minimum from the center, where it lies, and the local one beside it."""
    words = ("small", "large")
    row = _compared(audit, name, "field displacement", "preference", "preference", words)
    status = audit.scan.status.partition(":")[0]
    notes = [] if status == "interior" else [visible(status)]
    unseen = name in audit.score.unseen
    if audit.scan.minimum is not None and not unseen:
        notes.insert(0, f"to {number(audit.scan.minimum[name], '.5g')}")
    row = row._replace(note="; ".join(notes))
    if math.isnan(audit.percent("preference", name)):
        row = row._replace(reading="not seen by the residual" if unseen else "not determined")
    local = audit.percent("local", name)
    if math.isnan(local):
        return [row]
    one = audit.score.data.sel(parameter=name)
    moved, spread = float(one["displacement"]), float(one["sampling_deviation"])
    shown = f"{number(moved, '+.4f')} ± {number(spread, '.1g')}"
    return [row, Row("local displacement D", shown, note=percent(local))]


def _identity(audit: Audit, name: str) -> str:
    """Delivered minus truth = preference + gap, in coordinates."""
    found = audit.delivery
    if found is None or found.total is None or found.preference is None:
        return ""
    total, preference, gap = found.total[name], found.preference[name], found.gap[name]
    terms = f"{number(total, '+.4f')} = {number(preference, '+.4f')} {number(gap, '+.4f')}"
    return f"total = preference + gap: {terms}"


def _matched_rows(audit: Audit, name: str) -> list[Row]:
    group = audit.group("/matched")
    if group is None:
        return []
    one = {n: float(v) for n, v in group.sel(parameter=name).data_vars.items() if not v.dims}
    level = f"{100 * one['level']:g}% profile interval"
    parts = separate(audit, (one["lower"], one["upper"]))
    rows = [Row("matched estimate", number(one["estimate"], ".5g"))] + [
        Row(level if k == 0 else "  or", f"{number(low)} to {number(high)}")
        for k, (low, high) in enumerate(parts)
    ]
    if not math.isnan(one["deviation_percent"]):
        own = percent(one["deviation_percent"])
        rows.append(Row("matched error, same data", own))
    if not math.isnan(one["excess_percent"]):
        size = f"{number(one['excess_percent'], '+.3g')} points"
        rows.append(Row("delivered minus matched error", size))
    elif not math.isnan(one["difference_percent"]):
        rows.append(Row("delivered relative to matched", percent(one["difference_percent"], "+")))
    return rows


class Resimulated(NamedTuple):
    """The forward model at one value, against the data."""

    label: str
    values: str
    rms: str
    reduced: str
    deviance: str
    p_value: str
    status: str


def resimulation_rows(audit: Audit) -> list[Resimulated]:
    """Return the rows of the re-simulation; empty where there is none."""
    group = audit.group("/resimulation")
    if group is None:
        return []
    rows = []
    several = len(audit.names) > 1
    for k, kind in enumerate(group["value_of"].values):
        one = group.isel(value_of=k)
        values = ", ".join(
            f"{f'{visible(n)} = ' if several else ''}{number(float(v), '.5g')}"
            for n, v in one["value"].sel(parameter=audit.names).to_series().items()
        )
        if audit.functions or audit.parameters.arrays:
            every = dict(zip(map(str, one["parameter"].values), one["value"].values, strict=True))
            values = visible(audit.parameters.value_words(every))
        p, status = float(one["p_value"]), str(one["status"].values)
        rows.append(
            Resimulated(
                visible(kind),
                values,
                number(float(one["rms"]), ".3f"),
                number(float(one["reduced_chi_square"]), ".3f"),
                number(float(one["deviance"]), ".2f"),
                p_value(p),
                "" if status == "simulated" else visible(status),
            )
        )
    return rows


def observations_in_words(audit: Audit) -> str:
    """Name the observations of a re-simulation: how many, and of which of several layouts."""
    about = audit.need("/resimulation").attrs
    several = audit.resolution is not None and len(audit.resolution.layout_names) > 1
    of = f" of layout {visible(about['layout'])}" if several and about["layout"] else ""
    return f"{int(about['observations'])} observations{of}"


class DirectionRow(NamedTuple):
    """One eigen-direction of the strength."""

    words: str
    status: str
    displacement: str
    resolution: str
    route: str


def direction_rows(audit: Audit) -> list[DirectionRow]:
    """Return the eigen-directions of several parameters, weakest first."""
    if len(audit.names) == 1:
        return []
    rows = []
    known = Parameters({name: audit.parameters[name] for name in audit.names})
    count = audit.verdict.sizes["direction"]
    # The directions of a function are drawn as functions; a few of them are enough in words.
    grouped = bool(audit.functions or audit.parameters.arrays)
    for k in range(min(count, MOST_DIRECTIONS) if grouped else count):
        one = audit.verdict.isel(direction=k)
        shares = zip(one["direction_vector"].values, audit.names, strict=True)
        words = " ".join(f"{number(float(s), '+.2f')} {visible(n)}" for s, n in shares)
        if grouped:
            words = visible(known.direction_words(one["direction_vector"].values))
        rows.append(
            DirectionRow(
                words,
                visible(one["direction_status"].values),
                percent(float(one["direction_preference_percent"])),
                percent(float(one["direction_resolution_percent"])),
                visible(one["direction_route"].values),
            )
        )
    return rows


def center_values(audit: Audit) -> str:
    """Return the values of the center; of an unknown function or an array, their range."""
    if audit.functions or audit.parameters.arrays:
        return visible(audit.parameters.value_words(audit.center.values))
    return ", ".join(f"{visible(n)} = {number(audit.center.values[n], '.6g')}" for n in audit.names)


def headline(audit: Audit) -> str:
    """Say around what an audit is made: a truth, a candidate or a chosen point."""
    values = center_values(audit)
    what = "Audit" if audit.around_truth else "Audit of the stability"
    return f"{what} around the {audit.center_word} {values}"


def view_in_words(audit: Audit) -> str:
    """Name the audited view, and the training view where that is another one."""
    if audit.cross_view:
        return f"{audit.score.view}; the field was trained under {audit.training.score.view}"
    assumed = audit.data.attrs["view_relation"] == "assumed"
    return f"{audit.score.view} ({'assumed to be ' if assumed else ''}the training view)"


# ------------------------------------------------------------------ text


def as_text(audit: Audit) -> str:
    """Return the audit, and what to do about it, as lines of at most eighty columns."""
    answers = [line for each in audit.answer.split("\n") for line in _wrapped(each, "", "  ")]
    lines = [
        *answers,
        "",
        *_wrapped(f"Route: {audit.route.value}"),
        *_wrapped(sentence(audit.reason), "  "),
        *_wrapped(audit.next_step, "  "),
        "",
        *_wrapped(headline(audit)),
        *_wrapped(f"View: {view_in_words(audit)}"),
        *_questions(audit),
        *_resimulation(audit),
    ]
    head = f"  {'':<{NAME_WIDTH}}{'measured':>17}{'tolerance':>11}"
    for name, rows in tables(audit):
        title = shortened(name, NAME_WIDTH)
        lines += ["", title + head[len(title) :]] if lines[-1] else [title + head[len(title) :]]
        for row in rows:
            lines += _row(row)
    directions = direction_rows(audit)
    if directions:
        lines += ["", "Eigen-directions of the strength, weakest first"]
        for one in directions:
            words = f"{one.words} ({one.status}): displacement {one.displacement}; {one.route}"
            lines += _wrapped(words, "  ", "    ")
    for action in audit.actions:
        lines += ["", *_wrapped(f"Next step: {action.title}")]
        for paragraph in action.paragraphs:
            lines += _wrapped(paragraph, "  ")
    messages = audit.messages
    if messages:
        lines.append("")
    for message in messages:
        lines += _wrapped(message.text, "! ", "  ")
    return "\n".join([*lines, "", GLOSSARY])


def _row(row: Row) -> list[str]:
    line = f"  {row.label:<{NAME_WIDTH}}{row.measured:>17}{row.tolerated:>11}  {row.reading}"
    line = line.rstrip()
    if not row.note:
        return [line]
    together = f"{line}{'; ' if row.reading else '  '}{row.note}"
    if len(together) <= WIDTH:
        return [together]
    return [line, *_wrapped(row.note, "    ")]


def _questions(audit: Audit) -> list[str]:
    """Return the questions that were answered, or measured and left open, one to a line."""
    lines = [""]
    for question in audit.questions:
        if question.answer != "not known" or not math.isnan(question.measured):
            lines += _wrapped(f"{question.asked} {question.answer.capitalize()}", "", "  ")
            lines += _wrapped(question.reason, "  ")
    return [*lines, ""] if len(lines) > 1 else [""]


def _resimulation(audit: Audit) -> list[str]:
    rows = resimulation_rows(audit)
    if not rows:
        return []
    lines = _wrapped(
        f"Forward model against {observations_in_words(audit)} "
        "(misfit in standard deviations of the noise)"
    )
    head = ("rms misfit", "chi2 / dof", "deviance", "p")
    lines.append(f"  {'':<11}" + "".join(f"{cell:>16}" for cell in head))
    for row in rows:
        # Why a value could not be simulated stands among the messages.
        cells = ["failed"] if row.status else [row.rms, row.reduced, row.deviance, row.p_value]
        lines.append(f"  {row.label:<11}" + "".join(f"{cell:>16}" for cell in cells))
    return [*lines, ""]


def _wrapped(text: str, first: str = "", rest: str | None = None) -> list[str]:
    later = first if rest is None else rest
    shown = visible(" ".join(text.split()))
    return wrap(shown, WIDTH, initial_indent=first, subsequent_indent=later) or [first]

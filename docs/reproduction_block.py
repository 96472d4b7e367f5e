"""The page of one block of the reproduction."""

from __future__ import annotations

from collections.abc import Sequence

from myst import bullets, code, compact, escaped, many, numbered, paragraphs, sentence, table, value

from twoaxis.studies.page import Shown, ShownFigure, ShownTable, in_words
from twoaxis.studies.verdict import LEVEL, Verdict

UNREASONED = "No reason is known."


def page(name: str, block: Shown, way: str) -> str:
    """Return the page of one block.

    Parameters
    ----------
    name : str
        As on the command line.
    block : Shown
    way : str
        From the directory of the page to that of the reproduction.
    """
    differing = [figure for figure in block.figures if figure.verdict == Verdict.DIFFERS]
    reasons = list(dict.fromkeys(figure.reason or UNREASONED for figure in differing))
    size = "No field is trained for it"
    if block.fields:
        size = f"{many(block.fields, 'field')}, {many(block.initializations, 'initialization')}"
    parts = [
        f"# {escaped(block.title)}",
        escaped(block.claim),
        f"`twoaxis reproduce {name}`. {size}. {_counted(block)}"
        f"[How it is done](../reference/studies.md#{name}).",
    ]
    if block.notes:
        parts += ["## Readings that the study leaves open", bullets(map(escaped, block.notes))]
    if block.figures:
        parts += ["## Figures", compact(_figures(block, reasons)), escaped(_legend(block))]
    if reasons:
        parts += ["## Why figures may differ", numbered(map(escaped, reasons))]
    if not block.figures:
        parts += [
            part
            for each in block.tables
            for part in (f"## {sentence(each.name)[:-1]}", _rows(each))
        ]
    if block.tables:
        parts += [
            "## Tables",
            bullets(
                f"[{escaped(each.name)}](<{way}/{each.file}>), {many(each.total, 'row')}"
                for each in block.tables
            ),
        ]
    return paragraphs(*parts, "## How it was made", _made(block))


def _counted(block: Shown) -> str:
    return f"{sentence(in_words(block.counts))} " if block.figures else ""


def verdict(figure: ShownFigure, number: int | None = None) -> str:
    """Return the word for a figure; what differs is bold, with the number of its reason."""
    if figure.verdict != Verdict.DIFFERS:
        return figure.verdict.replace(" ", "\N{NO-BREAK SPACE}")
    return "**differs**" + ("" if number is None else f"\N{NO-BREAK SPACE}{{sup}}`{number}`")


def _figures(block: Shown, reasons: Sequence[str]) -> str:
    heads, sides = ["figure", "published", "ours"], "lrr"
    if block.several:
        heads, sides = [*heads, "mean and range"], sides + "r"
    if block.placed:
        heads, sides = [*heads, "percentile"], sides + "r"
    rows = []
    several_places = len({figure.where for figure in block.figures}) > 1
    for figure in block.figures:
        number = None
        if figure.verdict == Verdict.DIFFERS:
            number = reasons.index(figure.reason or UNREASONED) + 1
        where = f" (*{escaped(figure.where)}*)" if several_places else ""
        rows.append(
            [
                escaped(figure.label) + where,
                value(figure.printed, figure.printed_interval),
                value(figure.ours, figure.interval, figure.mark),
                *([value(figure.mean, figure.spread)] if block.several else []),
                *([figure.percentile] if block.placed else []),
                verdict(figure, number),
            ]
        )
    return table([*heads, ""], sides + "l", rows)


def _rows(each: ShownTable) -> str:
    """Return a whole table: what a block without printed figures has to show."""
    sides = "".join("r" if numeric else "l" for _, numeric in each.rows[0])
    return compact(
        table(
            [escaped(column) for column in each.columns],
            sides,
            [[escaped(text) for text, _ in row] for row in each.rows],
        )
    )


def _legend(block: Shown) -> str:
    parts = []
    places = {figure.where for figure in block.figures}
    if len(places) == 1:
        parts.append(f"All figures are those of: {places.pop()}.")
    if block.sources:
        sources = "; ".join(
            f"{mark}: {source}" if mark else source for mark, source in block.sources
        )
        parts.append(f"Our {100 * LEVEL:g}% intervals: {sources}.")
    if block.several:
        parts.append(f"Mean and range are those of {block.initializations} initializations.")
    if block.placed:
        parts.append(
            "The percentile is that of the published value among them: 0 is below all, 100 above "
            "all."
        )
    return " ".join(parts)


def _made(block: Shown) -> str:
    if not block.calls:
        return "No call trained anything for this block."
    return numbered(
        f"{code(call.command) if call.command else 'Called from Python'}: "
        f"{many(call.trained, 'field')} trained, "
        f"{many(call.initializations, 'initialization')}, {call.duration} on "
        f"{escaped(call.device)}, with {escaped(call.versions)}."
        for call in block.calls
    )

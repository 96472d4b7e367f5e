"""A block as the page shows it: texts that are ready, and nothing left to decide."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twoaxis.report.words import number
from twoaxis.studies.strips import Strip, strip_of
from twoaxis.studies.verdict import Verdict
from twoaxis.text import visible

# How a verdict is called, and the class that gives it its colour.
VERDICTS = {str(verdict): str(verdict).replace(" ", "-") for verdict in Verdict}
# Longer tables are cut on the page; their files hold all rows.
MOST_ROWS = 100
NOTHING = "–"
MINUTE, HOUR = 60, 3600


@dataclass(frozen=True)
class ShownFigure:
    """One published figure beside ours; intervals are texts in brackets, or empty."""

    anchor: str
    label: str
    where: str
    headline: bool
    printed: str
    printed_interval: str
    ours: str
    interval: str
    source: str
    mark: str
    mean: str
    spread: str
    percentile: str
    verdict: str
    reason: str
    strip: Strip | None


@dataclass(frozen=True)
class ShownTable:
    """A table whose cells are texts; each cell comes with whether it is a number."""

    name: str
    columns: list[str]
    rows: list[list[tuple[str, bool]]]
    total: int
    file: str


@dataclass(frozen=True)
class ShownCall:
    """How something of a block was made."""

    command: str
    device: str
    versions: str
    trained: int
    initialisations: int
    duration: str


@dataclass(frozen=True)
class Shown:
    """A block on the page."""

    anchor: str
    title: str
    claim: str
    notes: list[str]
    smoke: bool
    fields: int
    initialisations: int
    counts: dict[str, int]
    figures: list[ShownFigure]
    sources: list[tuple[str, str]]
    tables: list[ShownTable]
    calls: list[ShownCall]

    @property
    def several(self) -> bool:
        """Whether figures have a spread over initialisations."""
        return any(figure.spread for figure in self.figures)

    @property
    def placed(self) -> bool:
        """Whether published values have a place among ours."""
        return any(figure.percentile for figure in self.figures)


def shown_blocks(records: Sequence[Mapping[str, Any]]) -> list[Shown]:
    """Return all blocks, each with an anchor of its own."""
    blocks: list[Shown] = []
    taken: set[str] = set()
    for record in records:
        anchor = "block-" + re.sub(r"[^a-z0-9]+", "-", str(record["name"]).lower()).strip("-")
        while anchor in taken:
            anchor += "-again"
        taken.add(anchor)
        blocks.append(_block(record, anchor))
    return blocks


def counted(verdicts: Iterable[str]) -> dict[str, int]:
    """Count figures by verdict."""
    found = list(verdicts)
    return {word: found.count(word) for word in VERDICTS}


def duration(seconds: float) -> str:
    """Return a time in words.

    >>> duration(41.2), duration(412.0), duration(7380.0)
    ('41.2 s', '6 min 52 s', '2 h 3 min')
    """
    whole = round(seconds)
    if seconds < MINUTE:
        return f"{seconds:.3g} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE} s"
    return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"


def _block(record: Mapping[str, Any], anchor: str) -> Shown:
    names = dict.fromkeys(f["interval_source"] for f in record["figures"] if f["interval_source"])
    # One kind of interval needs no mark.
    marks = (
        dict(zip(names, "abcdefgh", strict=False)) if len(names) > 1 else dict.fromkeys(names, "")
    )
    return Shown(
        anchor=anchor,
        title=visible(record["title"]),
        claim=visible(record["claim"]),
        notes=[visible(note) for note in record["notes"]],
        smoke=record["scale"] == "smoke",
        fields=record["fields"],
        initialisations=record["initialisations"],
        counts=counted(figure["verdict"] for figure in record["figures"]),
        figures=[
            _figure(figure, f"{anchor}-{k}", marks) for k, figure in enumerate(record["figures"], 1)
        ],
        sources=[(mark, visible(source)) for source, mark in marks.items()],
        tables=[_table(record["name"], *named) for named in record["tables"].items()],
        calls=[_call(call) for call in record["calls"]],
    )


def _figure(figure: Mapping[str, Any], anchor: str, marks: Mapping[str, str]) -> ShownFigure:
    known = figure["ours"] is not None
    several = figure["mean_text"] is not None and None not in figure["values"]
    percentile, source = figure["percentile"], figure["interval_source"]
    return ShownFigure(
        anchor=anchor,
        label=visible(figure["label"]),
        where=visible(figure["where"]),
        headline=bool(figure["headline"]),
        printed=visible(figure["printed"]),
        printed_interval=_brackets(figure["printed_interval"]),
        ours=visible(figure["ours_text"]) if known else "no value",
        interval=_brackets(figure["interval_text"]),
        source=visible(source),
        mark=marks.get(source, ""),
        mean=visible(figure["mean_text"]) if several else "",
        spread=_brackets([figure["lowest_text"], figure["highest_text"]]) if several else "",
        percentile="" if percentile is None else f"{percentile:.0f}",
        verdict=figure["verdict"],
        reason=visible(figure["reason"]),
        strip=strip_of(figure),
    )


def _brackets(ends: Sequence[str] | None) -> str:
    return "" if ends is None else f"[{visible(ends[0])}, {visible(ends[1])}]"


def _table(block: str, name: str, table: Mapping[str, Any]) -> ShownTable:
    rows = table["rows"]
    return ShownTable(
        visible(name).replace("_", " "),
        [visible(column).replace("_", " ") for column in table["columns"]],
        [[_cell(value) for value in row] for row in rows[:MOST_ROWS]],
        len(rows),
        visible(f"tables/{block}-{name}.csv"),
    )


def _cell(value: Any) -> tuple[str, bool]:
    if value is None:
        return NOTHING, False
    if isinstance(value, bool):
        return "yes" if value else "no", False
    if isinstance(value, int):
        return number(value, "d"), True
    return (number(value), True) if isinstance(value, float) else (visible(value), False)


def _call(call: Mapping[str, Any]) -> ShownCall:
    return ShownCall(
        command=visible(call["command"]),
        device=visible(call["device"]),
        versions=", ".join(visible(f"{n} {v}") for n, v in call["versions"].items()),
        trained=call["trained"],
        initialisations=call["initialisations"],
        duration=duration(float(call["seconds"])),
    )

"""The page of a reproduction: every published figure beside ours, in one self-contained file.

It holds no script and loads nothing. All text from records passes through the template's
escaping. The same records give the same bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from twoaxis.report.html import colors
from twoaxis.report.sections import Picture, Section
from twoaxis.studies.figures import Drawing, ends, printed_ends
from twoaxis.studies.published import UNREADABLE
from twoaxis.studies.verdict import ENOUGH, LEVEL, Verdict
from twoaxis.text import number, visible

Record = Mapping[str, Any]

SMOKE = "smoke"


def render(
    records: Sequence[Record],
    figures: Mapping[str, Drawing],
    first_rule: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> str:
    """Return the page of a reproduction as HTML text.

    Parameters
    ----------
    records : sequence of mapping
        The blocks in the order of the paper, as ``blocks/NAME.json`` holds them.
    figures : mapping of str to Drawing
        The paper's figures, drawn again; as `twoaxis.studies.figures.draw` returns them.
    first_rule : mapping
        The verdicts by an earlier rule, by block and figure.

    Returns
    -------
    str
    """
    from twoaxis.version import __version__

    blocks = shown_blocks(records)
    counts = counted(figure["verdict"] for figure in judged_once(records))
    largest = max([1, *(len(block.figures) for block in blocks)])
    page: str = (
        _environment()
        .get_template("reproduction.html")
        .render(
            title=f"Reproduction: {in_words(counts) or 'nothing yet'}",
            more_css="reproduction.css",
            blocks=blocks,
            counts=counts,
            total=len(judged_once(records)),
            verdict_counts=in_words(counts) or "nothing yet",
            verdicts=VERDICTS,
            bars={b.anchor: (in_words(b.counts), bar(b.counts, largest)) for b in blocks},
            smoke=any(record["scale"] == SMOKE for record in records),
            headlines=[(block, own) for block in blocks if (own := headline(block))],
            differing=differing(blocks),
            both_rules=by_both_rules(records, first_rule),
            outside=outside_all(records),
            sections=[section(name, drawing) for name, drawing in figures.items()],
            enough=ENOUGH,
            level=f"{100 * LEVEL:g}",
            version=__version__,
            **colors(),
        )
    )
    return page


def judged_once(records: Sequence[Record]) -> list[Mapping[str, Any]]:
    """Return all figures, each printed one once: a block of our own borrows those of another."""
    found = {
        (record.get("figures_of", record["name"]), figure["key"]): figure
        for record in sorted(records, key=lambda each: each.get("figures_of") == each["name"])
        for figure in record["figures"]
    }
    return list(found.values())


class Outside(NamedTuple):
    """How many retrained figures lie outside all initializations, and how many would by chance."""

    outside: int
    total: int
    expected_percent: float

    def __str__(self) -> str:
        percent = 100 * self.outside / self.total
        return (
            f"{self.outside} of {self.total} retrained figures ({percent:.0f}%) lie outside all "
            f"our initializations, where {self.expected_percent:.0f}% would by chance"
        )


def outside_all(records: Sequence[Record]) -> Outside | None:
    """Count the figures on the study's own data that no initialization of ours reaches.

    Of n + 1 draws that chance has put in order, a given one is the first or the last with
    probability 2/(n + 1). Figures that no initialization changes are left out.
    """
    drawn = [
        figure
        for figure in judged_once(records)
        if figure["chance"] == "initialization"
        and figure["percentile"] is not None
        and None not in figure["values"]
        and len(set(figure["values"])) > 1
    ]
    if not drawn:
        return None
    expected = sum(2 / (len(figure["values"]) + 1) for figure in drawn) / len(drawn)
    outside = sum(figure["percentile"] in (0.0, 100.0) for figure in drawn)
    return Outside(outside, len(drawn), 100 * expected)


def by_both_rules(
    records: Sequence[Record], first_rule: Mapping[tuple[str, str], str]
) -> list[tuple[str, dict[str, int]]]:
    """Return how the figures of each earlier verdict are judged now; none without earlier ones."""
    if not first_rule:
        return []
    now: dict[str, list[str]] = {word: [] for word in (*VERDICTS, ADDED)}
    for record in records:
        if record.get("figures_of", record["name"]) == record["name"]:
            for figure in record["figures"]:
                earlier = first_rule.get((record["name"], figure["key"]), ADDED)
                now.setdefault(earlier, []).append(figure["verdict"])
    return [(visible(word), counted(found)) for word, found in now.items() if found]


@cache
def _environment() -> Any:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    # Styles and macros of the audit's page serve this one too.
    loaders = [PackageLoader("twoaxis.studies"), PackageLoader("twoaxis.report")]
    return Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def in_words(counts: Mapping[str, int]) -> str:
    """Return how many figures have which verdict, in words.

    >>> in_words({"exact": 2, "agrees": 1, "not contradicted": 3, "differs": 4, "not judged": 0})
    '2 exact, 1 agrees, 3 not contradicted, 4 differ'
    """
    forms = {"agrees": ("agrees", "agree"), "differs": ("differs", "differ")}
    return ", ".join(
        f"{count} {forms.get(word, (word, word))[count != 1]}"
        for word, count in counts.items()
        if count
    )


def bar(counts: Mapping[str, int], largest: int) -> list[tuple[str, float, float]]:
    """Return the pieces of a stacked bar: verdict, start and length in percent of the longest."""
    pieces, start = [], 0.0
    for word, count in counts.items():
        length = 100 * count / largest
        if count:
            pieces.append((word, round(start, 2), round(length, 2)))
        start += length
    return pieces


def headline(block: Shown) -> list[ShownFigure]:
    """Return the figures of a block that are main claims."""
    return [figure for figure in block.figures if figure.headline]


def differing(blocks: Sequence[Shown]) -> list[tuple[Shown, str, list[ShownFigure]]]:
    """Return the figures that differ, by block and reason."""
    groups: dict[tuple[str, str], tuple[Shown, str, list[ShownFigure]]] = {}
    for block in blocks:
        for figure in block.figures:
            if figure.verdict == Verdict.DIFFERS:
                key = block.anchor, figure.reason
                groups.setdefault(key, (block, figure.reason, []))[2].append(figure)
    return list(groups.values())


def section(name: str, drawing: Drawing) -> Section:
    """Return a figure of the paper as a section with one picture for each panel."""
    pictures = [Picture(panel.svg(), panel.caption, panel.reading) for panel in drawing.panels]
    return Section(f"figure-{name}", drawing.title, pictures, [], drawing.beside)


# ------------------------------------------------------------------ blocks

# The name of a verdict, and the CSS class that gives it its color.
VERDICTS = {str(verdict): str(verdict).replace(" ", "-") for verdict in Verdict}
# Longer tables are cut on the page; their files hold all rows.
MOST_ROWS = 100
# Figures that the earlier rule has not seen.
ADDED = "added since"
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
    initializations: int
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
    initializations: int
    counts: dict[str, int]
    figures: list[ShownFigure]
    sources: list[tuple[str, str]]
    tables: list[ShownTable]
    calls: list[ShownCall]

    @property
    def several(self) -> bool:
        """Whether figures have a spread over initializations."""
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
        initializations=record["initializations"],
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
        initializations=call["initializations"],
        duration=duration(float(call["seconds"])),
    )


# ------------------------------------------------------------------ strips

# In percent of the width: room at both ends, so that no dot is cut.
MARGIN = 3.0
# In pixels: dots stand in turn at these heights, so that equal values stay distinct.
HEIGHTS = (17, 13, 21)
MOST_DECIMALS = 8


class Strip(NamedTuple):
    """A strip: our initializations as dots, our interval as a band, the published value as a line.

    Positions are in percent of the width, so that one drawing fits a screen and a phone while
    dots stay round. Every strip has its own scale.

    Attributes
    ----------
    dots : list of (float, int)
        Percent of the width, and pixels from the top; the first is the figure that is shown.
    band, printed_band : tuple of float, optional
        Start and end of our interval and of the printed one.
    published : float
    low, high : str
        The numbers at both ends of the scale; empty where it has no length.
    alt : str
    """

    dots: list[tuple[float, int]]
    band: tuple[float, float] | None
    published: float
    printed_band: tuple[float, float] | None
    low: str
    high: str
    alt: str


def strip_of(figure: Mapping[str, Any]) -> Strip | None:
    """Return the strip of a figure, or nothing with too few initializations or no finite scale."""
    values = [float(value) for value in figure["values"] if value is not None]
    if len(values) < ENOUGH or figure["ours"] is None:
        return None
    published = float(figure["published"])
    ours, printed = ends(figure), printed_ends(figure)
    shown = [*values, published, *(ours or ()), *(printed or ())]
    low, high = min(shown), max(shown)
    span = high - low
    if not math.isfinite(span):
        return None

    def place(value: float) -> float:
        return round(MARGIN + (100 - 2 * MARGIN) * (value - low) / span, 2) if span else 50.0

    return Strip(
        [(place(value), HEIGHTS[k % len(HEIGHTS)]) for k, value in enumerate(values)],
        None if ours is None else (place(ours[0]), place(ours[1])),
        place(published),
        None if printed is None else (place(printed[0]), place(printed[1])),
        _end(low, span),
        _end(high, span),
        _alt(figure, values),
    )


def _end(value: float, span: float) -> str:
    """Return the number at an end of the scale, with the digits that its length calls for."""
    if span == 0:
        return ""
    decimals = max(0, 1 - math.floor(math.log10(span)))
    return number(
        value, ".3g" if decimals > MOST_DECIMALS or abs(value) >= UNREADABLE else f".{decimals}f"
    )


def _alt(figure: Mapping[str, Any], values: list[float]) -> str:
    texts = figure["interval_text"]
    interval = f", interval {texts[0]} to {texts[1]}" if texts else ""
    return visible(
        f"Published {figure['printed']}; ours {figure['ours_text']}{interval}; "
        f"{len(values)} initializations from {number(min(values))} to {number(max(values))}."
    )

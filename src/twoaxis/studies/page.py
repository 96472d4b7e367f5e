"""The page of a reproduction: every published figure beside ours, in one self-contained file.

It holds no script and asks nobody for anything. All that came from records passes through the
template's escaping. The same records give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from twoaxis.report.page import colours
from twoaxis.report.pictures import Picture, Section
from twoaxis.studies.drawings import Drawing
from twoaxis.studies.page_blocks import VERDICTS, Shown, ShownFigure, counted, shown_blocks
from twoaxis.studies.verdict import ENOUGH, LEVEL, Verdict

Record = Mapping[str, Any]

SMOKE = "smoke"


def render(records: Sequence[Record], figures: Mapping[str, Drawing]) -> str:
    """Return the page of a reproduction as HTML text.

    Parameters
    ----------
    records : sequence of mapping
        The blocks in the order of the paper, as ``blocks/NAME.json`` holds them.
    figures : mapping of str to Drawing
        The paper's figures, drawn again; as `twoaxis.studies.figures.draw` returns them.

    Returns
    -------
    str
    """
    from twoaxis.version import __version__

    blocks = shown_blocks(records)
    counts = counted(figure["verdict"] for record in records for figure in record["figures"])
    largest = max([1, *(len(block.figures) for block in blocks)])
    page: str = (
        _environment()
        .get_template("reproduction.html")
        .render(
            blocks=blocks,
            counts=counts,
            total=len(_printed(records)),
            told=told(counts) or "nothing yet",
            verdicts=VERDICTS,
            bars={b.anchor: (told(b.counts), bar(b.counts, largest)) for b in blocks},
            smoke=any(record["scale"] == SMOKE for record in records),
            headlines=[(block, own) for block in blocks if (own := headline(block))],
            differing=differing(blocks),
            sections=[section(name, drawing) for name, drawing in figures.items()],
            enough=ENOUGH,
            level=f"{100 * LEVEL:g}",
            version=__version__,
            **colours(),
        )
    )
    return page


def _printed(records: Sequence[Record]) -> set[tuple[str, str]]:
    """Return the printed figures, each once: two blocks may measure the same ones."""
    return {
        (record.get("figures_of", record["name"]), figure["key"])
        for record in records
        for figure in record["figures"]
    }


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


def told(counts: Mapping[str, int]) -> str:
    """Say how many figures have which verdict, as a list in words.

    >>> told({"exact": 2, "agrees": 1, "differs": 4, "not judged": 0})
    '2 exact, 1 agrees, 4 differ'
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

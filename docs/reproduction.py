"""Write the pages on the reproduction when the documentation is built; no number is typed by hand.

``results/reproduction`` is what ``twoaxis reproduce`` left. Every block becomes a page in
``docs/reproduction/``; ``reproduction.md`` includes the overview from ``_build/reproduction/``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from myst import compact, escaped, paragraphs, table, value
from reproduction_block import page, verdict

from twoaxis.errors import InputError
from twoaxis.studies import figures
from twoaxis.studies.fields import PROBLEMS
from twoaxis.studies.page import (
    SMOKE,
    VERDICTS,
    Shown,
    by_both_rules,
    counted,
    duration,
    headline,
    in_words,
    judged_once,
    outside_all,
    shown_blocks,
)
from twoaxis.studies.reproduce import first_rule, stored_records

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results" / "reproduction"

Record = Mapping[str, Any]


def build(app: object) -> None:  # noqa: ARG001
    """Write everything before Sphinx looks for its sources."""
    write(RESULTS, DOCS)


def write(results: Path, docs: Path) -> None:
    """Write the pages and parts of a reproduction into a directory of documentation.

    Parameters
    ----------
    results : Path
        A directory that ``twoaxis reproduce`` made, at full scale.
    docs : Path
        Gets ``reproduction/NAME.md`` and ``_build/reproduction/PART.md``.
    """
    records = _records(results)
    blocks = dict(zip((record["name"] for record in records), shown_blocks(records), strict=True))
    drawn = figures.draw(records)
    _check_pictures(results, drawn)
    parts = {
        "counts": counts(records, blocks, first_rule(results)),
        "headlines": headlines(blocks),
        "noise": noise(records),
        "figures": pictures(drawn, _way(results, docs)),
        "times": times(records, blocks),
    }
    way = _way(results, docs / "reproduction")
    _fill(docs / "reproduction", {name: page(name, each, way) for name, each in blocks.items()})
    _fill(docs / "_build" / "reproduction", parts)


def counts(
    records: Sequence[Record],
    blocks: Mapping[str, Shown],
    earlier: Mapping[tuple[str, str], str],
) -> str:
    """Return how many figures came out which way, block by block, with the list of pages."""
    total = counted(figure["verdict"] for figure in judged_once(records))
    rows = [
        [
            f"[{escaped(block.title)}](reproduction/{name}.md)",
            str(block.initializations) if block.fields else "",
            *(str(count or "") for count in block.counts.values()),
        ]
        for name, block in blocks.items()
    ]
    last = ["all", "", *(str(count or "") for count in total.values())]
    outside = outside_all(records)
    return paragraphs(
        f"{sum(total.values())} figures in {len(blocks)} blocks: {in_words(total)}.",
        table(["block", "initializations", *VERDICTS], "lr" + "r" * len(VERDICTS), [*rows, last]),
        "" if outside is None else f"{outside}.",
        _both_rules(records, earlier),
        "```{toctree}\n:hidden:\n\n"
        + "\n".join(f"reproduction/{name}" for name in blocks)
        + "\n```",
    )


def _both_rules(records: Sequence[Record], earlier: Mapping[tuple[str, str], str]) -> str:
    """Return the verdicts by the first rule, as rows, against those of the present one."""
    found = by_both_rules(records, earlier)
    if not found:
        return ""
    rows = [
        [escaped(word), *(str(count or "") for count in own.values()), str(sum(own.values()))]
        for word, own in found
    ]
    return paragraphs(
        "The present rule beside the first one, which called a chance hit exact, let printed "
        "intervals overlap ours, and took a bootstrap wherever there was one:",
        table(["first rule", *VERDICTS, "all"], "l" + "r" * (len(VERDICTS) + 1), rows),
    )


# What other noise is to settle.
SETTLED = (
    "aligned_signed_r",
    "aligned_absolute_r",
    "profile_r",
    *(f"excess_{problem}" for problem in (*PROBLEMS, "overall")),
    "negative_excess",
)


def noise(records: Sequence[Record]) -> str:
    """Return what repetitions with other noise say, where they were trained."""
    drawn = [record for record in records if record["name"] == "noise-draws"]
    if not drawn:
        return (
            "Other noise has not been trained yet: `twoaxis reproduce noise-draws "
            "--initializations 10` would tell how much of this is the noise.\n"
        )
    (record,) = drawn
    rows = [
        [
            escaped(figure["label"]),
            value(figure["printed"], ""),
            value(figure["mean_text"], f"[{figure['lowest_text']}, {figure['highest_text']}]"),
            value(f"[{figure['interval_text'][0]}, {figure['interval_text'][1]}]", ""),
            figure["verdict"],
        ]
        for figure in record["figures"]
        if figure["key"] in SETTLED and figure["mean_text"] and figure["interval_text"]
    ]
    return paragraphs(
        f"Over {record['initializations']} repetitions, each with noise and initialization of its "
        "own:",
        table(["figure", "published", "mean and range", "one more", ""], "lrrrl", rows),
    )


def headlines(blocks: Mapping[str, Shown]) -> str:
    """Return the main claims of the study beside ours."""
    rows = []
    for name, block in blocks.items():
        claims = headline(block)
        if claims:
            rows.append([f"[{escaped(block.title)}](reproduction/{name}.md)"])
        rows += [
            [
                escaped(figure.label),
                value(figure.printed, figure.printed_interval),
                value(figure.ours, figure.interval),
                figure.percentile,
                verdict(figure),
            ]
            for figure in claims
        ]
    return paragraphs(
        compact(table(["figure", "published", "ours", "percentile", ""], "lrrrl", rows))
    )


def pictures(drawn: Mapping[str, Any], way: str) -> str:
    """Return the paper's figures, drawn again, with what they show."""
    parts = []
    for name, drawing in drawn.items():
        panels = drawing.panels
        letters = [f"({letter}) " for letter in "abcdefgh"] if len(panels) > 1 else [""]
        lettered = list(zip(letters, panels, strict=False))
        spoken = " ".join(f"{letter}{panel.alt}" for letter, panel in lettered)
        parts += [
            f"### {escaped(drawing.title)}",
            f"```{{figure}} {way}/figures/{name}.png\n"
            # As JSON, which YAML takes as it stands.
            f":alt: {json.dumps(spoken, ensure_ascii=False)}\n"
            f":width: {'100%' if len(panels) > 1 else '55%'}\n\n"
            + " ".join(escaped(f"{letter}{p.caption} {p.reading}") for letter, p in lettered)
            + "\n```",
        ]
    return paragraphs(*parts)


def times(records: Sequence[Record], blocks: Mapping[str, Shown]) -> str:
    """Return what every block took, and on what."""
    calls = [call for record in records for call in record["calls"]]
    devices = " and ".join(dict.fromkeys(str(call["device"]) for call in calls))
    rows, first, whole = [], 0.0, 0.0
    for record in records:
        took = [float(call["seconds"]) for call in record["calls"]]
        once = took[0] if took and record["calls"][0]["initializations"] == 1 else None
        first, whole = first + (once or 0.0), whole + sum(took)
        rows.append(
            [
                f"[{escaped(blocks[record['name']].title)}](reproduction/{record['name']}.md)",
                str(record["fields"] or ""),
                "" if once is None else duration(once),
                str(record["initializations"]) if record["fields"] else "",
                str(sum(call["trained"] for call in record["calls"]) or ""),
                duration(sum(took)) if took else "",
            ]
        )
    trained = sum(call["trained"] for call in calls)
    rows.append(["all", "", duration(first), "", str(trained), duration(whole)])
    heads = ["block", "fields", "first", "initializations", "trained", "all together"]
    return paragraphs(
        f"On {escaped(devices)}. *Fields* is what one initialization of a block takes and *first* "
        "the time of a first call with one initialization; *trained* and *all together* are sums "
        "over all calls that came to their end: what an interrupted one trained is kept, and not "
        "counted. Blocks share fields: one is trained for the block that asks first.",
        table(heads, "lrrrrr", rows),
    )


def _records(results: Path) -> list[Record]:
    records = stored_records(results)
    if not records:
        raise InputError(
            "the outcome of a reproduction to document",
            f"{str(results)!r}, which holds no blocks/NAME.json",
            f"run twoaxis reproduce --all --out {results}",
        )
    smoke = [record["name"] for record in records if record["scale"] == SMOKE]
    if smoke:
        raise InputError(
            "a reproduction at full scale",
            f"{str(results)!r}, where {', '.join(smoke)} ran at smoke scale",
            "reproduce without --scale smoke",
        )
    return records


def _check_pictures(results: Path, names: Iterable[str]) -> None:
    missing = [name for name in names if not (results / "figures" / f"{name}.png").exists()]
    if missing:
        raise InputError(
            "the figures of the reproduction, drawn again",
            f"{str(results / 'figures')!r} without {', '.join(f'{name}.png' for name in missing)}",
            f"run twoaxis reproduce with --out {results} again, which draws them",
        )


def _fill(directory: Path, pages: Mapping[str, str]) -> None:
    """Make a directory hold these pages alone; unchanged ones stay, and Sphinx keeps them."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = {directory / f"{name}.md": text for name, text in pages.items()}
    for path in set(directory.glob("*.md")) - set(paths):
        path.unlink()
    for path, text in paths.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _way(results: Path, page_directory: Path) -> str:
    return Path(os.path.relpath(results, page_directory)).as_posix()

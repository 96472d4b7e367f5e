"""The outcome of a block as plain data: stored as JSON, read by the page and the tables.

A record that was read is checked field by field, so that page and tables can rely on it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from twoaxis.errors import InputError
from twoaxis.files import read_text, write_whole
from twoaxis.studies.block import Block, Measured
from twoaxis.studies.published import published_figures
from twoaxis.studies.scale import Scale
from twoaxis.studies.verdict import Outcome, Verdict, judge

FORMAT = "twoaxis reproduction 2"
# Bytes. A record has some ten thousand; a larger file is not one.
LARGEST = 64 * 2**20

Record = dict[str, Any]


def record_of(
    block: Block,
    measured: Sequence[Measured],
    redrawn: Sequence[Measured],
    scale: Scale,
    *,
    fields: int,
    calls: Sequence[Mapping[str, Any]],
) -> Record:
    """Judge a block and return everything about it as plain values.

    Parameters
    ----------
    block : Block
    measured : sequence of Measured
        One for each initialization; tables are those of the first.
    redrawn : sequence of Measured
        One for each noise, from an initialization of its own.
    scale : Scale
    fields : int
        How many fields one initialization takes.
    calls : sequence of mapping
        The calls that trained something for the block.
    """
    printed = [] if block.published is None else published_figures(block.figures_of)
    expected, found = {each.key for each in printed}, set(measured[0].figures)
    if expected != found:
        differing = sorted(expected ^ found)
        raise ValueError(f"{block.name}: published and measured figures differ in {differing}")
    outcomes = [
        judge(
            each,
            [one.figures[each.key] for one in measured],
            [one.figures[each.key] for one in redrawn],
            judged=scale.judged,
        )
        for each in printed
    ]
    return {
        "format": FORMAT,
        "name": block.name,
        "title": block.title,
        "claim": block.claim,
        "notes": list(block.notes),
        # The block whose printed figures these are, where it is another one.
        "figures_of": block.figures_of,
        "scale": scale.name,
        "initializations": len(measured),
        "fields": fields,
        "calls": [dict(call) for call in calls],
        "figures": [_figure(outcome) for outcome in outcomes],
        "tables": {name: _table(frame) for name, frame in measured[0].tables.items()},
    }


def save_record(record: Record, path: Path) -> Path:
    """Write a record as JSON."""
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return write_whole(path, lambda target: target.write_text(text, encoding="utf-8"))


def load_record(path: Path) -> Record:
    """Read a record that `save_record` wrote."""
    try:
        record = json.loads(read_text(path, LARGEST))
        # A half of a character, which JSON can spell, could not be written to the page.
        json.dumps(record, ensure_ascii=False).encode()
    except (OSError, ValueError, RecursionError) as error:
        raise _unusable(path, str(error)) from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise _unusable(path, f"it is not of the format {FORMAT!r}")
    fault = record_fault(record)
    if fault:
        raise _unusable(path, fault)
    return record


def figures_frame(records: Sequence[Record]) -> pd.DataFrame:
    """Return all figures of all blocks, one per row."""
    rows = []
    for record in records:
        for figure in record["figures"]:
            low, high = figure["printed_interval"] or (None, None)
            ours_low, ours_high = figure["interval"] or (None, None)
            rows.append(
                {
                    "block": record["name"],
                    "figure": figure["key"],
                    "label": figure["label"],
                    "where": figure["where"],
                    "published": figure["printed"],
                    "published_low": low,
                    "published_high": high,
                    "ours": figure["ours"],
                    "low": ours_low,
                    "high": ours_high,
                    "interval": figure["interval_source"],
                    "initializations": len(figure["values"]),
                    "percentile": figure["percentile"],
                    "verdict": figure["verdict"],
                    "reason": figure["reason"],
                }
            )
    return pd.DataFrame(rows)


def table_frame(table: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table of a record."""
    return pd.DataFrame(table["rows"], columns=table["columns"])


def _figure(outcome: Outcome) -> dict[str, Any]:
    published, values = outcome.published, outcome.values
    several = len(values) > 1
    return {
        "key": published.key,
        "label": published.label,
        "where": published.where,
        "headline": published.headline,
        "kind": published.kind,
        "chance": published.chance,
        "printed": ("< " if published.bound == "below" else "> " if published.bound else "")
        + published.printed,
        "printed_interval": None if published.interval is None else list(published.interval),
        "published": published.value,
        "ours": plain(outcome.ours),
        "ours_text": published.shown(outcome.ours)
        + (f"/{published.of}" if published.of is not None and "/" in published.printed else ""),
        "interval": None if outcome.interval is None else [plain(x) for x in outcome.interval],
        "interval_text": None
        if outcome.interval is None
        else [published.shown(end) for end in outcome.interval],
        "interval_source": outcome.source,
        "values": [plain(value) for value in values],
        "mean_text": published.shown(float(values.mean())) if several else None,
        "lowest_text": published.shown(float(values.min())) if several else None,
        "highest_text": published.shown(float(values.max())) if several else None,
        "percentile": outcome.percentile,
        "verdict": str(outcome.verdict),
        "reason": outcome.reason,
    }


def _table(frame: pd.DataFrame) -> dict[str, Any]:
    rows = [[plain(value) for value in row] for row in frame.itertuples(index=False)]
    return {"columns": [str(name) for name in frame.columns], "rows": rows}


def plain(value: Any) -> Any:
    """Return a value that JSON knows; a number that is not finite becomes None."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def _unusable(path: Path, why: str) -> InputError:
    return InputError(
        "the record of a block that twoaxis reproduce wrote",
        f"{str(path)!r}: {why}",
        "move it away and reproduce the block again",
    )


# ------------------------------------------------------------------ checks of a stored record

Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _is_number(value: Any) -> bool:
    """Whether it is a number within the range of a double: JSON knows no bounds."""
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:
        return False


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list_of(check: Check, length: int | None = None) -> Check:
    return lambda value: (
        isinstance(value, list) and length in (None, len(value)) and all(map(check, value))
    )


def _map_of(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _is_number_text(value: Any) -> bool:
    try:
        return isinstance(value, str) and math.isfinite(float(value))
    except ValueError:
        return False


def _is_cell(value: Any) -> bool:
    return value is None or _is_flag(value) or _is_text(value) or _is_number(value)


def _is_verdict(value: Any) -> bool:
    return isinstance(value, str) and value in {str(verdict) for verdict in Verdict}


FIGURE: dict[str, Check] = {
    **dict.fromkeys(("key", "label", "where", "chance", "printed", "ours_text"), _is_text),
    **dict.fromkeys(("interval_source", "reason"), _is_text),
    **dict.fromkeys(("mean_text", "lowest_text", "highest_text"), _or_none(_is_text)),
    **dict.fromkeys(("ours", "percentile"), _or_none(_is_number)),
    "headline": _is_flag,
    "published": _is_number,
    "printed_interval": _or_none(_list_of(_is_number_text, 2)),
    "interval": _or_none(_list_of(_or_none(_is_number), 2)),
    "interval_text": _or_none(_list_of(_is_text, 2)),
    "values": _list_of(_or_none(_is_number)),
    "verdict": _is_verdict,
}
CALL: dict[str, Check] = {
    "command": _is_text,
    "device": _is_text,
    "versions": _map_of(_is_text),
    "trained": _is_count,
    "initializations": _is_count,
    "seconds": _is_number,
}
RECORD: dict[str, Check] = {
    **dict.fromkeys(("name", "title", "claim", "scale"), _is_text),
    "notes": _list_of(_is_text),
    "initializations": _is_count,
    "fields": _is_count,
}


def record_fault(record: Mapping[str, Any]) -> str:
    """Return what is missing or wrong in a record, and an empty text if nothing is.

    >>> record_fault({})
    "no usable 'name'"
    """
    fault = _fault(record, RECORD)
    for name, known in (("figures", FIGURE), ("calls", CALL)):
        each = record.get(name)
        if not isinstance(each, list):
            return fault or f"no list of {name}"
        for number, item in enumerate(each, 1):
            wrong = _fault(item, known)
            fault = fault or (f"{wrong} in number {number} of its {name}" if wrong else "")
    tables = record.get("tables")
    if not isinstance(tables, dict):
        return fault or "no tables"
    return fault or next((f"no usable table {n!r}" for n in tables if not _whole(tables[n])), "")


def _fault(item: Any, known: Mapping[str, Check]) -> str:
    if not isinstance(item, dict):
        return "no mapping"
    for name, check in known.items():
        if name not in item or not check(item[name]):
            return f"no usable {name!r}"
    return ""


def _whole(table: Any) -> bool:
    """Whether a table has texts over columns of one length."""
    if not isinstance(table, dict) or not _list_of(_is_text)(table.get("columns")):
        return False
    return _list_of(_list_of(_is_cell, len(table["columns"])))(table.get("rows"))

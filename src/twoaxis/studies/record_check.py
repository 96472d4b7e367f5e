"""What a record must look like, so that the page and the tables can be made of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from twoaxis.studies.verdict import Verdict

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
    **dict.fromkeys(("key", "label", "where", "printed", "ours_text"), _is_text),
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
    "initialisations": _is_count,
    "seconds": _is_number,
}
RECORD: dict[str, Check] = {
    **dict.fromkeys(("name", "title", "claim", "scale"), _is_text),
    "notes": _list_of(_is_text),
    "initialisations": _is_count,
    "fields": _is_count,
}


def record_fault(record: Mapping[str, Any]) -> str:
    """Say what is missing in a record or of another kind than it should be; nothing if all is well.

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

"""What the records of a reproduction hold, looked up by block; what is missing is None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoaxis.report.words import shortened
from twoaxis.studies.fields import PROBLEMS, TITLES
from twoaxis.studies.record import table_frame

FloatArray = NDArray[np.float64]
Record = Mapping[str, Any]

# Colour, marker and fill of each problem: fills tell them apart where there is no colour.
ROLES = dict(zip(PROBLEMS, ("minus", "observe", "matched"), strict=True))
MARKERS = dict(zip(PROBLEMS, ("o", "s", "^"), strict=True))
FILLS = dict(zip(PROBLEMS, (0.8, 0.0, 0.3), strict=True))


class Found:
    """The records of a reproduction by block."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = {str(record["name"]): record for record in records}

    def table(self, block: str, *columns: str) -> pd.DataFrame | None:
        """Return the first table of a block that has all of these columns, and rows."""
        for table in self._records.get(block, {}).get("tables", {}).values():
            if set(columns) <= set(table["columns"]) and table["rows"]:
                return table_frame(table)
        return None

    def figure(self, block: str, key: str) -> Mapping[str, Any] | None:
        """Return a figure of a block that has a value."""
        for figure in self._records.get(block, {}).get("figures", ()):
            if figure["key"] == key and figure["ours"] is not None:
                chosen: Mapping[str, Any] = figure
                return chosen
        return None


def numbers(values: Any) -> FloatArray:
    """Return a column as numbers; what is none is not a number."""
    return np.asarray(pd.to_numeric(pd.Series(values), errors="coerce"), dtype=float)


def ends(figure: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the ends of our interval, where there is one and it is finite."""
    low, high = figure["interval"] or (None, None)
    return None if low is None or high is None else (float(low), float(high))


def printed_ends(figure: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the ends of the printed interval as numbers."""
    texts = figure["printed_interval"]
    return None if texts is None else (float(texts[0]), float(texts[1]))


def title_of(problem: object) -> str:
    """Return a problem's name as a reader knows it."""
    return TITLES.get(str(problem), shortened(problem))


def problems_in(rows: pd.DataFrame) -> list[str]:
    """Return the problems that a table holds, in the order of the study."""
    there = set(rows["problem"])
    return [problem for problem in PROBLEMS if problem in there]


def beside_published(figure: Mapping[str, Any] | None, symbol: str) -> str:
    """Return ``symbol = ours (published ...)``, or nothing where there is no such figure."""
    if figure is None:
        return ""
    return f"{symbol} = {figure['ours_text']} (published {figure['printed']})"

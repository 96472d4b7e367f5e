"""Write the tables on variants of the study when the documentation is built; no number is typed.

``results/decode/runs.csv`` is what ``benchmarks/decode.py`` left; ``decoding.md`` includes a table
for each family of variants from ``_build/decoding/``. Beside them stand the same cases as they are
reproduced, from the readouts of ``results/reproduction``.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from myst import compact, escaped, paragraphs, table, value

DOCS = Path(__file__).parent
RUNS = DOCS.parent / "results" / "decode" / "runs.csv"
DELIVERED = DOCS.parent / "results" / "reproduction" / "readouts" / "delivered-1.csv"
TITLES = {"burgers": "Burgers", "buckley-leverett": "Buckley–Leverett", "allen-cahn": "Allen–Cahn"}


def build(app: object) -> None:  # noqa: ARG001
    """Write everything before Sphinx looks for its sources."""
    runs = pd.read_csv(RUNS, dtype={"dataset": str})
    parts = DOCS / "_build" / "decoding"
    parts.mkdir(parents=True, exist_ok=True)
    stored = pd.read_csv(DELIVERED, comment="#", dtype={"dataset": str})
    for family, own in runs.groupby("family", sort=False):
        text = darcy(own) if family == "darcy" else scalar(str(family), own, stored)
        (parts / f"{family}.md").write_text(text, encoding="utf-8")


def scalar(family: str, runs: pd.DataFrame, stored: pd.DataFrame) -> str:
    """Return one row for each run, and how the same case comes out as it is reproduced."""
    more = {
        "exact-rba": [("points that count", "support", ".0f")],
        "selector": [("modes", "rank", ".0f"), ("of the strength", "retained", ".1%")],
        "float32": [("slope at the ends", "end_slope", ".2e")],
    }.get(family, [])
    compared = family not in ("exact-rba", "float32")
    heads = ["variant", "case", "error, %", "minimum of the field, %", "error of the field"]
    heads += [head for head, *_ in more] + (["as reproduced, %"] if compared else [])
    rows = [
        [
            escaped(row.cell),
            f"{TITLES[row.problem]} {row.dataset.removesuffix('c')}",
            value(f"{row.error_percent:+.1f}", ""),
            value(f"{row.own_minimum_percent:+.1f}", ""),
            f"{row.field_error:.3f}",
            *(format(getattr(row, column), form) for _, column, form in more),
            *([_reproduced(family, row, stored)] if compared else []),
        ]
        for row in runs.itertuples()
    ]
    return paragraphs(compact(table(heads, "ll" + "r" * (len(heads) - 2), rows)))


def _reproduced(family: str, row: tuple, stored: pd.DataFrame) -> str:
    """Return mean and range of the same case over our initializations."""
    method = "selector" if family == "selector" else row.cell.rpartition(", ")[2]
    chosen = stored[
        (stored["problem"] == row.problem)
        & (stored["method"] == method)
        & (stored["dataset"] == row.dataset)
        & (stored["conditions"] == ("exact" if family == "exact-raw" else "soft"))
        & stored[["replica", "fold", "candidate", "width"]].isna().all(axis=1)
    ]["error_percent"]
    if chosen.empty:
        return ""
    return value(f"{chosen.mean():+.1f}", f"[{chosen.min():+.1f}, {chosen.max():+.1f}]")


def darcy(runs: pd.DataFrame) -> str:
    """Return one row for each run."""
    heads = ["variant", "dataset", "cosine", "full", "diagonal", "coupling", "loss factor"]
    rows = [
        [
            escaped(row.cell),
            row.dataset,
            f"{row.cosine:.6f}",
            f"{row.full:.4f}",
            f"{row.diagonal:.4f}",
            f"{row.coupling:.4f}",
            f"{row.loss_factor:.4f}",
        ]
        for row in runs.itertuples()
    ]
    return paragraphs(compact(table(heads, "llrrrrr", rows)))

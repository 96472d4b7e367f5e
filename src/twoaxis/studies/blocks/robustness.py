"""Numerical robustness: three steps of the difference, by two grids of the scan.

The development and the holdout fields under three views. Each printed entry is a range over the
three steps; ours is the value at the middle step, with all steps in the table.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from twoaxis.studies.block import Block, Measured, Need, Rows
from twoaxis.studies.blocks.development import DRAWS, SEED, development_fields
from twoaxis.studies.blocks.holdout import holdout_fields
from twoaxis.studies.fields import DEVELOPMENT_LAYOUTS
from twoaxis.studies.readouts import CROSSINGS, GRIDS, STEP, STEPS
from twoaxis.studies.resampling import Resampling, correlation
from twoaxis.studies.scale import Scale


def _needs(scale: Scale) -> Sequence[Need]:
    del scale
    return [Need(CROSSINGS, [*development_fields(), *holdout_fields()])]


def _measure(rows: Rows, scale: Scale) -> Measured:
    every = rows[CROSSINGS.name]
    developed = every["dataset"].isin(DEVELOPMENT_LAYOUTS)
    measured = Measured()
    table = []
    for suite, part in (("development", every[developed]), ("holdout", every[~developed])):
        for grid in GRIDS:
            for view in ("pointwise", "pooled"):
                values = {}
                for step in STEPS:
                    chosen = part.query("grid == @grid and step == @step")
                    if view == "pointwise":
                        chosen = chosen[chosen["view"] == view]
                    sample = Resampling(chosen["key"], DRAWS, SEED, scale)
                    r = correlation(sample, chosen["delta_percent"], chosen["grid_error_percent"])
                    values[f"step {step:g}"] = r.value
                    if step == STEP:
                        measured.put(f"{suite}_{grid}_{view}_r", r)
                table.append({"suite": suite, "grid": grid, "view": view, **values})
    measured.put("largest_change", _largest_change(every))
    measured.tables["correlations"] = pd.DataFrame(table)
    return measured


def _largest_change(rows: pd.DataFrame) -> float:
    """Return how far the error of a selected minimum moves, at most, when the grid is refined."""
    at = rows[rows["step"] == STEP]
    coarse, fine = (
        at[at["grid"] == grid].set_index(["key", "view"])["grid_error_percent"] for grid in GRIDS
    )
    return float((fine - coarse).abs().max())


BLOCK = Block(
    name="robustness",
    title="Numerical robustness",
    claim=(
        "May show that neither the step of the difference nor the grid of the scan decides the "
        "agreement; it adds no fields of its own."
    ),
    needs=_needs,
    measure=_measure,
)

"""Development: does the displacement find the minimum of the frozen profile?

Twenty-four fields (patch, rank-64, full-rank Gaussian and RBA on datasets 8 and 9 of three
problems), each scanned under three views: 72 profiles. Intervals resample whole fields, so that the
three views of one field stay together.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from twoaxis.studies.block import Block, Measured, Need, Rows
from twoaxis.studies.fields import DEVELOPMENT_LAYOUTS, PROBLEMS, Field
from twoaxis.studies.readouts import PROFILES, VIEWS
from twoaxis.studies.resampling import (
    Resampling,
    correlation,
    count,
    mean_difference,
    same_direction,
)
from twoaxis.studies.scale import Scale

METHODS = ("patch", "gaussian-64", "gaussian", "rba")
DRAWS, SEED = 10_000, 20260715


def development_fields() -> list[Field]:
    """Return the twenty-four intervention fields."""
    return [
        Field(problem=problem, method=method, dataset=dataset)
        for problem in PROBLEMS
        for method in METHODS
        for dataset in DEVELOPMENT_LAYOUTS
    ]


def measure_profiles(rows: pd.DataFrame, scale: Scale) -> Measured:
    """Compare score and scan, view by view and pooled."""
    measured = Measured()
    table = []
    views = [*((view, rows[rows["view"] == view]) for view in VIEWS), ("pooled", rows)]
    for view, chosen in views:
        sample = Resampling(chosen["key"], DRAWS, SEED, scale)
        delta, error = chosen["delta_percent"], chosen["grid_error_percent"]
        r, difference = correlation(sample, delta, error), mean_difference(sample, delta, error)
        agree = same_direction(chosen["displacement"], chosen["grid_displacement"])
        directions = count(sample, agree)
        name = view.replace(" ", "_").replace("-", "_")
        measured.put(f"{name}_r", r)
        measured.put(f"{name}_mae", difference)
        if view == "pooled":
            measured.put("pooled_directions", directions)
        table.append(
            {
                "view": view,
                "profiles": len(chosen),
                "r": r.value,
                "mae": difference.value,
                "same_direction": int(directions.value),
                "r_refined_minimum": correlation(
                    sample, delta, chosen["refined_error_percent"]
                ).value,
                "minima_on_a_bound": int((chosen["scan_status"] != "interior").sum()),
            }
        )
    measured.tables["agreement"] = pd.DataFrame(table)
    return measured


def _needs(scale: Scale) -> Sequence[Need]:
    del scale
    return [Need(PROFILES, development_fields())]


def _measure(rows: Rows, scale: Scale) -> Measured:
    profiles = rows[PROFILES.name]
    measured = measure_profiles(profiles, scale)
    shown = ["problem", "method", "dataset", "view", "displacement", "grid_displacement"]
    measured.tables["profiles"] = profiles[[*shown, "delta_percent", "grid_error_percent"]]
    return measured


BLOCK = Block(
    name="development",
    title="Development profiles",
    claim=(
        "The readout was developed on these fields with the truth known. They may show that "
        "displacement and scanned minimum agree in size and sign; they are no independent test."
    ),
    needs=_needs,
    measure=_measure,
)

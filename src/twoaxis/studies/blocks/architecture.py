"""Architecture transfer: the locked readout on narrower and on wider networks.

PCGrad and PatchEvidence on four datasets of three problems, with networks of width 32 and depth 3
and of width 128 and depth 4: 48 fields, each scanned under the pointwise view. Intervals resample
problem and dataset together.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from twoaxis.studies.block import Block, Measured, Need, Rows
from twoaxis.studies.fields import LAYOUTS, PROBLEMS, Field
from twoaxis.studies.readouts import ENDPOINTS
from twoaxis.studies.resampling import (
    Resampling,
    correlation,
    correlation_within,
    count,
    labels,
    mean_difference,
    same_direction,
)
from twoaxis.studies.scale import Scale

METHODS = ("pcgrad", "patch")
NETWORKS = ((32, 3), (128, 4))
DRAWS, SEED = 20_000, 20260720


def architecture_fields() -> list[Field]:
    """Return the forty-eight fields."""
    return [
        Field(problem=problem, method=method, dataset=dataset, width=width, depth=depth)
        for width, depth in NETWORKS
        for problem in PROBLEMS
        for method in METHODS
        for dataset in LAYOUTS
    ]


def architecture_needs(scale: Scale) -> Sequence[Need]:
    """Return the fields with the readout that this block and the view alignment share."""
    del scale
    return [Need(ENDPOINTS, architecture_fields())]


def _measure(rows: Rows, scale: Scale) -> Measured:
    every = rows[ENDPOINTS.name]
    pointwise = every[every["view"] == "pointwise"]
    measured = Measured()
    table = []
    parts = {f"width_{w}": pointwise[pointwise["width"] == w] for w, _ in NETWORKS}
    for name, chosen in {**parts, "pooled": pointwise}.items():
        sample = Resampling(labels(chosen, "problem", "dataset"), DRAWS, SEED, scale)
        delta, error = chosen["delta_percent"], chosen["grid_error_percent"]
        r = correlation(sample, delta, error)
        within = correlation_within(sample, delta, error, chosen["problem"])
        difference = mean_difference(sample, delta, error)
        for figure, value in (("r", r), ("centered_r", within), ("mae", difference)):
            measured.put(f"{name}_{figure}", value)
        agree = same_direction(chosen["displacement"], chosen["grid_displacement"])
        table.append(
            {
                "network": name.replace("_", " "),
                "profiles": len(chosen),
                "r": r.value,
                "centered_r": within.value,
                "mae": difference.value,
                "same_direction": int(count(sample, agree).value),
                "minima_on_a_bound": int((chosen["scan_status"] != "interior").sum()),
            }
        )
    measured.tables["agreement"] = pd.DataFrame(table)
    return measured


BLOCK = Block(
    name="architecture",
    title="Architecture transfer",
    claim=(
        "May show that the correlation of displacement and scanned minimum carries over to the two "
        "tested network shapes, and says nothing about other kinds of networks."
    ),
    needs=architecture_needs,
    measure=_measure,
)

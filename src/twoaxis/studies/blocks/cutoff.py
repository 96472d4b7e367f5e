"""Cutoff: does a frozen Gaussian profile gain from rank 256 over rank 64?

The block compares the error of the grid minimum under both ranks, for each of the twenty-four
development fields. A field is improved when the error is smaller under rank 256, and tied when both
ranks select the same candidate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from twoaxis.studies.block import Block, Measured, Need, Rows
from twoaxis.studies.blocks.development import development_fields
from twoaxis.studies.fields import PROBLEMS
from twoaxis.studies.readouts import CUTOFFS
from twoaxis.studies.scale import Scale


def _needs(scale: Scale) -> Sequence[Need]:
    del scale
    return [Need(CUTOFFS, development_fields())]


def _measure(rows: Rows, scale: Scale) -> Measured:
    del scale
    every = rows[CUTOFFS.name]
    measured = Measured()
    table = []
    for problem in PROBLEMS:
        chosen = every[every["problem"] == problem]
        change = chosen["error_percent_64"] - chosen["error_percent_256"]
        tied = chosen["displacement_64"] == chosen["displacement_256"]
        counts = {"improved": int((change > 0).sum()), "tied": int(tied.sum())}
        mean_change = float(np.mean(change))
        for name, number in (counts | {"change": mean_change}).items():
            measured.put(f"{problem}_{name}".replace("-", "_"), number)
        table.append(
            {
                "problem": problem,
                "fields": len(chosen),
                **counts,
                "worsened": int((change < 0).sum()),
                "mean_error_rank_64": chosen["error_percent_64"].mean(),
                "mean_error_rank_256": chosen["error_percent_256"].mean(),
                "mean_change": mean_change,
            }
        )
    measured.tables["by_problem"] = pd.DataFrame(table)
    fields = ["problem", "dataset", "method"]
    errors = ["error_percent_64", "error_percent_256", "status_64", "status_256"]
    measured.tables["by_field"] = every[fields + errors]
    return measured


BLOCK = Block(
    name="cutoff",
    title="Cutoff of the kernel",
    claim=(
        "May show that no single cutoff of the kernel suits all three problems. Eight frozen "
        "fields a problem do not establish the best rank for any, and nothing is trained again."
    ),
    needs=_needs,
    measure=_measure,
    notes=(
        "Errors are those of the selected minimum on 81 candidates, so that a change smaller "
        "than the spacing of the grid is a tie.",
    ),
)

"""Score-ratio holdout: the locked readout on fields that had no part in its development.

Twelve fields on datasets 10 and 11, three views each: 36 profiles. The calculation is that of
the development block, unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pandas as pd

from twoaxis.studies.block import Block, Measured, Need, Rows
from twoaxis.studies.blocks.development import DRAWS, SEED, measure_profiles
from twoaxis.studies.fields import HOLDOUT_LAYOUTS, PROBLEMS, Field
from twoaxis.studies.readouts import PROFILES
from twoaxis.studies.resampling import Resampling, correlation, mean_difference
from twoaxis.studies.scale import Scale

METHODS = ("patch", "rba")
# All methods that the study trained on these datasets: any two of them may be the published ones.
POSSIBLE = ("patch", "rba", "pcgrad")


def holdout_fields(methods: Sequence[str] = METHODS) -> list[Field]:
    """Return the twelve fields of the holdout."""
    return [
        Field(problem=problem, method=method, dataset=dataset)
        for problem in PROBLEMS
        for method in methods
        for dataset in HOLDOUT_LAYOUTS
    ]


def _needs(scale: Scale) -> Sequence[Need]:
    del scale
    return [Need(PROFILES, holdout_fields(POSSIBLE))]


def _measure(rows: Rows, scale: Scale) -> Measured:
    every = rows[PROFILES.name]
    measured = measure_profiles(every[every["method"].isin(METHODS)], scale)
    del measured.figures["pooled_directions"]  # not printed for this block
    table = []
    for pair in combinations(POSSIBLE, 2):
        chosen = every[every["method"].isin(pair)]
        sample = Resampling(chosen["key"], DRAWS, SEED, scale)
        delta, error = chosen["delta_percent"], chosen["grid_error_percent"]
        table.append(
            {
                "methods": " and ".join(pair),
                "profiles": len(chosen),
                "r": correlation(sample, delta, error).value,
                "mae": mean_difference(sample, delta, error).value,
            }
        )
    measured.tables["other_pairs_of_methods"] = pd.DataFrame(table)
    return measured


BLOCK = Block(
    name="holdout",
    title="Score-ratio holdout",
    claim=(
        "The readout was locked before it met these fields. They may show that its correlation "
        "with the scanned minimum carries over to other datasets; the fields themselves were "
        "trained earlier, so that it is no test of a training that knows no truth."
    ),
    needs=_needs,
    measure=_measure,
    notes=(
        "The study does not say which two methods made the twelve fields. PatchEvidence and RBA "
        "are taken, which the development block shares with it; the table of other pairs shows "
        "what the choice changes.",
    ),
)

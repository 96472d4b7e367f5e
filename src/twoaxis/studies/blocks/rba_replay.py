"""RBA replay: what do the final weights follow, and do they move the minimum?

The six development fields of RBA, each profile once under its final weights and once pointwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from twoaxis.studies.block import Block, Measured, Need, Rows
from twoaxis.studies.blocks.selector import RBA, six_cases
from twoaxis.studies.readouts import ENDPOINTS, FOLLOWED, OWN, REPLAY
from twoaxis.studies.scale import Scale

CASE = ["problem", "dataset"]


def _needs(scale: Scale) -> Sequence[Need]:
    del scale
    return [Need(REPLAY, six_cases(RBA)), Need(ENDPOINTS, six_cases(RBA))]


def _measure(rows: Rows, scale: Scale) -> Measured:
    del scale
    replay, minima = rows[REPLAY.name], _minima(rows[ENDPOINTS.name])
    measured = Measured()
    for name in FOLLOWED:
        measured.put(f"weights_with_{name}", replay[f"weights_with_{name}"].mean())
    measured.put("smallest_support", replay["effective_support"].min())
    measured.put("largest_support", replay["effective_support"].max())
    measured.put("same_minimum", float(minima["same_minimum"].sum()))
    followed = [f"weights_with_{name}" for name in FOLLOWED]
    table = replay[["key", *CASE, *followed, "effective_support", "points"]].merge(minima, on="key")
    measured.tables["replays"] = table.drop(columns="key")
    return measured


def _minima(endpoints: pd.DataFrame) -> pd.DataFrame:
    """Return the displacement of the selected minimum under both views, field by field."""
    moved = endpoints.pivot(index="key", columns="view", values="grid_displacement")
    table = moved[[OWN, "pointwise"]].set_axis(["weighted_minimum", "pointwise_minimum"], axis=1)
    # Both scans have the same candidates, so that equal minima are equal to the last digit.
    table["same_minimum"] = table["weighted_minimum"] == table["pointwise_minimum"]
    return table.reset_index()


BLOCK = Block(
    name="rba-replay",
    title="RBA replay",
    claim=(
        "May show what the final weights follow, and whether they move the selected minimum of "
        "six frozen fields. It does not show that the weighted and the pointwise profile are the "
        "same, nor what the weights did during training."
    ),
    needs=_needs,
    measure=_measure,
    notes=(
        "Correlations are those of ranks, so that it does not matter whether the weight or its "
        "square is meant. The effective support is that of the loss, whose factors are the "
        "squared weights.",
    ),
)

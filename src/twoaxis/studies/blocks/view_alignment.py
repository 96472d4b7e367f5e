"""View alignment: the returned parameter follows the view that moved it.

The fields of the architecture block. PCGrad moves the parameter by the pointwise residual, and
the pointwise readout is its own view. PatchEvidence moves it by patch means; the same pointwise
readout then looks at another objective. A table adds what the study did not print: the
PatchEvidence fields under their own view.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from twoaxis.studies.block import Block, Measured, Rows
from twoaxis.studies.blocks.architecture import (
    DRAWS,
    METHODS,
    NETWORKS,
    SEED,
    architecture_needs,
)
from twoaxis.studies.readouts import ENDPOINTS, OWN
from twoaxis.studies.resampling import Resampling, correlation, labels, mean_difference
from twoaxis.studies.scale import Scale


def _measure(rows: Rows, scale: Scale) -> Measured:
    every = rows[ENDPOINTS.name]
    measured = Measured()
    table = []
    for width, _ in NETWORKS:
        for method in METHODS:
            for view in ("pointwise", OWN):
                chosen = every.query("width == @width and method == @method and view == @view")
                sample = Resampling(labels(chosen, "problem", "dataset"), DRAWS, SEED, scale)
                moved = chosen["delivered_displacement"]
                error = 100 * np.abs(np.expm1(moved))
                figures = {
                    "absolute_r": correlation(sample, chosen["delta_percent"], error),
                    "signed_r": correlation(sample, chosen["displacement"], moved),
                    "mae": mean_difference(sample, chosen["delta_percent"], error),
                }
                if view == "pointwise":
                    for name, value in figures.items():
                        measured.put(f"{method}_{width}_{name}", value)
                values = {name: value.value for name, value in figures.items()}
                table.append({"width": width, "method": method, "view": view, **values})
    measured.tables["endpoints"] = pd.DataFrame(table)
    return measured


BLOCK = Block(
    name="view-alignment",
    title="View alignment",
    claim=(
        "May show that delivered parameters agree with the displacement under the view that "
        "trained them, and rules out that any view will do. Twelve fields stand behind each row."
    ),
    needs=architecture_needs,
    measure=_measure,
)

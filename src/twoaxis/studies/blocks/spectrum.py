"""Sensitivity spectrum: which modes of the Gaussian kernel see the parameter.

Mean shares of the strength in the leading 64 modes, the next 192 and all others, for the
development fields and for those of the score-ratio holdout. The published shares are those of the
pointwise strength in the kernel's eigenvectors, j_k^2; the table also has the shares of lambda_k
j_k^2, which the formulas of the study name.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from twoaxis.studies.block import Block, Measured, Need, Rows
from twoaxis.studies.blocks.development import development_fields
from twoaxis.studies.blocks.holdout import holdout_fields
from twoaxis.studies.fields import DEVELOPMENT_LAYOUTS, PROBLEMS
from twoaxis.studies.readouts import BANDS, READINGS, SHARES
from twoaxis.studies.scale import Scale


def _needs(scale: Scale) -> Sequence[Need]:
    del scale
    return [Need(SHARES, [*development_fields(), *holdout_fields()])]


def _measure(rows: Rows, scale: Scale) -> Measured:
    del scale
    every = rows[SHARES.name]
    developed = every["dataset"].isin(DEVELOPMENT_LAYOUTS)
    measured = Measured()
    table = []
    for suite, part in (("development", every[developed]), ("holdout", every[~developed])):
        for problem in PROBLEMS:
            chosen = part[part["problem"] == problem]
            for reading in READINGS:
                row = {"suite": suite, "problem": problem, "fields": len(chosen)}
                row["reading"] = reading
                for band in BANDS:
                    share = 100 * float(chosen[f"{reading}_{band}"].mean())
                    row[f"modes_{band}"] = share
                    if reading == "pointwise":
                        measured.put(f"{suite}_{problem}_{band}".replace("-", "_"), share)
                table.append(row)
    measured.tables["shares_in_percent"] = pd.DataFrame(table)
    return measured


BLOCK = Block(
    name="spectrum",
    title="Sensitivity spectrum",
    claim=(
        "May show that the residual scales which see the parameter differ between these problems, "
        "and that the split repeats on the holdout fields. It speaks of the residual's "
        "sensitivity, not of the information in the observations, and not of signs."
    ),
    needs=_needs,
    measure=_measure,
    notes=(
        "The published shares are read as the pointwise strength resolved in the eigenvectors of "
        "the Gaussian kernel. Weighted by the eigenvalues, as the formula for H has it, hardly any "
        "strength is left beyond mode 256 in any problem; both readings are in the table.",
    ),
)

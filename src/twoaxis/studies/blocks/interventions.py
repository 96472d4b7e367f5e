"""Operator interventions: a better field is not a better parameter.

The twenty-four development fields, by what training returned: the absolute percentage error of
the parameter and the relative L2 error of the field. Beside them, residuals without a mean in any
patch, which need no field: how much of them each view sees.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from twoaxis.studies.block import Block, Measured, Need, Resampling, Rows
from twoaxis.studies.blocks.adversarial import adversarial_percentages
from twoaxis.studies.blocks.development import DRAWS, METHODS, SEED, development_fields
from twoaxis.studies.readouts import DELIVERED
from twoaxis.studies.scale import Scale
from twoaxis.studies.verdict import correlation, correlation_within, mean

PATCH, LOW_RANK, FULL_RANK = "patch", "gaussian-64", "gaussian"
CASE = ["problem", "dataset"]
# View and normalisation, in words, of the columns of `adversarial_percentages`.
SEEN = {
    "patch": ("patch, 8 cells an axis", "mean of squared patch means"),
    "rank_64": ("Gaussian, rank 64", "K / sum(K)"),
    "full": ("Gaussian, full rank", "K / sum(K)"),
    "rank_64_by_trace": ("Gaussian, rank 64", "K / trace(K)"),
    "full_by_trace": ("Gaussian, full rank", "K / trace(K)"),
}


def _needs(scale: Scale) -> Sequence[Need]:
    del scale
    return [Need(DELIVERED, development_fields())]


def _measure(rows: Rows, scale: Scale) -> Measured:
    fields = rows[DELIVERED.name].assign(parameter=lambda row: row["error_percent"].abs())
    measured = Measured()
    tables = {}
    for quantity, column in (("parameter", "parameter"), ("field", "field_error")):
        for row in fields.to_dict("records"):
            name = f"{quantity}_{row['problem']}_{row['dataset']}_{row['method']}"
            measured.put(name.replace("-", "_"), float(row[column]))
        tables[quantity] = fields.pivot(index=CASE, columns="method", values=column)
        shown = tables[quantity][list(METHODS)].reset_index().rename_axis(columns=None)
        measured.tables[f"{quantity}_error"] = shown
    sample = Resampling(fields["key"], DRAWS, SEED, scale)
    pair = fields["field_error"], fields["parameter"]
    measured.put("raw_r", correlation(sample, *pair))
    measured.put("centred_r", correlation_within(sample, *pair, fields["problem"]))
    measured.tables["full_rank_against_others"] = changes = _changes(**tables)
    measured.put("full_rank_better_fields", float(changes["field_better_than_both"].sum()))
    _put_adversarial(measured, scale)
    return measured


def _changes(parameter: pd.DataFrame, field: pd.DataFrame) -> pd.DataFrame:
    """Return by how much full rank changes both errors, case by case; negative is better."""
    table = pd.DataFrame(index=field.index)
    for other, name in ((PATCH, "patch"), (LOW_RANK, "rank_64")):
        table[f"field_minus_{name}"] = field[FULL_RANK] - field[other]
        table[f"parameter_minus_{name}"] = parameter[FULL_RANK] - parameter[other]
    best = field[[PATCH, LOW_RANK]].min(axis=1)
    table["field_better_than_both"] = field[FULL_RANK] < best
    return table.reset_index()


def _put_adversarial(measured: Measured, scale: Scale) -> None:
    """Add the shares of the pointwise loss; whole sets of points are drawn anew."""
    seen = adversarial_percentages(scale.residual_points)
    sample = Resampling(seen["set"], DRAWS, SEED, scale)
    for view in ("patch", "rank_64", "full"):
        measured.put(f"adversarial_{view}", mean(sample, seen[view]))
    by_set = seen.groupby("set").mean()
    measured.tables["adversarial"] = pd.DataFrame(
        {
            "view": view,
            "normalisation": normalisation,
            "percent_of_pointwise_loss": seen[column].mean(),
            "smallest_residual": seen[column].min(),
            "largest_residual": seen[column].max(),
            "smallest_set_mean": by_set[column].min(),
            "largest_set_mean": by_set[column].max(),
        }
        for column, (view, normalisation) in SEEN.items()
    )


BLOCK = Block(
    name="interventions",
    title="Operator interventions",
    claim=(
        "May show that, on these twenty-four fields, a more accurate field need not have a more "
        "accurate parameter, and that full rank leaves no residual unseen. Six cases rank no "
        "method, and full rank does not make the signed score vanish."
    ),
    needs=_needs,
    measure=_measure,
    notes=(
        "The study does not say how many residuals without patch means it drew, nor at which "
        "points. Here there are six sets of residual points, uniform in the unit square, with a "
        "hundred Gaussian white residuals each.",
        "Percentages of the pointwise loss depend on how a kernel is scaled. The published ones "
        "are compared with K / sum(K), the scaling of the trainings; the published 100% at full "
        "rank is under a normalisation that could not be identified. The table gives "
        "K / trace(K), too.",
    ),
)

r"""Darcy: does the matrix displacement find the minimum of a coupled frozen profile?

Twenty fields of a two-parameter problem (PCGrad and PatchEvidence on datasets 10 to 19), all
under the pointwise view. With the score :math:`B` and strength :math:`H` at the truth, the full
step is :math:`D_f = -H^\dagger B`, the diagonal one :math:`D_d = -\operatorname{diag}(H)^{-1} B`;
both are compared with the displacement :math:`d` of the refined minimum,

.. math:: \cos = \frac{D_f \cdot d}{|D_f|\,|d|}, \qquad e = \frac{|D - d|}{|d|}.

Box normalization divides both coordinates by the widths of the box first. That the diagonal step
misses the full one by the coupling, in the norm of :math:`H`, is algebra and not a finding; how
well the full step predicts the minimum of the curved profile is one. Intervals draw dataset seeds,
with the fields of both methods.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoaxis.problems import get_problem
from twoaxis.studies.block import Block, Measured, Need, Rows
from twoaxis.studies.fields import Field
from twoaxis.studies.readouts import DARCY
from twoaxis.studies.resampling import Resampling, count, median
from twoaxis.studies.scale import Scale

FloatArray = NDArray[np.float64]

PROBLEM = "darcy"
METHODS = ("pcgrad", "patch")
DRAWS, SEED = 10_000, 20260721
INTERIOR = "interior"
# The study does not print the weight of the boundary term. It counts like the data here; what
# other weights change stands in a table.
OTHER_BOUNDARY_WEIGHTS = (10.0, 100.0)


def darcy_fields(scale: Scale, boundary_weight: float | None = None) -> list[Field]:
    """Return the fields, ten of each method."""
    return [
        Field(problem=PROBLEM, method=method, dataset=dataset, boundary_weight=boundary_weight)
        for method in METHODS
        for dataset in scale.darcy_datasets
    ]


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Return, for each field, how its steps compare with the refined minimum."""
    full, diagonal, refined = (
        rows[[f"{name}_0", f"{name}_1"]].to_numpy(float) for name in ("full", "diagonal", "refined")
    )
    steps = [f"{name}_{k}" for name in ("refined", "full", "diagonal") for k in (0, 1)]
    box = np.array([np.ptp(p.bounds) for p in get_problem(PROBLEM).parameters.values()])
    size = np.linalg.norm(full, axis=1) * np.linalg.norm(refined, axis=1)
    return pd.DataFrame(
        {
            "method": rows["method"],
            "dataset": rows["dataset"],
            "cosine": np.sum(full * refined, axis=1) / size,
            "full": relative_error(full, refined),
            "diagonal": relative_error(diagonal, refined),
            "coupling": rows["coupling"].astype(float),
            "full_in_box": relative_error(full / box, refined / box),
            "diagonal_in_box": relative_error(diagonal / box, refined / box),
            # The step of a poor field may have an infinite loss; a median needs an order alone.
            "loss_factor": np.minimum(
                rows["loss_after_step"] / rows["loss_at_truth"], np.finfo(float).max
            ),
            "minima": rows["minima"],
            "scan_status": rows["scan_status"],
            "start_spread": rows["start_spread"],
            **{name: rows[name].astype(float) for name in steps},
        }
    )


def relative_error(step: FloatArray, target: FloatArray) -> FloatArray:
    """Return ``|step - target| / |target|`` for rows of shape (n, d)."""
    error: FloatArray = np.linalg.norm(step - target, axis=1) / np.linalg.norm(target, axis=1)
    return error


def _needs(scale: Scale) -> Sequence[Need]:
    weights = (None, *OTHER_BOUNDARY_WEIGHTS)
    return [Need(DARCY, [field for w in weights for field in darcy_fields(scale, w)])]


def _repeat(field: Field, number: int) -> Field | None:
    """Return a field of another initialization; the table of weights needs the first alone."""
    if number and field.boundary_weight is not None:
        return None
    return field.starting_from(number)


def _measure(rows: Rows, scale: Scale) -> Measured:
    every = rows[DARCY.name]
    plain = every["boundary_weight"].isna()
    fields = compared(every[plain].reset_index(drop=True))
    measured = Measured()
    blocks = [("overall", fields), *((m, fields[fields["method"] == m]) for m in METHODS)]
    medians = []
    for name, chosen in blocks:
        sample = Resampling(chosen["dataset"], DRAWS, SEED, scale)
        row: dict[str, object] = {"block": name, "fields": len(chosen)}
        for column in ("cosine", "full", "diagonal", "coupling"):
            figure = median(sample, chosen[column])
            measured.put(f"{name}_{column}", figure)
            row[column] = figure.value
        medians.append(row)
    _put_counts(measured, fields, Resampling(fields["dataset"], DRAWS, SEED, scale))
    measured.tables["medians"] = pd.DataFrame(medians)
    measured.tables["fields"] = fields
    measured.tables["boundary_weights"] = _by_boundary_weight(every)
    return measured


def _by_boundary_weight(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the medians under other weights of the boundary term, which the study leaves open."""
    table = []
    weights = rows["boundary_weight"].astype(float).fillna(1.0)
    for weight, chosen in rows.groupby(weights):
        found = compared(chosen.reset_index(drop=True))
        for method in ("all", *METHODS):
            own = found if method == "all" else found[found["method"] == method]
            medians = own[["cosine", "full", "diagonal", "coupling", "loss_factor"]].median()
            table.append({"boundary_weight": weight, "method": method, **medians.to_dict()})
    return pd.DataFrame(table)


def _put_counts(measured: Measured, fields: pd.DataFrame, sample: Resampling) -> None:
    """Add the figures over all fields that no table of the study holds."""
    measured.put("full_wins", count(sample, fields["full"] < fields["diagonal"]))
    measured.put("loss_factor", median(sample, fields["loss_factor"]))
    measured.put("full_in_box", median(sample, fields["full_in_box"]))
    measured.put("diagonal_in_box", median(sample, fields["diagonal_in_box"]))
    measured.put(
        "full_wins_in_box", count(sample, fields["full_in_box"] < fields["diagonal_in_box"])
    )
    interior = fields["scan_status"] == INTERIOR
    measured.put("interior", count(sample, interior))
    measured.put("one_minimum", count(sample, interior & (fields["minima"] == 1)))
    measured.put("start_spread", float(fields["start_spread"].max()))


BLOCK = Block(
    name="darcy",
    title="Two coupled parameters",
    claim=(
        "May show that the matrix displacement agrees with the refined minimum of the frozen "
        "profile, in direction and size, for one two-parameter problem whose unknowns are "
        "coupled. It says nothing of other parametrizations, and that a diagonal step fails is "
        "algebra, not evidence."
    ),
    needs=_needs,
    measure=_measure,
    repeat=_repeat,
    notes=(
        "The study does not print the source, the boundary values or the starting values of the "
        "Darcy problem. Here the true field is sin(πx) sin(2πy), the source is the one that it "
        "implies at the truth, the field vanishes on the boundary, and both unknowns start at 0.",
        "The study prints 512 boundary samples but no weight of a boundary term. Here their mean "
        "squared error joins the data term with weight 1, so that gradients are projected "
        "between data with boundary on one side and the residual on the other.",
        "The unknowns are log-permeabilities that may be negative, so displacements are "
        "differences of the unknowns themselves. Derivatives by them are exact.",
        "Fields of both methods are audited under the pointwise view. The lowest grid points, "
        "the lowest local minima of the grid and the truth are all refined; the spread is the "
        "largest distance between those that reached the lowest minimum.",
    ),
)

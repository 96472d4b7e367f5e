"""Selector: the smallest rank that keeps nine tenths of H, against RBA and full rank.

Six development cases. The selector meets a rule about the denominator H of the displacement; the
signed numerator B is free.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from twoaxis.studies.block import Block, Measured, Need, Rows
from twoaxis.studies.fields import DEVELOPMENT_LAYOUTS, PROBLEMS, Field
from twoaxis.studies.readouts import DELIVERED, SELECTED
from twoaxis.studies.scale import Scale

SELECTOR, RBA, FULL_RANK = "selector", "rba", "gaussian"
# The share of H that the rule keeps, and the problem on which the study saw it help.
SHARE = 0.9
BETTER_ON = "buckley-leverett"


def six_cases(method: str) -> list[Field]:
    """Return the six development cases under one method."""
    return [
        Field(problem=problem, method=method, dataset=dataset)
        for problem in PROBLEMS
        for dataset in DEVELOPMENT_LAYOUTS
    ]


def _needs(scale: Scale) -> Sequence[Need]:
    del scale
    fields = [field for method in (SELECTOR, RBA, FULL_RANK) for field in six_cases(method)]
    return [Need(DELIVERED, fields), Need(SELECTED, six_cases(SELECTOR))]


def _measure(rows: Rows, scale: Scale) -> Measured:
    del scale
    fields = rows[DELIVERED.name].assign(parameter_error=lambda row: row["error_percent"].abs())
    measured = Measured()
    means = fields.groupby("method")[["parameter_error", "field_error"]].mean()
    by_problem = fields.pivot_table(
        index="problem", columns="method", values="parameter_error", aggfunc="mean"
    )
    for method in (SELECTOR, RBA, FULL_RANK):
        measured.put(f"{method}_parameter", means["parameter_error"][method])
        measured.put(f"{method}_field", means["field_error"][method])
    for problem in PROBLEMS:
        for method in (SELECTOR, RBA):
            key = f"{method}_parameter_{problem}".replace("-", "_")
            measured.put(key, by_problem[method][problem])
    measured.put("selector_better", float(_as_printed(by_problem)))
    selected = rows[SELECTED.name]
    measured.put("rule_kept", float((selected["retained_at_delivered"] >= SHARE).sum()))
    measured.tables["means"] = means.loc[[SELECTOR, RBA, FULL_RANK]].reset_index()
    shown = by_problem.loc[list(PROBLEMS)].reset_index()
    measured.tables["parameter_error_by_problem"] = shown.rename_axis(columns=None)
    measured.tables["chosen_ranks"] = _ranks(selected, fields)
    return measured


def _as_printed(errors: pd.DataFrame) -> int:
    """Return for how many problems the better of selector and RBA is the printed one."""
    better = errors[SELECTOR] < errors[RBA]
    return sum(bool(better[problem]) == (problem == BETTER_ON) for problem in PROBLEMS)


def _ranks(selected: pd.DataFrame, fields: pd.DataFrame) -> pd.DataFrame:
    """Return what the selector kept, case by case, beside its errors."""
    errors = fields[["key", "parameter_error", "field_error"]]
    kept = ["key", "problem", "dataset", "rank", "retained_at_delivered", "retained_at_truth"]
    return selected[kept].merge(errors, on="key").drop(columns="key")


BLOCK = Block(
    name="selector",
    title="Residual-sensitivity selector",
    claim=(
        "May show that keeping the modes which see the parameter does not by itself give a "
        "better parameter, because the signed score is not controlled. A negative result on six "
        "cases; it rejects this rule, not every choice of modes."
    ),
    needs=_needs,
    measure=_measure,
    notes=(
        "The study does not say when the selector chooses its rank, nor under which loss the "
        "field trains until then. Here the field trains under the full kernel while the "
        "parameter rests, and the rank is chosen once, at the end of that warm-up.",
        "The retained share of H is that of the final field, at the delivered parameter and at "
        "the truth. The rule holds when the rank is chosen; the field moves on afterwards.",
    ),
)

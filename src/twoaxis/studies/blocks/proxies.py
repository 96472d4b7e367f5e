"""Proxies: what else might tell the error of the frozen profile?

Correlations of field error, residual mean square (under the view of the row) and Delta, each with
the error of the selected minimum, over the fields of four other blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from twoaxis.studies.block import Block, Measured, Need, Rows
from twoaxis.studies.blocks import architecture, development, fresh_noise
from twoaxis.studies.blocks.holdout import holdout_fields
from twoaxis.studies.fields import DEVELOPMENT_LAYOUTS, HOLDOUT_LAYOUTS, fresh_fields
from twoaxis.studies.readouts import DELIVERED, ENDPOINTS, OWN, PROFILES
from twoaxis.studies.resampling import Resampling, correlation, correlation_within, labels
from twoaxis.studies.scale import Scale


def _needs(scale: Scale) -> Sequence[Need]:
    scanned = [*development.development_fields(), *holdout_fields()]
    ended = [*architecture.architecture_fields(), *fresh_fields(scale)]
    return [
        Need(PROFILES, scanned),
        Need(ENDPOINTS, ended),
        Need(DELIVERED, [*scanned, *ended]),
    ]


def _measure(rows: Rows, scale: Scale) -> Measured:
    field_error = rows[DELIVERED.name].set_index("key")["field_error"]
    profiles, endpoints = rows[PROFILES.name], rows[ENDPOINTS.name]
    points = profiles[profiles["view"] == "pointwise"]
    fresh = endpoints[endpoints["replica"].notna()]
    wider = endpoints[endpoints["replica"].isna() & (endpoints["view"] == "pointwise")]
    suites = {
        "development": points[points["dataset"].isin(DEVELOPMENT_LAYOUTS)],
        "holdout": points[points["dataset"].isin(HOLDOUT_LAYOUTS)],
        "architecture": wider,
        "fresh_aligned": fresh[fresh["view"] == OWN],
        "fresh_pointwise": fresh[fresh["view"] == "pointwise"],
    }
    measured = Measured()
    table = []
    for name, chosen in suites.items():
        sample = _resampling(name, chosen, scale)
        error = chosen["grid_error_percent"]
        delta = chosen["delta_percent"]
        figures = {
            "field": correlation(sample, field_error.loc[chosen["key"]], error),
            "residual": correlation(sample, chosen["residual_mse"], error),
            "displacement": correlation(sample, delta, error),
            "centered": correlation_within(sample, delta, error, chosen["problem"]),
        }
        for key, value in figures.items():
            measured.put(f"{name}_{key}", value)
        values = {key: value.value for key, value in figures.items()}
        table.append({"block and view": name.replace("_", ", "), "profiles": len(chosen)} | values)
    shown = pd.DataFrame(table)
    best = shown["displacement"] > shown[["field", "residual"]].max(axis=1)
    measured.put("displacement_best", float(best.sum()))
    measured.tables["correlations"] = shown
    return measured


def _resampling(name: str, rows: pd.DataFrame, scale: Scale) -> Resampling:
    """Return the bootstrap of the block that the fields belong to."""
    if name == "architecture":
        clusters = labels(rows, "problem", "dataset")
        return Resampling(clusters, architecture.DRAWS, architecture.SEED, scale)
    if name.startswith("fresh"):
        return fresh_noise.resampling(rows, scale)
    return Resampling(rows["key"], development.DRAWS, development.SEED, scale)


BLOCK = Block(
    name="proxies",
    title="Common proxies",
    claim=(
        "May show that field error and residual size do not tell the error of the frozen profile "
        "on these fields, and that the displacement does. Blocks are never pooled."
    ),
    needs=_needs,
    measure=_measure,
    fresh_noise=True,
)

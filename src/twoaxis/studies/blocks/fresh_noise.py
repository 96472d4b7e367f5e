"""Fresh noise: 240 unchanged RBA trainings on new noise, and the matched fit of each dataset.

Twenty noise vectors for each problem, shared by four layouts. Three questions: does the
displacement under the final RBA weights find the minimum of the same profile, does training
deliver it, and is the pipeline better or worse than the matched forward fit on the very same
data? Intervals draw problem and noise vector together and keep the four layouts of each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.statistics import pearson
from twoaxis.studies.block import Block, Measured, Need, Rows
from twoaxis.studies.fields import PROBLEMS, TITLES, fresh_fields
from twoaxis.studies.matched import matched_fits
from twoaxis.studies.readouts import ENDPOINTS, OWN
from twoaxis.studies.resampling import (
    Resampling,
    correlation,
    correlation_within,
    count,
    labels,
    mean,
    mean_difference,
    same_direction,
)
from twoaxis.studies.scale import Scale

FloatArray = NDArray[np.float64]

DRAWS, SEED = 20_000, 20260721
# A displacement beyond this is far from where the first order holds.
FAR = 0.5


def fresh_needs(scale: Scale) -> Sequence[Need]:
    """Return the fresh fields with the readout of their training view."""
    return [Need(ENDPOINTS, fresh_fields(scale))]


def resampling(rows: pd.DataFrame, scale: Scale) -> Resampling:
    """Return the bootstrap of this block: clusters of problem and noise vector."""
    return Resampling(labels(rows, "problem", "replica"), DRAWS, SEED, scale)


def measure_fresh(rows: Rows, scale: Scale) -> Measured:
    """Return everything about the fresh fields of one noise stream and initialization."""
    every = rows[ENDPOINTS.name]
    aligned = every[every["view"] == OWN].reset_index(drop=True)
    pointwise = every[every["view"] == "pointwise"].reset_index(drop=True)
    measured = Measured()
    _put_profiles(measured, aligned, scale)
    _put_endpoints(measured, aligned, pointwise, scale)
    _put_pairs(measured, aligned, scale)
    measured.tables["far_displacements"] = _far(aligned)
    return measured


def _put_profiles(measured: Measured, rows: pd.DataFrame, scale: Scale) -> None:
    """Compare the displacement with the scanned minimum of the same weighted profile."""
    sample = resampling(rows, scale)
    delta, error = rows["delta_percent"], rows["grid_error_percent"]
    measured.put("profile_r", correlation(sample, delta, error))
    measured.put("profile_centered_r", correlation_within(sample, delta, error, rows["problem"]))
    for problem in PROBLEMS:
        own = rows[rows["problem"] == problem]
        r = correlation(resampling(own, scale), own["delta_percent"], own["grid_error_percent"])
        measured.put(f"profile_r_{problem}", r)


def _put_endpoints(
    measured: Measured, aligned: pd.DataFrame, pointwise: pd.DataFrame, scale: Scale
) -> None:
    """Compare displacement and scan with what training returned."""
    table = []
    for view, rows in (("aligned", aligned), ("pointwise", pointwise)):
        sample = resampling(rows, scale)
        moved, delta = rows["delivered_displacement"], rows["delta_percent"]
        error = 100 * np.abs(np.expm1(moved))
        agree = same_direction(rows["displacement"], moved)
        figures = {
            "absolute_r": correlation(sample, delta, error),
            "absolute_mae": mean_difference(sample, delta, error),
            "signed_r": correlation(sample, rows["displacement"], moved),
            "directions": count(sample, agree),
        }
        for name, value in figures.items():
            measured.put(f"{view}_{name}", value)
        table.append({"view": view} | {name: value.value for name, value in figures.items()})
        if view == "aligned":
            groups = rows["problem"]
            scan, step = rows["grid_error_percent"], rows["grid_displacement"]
            gap = np.abs(moved - step)
            figures = {
                "absolute_centered_r": correlation_within(sample, delta, error, groups),
                "signed_centered_r": correlation_within(
                    sample, rows["displacement"], moved, groups
                ),
                "scan_r": correlation(sample, scan, error),
                "scan_mae": mean_difference(sample, scan, error),
                "gap": mean(sample, gap),
                "gap_percent": mean(sample, 100 * np.abs(np.expm1(moved - step))),
            }
            for name, value in figures.items():
                measured.put(name, value)
    same = np.isclose(
        aligned["grid_displacement"], pointwise["grid_displacement"], rtol=0, atol=1e-9
    )
    measured.put("same_grid_minimum", count(resampling(aligned, scale), same))
    measured.tables["endpoints"] = pd.DataFrame(table)


def _far(rows: pd.DataFrame) -> pd.DataFrame:
    """Return how the agreement with the delivered parameter rests on a few far displacements.

    D is the first-order step in the log coordinate. Burgers and Allen–Cahn are affine in the
    parameter itself, where the frozen minimum lies at log(1 + D) exactly.
    """
    affine = (rows["problem"] != "buckley-leverett").to_numpy()
    step = rows["displacement"].to_numpy(float)
    moved = rows["delivered_displacement"].to_numpy(float)
    exact = np.where(affine, np.log1p(np.maximum(step, -1 + 1e-9)), step)
    every, near = np.full(len(rows), True), np.abs(step) <= FAR
    readings = {
        "all runs, D": (step, every),
        f"runs with |D| of at most {FAR}, D": (step, near),
        "all runs, log(1 + D) where the residual is affine in the parameter": (exact, every),
    }
    return pd.DataFrame(
        [
            {"reading": name, "runs": int(chosen.sum()), "signed_r": _r(x[chosen], moved[chosen])}
            for name, (x, chosen) in readings.items()
        ]
    )


def _r(x: FloatArray, y: FloatArray) -> float:
    try:
        return pearson(x, y)
    except InputError:  # fewer than two runs, or all alike
        return float("nan")


def _put_pairs(measured: Measured, rows: pd.DataFrame, scale: Scale) -> None:
    """Compare RBA with the matched fit of the same data."""
    matched = _matched_error(rows, scale)
    ours = 100 * np.abs(np.expm1(rows["delivered_displacement"]))
    measured.tables["runs"] = rows[["problem", "dataset", "replica", "delta_percent"]].assign(
        grid_error_percent=rows["grid_error_percent"],
        delivered_error_percent=ours,
        matched_error_percent=matched,
    )
    table = []
    for name in (*PROBLEMS, "overall"):
        chosen = np.ones(len(rows), bool) if name == "overall" else rows["problem"] == name
        sample = resampling(rows[chosen], scale)
        figures = {
            "rba": mean(sample, ours[chosen]),
            "matched": mean(sample, matched[chosen]),
            "excess": mean(sample, (ours - matched)[chosen]),
            "wins": count(sample, (ours < matched)[chosen]),
        }
        row: dict[str, object] = {"problem": TITLES.get(name, "overall"), "pairs": chosen.sum()}
        for key, value in figures.items():
            measured.put(f"{key}_{name}", value)
            row[key] = value.value
            if key == "excess" and value.draws is not None:
                row["excess_low"], row["excess_high"] = np.quantile(value.draws, [0.025, 0.975])
        table.append(row)
    measured.tables["paired"] = pd.DataFrame(table)


def _matched_error(rows: pd.DataFrame, scale: Scale) -> pd.Series[float]:
    """Return the error of the matched fit to each row's own dataset."""
    (stream,) = set(rows["stream"])
    errors = {p: matched_fits(p, scale.fresh_replicas, int(stream)).error_percent for p in PROBLEMS}
    found = [
        float(errors[p].sel(layout=str(dataset)).isel(replica=int(replica)))
        for p, dataset, replica in zip(
            rows["problem"], rows["dataset"], rows["replica"], strict=True
        )
    ]
    return pd.Series(found, index=rows.index)


BLOCK = Block(
    name="fresh-noise",
    title="Fresh RBA noise",
    claim=(
        "May show that displacement, scanned minimum and delivered parameter agree when data and "
        "adaptive weights are new and the pipeline is unchanged, and how the pipeline compares "
        "with the matched fit on the same data. The final weights are a snapshot taken afterwards: "
        "training used others on its way."
    ),
    needs=fresh_needs,
    measure=measure_fresh,
    notes=(
        "The noise vectors are new, from numpy.random.default_rng with the published base seed "
        "and a stream for each problem: the study does not say which generator drew its own.",
    ),
)

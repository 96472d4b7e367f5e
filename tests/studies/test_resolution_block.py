"""The resolution block at a small number of replicas, against the resolutions themselves."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from twoaxis.datasets import RECOVERABILITY_SEED
from twoaxis.resolution import resolution_table, resolve
from twoaxis.resolution.benchmarks import STRATIFIED, UNSTRATIFIED
from twoaxis.studies.block import Measured
from twoaxis.studies.blocks import resolution as block
from twoaxis.studies.fields import PROBLEMS, TITLES
from twoaxis.studies.published import published_figures
from twoaxis.studies.scale import FULL
from twoaxis.studies.verdict import Verdict, judge

# Bootstrap draws as published, so that the library's own table must show the same interval.
SCALE = replace(FULL, replicas=4)

WITHOUT_CHANCE = [
    *(f"fisher_{problem}" for problem in (*PROBLEMS, "overall")),
    *(f"coarse_bias_{problem}" for problem in PROBLEMS),
    "benchmark_mean",
]


@pytest.fixture(scope="module")
def resolved() -> block.Resolved:
    return block.resolve_all(SCALE)


@pytest.fixture(scope="module")
def measured(resolved: block.Resolved) -> Measured:
    return block.measure_resolution(resolved, SCALE)


def test_every_published_figure_is_measured(measured: Measured) -> None:
    assert {f.key for f in published_figures("resolution")} == set(measured.figures)
    assert all(math.isfinite(figure.value) for figure in measured.figures.values())


def test_what_does_not_depend_on_chance_is_exact(measured: Measured) -> None:
    published = {figure.key: figure for figure in published_figures("resolution")}
    for key in WITHOUT_CHANCE:
        outcome = judge(published[key], [measured.figures[key]])
        assert outcome.verdict is Verdict.EXACT, key
    assert published["noiseless_error"].same(measured.figures["noiseless_error"].value)


def test_errors_are_those_of_the_matched_fits(resolved: block.Resolved, measured: Measured) -> None:
    everything = []
    for problem, found in resolved.matched.items():
        errors = found.error_percent.values.ravel()
        everything.append(errors)
        assert measured.figures[f"mean_{problem}"].value == pytest.approx(errors.mean())
        assert measured.figures[f"median_{problem}"].value == pytest.approx(np.median(errors))
        assert measured.figures[f"p90_{problem}"].value == pytest.approx(np.quantile(errors, 0.9))
        assert measured.figures[f"covered_{problem}"].value == found.covered.values.sum()
    pooled = np.concatenate(everything)
    assert measured.figures["p90_overall"].value == pytest.approx(np.quantile(pooled, 0.9))
    assert measured.figures["expected_error"].value == pytest.approx(pooled.mean())
    share = measured.figures["covered_overall"].value / len(pooled)
    assert measured.figures["coverage_overall"].value == pytest.approx(100 * share)


def test_the_noise_is_that_of_the_published_base_seed(resolved: block.Resolved) -> None:
    alone = resolve(
        "allen-cahn",
        layouts=[10],
        replicas=4,
        seed=RECOVERABILITY_SEED,
        fit_forward="coarse",
        validate=0,
        progress=False,
    )
    found = resolved.coarse["allen-cahn"].error_percent.sel(layout="10").values
    np.testing.assert_allclose(found, alone.error_percent.values.ravel(), rtol=1e-12)


def test_intervals_keep_the_layouts_of_a_replica_together(
    resolved: block.Resolved, measured: Measured
) -> None:
    table = resolution_table(resolved.matched)
    for key, name in [*((p, p) for p in PROBLEMS), ("overall", UNSTRATIFIED)]:
        draws = measured.figures[f"mean_{key}"].draws
        assert draws is not None
        expected = table.loc[name, ["ci_low", "ci_high"]].to_numpy(float)
        np.testing.assert_allclose(np.quantile(draws, [0.025, 0.975]), expected, rtol=1e-9)


def test_a_stratified_interval_stands_beside_the_overall_one(measured: Measured) -> None:
    rows = measured.tables["reference"].set_index("problem")
    assert list(rows.index) == [*TITLES.values(), UNSTRATIFIED, STRATIFIED]
    width = rows["ci_high"] - rows["ci_low"]
    assert width[STRATIFIED] < width[UNSTRATIFIED]
    # The explicit solver is unstable at 26 of the 241 Burgers values.
    assert list(rows["bank_values_excluded"]) == [26, 0, 0, 26, 26]


def test_percentiles_compare_a_dataset_with_its_own_layout(
    resolved: block.Resolved, measured: Measured
) -> None:
    expected = []
    for row in resolved.draws.to_dict("records"):
        errors = resolved.matched[row["problem"]].error_percent.sel(layout=str(row["dataset"]))
        expected.append(100 * np.mean(errors.values <= row["error_percent"]))
    table = measured.tables["benchmark draws"]
    np.testing.assert_allclose(table["percentile"], expected)
    assert measured.figures["benchmark_percentile"].value == pytest.approx(np.mean(expected))


def test_the_coarse_solver_fits_the_same_data(resolved: block.Resolved, measured: Measured) -> None:
    matched, coarse = (
        np.stack([found.error_percent.values for found in each.values()])
        for each in (resolved.matched, resolved.coarse)
    )
    assert measured.figures["coarse_mean"].value == pytest.approx(coarse.mean())
    excess = measured.figures["coarse_excess"]
    assert excess.value == pytest.approx(coarse.mean() - matched.mean())
    # Paired by dataset, the difference is surer than either mean.
    spread = measured.figures["coarse_mean"].draws
    assert excess.draws is not None
    assert spread is not None
    assert excess.draws.std() < spread.std()
    covered = 100 * resolved.coarse["burgers"].covered.values.mean()
    assert measured.figures["coarse_coverage_burgers"].value == pytest.approx(covered)


def test_the_bank_is_compared_with_direct_optimization(
    resolved: block.Resolved, measured: Measured
) -> None:
    checks = [found.data.attrs["bank_check_percent"] for found in resolved.matched.values()]
    assert measured.figures["bank_check"].value == max(checks)
    assert 0 < max(checks) < 0.05


def test_the_block_needs_no_training() -> None:
    assert not block.BLOCK.neural


def test_printed_figures_of_the_problems_add_up() -> None:
    printed = {figure.key: figure for figure in published_figures("resolution")}
    covered = [printed[f"covered_{problem}"] for problem in PROBLEMS]
    assert sum(figure.value for figure in covered) == printed["covered_overall"].value
    assert sum(figure.of or 0 for figure in covered) == printed["covered_overall"].of
    share = 100 * printed["covered_overall"].value / 2400
    assert printed["coverage_overall"].same(share)
    for name in ("mean", "fisher"):
        parts = [printed[f"{name}_{problem}"].value for problem in PROBLEMS]
        assert printed[f"{name}_overall"].value == pytest.approx(np.mean(parts), abs=0.006)

"""Calibrated sets against plain loops and closed forms, and the block around them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from twoaxis.studies.blocks.calibration import (
    BLOCK,
    BY_PROBLEM,
    CONSTRUCTIONS,
    RECOVERY,
    Construction,
    average,
    calibrated,
    calibration_cases,
    covered_percent,
    factors,
    inflation,
    measure_calibration,
    measure_of_set,
    measure_of_whole_cells,
    width_percent,
)
from twoaxis.studies.fields import LAYOUTS, PROBLEMS, fresh_fields
from twoaxis.studies.matched import StandardErrors, matched_fits, standard_errors
from twoaxis.studies.published import published_figures
from twoaxis.studies.readouts import ENDPOINTS
from twoaxis.studies.resampling import labels
from twoaxis.studies.scale import FULL, SMOKE, Scale

PLAIN = CONSTRUCTIONS[1]
QUICK = replace(FULL, most_draws=200)


def synthetic_cases(replicas: int) -> pd.DataFrame:
    random = np.random.default_rng(4)
    sigma = {p: 0.1 * (1 + k) for k, p in enumerate(PROBLEMS)}
    cases = pd.DataFrame(
        [
            {
                "problem": problem,
                "layout": layout,
                "replica": replica,
                "half": replica % 2,
                "rba": 0.3 * random.standard_normal(),
                "forward": sigma[problem] * random.standard_normal(),
                "sigma": sigma[problem] * (1 + 0.1 * (layout - 8)),
            }
            for problem in PROBLEMS
            for layout in LAYOUTS
            for replica in range(replicas)
        ]
    )
    return cases.assign(cluster=labels(cases, "problem", "replica"))


CASES = synthetic_cases(20)


def once(cases: pd.DataFrame) -> np.ndarray:
    return np.ones((1, len(cases)))


def looped_factors(cases: pd.DataFrame, how: Construction) -> list[float]:
    """Calibrate case by case, as the protocol tells it."""
    found = []
    for case in cases.to_dict("records"):
        scores = []
        for other in cases.to_dict("records"):
            together = all(other[name] == case[name] for name in how.within)
            if together and other["replica"] % 2 != case["replica"] % 2:
                scores.append(abs(other[how.center]) / (other["sigma"] if how.relative else 1))
        rank = min(math.ceil((len(scores) + 1) * 9 / 10), len(scores))
        found.append(sorted(scores)[rank - 1])
    return found


@pytest.mark.parametrize(("cases", "rank"), [(40, 37), (10, 10), (9, 9), (19, 18), (4, 4), (1, 1)])
def test_the_rank_is_that_of_the_finite_sample(cases: int, rank: int) -> None:
    scores = np.random.default_rng(0).permutation(np.arange(1.0, cases + 1))
    assert calibrated(scores, np.ones((1, cases))) == [rank]


def test_a_case_that_occurs_twice_counts_twice() -> None:
    random = np.random.default_rng(1)
    scores, counts = random.random(12), random.integers(0, 4, (50, 12)).astype(float)
    for row, found in zip(counts, calibrated(scores, counts), strict=True):
        repeated = np.sort(np.repeat(scores, row.astype(int)))
        rank = min(math.ceil((len(repeated) + 1) * 9 / 10), len(repeated))
        assert found == repeated[rank - 1]


@pytest.mark.parametrize(
    "how", [h for h in CONSTRUCTIONS if h.within], ids=lambda how: str(how.key)
)
def test_factors_are_cross_fitted(how: Construction) -> None:
    expected = looped_factors(CASES, how)
    np.testing.assert_allclose(factors(CASES, how, once(CASES))[0], expected, rtol=1e-12)


def test_a_set_does_not_depend_on_its_own_half() -> None:
    even = CASES["half"] == 0
    changed = CASES.assign(rba=CASES["rba"].where(~even, 9 * CASES["rba"]))
    before, after = (factors(c, RECOVERY, once(c))[0] for c in (CASES, changed))
    np.testing.assert_array_equal(before[even], after[even])
    assert (after[~even] > before[~even]).all()


def test_nominal_sets_have_the_normal_quantile() -> None:
    found = factors(CASES, CONSTRUCTIONS[0], once(CASES))[0]
    np.testing.assert_allclose(found, 1.6448536269514722)


LINEAR = np.linspace(-1.5, 1.5, 301)


@pytest.mark.parametrize("slope", [-0.15, 0.0, 0.2])
@pytest.mark.parametrize("error", [-0.31, 0.0, 0.2])
def test_the_measure_of_a_set_has_a_closed_form_where_sigma_is_linear(slope, error) -> None:
    # |A - q| = T (a + b q) at q = (A - T a)/(1 + T b) and at (A + T a)/(1 - T b).
    height, values = 0.1, np.array([0.5, 1.64, 2.5])
    low = (error - values * height) / (1 + values * slope)
    high = (error + values * height) / (1 - values * slope)
    at = StandardErrors(LINEAR, height + slope * LINEAR)
    np.testing.assert_allclose(measure_of_set(at, error, values), np.exp(high) - np.exp(low))


def test_the_measure_of_a_set_is_that_of_its_members_on_a_fine_grid() -> None:
    random = np.random.default_rng(5)
    fine = np.linspace(-1.0, 1.0, 400_001)
    for error in (-0.4, 0.1, 1.2):
        knots = np.linspace(-1.0, 1.0, 41)
        # Rough enough that some sets have several parts; the last reaches the end.
        sigma = 0.2 * np.exp(0.5 * random.standard_normal(41))
        inside = np.abs(error - fine) <= 1.5 * np.interp(fine, knots, sigma)
        members = np.sum(np.exp(fine)[inside]) * (fine[1] - fine[0])
        found = measure_of_set(StandardErrors(knots, sigma), error, np.array([1.5]))
        assert found[0] == pytest.approx(members, abs=3e-5)


def test_whole_cells_leave_out_the_partial_ones() -> None:
    at = StandardErrors(np.array([0.0, 1.0, 2.0, 3.0]), np.full(4, 1.0))
    # |1.4 - q| <= 1.2 holds from .2 to 2.6: of three cells, that from 1 to 2 is whole.
    found = measure_of_whole_cells(at, 1.4, np.array([1.2]))
    assert found[0] == pytest.approx(math.e**2 - math.e)
    assert measure_of_set(at, 1.4, np.array([1.2]))[0] == pytest.approx(
        math.exp(2.6) - math.exp(0.2)
    )


@pytest.mark.parametrize("problem", PROBLEMS)
def test_standard_errors_at_the_truth_are_those_of_the_information(problem) -> None:
    found = matched_fits(problem, SMOKE.fresh_replicas).data["fisher_information"]
    for layout, at in standard_errors(problem).items():
        expected = found.sel(layout=str(layout)).item() ** -0.5
        # The one is a difference of the bank, the other that of a small step.
        assert np.interp(0.0, at.q, at.sigma) == pytest.approx(expected, rel=2e-3)


def test_widths_belong_to_the_layout_of_their_case() -> None:
    nominal = CONSTRUCTIONS[0]
    chosen = CASES.iloc[[0, 130, 239]].reset_index(drop=True)
    widths = width_percent(chosen, nominal, once(chosen))[0]
    for case, width in zip(chosen.to_dict("records"), widths, strict=True):
        at = standard_errors(case["problem"])[case["layout"]]
        inside = np.abs(case["rba"] - at.q) <= 1.6448536 * at.sigma
        # To the two cells at the ends.
        cell = 100 * np.diff(np.exp(at.q))[inside[:-1]].max()
        assert width == pytest.approx(100 * np.ptp(np.exp(at.q[inside])), abs=2 * cell)


def test_coverage_and_width_are_those_of_the_set_itself() -> None:
    half = np.array(looped_factors(CASES, PLAIN))
    low, high = CASES["rba"] - half, CASES["rba"] + half
    covered = covered_percent(CASES, PLAIN, once(CASES))[0]
    np.testing.assert_array_equal(covered, np.where((low <= 0) & (high >= 0), 100, 0))
    width = width_percent(CASES, PLAIN, once(CASES))[0]
    np.testing.assert_allclose(width, 100 * (np.exp(high) - np.exp(low)), rtol=1e-12)


def test_inflation_averages_the_two_halves() -> None:
    own = CASES[CASES["problem"] == "burgers"].reset_index(drop=True)
    looped = np.array(looped_factors(own, RECOVERY))
    even, odd = looped[own["half"] == 0], looped[own["half"] == 1]
    assert even[0] != odd[0]
    expected = (even[0] + odd[0]) / 2
    assert inflation(own, RECOVERY, once(own))[0] == pytest.approx(expected, rel=1e-12)


def test_a_draw_repeats_the_whole_procedure_on_the_repeated_sample() -> None:
    random = np.random.default_rng(2)
    names, cluster = np.unique(CASES["cluster"], return_inverse=True)
    drawn = random.integers(0, 4, (5, len(names)))
    counts = drawn[:, cluster].astype(float)
    for of_sets in (covered_percent, width_percent):
        found = average(of_sets(CASES, RECOVERY, counts), counts)
        for row, value in zip(counts, found, strict=True):
            repeated = CASES.loc[CASES.index.repeat(row.astype(int))].reset_index(drop=True)
            expected = of_sets(repeated, RECOVERY, once(repeated)).mean()
            assert value == pytest.approx(expected, rel=1e-12)


def endpoint_rows() -> pd.DataFrame:
    """Return what the readout would give, with an error that tells which field it is."""
    rows = []
    for number, field in enumerate(fresh_fields(SMOKE)):
        for view in ("own", "pointwise"):
            moved = 0.01 * number if view == "own" else 5.0
            rows.append({**field.columns(), "view": view, "delivered_displacement": moved})
    return pd.DataFrame(rows)


def test_cases_join_the_field_with_the_fit_of_its_own_data() -> None:
    cases = calibration_cases(endpoint_rows(), SMOKE)
    assert len(cases) == len(fresh_fields(SMOKE))
    for number, field in enumerate(fresh_fields(SMOKE)):
        case = cases.iloc[number]
        assert (case["problem"], case["layout"], case["replica"]) == (
            field.problem,
            field.dataset,
            field.replica,
        )
        assert case["rba"] == 0.01 * number
        found = matched_fits(field.problem, SMOKE.fresh_replicas)
        where = {"layout": str(field.dataset), "replica": field.replica}
        error = found.error_percent.sel(where).item()
        assert 100 * abs(math.expm1(case["forward"])) == pytest.approx(error, rel=1e-9)
        predicted = found.fisher_error_percent.sel(layout=str(field.dataset)).item()
        assert 100 * math.sqrt(2 / math.pi) * case["sigma"] == pytest.approx(predicted, rel=1e-9)


@pytest.mark.parametrize("scale", [SMOKE, QUICK], ids=["smoke", "full"])
def test_every_published_figure_is_measured(scale: Scale) -> None:
    measured = measure_calibration(synthetic_cases(scale.fresh_replicas), scale)
    published = [figure.key for figure in published_figures("calibration")]
    assert sorted(published) == sorted(measured.figures)
    assert all(math.isfinite(figure.value) for figure in measured.figures.values())


def test_figures_and_table_agree_with_the_loops() -> None:
    measured = measure_calibration(CASES, QUICK)
    table = measured.tables["constructions"]
    assert len(table) == 4 * len(CONSTRUCTIONS)
    own = CASES[CASES["problem"] == "allen-cahn"].reset_index(drop=True)
    half = np.array(looped_factors(own, PLAIN))
    covered = 100 * np.mean(np.abs(own["rba"]) <= half)
    assert measured.figures["rba_plain_coverage_allen-cahn"].value == pytest.approx(covered)
    row = table.query("problem == 'Allen–Cahn' and estimate == 'RBA' and construction == 'plain'")
    assert row["coverage"].item() == pytest.approx(covered)
    mean_width = table.query("problem != 'overall'").groupby(["estimate", "construction"])["width"]
    overall = table.query("problem == 'overall'").set_index(["estimate", "construction"])["width"]
    pd.testing.assert_series_equal(
        mean_width.mean().sort_index(), overall.sort_index(), check_names=False
    )


def test_every_interval_holds_its_own_figure() -> None:
    # The largest of ten cannot be exceeded in a resample; recalibrating it would fail here.
    for key, figure in measure_calibration(CASES, QUICK).figures.items():
        assert figure.draws is not None, key
        low, high = np.quantile(figure.draws, [0.025, 0.975])
        assert low <= figure.value <= high, key


def test_intervals_cover_the_calibration_itself() -> None:
    figure = measure_calibration(CASES, QUICK).figures["inflation_burgers"]
    assert figure.draws is not None
    assert figure.draws.std() > 0.02 * figure.value


def test_the_block_reads_the_endpoints_of_the_fresh_fields() -> None:
    assert BLOCK.needs is not None
    (need,) = BLOCK.needs(SMOKE)
    assert need.readout is ENDPOINTS
    assert list(need.fields) == fresh_fields(SMOKE)
    measured = BLOCK.measure({ENDPOINTS.name: endpoint_rows()}, SMOKE)
    # One replica in each half: for Burgers .00, .02, .04, .06 on the layouts against .01, .03,
    # .05, .07, so that only the last lies outside the largest of the other half.
    assert measured.figures["rba_plain_coverage_burgers"].value == 87.5


def test_printed_figures_of_the_problems_average_to_the_overall_ones() -> None:
    printed = {figure.key: figure.value for figure in published_figures("calibration")}
    for key in BY_PROBLEM:
        for name in ("coverage", "width"):
            parts = [printed[f"{key}_{name}_{problem}"] for problem in PROBLEMS]
            assert printed[f"{key}_{name}"] == pytest.approx(np.mean(parts), abs=0.011)

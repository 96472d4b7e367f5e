"""The rule of judging, on figures whose verdict is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from twoaxis.studies.published import Published
from twoaxis.studies.resampling import Figure
from twoaxis.studies.verdict import Verdict, judge

STORED = Path(__file__).parents[2] / "results" / "reproduction" / "blocks"


def published(printed=".960", kind="correlation", **options):
    return Published(key="k", label="l", printed=printed, kind=kind, **options)


def noisy(printed=".960", **options):
    return published(printed, chance="noise", **options)


def fixed(printed=".960", **options):
    return published(printed, chance="none", **options)


def draws(low, high):
    return np.linspace(low, high, 1001)


def figures(*values):
    return [Figure(value) for value in values]


SPREAD = figures(0.94, 0.95, 0.96, 0.97, 0.98)


def test_only_a_figure_without_chance_is_exact():
    assert judge(fixed(), figures(0.9603)).verdict is Verdict.EXACT
    assert judge(published(), [Figure(0.9603), *SPREAD]).verdict is Verdict.AGREES
    assert judge(noisy(), [Figure(0.9603, draws(0.95, 0.97))]).verdict is Verdict.AGREES


def test_a_chance_hit_outside_its_own_interval_differs():
    assert judge(noisy(), [Figure(0.9603, draws(0.1, 0.2))]).verdict is Verdict.DIFFERS


@pytest.mark.parametrize(("high", "wanted"), [(0.9594, Verdict.DIFFERS), (0.9596, Verdict.AGREES)])
def test_a_printed_value_stands_for_all_that_round_to_it(high, wanted):
    sample = np.full(1000, high)
    sample[:500] = 0.9
    assert judge(noisy(), [Figure(0.95, sample)]).verdict is wanted


def test_a_printed_interval_has_no_part():
    wide = noisy(interval=(".941", ".999"))
    assert judge(wide, [Figure(0.975, draws(0.97, 0.98))]).verdict is Verdict.DIFFERS


def test_on_the_studys_own_data_the_bootstrap_has_no_part():
    spread = [Figure(figure.value, draws(0.0, 1.0)) for figure in SPREAD]
    assert judge(published(".700"), spread).verdict is Verdict.DIFFERS
    assert judge(published(".700"), spread[:4]).verdict is Verdict.OPEN


def test_on_fresh_noise_the_bootstrap_of_all_initializations_is_pooled():
    outcome = judge(noisy(), [Figure(0.5, draws(0.4, 0.6)), Figure(0.9, draws(0.8, 1.0))])
    pooled = np.concatenate([draws(0.4, 0.6), draws(0.8, 1.0)])
    assert outcome.interval == pytest.approx(tuple(np.quantile(pooled, [0.025, 0.975])))
    assert outcome.ours == 0.5


def test_repetitions_with_other_noise_take_the_place_of_the_bootstrap():
    ours = [Figure(0.5, draws(0.4, 0.6))]
    assert judge(noisy(), ours, SPREAD[:4]).verdict is Verdict.DIFFERS
    outcome = judge(noisy(), ours, SPREAD)
    assert outcome.verdict is Verdict.AGREES
    assert outcome.source == "one more repetition with other noise, from 5"


@pytest.mark.parametrize(("chance", "first"), [("initialization", True), ("noise", False)])
def test_a_prediction_interval_is_students(chance, first):
    values = np.array([10.0, 12.0, 9.0, 11.0, 13.0])
    asked = published("30.00", kind="positive", chance=chance)
    given = figures(*values) if first else (figures(10.0), figures(*values))
    outcome = judge(asked, given) if first else judge(asked, *given)
    low, high = stats.t.interval(
        0.95, 4, loc=values.mean(), scale=values.std(ddof=1) * np.sqrt(1 + 1 / 5)
    )
    assert outcome.interval == pytest.approx((low, high))
    assert outcome.verdict is Verdict.DIFFERS


def test_the_interval_does_not_leave_what_a_figure_can_be():
    values = figures(0.1, 3.0, 0.2, 5.0, 0.1)
    assert judge(published("1.00", kind="positive"), values).interval[0] == 0
    outcome = judge(published("4/6", kind="count"), figures(6, 6, 5, 6, 3))
    assert outcome.interval[1] == 6


def test_an_interval_as_wide_as_the_figure_contradicts_nothing():
    wide = figures(-1.0, 0.0, 1.0, 2.0, 3.0)
    assert judge(published("1.50", kind="signed"), wide).verdict is Verdict.NOT_CONTRADICTED
    assert judge(published("90.0", kind="signed"), wide).verdict is Verdict.DIFFERS
    # A claim that holds twice in ten is not contradicted, one that never holds differs.
    claim = published("1/1", kind="count")
    assert judge(claim, figures(*[1] * 2, *[0] * 8)).verdict is Verdict.NOT_CONTRADICTED
    assert judge(claim, figures(*[0] * 10)).verdict is Verdict.DIFFERS
    assert judge(claim, figures(*[1] * 10)).verdict is Verdict.AGREES
    assert judge(published("0/8", kind="count"), figures(*[0] * 5)).verdict is Verdict.AGREES


def test_what_rests_on_a_rounded_number_has_the_range_of_its_rounding():
    start = Figure(3.73665, ends=(3.7358, 3.7375))
    assert judge(fixed("3.736", kind="percent"), [start]).verdict is Verdict.AGREES
    assert judge(fixed("3.736", kind="percent"), figures(3.73665)).verdict is Verdict.DIFFERS


def test_a_tie_counts_half_in_the_percentile():
    assert judge(published("3.0", kind="positive"), figures(1, 2, 3, 4, 5)).percentile == 50


def test_what_prints_the_same_is_a_tie():
    outcome = judge(published("3.0", kind="positive"), figures(2.96, 3.04, 3.02, 2.99, 2.94))
    assert outcome.percentile == pytest.approx(100 * (1 + 4 / 2) / 5)


def test_one_run_is_not_judged_even_if_it_prints_the_same():
    assert judge(published("3.00", kind="positive"), figures(3.0)).verdict is Verdict.OPEN


def test_a_bound_is_met_or_not():
    bound = published("1e-9", kind="positive", bound="below")
    assert judge(bound, figures(1e-12)).verdict is Verdict.AGREES
    assert judge(bound, figures(1e-8)).verdict is Verdict.DIFFERS


def test_an_undefined_figure_differs_and_a_smoke_figure_is_not_judged():
    assert judge(published(), figures(float("nan"))).verdict is Verdict.DIFFERS
    assert judge(published(), [*SPREAD, Figure(float("nan"))]).verdict is Verdict.OPEN
    assert judge(fixed(), figures(0.96), judged=False).verdict is Verdict.OPEN


def test_a_reason_is_given_only_where_a_figure_differs():
    assert judge(fixed(if_differs="because"), figures(0.1)).reason == "because"
    assert judge(fixed(if_differs="because"), figures(0.96)).reason == ""


def stored_figures():
    for path in sorted(STORED.glob("*.json")):
        for figure in json.loads(path.read_text())["figures"]:
            yield path.stem, figure


def test_a_stored_quantity_has_one_verdict_in_all_blocks():
    verdicts: dict[str, dict[str, str]] = {}
    for block, figure in stored_figures():
        if len(set(figure["values"])) > 1:
            same = json.dumps(figure["values"])
            verdicts.setdefault(same, {})[f"{block}/{figure['key']}"] = figure["verdict"]
    repeated = [found for found in verdicts.values() if len(found) > 1]
    assert len(repeated) > 10
    assert [found for found in repeated if len(set(found.values())) > 1] == []


def test_stored_figures_of_chance_are_never_exact():
    exact = {figure["chance"] for _, figure in stored_figures() if figure["verdict"] == "exact"}
    assert exact == {"none"}

"""The rule of judging, on figures whose verdict is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from twoaxis.studies.published import Published
from twoaxis.studies.resampling import Figure
from twoaxis.studies.verdict import Verdict, judge


def published(printed=".960", interval=None, kind="correlation", **options):
    return Published(key="k", label="l", printed=printed, kind=kind, interval=interval, **options)


def draws(low, high):
    return np.linspace(low, high, 1001)


def test_the_same_printed_digits_are_exact_whatever_the_interval():
    assert judge(published(), [Figure(0.9603, draws(0.1, 0.2))]).verdict is Verdict.EXACT


@pytest.mark.parametrize(
    ("interval", "ours", "wanted"),
    [
        (None, draws(0.95, 0.97), Verdict.AGREES),
        (None, draws(0.97, 0.99), Verdict.DIFFERS),
        ((".941", ".989"), draws(0.97, 0.999), Verdict.AGREES),
        ((".941", ".959"), draws(0.97, 0.999), Verdict.DIFFERS),
    ],
)
def test_a_value_or_interval_must_overlap_ours(interval, ours, wanted):
    assert judge(published(interval=interval), [Figure(0.975, ours)]).verdict is wanted


def test_bootstrap_draws_of_all_initializations_are_pooled():
    outcome = judge(published(), [Figure(0.5, draws(0.4, 0.6)), Figure(0.9, draws(0.8, 1.0))])
    pooled = np.concatenate([draws(0.4, 0.6), draws(0.8, 1.0)])
    assert outcome.interval == pytest.approx(tuple(np.quantile(pooled, [0.025, 0.975])))
    assert outcome.ours == 0.5


def test_without_draws_the_interval_is_for_one_more_initialization():
    values = np.array([10.0, 12.0, 9.0, 11.0, 13.0])
    outcome = judge(published("30.00", kind="positive"), [Figure(v) for v in values])
    low, high = stats.t.interval(
        0.95, 4, loc=values.mean(), scale=values.std(ddof=1) * np.sqrt(1 + 1 / 5)
    )
    assert outcome.interval == pytest.approx((low, high))
    assert outcome.verdict is Verdict.DIFFERS
    assert outcome.percentile == 100


def test_the_interval_does_not_leave_what_a_figure_can_be():
    values = [0.1, 3.0, 0.2, 5.0, 0.1]
    assert judge(published("1.00", kind="positive"), [Figure(v) for v in values]).interval[0] == 0
    counts = [6, 6, 5, 6, 3]
    outcome = judge(published("4/6", kind="count"), [Figure(v) for v in counts])
    assert outcome.interval[1] == 6


def test_a_tie_counts_half_in_the_percentile():
    outcome = judge(published("3.0", kind="positive"), [Figure(v) for v in (1, 2, 3, 4, 5)])
    assert outcome.percentile == 50


def test_what_prints_the_same_is_a_tie():
    values = (2.96, 3.04, 3.02, 2.99, 2.94)
    outcome = judge(published("3.0", kind="positive"), [Figure(v) for v in values])
    assert outcome.percentile == pytest.approx(100 * (1 + 4 / 2) / 5)


def test_one_run_without_an_interval_is_not_judged_unless_chance_has_no_part():
    figure = Figure(2.0)
    assert judge(published("3.00", kind="positive"), [figure]).verdict is Verdict.OPEN
    without = judge(published("3.00", kind="positive"), [figure], chance=False)
    assert without.verdict is Verdict.DIFFERS


def test_a_bound_is_met_or_not():
    bound = published("1e-9", kind="positive", bound="below")
    assert judge(bound, [Figure(1e-12)]).verdict is Verdict.AGREES
    assert judge(bound, [Figure(1e-8)]).verdict is Verdict.DIFFERS


def test_an_undefined_figure_differs_and_a_smoke_figure_is_not_judged():
    assert judge(published(), [Figure(float("nan"))]).verdict is Verdict.DIFFERS
    assert judge(published(), [Figure(0.96)], judged=False).verdict is Verdict.OPEN


def test_a_reason_is_given_only_where_a_figure_differs():
    reasoned = published(if_differs="because")
    assert judge(reasoned, [Figure(0.1, draws(0.0, 0.2))]).reason == "because"
    assert judge(reasoned, [Figure(0.96)]).reason == ""

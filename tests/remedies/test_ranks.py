"""Rank bounds, p-values and levels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twoaxis.errors import InputError
from twoaxis.remedies.inversion import (
    check_level,
    guaranteed_level,
    least_replicas,
    medians,
    p_values,
    rank_bounds,
    tail_count,
)

STATISTICS = ("signed", "absolute")


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize(("replicas", "level"), [(59, 0.9), (50, 0.9), (39, 0.95), (24, 0.8)])
def test_a_true_candidate_is_kept_with_exactly_the_guaranteed_probability(
    statistic, replicas, level
):
    generator = np.random.default_rng(3)
    trials = 40_000
    # A skewed, biased, heteroscedastic answer: the rank knows nothing of its distribution.
    candidate = generator.uniform(-1, 1, trials)
    spread = np.exp(candidate)[:, None]
    answers = 1.3 * candidate[:, None] + 0.4 + spread * generator.gamma(2, size=(trials, replicas))
    observed = 1.3 * candidate + 0.4 + spread[:, 0] * generator.gamma(2, size=trials)
    lower, upper = rank_bounds(answers, candidate, level, statistic)
    kept = np.mean((lower <= observed) & (observed <= upper))
    exact = guaranteed_level(replicas, level, statistic)
    assert exact >= level - 1e-12
    assert abs(kept - exact) < 4 * np.sqrt(exact * (1 - exact) / trials)


def test_59_replicas_make_a_level_of_90_percent_exact():
    assert guaranteed_level(59, 0.9, "signed") == pytest.approx(0.9, abs=1e-12)
    assert guaranteed_level(59, 0.9, "absolute") == pytest.approx(0.9, abs=1e-12)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(19, 80),
    st.integers(0, 10**6),
    st.sampled_from(STATISTICS),
    st.sampled_from([0.5, 0.8, 0.9]),
)
def test_p_values_and_bounds_decide_alike(replicas, seed, statistic, level):
    generator = np.random.default_rng(seed)
    # Whole numbers make ties; some answers failed.
    answers = generator.integers(-4, 5, (6, replicas)).astype(float)
    answers[generator.random(answers.shape) < 0.05] = np.nan
    candidate, observed = (
        generator.integers(-2, 3, 6).astype(float),
        float(generator.integers(-5, 6)),
    )
    lower, upper = rank_bounds(answers, candidate, level, statistic)
    kept = (lower <= observed) & (observed <= upper)
    p = p_values(answers, candidate, observed, statistic)
    assert (kept == (p > 1 - level + 1e-9)).all()


def test_the_absolute_bound_is_the_published_rank():
    # ceil((n + 1) .90) among 40 errors is the 37th; a set of half-width T holds the estimate.
    errors = np.random.default_rng(0).normal(size=(1, 40))
    lower, upper = rank_bounds(errors, np.zeros(1), 0.9, "absolute")
    threshold = np.sort(np.abs(errors[0]))[int(np.ceil(41 * 0.9)) - 1]
    assert upper[0] == threshold
    assert lower[0] == -threshold


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_failure_can_only_widen(statistic):
    answers = np.random.default_rng(1).normal(size=(200, 59))
    failed = answers.copy()
    failed[:, 7] = np.nan
    lower, upper = rank_bounds(answers, np.zeros(200), 0.9, statistic)
    wide_lower, wide_upper = rank_bounds(failed, np.zeros(200), 0.9, statistic)
    assert (wide_lower <= lower).all()
    assert (wide_upper >= upper).all()
    assert (wide_upper - wide_lower > upper - lower).any()


@pytest.mark.parametrize("statistic", STATISTICS)
def test_failures_do_not_break_the_guarantee(statistic):
    generator = np.random.default_rng(5)
    trials = 20_000
    draws = generator.normal(size=(trials, 60))
    # The pipeline fails where its answer would be large: leaving those out would bias the rank.
    draws[draws > 1.8] = np.nan
    observed = draws[:, 59]
    lower, upper = rank_bounds(draws[:, :59], np.zeros(trials), 0.9, statistic)
    # Data without an answer rule nothing out: they are kept.
    kept = np.isnan(observed) | ((lower <= observed) & (observed <= upper))
    assert kept.mean() > 0.9 - 4 * np.sqrt(0.09 / trials)


def test_bounds_are_infinite_where_too_many_failed():
    answers = np.full((1, 19), np.nan)
    answers[0, :18] = np.arange(18.0)
    lower, upper = rank_bounds(answers, np.zeros(1), 0.9, "signed")
    assert lower[0] == -np.inf
    assert upper[0] == np.inf


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 1000))
def test_medians_leave_failures_out(count, failed, seed):
    values = np.random.default_rng(seed).normal(size=count)
    row = np.concatenate([values, np.full(failed, np.nan)])
    np.random.default_rng(seed + 1).shuffle(row)
    assert medians(row[None])[0] == pytest.approx(np.median(values), abs=0)


def test_the_median_of_nothing_is_nothing():
    assert np.isnan(medians(np.full((2, 5), np.nan))).all()


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("level", [0.5, 0.68, 0.9, 0.95, 0.99])
def test_the_least_number_of_replicas_is_the_least(statistic, level):
    needed = least_replicas(level, statistic)
    assert tail_count(needed, level, statistic) == 1
    assert tail_count(needed - 1, level, statistic) == 0
    check_level(level, statistic, needed)
    with pytest.raises(InputError, match=f"replicas={needed} or more"):
        check_level(level, statistic, needed - 1)


@pytest.mark.parametrize("level", [0, 1, 1.0, 90.0, "0.9", None, True, float("nan")])
def test_a_level_is_a_share(level):
    with pytest.raises(InputError, match="a level between 0 and 1"):
        check_level(level, "signed", 59)


def test_an_unknown_statistic_is_refused():
    with pytest.raises(InputError, match="statistic"):
        check_level(0.9, "two-sided", 59)

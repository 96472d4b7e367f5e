"""How many observations, or how much less noise, reach a tolerance."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twoaxis as ta
from twoaxis.resolution import needed_observations

PERCENT = st.floats(0.01, 100)


@given(PERCENT, PERCENT, st.integers(1, 10_000))
def test_the_number_is_the_smallest_that_is_enough(error, tolerance, count):
    need = needed_observations(error, tolerance, count)
    assert need.observations >= count
    assert error * math.sqrt(count / need.observations) <= tolerance * (1 + 1e-6)
    if need.more:
        assert error * math.sqrt(count / (need.observations - 1)) > tolerance * (1 - 1e-6)
    assert error * need.noise_factor == pytest.approx(tolerance)
    assert need.factor * need.noise_factor**2 == pytest.approx(1)


def test_an_integer_ratio_asks_for_no_observation_too_many():
    assert needed_observations(10.0, 5.0, 200).observations == 800
    assert needed_observations(0.3, 0.1, 100).observations == 900
    assert "800, 600 more" in str(needed_observations(10.0, 5.0, 200))


def test_a_tolerance_that_is_met_asks_for_nothing():
    need = needed_observations(4.0, 5.0, 200)
    assert (need.more, need.observations) == (0, 200)
    assert need.noise_factor > 1
    assert "are enough" in str(need)


def test_the_rule_holds_for_observations_of_one_kind():
    x = np.tile(np.linspace(0.5, 2, 10), 4)
    parameters = {"a": ta.Parameter(truth=1.0, bounds=(0.1, 10))}
    layouts = {"10": np.arange(10), "40": np.arange(40)}
    found = ta.resolve(lambda a: a * x, parameters, 0.1, layouts, replicas=2, validate=0)
    few, many = found.fisher_error_percent.values
    assert needed_observations(few, many, 10).observations == 40
    less = ta.resolve(lambda a: a * x[:10], parameters, 0.05, replicas=2, validate=0)
    assert needed_observations(few, less.fisher_error_percent.item(), 10).noise_factor == (
        pytest.approx(0.5)
    )


@pytest.mark.parametrize(
    ("error", "tolerance", "count", "words"),
    [
        (0.0, 5.0, 10, "error_percent"),
        (math.inf, 5.0, 10, "null direction"),
        (math.nan, 5.0, 10, "error_percent"),
        ("much", 5.0, 10, "error_percent"),
        ([1.0, 2.0], 5.0, 10, "error_percent"),
        (5.0, -1.0, 10, "tolerance_percent"),
        (5.0, math.inf, 10, "tolerance_percent"),
        (5.0, 1.0, 0, "count"),
        (5.0, 1.0, 2.5, "count"),
        (5.0, 1.0, True, "count"),
    ],
)
def test_bad_input_is_refused(error, tolerance, count, words):
    with pytest.raises(ta.InputError, match=words):
        needed_observations(error, tolerance, count)

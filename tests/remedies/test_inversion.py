"""From rank bounds at candidates to intervals, corrected values and new candidates."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twoaxis import Parameter
from twoaxis.remedies.calibrate import candidate_grid
from twoaxis.remedies.inversion import (
    SetInterval,
    correct,
    crossings,
    intervals,
    kept_pieces,
    rank_bounds,
    refined,
    settled,
    stepwise,
)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9), st.booleans())
def test_intervals_are_where_the_interpolated_bounds_hold_the_estimate(seed, count, whole):
    generator = np.random.default_rng(seed)
    q = np.cumsum(generator.uniform(0.1, 1, count))
    centre = generator.integers(-3, 4, count) / 2 if whole else generator.normal(size=count)
    width = np.full(count, 0.5) if whole else generator.uniform(0, 2, count)
    lower, upper = centre - width, centre + width
    found = intervals(q, lower, upper, 0.5)
    fine = np.linspace(q[0], q[-1], 2001)
    inside = (np.interp(fine, q, lower) <= 0.5) & (np.interp(fine, q, upper) >= 0.5)
    told = np.zeros(fine.size, dtype=bool)
    edges = []
    for part in found:
        told |= (part.low <= fine) & (fine <= part.high)
        edges += [part.low, part.high]
    near = np.zeros(fine.size, dtype=bool)
    for edge in edges:
        near |= np.abs(fine - edge) < 1e-9
    assert (told == inside)[~near].all()
    assert all(a.high < b.low for a, b in pairwise(found))
    assert all(part.open_low == (part.low == q[0]) for part in found)
    assert all(part.open_high == (part.high == q[-1]) for part in found)


def test_a_standard_error_at_the_candidate_cancels():
    """Ranks of ``|A - q| / sigma(q)`` at one candidate are those of ``|A - q|``."""
    random = np.random.default_rng(3)
    q, observed = np.linspace(-1, 1, 31), 0.2
    answers = q[:, None] + 0.3 * random.standard_normal((31, 39))
    sigma = np.exp(q)
    lower, upper = rank_bounds(answers, q, 0.9, "absolute")
    scores = np.abs(answers - q[:, None]) / sigma[:, None]
    beyond = (scores >= (np.abs(observed - q) / sigma)[:, None]).sum(axis=1)
    kept = (1 + beyond) / 40 > 0.1
    assert 0 < kept.sum() < 31
    np.testing.assert_array_equal((lower <= observed) & (observed <= upper), kept)


def test_a_set_between_two_rejected_candidates_is_found():
    q = np.array([0.0, 1.0])
    (part,) = intervals(q, q - 0.1, q + 0.1, 0.5)
    assert part == SetInterval(pytest.approx(0.4), pytest.approx(0.6), False, False)


def test_a_candidate_without_a_test_is_kept_with_its_neighborhood():
    q = np.array([0.0, 1.0, 2.0, 3.0])
    lower, upper = q - 0.1, q + 0.1
    lower[2], upper[2] = -np.inf, np.inf
    (part,) = intervals(q, lower, upper, 0.0)[1:]
    assert part == SetInterval(1.0, 3.0, False, True)


def test_nothing_is_kept_beyond_all_bounds():
    q = np.arange(4.0)
    assert intervals(q, q - 1, q + 1, 9.0) == []
    assert np.isnan(kept_pieces(q - 1, q + 1, 9.0)[0]).all()


def test_a_set_that_reaches_both_ends_is_open_at_both():
    q = np.arange(4.0)
    assert intervals(q, q - 9, q + 9, 1.0) == [SetInterval(0.0, 3.0, True, True)]


def test_crossings_count_a_node_once_and_see_the_last_one():
    q = np.arange(4.0)
    found = crossings(q, np.array([-1.0, 0.0, 2.0, 0.0]), 0.0)
    assert found[~np.isnan(found)].tolist() == [1.0, 3.0]
    assert np.isnan(crossings(q, np.array([np.nan, 1.0, 2.0, 3.0]), 0.0)).all()


LINEAR = Parameter(bounds=(-10, 10), coordinate="linear", scale=1.0)


def test_the_correction_inverts_the_median():
    q = np.linspace(0, 4, 9)
    found = correct(LINEAR, q, 1.5 * q + 1, 3.0, [SetInterval(0.0, 4.0)])
    assert found.value == pytest.approx(2 / 1.5)
    assert found.message is None


def test_without_a_crossing_a_message_says_why():
    q = np.linspace(0, 4, 9)
    found = correct(LINEAR, q, q + 7, 3.0, [])
    assert found.value is None
    assert found.message.code == "set.no_correction"
    assert found.message.numbers == {"delivered": 3, "lowest_median": 7, "highest_median": 11}


def test_crossings_in_one_part_are_noise_and_in_several_are_not():
    q = np.arange(6.0)
    curve = np.array([-1.0, 1.0, -1.0, 1.0, 2.0, 2.0])
    one = correct(LINEAR, q, curve, 0.0, [SetInterval(0.2, 2.5), SetInterval(3.0, 4.0)])
    assert one.value == 1.5
    assert one.message.code == "set.several_crossings"
    assert one.message.numbers == {"crossings": 3, "lowest": 0.5, "highest": 2.5}
    # Something of the set lies in each of the three pieces, but not in one interval.
    apart = correct(LINEAR, q, curve, 0.0, [SetInterval(0.4, 1.6), SetInterval(2.4, 2.6)])
    assert apart.value is None
    assert apart.crossings == (0.5, 1.5, 2.5)
    assert apart.message.code == "set.ambiguous_correction"


def test_of_an_even_number_of_crossings_none_is_the_middle_one():
    q = np.arange(5.0)
    curve = np.array([-1.0, 1.0, 1.0, -1.0, -2.0])
    found = correct(LINEAR, q, curve, 0.0, [SetInterval(0.0, 4.0)])
    assert found.crossings == (0.5, 2.5)
    assert found.value == 1.5
    assert found.message.code == "set.several_crossings"


@settings(max_examples=300, deadline=None)
@given(st.floats(1e-6, 1e6), st.floats(1.01, 1e4), st.integers(3, 40))
def test_a_grid_ends_exactly_where_it_was_asked_to(low, ratio, count):
    high = low * ratio
    values = candidate_grid(Parameter(bounds=(low, high)), count)
    assert (values[0], values[-1]) == (low, high)
    assert (np.diff(values) > 0).all()


def test_a_whole_piece_ends_at_its_candidates():
    q = np.array([1.8, 3.9])
    assert q[0] + (q[1] - q[0]) != q[1]  # what a rounding would make of it
    assert intervals(q, q - 5, q + 5, 3.0) == [SetInterval(1.8, 3.9, True, True)]


def test_a_piece_that_is_kept_as_a_whole_opens_no_end():
    q = np.arange(4.0)
    # Interpolated from 0.9 to 1.1, around a candidate that is kept.
    assert intervals(q, q - 0.1, q + 0.1, 1.0, [True, True, False]) == [SetInterval(0.0, 2.0)]
    assert intervals(q, q - 0.1, q + 0.1, 0.5, [True, False, True]) == [SetInterval(0.0, 1.0)]
    (part,) = intervals(q, q - 0.1, q + 0.1, 1.0, [False, True, False])
    assert part == SetInterval(pytest.approx(0.9), 2.0)


def test_answers_that_repeat_exactly_are_steps():
    smooth = np.random.default_rng(0).normal(size=(5, 59))
    assert not stepwise(smooth).any()
    within = smooth.copy()
    within[2, 7] = within[2, 31]
    assert stepwise(within).tolist() == [False, True, True, False]
    between = smooth.copy()
    between[1, 7] = between[0, 7]
    assert stepwise(between).tolist() == [True, False, False, False]
    failed = smooth.copy()
    failed[:, :9] = np.nan
    assert not stepwise(failed).any()


def test_refinement_halves_the_pieces_with_an_edge():
    q = np.arange(6.0)
    parts = [SetInterval(0.0, 1.3, True, False), SetInterval(3.0, 4.2)]
    # 1.3 lies in piece 1, the edge at node 3 belongs to the piece outside, 4.2 to piece 4.
    assert refined(q, parts, np.array([0.4])).tolist() == [2.5, 1.5, 4.5, 0.5]
    assert refined(q, [SetInterval(0.0, 5.0, True, True)], np.array([])).tolist() == []


def test_edges_are_settled_when_they_moved_by_less_than_a_tenth_of_the_width():
    before = [SetInterval(0.0, 1.0), SetInterval(3.0, 4.0, False, True)]
    near = [SetInterval(0.15, 1.0), SetInterval(3.0, 4.0, False, True)]
    assert settled(before, near)
    assert not settled(before, [SetInterval(0.2, 1.0), SetInterval(3.0, 4.0, False, True)])
    assert not settled(before, [SetInterval(0.0, 1.0), SetInterval(3.0, 4.0)])
    assert not settled(before, near[:1])
    assert settled([], [])
    assert not settled([], near)

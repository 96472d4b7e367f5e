"""One point, candidates, intervals: what a layout is made for."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.remedies.sites.suggest import points_for

NU = {"nu": ta.Parameter(truth=0.01, delivered=0.02, bounds=(0.001, 0.1))}
PAIR = {**NU, "shift": ta.Parameter(bounds=(-1, 1), coordinate="linear", scale=0.5)}


def test_one_point_is_found_as_resolve_finds_it():
    assert points_for(ta.Parameters(NU), None, 9).values == [{"nu": 0.01}]
    assert points_for(ta.Parameters(NU), "delivered", 9).values == [{"nu": 0.02}]
    assert points_for(ta.Parameters(NU), {"nu": 0.03}, 9).kind == "point"
    assert points_for(ta.Parameters(NU), None, 9).kind == "truth"


def test_an_interval_becomes_midpoints_of_equal_parts_in_the_coordinate():
    found = points_for(ta.Parameters(NU), {"nu": (0.005, 0.02)}, 4)
    expected = np.log(0.005) + (np.arange(4) + 0.5) / 4 * np.log(4)
    np.testing.assert_allclose(found.coordinates[:, 0], expected)
    np.testing.assert_allclose([v["nu"] for v in found.values], np.exp(expected))
    assert found.kind == "interval"


def test_a_value_in_an_interval_stays_fixed():
    found = points_for(ta.Parameters(PAIR), {"nu": (0.005, 0.02), "shift": 0.25}, 3)
    assert found.coordinates[:, 1].tolist() == [0.25] * 3
    assert found.units.tolist() == [[1.0, 0.5]] * 3


def test_several_intervals_are_filled_evenly():
    found = points_for(ta.Parameters(PAIR), {"nu": (0.005, 0.02), "shift": [-0.5, 0.5]}, 32)
    assert len(np.unique(found.coordinates, axis=0)) == 32
    low, high = np.array([np.log(0.005), -0.5]), np.array([np.log(0.02), 0.5])
    share = (found.coordinates - low) / (high - low)
    assert ((share > 0) & (share < 1)).all()
    np.testing.assert_allclose(share.mean(axis=0), 0.5, atol=0.05)


def test_candidates_are_taken_as_they_are():
    found = points_for(ta.Parameters(NU), [{"nu": 0.01}, {"nu": 0.05}], 9)
    assert [v["nu"] for v in found.values] == [0.01, 0.05]
    assert found.kind == "candidates"
    assert points_for(ta.Parameters(NU), [{"nu": 0.01}], 9).kind == "point"


@pytest.mark.parametrize(
    "at",
    [
        [],
        [0.01, 0.02],
        0.01,
        "somewhere",
        {"mu": 0.01},
        {"nu": (0.02, 0.005)},
        {"nu": (0.01, 0.01)},
        {"nu": (0.01, 0.02, 0.03)},
        {"nu": (0.01, 5.0)},
        {"nu": (np.nan, 0.02)},
        {"nu": ("a", "b")},
        {"nu": [[0.01, 0.02]]},
        [{"nu": 0.01}, {"nu": 7.0}],
    ],
)
def test_what_is_no_point_is_refused(at):
    with pytest.raises(ta.InputError):
        points_for(ta.Parameters(NU), at, 5)

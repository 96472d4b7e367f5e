"""NaN in the data: refused, or left out and counted."""

import numpy as np
import pytest

import twoaxis as ta

T = np.linspace(0, 1, 40)
RATE = {"rate": ta.Parameter(truth=2.0, bounds=(0.5, 8.0))}
COMPLETE = np.exp(-2.2 * T) + 0.02 * np.random.default_rng(4).standard_normal(40)
HOLES = np.array([3, 17, 18])
DATA = COMPLETE.copy()
DATA[HOLES] = np.nan
KEPT = np.delete(np.arange(40), HOLES)


def resolved(data=None, **options):
    options = {"noise": 0.02, "replicas": 5, "validate": 0, "progress": False, **options}
    return ta.resolve(lambda rate: np.exp(-rate * T), RATE, data=data, **options)


def dropped(messages):
    return [m.numbers for m in messages if m.code == "data.dropped"]


def test_missing_values_are_refused_by_default():
    with pytest.raises(ta.InputError, match=r'3 not finite.*position 3.*missing="drop"'):
        resolved(DATA)
    live = resolved().live
    with pytest.raises(ta.InputError, match='missing="drop"'):
        live.observed(DATA, None)


@pytest.mark.parametrize("bad", [np.full(40, np.nan), np.where(T > 0.5, np.inf, DATA)])
def test_there_must_be_something_left_and_it_must_be_finite(bad):
    with pytest.raises(ta.InputError, match="finite observations"):
        resolved(bad, missing="drop")


def test_the_choice_is_one_of_two():
    with pytest.raises(ta.InputError, match="missing"):
        resolved(DATA, missing="ignore")


@pytest.mark.parametrize("noise", [0.02, None, np.diag(np.linspace(0.015, 0.025, 40) ** 2) + 1e-5])
def test_dropped_values_are_as_if_their_sites_were_not_observed(noise):
    found = resolved(DATA, missing="drop", noise=noise)
    other = resolved({"all": DATA[KEPT]}, layouts={"all": KEPT}, noise=noise)
    assert dropped(found.messages) == [{"count": 3.0, "total": 40.0}]
    np.testing.assert_array_equal(found.data["site"].values[0], KEPT)
    for name in ("estimate", "data_estimate", "data_set_lower", "fisher_information"):
        np.testing.assert_array_equal(found.data[name], other.data[name])
    assert dropped(resolved(COMPLETE, missing="drop").messages) == []


def test_each_layout_loses_its_own():
    layouts = {"early": np.arange(20), "late": np.arange(15, 40)}
    found = resolved(DATA, layouts=layouts, missing="drop")
    assert dropped(found.messages) == [{"count": 3.0, "total": 20.0}, {"count": 2.0, "total": 25.0}]
    assert found.data["observations"].values.tolist() == [17, 23]
    by_layout = {name: DATA[sites] for name, sites in layouts.items()}
    again = resolved(by_layout, layouts=layouts, missing="drop")
    np.testing.assert_array_equal(again.data["data_estimate"], found.data["data_estimate"])


class TestLater:
    def test_data_that_come_later_are_dropped_as_well(self):
        live = resolved().live
        observed = live.observed(DATA, None, missing="drop")
        np.testing.assert_array_equal(observed.kept, KEPT)
        np.testing.assert_array_equal(observed.values, DATA[KEPT])
        assert dropped(observed.messages) == [{"count": 3.0, "total": 40.0}]
        early = resolved(DATA, missing="drop")
        estimate = np.exp(live.fit(observed, progress=False).fits.estimate[0, 0])
        assert estimate == early.data["data_estimate"].item()

    def test_the_data_of_the_resolution_keep_their_places(self):
        live = resolved(DATA, missing="drop").live
        own = live.observed(live.data, None)
        np.testing.assert_array_equal(own.kept, KEPT)
        assert dropped(own.messages) == [{"count": 3.0, "total": 40.0}]
        # Other data may have what these lack.
        complete = live.observed(COMPLETE, None)
        assert len(complete.values) == 40
        assert dropped(complete.messages) == []


def test_data_of_fewer_entries_and_both_ways_to_pass_them():
    with pytest.raises(ta.InputError, match=r'layouts=\{"observed".*missing="drop"'):
        resolved(COMPLETE[KEPT])
    chosen = resolved(COMPLETE[KEPT], layouts={"observed": KEPT})
    left = resolved(DATA, missing="drop")
    estimates = (each.data["data_estimate"].item() for each in (chosen, left))
    assert next(estimates) == pytest.approx(next(estimates), rel=1e-9)

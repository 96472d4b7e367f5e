"""Suggested sites against closed forms, and bad input."""

from itertools import combinations

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.remedies.sites.suggest import suggest_sites

T = np.linspace(0, 5, 51)
RATE = {"rate": ta.Parameter(truth=1.0, delivered=0.5, bounds=(0.1, 10))}


DRAWN = np.random.default_rng(0)


def decay(rate):
    return np.exp(-rate * T)


def test_a_decay_is_best_observed_at_its_time_constant():
    # d exp(-r t) / d log r = -r t exp(-r t), largest at t = 1 / r.
    assert T[suggest_sites(decay, RATE, 0.1, 1).sites] == pytest.approx([1.0])
    assert T[suggest_sites(decay, RATE, 0.1, 1, at="delivered").sites] == pytest.approx([2.0])
    assert T[suggest_sites(decay, RATE, 0.1, 1, at={"rate": 0.4}).sites] == pytest.approx([2.5])


def test_the_curve_is_the_closed_form_and_the_fisher_figure():
    found = suggest_sites(decay, RATE, 0.1, 4)
    worth = (T[found.sites] * np.exp(-T[found.sites]) / 0.1) ** 2
    expected = 100 * np.sqrt(2 / np.pi) / np.sqrt(np.cumsum(worth))
    np.testing.assert_allclose(found.predicted[1:], expected, rtol=1e-8)
    assert np.isinf(found.predicted[0])
    np.testing.assert_allclose(found.predicted_sd, found.predicted * np.sqrt(np.pi / 2))
    assert found.predicted["observations"].values.tolist() == [0, 1, 2, 3, 4]
    whole = ta.resolve(decay, RATE, 0.1, {"a": found.layout}, replicas=2, validate=0)
    assert float(whole.fisher_error_percent[0]) == pytest.approx(float(found.predicted[-1]))


def test_noise_of_its_own_at_each_entry_counts():
    noise = np.where(np.abs(T - 1) < 0.35, 10.0, 0.1)
    chosen = T[suggest_sites(decay, RATE, noise, 3).sites]
    worth = np.where(np.abs(T - 1) < 0.35, 0.0, T * np.exp(-T))
    assert set(chosen) == set(T[np.argsort(worth)[-3:]])


def test_present_observations_count_from_the_start():
    present = [3, 30, 44]
    found = suggest_sites(decay, RATE, 0.1, 2, present=present)
    assert found.predicted["observations"].values.tolist() == [3, 4, 5]
    now = ta.resolve(decay, RATE, 0.1, {"now": present}, replicas=2, validate=0)
    assert float(found.predicted[0]) == pytest.approx(float(now.fisher_error_percent[0]))
    assert found.layout.tolist() == [*present, *found.sites]
    # An average site adds the mean information of the candidates.
    worth = (T * np.exp(-T) / 0.1) ** 2
    others = np.delete(worth, present).mean()
    expected = 100 * np.sqrt(2 / np.pi) / np.sqrt(worth[present].sum() + 2 * others)
    assert float(found.at_random[-1]) == pytest.approx(expected)


def test_a_straight_line_is_observed_at_its_ends():
    parameters = {
        "slope": ta.Parameter(truth=1.0, bounds=(0.1, 10)),
        "height": ta.Parameter(truth=0.0, bounds=(-5, 5), coordinate="linear", scale=1.0),
    }
    found = suggest_sites(lambda slope, height: slope * T + height, parameters, 0.1, 4)
    assert sorted(found.sites) == [0, 1, 49, 50]
    exact = suggest_sites(lambda slope, height: slope * T + height, parameters, 1e-12, 4)
    assert sorted(exact.sites) == [0, 1, 49, 50]
    assert found.predicted.dims == ("parameter", "observations")
    assert np.isinf(found.predicted[:, :2]).all()


def test_an_averaged_design_maximises_the_average_log_information():
    few = np.linspace(0.2, 5, 13)
    candidates = [{"rate": 0.3}, {"rate": 1.0}, {"rate": 3.0}]
    found = suggest_sites(lambda rate: np.exp(-rate * few), RATE, 0.1, 3, at=candidates)
    rates = np.array([0.3, 1.0, 3.0])[:, None]
    worth = (rates * few * np.exp(-rates * few) / 0.1) ** 2
    bounds = 12 / np.log(100) ** 2  # inverse variance of log(rate) between its bounds

    def average(sites):
        return np.log(bounds + worth[:, list(sites)].sum(axis=1)).mean()

    best = max(combinations(range(13), 3), key=average)
    assert average(found.sites) == pytest.approx(average(best), abs=1e-9)
    assert found.predicted.dims == ("point", "observations")
    expected = 100 * np.sqrt(2 / np.pi) / np.sqrt(worth[:, found.sites].sum(axis=1))
    np.testing.assert_allclose(found.predicted[:, -1], expected, rtol=1e-7)


def test_efficiency_is_the_share_of_the_best_information_at_each_point():
    ends = [{"rate": 0.3}, {"rate": 3.0}]
    found = suggest_sites(decay, RATE, 0.01, 2, at=ends)
    rates = np.array([[0.3], [3.0]])
    worth = (rates * T * np.exp(-rates * T) / 0.01) ** 2
    prior = 12 / np.log(100) ** 2
    best = np.sort(worth, axis=1)[:, -2:].sum(axis=1)
    share = (prior + worth[:, found.sites].sum(axis=1)) / (prior + best)
    np.testing.assert_allclose(found.efficiency(), share, rtol=1e-6)
    assert suggest_sites(decay, RATE, 0.01, 2).efficiency().values.tolist() == [1.0]


def test_a_vectorized_model_gives_the_same_sites():
    many = suggest_sites(lambda rate: np.exp(-rate[:, None] * T), RATE, 0.1, 5, vectorized=True)
    assert many.sites.tolist() == suggest_sites(decay, RATE, 0.1, 5).sites.tolist()


def test_a_table_and_a_headline():
    found = suggest_sites(decay, RATE, 0.1, 2, present=[3], points={"t": T})
    assert found.summary().columns.tolist() == [
        "observations", "before", "predicted", "sd", "at_random",
    ]  # fmt: skip
    text = repr(found)
    assert text.startswith("2 new site(s) beside 1, made for the truth rate = 1")
    assert "sites (t): " in text
    wide = suggest_sites(decay, RATE, 0.1, 2, at={"rate": (0.5, 2.0)}, design_points=5)
    assert "average over 5 points, rate = 0.5743 to 1.741" in repr(wide)
    assert wide.summary().loc["rate", "worst"] == pytest.approx(float(wide.predicted[:, -1].max()))


def test_a_jump_in_the_model_is_said_aloud():
    with pytest.warns(ta.AccuracyWarning, match="derivative with respect to rate"):
        suggest_sites(lambda rate: np.exp(-rate * T) + (rate > 1.0008), RATE, 0.1, 2)


def test_darcy_has_two_parameters_and_a_better_layout_than_the_published():
    published = suggest_sites("darcy", 1, present=8).predicted[:, 0]
    found = suggest_sites("darcy", cells=(2, 2))
    assert len(found.sites) == int(published["observations"])
    assert (found.predicted[:, -1].values < 0.8 * published.values).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"count": 0}, "count as an integer"),
        ({"count": 2.0}, "count as an integer"),
        ({"count": True}, "count as an integer"),
        ({"count": 52}, "room for 51"),
        ({"design_points": 0}, "design_points as an integer"),
        ({"noise": np.eye(51)}, "independent noise"),
        ({"noise": 0.0}, "positive"),
        ({"noise": -1.0}, "positive"),
        ({"noise": np.nan}, "finite"),
        ({"noise": 1e-200}, "overflow"),
        ({"noise": np.ones(7)}, "51 entries"),
        ({"noise": None}, "real numbers"),
        ({"parameters": {}}, "mapping from parameter names"),
        ({"forward": 3.0}, "to be a function"),
        ({"forward": lambda rate: rate * np.full(51, np.nan)}, "room for 0"),
        ({"forward": lambda rate: np.ones(51) + 0 * rate}, "depend on the parameters"),
        ({"forward": lambda rate: rate // 0}, "to work at the center"),
        ({"forward": lambda rate: decay(rate) + DRAWN.random(51)}, "deterministic"),
        ({"forward": lambda speed: speed * T}, "keywords"),
    ],
)
def test_bad_input_is_refused(changes, words):
    call = {"forward": decay, "parameters": RATE, "noise": 0.1, "count": 2, **changes}
    with pytest.raises(ta.InputError, match=words):
        suggest_sites(**call)


def test_a_value_at_which_the_model_fails_is_named():
    def fragile(rate):
        if rate < 0.3:
            raise ArithmeticError("too slow")
        return decay(rate)

    with pytest.raises(ta.InputError, match=r"around rate=0\.2.*too slow"):
        suggest_sites(fragile, RATE, 0.1, 2, at={"rate": (0.2, 2.0)}, design_points=9)


def test_several_points_that_see_nothing_more_still_give_sites():
    long = np.linspace(0, 50, 500)
    found = suggest_sites(
        lambda rate: np.exp(-rate * long), {"rate": ta.Parameter(bounds=(0.2, 5))}, 0.05, 20,
        at={"rate": (0.5, 2)}, points={"t": long}, spacing=2.4,
    )  # fmt: skip
    assert found.sites.size == 20
    assert np.diff(np.sort(long[found.sites])).min() >= 2.4
    assert np.isfinite(found.predicted[..., 1:]).all()

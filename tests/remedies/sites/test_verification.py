"""Predicted against verified error."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.remedies.sites.suggest import suggest_sites

T = np.linspace(0, 5, 51)
RATE = {"rate": ta.Parameter(truth=1.0, bounds=(0.1, 10))}
calls = []


def decay(rate):
    calls.append(rate)
    return np.exp(-rate * T)


def test_the_prediction_holds_where_the_model_is_nearly_linear():
    check = suggest_sites(decay, RATE, 0.01, 5).verify(replicas=400, seed=3)
    low, high = check.interval.values
    assert bool(check.inside) == (low <= float(check.predicted) <= high)
    assert bool(check.inside)
    assert low < float(check.verified) < high
    assert float(check.verified) == pytest.approx(float(check.predicted), rel=0.15)
    assert "1 of 1 prediction(s) inside the 95% interval" in repr(check)


def test_refits_are_those_of_resolve_on_the_layout():
    found = suggest_sites(decay, RATE, 0.05, 4, present=[40, 2])
    check = found.verify(replicas=30, seed=5)
    straight = ta.resolve(decay, RATE, 0.05, {"a": found.layout}, replicas=30, seed=5)
    assert float(check.verified) == pytest.approx(float(straight.error_percent.mean()), rel=1e-9)
    assert check.resolutions[0].centered_on == "truth"


def test_a_prediction_that_fails_is_said_to():
    # The bounds cut the estimates off at a factor of two, of which first order knows nothing.
    narrow = {"rate": ta.Parameter(truth=1.0, bounds=(0.5, 2.0))}
    check = suggest_sites(decay, narrow, 1.0, 3).verify(replicas=100, bank=41, validate=0)
    assert float(check.predicted) > 100 > float(check.interval[1])
    assert not bool(check.inside)
    assert "0 of 1" in repr(check)


def test_every_design_point_is_verified_on_one_bank():
    found = suggest_sites(decay, RATE, 0.02, 5, at={"rate": (0.5, 2.0)}, design_points=3)
    calls.clear()
    check = found.verify(replicas=50, bank=41, validate=0)
    assert check.verified.dims == ("point",)
    np.testing.assert_allclose(check.summary()["value"], found.design_points["rate"])
    np.testing.assert_allclose(check.predicted, found.predicted[:, -1], rtol=1e-6)
    assert len(calls) < 2 * 41  # 41 values of the bank, and a handful at each point
    assert check.interval.dims == ("point", "end")


def test_of_many_points_the_mean_and_the_worst_are_shown():
    found = suggest_sites(decay, RATE, 0.02, 5, at={"rate": (0.5, 2.0)}, design_points=9)
    check = found.verify(replicas=20, bank=41, validate=0)
    shown = repr(check).splitlines()
    (row,) = (line.split() for line in shown if line.startswith("rate"))
    worst = float(check.verified.max())
    assert [row[1], row[6]] == ["9", f"{worst:.4g}"]
    assert float(row[5]) == pytest.approx(float(check.verified.mean()), rel=1e-3)
    assert len(check.summary()) == 9


def test_another_value_can_be_verified_that_the_design_did_not_know():
    found = suggest_sites(decay, RATE, 0.02, 5, at={"rate": 0.5})
    check = found.verify(replicas=20, at="truth", validate=0)
    assert check.summary()["value"].tolist() == [1.0]
    assert check.resolutions[0].centered_on == "truth"
    worth = (T[found.sites] * np.exp(-T[found.sites]) / 0.02) ** 2
    assert float(check.predicted) == pytest.approx(
        100 * np.sqrt(2 / np.pi) / np.sqrt(worth.sum()), rel=1e-6
    )


def test_two_parameters_have_a_row_each():
    parameters = {**RATE, "size": ta.Parameter(truth=2.0, bounds=(0.5, 8))}
    found = suggest_sites(
        lambda rate, size: size[:, None] * np.exp(-rate[:, None] * T),
        parameters,
        0.01,
        6,
        vectorized=True,
    )
    check = found.verify(replicas=40, starts=1)
    assert check.summary().index.tolist() == ["rate", "size"]
    np.testing.assert_allclose(check.predicted, found.predicted[:, -1], rtol=1e-6)


def test_a_value_at_which_the_model_fails_is_excluded_from_the_refits():
    def fragile(rate):
        if rate > 6:
            raise ArithmeticError("too fast")
        return np.exp(-rate * T)

    check = suggest_sites(fragile, RATE, 0.02, 4).verify(replicas=20, bank=41, validate=0)
    assert min(check.resolutions[0].excluded_parameters) > 6
    assert bool(np.isfinite(check.verified))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"replicas": 1}, "at least two"),
        ({"replicas": 0}, "replicas"),
        ({"seed": -1}, "seed"),
        ({"at": {"rate": 50.0}}, "inside the bounds"),
        ({"at": "delivered"}, "delivered"),
        ({"level": 2.0}, "level"),
        ({"bank": 2}, "bank"),
    ],
)
def test_bad_input_is_refused(options, words):
    with pytest.raises(ta.InputError, match=words):
        suggest_sites(decay, RATE, 0.02, 3).verify(**options)


def test_a_built_in_problem_meets_its_prediction_and_beats_random_sites():
    found = suggest_sites("allen-cahn", 60, cells=(20, 2), progress=False)
    check = found.verify(replicas=100, bank=61, validate=0, progress=False)
    assert bool(check.inside)
    random = ta.resolve("allen-cahn", layouts=[100], replicas=1, bank=5, validate=0)
    # 60 suggested sites resolve better than 200 random ones.
    assert float(check.verified) < float(random.fisher_error_percent[0])

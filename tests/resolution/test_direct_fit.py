"""Direct fits where it is hard: several minima, sets with gaps, models that fail."""

import numpy as np
import pytest

import twoaxis as ta

T = np.linspace(0, 3, 60)


def wave(w):
    return np.sin(w * T)


def frequency(truth=5.0, **extra):
    return {"w": ta.Parameter(truth=truth, bounds=(1.0, 20.0), **extra)}


def test_the_global_minimum_is_found_among_many():
    settings = dict(noise=1.5, replicas=100, seed=0, validate=0)
    bank = ta.resolve(wave, frequency(), bank=2001, **settings)
    direct = ta.resolve(wave, frequency(), method="direct", **settings)
    same = np.isclose(direct.estimate, bank.estimate, rtol=1e-3)
    assert same.mean() >= 0.99
    assert (direct.data["chi2"] >= bank.data["chi2"] - 1e-3).all()
    (message,) = [m for m in direct.messages if m.code == "resolution.several_minima"]
    assert 0 < message.numbers["count"] <= 100


def test_two_parameters_against_brute_force():
    noise, count = 1.5, 30
    parameters = {**frequency(), "a": ta.Parameter(truth=1.0, bounds=(0.05, 10.0))}
    found = ta.resolve(lambda w, a: a * wave(w), parameters, noise, replicas=count, seed=0)
    draws = np.random.default_rng(0).standard_normal((count, 60))
    grid = np.linspace(1, 20, 4001)
    shapes = np.sin(grid[:, None] * T)
    for replica, row in enumerate(draws):
        data = wave(5.0) + noise * row
        # For a given frequency the best amplitude inside its bounds is known.
        size = np.clip(shapes @ data / np.sum(shapes**2, axis=1), 0.05, 10.0)
        misfit = np.sum((data - size[:, None] * shapes) ** 2, axis=1) / noise**2
        chi2 = float(found.data["chi2"].isel(layout=0, replica=replica))
        assert chi2 <= misfit.min() + 1e-3


def test_the_estimate_from_data_does_not_depend_on_the_declared_truth():
    data = wave(8.0) + 1.5 * np.random.default_rng(4).standard_normal(60)
    estimates = [
        float(
            ta.resolve(wave, frequency(t), 1.5, data=data, method="direct", replicas=1)
            .data["data_estimate"]
            .squeeze()
        )
        for t in (2.0, 5.0, 9.0, 15.0)
    ]
    np.testing.assert_allclose(estimates, estimates[0], rtol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_a_profile_set_with_gaps_ends_at_its_outermost_crossing(seed):
    data = wave(5.0) + 2.5 * np.random.default_rng(seed).standard_normal(60)
    settings = dict(noise=2.5, data=data, replicas=1, validate=0)
    bank = ta.resolve(wave, frequency(), bank=2001, **settings).data_summary()
    direct = ta.resolve(wave, frequency(), method="direct", **settings).data_summary()
    np.testing.assert_allclose(direct["lower"], bank["lower"], rtol=0.02)
    np.testing.assert_allclose(direct["upper"], bank["upper"], rtol=0.02)


def test_where_the_model_fails_is_said():
    def fragile(a, k):
        return a * np.exp(-k * T) if k < 1 else np.full(60, np.nan)

    parameters = {
        "a": ta.Parameter(truth=1.0, bounds=(0.1, 10)),
        "k": ta.Parameter(truth=0.5, bounds=(0.1, 10)),
    }
    found = ta.resolve(fragile, parameters, 0.05, replicas=10)
    (message,) = [m for m in found.messages if m.code == "resolution.excluded_starts"]
    assert 0 < message.numbers["count"] < message.numbers["total"]
    assert "not finite" in message.text
    assert message.text in repr(found)


def test_parameters_seen_only_as_a_product_are_perfectly_anticorrelated():
    parameters = {name: ta.Parameter(truth=1.0, bounds=(0.1, 10)) for name in "ab"}
    found = ta.resolve(lambda a, b: a * b * T, parameters, 0.1, replicas=2)
    assert found.data["correlation"].values[0, 0, 1] == pytest.approx(-1, abs=1e-6)


class TestAtABound:
    def strict(self, share):
        if not 0 <= share <= 1:
            raise ValueError("a share lies between 0 and 1")
        return share * T

    @pytest.mark.parametrize("truth", [0.97, 0.9995, 1.0])
    @pytest.mark.parametrize("method", ["bank", "direct"])
    def test_the_model_is_never_called_outside_its_bounds(self, truth, method):
        parameters = {"share": ta.Parameter(truth=truth, bounds=(0, 1), coordinate="linear")}
        data = 1.1 * T + 0.5 * np.random.default_rng(1).standard_normal(60)
        found = ta.resolve(self.strict, parameters, 0.5, replicas=20, method=method, data=data)
        assert np.isfinite(found.summary().to_numpy()).all()
        assert float(found.data["data_estimate"].squeeze()) == 1.0
        assert all(np.isfinite(n) for m in found.messages for n in m.numbers.values())


def test_one_gauss_newton_step_stays_inside_the_bounds():
    parameters = {"k": ta.Parameter(truth=5.0, delivered=0.001, bounds=(1e-4, 50.0))}
    data = np.exp(-5 * T) + 0.01 * np.random.default_rng(0).standard_normal(60)
    found = ta.resolve(lambda k: np.exp(-k * T), parameters, 0.01, data=data, replicas=2)
    assert float(found.data["data_gauss_newton"].squeeze()) <= 50.0


@pytest.mark.parametrize(
    "bad",
    [
        dict(noise=np.ones(7)),
        dict(noise=None),
        dict(data=np.ones(3)),
        dict(points=np.ones((3, 1))),
        dict(seed=-1),
        dict(replicas=10**9),
        dict(noise=-np.eye(60)),
    ],
    ids=["noise", "no noise", "data", "points", "seed", "replicas", "covariance"],
)
def test_bad_input_is_found_out_before_the_expensive_part(bad):
    calls = []

    def slow(w):
        calls.append(w)
        return wave(w)

    with pytest.raises(ta.InputError):
        ta.resolve(slow, frequency(), **{"noise": 0.1, **bad})
    assert len(calls) <= 5

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


class TestSetsOfSeveralParameters:
    LIMIT = 3.841458820694124

    def straight(self, bounds=(-5.0, 5.0), noise=0.3, fails_from=np.inf):
        calls = []

        def forward(a, b):
            calls.append((a, b))
            return a + b * T if b < fails_from else np.full(60, np.nan)

        unknown = {
            name: ta.Parameter(truth=1.0, bounds=bounds, coordinate="linear") for name in "ab"
        }
        live = ta.resolve(
            forward, unknown, noise, replicas=1, validate=0, progress=False, method="direct"
        ).live
        data = 1.0 + T + noise * np.random.default_rng(7).standard_normal(60)
        before = len(calls)
        fits = live.fit(live.observed(data, None)).fits
        slopes = np.column_stack([np.ones(60), T]) / noise
        best = np.linalg.lstsq(slopes, data / noise)[0]
        error = np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes)))
        return fits, best, error, len(calls) - before

    def test_a_linear_model_has_the_closed_form(self):
        fits, best, error, runs = self.straight()
        reach = np.sqrt(self.LIMIT) * error
        np.testing.assert_allclose(fits.lower[0], best - reach, atol=1e-4 * error.min())
        np.testing.assert_allclose(fits.upper[0], best + reach, atol=1e-4 * error.min())
        assert not fits.open_lower.any()
        assert not fits.open_upper.any()
        assert runs < 150  # a full fit from three starts, and four ends

    def test_a_set_that_reaches_a_bound_is_open(self):
        fits, best, error, _ = self.straight(bounds=(0.7, 1.2))
        reach = np.sqrt(self.LIMIT) * error[0]
        assert best[0] - reach < 0.7
        assert fits.open_lower[0, 0]
        assert fits.lower[0, 0] == 0.7
        assert not fits.open_upper[0, 0]
        assert fits.upper[0, 0] == pytest.approx(best[0] + reach, abs=1e-4 * error[0])

    def test_where_the_model_fails_the_set_ends(self):
        fits, best, error, _ = self.straight(fails_from=1.1)
        assert best[1] + np.sqrt(self.LIMIT) * error[1] > 1.1
        assert not fits.open_upper[0, 1]
        assert fits.upper[0, 1] == pytest.approx(1.1, abs=2e-4 * error[1])
        assert fits.upper[0, 1] < 1.1

    @pytest.mark.parametrize("seed", [3, 4, 6])
    def test_another_minimum_within_the_limit_belongs_to_the_set(self, seed):
        """Frequency and amplitude: the profile of the frequency has many minima."""
        noise = 2.5
        data = wave(5.0) + noise * np.random.default_rng(seed).standard_normal(60)
        unknown = {**frequency(), "a": ta.Parameter(truth=1.0, bounds=(0.05, 10.0))}
        live = ta.resolve(
            lambda w, a: a * wave(w), unknown, noise, replicas=1, starts=12, progress=False
        ).live
        fits = live.fit(live.observed(data, None)).fits
        grid = np.linspace(1, 20, 20_001)
        shapes = np.sin(grid[:, None] * T)
        size = np.clip(shapes @ data / np.sum(shapes**2, axis=1), 0.05, 10.0)
        chi2 = np.sum((data - size[:, None] * shapes) ** 2, axis=1) / noise**2
        inside = grid[chi2 <= chi2.min() + self.LIMIT]
        assert np.diff(inside).max() > 0.5  # the set has a gap
        np.testing.assert_allclose(np.exp(fits.lower[0, 0]), inside[0], atol=0.01)
        np.testing.assert_allclose(np.exp(fits.upper[0, 0]), inside[-1], atol=0.01)


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

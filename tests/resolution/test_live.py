"""The forward model behind a resolution: it fits and simulates data that come later."""

import pickle

import numpy as np
import pytest

import twoaxis as ta

T = np.linspace(0, 1, 40)
DATA = np.exp(-2.2 * T) + 0.02 * np.random.default_rng(4).standard_normal(40)


def resolved(**options):
    options = {"noise": 0.02, "replicas": 5, "validate": 0, "progress": False, **options}
    return ta.resolve(
        lambda rate: np.exp(-rate * T),
        {"rate": ta.Parameter(truth=2.0, bounds=(0.5, 8.0))},
        **options,
    )


@pytest.mark.parametrize("method", ["bank", "direct"])
def test_data_that_come_later_are_fitted_as_if_they_had_been_there(method):
    early, late = resolved(data=DATA, method=method), resolved(method=method)
    observed = late.live.observed(DATA, None)
    fit = late.live.fit(observed)
    assert np.exp(fit.fits.estimate[0, 0]) == float(early.data["data_estimate"].item())
    assert fit.noise_scale == float(early.data["data_noise_scale"].item())
    np.testing.assert_array_equal(early.live.data["all"], DATA)
    assert late.live.data is None


def test_any_value_is_simulated():
    live = resolved().live
    residuals, reason, values = live.misfit(live.observed(DATA, "all"), {"rate": 3.0})
    assert values == pytest.approx({"rate": 3.0})
    assert reason == ""
    np.testing.assert_allclose(residuals, (DATA - np.exp(-3.0 * T)) / 0.02)


def test_correlated_noise_is_whitened():
    covariance = 4e-4 * (0.5 * np.eye(40) + 0.5 * np.exp(-np.abs(T[:, None] - T) / 0.1))
    live = resolved(noise=covariance).live
    residuals, _, _ = live.misfit(live.observed(DATA, None), {"rate": 3.0})
    plain = DATA - np.exp(-3.0 * T)
    assert residuals @ residuals == pytest.approx(plain @ np.linalg.solve(covariance, plain))


def test_layouts_and_shapes():
    layouts = {"early": np.arange(10), "late": np.arange(20, 40)}
    live = resolved(layouts=layouts).live
    np.testing.assert_array_equal(live.observed(DATA, "late").values, DATA[20:])
    np.testing.assert_array_equal(live.observed({"early": DATA[:10]}, "early").values, DATA[:10])
    with pytest.raises(ta.InputError, match="layout that the data belong to"):
        live.observed(DATA[:10], None)
    with pytest.raises(ta.InputError, match="layouts early, late"):
        live.observed(DATA, "noon")
    with pytest.raises(ta.InputError, match="shape"):
        live.observed(DATA[:7], "early")
    with pytest.raises(ta.InputError, match="data for the layouts early"):
        live.observed({"late": DATA[20:]}, "early")


@pytest.mark.parametrize("noise", [0.02, np.diag(np.linspace(0.01, 0.03, 40) ** 2)])
def test_data_of_the_whole_output_count_wherever_a_layout_observes(noise):
    layouts = {"early": np.arange(10), "middle": np.arange(5, 20)}
    several = resolved(layouts=layouts, noise=noise).live
    one = resolved(layouts={"union": np.arange(20)}, noise=noise).live
    together, alone = several.observed(DATA, None), one.observed(DATA, None)
    assert together.layout.name == "all layouts"
    np.testing.assert_array_equal(together.values, DATA[:20])
    assert several.fit(together).fits.estimate[0] == one.fit(alone).fits.estimate[0]
    values = {"rate": 3.0}
    np.testing.assert_array_equal(several.misfit(together, values)[0], one.misfit(alone, values)[0])


SLOPES = np.column_stack([np.ones(40), T]) / 0.02


@pytest.fixture(scope="module")
def line():
    data = 1.0 + 2.0 * T + 0.02 * np.random.default_rng(3).standard_normal(40)
    unknown = {
        name: ta.Parameter(truth=value, bounds=(-5.0, 5.0), coordinate="linear", scale=1.0)
        for name, value in (("a", 1.0), ("b", 2.0))
    }
    live = ta.resolve(lambda a, b: a + b * T, unknown, 0.02, replicas=2, progress=False).live
    return live, live.observed(data, None), np.linalg.lstsq(SLOPES, data / 0.02)[0]


class TestProfile:
    """``y = a + b t``: the profile deviance is exactly quadratic."""

    @pytest.mark.parametrize("column", [0, 1])
    def test_the_deviance_is_the_square_of_the_distance_in_standard_errors(self, line, column):
        live, observed, best = line
        error = np.sqrt(np.linalg.inv(SLOPES.T @ SLOPES)[column, column])
        values = best[column] + error * np.array([-3.0, -1.0, 0.0, 0.5, 4.0])
        found = live.profile(observed, "ab"[column], values)
        np.testing.assert_allclose(found, [9.0, 1.0, 0.0, 0.25, 16.0], atol=1e-6)
        again = live.profile(observed, "ab"[column], values, live.fit(observed))
        np.testing.assert_allclose(again, found, atol=1e-9)

    def test_a_parameter_that_is_not_named_is_fitted_again(self, line):
        live, observed, _ = line
        found = live.misfit(observed, {"b": 2.5})
        shift = float(np.mean(observed.values - 2.5 * T))  # the best constant for this slope
        assert found.values == pytest.approx({"a": shift, "b": 2.5}, abs=1e-7)
        expected = (observed.values - shift - 2.5 * T) / 0.02
        np.testing.assert_allclose(found.residuals, expected, atol=1e-6)

    def test_a_held_value_may_lie_outside_the_bounds(self, line):
        live, observed, _ = line
        found = live.misfit(observed, {"b": 6.0})
        assert found.values["b"] == 6.0
        assert found.values["a"] == pytest.approx(np.mean(observed.values - 6.0 * T), abs=1e-7)

    def test_bad_input(self, line):
        live, observed, _ = line
        with pytest.raises(ta.InputError, match="names among a, b"):
            live.misfit(observed, {"c": 1.0})
        with pytest.raises(ta.InputError, match="names among a, b"):
            live.profile(observed, "c", [1.0])
        with pytest.raises(ta.InputError, match="inside the bounds"):
            live.profile(observed, "a", [1.0, 6.0])

    def test_near_the_estimate_a_profile_costs_few_model_runs(self):
        calls = []

        def decay(a, k):
            calls.append((a, k))
            return a * np.exp(-k * T)

        unknown = {
            "a": ta.Parameter(truth=1.0, bounds=(0.1, 10.0)),
            "k": ta.Parameter(truth=2.0, bounds=(0.5, 8.0)),
        }
        live = ta.resolve(decay, unknown, 0.02, replicas=2, progress=False).live
        observed = live.observed(DATA, None)
        fit = live.fit(observed, progress=False)
        calls.clear()
        values = np.linspace(*np.exp([fit.fits.lower[0, 1], fit.fits.upper[0, 1]]), 21)
        found = live.profile(observed, "k", values, fit)
        assert len(calls) < 60
        calls.clear()
        live.profile(observed, "a", np.exp(fit.fits.estimate[0, :1]), fit)
        assert not calls  # one interpolant for all parameters
        far = live.profile(observed, "k", [0.6, 7.0], fit)
        assert calls  # beyond it, the model itself
        for value, deviance in zip([*values, 0.6, 7.0], [*found, *far], strict=True):
            shape = np.exp(-value * T)  # the best amplitude is known
            best = np.clip(shape @ DATA / (shape @ shape), 0.1, 10.0)
            chi2 = np.sum(((DATA - best * shape) / 0.02) ** 2)
            expected = max(chi2 - fit.fits.chi2[0], 0.0)
            assert deviance == pytest.approx(expected, rel=1e-6, abs=0.005)

    @pytest.mark.parametrize("method", ["bank", "direct"])
    def test_one_parameter_needs_no_refit(self, method):
        live = resolved(method=method).live
        observed = live.observed(DATA, None)
        values = np.array([1.9, 2.1, 2.2, 2.4])
        chi2 = np.sum(((DATA - np.exp(-values[:, None] * T)) / 0.02) ** 2, axis=1)
        lowest = live.fit(observed).fits.chi2[0]
        found = live.profile(observed, "rate", values)
        np.testing.assert_allclose(found, chi2 - lowest, rtol=1e-5)

    def test_where_the_model_fails_the_deviance_is_not_known(self):
        def fragile(a, k):
            return a * np.exp(-k * T) if k < 3 else np.full(40, np.nan)

        unknown = {
            "a": ta.Parameter(truth=1.0, bounds=(0.1, 10.0)),
            "k": ta.Parameter(truth=2.0, bounds=(0.5, 8.0)),
        }
        live = ta.resolve(fragile, unknown, 0.02, replicas=2, progress=False).live
        found = live.profile(live.observed(DATA, None), "k", [2.2, 5.0])
        assert np.isfinite(found[0])
        assert np.isnan(found[1])


def test_it_is_never_saved(tmp_path):
    found = resolved(data=DATA)
    assert found.live is not None
    travelled = pickle.loads(pickle.dumps(found))  # the forward model is a lambda, and stays here
    assert travelled.live is None
    assert travelled.data.identical(found.data)
    assert ta.load(found.save(tmp_path / "found.nc")).live is None


def test_a_column_of_data_is_a_vector():
    t = np.linspace(0, 1, 12)
    k = {"k": ta.Parameter(delivered=1.0, bounds=(0.2, 5.0))}
    data = np.exp(-t) + 0.02 * np.random.default_rng(0).standard_normal(12)
    fits = [
        ta.resolve(lambda k: np.exp(-k * t), k, 0.02, data=each, replicas=2, progress=False)
        .data["data_estimate"]
        .item()
        for each in (data, data[:, None])
    ]
    assert fits[0] == fits[1]

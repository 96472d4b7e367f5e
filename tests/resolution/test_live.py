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
    residuals, reason = live.misfit(live.observed(DATA, "all"), {"rate": 3.0})
    assert reason == ""
    np.testing.assert_allclose(residuals, (DATA - np.exp(-3.0 * T)) / 0.02)


def test_correlated_noise_is_whitened():
    covariance = 4e-4 * (0.5 * np.eye(40) + 0.5 * np.exp(-np.abs(T[:, None] - T) / 0.1))
    live = resolved(noise=covariance).live
    residuals, _ = live.misfit(live.observed(DATA, None), {"rate": 3.0})
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


def test_it_is_never_saved(tmp_path):
    found = resolved(data=DATA)
    assert found.live is not None
    travelled = pickle.loads(pickle.dumps(found))  # the forward model is a lambda, and stays here
    assert travelled.live is None
    assert travelled.data.identical(found.data)
    assert ta.load(found.save(tmp_path / "found.nc")).live is None

"""Many parameters: replicas by the tangent of the model, data by the model itself."""

import numpy as np
from scipy.stats import chi2

import twoaxis as ta
from twoaxis.resolution.linear_fit import MANY

COUNT, NOISE = MANY + 1, 0.05
TRUTH = np.linspace(-1, 1, COUNT)
MATRIX = np.random.default_rng(0).normal(size=(60, COUNT))


def unknown(bounds=(-9.0, 9.0)):
    return {"a": ta.ParameterArray(truth=TRUTH, bounds=bounds, coordinate="linear", scale=1.0)}


def resolved(forward, **options):
    return ta.resolve(
        forward, unknown(), **{"noise": NOISE, "replicas": 40, "progress": False, **options}
    )


def test_a_linear_model_is_fitted_exactly():
    data = MATRIX @ TRUTH + NOISE * np.random.default_rng(1).normal(size=60)
    found = resolved(lambda a: MATRIX @ a, data=data)
    assert found.data.attrs["method"] == "linear"
    (message,) = [each for each in found.messages if each.code == "resolution.linear"]
    assert message.severity == "info"
    assert message.numbers["parameters"] == COUNT
    assert message.numbers["standard_errors"] < 1e-6
    covariance = NOISE**2 * np.linalg.inv(MATRIX.T @ MATRIX)
    error = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(found.data["fisher_sd_percent"].values.ravel() / 100, error)
    draws = np.random.default_rng(0).standard_normal((40, 60))
    expected = TRUTH + NOISE * draws @ np.linalg.pinv(MATRIX).T
    estimate = found.data["estimate"].transpose("layout", "replica", "parameter").values[0]
    np.testing.assert_allclose(estimate, expected, atol=1e-8)
    fitted = np.linalg.lstsq(MATRIX, data, rcond=None)[0]
    reach = np.sqrt(chi2.ppf(0.95, 1)) * error
    for name, wanted in (
        ("data_estimate", fitted),
        ("data_set_lower", fitted - reach),
        ("data_set_upper", fitted + reach),
    ):
        np.testing.assert_allclose(found.data[name].values.ravel(), wanted, atol=1e-6)
    live = found.live
    profile = live.profile(live.observed(data, None), "a[2]", [fitted[2], fitted[2] + 2 * error[2]])
    np.testing.assert_allclose(profile, [0.0, 4.0], atol=1e-4)
    deviance = found.data["deviance"].transpose("layout", "replica", "parameter").values[0]
    np.testing.assert_allclose(deviance, ((expected - TRUTH) / error) ** 2, rtol=1e-5)


def test_data_are_fitted_with_the_model_itself_in_few_runs():
    def bent(a):
        return np.sinh(MATRIX @ a / 4)

    found = resolved(bent, data=bent(TRUTH + 0.3), noise=0.01, replicas=200)
    np.testing.assert_allclose(found.data["data_estimate"].values.ravel(), TRUTH + 0.3, atol=1e-5)
    assert found.data.attrs["model_runs"] < 3000
    direct = resolved(bent, noise=0.01, replicas=1, method="direct")
    assert found.data.attrs["model_runs"] < direct.data.attrs["model_runs"]


def test_estimates_beyond_a_bound_are_fitted_inside():
    narrow = unknown((-1.0, 1.0))
    found = ta.resolve(lambda a: MATRIX @ a, narrow, noise=1.0, replicas=40, progress=False)
    estimate = found.data["estimate"].transpose("layout", "replica", "parameter").values[0]
    draws = np.random.default_rng(0).standard_normal((40, 60))
    assert (np.abs(estimate) <= 1).all()
    free = TRUTH + draws @ np.linalg.pinv(MATRIX).T
    assert (np.abs(free) > 1).any()
    rows = MATRIX @ TRUTH + draws
    clipped = ((rows - np.clip(free, -1, 1) @ MATRIX.T) ** 2).sum(axis=1)
    inside = ((rows - estimate @ MATRIX.T) ** 2).sum(axis=1)
    assert (inside <= clipped + 1e-9).all()
    assert (inside < clipped - 1e-3).any()


def test_what_no_observation_sees_has_open_sets():
    blind = MATRIX.copy()
    blind[:, 0] = 0.0
    found = resolved(lambda a: blind @ a, data=blind @ TRUTH)
    is_open = found.data["data_set_open_lower"].values.ravel()
    assert is_open[0]
    assert not is_open[1:].any()
    assert "resolution.null_direction" in [each.code for each in found.messages]


def test_a_bent_model_is_said_to_be_bent():
    found = resolved(lambda a: np.sinh(3 * MATRIX @ a / 4), noise=30.0, validate=3)
    (message,) = [each for each in found.messages if each.code == "resolution.linear"]
    assert message.severity == "warning"
    assert message.numbers["standard_errors"] > 0.5


def test_variances_of_many_observations_take_no_square_matrix():
    from twoaxis.resolution.linear_fit import variances

    slope = np.random.default_rng(0).normal(size=(100_000, 2))  # squared: 80 GB
    np.testing.assert_allclose(variances(slope, np.ones(2)), 1e-5, rtol=0.05)

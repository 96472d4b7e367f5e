"""`resolve` on models that are not ours, against analytical results."""

import numpy as np
import pytest
import xarray as xr
from scipy.optimize import least_squares, minimize_scalar

import twoaxis as ta

T = np.linspace(0, 10, 60)
TRUTH = {"omega": 2.0, "zeta": 0.1}


def oscillation(omega, zeta):
    return np.exp(-zeta * omega * T) * np.cos(omega * np.sqrt(1 - zeta**2) * T)


def oscillation_slopes(omega, zeta):
    """Derivatives with respect to log omega and log zeta, worked out by hand."""
    root = np.sqrt(1 - zeta**2)
    decay, phase = np.exp(-zeta * omega * T), omega * root * T
    by_omega = decay * (-zeta * T * np.cos(phase) - root * T * np.sin(phase))
    by_zeta = decay * (-omega * T * np.cos(phase) + omega * zeta / root * T * np.sin(phase))
    return np.column_stack([omega * by_omega, zeta * by_zeta])


def correlated(size=60, scale=0.05):
    """AR(1)-like covariance with a nugget."""
    lag = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    return scale**2 * 0.7**lag + 1e-4 * np.eye(size)


def unknowns(**extra):
    return {
        "omega": ta.Parameter(truth=2.0, bounds=(0.5, 6.0), **extra),
        "zeta": ta.Parameter(truth=0.1, bounds=(0.01, 0.5), **extra),
    }


@pytest.fixture(scope="module")
def oscillator():
    return ta.resolve(oscillation, unknowns(), correlated(), replicas=400, seed=3)


class TestTwoParametersWithFullCovariance:
    def test_fisher_matrix_is_the_analytical_one(self, oscillator):
        slopes = oscillation_slopes(**TRUTH)
        analytical = slopes.T @ np.linalg.solve(correlated(), slopes)
        np.testing.assert_allclose(
            oscillator.data["fisher_information"].values[0], analytical, rtol=1e-7
        )
        covariance = np.linalg.inv(analytical)
        predicted = 100 * np.sqrt(2 / np.pi * np.diag(covariance))
        np.testing.assert_allclose(
            oscillator.fisher_error_percent.values[:, 0], predicted, rtol=1e-7
        )
        correlation = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
        assert oscillator.data["correlation"].values[0, 0, 1] == pytest.approx(correlation)

    def test_repeated_noise_errors_follow_the_prediction(self, oscillator):
        predicted = oscillator.fisher_error_percent.values[:, 0]
        for k, name in enumerate(oscillator.parameters):
            interval = oscillator.interval("mean", parameter=name)
            # Second-order effects are small here: the first-order value is inside, nearly.
            assert interval.low < 1.02 * predicted[k]
            assert interval.high > 0.98 * predicted[k]

    def test_coverage_is_nominal(self, oscillator):
        tolerance = 2.5 * np.sqrt(0.95 * 0.05 / 400)
        assert np.abs(oscillator.coverage - 0.95).max() < tolerance
        joint = float(oscillator.data["jointly_covered"].mean())
        assert abs(joint - 0.95) < tolerance

    def test_estimates_are_scipys(self, oscillator):
        factor = np.linalg.cholesky(correlated())
        noise = np.random.default_rng(3).standard_normal((400, 60))
        for replica in (0, 7, 23):
            data = oscillation(**TRUTH) + factor @ noise[replica]
            expected = least_squares(
                lambda q, data=data: np.linalg.solve(factor, data - oscillation(*np.exp(q))),
                np.log([2.0, 0.1]),
                xtol=1e-12,
                ftol=1e-12,
                gtol=1e-12,
            )
            found = oscillator.estimate.values[:, 0, replica]
            np.testing.assert_allclose(found, np.exp(expected.x), rtol=1e-5)

    def test_every_start_leads_to_the_same_minimum(self, oscillator):
        assert oscillator.data["converged"].all()
        assert (oscillator.data["agreeing_starts"] >= 1).all()
        assert float(oscillator.data["agreeing_starts"].mean()) > 2

    def test_linear_and_log_coordinates_give_the_same_fit(self, oscillator):
        linear = ta.resolve(
            oscillation, unknowns(coordinate="linear"), correlated(), replicas=20, seed=3
        )
        np.testing.assert_allclose(
            linear.estimate, oscillator.estimate.isel(replica=slice(20)), rtol=1e-5
        )
        np.testing.assert_allclose(
            linear.fisher_error_percent, oscillator.fisher_error_percent, rtol=1e-5
        )


def test_the_profile_set_of_two_parameters_ends_where_the_deviance_reaches_its_limit():
    noise = 0.08
    data = oscillation(**TRUTH) + noise * np.random.default_rng(5).standard_normal(60)
    found = ta.resolve(oscillation, unknowns(), noise, replicas=2, data=data).data.isel(layout=0)
    best = least_squares(lambda q: (data - oscillation(*np.exp(q))) / noise, np.log([2, 0.1]))
    for end in ("data_set_lower", "data_set_upper"):
        held = float(found[end].sel(parameter="zeta"))
        refit = least_squares(
            lambda q, held=held: (data - oscillation(np.exp(q[0]), held)) / noise, np.log([2.0])
        )
        assert 2 * (refit.cost - best.cost) == pytest.approx(3.841459, rel=1e-3)


def test_a_null_direction_is_reported():
    found = ta.resolve(
        lambda a, b: np.linspace(1, 2, 20) * (a * b),  # only the product is seen
        {"a": ta.Parameter(truth=2.0, bounds=(1, 4)), "b": ta.Parameter(truth=3.0, bounds=(1, 9))},
        noise=0.1,
        replicas=5,
    )
    directions = found.directions()
    assert directions["poorly_resolved"].tolist() == [True, False]
    blind = directions.iloc[0]
    assert blind["a"] == pytest.approx(-blind["b"], rel=1e-6)
    assert "resolution.null_direction" in [m.code for m in found.messages]
    assert found.to_dict()["by_parameter"]["a"]["fisher_error_percent"]["mean"] is None


def test_a_parameter_with_linear_coordinates_may_be_zero_given_a_scale():
    x = np.linspace(-1, 1, 30)
    parameters = {"c": ta.Parameter(truth=0.0, bounds=(-2, 2), coordinate="linear", scale=0.5)}
    found = ta.resolve(lambda c: c * x, parameters, noise=0.2, replicas=100, seed=1)
    noise = np.random.default_rng(1).standard_normal((100, 30))
    closed = 0.2 * noise @ x / (x @ x)
    np.testing.assert_allclose(found.estimate.values[0], closed, atol=1e-9)
    np.testing.assert_allclose(found.error_percent.values[0], 100 * np.abs(closed) / 0.5, atol=1e-6)


def decay(rate):
    return np.exp(-rate * T)


RATE = {"rate": ta.Parameter(truth=0.5, bounds=(0.1, 3.0))}


def test_layouts_share_the_noise_vector_of_a_replica():
    layouts = {"first": np.arange(20), "again": np.arange(20), "part": np.arange(10)}
    found = ta.resolve(decay, RATE, 0.05, layouts, replicas=8, seed=2).estimate
    np.testing.assert_array_equal(found.sel(layout="first"), found.sel(layout="again"))
    alone = ta.resolve(decay, RATE, 0.05, {"part": np.arange(10)}, replicas=8, seed=2).estimate
    assert not np.allclose(found.sel(layout="first"), found.sel(layout="part"))
    # The short layout takes the beginning of the long vector, not a vector of its own.
    noise = np.random.default_rng(2).standard_normal((8, 20))[:, :10]
    assert alone.shape == (1, 8)
    values = ta.resolve(
        decay,
        RATE,
        0.05,
        {"part": np.arange(10)},
        replicas=1,
        data=decay(0.5)[:10] + 0.05 * noise[3],
    )
    assert float(values.data["data_estimate"].squeeze()) == pytest.approx(
        float(found.sel(layout="part", replica=3))
    )


def test_noise_by_entry_and_as_a_covariance_agree():
    deviations = np.linspace(0.02, 0.1, 60)
    layouts = {"odd": np.arange(1, 60, 2)}
    by_entry = ta.resolve(decay, RATE, deviations, layouts, replicas=10)
    covariance = ta.resolve(decay, RATE, np.diag(deviations**2), layouts, replicas=10)
    np.testing.assert_allclose(by_entry.estimate, covariance.estimate, rtol=1e-9)


def test_layouts_take_their_part_of_the_covariance():
    sites = np.array([3, 10, 4, 40])
    part = ta.resolve(decay, RATE, correlated(), {"few": sites}, replicas=6)
    whole = ta.resolve(
        lambda rate: decay(rate)[sites], RATE, correlated()[np.ix_(sites, sites)], replicas=6
    )
    np.testing.assert_allclose(part.estimate, whole.estimate, rtol=1e-9)


def test_output_of_any_shape_is_indexed_flat():
    grid = ta.resolve(
        lambda rate: decay(rate).reshape(6, 10), RATE, 0.05, {"some": [0, 17, 59]}, replicas=4
    )
    flat = ta.resolve(decay, RATE, 0.05, {"some": [0, 17, 59]}, replicas=4)
    np.testing.assert_array_equal(grid.estimate, flat.estimate)


def test_a_vectorized_model_gives_the_same_numbers():
    plain = ta.resolve(decay, RATE, 0.05, replicas=10)
    vectorized = ta.resolve(
        lambda rate: np.exp(-rate[:, None] * T), RATE, 0.05, replicas=10, vectorized=True
    )
    np.testing.assert_array_equal(plain.estimate, vectorized.estimate)


def test_the_same_call_gives_the_same_numbers_and_another_seed_gives_others():
    first, again = (ta.resolve(decay, RATE, 0.05, replicas=5, seed=4) for _ in range(2))
    assert first.data.identical(again.data)
    other = ta.resolve(decay, RATE, 0.05, replicas=5, seed=5)
    assert not np.allclose(first.estimate, other.estimate)


def test_more_replicas_keep_the_earlier_ones():
    few = ta.resolve(decay, RATE, 0.05, replicas=5, seed=4)
    many = ta.resolve(decay, RATE, 0.05, replicas=9, seed=4)
    np.testing.assert_array_equal(few.estimate, many.estimate.isel(replica=slice(5)))


DELIVERED = {"rate": ta.Parameter(delivered=0.6, bounds=(0.1, 3.0))}


class TestWithoutTruth:
    def test_replicas_are_simulated_at_the_delivered_value(self):
        found = ta.resolve(decay, DELIVERED, 0.05, replicas=50)
        assert found.centered_on == "delivered"
        assert float(found.data["center"][0]) == 0.6
        assert float(found.estimate.mean()) == pytest.approx(0.6, rel=0.05)

    def test_nothing_is_called_an_error(self):
        found = ta.resolve(decay, DELIVERED, 0.05, replicas=5)
        assert "deviation from the delivered" in repr(found)
        assert "error" not in repr(found)
        assert "error" not in found.data["deviation_percent"].attrs["long_name"]

    def test_at_chooses_between_truth_and_delivered(self):
        both = {"rate": ta.Parameter(truth=0.5, delivered=0.6, bounds=(0.1, 3.0))}
        assert ta.resolve(decay, both, 0.05, replicas=2).centered_on == "truth"
        found = ta.resolve(decay, both, 0.05, replicas=2, at="delivered")
        assert found.centered_on == "delivered"
        point = ta.resolve(decay, both, 0.05, replicas=2, at={"rate": 0.7})
        assert float(point.data["center"][0]) == 0.7


class TestSolverDiscrepancy:
    def test_noiseless_bias_is_that_of_the_other_model(self):
        # A model whose time runs 10% fast returns a rate that is 1/1.1 of the truth.
        found = ta.resolve(
            decay, RATE, 0.01, replicas=50, fit_forward=lambda rate: np.exp(-1.1 * rate * T)
        )
        bias = float(found.noiseless_bias_percent[0])
        assert bias == pytest.approx(100 * (1 / 1.1 - 1), abs=1e-3)
        assert float(found.coverage) < 0.2

    def test_the_matched_fit_has_none(self):
        found = ta.resolve(decay, RATE, 0.01, replicas=2)
        assert abs(float(found.noiseless_bias_percent[0])) < 1e-4


class TestRealData:
    def observed(self, scale=0.05, seed=0):
        return decay(0.5) + scale * np.random.default_rng(seed).standard_normal(60)

    def test_unknown_noise_is_estimated_from_the_matched_fit(self):
        data = self.observed()
        found = ta.resolve(decay, RATE, data=data, replicas=20)
        fit = least_squares(lambda q: data - decay(np.exp(q[0])), [np.log(0.5)])
        expected = np.sqrt(2 * fit.cost / 59)
        assert float(found.data["data_noise_scale"][0]) == pytest.approx(expected, rel=1e-5)
        assert found.data.attrs["noise"] == "estimated from the matched fit"
        assert float(found.data["data_estimate"].squeeze()) == pytest.approx(
            np.exp(fit.x[0]), rel=1e-4
        )
        declared = ta.resolve(decay, RATE, expected, replicas=20)
        np.testing.assert_allclose(found.error_percent, declared.error_percent, rtol=1e-4)

    def test_sound_data_raise_no_message(self):
        found = ta.resolve(decay, RATE, 0.05, data=self.observed(), replicas=5)
        assert found.messages == []

    @pytest.mark.parametrize(
        ("data", "name"),
        [
            (decay(0.5) + 0.15 * np.random.default_rng(0).standard_normal(60), "size"),
            (decay(0.5) + 0.05 * np.sin(T), "whiteness"),
            (decay(0.5) + 0.02 * np.random.default_rng(0).standard_cauchy(60), "normality"),
        ],
    )
    def test_a_misfit_is_reported(self, data, name):
        with pytest.warns(ta.MisfitWarning):
            found = ta.resolve(decay, RATE, 0.05, data=data, replicas=5)
        (message,) = [m for m in found.messages if m.code == f"resolution.misfit_{name}"]
        assert message.numbers["p_value"] == float(found.data[f"data_{name}_p_value"][0]) < 0.01
        assert message.text in repr(found)

    def test_several_layouts_are_fitted_each_to_its_own_data(self):
        sites = {"a": np.arange(30), "b": np.arange(30, 60)}
        data = {name: self.observed(seed=7)[s] for name, s in sites.items()}
        found = ta.resolve(decay, RATE, 0.05, sites, data=data, replicas=2)
        whole = ta.resolve(decay, RATE, 0.05, sites, data=self.observed(seed=7), replicas=2)
        assert found.data.identical(whole.data)


class TestFailingModels:
    def fragile(self, rate):
        if rate > 2.0:
            raise RuntimeError("diverged")
        return np.full(60, np.nan) if rate < 0.2 else decay(rate)

    def test_values_at_which_the_model_fails_are_excluded_by_name(self):
        found = ta.resolve(self.fragile, RATE, 0.05, replicas=20)
        excluded = found.excluded_parameters
        assert {v > 2.0 for v in excluded if v > 1} == {True}
        assert {reason for value, reason in excluded.items() if value > 1} == {
            "forward raised RuntimeError: diverged"
        }
        assert all("not finite" in r for v, r in excluded.items() if v < 0.5)
        assert found.to_dict()["excluded_parameters"][0]["value"] == min(excluded)
        assert np.isfinite(found.summary().to_numpy()).all()

    def test_direct_fits_step_around_them(self):
        found = ta.resolve(self.fragile, RATE, 0.05, replicas=20, method="direct")
        whole = ta.resolve(decay, RATE, 0.05, replicas=20, method="direct")
        np.testing.assert_allclose(found.estimate, whole.estimate, rtol=1e-5)


def test_saved_results_load_again_and_open_with_plain_xarray(tmp_path):
    found = ta.resolve(decay, RATE, 0.05, {"a": [1, 2, 3], "ü": [4, 5, 6]}, replicas=4)
    path = found.save(tmp_path / "found.nc")
    with pytest.MonkeyPatch.context() as patch:  # a summary is for those who ask for it
        patch.setattr("twoaxis.statistics.bootstrap._weight_chunks", None)
        assert ta.load(path).data.identical(found.data)
    with xr.open_dataset(path, engine="h5netcdf") as plain:
        assert plain["deviation_percent"].attrs["units"] == "%"
        assert plain.attrs["schema"] == "twoaxis.resolution/1"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("replicas", "draws"), [(200, 20_000), (16_000, 2_000)])
def test_very_many_replicas_are_resampled_less_often(replicas, draws):
    made = []

    def counted(clusters, members, draws, seed):  # noqa: ARG001
        made.append(draws)
        yield np.ones((draws, len(clusters)))

    found = ta.resolve(lambda x: x * np.ones(4), {"x": RATE["rate"]}, 0.1, replicas=replicas)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("twoaxis.statistics.bootstrap._weight_chunks", counted)
        found.summary()
        found.interval("mean")
    assert made == [draws, draws]


def test_names_are_escaped_in_html():
    found = ta.resolve(
        lambda **p: decay(p["<script>"]),
        {"<script>": RATE["rate"]},
        0.05,
        {"<b>": [1, 2, 3]},
        replicas=3,
    )
    html = found._repr_html_()
    assert "<script>" not in html
    assert "<b>" not in html
    assert "&lt;script&gt;" in html


def test_one_replica_has_no_interval():
    found = ta.resolve(decay, RATE, 0.05, replicas=1)
    assert found.interval() is None
    assert "ci_low" not in found.summary()
    assert found.to_dict()["error_percent"]["ci95"] is None
    assert "nan" not in repr(found).lower()


# ---------------------------------------------------------------- only data and a simulator


def only_data(forward, parameters, data, **options):
    return ta.resolve(forward, parameters, data=data, replicas=20, progress=False, **options)


@pytest.mark.parametrize("noise", [None, 0.05])
def test_without_a_truth_or_a_delivered_value_the_center_is_the_matched_fit(noise, tmp_path):
    t = np.linspace(0, 3, 40)
    data = np.exp(-0.8 * t) + 0.05 * np.random.default_rng(2).standard_normal(40)
    unknown = {"rate": ta.Parameter(bounds=(0.1, 10.0))}
    found = only_data(lambda rate: np.exp(-rate * t), unknown, data, noise=noise)
    best = minimize_scalar(
        lambda q: ((data - np.exp(-np.exp(q) * t)) ** 2).sum(),
        bounds=np.log((0.1, 10.0)),
        options={"xatol": 1e-10},
    )
    assert found.center.kind == "point"
    assert found.center.values["rate"] == pytest.approx(np.exp(best.x), rel=1e-5)
    assert found.data["data_estimate"].item() == pytest.approx(np.exp(best.x), rel=1e-3)
    (told,) = (m for m in found.messages if m.code == "resolution.center_fitted")
    assert told.numbers == found.center.values
    assert told.text in repr(found)
    again = ta.load(found.save(tmp_path / "resolution.nc"))
    assert again.messages == found.messages
    same = only_data(
        lambda rate: np.exp(-rate * t), unknown, data, noise=noise, at=found.center.values
    )
    np.testing.assert_array_equal(same.data["estimate"], found.data["estimate"])
    assert "resolution.center_fitted" not in [m.code for m in same.messages]
    assert found.data.attrs["model_runs"] > same.data.attrs["model_runs"]


def test_the_matched_center_of_several_parameters_and_layouts():
    x = np.linspace(-1, 1, 30)
    unknown = {
        "a": ta.Parameter(bounds=(-2.0, 2.0), coordinate="linear", scale=1.0),
        "b": ta.Parameter(bounds=(-3.0, 3.0), coordinate="linear", scale=1.0, nuisance=True),
    }
    data = 0.7 * x - 0.4 + 0.1 * np.random.default_rng(0).standard_normal(30)
    wide, narrow = np.arange(30), np.arange(5)
    found = only_data(
        lambda a, b: a * x + b, unknown, data, noise=0.1, layouts={"few": narrow, "all": wide}
    )
    assert list(found.center.values.values()) == pytest.approx(np.polyfit(x, data, 1), abs=1e-6)
    (told,) = (m for m in found.messages if m.code == "resolution.center_fitted")
    assert "on layout all" in told.text


def test_the_matched_center_is_the_lowest_of_several_minima():
    t = np.linspace(0, 5, 60)
    data = np.sin(7.3 * t) + 0.1 * np.random.default_rng(0).standard_normal(60)
    unknown = {"w": ta.Parameter(bounds=(1.0, 12.0), coordinate="linear", scale=1.0)}
    found = only_data(lambda w: np.sin(w * t), unknown, data)
    assert found.center.values["w"] == pytest.approx(7.3, abs=0.05)


def test_a_value_for_some_parameters_only_is_refused():
    t = np.linspace(0, 3, 40)
    some = {
        "rate": ta.Parameter(bounds=(0.1, 10.0), delivered=1.0),
        "size": ta.Parameter(bounds=(0.1, 10.0)),
    }
    with pytest.raises(
        ta.InputError, match="delivered value for every parameter, got none for size"
    ):
        only_data(lambda rate, size: size * np.exp(-rate * t), some, np.exp(-t), noise=0.1)

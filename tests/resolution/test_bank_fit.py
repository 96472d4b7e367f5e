"""Bank fits against brute force on the same interpolant, and against closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import chi2

import twoaxis as ta

T = np.linspace(0, 2, 30)
BOUNDS = (0.3, 6.0)


def decay(rate):
    return np.exp(-rate * T)


def swing(rate):
    """Oscillates with the parameter, so that chi2 has several minima."""
    return np.sin(3 * rate * T)


def fitted(forward, noise, seed=0, replicas=12, bank=61, **options):
    parameters = {"rate": ta.Parameter(truth=1.7, bounds=BOUNDS)}
    return ta.resolve(
        forward, parameters, noise, replicas=replicas, seed=seed, bank=bank, validate=0, **options
    )


def brute_force(forward, noise, row, bank=61):
    """Minimum and profile set of chi2 on SciPy's own PCHIP, by a dense scan and polishing."""
    knots = np.linspace(*np.log(BOUNDS), bank)
    curve = PchipInterpolator(knots, np.stack([forward(p) for p in np.exp(knots)]))
    data = forward(1.7) + noise * row

    def misfit(q):
        return np.sum((data - curve(q)) ** 2, axis=-1) / noise**2

    dense = np.linspace(knots[0], knots[-1], 20001)
    values = misfit(dense)
    k = int(values.argmin())
    near = (dense[max(k - 1, 0)], dense[min(k + 1, len(dense) - 1)])
    best = minimize_scalar(misfit, bounds=near, method="bounded", options={"xatol": 1e-12})
    limit = best.fun + chi2.ppf(0.95, 1)
    inside = np.flatnonzero(values <= limit)
    ends = []
    for edge, step in ((inside[0], -1), (inside[-1], +1)):
        beyond = edge + step
        if 0 <= beyond < len(dense):
            ends.append(brentq(lambda q: misfit(q) - limit, dense[edge], dense[beyond]))
        else:
            ends.append(dense[edge])
    return np.exp(best.x), best.fun, np.exp(ends)


@pytest.mark.parametrize(("forward", "noise"), [(decay, 0.05), (decay, 0.6), (swing, 0.4)])
def test_fits_equal_a_dense_search_on_the_same_curve(forward, noise):
    found = fitted(forward, noise)
    rows = np.random.default_rng(0).standard_normal((12, len(T)))
    for replica, row in enumerate(rows):
        estimate, lowest, ends = brute_force(forward, noise, row)
        one = found.data.isel(parameter=0, layout=0, replica=replica)
        assert float(one["chi2"]) == pytest.approx(lowest, rel=1e-9)
        assert float(one["estimate"]) == pytest.approx(estimate, rel=1e-6)
        np.testing.assert_allclose([one["set_lower"], one["set_upper"]], ends, rtol=1e-6)


def test_set_covers_the_truth_exactly_when_its_deviance_is_small():
    found = fitted(decay, 0.3, replicas=200).data.isel(parameter=0, layout=0)
    within = (found["set_lower"] <= 1.7) & (found["set_upper"] >= 1.7)
    np.testing.assert_array_equal(within, found["covered"])
    assert 0 < float(found["covered"].mean()) < 1


def test_a_narrow_set_between_two_knots_is_found():
    noise = 1e-4
    found = fitted(decay, noise, bank=21)
    spacing = np.log(BOUNDS[1] / BOUNDS[0]) / 20
    data = found.data.isel(parameter=0, layout=0)
    width = np.log(data["set_upper"] / data["set_lower"])
    assert float(width.max()) < spacing / 10
    # For a nearly quadratic profile the set is two standard errors of 1.96 wide.
    standard_error = float(found.fisher_error_percent[0]) / 100 * np.sqrt(np.pi / 2)
    np.testing.assert_allclose(width, 2 * 1.96 * standard_error, rtol=0.05)


def test_estimates_at_a_bound_are_flagged_and_their_sets_are_open():
    found = fitted(decay, 5.0, replicas=100).data.isel(parameter=0, layout=0)
    at_low = np.isclose(found["estimate"], BOUNDS[0])
    at_high = np.isclose(found["estimate"], BOUNDS[1])
    assert at_low.any()
    assert at_high.any()
    np.testing.assert_array_equal(found["on_bound"], at_low | at_high)
    assert found["set_open_lower"].values[at_low].all()
    assert found["set_open_upper"].values[at_high].all()
    assert np.allclose(found["set_lower"].values[at_low], BOUNDS[0])


@settings(max_examples=30, deadline=None)
@given(slope=st.floats(0.2, 5), seed=st.integers(0, 2**31))
def test_a_model_linear_in_the_coordinate_has_the_closed_form_estimate(slope, seed):
    # PCHIP reproduces a straight line, so q_hat = q + S.z / (S.S) exactly.
    direction = slope * np.cos(np.arange(10.0))
    found = ta.resolve(
        lambda p: direction * np.log(p),
        {"p": ta.Parameter(truth=1.0, bounds=(1e-3, 1e3))},
        noise=0.5,
        replicas=5,
        seed=seed,
        validate=0,
    )
    noise = np.random.default_rng(seed).standard_normal((5, 10))
    sensitivity = direction / 0.5
    closed = noise @ sensitivity / (sensitivity @ sensitivity)
    np.testing.assert_allclose(np.log(found.estimate.values[0]), closed, atol=1e-9)
    np.testing.assert_allclose(np.log(found.data["gauss_newton"].values[0, 0]), closed, atol=1e-9)
    width = 1.959963984540054 / np.linalg.norm(sensitivity)
    np.testing.assert_allclose(np.log(found.data["set_upper"])[0, 0], closed + width, atol=1e-9)


def test_direct_and_bank_estimates_agree():
    by_bank = fitted(decay, 0.1, replicas=30, bank=241)
    direct = fitted(decay, 0.1, replicas=30, method="direct")
    np.testing.assert_allclose(by_bank.estimate, direct.estimate, rtol=2e-5)
    np.testing.assert_array_equal(by_bank.covered, direct.covered)
    np.testing.assert_allclose(
        by_bank.gauss_newton_error_percent, direct.gauss_newton_error_percent, rtol=2e-3
    )


@pytest.mark.parametrize("entries", [5, 9, 21])
@pytest.mark.parametrize("noise", [0.05, 1e-4])
def test_a_bank_that_is_too_coarse_is_refined(entries, noise):
    parameters = {"rate": ta.Parameter(truth=1.7, bounds=BOUNDS)}
    settings = dict(noise=noise, replicas=20, seed=1)
    direct = ta.resolve(swing, parameters, method="direct", **settings)
    found = ta.resolve(swing, parameters, bank=entries, **settings)
    (message,) = [m for m in found.messages if m.code == "resolution.bank_refined"]
    assert message.numbers["asked"] == entries < message.numbers["used"]
    spread = float(direct.estimate.std())
    assert np.abs(found.estimate - direct.estimate).max() < 0.2 * spread
    blind = ta.resolve(swing, parameters, bank=entries, validate=0, **settings)
    assert np.isnan(blind.data.attrs["bank_check_percent"])
    assert np.abs(blind.estimate - direct.estimate).max() > 0.2 * spread


def ripple(size):
    """A model with a ripple that a bank of some hundred entries does not follow."""
    return lambda rate: decay(rate) + size * np.sin(300 * rate)


def test_a_bank_that_no_refinement_makes_good_enough_is_said_aloud_or_refused():
    parameters = {"rate": ta.Parameter(truth=1.7, bounds=BOUNDS)}
    settings = dict(noise=0.01, replicas=20, bank=41)
    with pytest.warns(ta.AccuracyWarning, match="the forward model is not smooth"):
        found = ta.resolve(ripple(2e-4), parameters, **settings)
    (message,) = [m for m in found.messages if m.code == "resolution.bank_inaccurate"]
    assert 0.05 < message.numbers["standard_errors"] < 1
    with pytest.raises(ta.InputError, match=r"standard errors, with [0-9]+ entries"):
        ta.resolve(ripple(0.05), parameters, **settings)


def test_bounds_that_are_far_too_wide_are_refused_or_give_the_same_as_a_direct_fit():
    parameters = {"rate": ta.Parameter(truth=2.0, bounds=(1e-300, 1e300))}
    settings = dict(noise=0.1, replicas=4)
    found = ta.resolve(decay, parameters, **settings)
    direct = ta.resolve(decay, parameters, method="direct", **settings)
    np.testing.assert_allclose(found.estimate, direct.estimate, rtol=0.02)
    with pytest.raises(ta.InputError, match="narrower bounds"):
        ta.resolve(lambda rate: rate**2 * (1 + T), parameters, **settings)


def test_the_fit_to_real_data_is_checked_too():
    """Data that lie far from where the replicas are simulated."""
    parameters = {"rate": ta.Parameter(truth=1.7, bounds=BOUNDS)}
    settings = dict(noise=0.05, replicas=2, seed=1, bank=21)
    data = swing(0.8 * BOUNDS[1]) + 0.05 * np.random.default_rng(3).standard_normal(T.size)
    found = ta.resolve(swing, parameters, data=data, **settings)
    direct = ta.resolve(swing, parameters, data=data, method="direct", **settings)
    given, wanted = (each.data["data_estimate"].item() for each in (found, direct))
    assert abs(given / wanted - 1) < 0.01


def test_noise_below_the_accuracy_of_the_check_is_refused():
    t = np.linspace(0, 1, 30)
    known = {"rate": ta.Parameter(truth=1.0, bounds=(0.3, 3.0))}
    with pytest.raises(ta.InputError, match="standard errors"):
        ta.resolve(lambda rate: np.exp(-rate * t), known, 1e-12, replicas=3, progress=False)
    found = ta.resolve(
        lambda rate: np.exp(-rate * t), known, 1e-12, replicas=3, method="direct", progress=False
    )
    assert found.data["covered"].values.any()

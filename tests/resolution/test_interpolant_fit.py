"""Replicas fitted on an interpolant: exact where it can be, checked and refused where it cannot."""

from math import comb

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.resolution.interpolant_fit import CHECK_ATOL, basis, basis_slopes, exponents

T = np.linspace(0, 3, 60)
CHECKS = ("interpolant_check_standard_errors", "interpolant_check_deviance")


def decay(a, k):
    return a * np.exp(-k * T)


def unknowns(**values):
    return {
        name: ta.Parameter(truth=truth, bounds=bounds) for name, (truth, bounds) in values.items()
    }


DECAY = unknowns(a=(1.0, (0.1, 10.0)), k=(0.7, (0.05, 7.0)))


def resolved(forward, parameters, noise, **options):
    options = {"replicas": 60, "seed": 5, "progress": False, **options}
    return ta.resolve(forward, parameters, noise, **options)


def in_standard_errors(one, other):
    """Largest difference of the estimates of two resolutions."""
    center = one.data["center"]
    moved = 100 * np.abs(one.data["estimate"] - other.data["estimate"]) / np.abs(center)
    return float((moved / one.data["fisher_sd_percent"]).max())


class TestBasis:
    @pytest.mark.parametrize(("dimension", "degree"), [(1, 4), (2, 3), (3, 5), (5, 2), (20, 2)])
    def test_all_products_up_to_the_degree(self, dimension, degree):
        powers = exponents(dimension, degree)
        assert len(powers) == comb(dimension + degree, degree)
        assert len(np.unique(powers, axis=0)) == len(powers)
        assert powers.sum(axis=1).tolist() == sorted(powers.sum(axis=1))

    def test_chebyshev_polynomials_are_cosines(self):
        x = np.random.default_rng(0).uniform(-1, 1, (20, 2))
        powers = exponents(2, 4)
        expected = np.prod(np.cos(powers * np.arccos(x)[:, None]), axis=-1)
        np.testing.assert_allclose(basis(x, powers), expected, atol=1e-13)

    def test_slopes(self):
        x = np.random.default_rng(1).uniform(-1, 1, (7, 3))
        powers = exponents(3, 4)
        found = basis_slopes(x, powers)
        for j in range(3):
            step = 1e-6 * (np.arange(3) == j)
            centered = (basis(x + step, powers) - basis(x - step, powers)) / 2e-6
            np.testing.assert_allclose(found[..., j], centered, atol=1e-7)


class TestALinearModel:
    SLOPES = np.column_stack([np.ones(60), T]) / 0.3

    @pytest.fixture(scope="class")
    @classmethod
    def found(cls):
        linear = {n: ta.Parameter(truth=1.0, bounds=(-9, 9), coordinate="linear") for n in "ab"}
        return resolved(lambda a, b: a + b * T, linear, 0.3)

    def moved(self):
        draws = np.random.default_rng(5).standard_normal((60, 60))
        return np.linalg.lstsq(self.SLOPES, draws.T)[0]

    def test_the_interpolant_is_exact(self, found):
        closed = 1.0 + self.moved()
        np.testing.assert_allclose(found.data["estimate"].values[:, 0], closed, atol=1e-6)
        assert found.data.attrs["method"] == "interpolant"
        assert found.data.attrs["interpolant_error"] < 1e-9
        assert all(found.data.attrs[name] < 1e-4 for name in CHECKS)

    def test_the_profile_deviance_is_quadratic(self, found):
        covariance = np.linalg.inv(self.SLOPES.T @ self.SLOPES)
        moved = self.moved()
        expected = moved**2 / np.diag(covariance)[:, None]
        np.testing.assert_allclose(found.data["deviance"].values[:, 0], expected, atol=1e-6)
        joint = np.einsum("jr,jk,kr->r", moved, np.linalg.inv(covariance), moved)
        np.testing.assert_allclose(found.data["joint_deviance"].values[0], joint, atol=1e-6)

    def test_few_model_runs(self, found):
        # Starting points 128, noise-free fit, derivatives, six points, three checks.
        assert found.data.attrs["model_runs"] < 300


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.2])
def test_a_nonlinear_model_agrees_with_direct_fits(noise):
    found = resolved(decay, DECAY, noise)
    direct = resolved(decay, DECAY, noise, method="direct")
    assert found.data.attrs["method"] == "interpolant"
    assert in_standard_errors(found, direct) < 0.01
    for name in ("deviance", "joint_deviance"):
        np.testing.assert_allclose(found.data[name], direct.data[name], atol=0.01)
    np.testing.assert_array_equal(
        found.data["noiseless_estimate"], direct.data["noiseless_estimate"]
    )
    assert found.data.attrs["model_runs"] < direct.data.attrs["model_runs"] / 5
    for name in CHECKS:
        assert 0 <= found.data.attrs[name] <= CHECK_ATOL
        assert np.isnan(direct.data.attrs[name])


def test_estimates_at_a_bound():
    parameters = {
        "a": ta.Parameter(truth=1.0, bounds=(0.99, 1.3), coordinate="linear"),
        "b": ta.Parameter(truth=1.0, bounds=(0.0, 1.05), coordinate="linear"),
    }
    calls = []

    def straight(a, b):
        calls.append((a, b))
        return a * T + b

    found = resolved(straight, parameters, 0.2)
    direct = resolved(straight, parameters, 0.2, method="direct")
    assert found.data.attrs["method"] == "interpolant"
    np.testing.assert_array_equal(found.data["on_bound"], direct.data["on_bound"])
    assert found.data["on_bound"].values.sum() > 5
    np.testing.assert_allclose(found.estimate, direct.estimate, atol=1e-5)
    low, high = np.array([p.bounds for p in parameters.values()]).T
    assert (np.array(calls) >= low).all()
    assert (np.array(calls) <= high).all()


def test_a_region_that_many_replicas_leave_is_widened_and_the_rest_is_fitted_directly():
    parameters = unknowns(w=(5.0, (1.0, 20.0)), a=(1.0, (0.05, 10.0)))

    def wave(w, a):
        return a * np.sin(w * T)

    found = resolved(wave, parameters, 1.5, replicas=100, seed=0)
    direct = resolved(wave, parameters, 1.5, replicas=100, seed=0, method="direct")
    (message,) = [m for m in found.messages if m.code == "resolution.fitted_directly"]
    assert 0 < message.numbers["count"] < 50
    assert in_standard_errors(found, direct) < 0.01
    assert (found.data["chi2"] <= direct.data["chi2"] + 0.01).all()


def refusal(found):
    (message,) = [m for m in found.messages if m.code == "resolution.interpolant_refused"]
    return message


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        (lambda a, b: np.abs(a - 1) * T + b * T**2 + 0.5 * a, "noise levels"),
        (lambda a, b: a * T + b if b < 1.02 else np.full(60, np.nan), "failed inside"),
        # The data do not tell a from -a, up to a little.
        (lambda a, b: np.r_[np.full(30, a * a + 0.01 * a), np.full(30, b)], "leave its region"),
    ],
    ids=["a kink", "a failure", "two minima"],
)
def test_where_no_interpolant_is_good_enough_all_are_fitted_directly(forward, reason):
    parameters = {
        name: ta.Parameter(truth=1.0, bounds=(-3.0, 3.0), coordinate="linear") for name in "ab"
    }
    found = resolved(forward, parameters, 0.2, replicas=25)
    direct = resolved(forward, parameters, 0.2, replicas=25, method="direct")
    assert reason in refusal(found).text
    assert found.data.attrs["method"] == "direct"
    for name in ("estimate", "deviance", "chi2"):
        np.testing.assert_array_equal(found.data[name], direct.data[name])


def test_many_parameters_with_few_model_runs():
    """A linear model of twelve parameters: 13 coefficients, verified at 78 points."""
    waves = np.cos(np.arange(12)[:, None] * T)
    many = {
        f"c{i}": ta.Parameter(truth=1.0, bounds=(-9, 9), coordinate="linear") for i in range(12)
    }
    found = resolved(lambda **c: np.array(list(c.values())) @ waves, many, 0.1)
    assert found.data.attrs["method"] == "interpolant"
    closed = (
        1.0
        + 0.1 * np.linalg.lstsq(waves.T, np.random.default_rng(5).standard_normal((60, 60)).T)[0]
    )
    np.testing.assert_allclose(found.data["estimate"].values[:, 0], closed, atol=1e-5)


def test_another_model_for_the_fit_and_several_layouts():
    options = dict(
        layouts={"all": np.arange(60), "few": np.arange(0, 60, 3)},
        fit_forward=lambda a, k: 1.01 * decay(a, k),
    )
    found = resolved(decay, DECAY, 0.02, **options)
    direct = resolved(decay, DECAY, 0.02, method="direct", **options)
    assert found.data.attrs["method"] == "interpolant"
    assert in_standard_errors(found, direct) < 0.01
    bias = found.noiseless_bias_percent.sel(parameter="a")
    np.testing.assert_allclose(bias, 100 / 1.01 - 100, rtol=1e-3)


class TestChoice:
    def test_auto_takes_it_for_several_parameters_and_many_replicas(self):
        assert resolved(decay, DECAY, 0.05).data.attrs["method"] == "interpolant"
        assert resolved(decay, DECAY, 0.05, replicas=5).data.attrs["method"] == "direct"

    def test_a_vectorized_model_stays_direct_unless_asked(self):
        def batched(a, k):
            return a[:, None] * np.exp(-k[:, None] * T)

        plain = resolved(batched, DECAY, 0.05, vectorized=True)
        asked = resolved(batched, DECAY, 0.05, vectorized=True, method="interpolant")
        assert plain.data.attrs["method"] == "direct"
        assert asked.data.attrs["method"] == "interpolant"
        assert in_standard_errors(plain, asked) < 0.01

    def test_it_works_for_one_parameter_too(self):
        rate = {"k": DECAY["k"]}
        found = resolved(lambda k: decay(1.0, k), rate, 0.05, method="interpolant")
        bank = resolved(lambda k: decay(1.0, k), rate, 0.05)
        assert found.data.attrs["method"] == "interpolant"
        assert bank.data.attrs["method"] == "bank"
        assert in_standard_errors(found, bank) < 0.02

    def test_without_a_check_its_differences_are_not_known(self):
        found = resolved(decay, DECAY, 0.05, validate=0)
        assert all(np.isnan(found.data.attrs[name]) for name in CHECKS)
        assert 0 < found.data.attrs["interpolant_error"] < 0.002


def test_model_runs_are_counted(tmp_path):
    calls = []

    def counted(a, k):
        calls.append((a, k))
        return decay(a, k)

    found = resolved(counted, DECAY, 0.05)
    assert found.data.attrs["model_runs"] == len(calls)
    assert found.model_runs == len(calls)
    assert ta.load(found.save(tmp_path / "found.nc")).model_runs == len(calls)

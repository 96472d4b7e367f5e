"""Axis 1 of Observations: the same as of arrays with their noise, and what arrays cannot say."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import twoaxis as ta

T = np.linspace(0.0, 2.0, 40)
PARAMETERS = {"k": ta.Parameter(bounds=(0.3, 3.0), delivered=1.0)}
GENERATOR = np.random.default_rng(0)
NOISE = 0.02 * GENERATOR.standard_normal(40)
QUICK = dict(replicas=5, progress=False)


def decay(k):
    return np.exp(-k * T)


def states(k):
    return np.column_stack([np.exp(-k * T), 1 - np.exp(-k * T), 3 + 0 * T])


def fit(data, forward=decay, **options):
    return ta.resolve(forward, PARAMETERS, data=data, **QUICK, **options)


def estimate(found):
    return float(found.data["data_estimate"].values.item())


def gaps(values):
    values = np.array(values)
    values[[3, 17]] = np.nan
    return values


VALUES = decay(1.2) + NOISE
SMOOTH = 0.02**2 * (np.exp(-np.abs(T[:, None] - T) / 0.1) + 0.5 * np.eye(40))


@pytest.mark.parametrize("noise", [0.02, np.linspace(0.01, 0.03, 40), SMOOTH, None])
def test_observations_are_fitted_like_arrays(noise):
    found = fit(ta.Observations(gaps(VALUES), at=T, noise=noise))
    plain = fit(gaps(VALUES), noise=noise, points=T[:, None], missing="drop")
    assert found.data.drop_attrs().equals(plain.data.drop_attrs())
    (message,) = [each for each in found.messages if each.code == "data.dropped"]
    assert message.numbers == {"count": 2.0, "total": 40.0}


def test_noise_and_places_are_given_once():
    for name, value in {"noise": 0.02, "points": T[:, None]}.items():
        with pytest.raises(ta.InputError, match="in one place"):
            fit(ta.Observations(VALUES, at=T, noise=0.02), **{name: value})


@pytest.mark.filterwarnings("ignore::twoaxis.MisfitWarning")
def test_outputs_that_were_observed_are_selected():
    found = fit(ta.Observations(1 - VALUES, noise=0.02, of=1), states)
    assert_allclose(estimate(found), estimate(fit(VALUES, noise=0.02)), rtol=1e-6)
    both = ta.Observations(np.column_stack([1 - VALUES, VALUES]), noise=0.02, of=(1, 0))
    assert_allclose(estimate(fit(both, states)), estimate(found), rtol=1e-6)


def test_noise_of_the_logarithm_is_that_of_a_line():
    values = decay(1.2) * np.exp(NOISE)
    found = fit(ta.Observations(values, noise=0.02, transform="log"))
    slope = -np.log(values) @ T / (T @ T)
    assert_allclose(estimate(found), slope, rtol=1e-6)
    error = 100 * 0.02 / np.sqrt(T @ T)
    assert_allclose(found.fisher_error_percent[0], np.sqrt(2 / np.pi) * error, rtol=1e-3)


def test_unknown_noise_has_a_size_for_each_sensor():
    size = np.where(np.arange(40) % 2, 0.002, 0.05)
    values = decay(1.2) + size / 0.02 * NOISE
    odd = np.arange(40) % 2
    found = fit(ta.Observations(values, sensors=np.array(["coarse", "fine"])[odd]))
    levels = found.live.noise.array
    assert_allclose(levels / size, 1.0, atol=0.35)
    assert found.live.noise.freedom == 39
    declared = fit(values, noise=levels)
    assert_allclose(estimate(found), estimate(declared), rtol=1e-9)
    rest = values - decay(estimate(found))
    expected = np.sqrt(np.mean(rest[odd == 0] ** 2) / (1 - 1 / 40))
    assert_allclose(levels[0], expected, rtol=1e-3)


def test_values_that_forward_does_not_return_are_refused():
    with pytest.raises(ta.InputError, match="in the shape") as error:
        fit(ta.Observations(VALUES[:30], noise=0.02))
    assert "NaN" in error.value.fix
    padded = np.concatenate([VALUES[:30], np.full(10, np.nan)])
    assert 0.3 < estimate(fit(ta.Observations(padded, noise=0.02))) < 3
    with pytest.raises(ta.InputError, match="mapping to Observations"):
        fit({"a": ta.Observations(VALUES, noise=0.02)})


@pytest.mark.filterwarnings("ignore::twoaxis.MisfitWarning")
def test_several_outputs_and_their_places_as_one_row_of_predictions():
    both = np.column_stack([gaps(VALUES), 1 - VALUES])
    data = ta.Observations(both, at=T, noise=[0.02, 0.03])
    table = fit(data, lambda k: states(k)[:, :2])
    row = fit(data, lambda k: states(k)[:, :2].ravel())
    assert estimate(table) == estimate(row)
    assert np.array_equal(table.live.setup.points, row.live.setup.points)
    with pytest.raises(ta.InputError, match="in the shape"):
        fit(data, lambda k: states(k)[:, :2].T)


def test_observations_of_a_built_in_problem():
    dataset = ta.published_dataset("allen-cahn", 8)
    data = ta.Observations(dataset.values, dataset.coordinates, dataset.noise_scale)
    found = ta.resolve("allen-cahn", layouts=[8], data=data, **QUICK)
    plain = ta.resolve("allen-cahn", layouts=[8], data=dataset.values, **QUICK)
    assert estimate(found) == estimate(plain)
    unknown = ta.Observations(dataset.values, dataset.coordinates)
    noise = ta.resolve("allen-cahn", layouts=[8], data=unknown, **QUICK).live.noise
    assert_allclose(noise.array[0], dataset.noise_scale, rtol=0.2)

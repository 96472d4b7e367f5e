"""A resolution of many observations takes memory in proportion to them."""

import sys
import tracemalloc

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.resolution import bank_fit

KNOWN = {"rate": ta.Parameter(truth=1.0, delivered=1.05, bounds=(0.3, 3.0))}


def decay(count):
    t = np.linspace(0, 1, count)
    return lambda rate: np.exp(-rate * t)


@pytest.fixture
def small_banks(monkeypatch):
    """Let a bank take so little memory that a thousand observations are many."""
    # The package has a function of the same name as the module.
    monkeypatch.setattr(sys.modules["twoaxis.resolution.resolve"], "BANK_BYTES", 2**20)


def test_portions_change_nothing(monkeypatch):
    arguments = {"noise": 0.1, "replicas": 5, "data": decay(400)(1.02), "progress": False}
    whole = ta.resolve(decay(400), KNOWN, **arguments)
    monkeypatch.setattr(bank_fit, "OBSERVATIONS_AT_ONCE", 7)
    parts = ta.resolve(decay(400), KNOWN, **arguments)
    np.testing.assert_allclose(parts.data["estimate"], whole.data["estimate"], rtol=1e-9)


@pytest.mark.usefixtures("small_banks")
def test_many_observations_are_fitted_on_an_interpolant():
    model = decay(1000)
    data = model(1.02) + 0.1 * np.random.default_rng(0).standard_normal(1000)
    found = ta.resolve(model, KNOWN, 0.1, data=data, replicas=20, progress=False)
    assert found.data.attrs["method"] == "interpolant"
    exact = ta.resolve(model, KNOWN, 0.1, data=data, replicas=20, method="direct", progress=False)
    np.testing.assert_allclose(found.data["estimate"], exact.data["estimate"], rtol=1e-4)


@pytest.mark.usefixtures("small_banks")
def test_a_bank_that_does_not_fit_is_refused():
    with pytest.raises(ta.InputError, match="bank"):
        ta.resolve(decay(1000), KNOWN, 0.1, method="bank", progress=False)


def peak_of(count, noise):
    model = decay(count)
    data = model(1.0) + 0.1 * np.random.default_rng(0).standard_normal(count)
    tracemalloc.start()
    ta.resolve(model, KNOWN, noise, data=data, replicas=20, progress=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.long
@pytest.mark.parametrize("noise", [0.1, None])
def test_memory_is_linear(noise):
    few, many = (peak_of(count, noise) for count in (150_000, 300_000))
    assert many < 2.2 * few
    # Of replicas, their noise and the 64 starting points there are about a hundred vectors.
    assert many < 250 * 8 * 300_000

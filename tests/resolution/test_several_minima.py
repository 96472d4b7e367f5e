"""Likelihoods with several minima: the lowest is found, and separate intervals are told."""

import numpy as np
import pytest
from scipy.optimize import least_squares

import twoaxis as ta
from twoaxis.statistics import squares_limit

pytestmark = pytest.mark.filterwarnings("ignore::twoaxis.MisfitWarning")

TIMES = np.linspace(0, 10, 60)
NOISE = 1.5
BOUNDS = {"a": (0.2, 3.0), "w": (0.5, 8.0), "p": (-3.2, 3.2)}


def wave(a, w, p):
    return a[:, None] * np.sin(w[:, None] * TIMES + p[:, None])


def chi2(values, data):
    a, w, p = values
    return float(np.sum(((data - a * np.sin(w * TIMES + p)) / NOISE) ** 2))


def lowest(data):
    """The lowest minimum of all frequencies, amplitude and phase solved for at each."""
    low, high = np.array(list(BOUNDS.values())).T
    found = []
    for w in np.linspace(low[1], high[1], 40):
        columns = np.column_stack([np.sin(w * TIMES), np.cos(w * TIMES)])
        sine, cosine = np.linalg.lstsq(columns, data, rcond=None)[0]
        start = [np.hypot(sine, cosine), w, np.arctan2(cosine, sine)]
        fit = least_squares(
            lambda v: (data - v[0] * np.sin(v[1] * TIMES + v[2])) / NOISE,
            np.clip(start, low + 1e-6, high - 1e-6),
            bounds=(low, high),
        )
        found.append(2 * fit.cost)
    return min(found)


@pytest.mark.parametrize("seed", [22, 29, 53, 56])
def test_the_fit_to_data_is_not_the_minimum_next_to_the_delivered_value(seed):
    generator = np.random.default_rng(seed)
    data = np.sin(3 * TIMES + 0.5) + NOISE * generator.standard_normal(60)
    delivered = {"a": 0.8, "w": 3.0 * (1 + 0.1 * generator.standard_normal()), "p": 0.4}
    unknown = {
        name: ta.Parameter(
            bounds=ends, delivered=delivered[name], coordinate="linear" if name == "p" else "log"
        )
        for name, ends in BOUNDS.items()
    }
    found = ta.resolve(wave, unknown, NOISE, data=data, replicas=5, vectorized=True, progress=False)
    estimate = found.data["data_estimate"].values.ravel()
    assert chi2(estimate, data) < lowest(data) + 1e-3
    (told,) = [m for m in found.messages if m.code == "resolution.data_minima"]
    assert told.numbers["starts"] >= 12
    assert told.numbers["higher"] > 1e-3


def frequency(w):
    return np.sin(w * TIMES)


def noisy(seed):
    return np.sin(3 * TIMES) + NOISE * np.random.default_rng(seed).standard_normal(60)


W = ta.Parameter(bounds=BOUNDS["w"], delivered=3.0)


@pytest.mark.parametrize("method", ["bank", "direct"])
@pytest.mark.parametrize("seed", [3, 22, 56])
def test_separate_intervals_of_one_parameter(method, seed):
    data = noisy(seed)
    found = ta.resolve(
        frequency, {"w": W}, NOISE, data=data, replicas=5, method=method, progress=False
    )
    grid = np.linspace(*BOUNDS["w"], 40_001)
    values = np.sum(((data - np.sin(grid[:, None] * TIMES)) / NOISE) ** 2, axis=1)
    inside = values <= values.min() + squares_limit(0.95)
    expected = grid[1:][inside[1:] != inside[:-1]]
    told = [m for m in found.messages if m.code == "resolution.separate_intervals"]
    if len(expected) == 2:
        assert not told
        return
    (numbers,) = [m.numbers for m in told]
    assert numbers.pop("intervals") == len(expected) / 2 == 3
    assert list(numbers.values()) == pytest.approx(expected, abs=1e-3)
    assert numbers["lower 1"] == found.data["data_set_lower"]
    assert numbers["upper 3"] == found.data["data_set_upper"]


def test_separate_intervals_of_one_of_several_parameters():
    data = noisy(22)
    unknown = {"w": W, "a": ta.Parameter(bounds=BOUNDS["a"], delivered=1.0)}
    found = ta.resolve(
        lambda w, a: a * np.sin(w * TIMES), unknown, NOISE, data=data, replicas=5, progress=False
    )
    (told,) = [m for m in found.messages if m.code == "resolution.separate_intervals"]
    count = int(told.numbers["intervals"])
    ends = [told.numbers[f"{side} {k}"] for k in range(1, count + 1) for side in ("lower", "upper")]
    assert count == 3
    assert ends == sorted(ends)
    observed = found.live.observed(data, None)
    deviance = found.live.profile(observed, "w", ends)
    assert deviance == pytest.approx(np.full(6, squares_limit(0.95)), abs=0.01)
    middle = [(ends[1] + ends[2]) / 2, (ends[3] + ends[4]) / 2]
    assert (found.live.profile(observed, "w", middle) > squares_limit(0.95)).all()


def test_an_audit_of_other_data_tells_their_intervals():
    resolution = ta.resolve(frequency, {"w": W}, NOISE, replicas=5, progress=False)
    frozen = ta.FrozenResidual(
        lambda w: (w - 3.0) * TIMES, {"w": W}, TIMES, view=ta.views.Pointwise()
    )
    tolerance = ta.Tolerance(material=50.0, resolution=50.0, preference=50.0)
    found = ta.audit(frozen, data=noisy(22), resolution=resolution, tolerance=tolerance)
    (told,) = [m for m in found.messages if m.code == "resolution.separate_intervals"]
    matched = found.group("/matched").sel(parameter="w")
    assert (matched["lower"], matched["upper"]) == (
        told.numbers["lower 1"],
        told.numbers["upper 3"],
    )
    assert "(95% 0.95 to 1.11 or 1.708 to 1.778 or 3.01 to 3.16 by the matched fit)" in found.answer
    # Within the outermost ends, and in none of the intervals.
    assert "outside those intervals" in found.answer
    assert len([line for line in str(found).splitlines() if line.startswith("    or  ")]) == 2

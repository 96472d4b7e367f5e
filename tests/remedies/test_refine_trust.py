"""Is a trusted refinement right? Other minima, wrong equations, correlated and unknown noise."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import twoaxis as ta
from twoaxis.gauss_newton import Continuation

torch = pytest.importorskip("torch")


def slope(u, t):
    return torch.autograd.grad(u.sum(), t, create_graph=True)[0]


def oscillator(model, t, w):
    u = model(t)
    return slope(slope(u, t), t) + w**2 * u


def decay(model, t, rate):
    u = model(t)
    return slope(u, t) + rate * u


def logistic(model, t, rate):
    u = model(t)
    return slope(u, t) - rate * u * (1 - u)


def with_square(model, t, rate):
    u = model(t)
    return slope(u, t) - rate * u * (1 - u**2)


def refined(equation, parameters, times, data, noise=None, **options):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(1, 12), torch.nn.Tanh(), torch.nn.Linear(12, 12), torch.nn.Tanh()]
    frozen = ta.from_torch(
        torch.nn.Sequential(*layers, torch.nn.Linear(12, 1)).double(),
        equation,
        parameters,
        points=np.linspace(0, times[-1], 90)[:, None],
        observed=times[:, None],
        **options,
    )
    return ta.refine(frozen, data, noise=noise, progress=False)


def warned(found):
    return [m.code for m in found.messages if m.severity == "warning"]


TIMES = np.linspace(0, 3, 30)
WAVE = np.sin(3 * TIMES) + 0.3 * np.random.default_rng(0).standard_normal(30)


def misfit_of(frequency):
    """The sum of squares that an oscillation with this frequency leaves of the data."""
    basis = np.stack([np.sin(frequency * TIMES), np.cos(frequency * TIMES)], axis=1)
    return float(np.linalg.lstsq(basis, WAVE, rcond=None)[1][0])


@pytest.mark.parametrize("noise", [None, 0.3])
def test_a_start_in_another_basin_ends_in_the_global_minimum(noise):
    parameters = {"w": ta.Parameter(delivered=1.2, bounds=(0.3, 12.0))}
    found = refined(oscillator, parameters, TIMES, WAVE, noise)
    frequencies = np.linspace(0.3, 12, 4000)
    best = frequencies[np.argmin([misfit_of(w) for w in frequencies])]
    assert abs(found.values["w"] - best) < 0.2 * found.standard_error["w"]
    assert found.trusted
    if noise is None:  # it is that of the reported minimum, whatever the others leave
        rest = found.data["fitted"] - found.data["observed_value"]
        level = np.sqrt((rest**2).sum() / found.data.attrs["noise_freedom"])
        assert_allclose(found.data["noise_level"], float(level), rtol=0.01)


@pytest.mark.parametrize("start", [0.4, 0.6, 6.0, 11.0])
def test_every_start_ends_in_the_global_minimum(start):
    parameters = {"w": ta.Parameter(delivered=start, bounds=(0.3, 12.0))}
    found = refined(oscillator, parameters, TIMES, WAVE, 0.3)
    assert_allclose(found.values["w"], 3.05, atol=0.1)
    assert found.trusted


def test_a_minimum_that_is_as_good_is_named_and_not_trusted():
    parameters = {"w": ta.Parameter(delivered=2.6, bounds=(-6.0, 6.0), coordinate="linear")}
    found = refined(oscillator, parameters, TIMES, WAVE, 0.3)
    assert_allclose(found.values["w"], 3.05, atol=0.1)
    (other,) = (m for m in found.messages if m.code == "refine.other_minimum")
    assert abs(other.numbers["deviance"]) < 0.5
    assert not found.trusted


GROWTH = np.linspace(0, 6, 40)
LOGISTIC = 1 / (1 + 9 * np.exp(-1.5 * GROWTH))
RATE = {"rate": ta.Parameter(delivered=1.0, bounds=(0.1, 20.0))}


@pytest.fixture(scope="module")
def wrong_equation():
    data = LOGISTIC + 0.01 * np.random.default_rng(1).standard_normal(40)
    return refined(with_square, RATE, GROWTH, data)


def test_a_wrong_equation_is_seen_without_a_noise_level(wrong_equation):
    assert "refine.misfit_whiteness" in warned(wrong_equation)
    assert not wrong_equation.trusted


def test_an_audit_judges_nothing_by_a_refinement_that_is_not_trusted(wrong_equation):
    audit = ta.audit(wrong_equation, field="before", progress=False)
    answers = {q.code: q for q in audit.questions}
    assert answers["model"].route is ta.Route.MODEL_DOES_NOT_FIT
    assert answers["contradiction"].answer == "not known"
    assert audit.route is ta.Route.MODEL_DOES_NOT_FIT


def test_correlated_noise_is_not_trusted():
    noise = np.random.default_rng(2).standard_normal(40)
    for k in range(1, 40):
        noise[k] = 0.9 * noise[k - 1] + np.sqrt(1 - 0.81) * noise[k]
    found = refined(logistic, RATE, GROWTH, LOGISTIC + 0.03 * noise)
    assert "refine.misfit_whiteness" in warned(found)


def test_data_that_determine_nothing_are_said_to():
    noise = np.random.default_rng(4).standard_normal(40)
    found = refined(decay, RATE, GROWTH, noise, 1.0)
    low, high = found.interval["rate"]
    assert 0.1 <= low < high <= 20.0
    assert "refine.not_determined" in warned(found)


FEW = np.linspace(0, 2, 8)


@pytest.fixture(scope="module")
def of_unknown_noise():
    data = 1.5 * np.exp(-0.7 * FEW) + 0.05 * np.random.default_rng(5).standard_normal(8)
    start = lambda model: model(torch.zeros(1, 1, dtype=torch.float64)) - 1.5  # noqa: E731
    return refined(decay, RATE, FEW, data, conditions=start)


def test_an_interval_of_unknown_noise_is_that_of_students_t(of_unknown_noise):
    found = of_unknown_noise
    value, (low, high) = found.values["rate"], found.interval["rate"]
    spread = found.standard_error["rate"] / value  # of the logarithm
    assert_allclose(found.data.attrs["noise_freedom"], 7, atol=0.02)
    reach = stats.t(found.data.attrs["noise_freedom"]).ppf(0.975) * spread
    assert_allclose([low, high], value * np.exp([-reach, reach]), rtol=1e-9)


def test_resolution_and_audit_know_that_the_noise_was_estimated(of_unknown_noise):
    resolution = ta.resolve(of_unknown_noise, replicas=5, progress=False)
    assert resolution.data.attrs["noise"] == "estimated from the refined field"
    audit = ta.audit(of_unknown_noise, field="before", progress=False)
    again = audit.group("/resimulation")
    freedom = float(again.attrs["noise_freedom"])
    assert_allclose(freedom, 7, atol=0.02)
    assert "size" not in audit.group("/checks")["check"].values
    deviance = float(again["deviance"].sel(value_of="delivered"))
    expected = stats.f(1, freedom).sf(deviance)
    assert_allclose(float(again["p_value"].sel(value_of="delivered")), expected, rtol=1e-9)


def test_the_size_of_the_network_does_not_matter():
    """Not even where a matrix of all its weights would not fit into memory."""
    found = []
    for width, depth in ((16, 2), (100, 5)):
        torch.manual_seed(0)
        sizes = [1, *depth * [width], 1]
        layers = [
            part
            for inner, outer in pairwise(sizes)
            for part in (torch.nn.Linear(inner, outer), torch.nn.Tanh())
        ]
        subject = ta.from_torch(
            torch.nn.Sequential(*layers[:-1]).double(),
            decay,
            RATE,
            points=np.linspace(0, 2, 50)[:, None],
            observed=FEW[:, None],
        )
        found.append(ta.refine(subject, np.exp(-FEW), noise=0.01, progress=False))
    small, large = found
    assert_allclose(large.values["rate"], small.values["rate"], rtol=1e-4)
    assert_allclose(large.standard_error["rate"], small.standard_error["rate"], rtol=1e-3)
    with pytest.raises(ta.InputError, match="at most 10,000 weights"):
        ta.refine(subject, np.exp(-FEW), continuation=Continuation(), progress=False)


def test_too_few_residual_points_are_said_before_the_work_begins():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(2, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1)]
    points = np.random.default_rng(0).random((10, 2))
    frozen = ta.from_torch(
        torch.nn.Sequential(*layers).double(),
        lambda model, x, k: slope(model(x), x) @ torch.tensor([[1.0], [0.0]]).double() + k,
        {"k": ta.Parameter(delivered=1.0, bounds=(0.1, 10.0))},
        points=points,
        observed=points,
    )
    with pytest.warns(ta.AccuracyWarning, match="10 numbers for 25 weights"):
        found = ta.refine(
            frozen, -1.5 * points[:, 0], noise=0.1, continuation=Continuation(), progress=False
        )
    assert "refine.few_points" in warned(found)

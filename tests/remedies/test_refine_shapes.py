"""Refinements of arrays and functions serve as forward models, as those of numbers do."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import twoaxis as ta

torch = pytest.importorskip("torch")

TIMES = np.linspace(0, 4, 40)
NOISE, FIRST = 0.02, 1.5
TOLERANCE = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)


def rate_of_array(a, t):
    return a[0] + a[1] * t


def rate_of_function(k, t):
    return k(t)


# The integral of a rate that is 0.7 - 0.1 t, which both can write.
DATA = FIRST * np.exp(-0.7 * TIMES + 0.05 * TIMES**2)
DATA = DATA + NOISE * np.random.default_rng(3).standard_normal(40)
CASES = {
    "array": (
        "a",
        ta.ParameterArray(delivered=[0.6, -0.08], bounds=(-2, 2), coordinate="linear"),
        rate_of_array,
    ),
    "function": (
        "k",
        ta.UnknownFunction(nodes=[0, 4], bounds=(0.05, 5), delivered=[0.6, 0.4], argument="t"),
        rate_of_function,
    ),
}


def refine(name, unknown, rate):
    """Fit the initial value by a condition, and the rate with the field."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8), torch.nn.Tanh()]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(8, 1)).double()

    def equation(model, t, **parameters):
        u = model(t)
        (slope,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        return slope + rate(parameters[name], t) * u

    frozen = ta.from_torch(
        net,
        equation,
        {name: unknown},
        points=np.linspace(0, 4, 60)[:, None],
        observed=TIMES[:, None],
        conditions=lambda model: model(torch.zeros(1, 1, dtype=torch.float64)) - FIRST,
    )
    return ta.refine(frozen, DATA, noise=NOISE, progress=False)


@pytest.fixture(scope="module", params=CASES)
def refined(request):
    return refine(*CASES[request.param])


def coordinate_errors(refined):
    return np.sqrt(np.diag(refined.data["covariance"].values))


def in_coordinates(refined, values):
    return refined.parameters.coordinates(values)


def test_its_forward_model_takes_values_by_argument_and_by_parameter(refined):
    known = refined.parameters
    center = in_coordinates(refined, refined.values)
    q = center + np.array([[0.0], [0.1]]) * np.ones(len(known))
    physical = dict(zip(known, known.physical(q).T, strict=True))
    expected = refined.data["fitted"].values + (q - center) @ refined.data["sensitivity"].values.T
    assert_allclose(refined.forward(**known.arguments(physical)), expected, rtol=1e-12)
    assert_allclose(refined.forward(**physical), expected, rtol=1e-12)


def test_axis_1_has_the_standard_errors_of_the_refinement(refined):
    found = ta.resolve(refined, replicas=30, seed=1, progress=False)
    assert found.parameters.argument_names == refined.parameters.argument_names
    predicted = np.linalg.inv(found.data["fisher_information"].values[0])
    # The network leaves next to nothing of what the equation allows beyond the parameters.
    assert_allclose(np.sqrt(np.diag(predicted)), coordinate_errors(refined), rtol=0.05)


def test_an_audit_without_a_solver_fits_the_data_where_the_refinement_does(refined):
    audit = ta.audit(refined, tolerance=TOLERANCE, replicas=30, progress=False)
    assert audit.names == list(refined.parameters)
    matched = audit.group("/matched")
    estimate = refined.parameters.named(matched["estimate"].values)
    away = in_coordinates(refined, estimate) - in_coordinates(refined, refined.values)
    assert (np.abs(away) < 0.1 * coordinate_errors(refined)).all()


def test_sites_from_it_know_what_the_present_observations_know(refined):
    grid = np.linspace(0, 4, 21)[:, None]
    found = ta.suggest_sites(refined, points=grid, count=5, progress=False)
    # The mean of |z| is sqrt(2 / pi) standard errors.
    units = found.parameters.percent_units(refined.values)
    expected = 100 * np.sqrt(2 / np.pi) * coordinate_errors(refined) / units
    before = found.data["predicted_error_percent"].sel(observations=len(TIMES))
    assert_allclose(before.squeeze(), expected, rtol=0.05)


def test_an_array_of_other_values_takes_the_place_of_the_refined_one(refined):
    (name,) = refined.parameters.argument_names
    at = {one: p.delivered for one, p in refined.parameters.items()}
    unknown = next(unknown for own, unknown, _ in CASES.values() if own == name)
    grid = np.linspace(0, 4, 21)[:, None]
    found = ta.suggest_sites(refined, {name: unknown}, points=grid, count=5, progress=False)
    assert found.data["value"].values.tolist() == [list(at.values())]

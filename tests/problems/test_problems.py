"""Every problem: one definition for NumPy, JAX and PyTorch, and the values of the paper."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from twoaxis.errors import InputError
from twoaxis.parameters import Parameter
from twoaxis.problems import (
    ALLEN_CAHN,
    BUCKLEY_LEVERETT,
    BURGERS,
    DARCY,
    PROBLEMS,
    SCALAR_BENCHMARKS,
    get_problem,
    truth_of,
)
from twoaxis.problems.buckley_leverett import flux, flux_slope

EVERY_PROBLEM = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)

# Truth, start and bounds of each parameter, and the domain. The paper gives no start for Darcy.
PUBLISHED = {
    "burgers": ({"nu": (0.01, 0.02, (0.002, 0.05))}, {"x": (-1, 1), "t": (0, 1)}),
    "buckley-leverett": ({"M": (2, 1, (0.5, 4))}, {"x": (0, 1), "t": (0, 0.5)}),
    "allen-cahn": ({"lam": (5, 2, (1, 10))}, {"x": (-1, 1), "t": (0, 1)}),
    "darcy": (
        {"lambda_0": (0.15, None, (-1.5, 1.5)), "lambda_1": (0.85, None, (-1, 2.5))},
        {"x": (0, 1), "y": (0, 1)},
    ),
}


def keywords(problem, dtype=np.float64):
    """Return all that the residual takes, as NumPy arrays, at 50 random points."""
    rng = np.random.default_rng(5)
    low, high = np.array(list(problem.domain.values())).T
    values = {name: rng.uniform(0.1, 0.9, 50) for name in problem.derivatives}
    values |= problem.coefficients(low + (high - low) * rng.random((50, 2)))
    values |= {name: np.array(truth) for name, truth in truth_of(problem).items()}
    return {name: value.astype(dtype) for name, value in values.items()}


def complex_step(function, at):
    """Derivative of a real-analytic function, exact to rounding."""
    return np.imag(function(at + 1e-40j)) / 1e-40


@EVERY_PROBLEM
def test_residual_takes_what_the_problem_declares(problem):
    declared = {*problem.derivatives, *problem.parameters, *problem.coefficients(np.zeros((1, 2)))}
    assert set(inspect.signature(problem.residual).parameters) == declared


@EVERY_PROBLEM
def test_residual_is_the_same_in_pytorch(problem):
    torch = pytest.importorskip("torch")
    numbers = keywords(problem)
    expected = problem.residual(**numbers)
    found = problem.residual(**{k: torch.tensor(v) for k, v in numbers.items()})
    assert found.dtype == torch.float64
    assert_allclose(found.numpy(), expected, rtol=1e-12)


@EVERY_PROBLEM
def test_residual_is_the_same_in_jax(problem):
    jax = pytest.importorskip("jax")
    numbers = keywords(problem)
    expected = problem.residual(**numbers)
    assert expected.dtype == np.float64
    with jax.enable_x64(True):
        found = problem.residual(**{k: jax.numpy.asarray(v) for k, v in numbers.items()})
        assert found.dtype == jax.numpy.float64
        assert_allclose(found, expected, rtol=1e-12)


def array_function(library):
    """Return the function that makes an array of a library, which may not be installed."""
    module = pytest.importorskip(library)
    return module.tensor if library == "torch" else module.asarray


@EVERY_PROBLEM
@pytest.mark.parametrize("plain", [False, True], ids=["float32 parameters", "Python floats"])
@pytest.mark.parametrize("library", ["numpy", "jax.numpy", "torch"])
def test_residual_stays_in_single_precision(problem, library, plain):
    array = array_function(library)
    numbers = {k: array(v) for k, v in keywords(problem, np.float32).items()}
    if plain:
        numbers |= truth_of(problem)
    residual = problem.residual(**numbers)
    assert str(residual.dtype).removeprefix("torch.") == "float32"
    expected = problem.residual(**keywords(problem))
    assert_allclose(np.asarray(residual), expected, rtol=1e-5, atol=1e-6 * abs(expected).max())


@EVERY_PROBLEM
def test_residual_can_be_differentiated_by_its_parameters(problem):
    jax, torch = pytest.importorskip("jax"), pytest.importorskip("torch")
    numbers = keywords(problem)
    for name in problem.parameters:

        def residual(value, name=name):
            return problem.residual(**(numbers | {name: value}))

        expected = complex_step(residual, numbers[name])
        with jax.enable_x64(True):
            slope = jax.jacfwd(residual)(jax.numpy.asarray(numbers[name]))
            assert_allclose(slope, expected, rtol=1e-12)
        tensors = {k: torch.tensor(v) for k, v in numbers.items()}
        tensors[name].requires_grad_()
        problem.residual(**tensors).sum().backward()
        assert_allclose(tensors[name].grad, expected.sum(), rtol=1e-12)


@EVERY_PROBLEM
def test_published_values(problem):
    parameters, domain = PUBLISHED[problem.name]
    assert problem.domain == domain
    assert list(problem.domain) == list(domain)
    assert problem.parameters.keys() == parameters.keys()
    for name, (truth, start, bounds) in parameters.items():
        parameter = problem.parameters[name]
        assert (parameter.truth, parameter.bounds) == (truth, bounds)
        assert start is None or parameter.start == start


@EVERY_PROBLEM
def test_truth_and_start_lie_inside_the_bounds(problem):
    for parameter in problem.parameters.values():
        low, high = parameter.bounds
        assert low < parameter.truth < high
        assert low < parameter.start < high
        assert parameter.start != parameter.truth


def test_published_observations():
    assert SCALAR_BENCHMARKS == (BURGERS, BUCKLEY_LEVERETT, ALLEN_CAHN)
    for problem in SCALAR_BENCHMARKS:
        plan = problem.observed
        assert (plan.sites, plan.noise_fraction, plan.layouts) == (200, 0.3, (8, 9, 10, 11))


# A field with known derivatives, and each equation as the paper writes it, by hand.
X, T = np.random.default_rng(1).uniform(-0.9, 0.9, (2, 40))


def smooth(x):
    return 0.5 + 0.3 * np.sin(1.7 * x + 0.4) * np.exp(-0.6 * T)


SMOOTH = {
    "u": smooth(X),
    "u_t": -0.6 * (smooth(X) - 0.5),
    "u_x": 0.3 * 1.7 * np.cos(1.7 * X + 0.4) * np.exp(-0.6 * T),
    "u_xx": -(1.7**2) * (smooth(X) - 0.5),
}


def burgers_by_hand(nu):
    return SMOOTH["u_t"] + complex_step(lambda x: smooth(x) ** 2 / 2, X) - nu * SMOOTH["u_xx"]


def buckley_leverett_by_hand(M):
    def fraction(x):
        return 1 / (1 + M * (1 / smooth(x) - 1) ** 2)

    return SMOOTH["u_t"] + complex_step(fraction, X) - 0.01 * SMOOTH["u_xx"]


def allen_cahn_by_hand(lam):
    return SMOOTH["u_t"] - 0.001 * SMOOTH["u_xx"] + lam * (SMOOTH["u"] ** 3 - SMOOTH["u"])


@pytest.mark.parametrize(
    ("problem", "by_hand", "values"),
    [
        (BURGERS, burgers_by_hand, (0.002, 0.01, 0.05)),
        (BUCKLEY_LEVERETT, buckley_leverett_by_hand, (0.5, 2.0, 4.0)),
        (ALLEN_CAHN, allen_cahn_by_hand, (1.0, 5.0, 10.0)),
    ],
)
def test_residual_is_the_equation(problem, by_hand, values):
    (name,) = problem.parameters
    for value in values:
        residual = problem.residual(**SMOOTH, **{name: value})
        assert_allclose(residual, by_hand(value), rtol=0, atol=1e-14)


@pytest.mark.parametrize("M", [0.5, 2.0, 4.0])
def test_flux_slope_is_the_derivative_of_the_flux(M):
    u = np.linspace(0, 1, 101)
    assert_allclose(flux_slope(u, M), complex_step(lambda v: flux(v, M), u), rtol=1e-13, atol=1e-15)
    assert (flux(0.0, M), flux(1.0, M)) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        *PROBLEMS.items(),
        ("Burgers", BURGERS),
        ("  DARCY ", DARCY),
        ("Allen_Cahn", ALLEN_CAHN),
        ("allen cahn", ALLEN_CAHN),
        ("Buckley-Leverett", BUCKLEY_LEVERETT),
        (ALLEN_CAHN, ALLEN_CAHN),
    ],
)
def test_get_problem(name, problem):
    assert get_problem(name) is problem


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("burger", 'did you mean "burgers"?'),
        ("allan_cahn", 'did you mean "allen-cahn"?'),
        ("Buckley–Leverett", 'did you mean "buckley-leverett"?'),
        ("darcey", 'did you mean "darcy"?'),
        ("xyz", "choose one of those names"),
    ],
)
def test_unknown_problem_lists_the_names_and_suggests_the_nearest(name, advice):
    with pytest.raises(InputError) as caught:
        get_problem(name)
    assert caught.value.fix == advice
    assert caught.value.got == repr(name)
    assert all(known in caught.value.expected for known in PROBLEMS)


def test_truth_of():
    assert truth_of(DARCY) == {"lambda_0": 0.15, "lambda_1": 0.85}
    unknown = replace(BURGERS, parameters={"nu": Parameter(bounds=(0.002, 0.05))})
    with pytest.raises(InputError, match="a truth value for every parameter"):
        truth_of(unknown)

"""Parameters from equations and data alone, against least squares with a solver."""

import importlib

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import twoaxis as ta
from twoaxis.adapters.equation import framework_of
from twoaxis.errors import InputError

torch = pytest.importorskip("torch")
decay = importlib.import_module("decay_equation").decay

TIMES = np.linspace(0, 10, 30)
RATES = {"b": ta.Parameter(bounds=(0.05, 20.0)), "g": ta.Parameter(bounds=(0.05, 20.0))}


def epidemic(model, t, b, g):
    """Susceptible and infected shares."""
    s, i = model(t).T
    slopes = [torch.autograd.grad(each.sum(), t, create_graph=True)[0][:, 0] for each in (s, i)]
    return slopes[0] + b * s * i, slopes[1] - b * s * i + g * i


def infected(rates, first, times=TIMES):
    b, g = rates
    found = solve_ivp(
        lambda _, z: [-b * z[0] * z[1], b * z[0] * z[1] - g * z[1]],
        (0, times[-1]),
        first,
        t_eval=times,
        rtol=1e-10,
        atol=1e-12,
    )
    return found.y[1]


NOISE = 0.005
DATA = infected((1.8, 0.6), (0.97, 0.02)) + NOISE * np.random.default_rng(0).standard_normal(30)


def with_solver(data, times=TIMES):
    def rest(q):
        return (infected(np.exp(q[:2]), q[2:], times) - data) / NOISE

    found = least_squares(rest, [np.log(1.8), np.log(0.6), 0.97, 0.02], x_scale="jac")
    covariance = np.linalg.inv(found.jac.T @ found.jac)
    return found.x[:2], np.sqrt(np.diag(covariance)[:2])


def assert_as_with_solver(found, data, within=0.05):
    expected, errors = with_solver(data)
    values = np.log([found.values[n] for n in "bg"])
    assert (np.abs(values - expected) < within * errors).all()
    relative = [found.standard_error[n] / found.values[n] for n in "bg"]
    assert_allclose(relative, errors, rtol=0.02)
    assert found.trusted


def test_a_hidden_state_and_no_start():
    data = ta.Observations(DATA, at=TIMES, noise=NOISE, of=1)
    found = ta.estimate(epidemic, RATES, data, outputs=2, progress=False)
    assert_as_with_solver(found, DATA)
    assert "before" not in found.summary()
    assert_allclose(found.free_directions, 2, atol=0.02)


def test_a_model_of_an_adapter_lends_its_equation():
    network = torch.nn.Sequential(torch.nn.Linear(1, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    delivered = {n: ta.Parameter(delivered=5.0, bounds=p.bounds) for n, p in RATES.items()}
    model = ta.from_torch(network.double(), epidemic, delivered, points=TIMES[:, None])
    found = ta.estimate(model, data=ta.Observations(DATA, at=TIMES, noise=NOISE, of=1))
    assert_as_with_solver(found, DATA)


def test_the_same_in_jax():
    jax = pytest.importorskip("jax")

    def in_jax(model, t, b, g):
        s, i = model(t).T
        slopes = jax.vmap(jax.jacfwd(model))(t)[:, :, 0]
        return slopes[:, 0] + b * s * i, slopes[:, 1] - b * s * i + g * i

    assert framework_of(in_jax) == "jax"
    data = ta.Observations(DATA, at=TIMES, noise=NOISE, of=1)
    found = ta.estimate(in_jax, RATES, data, outputs=2, progress=False)
    assert_as_with_solver(found, DATA)


RATE = {"rate": ta.Parameter(bounds=(0.01, 10.0))}
FEW = np.linspace(0, 2, 12)
GENERATOR = np.random.default_rng(1)


def test_experiments_share_parameters_and_kinds_share_a_field():
    """In logarithms the model is linear: with small noise the weighted mean of two slopes."""
    sets = {
        name: ta.Observations(
            first * np.exp(-0.8 * FEW) + noise * GENERATOR.standard_normal(12), at=FEW, noise=noise
        )
        for name, first, noise in (("a", 1.0, 1e-4), ("b", 3.0, 3e-4))
    }
    both = ta.estimate(decay, RATE, sets, progress=False)
    alone = [ta.estimate(decay, RATE, each, progress=False) for each in sets.values()]
    weights = np.array([1 / each.standard_error["rate"] ** 2 for each in alone])
    values = np.array([each.values["rate"] for each in alone])
    assert_allclose(both.standard_error["rate"], weights.sum() ** -0.5, rtol=0.01)
    mean = weights @ values / weights.sum()
    assert abs(both.values["rate"] - mean) < 0.02 * both.standard_error["rate"]
    assert both.frozen is None
    # Two halves of the readings of one field are all of them.
    whole = sets["a"]
    halves = [
        ta.Observations(whole.values[part], at=FEW[part], noise=1e-4)
        for part in (slice(0, 5), slice(5, 12))
    ]
    found = ta.estimate(decay, RATE, halves, progress=False)
    assert_allclose(found.values["rate"], alone[0].values["rate"], rtol=1e-6)
    assert_allclose(found.standard_error["rate"], alone[0].standard_error["rate"], rtol=1e-3)


def test_conditions_hold():
    data = ta.Observations(np.exp(-0.8 * FEW) + 0.02 * GENERATOR.standard_normal(12), FEW, 0.02)
    known = ta.estimate(
        decay, RATE, data, conditions=lambda model: model(torch.zeros(1, 1)) - 1, progress=False
    )
    slopes = FEW * np.exp(-known.values["rate"] * FEW)
    assert_allclose(known.standard_error["rate"], 0.02 / np.linalg.norm(slopes), rtol=0.01)
    free = ta.estimate(decay, RATE, data, progress=False)
    assert free.standard_error["rate"] > 1.2 * known.standard_error["rate"]


def test_what_cannot_be_told_apart_is_not_trusted():
    def product(model, t, a, c):
        return decay(model, t, a * c)

    both = {n: ta.Parameter(bounds=(0.01, 10.0)) for n in "ac"}
    data = ta.Observations(np.exp(-0.8 * FEW) + 0.01 * GENERATOR.standard_normal(12), FEW, 0.01)
    found = ta.estimate(product, both, data, progress=False)
    assert not found.trusted


def test_the_domain_may_be_larger_than_the_data():
    data = ta.Observations(np.exp(-0.8 * FEW), at=FEW, noise=0.02)
    found = ta.estimate(decay, RATE, data, domain={"t": (-1, 4)}, progress=False)
    assert found.frozen.axes == ("t",)
    assert_allclose(found.values["rate"], 0.8, atol=1e-3)


def test_many_datasets_side_by_side():
    sets = {
        str(rate): ta.Observations(np.exp(-rate * FEW), at=FEW, noise=0.02) for rate in (0.5, 2.0)
    }
    alone = ta.estimate_many(decay, RATE, sets, progress=False)
    beside = ta.estimate_many(decay, RATE, sets, engine="processes", progress=False)
    for rate, each in alone.items():
        assert_allclose(each.values["rate"], float(rate), atol=1e-3)
        assert each.data.equals(beside[rate].data)
    with pytest.raises(InputError, match="other processes can import"):
        ta.estimate_many(lambda *given: decay(*given), RATE, sets, engine="processes")
    with pytest.raises(InputError, match="an executor"):
        ta.estimate_many(decay, RATE, sets, engine="cluster")
    with pytest.raises(InputError, match="names to data"):
        ta.estimate_many(decay, RATE, list(sets.values()))


def test_readings_that_say_nothing_are_not_trusted():
    for noise in (0.02, None):
        found = ta.estimate(decay, RATE, ta.Observations(0 * FEW, FEW, noise), progress=False)
        assert "refine.not_determined" in [m.code for m in found.messages]
        assert not found.trusted


def test_readings_without_noise():
    found = ta.estimate(decay, RATE, ta.Observations(np.exp(-0.8 * FEW), FEW), progress=False)
    assert_allclose(found.values["rate"], 0.8, rtol=1e-8)
    assert found.trusted


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (dict(domain=(0, 1)), "within the domain"),
        (dict(domain=[(0, 2), (0, 1)]), "1 intervals"),
        (dict(domain=(2, 0)), "1 intervals"),
        (dict(domain="t"), "1 intervals"),
        (dict(outputs=0), "at least the 1"),
        (dict(residual=lambda model, t, rate: decay(model, t, 0.8 + 0 * rate)), "depends on a"),
        (dict(residual=lambda model, t, rate: rate * torch.ones_like(model(t))), "no derivative"),
        (dict(data=None), "an equation, its parameters and data"),
        (dict(data=ta.Observations(FEW, noise=1.0)), "where they were taken"),
        (dict(residual=eval("lambda model, t, rate: rate", {})), "PyTorch or in JAX"),
    ],
)
def test_bad_input(options, expected):
    given = {
        "residual": decay,
        "parameters": RATE,
        "data": ta.Observations(np.exp(-FEW), at=FEW, noise=0.1),
        "progress": False,
    }
    with pytest.raises(InputError, match=expected):
        ta.estimate(**{**given, **options})

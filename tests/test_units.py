"""Units change numbers and nothing else: closed forms and SciPy, in nanometers and megapascals."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import twoaxis as ta

POINTWISE = ta.views.Pointwise()
X = np.random.default_rng(0).uniform(0, 1, 80)
FIRST, SECOND = np.sin(3 * X) + 1, 0.8 * np.cos(5 * X) + 0.3
REST = -1.1 * FIRST - 0.93 * SECOND + 0.05 * np.sin(20 * X)


def two(units):
    """Two parameters with the value 1 in some units, in linear coordinates."""
    return {
        name: ta.Parameter(truth=u, delivered=u, bounds=(0.2 * u, 5 * u), coordinate="linear")
        for name, u in zip("ab", units, strict=True)
    }


UNITS = [(1e-4, 1e4), (1.0, 1e-7), (1e-9, 1e6)]


@pytest.mark.parametrize("units", UNITS)
def test_the_score_of_two_parameters_scales_with_their_units(units):
    def scored(units):
        first, second = units
        return ta.score(
            lambda a, b: REST + a / first * FIRST + b / second * SECOND,
            two(units),
            POINTWISE,
            points=X,
        )

    plain, scaled = scored((1.0, 1.0)), scored(units)
    for quantity in ("displacement", "sampling_deviation"):
        expected, found = (getattr(each, quantity) for each in (plain, scaled))
        for name, unit in zip("ab", units, strict=True):
            assert found[name] == pytest.approx(unit * expected[name], rel=1e-6)
    assert scaled.trusted


@pytest.mark.parametrize("units", UNITS)
def test_a_product_hides_both_of_its_factors_whatever_their_units(units):
    def residual(a, b):
        return REST + a / units[0] * b / units[1] * FIRST

    found = ta.score(residual, two(units), POINTWISE, points=X)
    assert found.unseen == {"a", "b"}
    assert "-0.71 a +0.71 b" in str(found.doubts[0]) or "+0.71 a -0.71 b" in str(found.doubts[0])
    frozen = ta.FrozenResidual(residual, two(units), X, view=POINTWISE)
    followed = ta.follow([(1, frozen)]).data
    assert np.isnan(followed["preferred"].values).all()


@pytest.mark.parametrize("unit", [1e-9, 1e-5, 1.0, 1e6])
def test_a_minimum_is_refined_in_small_and_large_units(unit):
    def residual(k):
        return np.sin(4 * k / unit) + 0.3 * X + 0.2

    found = ta.frozen_scan(
        residual,
        {"k": ta.Parameter(truth=unit, bounds=(0.1 * unit, 1.5 * unit), coordinate="linear")},
        POINTWISE,
        points=X,
    )
    best = minimize_scalar(
        lambda p: np.mean(residual(p * unit) ** 2),
        bounds=(0.7, 1.1),
        method="bounded",
        options={"xatol": 1e-12},
    )
    assert found.minimum["k"] / unit == pytest.approx(best.x, rel=1e-6)


@pytest.mark.parametrize("method", ["auto", "direct"])
def test_a_fit_of_two_parameters_does_not_hold_the_one_with_large_numbers(method):
    units = 1e-9, 1e6
    t = np.linspace(0.1, 1, 20)
    parameters = two(units)
    found = ta.resolve(
        lambda a, b: a / units[0] * t + b / units[1],
        parameters,
        noise=0.1,
        replicas=30,
        seed=1,
        method=method,
        progress=False,
    )
    design = np.column_stack([t, np.ones(20)])
    noise = np.random.default_rng(1).standard_normal((30, 20))
    expected = 1 + 0.1 * noise @ np.linalg.pinv(design).T
    estimates = found.estimate.sel(layout="all").transpose("replica", "parameter").values
    np.testing.assert_allclose(estimates / units, expected.clip(0.2, 5), rtol=1e-4)


@pytest.mark.parametrize("half", [100.0, 1.0])
@pytest.mark.parametrize("coordinate", ["linear", "log"])
def test_bounds_that_are_narrow_beside_the_value_are_kept(half, coordinate):
    """A pressure of 1e6 Pa that is known to 0.0001% before, and to 1e-8 by the data."""
    called = []

    def forward(k):
        called.append(k)
        return k * X

    bounds = (1e6 - half, 1e6 + half)
    k = ta.Parameter(truth=1e6, bounds=bounds, coordinate=coordinate)
    found = ta.resolve(forward, {"k": k}, noise=0.01, replicas=50, progress=False)
    error = 100 * np.sqrt(2 / np.pi) * 0.01 / np.linalg.norm(X) / 1e6
    assert float(found.fisher_error_percent[0]) == pytest.approx(error, rel=1e-5)
    assert float(found.error_percent.mean()) == pytest.approx(error, rel=0.3)
    assert min(called) >= bounds[0] * (1 - 1e-14)
    assert max(called) <= bounds[1] * (1 + 1e-14)


@pytest.mark.parametrize("method", ["auto", "direct"])
def test_a_frequency_that_many_periods_determine(method):
    """Predictions turn around within a thousandth of it: differences need smaller steps."""
    t, omega = np.linspace(0, 1e4, 400), 1.2345
    found = ta.resolve(
        lambda omega: np.sin(omega * t),
        {"omega": ta.Parameter(truth=omega, bounds=(omega - 1e-3, omega + 1e-3))},
        noise=0.1,
        replicas=50,
        method=method,
        progress=False,
    )
    slope = t * np.cos(omega * t)
    error = 100 * np.sqrt(2 / np.pi) * 0.1 / np.linalg.norm(slope) / omega
    assert float(found.fisher_error_percent[0]) == pytest.approx(error, rel=1e-3)
    estimates = omega + 0.1 * np.random.default_rng(0).standard_normal((50, 400)) @ slope / (
        slope @ slope
    )
    np.testing.assert_allclose(found.estimate.squeeze(), estimates, atol=0.05 * error * omega / 100)
    assert not found.messages


def test_a_center_that_is_zero_but_for_rounding_has_no_percentages():
    """The truth of an offset, as 0.1 + 0.2 - 0.3: 5.6e-17, of which 0.3 is 5e17 percent."""
    rest = ta.Parameter(truth=0.1 + 0.2 - 0.3, bounds=(-2.0, 2.0), coordinate="linear")
    with pytest.raises(ta.InputError, match=r"a center of 5\.55e-17, zero but .* declare one"):
        ta.score(lambda v: v - 0.3 + 0 * X, {"v": rest}, POINTWISE, points=X)


def test_a_sign_that_the_data_do_not_determine_is_said():
    found = ta.resolve(
        lambda k: k**2 * X,
        {"k": ta.Parameter(truth=1.0, bounds=(-3.0, 3.0), coordinate="linear")},
        noise=0.02,
        replicas=40,
        progress=False,
    )
    (message,) = [m for m in found.messages if m.code == "resolution.several_minima"]
    assert message.numbers["count"] == 40
    assert "more observations of the same kind may not decide" in message.text
    # Both parts of a set count, also where they are narrower than the bank.
    low, high = (found.data[f"set_{end}"].values for end in ("lower", "upper"))
    np.testing.assert_allclose(-low, high, rtol=1e-3)


def test_an_estimate_on_a_bound_of_zero_does_not_stop_an_audit():
    t = np.linspace(0.1, 3, 30)
    v = {"v": ta.Parameter(delivered=1.0, bounds=(0.0, 5.0), coordinate="linear")}
    with pytest.warns(ta.MisfitWarning):
        found = ta.resolve(
            lambda v: v * t, v, noise=0.02, data=-0.3 * t, replicas=5, progress=False
        )
    audit = ta.audit(lambda v: v - 1 + 0 * X, v, POINTWISE, points=X, resolution=found)
    matched = audit.group("/matched")
    assert float(matched["estimate"].item()) == 0
    assert float(matched["difference_percent"].item()) == pytest.approx(100.0)


@pytest.mark.parametrize("units", UNITS)
def test_a_refinement_does_not_depend_on_units(units):
    torch = pytest.importorskip("torch")
    times = np.linspace(0, 4, 40)
    data = 1.5 * np.exp(-0.7 * times) + 0.02 * np.random.default_rng(3).standard_normal(40)

    def refined(units):
        def equation(model, t, a, b):
            u = model(t)
            (slope,) = torch.autograd.grad(u.sum(), t, create_graph=True)
            return slope + 0.7 * a / units[0] * u + 0.1 * (b / units[1] - 1)

        torch.manual_seed(0)
        network = torch.nn.Sequential(
            torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
        ).double()
        frozen = ta.from_torch(
            network,
            equation,
            two(units),
            points=np.linspace(0, 4, 60)[:, None],
            observed=times[:, None],
            conditions=lambda model: model(torch.zeros(1, 1, dtype=torch.float64)) - 1.5,
        )
        return ta.refine(frozen, data, noise=0.02, progress=False)

    plain, scaled = refined((1.0, 1.0)), refined(units)
    assert plain.trusted
    assert scaled.trusted
    for name, unit in zip("ab", units, strict=True):
        error = plain.standard_error[name]
        assert scaled.standard_error[name] == pytest.approx(unit * error, rel=1e-3)
        assert abs(scaled.values[name] / unit - plain.values[name]) < 1e-3 * error

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


@pytest.mark.parametrize("duration", [2e-3, 2.0, 2e9])
@pytest.mark.parametrize("bounds", [None, "wide", 10.0, 1e3])
def test_a_refinement_depends_neither_on_the_unit_of_time_nor_on_wide_bounds(duration, bounds):
    torch = pytest.importorskip("torch")

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            layers = torch.nn.Linear(1, 10), torch.nn.Tanh(), torch.nn.Linear(10, 1)
            self.layers = torch.nn.Sequential(*layers).double()

        def forward(self, t):
            return self.layers(t / duration)

    def decay(model, t, rate):
        u = model(t)
        (slope,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        return slope + rate * u

    torch.manual_seed(0)
    times = torch.linspace(0, duration, 100, dtype=torch.float64)[:, None]
    shares = times.numpy().ravel()[5::5] / duration
    data = np.exp(-2.4 * shares) + 0.02 * np.random.default_rng(1).standard_normal(len(shares))
    given = {"bounds": (0.1 / duration, 20 / duration)}
    if bounds == "wide":
        given = {"bounds": (1e-9 / duration, 1e9 / duration)}
    elif bounds is not None:
        given = {"bounds": (-bounds / duration, bounds / duration), "coordinate": "linear"}
    frozen = ta.from_torch(
        Scaled(),
        decay,
        {"rate": ta.Parameter(delivered=1.5 / duration, **given)},
        points=times,
        observed=times[5::5],
        conditions=lambda model: model(torch.zeros(1, 1, dtype=torch.float64)) - 1,
    )
    found = ta.refine(frozen, data, noise=0.02, progress=False)
    exact = minimize_scalar(lambda k: ((np.exp(-k * shares) - data) ** 2).sum(), (2, 3)).x
    error = 0.02 / np.linalg.norm(shares * np.exp(-exact * shares))
    assert found.trusted
    assert abs(found.values["rate"] * duration - exact) < 0.01 * error
    assert found.standard_error["rate"] * duration == pytest.approx(error, rel=0.01)


@pytest.mark.parametrize("offset", [0.0, 1e-9, 1e-8, 1e-5, 0.5])
def test_a_nuisance_parameter_that_is_nearly_zero_is_not_an_unseen_one(offset):
    x = np.linspace(1, 2, 21)
    known = {
        "a": ta.Parameter(truth=1.0, bounds=(0.1, 10)),
        "c": ta.Parameter(truth=offset, bounds=(-1, 1), coordinate="linear", nuisance=True),
    }

    def exact(sites):
        slopes = np.column_stack([x, np.ones(21)])[sites] / 0.02
        return 100 * np.sqrt(2 / np.pi * np.linalg.inv(slopes.T @ slopes)[0, 0])

    found = ta.suggest_sites(lambda a, c: a * x + c, known, 0.02, 4, progress=False)
    assert sorted(found.sites) == [0, 1, 19, 20]
    predicted = found.predicted.sel(parameter="a").values[-1]
    assert predicted == pytest.approx(exact([0, 1, 19, 20]), rel=1e-3)
    resolved = ta.resolve(lambda a, c: a * x + c, known, 0.02, replicas=2, progress=False)
    assert resolved.fisher_error_percent.values[0] == pytest.approx(exact(np.arange(21)), rel=1e-3)
    assert "null_direction" not in " ".join(m.code for m in resolved.messages)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_finishing_a_training_moves_parameters_of_any_unit(unit):
    drawn = np.random.default_rng(0).standard_normal((2, 15))

    class Loss:
        """(w - 1/2)^2 and a residual that vanishes at w = 1/2 and p = unit."""

        names, positions, start = ("p",), {"p": 1}, np.array([0.8, 1.3 * unit])

        def residual(self, w, p):
            return drawn[0] * (w - 0.5) + drawn[1] * (p / unit - 1)

        def value_and_gradient(self, vector):
            rest = self.residual(*vector)
            slopes = 2 * drawn @ rest / 15 / np.array([1, unit])
            gradient = slopes + np.array([2 * (vector[0] - 0.5), 0.0])
            return (vector[0] - 0.5) ** 2 + np.mean(rest**2), gradient

        def frozen(self, vector):
            parameter = ta.Parameter(
                bounds=(-5 * unit, 5 * unit), coordinate="linear", delivered=vector[1]
            )
            return ta.FrozenResidual(
                lambda p: self.residual(vector[0], p), {"p": parameter}, X[:15], view=POINTWISE
            )

    loss = Loss()
    found = ta.polish(loss.frozen(loss.start), loss, progress=False)
    assert found.finish.converged
    assert found.finished["p"] == pytest.approx(unit, rel=1e-6)


def test_a_confidence_set_does_not_depend_on_wide_bounds_of_a_nuisance_parameter():
    times = np.linspace(0, 3, 12)
    data = np.exp(-1.1 * times) + 0.05 * np.random.default_rng(0).standard_normal(12)
    sets = [
        ta.confidence_set(
            lambda values, seed: values.sum() / 4,  # noqa: ARG005
            lambda a, c: a * np.exp(-c * times),
            {
                "a": ta.Parameter(bounds=(0.3, 2.0)),
                "c": ta.Parameter(bounds=(0, high), coordinate="linear", nuisance=True, start=1.0),
            },
            0.05,
            data,
            progress=False,
        )
        for high in (5.0, 1e4)
    ]
    narrow, wide = (each.interval[:2] for each in sets)
    assert wide == pytest.approx(narrow, rel=1e-3)

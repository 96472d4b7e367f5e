"""Exact derivatives are compared with differences, which stay inside the bounds."""

import numpy as np
import pytest
from libraries import jax, jnp, torch

import twoaxis as ta
from twoaxis.geometry.derivative_check import difference_weights, offsets_inside
from twoaxis.geometry.derivatives import linearize

N = 40
POINTS = np.arange(float(N))
E, X = np.random.default_rng(0).normal(size=(2, N))
POINTWISE = ta.views.Pointwise()
NU = {"nu": ta.Parameter(truth=1.0, bounds=(0.2, 5.0))}
pytestmark = pytest.mark.usefixtures("double")


def tensor(values):
    return torch.tensor(values)


def whole(nu):
    return -E + nu * E + 0.1 * X


HALF_LOST = {
    "PyTorch, float": lambda nu: (
        tensor(0.1 * X - E) + 0.5 * nu * tensor(E) + 0.5 * float(nu) * tensor(E)
    ),
    "PyTorch, detach": lambda nu: (
        tensor(0.1 * X - E)
        + 0.5 * (nu + torch.as_tensor(nu, dtype=torch.float64).detach()) * tensor(E)
    ),
    "JAX, stop_gradient": lambda nu: (
        -jnp.asarray(E) + 0.5 * nu * E + 0.5 * jax.lax.stop_gradient(nu) * E + 0.1 * X
    ),
}
CANNOT = {
    "JAX, float": lambda nu: jnp.asarray(-E) + 0.5 * nu * E + 0.5 * float(nu) * E + 0.1 * X,
}


@pytest.mark.parametrize("residual", (HALF_LOST | CANNOT).values(), ids=HALF_LOST | CANNOT)
def test_a_half_lost_derivative_is_replaced_by_differences(residual):
    expected = ta.score(whole, NU, POINTWISE, points=POINTS)
    with pytest.warns(ta.AccuracyWarning, match="automatic derivative .* is not used"):
        found = ta.score(residual, NU, POINTWISE, points=POINTS)
    assert found.displacement["nu"] == pytest.approx(expected.displacement["nu"], rel=1e-9)
    assert found.derivative.startswith("central differences, step 0.001 (")
    with pytest.raises(ta.InputError, match=r"(?s)derivatives are exact.*(disagrees|cannot)"):
        ta.score(residual, NU, POINTWISE, points=POINTS, derivative="exact")


@pytest.mark.parametrize("residual", HALF_LOST.values(), ids=HALF_LOST)
def test_a_scan_does_not_use_a_half_lost_derivative(residual):
    def curved(nu):
        return residual(nu) + 0.05 * nu**2 * (tensor(E) if torch.is_tensor(residual(nu)) else E)

    expected = ta.frozen_scan(lambda nu: whole(nu) + 0.05 * nu**2 * E, NU, POINTWISE, points=POINTS)
    with pytest.warns(ta.AccuracyWarning):
        found = ta.frozen_scan(curved, NU, POINTWISE, points=POINTS)
    assert found.minimum["nu"] == pytest.approx(expected.minimum["nu"], rel=1e-7)


def test_a_small_equation_is_checked_by_itself():
    def two(nu):
        return nu * tensor(E), 1e-7 * (float(nu) * tensor(E) + tensor(X))

    view = ta.views.Blocks([POINTWISE, POINTWISE], weights=[1.0, 1e14])
    with pytest.warns(ta.AccuracyWarning):
        found = ta.score(two, NU, view, points=POINTS)
    assert "disagrees" in found.derivative


WRONG = {
    "sign": lambda nu: -2 * nu * E,
    "factor": lambda nu: 2.01 * nu * E,
    "by the logarithm": lambda nu: 2 * nu * nu * E,
    "one point": lambda nu: 2 * nu * np.where(POINTS == 7, -1.0, 1.0) * E,
}


@pytest.mark.parametrize("jacobian", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("function", [ta.score, ta.frozen_scan, ta.spectrum])
def test_a_wrong_jacobian_is_refused(function, jacobian):
    frozen = ta.FrozenResidual(lambda nu: nu**2 * E - X, NU, POINTS, jacobian=jacobian)
    with pytest.raises(ta.InputError, match=r"(?s)jacobian that agrees.*by nu .*differ by"):
        function(frozen, view=POINTWISE, at={"nu": 1.5})


def test_columns_in_another_order_are_refused():
    both = {**NU, "mu": ta.Parameter(truth=1.0, bounds=(0.2, 5.0))}
    frozen = ta.FrozenResidual(
        lambda nu, mu: nu * E + mu * X,
        both,
        POINTS,
        jacobian=lambda nu, mu: np.column_stack([X, E]),  # noqa: ARG005
    )
    with pytest.raises(ta.InputError, match=r"(?s)by nu .*by mu"):
        ta.score(frozen, view=POINTWISE)


CURVED = {
    "affine": (lambda k: k, lambda k: 1.0),  # noqa: ARG005
    "steep": (lambda k: np.exp(20 * k), lambda k: 20 * np.exp(20 * k)),
    "fast": (lambda k: np.sin(300 * k), lambda k: 300 * np.cos(300 * k)),
    "one whole period in a step": (
        lambda k: np.sin(2 * np.pi * np.log(k) / 1e-3),
        lambda k: 2 * np.pi / 1e-3 / k * np.cos(2 * np.pi * np.log(k) / 1e-3),
    ),
    "stationary": (lambda k: (k - 1.0) ** 2, lambda k: 2 * (k - 1.0)),
    "cubic": (lambda k: (k - 1.0) ** 3, lambda k: 3 * (k - 1.0) ** 2),
    "unseen": (lambda k: 0 * k, lambda k: 0 * k),
    "tiny": (lambda k: 1e-130 * k**3, lambda k: 3e-130 * k**2),
    "a small part of a large residual": (lambda k: 1e9 + k, lambda k: 1.0),  # noqa: ARG005
}


@pytest.mark.parametrize(("function", "slope"), CURVED.values(), ids=CURVED)
@pytest.mark.parametrize("at", [0.2, 0.2001, 1.0, 3.3, 5.0])
@pytest.mark.parametrize("coordinate", ["log", "linear"])
def test_curvature_raises_no_false_alarm(function, slope, at, coordinate):
    given = {"k": ta.Parameter(truth=at, bounds=(0.2, 5.0), coordinate=coordinate)}
    frozen = ta.FrozenResidual(
        lambda k: E * function(k), given, POINTS, jacobian=lambda k: E * slope(k)
    )
    found = linearize(frozen, frozen.coordinates({"k": at}), "exact")
    assert found.exact


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("hidden", [False, True], ids=["float32", "float32 inside"])
def test_single_precision_raises_no_false_alarm(seed, hidden):
    a, b, c = np.random.default_rng(seed).normal(size=(3, N)).astype(np.float32)
    a *= 30  # large terms that cancel leave more rounding than the residual shows

    def residual(k):
        k = np.float32(k)
        found = (a + k * b + k * k * c) - a
        return found.astype(float) if hidden else found

    def jacobian(k):
        return b.astype(float) + 2 * k * c

    frozen = ta.FrozenResidual(
        lambda nu: residual(nu), NU, POINTS, jacobian=lambda nu: jacobian(nu)
    )
    assert linearize(frozen, np.log([1.0 + 0.1 * seed]), "exact").exact
    wrong = ta.FrozenResidual(
        lambda nu: residual(nu), NU, POINTS, jacobian=lambda nu: -jacobian(nu)
    )
    with pytest.raises(ta.InputError, match="agrees with differences"):
        linearize(wrong, np.log([1.0 + 0.1 * seed]))


def inside(low, high):
    """A residual that is not defined outside its bounds, and says so."""

    def residual(c):
        assert low <= c <= high, f"evaluated at {c!r}"
        return E * np.sqrt(c) + 0.1 * X * c - 0.4 * E

    return residual


# The root has no derivative at zero, which is told.
@pytest.mark.filterwarnings("ignore:differences of the residual are not reliable")
@pytest.mark.parametrize("at", [0.0, 1e-12, 1e-7, 1e-4, 0.5, 1.0 - 1e-7, 1.0])
@pytest.mark.parametrize("function", [ta.score, ta.frozen_scan, ta.spectrum, ta.audit])
def test_nothing_is_evaluated_outside_linear_bounds(function, at):
    given = {"c": ta.Parameter(delivered=at, bounds=(0, 1), coordinate="linear", scale=1.0)}
    function(inside(0, 1), given, POINTWISE, points=POINTS)


@pytest.mark.parametrize("center", [0.25, 0.4, 0.8, 1.23456, 7.77])
def test_differences_of_a_rounded_parameter_are_told(center):
    given = {"k": ta.Parameter(delivered=center, bounds=(0.1, 10))}

    def score(rule, step):
        def residual(k):
            return (rule(k) - 1.125 * center) * E

        return ta.score(residual, given, POINTWISE, points=POINTS, step=step).displacement["k"]

    with pytest.warns(ta.AccuracyWarning, match=r"rounding: k|along k"):
        score(lambda k: round(k, 3), 1e-3)
    assert score(lambda k: round(k, 3), 0.05) == pytest.approx(0.125, rel=0.05)  # as it says
    assert score(lambda k: k, 1e-3) == pytest.approx(0.125, rel=1e-5)


@pytest.mark.parametrize("digits", [1, 2])
@pytest.mark.parametrize("library", ["numpy", "jax", "torch"])
def test_a_parameter_that_is_rounded_to_more_than_a_step_is_not_unseen(library, digits):
    given = {n: ta.Parameter(delivered=1.0, bounds=(0.1, 10)) for n in ("k", "unused")}

    def residual(k, unused):  # noqa: ARG001
        if library == "numpy":
            return (np.round(k, digits) - 1.125) * E
        if library == "jax":
            return (jnp.round(k, digits) - 1.125) * jnp.array(E)
        return (torch.round(torch.as_tensor(k), decimals=digits) - 1.125) * torch.tensor(E)

    with pytest.warns(ta.AccuracyWarning, match="does not change with k in small steps"):
        ta.score(residual, given, POINTWISE, points=POINTS)


@pytest.mark.parametrize("at", [0.3, 0.3 + 1e-9, 0.7, 7.1 - 1e-5, 7.1])
@pytest.mark.parametrize("function", [ta.score, ta.frozen_scan, ta.spectrum, ta.audit])
def test_nothing_is_evaluated_outside_log_bounds(function, at):
    given = {"c": ta.Parameter(delivered=at, bounds=(0.3, 7.1))}
    function(inside(0.3, 7.1), given, POINTWISE, points=POINTS)


def test_nothing_is_evaluated_outside_the_bounds_of_several():
    given = {
        "c": ta.Parameter(delivered=0.0, bounds=(0, 1), coordinate="linear", scale=1.0),
        "d": ta.Parameter(delivered=3.0, bounds=(0.1, 3.0)),
    }

    def residual(c, d):
        assert 0 <= c <= 1
        assert 0.1 <= d <= 3.0
        return E * np.sqrt(c + 0.1) + X * c * np.sin(d) - 0.4

    ta.audit(residual, given, POINTWISE, points=POINTS, candidates=9)


def smooth(k, m):
    return E * np.exp(0.3 * k) + X * k * m**2


@pytest.mark.parametrize("k", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("m", [-1.0, 0.4, 1.0])
@pytest.mark.parametrize("exact", [False, True])
def test_shifted_differences_are_accurate(k, m, exact):
    given = {
        "k": ta.Parameter(truth=k, bounds=(0.5, 2.0), coordinate="linear"),
        "m": ta.Parameter(truth=m, bounds=(-1.0, 1.0), coordinate="linear", scale=1.0),
    }

    def jacobian(k, m):
        return np.column_stack([0.3 * E * np.exp(0.3 * k) + X * m**2, 2 * X * k * m])

    frozen = ta.FrozenResidual(smooth, given, POINTS, jacobian=jacobian if exact else None)
    found = linearize(frozen, np.array([k, m]))
    np.testing.assert_allclose(found.jacobian, jacobian(k, m), rtol=0, atol=1e-5)
    w = np.linspace(-1, 1, N)
    cross = w @ (2 * X * m)
    second = [[w @ (0.09 * E * np.exp(0.3 * k)), cross], [cross, w @ (2 * X * k)]]
    np.testing.assert_allclose(found.weighted_second(w), second, rtol=0, atol=1e-4)
    if not exact:
        assert ("one-sided" in found.source) == (k != 1.0 or m != 0.4)


def test_stencils():
    assert offsets_inside(0.0, 1.0, 1.0, 0.1, 5) == (-4, -3, -2, -1, 0)
    assert offsets_inside(0.0, 1.0, 0.15, 0.1, 5) == (-1, 0, 1, 2, 3)
    for offsets in ((-1, 0, 1), (0, 1, 2), (-2, -1, 0), (0, 1, 2, 3), (-1, 0, 1, 2, 3)):
        for order in (1, 2):
            weights = difference_weights(offsets, order)
            for power in range(len(offsets)):
                expected = {1: 1.0, 2: 2.0}[order] if power == order else 0.0
                total = sum(w * float(k) ** power for w, k in zip(weights, offsets, strict=True))
                assert total == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("function", [ta.score, ta.frozen_scan, ta.spectrum, ta.audit])
@pytest.mark.parametrize("size", [1e-160, 1e-300, 1e150, 1e300])
def test_what_cannot_be_squared_is_refused(function, size):
    with pytest.raises(ta.InputError, match=r"(?s)square can be represented.*multiply"):
        function(lambda nu: size * (nu * E - X), NU, POINTWISE, points=POINTS)


@pytest.mark.parametrize("size", [1e-130, 1e130])
def test_small_and_large_residuals_have_the_same_displacement(size):
    expected = ta.score(whole, NU, POINTWISE, points=POINTS)
    found = ta.score(lambda nu: size * whole(nu), NU, POINTWISE, points=POINTS)
    assert found.displacement["nu"] == pytest.approx(expected.displacement["nu"], rel=1e-9)
    assert found.alignment == pytest.approx(expected.alignment, rel=1e-9)
    scan = ta.frozen_scan(lambda nu: size * whole(nu), NU, POINTWISE, points=POINTS)
    wanted = ta.frozen_scan(whole, NU, POINTWISE, points=POINTS)
    assert scan.minimum["nu"] == pytest.approx(wanted.minimum["nu"], rel=1e-9)


def test_extreme_bounds():
    linear = {"k": ta.Parameter(truth=1.0, bounds=(1e-300, 1e300), coordinate="linear")}
    with pytest.raises(ta.InputError, match=r"(?s)bounds of k.*coordinate=.log"):
        ta.score(lambda k: E * k - X, linear, POINTWISE, points=POINTS)
    log = {"k": ta.Parameter(truth=1.0, bounds=(1e-300, 1e300))}
    found = ta.score(lambda k: E * k - E, log, POINTWISE, points=POINTS)
    assert found.displacement["k"] == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(ta.InputError, match="square can be represented"):
        ta.frozen_scan(lambda k: E * k - E, log, POINTWISE, points=POINTS)
    scan = ta.frozen_scan(lambda k: E * (np.log(k) - 3), log, POINTWISE, points=POINTS)
    assert scan.minimum["k"] == pytest.approx(np.exp(3), rel=1e-6)


@pytest.mark.parametrize("function", [ta.score, ta.frozen_scan, ta.spectrum, ta.audit])
@pytest.mark.parametrize("library", ["NumPy", "PyTorch"])
def test_a_random_residual_is_refused(function, library):
    if library == "NumPy":
        generator = np.random.default_rng(0)
        noise = generator.standard_normal
    else:
        drop = torch.nn.Dropout(0.5)
        noise = lambda n: drop(torch.ones(n, dtype=torch.float64))  # noqa: E731
    start = E if library == "NumPy" else tensor(E)
    with pytest.raises(ta.InputError, match=r"(?s)not deterministic.*seeds"):
        function(lambda nu: start * nu + noise(N), NU, POINTWISE, points=POINTS)


@pytest.mark.parametrize("function", [ta.score, ta.frozen_scan, ta.spectrum, ta.audit])
def test_a_residual_that_raises(function):
    def residual(nu):
        return E / (nu - 1.0 if nu != 1.0 else 1 // 0)

    with pytest.raises(ta.InputError, match=r"ZeroDivisionError from residual\(nu=1\)") as caught:
        function(residual, NU, POINTWISE, points=POINTS)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_jacobian_that_raises():
    frozen = ta.FrozenResidual(whole, NU, POINTS, jacobian=lambda nu: E[nu])
    with pytest.raises(ta.InputError, match=r"IndexError from jacobian\(nu=1\)") as caught:
        ta.score(frozen, view=POINTWISE)
    assert isinstance(caught.value.__cause__, IndexError)

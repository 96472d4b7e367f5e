"""First and second derivatives by the parameters: exact where they can be, differenced else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from libraries import jax, jnp, torch

import twoaxis as ta
from twoaxis.geometry.derivatives import PUBLISHED_STEPS, STEP, linearize

RNG = np.random.default_rng(0)
N = 30
X = np.linspace(0.0, 1.0, N)
A, F, G = RNG.normal(size=(3, N))
K, M = 0.7, -0.4  # the center: k in log coordinates, m in linear ones
PARAMETERS = {
    "k": ta.Parameter(truth=K, bounds=(0.1, 4.0)),
    "m": ta.Parameter(truth=M, bounds=(-2.0, 2.0), coordinate="linear"),
}
ONE = {"k": PARAMETERS["k"]}
CENTER = np.array([np.log(K), M])
POINTWISE = ta.views.Pointwise()


# r = a + sin(k) f + k m^2 g, with its derivatives by the physical parameters written out.
def in_numpy(k, m):
    return A + np.sin(k) * F + k * m**2 * G


def in_jax(k, m):
    return jnp.asarray(A) + jnp.sin(k) * jnp.asarray(F) + k * m**2 * jnp.asarray(G)


def in_torch(k, m):
    sine = torch.sin(torch.as_tensor(k, dtype=torch.float64))
    return torch.tensor(A) + sine * torch.tensor(F) + k * m**2 * torch.tensor(G)


def by_k(k, m):
    return np.cos(k) * F + m**2 * G


def by_m(k, m):
    return 2 * k * m * G


def given_jacobian(k, m):
    return np.column_stack([by_k(k, m), by_m(k, m)])


J = np.column_stack([K * by_k(K, M), by_m(K, M)])
# Second derivatives by the coordinates, with p' = p'' = k along log k.
SECOND = {
    (0, 0): K**2 * (-np.sin(K) * F) + K * by_k(K, M),
    (0, 1): K * 2 * M * G,
    (1, 1): 2 * K * G,
}
WEIGHTS = RNG.normal(size=N)
CURVATURE = np.array([[WEIGHTS @ SECOND[min(i, j), max(i, j)] for j in (0, 1)] for i in (0, 1)])


in_double = pytest.mark.usefixtures("double")


def frozen_of(function, parameters=PARAMETERS, **more):
    return ta.FrozenResidual(function, parameters, X, **more)


EXACT = {
    "JAX": (frozen_of(in_jax), "JAX"),
    "JAX, compiled": (frozen_of(lambda k, m: jax.jit(in_jax)(k, m)), "JAX"),
    "PyTorch": (frozen_of(in_torch), "PyTorch"),
    "given": (frozen_of(in_numpy, jacobian=given_jacobian), "given"),
}


@in_double
@pytest.mark.parametrize(("frozen", "source"), EXACT.values(), ids=EXACT)
@pytest.mark.parametrize("derivative", ["auto", "exact"])
def test_exact_derivatives(frozen, source, derivative):
    found = linearize(frozen, CENTER, derivative)
    assert source in found.source
    np.testing.assert_allclose(found.residual, in_numpy(K, M), rtol=1e-14)
    np.testing.assert_allclose(found.jacobian, J, rtol=1e-13, atol=1e-15)
    # Differences of exact slopes: an error of step^2 / 6 relative to third derivatives.
    np.testing.assert_allclose(found.weighted_second(WEIGHTS), CURVATURE, rtol=1e-5, atol=1e-5)


@in_double
def test_second_derivatives_agree_with_an_independent_hessian():
    def product(q):
        return jnp.asarray(WEIGHTS) @ in_jax(jnp.exp(q[0]), q[1])

    hessian = np.asarray(jax.hessian(product)(jnp.asarray(CENTER)))
    np.testing.assert_allclose(hessian, CURVATURE, rtol=1e-12)
    for frozen, _ in EXACT.values():
        found = linearize(frozen, CENTER).weighted_second(WEIGHTS)
        np.testing.assert_allclose(found, hessian, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(found, found.T)


@in_double
def test_second_derivatives_from_exact_slopes_converge_with_the_step():
    frozen, _ = EXACT["JAX"]
    errors = [
        np.abs(linearize(frozen, CENTER, step=h).weighted_second(WEIGHTS) - CURVATURE).max()
        for h in (4e-2, 2e-2)
    ]
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.01)


def test_the_published_steps():
    assert STEP == 1e-3
    assert PUBLISHED_STEPS == (5e-4, 1e-3, 2e-3)


@pytest.mark.parametrize("step", PUBLISHED_STEPS)
def test_central_differences_in_the_coordinate(step):
    found = linearize(frozen_of(in_numpy), CENTER, "difference", step)
    by_log = (in_numpy(K * np.exp(step), M) - in_numpy(K * np.exp(-step), M)) / (2 * step)
    h = step * abs(M)  # relative to the center in linear coordinates
    by_linear = (in_numpy(K, M + h) - in_numpy(K, M - h)) / (2 * h)
    expected = np.column_stack([by_log, by_linear])
    # The rounding of a difference quotient is the smallest float over the step.
    np.testing.assert_allclose(found.jacobian, expected, rtol=0, atol=1e-15 * 8 / step)
    assert f"{step:g}" in found.source
    np.testing.assert_allclose(found.weighted_second(WEIGHTS), CURVATURE, rtol=1e-4, atol=1e-4)


def test_the_error_of_differences_falls_with_the_square_of_the_step():
    errors = [
        np.abs(linearize(frozen_of(in_numpy), CENTER, step=h).jacobian - J)[:, 0].max()
        for h in PUBLISHED_STEPS
    ]
    assert errors[1] / errors[0] == pytest.approx(4.0, rel=1e-3)
    assert errors[2] / errors[1] == pytest.approx(4.0, rel=1e-3)


def test_the_default_for_numpy_is_the_published_difference():
    auto = linearize(frozen_of(in_numpy), CENTER)
    asked = linearize(frozen_of(in_numpy), CENTER, "difference", 1e-3)
    assert auto.source == asked.source == "central differences, step 0.001"
    np.testing.assert_array_equal(auto.jacobian, asked.jacobian)


@in_double
def test_differences_may_be_asked_of_an_exact_residual():
    found = linearize(EXACT["JAX"][0], CENTER, "difference")
    assert "differences" in found.source
    np.testing.assert_allclose(found.jacobian, J, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "unit"),
    [
        (dict(truth=0.0, scale=0.5, bounds=(-1.0, 3.0)), 0.5),
        (dict(truth=-2.0, bounds=(-3.0, 3.0)), 2.0),
        (dict(truth=1.0, bounds=(0.0, 1e5)), 1.0),
    ],
    ids=["scale", "center", "center in wide bounds"],
)
def test_the_step_in_linear_coordinates_is_relative(settings, unit):
    called = []

    def residual(p):
        called.append(float(p))
        return A + p * F

    frozen = frozen_of(residual, {"p": ta.Parameter(coordinate="linear", **settings)})
    linearize(frozen, np.array([settings["truth"]]), check=False)
    moves = np.abs(np.array(called) - settings["truth"])
    assert moves.max() == pytest.approx(1e-3 * unit, rel=1e-12)


@pytest.mark.parametrize("center", [0.0, 1e-14, -1e-9])
def test_a_center_near_zero_does_not_drown_the_difference_in_rounding(center):
    near = {"p": ta.Parameter(truth=center, bounds=(-1.0, 1.0), coordinate="linear")}
    found = linearize(frozen_of(lambda p: A + p * F, near), np.array([center]))
    np.testing.assert_allclose(found.jacobian[:, 0], F, rtol=0, atol=1e-8)


def test_one_column_may_be_given_flat():
    frozen = frozen_of(lambda k: in_numpy(k, M), ONE, jacobian=lambda k: by_k(k, M))
    found = linearize(frozen, CENTER[:1], "exact")
    np.testing.assert_allclose(found.jacobian, J[:, :1], rtol=1e-14)


@in_double
@pytest.mark.parametrize("function", [in_jax, in_torch], ids=["JAX", "PyTorch"])
def test_several_equations(function):
    def both(k, m):
        whole = function(k, m)
        return whole[:10], whole[10:]

    frozen = ta.FrozenResidual(both, PARAMETERS, [X[:10], X[10:]])
    np.testing.assert_allclose(linearize(frozen, CENTER, "exact").jacobian, J, rtol=1e-13)


@in_double
@pytest.mark.parametrize("library", ["JAX", "PyTorch"])
def test_a_parameter_that_is_not_seen_has_a_column_of_zeros(library):
    array = jnp.asarray(A) if library == "JAX" else torch.tensor(A)
    frozen = frozen_of(lambda k, m: array * k)  # noqa: ARG005
    np.testing.assert_array_equal(linearize(frozen, CENTER, "exact").jacobian[:, 1], np.zeros(N))


@pytest.mark.parametrize(
    "lost",
    [
        lambda k: torch.tensor(A) + float(k) * torch.tensor(F),
        lambda k: torch.inference_mode()(lambda: torch.tensor(A) + k * torch.tensor(F))(),
    ],
    ids=["converted to a number", "inference mode"],
)
def test_a_tangent_that_the_residual_loses_is_not_a_zero_derivative(lost):
    # A number instead of a tensor, or inference mode, drops the derivative without a word.
    with pytest.warns(ta.AccuracyWarning, match="derivative by k"):
        found = linearize(frozen_of(lost, ONE), CENTER[:1])
    np.testing.assert_allclose(found.jacobian[:, 0], K * F, rtol=1e-5)


@in_double
@pytest.mark.parametrize("library", ["JAX", "PyTorch", "given"])
def test_a_derivative_that_is_zero_at_the_center_is_exact(library):
    # A stationary point: the residual changes with the parameter, to second order only.
    array = {"JAX": jnp, "PyTorch": torch, "given": np}[library].asarray
    frozen = frozen_of(
        lambda k: array(A) + (k - K) ** 2 * array(F), ONE,
        jacobian=(lambda k: 2 * (k - K) * F) if library == "given" else None,
    )  # fmt: skip
    found = linearize(frozen, CENTER[:1], "exact")
    assert library in found.source
    np.testing.assert_allclose(found.jacobian, 0, atol=1e-14)
    assert found.weighted_second(WEIGHTS)[0, 0] == pytest.approx(2 * K**2 * WEIGHTS @ F, rel=1e-5)


def test_subclasses_of_tensors_are_tensors():
    class Labelled(torch.Tensor):
        pass

    frozen = frozen_of(lambda k: (torch.tensor(A) + k * torch.tensor(F)).as_subclass(Labelled), ONE)
    assert "PyTorch" in linearize(frozen, CENTER[:1]).source


@settings(max_examples=30, deadline=None)
@given(p=st.floats(1e-3, 1e3), seed=st.integers(0, 2**32 - 1))
def test_log_slopes_are_p_times_linear_slopes(p, seed):
    a, f = np.random.default_rng(seed).normal(size=(2, N))
    bounds = (p / 3, 3 * p)

    def at(coordinate):
        parameter = ta.Parameter(truth=p, bounds=bounds, coordinate=coordinate)
        frozen = frozen_of(
            lambda k: a + k**1.5 * f, {"k": parameter}, jacobian=lambda k: 1.5 * k**0.5 * f
        )
        return linearize(frozen, frozen.coordinates({"k": p}))

    logarithmic, linear = at("log"), at("linear")
    np.testing.assert_allclose(logarithmic.jacobian, p * linear.jacobian, rtol=1e-12)
    # And the chain rule once more: r_qq = p^2 r_pp + p r_p.
    w = np.random.default_rng(seed + 1).normal(size=N)
    expected = p**2 * linear.weighted_second(w) + p * (w @ linear.jacobian)
    scale = p**1.5 * np.abs(w) @ np.abs(f)
    np.testing.assert_allclose(
        logarithmic.weighted_second(w), np.atleast_2d(expected), rtol=0, atol=1e-6 * scale
    )


def test_numpy_has_no_exact_derivative():
    with pytest.raises(ta.InputError, match=r"(?s)exact.*no jacobian.*JAX or PyTorch.*jacobian="):
        ta.score(in_numpy, PARAMETERS, POINTWISE, points=X, derivative="exact")

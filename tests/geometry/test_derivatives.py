"""First and second derivatives by the parameters: exact where they can be, differenced else."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import twoaxis as ta
from twoaxis.geometry.derivatives import PUBLISHED_STEPS, STEP, linearize

RNG = np.random.default_rng(0)
N = 30
X = np.linspace(0.0, 1.0, N)
A, F, G = RNG.normal(size=(3, N))
K, M = 0.7, -0.4  # the centre: k in log coordinates, m in linear ones
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


@pytest.fixture
def double():
    """JAX in double precision, for this test alone."""
    with jax.enable_x64(True):
        yield


in_double = pytest.mark.usefixtures("double")


def frozen_of(function, parameters=PARAMETERS, **more):
    return ta.FrozenResidual(function, parameters, X, **more)


EXACT = {
    "JAX": (frozen_of(in_jax), "JAX"),
    "JAX, compiled": (frozen_of(jax.jit(in_jax)), "JAX"),
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
def test_centred_differences_in_the_coordinate(step):
    found = linearize(frozen_of(in_numpy), CENTER, "difference", step)
    by_log = (in_numpy(K * np.exp(step), M) - in_numpy(K * np.exp(-step), M)) / (2 * step)
    h = step * abs(M)  # relative to the centre in linear coordinates
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
    ids=["scale", "centre", "centre in wide bounds"],
)
def test_the_step_in_linear_coordinates_is_relative(settings, unit):
    called = []

    def residual(p):
        called.append(float(p))
        return A + p * F

    frozen = frozen_of(residual, {"p": ta.Parameter(coordinate="linear", **settings)})
    linearize(frozen, np.array([settings["truth"]]))
    moves = np.abs(np.array(called) - settings["truth"])
    assert moves.max() == pytest.approx(1e-3 * unit, rel=1e-12)


@pytest.mark.parametrize("center", [0.0, 1e-14, -1e-9])
def test_a_centre_near_zero_does_not_drown_the_difference_in_rounding(center):
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
def test_a_derivative_that_is_zero_at_the_centre_is_exact(library):
    # A stationary point: the residual changes with the parameter, to second order only.
    array = {"JAX": jnp.asarray, "PyTorch": torch.tensor, "given": np.asarray}[library]
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


class Field(torch.nn.Module):
    """A small field u(x, t)."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(2, 16),
            torch.nn.Tanh(),
            torch.nn.Linear(16, 16),
            torch.nn.Tanh(),
            torch.nn.Linear(16, 1),
        ).double()

    def forward(self, xt):
        return self.layers(xt)


XT = torch.tensor(RNG.random((N, 2)))


def field_derivatives(net):
    points = XT.clone().requires_grad_(True)
    u = net(points)
    ones = torch.ones_like(u)
    first = torch.autograd.grad(u, points, ones, create_graph=True)[0]
    u_x, u_t = first[:, :1], first[:, 1:]
    u_xx = torch.autograd.grad(u_x, points, ones, create_graph=True)[0][:, :1]
    return u, u_x, u_t, u_xx


def burgers(net):
    def residual(nu):
        u, u_x, u_t, u_xx = field_derivatives(net)
        return u_t + u * u_x - nu * u_xx

    return residual


@pytest.mark.parametrize("training", [True, False])
def test_a_torch_network_with_gradients_inside_the_residual(training):
    net = Field().train(training)
    marked = torch.ones_like(net.layers[0].weight)
    net.layers[0].weight.grad = marked.clone()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    u, u_x, u_t, u_xx = (part.detach().numpy()[:, 0] for part in field_derivatives(net))
    parameters = {"nu": ta.Parameter(truth=0.01, bounds=(0.002, 0.05))}
    found = ta.score(burgers(net), parameters, POINTWISE, points=XT, derivative="exact")
    slope, values = -0.01 * u_xx, u_t + u * u_x - 0.01 * u_xx
    assert found.derivative == "exact, by PyTorch"
    assert pytest.approx(slope @ slope / N, rel=1e-13) == found.H
    assert pytest.approx(slope @ values / N, rel=1e-13) == found.B
    assert pytest.approx(slope @ values / N, rel=1e-10) == found.C  # affine in nu: C = B
    scan = ta.frozen_scan(burgers(net), parameters, POINTWISE, points=XT)
    assert scan.affine
    # Nothing of the network has changed, and no gradient was added anywhere.
    assert net.training is training
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert torch.equal(net.layers[0].weight.grad, marked)
    others = [p for name, p in net.named_parameters() if name != "layers.0.weight"]
    assert all(p.grad is None and p.requires_grad for p in others)


def test_a_torch_network_in_single_precision():
    net = Field().float()
    points = XT.float()

    def residual(nu):
        x = points.clone().requires_grad_(True)
        u = net(x)
        first = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
        return first[:, 1:] - nu * first[:, :1]

    parameters = {"nu": ta.Parameter(truth=0.5, bounds=(0.1, 2.0))}
    found = ta.score(residual, parameters, POINTWISE, points=points, derivative="exact")
    x = points.clone().requires_grad_(True)
    u = net(x)
    slope = -0.5 * torch.autograd.grad(u, x, torch.ones_like(u))[0][:, 0].double().numpy()
    assert pytest.approx(slope @ slope / N, rel=1e-6) == found.H


ALONE = """
import warnings, jax.numpy as jnp, numpy as np, torch, twoaxis as ta
warnings.simplefilter("error")
a, f = np.random.default_rng(0).normal(size=(2, 30)).astype(np.float32)
parameters = {"k": ta.Parameter(truth=0.7, bounds=(0.1, 4.0))}
for array in (jnp.asarray, torch.tensor):
    found = ta.score(
        lambda k: array(a) + k * array(f), parameters, ta.views.Pointwise(),
        points=np.arange(30.0), derivative="exact",
    )
    expected = 0.49 * np.mean(f.astype(float) ** 2)
    assert abs(found.H / expected - 1) < 1e-6, (found.H, expected)
print("quiet")
"""


def test_single_precision_and_no_warnings():
    # In a process of its own: JAX with its default precision, and everything loaded anew.
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    assert done.stdout == "quiet\n", done.stderr


def test_numpy_has_no_exact_derivative():
    with pytest.raises(ta.InputError, match=r"(?s)exact.*no jacobian.*JAX or PyTorch.*jacobian="):
        ta.score(in_numpy, PARAMETERS, POINTWISE, points=X, derivative="exact")

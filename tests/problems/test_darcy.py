"""Darcy against its equation in divergence form, the manufactured field and the coupling."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from twoaxis.problems import DARCY, truth_of

POINTS = np.random.default_rng(2).random((200, 2))
X, Y = POINTS.T
STEP = 1e-40j  # a complex step: derivatives of analytic functions, exact to rounding


def log_permeability(x, y, lambda_0, lambda_1):
    return lambda_0 + lambda_1 * np.sin(np.pi * x) * np.sin(np.pi * y)


def minus_divergence(u_x, u_y, lambda_0, lambda_1):
    """``-(k u_x)_x - (k u_y)_y`` at the points, for gradients given as functions."""

    def flux_x(x):
        return np.exp(log_permeability(x, Y, lambda_0, lambda_1)) * u_x(x, Y)

    def flux_y(y):
        return np.exp(log_permeability(X, y, lambda_0, lambda_1)) * u_y(X, y)

    return -(np.imag(flux_x(X + STEP)) + np.imag(flux_y(Y + STEP))) / STEP.imag


def true_derivatives(points):
    """Derivatives of ``sin(pi x) sin(2 pi y)``."""
    x, y = np.pi * points.T
    u = np.sin(x) * np.sin(2 * y)
    return {
        "u": u,
        "u_x": np.pi * np.cos(x) * np.sin(2 * y),
        "u_y": 2 * np.pi * np.sin(x) * np.cos(2 * y),
        "u_xx": -(np.pi**2) * u,
        "u_yy": -4 * np.pi**2 * u,
    }


def test_source_makes_the_manufactured_field_exact():
    def u_x(x, y):
        return np.pi * np.cos(np.pi * x) * np.sin(2 * np.pi * y)

    def u_y(x, y):
        return 2 * np.pi * np.sin(np.pi * x) * np.cos(2 * np.pi * y)

    wanted = minus_divergence(u_x, u_y, 0.15, 0.85)
    scale = abs(wanted).max()
    assert_allclose(DARCY.source(X, Y), wanted, rtol=0, atol=1e-14 * scale)
    residual = DARCY.residual(
        **true_derivatives(POINTS), **DARCY.coefficients(POINTS), **truth_of(DARCY)
    )
    assert abs(residual).max() < 1e-12 * scale


@pytest.mark.parametrize(("lambda_0", "lambda_1"), [(0.15, 0.85), (-1.5, 2.5), (0.4, -1.0)])
def test_residual_is_the_equation_for_any_field(lambda_0, lambda_1):
    """The field is ``v = exp(x) cos(3 y)``, another than the manufactured one."""
    v = np.exp(X) * np.cos(3 * Y)
    residual = DARCY.residual(
        u=v,
        u_x=v,
        u_y=-3 * np.exp(X) * np.sin(3 * Y),
        u_xx=v,
        u_yy=-9 * v,
        **DARCY.coefficients(POINTS),
        lambda_0=lambda_0,
        lambda_1=lambda_1,
    )
    by_hand = minus_divergence(
        lambda x, y: np.exp(x) * np.cos(3 * y),
        lambda x, y: -3 * np.exp(x) * np.sin(3 * y),
        lambda_0,
        lambda_1,
    ) - DARCY.source(X, Y)
    assert_allclose(residual, by_hand, rtol=0, atol=1e-14 * abs(by_hand).max())


def test_field_and_permeability():
    assert_allclose(DARCY.field(X, Y), true_derivatives(POINTS)["u"], rtol=1e-13)
    ends, along = np.array([[0.0], [1.0]]), np.linspace(0, 1, 7)
    for boundary in (DARCY.field(ends, along), DARCY.field(along, ends)):
        assert_allclose(boundary, 0, atol=1e-15)
    k = DARCY.permeability(X, Y, lambda_0=0.3, lambda_1=-0.6)
    assert_allclose(np.log(k), log_permeability(X, Y, 0.3, -0.6), rtol=0, atol=1e-15)


def test_coupling_of_the_two_unknowns_at_the_truth():
    """``|H_01| / sqrt(H_00 H_11)`` of the pointwise residual on a dense, even sample."""
    middles = (np.arange(300) + 0.5) / 300
    points = np.stack(np.meshgrid(middles, middles), axis=-1).reshape(-1, 2)
    known = {**true_derivatives(points), **DARCY.coefficients(points)}
    truth = truth_of(DARCY)
    jacobian = np.stack(
        [
            np.imag(DARCY.residual(**known, **(truth | {name: value + STEP}))) / STEP.imag
            for name, value in truth.items()
        ]
    )
    H = jacobian @ jacobian.T
    assert abs(H[0, 1]) / np.sqrt(H[0, 0] * H[1, 1]) == pytest.approx(0.887, abs=0.005)

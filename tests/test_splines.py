"""Tensor products of B-splines against polynomials, which they hold exactly."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from twoaxis.splines import TensorSplines, orders_up_to

PLACES = np.random.default_rng(0).uniform([0, -1], [2, 1], (40, 2))


def quintic(x, t):
    return x**5 - 2 * x**2 * t**3 + t - 0.5


def holding(splines, function):
    """Return the coefficients of a function that the splines hold, by interpolation."""
    points, _ = splines.gauss()
    (design,) = splines.design(points, [(0, 0)])
    found = np.linalg.lstsq(design.toarray(), function(*points.T), rcond=None)[0]
    return found[:, None]


@pytest.fixture(scope="module")
def splines():
    return TensorSplines.on_box([0, -1], [2, 1], [4, 3])


def test_derivatives_of_a_polynomial(splines):
    coefficients = holding(splines, quintic)
    x, t = PLACES.T
    expected = {
        (0, 0): quintic(x, t),
        (1, 0): 5 * x**4 - 4 * x * t**3,
        (2, 1): -12 * t**2,
        (0, 3): -12 * x**2,
        (4, 0): 120 * x,
    }
    found = splines.design(PLACES, list(expected))
    for matrix, values in zip(found, expected.values(), strict=True):
        assert_allclose((matrix @ coefficients)[:, 0], values, rtol=1e-7, atol=1e-7)


def test_the_same_field_on_finer_cells(splines):
    coefficients = np.random.default_rng(1).standard_normal((splines.size, 2))
    axes = (splines.axes[0].bisected(np.array([True, False, True, False])), splines.axes[1])
    finer = TensorSplines(axes)
    assert finer.size > splines.size
    before, after = (each.design(PLACES, [(1, 1)])[0] for each in (splines, finer))
    moved = splines.prolonged(coefficients, finer)
    assert_allclose(after @ moved, before @ coefficients, atol=1e-10)


def test_gauss_weights_integrate(splines):
    points, weights = splines.gauss()
    assert_allclose(weights.sum(), 1.0)
    # The mean of x^2 t^4 over the box: 4/3 times 1/5.
    assert_allclose(weights @ (points[:, 0] ** 2 * points[:, 1] ** 4), 4 / 15, rtol=1e-12)


def test_roughness_is_the_mean_square_of_third_derivatives(splines):
    coefficients = holding(splines, lambda x, t: x**3 + 2 * t**3)
    rough = splines.roughness() @ coefficients
    # Lengths of the box are two: third derivatives are 8 times 6 and 8 times 12.
    assert_allclose((rough**2).sum(), 48**2 + 96**2, rtol=1e-8)
    faces = [rows @ coefficients for rows in splines.face_roughness()]
    assert_allclose([(each**2).sum() for each in faces], [96**2, 96**2, 48**2, 48**2], rtol=1e-8)
    assert TensorSplines.on_box([0], [1], [4]).face_roughness() == []


def test_beyond_the_ends_the_last_polynomial_goes_on(splines):
    coefficients = holding(splines, quintic)
    (design,) = splines.design(np.array([[2.1, -1.2]]), [(0, 0)])
    assert_allclose(design @ coefficients, [[quintic(2.1, -1.2)]], rtol=1e-6)


def test_orders():
    assert orders_up_to(1, 2) == [(0,), (1,), (2,)]
    assert len(orders_up_to(3, 4)) == 35

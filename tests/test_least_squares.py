"""The batched Levenberg–Marquardt against SciPy, one problem at a time."""

import numpy as np
import pytest
from scipy.optimize import least_squares

from twoaxis.least_squares import minimize

T = np.linspace(0, 3, 40)
LOWER, UPPER = np.array([0.1, 0.1]), np.array([4.0, 8.0])


def model(q):
    return np.exp(-q[..., :1] * T) * np.cos(q[..., 1:] * T)


def slopes(q):
    step = 1e-6 * np.eye(2)
    return np.stack([(model(q + s) - model(q - s)) / 2e-6 for s in step], axis=-1)


def solved(data, start, **options):
    return minimize(
        lambda q, which: data[which] - model(q),
        lambda q, r, which: slopes(q),  # noqa: ARG005
        start,
        LOWER,
        UPPER,
        **options,
    )


@pytest.fixture
def data():
    noise = np.random.default_rng(0).standard_normal((25, len(T)))
    return 10 * (model(np.array([0.5, 3.0])) + 0.1 * noise) / 10


def test_every_problem_ends_where_scipy_ends(data):
    start = np.tile([0.8, 2.7], (25, 1))
    found = solved(data, start, gain_atol=1e-14)
    assert found.converged.all()
    for row, q, chi2 in zip(data, found.q, found.chi2, strict=True):
        expected = least_squares(
            lambda p, row=row: row - model(p),
            [0.8, 2.7],
            bounds=(LOWER, UPPER),
            xtol=1e-14,
            ftol=1e-14,
            gtol=1e-14,
        )
        np.testing.assert_allclose(q, expected.x, rtol=1e-6)
        assert chi2 == pytest.approx(2 * expected.cost, rel=1e-10)


def test_a_batch_equals_the_problems_alone(data):
    start = np.random.default_rng(1).uniform([0.2, 2.5], [1.5, 3.5], (25, 2))
    together = solved(data, start)
    for k in range(25):
        alone = solved(data[k : k + 1], start[k : k + 1])
        np.testing.assert_allclose(alone.q[0], together.q[k], rtol=1e-12)


def test_a_minimum_outside_the_box_ends_on_its_face():
    data = model(np.array([[0.5, 9.0]]))  # beyond the upper bound of the second coordinate
    start = np.array([[0.6, 7.9]])
    found = solved(data, start)
    expected = least_squares(lambda p: data[0] - model(p), start[0], bounds=(LOWER, UPPER))
    assert found.converged.all()
    assert found.q[0, 1] == UPPER[1]
    np.testing.assert_allclose(found.q[0], expected.x, rtol=1e-4)


def test_held_coordinates_do_not_move(data):
    start = np.tile([0.5, 2.9], (25, 1))
    found = solved(data, start, free=np.array([True, False]))
    assert (found.q[:, 1] == 2.9).all()
    for row, q in zip(data, found.q, strict=True):
        expected = least_squares(lambda p, row=row: row - model(np.array([p[0], 2.9])), [0.5])
        assert q[0] == pytest.approx(expected.x[0], rel=1e-4)


def test_steps_into_failure_are_refused(data):
    def misfit(q, which):
        values = data[which] - model(q)
        values[q[:, 0] < 0.4] = np.nan  # the model fails there
        return values

    start = np.tile([2.5, 3.0], (25, 1))
    found = minimize(misfit, lambda q, r, which: slopes(q), start, LOWER, UPPER)  # noqa: ARG005
    assert np.isfinite(found.chi2).all()
    assert (found.q[:, 0] >= 0.4).all()


def test_a_start_that_fails_is_reported_as_not_converged():
    found = minimize(
        lambda q, which: np.full((len(q), len(T)), np.nan),  # noqa: ARG005
        lambda q, r, which: slopes(q),  # noqa: ARG005
        np.array([[1.0, 1.0]]),
        LOWER,
        UPPER,
    )
    assert not found.converged.any()
    assert np.isinf(found.chi2).all()


def test_a_metric_weighs_the_misfit(data):
    factor = np.random.default_rng(2).standard_normal((len(T), len(T)))
    metric = factor @ factor.T / len(T)
    start = np.tile([0.6, 2.9], (25, 1))
    found = solved(data, start, metric=lambda v: v @ metric)
    for row, q, value in zip(data[:5], found.q, found.chi2, strict=False):
        expected = least_squares(
            lambda p, row=row: factor.T @ (row - model(p)) / np.sqrt(len(T)), [0.6, 2.9]
        )
        np.testing.assert_allclose(q, expected.x, rtol=1e-4)
        assert value == pytest.approx(2 * expected.cost, rel=1e-8)

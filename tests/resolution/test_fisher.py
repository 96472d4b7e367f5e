"""Information, poorly resolved directions and the check of the derivative."""

import numpy as np
import pytest

import twoaxis as ta

X = np.linspace(-1, 1, 25)


def test_poorly_resolved_means_that_one_standard_error_leaves_the_bounds():
    def forward(a):
        return a * X

    information = (X / 0.5) @ (X / 0.5)  # noise 0.5, truth 1: log sensitivity is X
    error = 1 / np.sqrt(information)
    for factor, poorly in ((1.05, False), (0.95, True)):
        bounds = (np.exp(-factor * error), np.exp(factor * error))
        found = ta.resolve(
            forward, {"a": ta.Parameter(truth=1.0, bounds=bounds)}, 0.5, replicas=3, validate=0
        )
        assert found.directions()["poorly_resolved"].tolist() == [poorly]
        assert found.directions()["standard_error_percent"].tolist() == [
            pytest.approx(100 * error, rel=1e-6)
        ]
        codes = [m.code for m in found.messages]
        assert ("resolution.poorly_resolved" in codes) == poorly


def test_directions_are_eigenvectors_least_resolved_first():
    def forward(a, b):
        return a * X + b * X**2

    parameters = {
        "a": ta.Parameter(truth=1.0, bounds=(1e-3, 1e3)),
        "b": ta.Parameter(truth=1.0, bounds=(1e-3, 1e3)),
    }
    found = ta.resolve(forward, parameters, 0.3, replicas=2)
    slopes = np.column_stack([X, X**2]) / 0.3
    values, vectors = np.linalg.eigh(slopes.T @ slopes)
    table = found.directions()
    np.testing.assert_allclose(table["standard_error_percent"], 100 / np.sqrt(values), rtol=1e-6)
    for row in range(2):
        alignment = table[["a", "b"]].to_numpy()[row] @ vectors[:, row]
        assert abs(alignment) == pytest.approx(1)


def test_more_unknowns_than_observations_leave_a_null_direction():
    parameters = {n: ta.Parameter(truth=1.0, bounds=(0.1, 10)) for n in "abc"}
    found = ta.resolve(
        lambda a, b, c: np.array([a + b, b + c]), parameters, 0.1, replicas=3, seed=1
    )
    assert found.directions()["poorly_resolved"].tolist() == [True, False, False]
    assert np.isinf(found.fisher_error_percent).all()


def test_a_model_with_a_jump_beside_the_center_is_reported():
    def stepped(a):
        return a * X + (a > 1.0008)

    with pytest.warns(ta.AccuracyWarning):
        found = ta.resolve(
            stepped, {"a": ta.Parameter(truth=1.0, bounds=(0.5, 2))}, 0.1, replicas=2, validate=0
        )
    error = float(found.data["derivative_error"].squeeze())
    assert error > 0.01
    (message,) = [m for m in found.messages if m.code == "resolution.derivative"]
    assert message.numbers["change_percent"] == pytest.approx(100 * error)

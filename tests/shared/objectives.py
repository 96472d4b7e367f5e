"""An objective against the library that it is made of, and against differences."""

import numpy as np
import pytest


def assert_is_training_loss(frozen, library_loss, rtol=1e-5):
    """The value is the library's own; the gradient is that of central differences."""
    objective = frozen.objective
    assert objective.names == frozen.names
    start = objective.start
    assert start.dtype == np.float64
    value, gradient = objective.value_and_gradient(start)
    assert value == pytest.approx(library_loss, rel=rtol)
    size = start.size - len(frozen.names)
    assert list(objective.positions.values()) == list(range(size, start.size))
    directions = [np.eye(start.size)[place] for place in objective.positions.values()]
    weights = np.random.default_rng(0).standard_normal(start.size)
    weights[size:] = 0
    for direction in (*directions, weights / np.linalg.norm(weights)):
        step = 1e-5
        ahead, behind = (
            objective.value_and_gradient(start + sign * step * direction)[0] for sign in (1, -1)
        )
        assert (ahead - behind) / (2 * step) == pytest.approx(
            gradient @ direction, rel=1e-5, abs=1e-9 * abs(value) / step
        )
    assert np.abs(gradient[:size]).max() > 0
    # A state without a change has the residual of the model itself.
    again = objective.frozen(start)
    here = frozen.coordinates({name: p.delivered for name, p in frozen.parameters.items()})
    np.testing.assert_allclose(again.at(here), frozen.at(here), rtol=1e-4, atol=1e-5)
    moved = objective.frozen(start + 0.01)
    assert np.abs(moved.at(here) - again.at(here)).max() > 0
    for name, parameter in moved.parameters.items():
        known = frozen.parameters[name]
        place = objective.positions[name]
        assert parameter.delivered == pytest.approx(known.to_value(start[place] + 0.01))
    np.testing.assert_array_equal(objective.value_and_gradient(start)[1], gradient)

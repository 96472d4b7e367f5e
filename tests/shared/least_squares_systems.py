"""The weights of a frozen residual against the residual itself and against differences."""

import numpy as np

TOLERANCE = 1e-6


def slope(function, start, direction, step=1e-5):
    return (function(start + step * direction) - function(start - step * direction)) / (2 * step)


def assert_close(found, wanted):
    scale = np.abs(wanted).max()
    assert scale > 0
    np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE * scale)


def assert_is_least_squares_system(frozen, points=None):
    """Values are those of the frozen residual; Jacobians are those of central differences."""
    system, names = frozen.weights, frozen.names
    start = system.start
    assert start.dtype == np.float64
    given = start.copy()
    values = {name: p.delivered for name, p in frozen.parameters.items()}
    own = system.residual(start, frozen.points, **values)
    np.testing.assert_allclose(own, frozen.at(frozen.coordinates(values)), rtol=1e-4, atol=1e-5)
    where = frozen.points if points is None else points
    by_weights, by_parameters = system.residual_jacobian(start, where, **values)
    count = len(system.residual(start, where, **values))
    assert by_weights.shape == (count, start.size)
    assert by_parameters.shape == (count, len(names))
    directions = np.random.default_rng(0).standard_normal((3, start.size))
    for direction in directions / np.linalg.norm(directions, axis=1)[:, None]:
        found = slope(lambda w: system.residual(w, where, **values), start, direction)
        assert_close(by_weights @ direction, found)
        if system.observed is not None:
            found = slope(lambda w: system.field(w).ravel(), start, direction)
            assert_close(system.field_jacobian(start) @ direction, found)
        if np.any(system.conditions(start)):
            found = slope(system.conditions, start, direction)
            assert_close(system.conditions_jacobian(start) @ direction, found)
    for column, name in enumerate(names):

        def moved(value, name=name):
            return system.residual(start, where, **{**values, name: value})

        found = slope(moved, values[name], values[name])
        np.testing.assert_allclose(
            by_parameters[:, column] * values[name],
            found,
            rtol=0,
            atol=TOLERANCE * max(np.abs(found).max(), np.abs(own).max()),
        )
    if frozen.fitted is not None:
        assert system.field(start).shape == frozen.fitted.shape
        np.testing.assert_allclose(system.field(start), frozen.fitted, rtol=1e-4, atol=1e-5)
    assert_carries_all(frozen, values)
    np.testing.assert_array_equal(start, given)


def assert_carries_all(frozen, values):
    """Another state is a frozen residual with all that the first one has."""
    system = frozen.weights
    there = system.start + 0.01
    other = {name: 1.1 * value for name, value in values.items()}
    state = system.frozen(there, other)
    for name, parameter in state.parameters.items():
        assert parameter.delivered == other[name]
    np.testing.assert_allclose(
        state.at(state.coordinates(other)), system.residual(there, frozen.points, **other),
        rtol=1e-9, atol=1e-9,
    )  # fmt: skip
    if frozen.fitted is not None:
        np.testing.assert_allclose(state.fitted, system.field(there), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(state.observed, frozen.observed)
        assert (state.data is None) == (frozen.data is None)
    for name in ("axes", "fields", "equations", "field_name"):
        assert getattr(state, name) == getattr(frozen, name)
    assert repr(state.view) == repr(frozen.view)
    assert (state.objective is None) == (frozen.objective is None)
    np.testing.assert_array_equal(state.weights.start, there)
    np.testing.assert_array_equal(state.weights.conditions(there), system.conditions(there))

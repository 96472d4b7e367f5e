"""Stored unknowns and transforms on a model in plain NumPy, where everything is known."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.adapters.unknowns import (
    Arithmetic,
    FrozenEquations,
    Model,
    read_unknown,
    with_delivered,
)

X = np.linspace(0, 1, 5)


class Numbers(Arithmetic):
    """Derivatives by complex steps, exact to rounding."""

    def slope(self, function, at):
        moved = function(at + 1e-30j)
        return float(moved.real), float(moved.imag / 1e-30)

    def call(self, function, *arrays):
        return float(function(*arrays))


class Line(Model):
    """Two equations of the stored a and b; c is not used, d has no derivative."""

    own = precision = "float64"
    weights = np.empty(0)

    def moved(self, weights):
        raise NotImplementedError("a line has no weights")

    def network(self):
        raise NotImplementedError("a line has no network")

    def equations(self, points, stored):
        a, b, d = (stored.get(name, 1.0) for name in "abd")
        return [np.stack([a * points, points - b], axis=1), (a * b * d + points)[:, None]]

    def derivatives(self, points, stored):
        a, b, d = (stored.get(name, 1.0) for name in "abd")
        one, zero = np.ones_like(points), np.zeros_like(points)
        by_name = {
            "a": [np.stack([points, zero], axis=1), (b * d * one)[:, None]],
            "b": [np.stack([zero, -one], axis=1), (a * d * one)[:, None]],
        }
        nothing = [np.zeros((len(points), 2)), np.zeros((len(points), 1))]
        columns = [by_name.get(name, nothing) for name in stored]
        return [np.stack(parts, axis=-1) for parts in zip(*columns, strict=True)]


def unknown(name, start, transform=None):
    return read_unknown(name, name, start, Numbers(), transform)


KNOWN = {name: ta.Parameter(bounds=(0.1, 10.0)) for name in "abcd"}


@pytest.mark.parametrize("transform", [np.exp, (np.exp, np.log)], ids=["alone", "with inverse"])
def test_chain_rule_through_a_transform(transform):
    equations = FrozenEquations(Line(), [unknown("a", 0.0, transform), unknown("b", 2.0)])
    values = {"a": 3.0, "b": 0.5}
    a = np.log(3.0)  # what is stored
    parts = equations.residual(X, values)
    for part, expected in zip(parts, (a * X, X - 0.5, 0.5 * a + X), strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-8)
    one, zero = np.ones_like(X), np.zeros_like(X)
    # By the physical a = exp(s): da/ds = a, so that every derivative by s is divided by 3.
    expected = np.column_stack(
        [np.concatenate([X, zero, 0.5 * one]) / 3, np.concatenate([zero, -one, a * one])]
    )
    np.testing.assert_allclose(equations.jacobian(X, values), expected, rtol=1e-8, atol=1e-12)


def test_the_first_points_can_be_left_out():
    equations = FrozenEquations(Line(), [unknown("a", 1.0)], skipped=2)
    assert [len(part) for part in equations.residual(X, {"a": 1.0})] == [3, 3, 3]
    assert equations.jacobian(X, {"a": 1.0}).shape == (9, 1)


def test_influence():
    equations = FrozenEquations(Line(), [unknown(name, 1.0) for name in "abcd"])
    found = equations.check(X, KNOWN)
    assert (found.widths, found.unseen, found.lost) == ([2, 1], ["c"], ["d"])
    assert [note.code for note in found.notes()] == ["parameter.unseen", "parameter.differences"]


@pytest.mark.parametrize(
    ("transform", "value"),
    [
        (lambda s: 2 + 1.5 * np.tanh(s), 3.4),
        (lambda s: s**2, 0.01),
        (lambda s: 1 / s, 80.0),
        (lambda s: 1e-3 * s, -5.0),
    ],
)
def test_a_transform_is_inverted(transform, value):
    stored = unknown("k", 0.7, transform).stored(value)
    assert transform(stored) == pytest.approx(value, rel=1e-8)


def test_bad_transforms_and_numbers():
    with pytest.raises(ta.InputError, match="values of k that its transform can reach"):
        unknown("k", 0.0, np.tanh).stored(2.0)
    with pytest.raises(ta.InputError, match="second function inverts its first"):
        unknown("k", 0.0, (np.exp, np.exp)).stored(2.0)
    with pytest.raises(ta.InputError, match="a function, or a function and its inverse"):
        unknown("k", 0.0, "exp")
    with pytest.raises(ta.InputError, match="one number stored for k"):
        unknown("k", [1.0, 2.0])
    with pytest.raises(ta.InputError, match="a finite value of k"):
        unknown("k", np.nan)


def test_delivered_values():
    each = unknown("k", 0.0, np.exp)
    parameter, notes = with_delivered(ta.Parameter(bounds=(0.1, 10.0)), each)
    assert (parameter.delivered, notes) == (1.0, [])
    given = ta.Parameter(bounds=(0.1, 10.0), delivered=2.0)
    parameter, (note,) = with_delivered(given, each)
    assert (parameter, note.code) == (given, "delivered.given")
    assert note.numbers == {"given": 2.0, "held": 1.0}
    with pytest.raises(ta.InputError, match="k: delivered inside the bounds"):
        with_delivered(ta.Parameter(bounds=(2.0, 10.0)), each)

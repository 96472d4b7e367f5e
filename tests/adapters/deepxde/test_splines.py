"""DeepXDE models on PyTorch, refined with a field of splines in the place of their network."""

import deepxde as dde
import numpy as np
import pytest
import torch
from refined_fields import DECAY, HEAT, assert_refined_as_least_squares

import twoaxis as ta
from twoaxis.adapters.deepxde import from_deepxde

RATE = ta.Parameter(bounds=(0.1, 10))


def network(*sizes):
    return dde.nn.FNN([*sizes], "tanh", "Glorot uniform")


def decay(problems, net, imposed=(), seen=True):
    """u' = -rate u, u(0) = 1."""
    dde.config.set_random_seed(0)
    rate = dde.Variable(2.0)

    def equation(t, u):
        return dde.grad.jacobian(u, t) + rate * u

    geometry = dde.geometry.TimeDomain(0, 2)
    conditions = [condition(geometry, rate) for condition in imposed]
    if seen:
        conditions.insert(0, dde.icbc.PointSetBC(DECAY.points, DECAY.readings))
    data = dde.data.PDE(geometry, equation, conditions, num_domain=40, num_boundary=4)
    model = problems.trained(data, net, [rate], steps=20)
    return from_deepxde(model, {"rate": (rate, RATE)})


def at_start(geometry, _):
    return dde.icbc.IC(geometry, lambda t: np.ones((len(t), 1)), lambda _, on: on)


def hard(net):
    net.apply_feature_transform(lambda t: t - 1)
    net.apply_output_transform(lambda t, u: 1 + t * u)
    return net


def test_a_transform_that_imposes_a_condition(problems):
    net = hard(network(1, 12, 12, 1))
    frozen = decay(problems, net)
    found = assert_refined_as_least_squares(frozen, DECAY, within=0.02)
    assert found.frozen.fitted.shape == (15,)
    first = np.argmin(found.frozen.points[:, 0])
    assert found.frozen.points[first, 0] == 0
    assert found.frozen.field[first] == pytest.approx(1, abs=1e-12)
    assert net._output_transform is not None  # the user's network is left as it was


@pytest.mark.parametrize("seen", [True, False])
def test_a_soft_condition(problems, seen):
    frozen = decay(problems, network(1, 12, 12, 1), [at_start], seen)
    assert frozen.weights.slot().conditions is not None
    assert_refined_as_least_squares(frozen, DECAY, within=0.02)


def test_space_and_time(problems):
    """u_t = k u_xx with three kinds of conditions."""
    dde.config.set_random_seed(1)
    k = dde.Variable(0.4)

    def equation(x, u):
        return dde.grad.jacobian(u, x, j=1) - k * dde.grad.hessian(u, x, i=0, j=0)

    space, time = dde.geometry.Interval(0, 1), dde.geometry.TimeDomain(0, 1)
    geometry = dde.geometry.GeometryXTime(space, time)

    def left(x, on):
        return on and np.isclose(x[0], 0)

    def middle(x, on):
        return on and np.isclose(x[0], 1)

    conditions = [
        dde.icbc.DirichletBC(geometry, lambda _: 0, left),
        dde.icbc.PointSetBC(HEAT.points, HEAT.readings),
        dde.icbc.OperatorBC(geometry, lambda x, u, _: u * (1 + x[:, :1]), middle),
        dde.icbc.IC(geometry, lambda x: np.sin(np.pi * x[:, :1]), lambda _, on: on),
    ]
    data = dde.data.TimePDE(
        geometry, equation, conditions, num_domain=120, num_boundary=30, num_initial=20
    )
    model = problems.trained(data, network(2, 12, 12, 1), [k], steps=20)
    frozen = from_deepxde(model, {"k": (k, ta.Parameter(bounds=(0.01, 3)))})
    assert_refined_as_least_squares(frozen, HEAT, within=0.1)


def test_conditions_of_a_field_are_those_of_the_network(burgers_model):
    """At their own points alone, each of which needs no other."""
    frozen = from_deepxde(burgers_model.model, {"nu": burgers_model.nu})
    system, slot = frozen.weights, frozen.weights.slot()
    nowhere, numbers = np.zeros((1, 1)), system.numbers({"nu": 0.05})[0]
    wanted = system.conditions(system.start)
    np.testing.assert_allclose(slot.conditions.of_network(numbers, nowhere)[:, 0], wanted)
    places = slot.conditions.places(numbers, nowhere)
    assert len(places) == len(wanted)
    values = slot.network(places)
    found = slot.conditions.values(values[None], [(0, 0)], numbers, nowhere)
    np.testing.assert_allclose(found[:, 0], wanted)
    slot.conditions.linearized(values[None], [(0, 0)], numbers, nowhere)
    assert slot.conditions.pointwise


def test_a_condition_with_pairs_of_points(problems):
    def period(geometry, _):
        return dde.icbc.PeriodicBC(geometry, 0, lambda _, on: on)

    slot = decay(problems, network(1, 8, 1), [period]).weights.slot()
    conditions, nowhere = slot.conditions, np.zeros((1, 1))
    places = conditions.places(np.ones(1), nowhere)
    jets = places.T[..., None] ** 2  # of the field t^2
    found = conditions.linearized(jets, [(0,)], np.ones(1), nowhere)
    assert conditions.pointwise  # row n needs the places n and n + N
    half = len(places) // 2
    assert found.values.shape == (half, 1)
    np.testing.assert_allclose(np.abs(found.values) * half**0.5, 4)
    np.testing.assert_allclose(np.abs(found.by_jets) * half**0.5, 1)


def test_where_a_field_has_no_place(problems, monkeypatch):
    """Features that are no coordinates, an unknown in a condition, and forward derivatives."""
    net = network(2, 8, 1)
    net.apply_feature_transform(lambda t: torch.cat([torch.sin(t), torch.cos(t)], dim=1))
    assert decay(problems, net).weights.slot() is None

    def grown(geometry, rate):
        return dde.icbc.OperatorBC(geometry, lambda _, u, __: u - rate, lambda _, on: on)

    assert decay(problems, network(1, 8, 1), [grown]).weights.slot() is None
    frozen = decay(problems, network(1, 8, 1))
    assert frozen.weights.slot() is not None
    monkeypatch.setattr(dde.config, "autodiff", "forward")
    assert frozen.weights.slot() is None


def test_transforms_of_an_inner_network(problems):
    """A module around a network of DeepXDE, whose own transform is kept."""

    class Around(dde.nn.NN):
        def __init__(self):
            super().__init__()
            self.part = hard(network(1, 8, 1))

        def forward(self, t):
            return 2 * self.part(t)

    slot = decay(problems, Around()).weights.slot()
    zero = slot.observed.values(np.zeros((1, 3, 1)), [(0,)], np.ones(1), np.ones((3, 1)))
    np.testing.assert_allclose(zero, 2.0)

"""DeepXDE models on PyTorch as least-squares systems in their weights."""

import copy

import deepxde as dde
import numpy as np
import pytest
import torch
from bad_refinements import assert_bad_refinements_are_told
from least_squares_systems import assert_is_least_squares_system

import twoaxis as ta
from twoaxis.adapters.deepxde import from_deepxde

ONE_PASS = "one backward pass, with a copy of the weights for each point"
LORENZ = {
    "sigma": ta.Parameter(truth=10.0, bounds=(1, 100)),
    "rho": ta.Parameter(truth=28.0, bounds=(3, 300)),
    "beta": ta.Parameter(truth=8 / 3, bounds=(0.3, 30)),
}


def own_losses(model):
    """The terms of the training loss as DeepXDE computes them, without their weights."""
    state = model.train_state
    losses = model.outputs_losses_train(state.X_train, state.y_train, state.train_aux_vars)[1]
    factors = 1 if model.loss_weights is None else torch.as_tensor(model.loss_weights)
    return (losses.detach() / factors).numpy()


@pytest.mark.parametrize("precision", ["float64", "model"])
def test_several_equations_and_fields(lorenz_model, precision):
    case = lorenz_model
    before = {name: value.clone() for name, value in case.model.net.state_dict().items()}
    frozen = from_deepxde(case.model, LORENZ, unknowns=case.variables, precision=precision)
    assert frozen.data.shape == (12, 3)
    assert_is_least_squares_system(frozen)
    system = frozen.weights
    assert system.how == ONE_PASS
    # The output transform holds the start exactly, so that its misfit is zero at any weights.
    assert np.abs(system.conditions(system.start + 0.1)).max() < 1e-12
    for name, value in case.model.net.state_dict().items():
        assert torch.equal(value, before[name])


def test_conditions_of_the_training(burgers_model):
    case = burgers_model
    frozen = from_deepxde(case.model, {"nu": case.nu})
    assert_is_least_squares_system(frozen)
    system, losses = frozen.weights, own_losses(case.model)
    squares = system.conditions(system.start) ** 2
    ends = int(case.data.num_bcs[0])
    assert squares[:ends].sum() == pytest.approx(losses[1], rel=1e-5)
    assert squares[ends:].sum() == pytest.approx(losses[2], rel=1e-5)


def test_behind_a_transform(darcy_model):
    known = {"k": (darcy_model.stored, ta.Parameter(truth=1.0, bounds=(0.01, 100)))}
    frozen = from_deepxde(darcy_model.model, known, transform={"k": torch.exp})
    assert_is_least_squares_system(frozen)


def test_observed_fields_that_differ_from_point_to_point(problems):
    """Two outputs were observed at different times; a periodic condition has pairs of points."""
    dde.config.set_random_seed(3)
    rate = dde.Variable(0.7)

    def chain(t, y):
        slopes = [dde.grad.jacobian(y, t, i=i) for i in range(2)]
        return [slopes[0] + rate * y[:, 1:2], slopes[1] - rate * y[:, 0:1]]

    geometry = dde.geometry.TimeDomain(0, 1)
    first, second = np.linspace(0.1, 0.9, 5)[:, None], np.linspace(0.2, 0.8, 3)[:, None]
    period = dde.icbc.PeriodicBC(geometry, 0, lambda _, on: on, component=1)
    seen = [
        dde.icbc.PointSetBC(first, np.cos(first), component=0),
        dde.icbc.PointSetBC(second, np.sin(second), component=1),
    ]
    data = dde.data.PDE(geometry, chain, [period, *seen], num_domain=12, num_boundary=2)
    net = dde.nn.FNN([1, 6, 2], "tanh", "Glorot uniform")
    model = problems.trained(data, net, [rate], steps=5)
    frozen = from_deepxde(model, {"rate": rate})
    assert_is_least_squares_system(frozen)
    system = frozen.weights
    assert system.field(system.start).shape == (8,)
    left, right = copy.deepcopy(net).double()(torch.tensor([[0.0], [1.0]], dtype=torch.float64))
    square = float((left[1] - right[1]).detach() ** 2)
    assert (system.conditions(system.start) ** 2).sum() == pytest.approx(square)
    with pytest.raises(ta.InputError, match="observations"):
        system.field(system.start, first)


@pytest.mark.long
def test_bad_refinements_are_told(lorenz_model):
    case = lorenz_model
    assert_bad_refinements_are_told(from_deepxde(case.model, LORENZ, unknowns=case.variables))

"""Real inverse problems, trained for a few steps with DeepXDE on PyTorch."""

import os
from types import SimpleNamespace

# DeepXDE takes its backend once for a process; the tests of the other one have their own.
os.environ["DDE_BACKEND"] = "pytorch"

import deepxde as dde
import numpy as np
import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trained(data, net, variables, steps=60, **options):
    model = dde.Model(data, net)
    model.compile("adam", lr=5e-3, external_trainable_variables=variables, verbose=0, **options)
    model.train(iterations=steps, verbose=0)
    return model


def lorenz(weights=None, **options):
    """Three equations without space, three unknowns: the chaotic system of Lorenz."""
    dde.config.set_random_seed(0)
    sigma, rho, beta = dde.Variable(8.0), dde.Variable(25.0), dde.Variable(2.0)

    def system(t, y):
        first, second, third = y[:, 0:1], y[:, 1:2], y[:, 2:3]
        slopes = [dde.grad.jacobian(y, t, i=i) for i in range(3)]
        return [
            slopes[0] - sigma * (second - first),
            slopes[1] - first * (rho - third) + second,
            slopes[2] - first * second + beta * third,
        ]

    sites = np.linspace(0.05, 0.95, 12)[:, None]
    readings = np.column_stack([np.cos(3 * sites[:, 0] + n) for n in range(3)])
    geometry = dde.geometry.TimeDomain(0, 1)
    start = dde.icbc.IC(geometry, lambda t: np.ones((len(t), 1)), lambda _, on: on, component=0)
    seen = [dde.icbc.PointSetBC(sites, readings[:, n : n + 1], component=n) for n in range(3)]
    data = dde.data.PDE(
        geometry, system, [start, *seen], num_domain=25, num_boundary=2, anchors=sites
    )
    net = dde.nn.FNN([1, 12, 12, 3], "tanh", "Glorot uniform")
    # A network's inputs may be scaled, and its outputs hold a condition exactly.
    net.apply_feature_transform(lambda t: 2 * t - 1)
    net.apply_output_transform(lambda t, y: 1 + t * y)
    model = trained(data, net, [sigma, rho, beta], loss_weights=weights, **options)
    variables = {"sigma": sigma, "rho": rho, "beta": beta}
    return SimpleNamespace(model=model, variables=variables, pde=system, sites=sites)


def burgers(steps=60, **options):
    """Space and time, one unknown viscosity, conditions on the boundary and at the start."""
    dde.config.set_random_seed(1)
    nu = dde.Variable(0.05)

    def equation(x, u):
        u_x, u_t = (dde.grad.jacobian(u, x, j=j) for j in (0, 1))
        return u_t + u * u_x - nu * dde.grad.hessian(u, x, i=0, j=0)

    space, time = dde.geometry.Interval(-1, 1), dde.geometry.TimeDomain(0, 1)
    geometry = dde.geometry.GeometryXTime(space, time)
    ends = dde.icbc.DirichletBC(geometry, lambda _: 0, lambda _, on: on)
    start = dde.icbc.IC(geometry, lambda x: -np.sin(np.pi * x[:, :1]), lambda _, on: on)
    data = dde.data.TimePDE(
        geometry, equation, [ends, start], num_domain=60, num_boundary=12, num_initial=10,
        exclusions=np.array([[0.0, 0.5]]),
    )  # fmt: skip
    net = dde.nn.FNN([2, 12, 12, 1], "tanh", "Glorot uniform")
    model = trained(data, net, nu, steps, **options)
    return SimpleNamespace(model=model, nu=nu, pde=equation, data=data)


def darcy(to_physical=torch.exp, start=-1.0, **options):
    """Steady flow in a square, with a permeability that is stored through a transform."""
    dde.config.set_random_seed(2)
    stored = dde.Variable(start)

    def equation(x, u):
        u_xx, u_yy = (dde.grad.hessian(u, x, i=i, j=i) for i in (0, 1))
        return -to_physical(stored) * (u_xx + u_yy) - 1

    geometry = dde.geometry.Rectangle([0, 0], [1, 1])
    sides = dde.icbc.DirichletBC(geometry, lambda _: 0, lambda _, on: on)
    data = dde.data.PDE(geometry, equation, [sides], num_domain=40, num_boundary=16)
    net = dde.nn.FNN([2, 12, 12, 1], "tanh", "Glorot uniform")
    model = trained(data, net, stored, **options)
    return SimpleNamespace(model=model, stored=stored, pde=equation, data=data)


@pytest.fixture(scope="session")
def problems():
    """The functions that make and train them."""
    return SimpleNamespace(lorenz=lorenz, burgers=burgers, darcy=darcy, trained=trained)


@pytest.fixture(scope="session")
def lorenz_model():
    return lorenz(weights=[1, 10, 0.5, 1, 100, 100, 100])


@pytest.fixture(scope="session")
def burgers_model():
    return burgers()


@pytest.fixture(scope="session")
def darcy_model():
    return darcy()

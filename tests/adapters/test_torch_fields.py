"""Any field in the place of a PyTorch network: jets, the part that is replaced, and what is not."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

import twoaxis as ta
from twoaxis.splines import TensorSplines, orders_up_to

torch = pytest.importorskip("torch")

TIMES = np.linspace(0, 2, 20)[:, None]
RATE = {"rate": ta.Parameter(delivered=0.7, bounds=(0.1, 10.0))}


def gradient(values, at):
    return torch.autograd.grad(values.sum(), at, create_graph=True)[0]


def decay(model, t, rate):
    u = model(t)
    return gradient(u, t) + rate * u


def layers(*sizes):
    torch.manual_seed(0)
    parts = []
    for inner, outer in pairwise(sizes):
        parts += [torch.nn.Linear(inner, outer), torch.nn.Tanh()]
    return torch.nn.Sequential(*parts[:-1]).double()


class Own(torch.nn.Module):
    """A network with a forward of its own."""

    def __init__(self, forward, outputs=1):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = torch.nn.Linear(1, 12), torch.nn.Linear(12, outputs)
        self.double()
        self.called = forward

    def forward(self, t):
        return self.called(t, lambda at: self.last(torch.tanh(self.first(at))))


class Around(torch.nn.Module):
    """A network within another one that scales its inputs and holds its first value."""

    def __init__(self):
        super().__init__()
        self.inner = layers(1, 8, 1)

    def forward(self, t):
        return 1.5 + t * self.inner(2 * t - 1)


def frozen(network, residual=decay, points=TIMES, **options):
    return ta.from_torch(network, residual, RATE, points=points, observed=points[:5], **options)


def test_jets_of_splines_are_those_of_the_field_itself():
    def burgers(model, xt, rate):
        u = model(xt)
        slope = gradient(u, xt)
        bend = gradient(slope[:, :1], xt)[:, :1]
        return slope[:, 1:] + u * slope[:, :1] - rate * bend

    points = np.random.default_rng(0).random((30, 2))
    residual = frozen(layers(2, 6, 1), burgers, points)
    slot = residual.weights.slot()
    (equation,) = slot.equations
    numbers = np.array([0.3])
    orders = equation.orders_used(numbers, points[:4], 1.0)
    assert set(orders) == {(0, 0), (1, 0), (0, 1), (2, 0)}
    splines = TensorSplines.on_box([0, 0], [1, 1], [3, 3])
    coefficients = np.random.default_rng(1).standard_normal((splines.size, 1))
    jets = np.stack([d @ coefficients for d in splines.design(points, orders)])
    known = ta.Parameters({"rate": ta.Parameter(delivered=0.3, bounds=(0.1, 10.0))})
    other = slot.freeze(splines, coefficients, known)
    found = equation.linearized(jets, orders, numbers, points)
    assert_allclose(
        found.values[:, 0], other.residual_at(points, rate=0.3).detach().ravel(), rtol=1e-10
    )
    # Derivatives by jets and by the number, against differences.
    along = np.random.default_rng(2).standard_normal(jets.shape)
    ahead, behind = (
        equation.values(jets + sign * 1e-6 * along, orders, numbers, points) for sign in (1, -1)
    )
    assert_allclose(
        np.einsum("apem,apm->pe", found.by_jets, along), (ahead - behind) / 2e-6, atol=1e-6
    )
    ahead, behind = (
        equation.values(jets, orders, numbers + sign * 1e-6, points) for sign in (1, -1)
    )
    assert_allclose(found.by_numbers[:, :, 0], (ahead - behind) / 2e-6, atol=1e-6)


def test_what_surrounds_the_weights_stays():
    slot = frozen(Around()).weights.slot()
    splines = TensorSplines.on_box([0.0], [2.0], [3])
    ones = np.ones((splines.size, 1))
    other = slot.freeze(splines, ones, ta.Parameters(RATE))
    # u = 1.5 + t, where the network would be one.
    assert_allclose(
        other.residual_at(TIMES, rate=2.0).detach().ravel(), 1 + 2 * (1.5 + TIMES.ravel())
    )
    jets = np.ones((1, 5, 1))
    values = slot.observed.values(jets, [(0,)], np.array([0.7]), TIMES[:5])
    assert_allclose(values[:, 0], 1.5 + TIMES[:5, 0])
    assert orders_up_to(1, 0) == [(0,)]


@pytest.mark.parametrize(
    "built_in",
    [
        lambda t, network: 1.5 + t * network(t),
        lambda t, network: t * (2 - t) * network(t),
        lambda t, network: network(torch.sin(torch.pi * t)),
        lambda t, network: (
            torch.softmax(torch.cat([network(t), network(t + 1)], 1), 1)[:, :1] * 0
            + t**2 * network(t)
        ),
    ],
    ids=["start", "both ends", "periodic", "flat start"],
)
def test_conditions_that_are_built_in_are_not_lost(built_in):
    assert frozen(Own(built_in)).weights.slot() is None


def test_a_forward_of_its_own_without_conditions_is_replaced():
    assert frozen(Own(lambda t, network: network(t))).weights.slot() is not None
    assert frozen(Own(lambda t, network: 1 + 3 * network(0.5 * t - 1))).weights.slot() is not None


def test_a_delay_that_is_a_parameter_needs_the_network():
    def delayed(model, t, rate):
        return gradient(model(t), t) + model(t - rate)

    found = ta.refine(
        frozen(layers(1, 4, 1), delayed),
        np.exp(-TIMES[:5, 0]),
        noise=0.1,
        progress=False,
        continuation=None,
    )
    assert "places that depend on parameters" in found.data.attrs["how"]

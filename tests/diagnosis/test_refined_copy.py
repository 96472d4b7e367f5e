"""An audit of a model and its data, without a simulator."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import twoaxis as ta

torch = pytest.importorskip("torch")

TIMES = np.linspace(0, 3, 30)
NOISE = 0.02
DATA = ta.Observations(
    np.exp(-0.8 * TIMES) + NOISE * np.random.default_rng(0).standard_normal(30),
    at=TIMES,
    noise=NOISE,
)


def decay(model, t, rate):
    u = model(t)
    return torch.autograd.grad(u.sum(), t, create_graph=True)[0] + rate * u


@pytest.fixture(scope="module")
def model():
    """A network that fits the data, with a rate that is off by a quarter."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)
    ).double()
    at, data = torch.tensor(TIMES)[:, None], torch.tensor(DATA.values)[:, None]
    optimizer = torch.optim.LBFGS(network.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        found = (network(at) - data).square().mean()
        found.backward()
        return found

    optimizer.step(loss)
    parameters = {"rate": ta.Parameter(delivered=1.0, bounds=(0.1, 10.0))}
    return ta.from_torch(network, decay, parameters, points=TIMES[:, None])


def test_both_axes_and_the_better_value(model):
    audit = ta.audit(model, data=DATA, progress=False)
    refined = ta.refine(model, DATA, progress=False)
    matched = audit.group("/matched")
    assert_allclose(float(matched["estimate"].item()), refined.values["rate"], rtol=1e-3)
    low, high = refined.interval["rate"]
    assert_allclose(
        [float(matched[end].item()) for end in ("lower", "upper")], [low, high], rtol=0.02
    )
    assert {q.code: q.answer for q in audit.questions}["contradiction"] == "no"
    assert "forward.linearized" in [m.code for m in audit.messages]
    # As with a refinement of one's own.
    other = ta.audit(refined, field="before", progress=False)
    assert other.route == audit.route
    assert other.group("/matched").equals(matched)


def test_it_can_be_left_out(model):
    audit = ta.audit(model, data=DATA, refine=False, progress=False)
    assert audit.resolution is None


def test_what_cannot_be_used_is_said_and_left_out(model):
    def two_rates(network, t, rate, other):
        return decay(network, t, rate + other)

    parameters = {
        name: ta.Parameter(delivered=0.5, bounds=(1e-3, 10.0)) for name in ("rate", "other")
    }
    both = ta.from_torch(
        model.weights.network(model.weights.start), two_rates, parameters, points=TIMES[:, None]
    )
    audit = ta.audit(both, data=DATA, progress=False)
    assert audit.resolution is None
    assert "audit.not_refined" in [m.code for m in audit.messages]

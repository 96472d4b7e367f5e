"""Audits of Observations: the same as of arrays with their noise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import twoaxis as ta

# A quick fit to few data, some of which do not suit: what is compared is the same.
pytestmark = pytest.mark.filterwarnings("ignore::twoaxis.MisfitWarning")

T = np.linspace(0.0, 2.0, 40)
PARAMETERS = {"k": ta.Parameter(bounds=(0.3, 3.0), delivered=1.0)}
DEVIATIONS = np.linspace(0.01, 0.03, 40)
VALUES = np.exp(-1.2 * T) + DEVIATIONS * np.random.default_rng(0).standard_normal(40)
VALUES[[3, 17]] = np.nan
SMOOTH = 0.02**2 * (np.exp(-np.abs(T[:, None] - T) / 0.1) + 0.5 * np.eye(40))
FITTED = np.exp(-1.15 * T)


def decay(k):
    return np.exp(-k * T)


def frozen(**more):
    return ta.FrozenResidual(
        lambda k: (k - 1.1) * FITTED, PARAMETERS, T, view=ta.views.Pointwise(), **more
    )


def resolved(data, **options):
    return ta.resolve(decay, PARAMETERS, data=data, replicas=5, progress=False, **options)


def same(audit, other):
    for name in ("/observations", "/field_fit", "/matched", "/resimulation", "/likelihood"):
        one, two = audit.group(name), other.group(name)
        assert (one is None) == (two is None)
        assert one is None or one.equals(two)


@pytest.mark.parametrize("noise", [0.02, DEVIATIONS, SMOOTH, None])
def test_observations_without_a_simulator(noise):
    data = ta.Observations(VALUES, at=T, noise=noise)
    audit = ta.audit(frozen(fitted=FITTED, observed=T), data=data)
    plain = ta.audit(frozen(fitted=FITTED, observed=T), data=VALUES, noise=noise, missing="drop")
    same(audit, plain)
    codes = [message.code for message in audit.messages]
    assert ("data.dropped" in codes) == (noise is not None)
    assert codes == [message.code for message in plain.messages]
    if noise is not None:
        misfit = data.whiten(data.readings - data.take(FITTED))
        assert_allclose(audit.group("/field_fit")["rms"], np.sqrt(np.mean(misfit**2)))
        assert_array_equal(audit.group("/observations")["points"][:, 0], data.sites[:, 0])


def test_observations_of_a_resolution_and_others():
    data = ta.Observations(VALUES, at=T, noise=DEVIATIONS)
    resolution = resolved(data)
    plain = ta.audit(frozen(), fitted=FITTED, resolution=resolution)
    same(ta.audit(frozen(), data=data, fitted=FITTED, resolution=resolution), plain)
    again = ta.Observations(VALUES, at=T, noise=DEVIATIONS)
    same(ta.audit(frozen(), data=again, fitted=FITTED, resolution=resolution), plain)
    # Other observations come with noise of their own.
    less = ta.audit(frozen(), data=again.with_noise(0.5), fitted=FITTED, resolution=resolution)
    expected = ta.audit(frozen(), fitted=FITTED, resolution=resolved(again.with_noise(0.5)))
    assert_allclose(less.group("/matched")["estimate"], expected.group("/matched")["estimate"])


def test_noise_of_the_logarithm():
    positive = np.abs(VALUES)
    data = ta.Observations(positive, at=T, noise=0.1, transform="log")
    plain = ta.Observations(np.log(positive), at=T, noise=0.1)
    same(
        ta.audit(frozen(fitted=FITTED), data=data),
        ta.audit(frozen(fitted=np.log(FITTED)), data=plain),
    )
    resolution = resolved(data)
    audit = ta.audit(frozen(fitted=FITTED), resolution=resolution)
    same(ta.audit(frozen(fitted=FITTED), data=data, resolution=resolution), audit)
    assert_allclose(audit.group("/observations")["field"], np.log(FITTED)[data.kept])
    with pytest.raises(ta.InputError, match="the resolution was made for") as error:
        ta.audit(frozen(fitted=FITTED), data=plain, resolution=resolution)
    assert "data=" in error.value.fix


def test_outputs_that_were_observed_are_selected():
    states = np.column_stack([FITTED, 1 - FITTED, 3 + 0 * T])
    subject = frozen(fitted=states, observed=T, fields=("u", "v", "w"))
    data = ta.Observations(1 - VALUES, at=T, noise=DEVIATIONS, of=1)
    alone = frozen(fitted=1 - FITTED, observed=T, field_name="v")
    same(
        ta.audit(subject, data=data),
        ta.audit(alone, data=1 - VALUES, noise=DEVIATIONS, missing="drop"),
    )


def test_noise_is_given_once():
    data = ta.Observations(VALUES, at=T, noise=0.1)
    with pytest.raises(ta.InputError, match="noise in one place") as error:
        ta.audit(frozen(fitted=FITTED), data=data, noise=0.2)
    assert "leave noise= out" in error.value.fix
    assert ta.audit(frozen(fitted=FITTED), data=data).group("/field_fit") is not None


def test_the_network_is_evaluated_where_observations_were_taken():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    points = torch.as_tensor(T)[:, None]
    net = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))

    def pde(model, t, k):
        u = model(t)[:, 0]
        (u_t,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        return u_t[:, 0] + k * u

    model = ta.from_torch(net.double(), pde, PARAMETERS, points=points)
    data = ta.Observations(VALUES, at=T + 0.01, noise=0.1, of=1)
    with torch.no_grad():
        field = net(points + 0.01)[:, 1].numpy()
    group = ta.audit(model, data=data, probe=False).group("/observations")
    assert_allclose(group["field"], field[data.kept])


def test_a_follower_takes_observations():
    data = ta.Observations(VALUES, at=T, noise=DEVIATIONS)
    follower = ta.Follower(lambda: frozen(fitted=FITTED, observed=T), every=1, data=data)
    follower(1)
    misfit = data.whiten(data.readings - data.take(FITTED))
    row = follower.summary().iloc[0]
    assert row["data_misfit"] == pytest.approx(np.sqrt(np.mean(misfit**2)))

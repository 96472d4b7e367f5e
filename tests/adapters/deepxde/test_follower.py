"""A follower as a callback of DeepXDE."""

import deepxde as dde
import numpy as np
import pytest

import twoaxis as ta


class Decay:
    """u' = -rate u from a few values of u, compiled and not yet trained."""

    def __init__(self):
        dde.config.set_random_seed(0)
        self.rate = dde.Variable(2.0)
        sites = np.linspace(0.1, 0.9, 9)[:, None]
        data = dde.data.PDE(
            dde.geometry.TimeDomain(0, 1),
            lambda t, u: dde.grad.jacobian(u, t) + self.rate * u,
            [dde.icbc.PointSetBC(sites, np.exp(-sites))],
            num_domain=20,
            train_distribution="pseudo",
        )
        self.model = dde.Model(data, dde.nn.FNN([1, 8, 1], "tanh", "Glorot normal"))
        self.model.compile("adam", lr=1e-2, external_trainable_variables=[self.rate], verbose=0)
        self.points = []

    def freeze(self):
        known = ta.Parameter(truth=1.0, bounds=(0.1, 10))
        frozen = ta.from_deepxde(self.model, {"rate": (self.rate, known)})
        self.points.append(frozen.points)
        return frozen

    def train(self, steps, callbacks=()):
        self.model.train(iterations=steps, verbose=0, callbacks=list(callbacks))
        return np.concatenate([w.detach().numpy().ravel() for w in self.model.net.parameters()])


def test_a_callback_follows_and_leaves_the_training_as_it_was():
    followed = Decay()
    follower = ta.Follower(followed.freeze, every=10, noise=0.01, progress=False, max_share=1.0)
    weights = followed.train(30, [ta.deepxde_callback(follower)])
    assert follower.messages == []
    assert [row.step for row in follower.rows] == [1, 11, 21, 30]
    last = ta.follow([(30, followed.freeze())])
    found = follower.result.data.isel(step=-1)
    for name in ("value", "preferred", "displacement", "strength", "alignment"):
        np.testing.assert_allclose(found[name], last.data[name].isel(step=0), rtol=1e-7)
    assert found["value"].item() == followed.rate.item()
    assert np.isfinite(found["data_misfit"])
    np.testing.assert_array_equal(Decay().train(30), weights)


def test_points_in_use_are_followed():
    problem = Decay()
    follower = ta.Follower(problem.freeze, every=10, progress=False, max_share=1.0)
    sampler = dde.callbacks.PDEPointResampler(period=5)
    problem.train(21, [sampler, ta.deepxde_callback(follower)])
    assert follower.messages == []
    *_, before, last = problem.points
    assert not np.array_equal(before, last)
    used = problem.model.data.train_x[sum(problem.model.data.num_bcs) :]
    np.testing.assert_array_equal(last, used)


def test_stopping_is_asked_for():
    loose = ta.Tolerance(material=1e4, resolution=5, preference=5)
    for stop, steps in ((False, 40), (True, 9)):
        problem = Decay()
        follower = ta.Follower(
            problem.freeze, every=1, tolerance=loose, progress=False, max_share=1.0
        )
        problem.train(40, [ta.deepxde_callback(follower, stop=stop)])
        assert follower.finished
        assert problem.model.train_state.step == steps


def test_a_model_without_unknowns_is_refused_when_the_follower_is_made():
    problem = Decay()
    problem.model.compile("adam", lr=1e-2, verbose=0)
    with pytest.raises(ta.InputError, match="external_trainable_variables"):
        ta.Follower(problem.freeze)


def test_outputs_and_equations_have_the_names_of_the_user():
    dde.config.set_random_seed(0)
    rate = dde.Variable(2.0)

    def both(t, y):
        return [dde.grad.jacobian(y, t, i=n) + rate * y[:, n : n + 1] for n in (0, 1)]

    sites = np.linspace(0.1, 0.9, 9)[:, None]
    seen = [dde.icbc.PointSetBC(sites, np.exp(-sites), component=n) for n in (0, 1)]
    data = dde.data.PDE(dde.geometry.TimeDomain(0, 1), both, seen, num_domain=20)
    model = dde.Model(data, dde.nn.FNN([1, 8, 2], "tanh", "Glorot normal"))
    model.compile("adam", lr=1e-2, external_trainable_variables=[rate], verbose=0)
    model.train(iterations=2, verbose=0)
    unknown = {"rate": (rate, ta.Parameter(bounds=(0.1, 10)))}
    frozen = ta.from_deepxde(model, unknown, fields=("prey", "hunter"), equations=("eaten", "fed"))
    assert (frozen.field_name, frozen.fields, frozen.equations) == (
        "prey", ("prey", "hunter"), ("eaten", "fed"),
    )  # fmt: skip
    plain = ta.from_deepxde(model, unknown)
    assert plain.fields == ("output 1", "output 2")
    for wrong in ({"fields": ("prey",)}, {"equations": ("eaten",)}, {"fields": "ab"}):
        with pytest.raises(ta.InputError, match=f"{next(iter(wrong))} as 2 names"):
            ta.from_deepxde(model, unknown, **wrong)

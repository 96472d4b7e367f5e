"""Real jinns models, trained for a few steps: what the adapter reads against jinns itself."""

from __future__ import annotations

import importlib.metadata
import random
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jinns
import numpy as np
import optax
import pandas as pd
import pytest
from bad_refinements import assert_bad_refinements_are_told
from compilations import counted_compilations
from jinns.parameters import EqParams, Params
from least_squares_systems import assert_is_least_squares_system
from objectives import assert_is_training_loss
from scipy.optimize import curve_fit

import twoaxis as ta
from twoaxis.adapters.jinns import _place, _refuse_fields
from twoaxis.parameter_array import entry_index
from twoaxis.splines import TensorSplines

pytestmark = [
    # jinns silences this one about its own classes when it is imported; pytest starts anew.
    pytest.mark.filterwarnings("ignore:Using `field"),
    # jinns reminds of terms of the loss that are left out on purpose here.
    pytest.mark.filterwarnings("ignore:Missing boundary condition"),
    pytest.mark.filterwarnings("ignore:Initial condition wasn't provided"),
    pytest.mark.filterwarnings("ignore:Initial condition not provided"),
]
WIDE = ta.Parameter(bounds=(1e-3, 1e3))
REAL = ta.Parameter(bounds=(-10.0, 10.0), coordinate="linear")


class Decay(jinns.loss.ODE):
    """u' = -rate u."""

    def equation(self, t, u, params):
        return jax.jacfwd(lambda s: u(s, params))(t)[:, 0] + params.eq_params.rate * u(t, params)


class Heat(jinns.loss.PDENonStatio):
    """u_t = exp(theta) u_xx: the unknown stands behind a transform."""

    def equation(self, t_x, u, params):
        slope = jax.grad(lambda at: u(at, params)[0])
        bend = jax.jacfwd(slope)(t_x)[1, 1]
        return (slope(t_x)[0] - jnp.exp(params.eq_params.theta) * bend).reshape(1)


class Source(jinns.loss.PDEStatio):
    """A steady problem in the plane with three unknowns: a source's place and strength."""

    def equation(self, x, u, params):
        bend = jnp.trace(jax.hessian(lambda at: u(at, params)[0])(x))
        p = params.eq_params
        away = (x[0] - p.a) ** 2 + (x[1] - p.b) ** 2
        return (bend - p.s * jnp.exp(-2 * away)).reshape(1)


class Gain(jinns.loss.ODE):
    """v' = k_0 u - k_1 v, the second equation of a chain."""

    def equation(self, t, u, params):
        slope = jax.jacfwd(lambda s: u(s, params))(t)[:, 0]
        both, k = u(t, params), params.eq_params.k
        return (slope[1] - k[0] * both[0] + k[1] * both[1]).reshape(1)


class Both(jinns.loss.ODE):
    """The chain as one vector equation, with a factor for each component."""

    def equation(self, t, u, params):
        slope = jax.jacfwd(lambda s: u(s, params))(t)[:, 0]
        both, k = u(t, params), params.eq_params.k
        return jnp.stack([slope[0] + k[0] * both[0], slope[1] - k[0] * both[0] + k[1] * both[1]])


@dataclass
class Solved:
    """What a user holds after training."""

    loss: Any
    params: Any
    data: Any
    start: Any


KINDS = {
    "ODE": (jinns.loss.LossODE, jinns.loss.LossWeightsODE, jinns.parameters.DerivativeKeysODE),
    "PDEStatio": (
        jinns.loss.LossPDEStatio,
        jinns.loss.LossWeightsPDEStatio,
        jinns.parameters.DerivativeKeysPDEStatio,
    ),
    "PDENonStatio": (
        jinns.loss.LossPDENonStatio,
        jinns.loss.LossWeightsPDENonStatio,
        jinns.parameters.DerivativeKeysPDENonStatio,
    ),
}


def generator(kind):
    key, box = jax.random.PRNGKey(1), dict(dim=1, min_pts=(0.0,), max_pts=(1.0,), nb=None)
    if kind == "ODE":
        return jinns.data.DataGeneratorODE(key=key, nt=40, tmin=0.0, tmax=1.0)
    if kind == "PDENonStatio":
        return jinns.data.CubicMeshPDENonStatio(key=key, n=40, ni=4, tmin=0.0, tmax=1.0, **box)
    box = dict(dim=2, min_pts=(-1.0, -1.0), max_pts=(1.0, 1.0), nb=None)
    return jinns.data.CubicMeshPDEStatio(key=key, n=40, **box)


def trained(
    kind, equation, unknowns, outputs=1, weight=1.0, steps=8, keys="both", data=None, **network
):
    """Train as a user of jinns does."""
    EqParams.clear()  # jinns fixes the names of the unknowns once in a session
    data = generator(kind) if data is None else data
    columns = {"ODE": 1, "PDEStatio": 2, "PDENonStatio": 2}[kind]
    layers = ((eqx.nn.Linear, columns, 8), (jax.nn.tanh,), (eqx.nn.Linear, 8, outputs))
    u, weights = jinns.nn.PINN_MLP.create(
        key=jax.random.PRNGKey(0), eqx_list=layers, eq_type=kind, **network
    )
    start = Params(
        nn_params=weights, eq_params={n: jnp.asarray(v, float) for n, v in unknowns.items()}
    )
    make, weigh, derive = KINDS[kind]
    loss = make(
        u=u,
        dynamic_loss=equation,
        loss_weights=weigh(dyn_loss=weight),
        derivative_keys=derive.from_str(params=start, dyn_loss=keys),
        params=start,
    )
    solution = jinns.solve(
        n_iter=steps, init_params=start, data=data, loss=loss, optimizer=optax.adam(1e-2),
        verbose=False, key=jax.random.PRNGKey(2),
    )  # fmt: skip
    return Solved(solution[4], solution[0], solution[3], start)


CASES = {
    "decay": (("ODE", Decay(), {"rate": 0.7}), {"rate": WIDE}),
    "heat": (("PDENonStatio", Heat(), {"theta": -0.5}), {"theta": REAL}),
    "source": (
        ("PDEStatio", Source(), {"a": 0.2, "b": -0.3, "s": 1.1}),
        {"a": REAL, "b": REAL, "s": WIDE},
    ),
    "system": (
        (
            "ODE",
            (Both(), Gain(vectorial_dyn_loss_ponderation=jnp.array([2.0]))),
            {"k": [0.8, 0.4]},
            2,
            (3.0, 0.5),
        ),
        {"k[0]": WIDE, "k[1]": WIDE},
    ),
}


@pytest.fixture(scope="module")
def solved():
    """Each problem trained once, when a test first needs it; tests only read them."""

    class Solutions(dict):
        def __missing__(self, name):
            self[name] = trained(*CASES[name][0])
            return self[name]

    return Solutions()


# JAX compiles every training anew: two equations of space and time are left to the long run.
LONG = ("heat", "source")
EVERY = [pytest.param(name, marks=pytest.mark.long if name in LONG else []) for name in CASES]


def from_jinns(loss, params, points, parameters, **options):
    return ta.from_jinns(loss, params, parameters, points=points, **options)


def codes(frozen):
    return [note.code for note in frozen.notes]


def test_a_whole_array_is_its_entries(solved):
    model = solved["system"]
    arguments = model.loss, model.params, model.data
    entries = from_jinns(*arguments, CASES["system"][1])
    whole = from_jinns(*arguments, {"k": ta.ParameterArray(bounds=(1e-3, 1e3))})
    assert whole.names == entries.names == ["k[0]", "k[1]"]
    delivered = np.asarray(model.params.eq_params.k)
    assert [p.delivered for p in whole.parameters.values()] == delivered.tolist()
    for given, values in ((whole, {"k": [0.5, 2.0]}), (entries, {"k[0]": 0.5, "k[1]": 2.0})):
        np.testing.assert_array_equal(
            np.concatenate(given.residual(**values)),
            np.concatenate(entries.residual(**{"k[0]": 0.5, "k[1]": 2.0})),
        )
    one, other = (ta.score(each) for each in (whole, entries))
    np.testing.assert_array_equal(one.data["H"], other.data["H"])


@pytest.mark.parametrize(
    ("name", "place"), [("i[0,0]", 0), ("i[1,2]", 5), ("i[4]", 4), ("i[1, 0]", 3)]
)
def test_entries_of_a_matrix(name, place):
    values = np.arange(6.0).reshape(2, 3)
    assert _place(name, *entry_index(name), values) == place


@pytest.mark.parametrize("name", ["i", "i[2,0]", "i[0,3]", "i[0,0,0]", "i[6]"])
def test_entries_that_a_matrix_does_not_have(name):
    with pytest.raises(ta.InputError, match=r"i\[0,0\]"):
        _place(name, *entry_index(name), np.zeros((2, 3)))


def in_jinns(model, points, names):
    """Residual by `evaluate`, point by point, and derivatives by reverse mode, in float64."""
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), model.params)

        def residual(eq_params, point, equation):
            moved = eqx.tree_at(lambda p: p.eq_params, wide, eq_params)
            return equation.evaluate(point, model.loss.u, moved)

        values, rows = [], []
        for equation in model.loss.dynamic_loss:
            whole = jax.jit(lambda e, x, q=equation: residual(e, x, q))
            slopes = jax.jit(jax.jacrev(whole))
            at = [jnp.asarray(point, jnp.float64) for point in points]
            values.append(np.stack([whole(wide.eq_params, x) for x in at]))
            found = [slopes(wide.eq_params, x) for x in at]
            columns = []
            for name in names:
                leaf, _, place = name.rstrip("]").partition("[")
                each = np.stack([np.asarray(getattr(s, leaf)) for s in found])
                columns.append(each.reshape(*each.shape[:2], -1)[..., int(place or 0)])
            rows.append(np.stack(columns, axis=-1))
    residuals = [v[:, k] for v in values for k in range(v.shape[1])]
    jacobians = [r[:, k] for r in rows for k in range(r.shape[1])]
    return np.concatenate(residuals), np.concatenate(jacobians)


@pytest.mark.parametrize("case", EVERY)
def test_geometry_agrees_with_jinns_in_double_precision(solved, case):
    model, parameters = solved[case], CASES[case][1]
    frozen = from_jinns(model.loss, model.params, model.data, parameters)
    residual, physical = in_jinns(model, frozen.points, parameters)
    values = {name: p.delivered for name, p in frozen.parameters.items()}
    score = ta.score(frozen)
    assert score.derivative == "given with the residual"
    found = frozen.at(frozen.coordinates(values))
    np.testing.assert_allclose(found, residual, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(frozen.jacobian(**values), physical, rtol=1e-10, atol=1e-12)
    slope = [
        v if p is WIDE else 1.0 for v, p in zip(values.values(), parameters.values(), strict=True)
    ]
    jacobian = physical * slope
    # The loss of jinns: the mean over points of the sum over components, times its weight.
    weights = np.repeat([3.0, 3.0, 0.5] if case == "system" else [1.0], 40) / 40
    B, H = jacobian.T @ (weights * residual), jacobian.T @ (weights[:, None] * jacobian)
    np.testing.assert_allclose(np.atleast_1d(score.B), B, rtol=1e-10)
    np.testing.assert_allclose(np.atleast_2d(score.H), H, rtol=1e-10, atol=1e-14)
    D = np.linalg.solve(H, -B)
    np.testing.assert_allclose(list(score.displacement.values()), D, rtol=1e-10)


def batch_of(model):
    return model.data.get_batch()[1]


@pytest.mark.parametrize("case", ["system", pytest.param("heat", marks=pytest.mark.long)])
def test_the_view_is_the_loss_of_the_training_in_single_precision(solved, case):
    model, parameters = solved[case], CASES[case][1]
    frozen = from_jinns(model.loss, model.params, model.data, parameters, precision="model")
    residual = frozen.at(
        frozen.coordinates({name: p.delivered for name, p in frozen.parameters.items()})
    )
    expected = model.loss.evaluate(model.params, batch_of(model))[0]
    bound = frozen.view.bind(frozen.points)
    assert float(bound.quadratic(residual, residual)) == pytest.approx(float(expected), rel=1e-5)
    samples = model.loss.evaluate_per_sample(model.params, batch_of(model)).dyn_loss
    own = np.concatenate([np.asarray(each).T.ravel() for each in samples])
    np.testing.assert_allclose(residual, own, rtol=1e-5, atol=1e-5 * np.abs(own).max())
    assert codes(frozen) == ["precision.model"]


def test_weights_of_a_system(solved):
    model = solved["system"]
    arguments = model.loss, model.params, model.data, CASES["system"][1]
    frozen = from_jinns(*arguments)
    np.testing.assert_allclose(frozen.view.weights, [3.0, 3.0, 0.5])
    residual = frozen.at(
        frozen.coordinates({name: p.delivered for name, p in frozen.parameters.items()})
    )
    np.testing.assert_allclose(residual[80:], 2 * residual[40:80], rtol=1e-12)
    given = from_jinns(*arguments, loss_weights=[1, 2, 3])
    np.testing.assert_allclose(given.view.weights, [1, 2, 3])
    with pytest.raises(ta.InputError, match="loss weights for 3 equations"):
        from_jinns(*arguments, loss_weights=np.ones(7))
    with pytest.raises(ta.InputError, match="both"):
        from_jinns(*arguments, view=ta.views.Pointwise(), loss_weights=1.0)


def test_points_and_delivered_values(solved):
    model = solved["decay"]
    frozen = from_jinns(model.loss, model.params, model.data, {"rate": WIDE})
    assert frozen.axes == ("t",)
    np.testing.assert_array_equal(frozen.points, np.asarray(model.data.times, float))
    assert frozen.parameters["rate"].delivered == float(model.params.eq_params.rate)
    assert float(model.params.eq_params.rate) != float(model.start.eq_params.rate)
    shown = jax.vmap(lambda point: model.loss.u(point, model.params))(model.data.times)
    np.testing.assert_allclose(frozen.field, np.asarray(shown)[:, 0], rtol=1e-5, atol=1e-6)
    times = np.linspace(0, 1, 7)
    own = from_jinns(model.loss, model.params, times, {"rate": WIDE})
    np.testing.assert_array_equal(own.points[:, 0], times)


@pytest.mark.long
def test_points_of_space_and_time(solved):
    heat, steady = solved["heat"], solved["source"]
    frozen = from_jinns(heat.loss, heat.params, heat.data, {"theta": REAL})
    assert frozen.axes == ("t", "x")
    np.testing.assert_array_equal(frozen.points, np.asarray(heat.data.domain, float))
    three = from_jinns(steady.loss, steady.params, steady.data, CASES["source"][1])
    assert three.axes == ("x", "y")
    np.testing.assert_array_equal(three.points, np.asarray(steady.data.omega, float))
    moved = three.moved_to(np.array([[0.1, 0.2], [0.3, -0.4]]))
    center = three.coordinates({n: p.delivered for n, p in three.parameters.items()})
    expected, _ = in_jinns(steady, moved.points, "abs")
    np.testing.assert_allclose(moved.at(center), expected, rtol=1e-10)


def test_an_unknown_through_a_transform(solved):
    model = solved["decay"]
    arguments = model.loss, model.params, model.data
    plain = ta.score(from_jinns(*arguments, {"rate": REAL}))
    frozen = from_jinns(*arguments, {"rate": WIDE}, transform={"rate": (jnp.exp, jnp.log)})
    stored = float(model.params.eq_params.rate)
    assert frozen.parameters["rate"].delivered == pytest.approx(np.exp(stored), rel=1e-12)
    physical = ta.score(frozen)
    # The logarithm of exp(rate) is rate: the same coordinate, and so the same geometry.
    for symbol in ("B", "H"):
        assert getattr(physical, symbol) == pytest.approx(getattr(plain, symbol), rel=1e-10)
    alone = from_jinns(*arguments, {"rate": WIDE}, transform={"rate": jnp.exp})
    np.testing.assert_allclose(alone.residual(rate=3.0), frozen.residual(rate=3.0), rtol=1e-7)
    with pytest.raises(ta.InputError, match="second function inverts its first"):
        from_jinns(*arguments, {"rate": WIDE}, transform={"rate": (jnp.exp, jnp.exp)})
    with pytest.raises(ta.InputError, match="a function, or a function and its inverse"):
        from_jinns(*arguments, {"rate": WIDE}, transform={"rate": "exp"})
    with pytest.raises(ta.InputError, match="transform with the names 'rate'"):
        from_jinns(*arguments, {"rate": WIDE}, transform={"nu": (jnp.exp, jnp.log)})


@pytest.mark.long
def test_points_after_resampling_and_a_training_in_double_precision():
    """Points are those of the returned generator; a float64 model needs no note."""
    rar = jinns.data.RARParameters(update_every=2, novelty_proportion=0.5, method="G")
    with jax.enable_x64(True):
        start = jinns.data.DataGeneratorODE(
            key=jax.random.PRNGKey(1), nt=40, tmin=0.0, tmax=1.0, rar_parameters=rar
        )
        model = trained("ODE", Decay(), {"rate": 0.7}, data=start)
        assert model.params.nn_params.layers[0].weight.dtype == "float64"
        frozen = from_jinns(model.loss, model.params, model.data, {"rate": WIDE})
    assert frozen.notes == ()
    np.testing.assert_array_equal(frozen.points, np.asarray(model.data.times))
    assert not np.array_equal(frozen.points, np.asarray(start.times))


def test_an_audit_leaves_everything_as_it_was(solved):
    model = solved["system"]
    trees = model.params, model.data, eqx.filter(model.loss, eqx.is_array)
    before = [np.array(leaf) for leaf in jax.tree.leaves(trees)]
    numpy_state = np.random.get_state
    states = random.getstate(), numpy_state()[1].copy()
    wide = jax.config.jax_enable_x64
    frozen = from_jinns(model.loss, model.params, model.data, CASES["system"][1])
    audit = ta.audit(frozen, tolerance=ta.Tolerance(material=5, resolution=5, preference=5))
    assert "k[1]" in str(audit)
    after = [np.asarray(leaf) for leaf in jax.tree.leaves(trees)]
    assert all(map(np.array_equal, before, after))
    assert [leaf.dtype for leaf in before] == [leaf.dtype for leaf in after]
    assert random.getstate() == states[0]
    assert np.array_equal(numpy_state()[1], states[1])
    assert jax.config.jax_enable_x64 == wide


def test_an_audit_with_entries_of_a_vector_can_be_stored(solved, tmp_path):
    model = solved["system"]
    frozen = from_jinns(model.loss, model.params, model.data, CASES["system"][1])
    tolerance = ta.Tolerance(material=5, resolution=5, preference=5)
    ta.audit(frozen, tolerance=tolerance).save(tmp_path / "audit.nc")
    assert "k[0]" in str(ta.load(tmp_path / "audit.nc"))


def test_what_is_unusual_in_a_training_is_noted():
    """No term of the loss was allowed to move the unknown, and the network holds it."""
    model = trained(
        "ODE", Decay(), {"rate": 0.7}, keys="nn_params",
        output_transform=lambda t, out, params: 1 + t[0] * out * params.eq_params.rate,
    )  # fmt: skip
    assert float(model.params.eq_params.rate) == pytest.approx(0.7)
    frozen = from_jinns(model.loss, model.params, model.data, {"rate": WIDE})
    assert codes(frozen) == [
        "precision.copy",
        "training.keys_of_network",
        "field.has_parameter",
    ]
    residual, physical = in_jinns(model, frozen.points, ["rate"])
    values = {"rate": frozen.parameters["rate"].delivered}
    np.testing.assert_allclose(frozen.residual(**values), residual, rtol=1e-10)
    np.testing.assert_allclose(frozen.jacobian(**values), physical, rtol=1e-10)


class Blind(jinns.loss.ODE):
    """u' = -rate u without a derivative by the rate, and an unknown that it does not use."""

    def equation(self, t, u, params):
        rate = jax.lax.stop_gradient(params.eq_params.rate)
        return jax.jacfwd(lambda s: u(s, params))(t)[:, 0] + rate * u(t, params)


def test_a_residual_that_does_not_see_or_does_not_derive_its_unknown():
    model = trained("ODE", Blind(), {"rate": 0.7, "other": 1.0})
    frozen = from_jinns(model.loss, model.params, model.data, {"other": WIDE})
    assert codes(frozen) == ["precision.copy", "parameter.unseen"]
    assert float(ta.score(frozen).H) == 0
    stopped = from_jinns(model.loss, model.params, model.data, {"rate": WIDE})
    assert codes(stopped) == ["precision.copy", "parameter.differences"]
    score = ta.score(stopped)
    assert "differences" in score.derivative
    assert float(score.H) > 0


def test_bad_input(solved):
    model = solved["decay"]
    arguments = model.loss, model.params, model.data
    with pytest.raises(ta.InputError, match="a loss of jinns"):
        from_jinns(model.loss.u, model.params, model.data, {"rate": WIDE})
    with pytest.raises(ta.InputError, match="outputs 0, 3 and 4"):
        from_jinns((model.params,) * 12, model.params, model.data, {"rate": WIDE})
    with pytest.raises(ta.InputError, match="first output"):
        from_jinns(model.loss, model.params.nn_params, model.data, {"rate": WIDE})
    with pytest.raises(ta.InputError, match="initial weights"):
        from_jinns(model.loss, model.start, model.data, {"rate": WIDE})
    with pytest.raises(ta.InputError, match="without any"):
        from_jinns(model.loss, Params(nn_params=model.params.nn_params), model.data, {"rate": WIDE})
    with pytest.raises(ta.InputError, match="among eq_params: rate"):
        from_jinns(*arguments, {"speed": WIDE})
    with pytest.raises(ta.InputError, match=r"the shape \(\)"):
        from_jinns(*arguments, {"rate[1]": WIDE})
    with pytest.raises(ta.InputError, match=r"the shape \(2,\)"):
        from_jinns(
            solved["system"].loss, solved["system"].params, solved["system"].data, {"k": WIDE}
        )
    with pytest.raises(ta.InputError, match="a data generator for ODE"):
        from_jinns(model.loss, model.params, generator("PDENonStatio"), {"rate": WIDE})
    with pytest.raises(ta.InputError, match="points as real numbers"):
        from_jinns(model.loss, model.params, "times", {"rate": WIDE})
    with pytest.raises(ta.InputError, match="can be evaluated at the training points"):
        from_jinns(model.loss, model.params, np.ones((5, 3)), {"rate": WIDE})
    with pytest.raises(ta.InputError, match="precision"):
        from_jinns(*arguments, {"rate": WIDE}, precision="half")
    with pytest.raises(ta.InputError, match="inside the bounds"):
        from_jinns(*arguments, {"rate": ta.Parameter(bounds=(50.0, 100.0))})
    with pytest.raises(ta.InputError, match="from parameter names"):
        from_jinns(*arguments, {})
    broken = eqx.tree_at(lambda p: p.eq_params.rate, model.params, jnp.array(jnp.nan))
    with pytest.raises(ta.InputError, match="a finite value of rate"):
        from_jinns(model.loss, broken, model.data, {"rate": WIDE})


def test_losses_that_have_no_point_by_point_residual():
    EqParams.clear()
    layers = ((eqx.nn.Linear, 1, 8), (jax.nn.tanh,), (eqx.nn.Linear, 8, 4))
    u, weights = jinns.nn.SPINN_MLP.create(
        key=jax.random.PRNGKey(0), d=2, r=4, eqx_list=layers, eq_type="PDEStatio"
    )
    params = Params(nn_params=weights, eq_params={"s": jnp.array(1.0)})
    loss = jinns.loss.LossPDEStatio(u=u, dynamic_loss=Source(), params=params)
    with pytest.raises(ta.InputError, match="point by point"):
        from_jinns(loss, params, np.ones((4, 2)), {"s": WIDE})
    loss = jinns.loss.LossPDEStatio(u=u, dynamic_loss=None, params=params)
    with pytest.raises(ta.InputError, match="a loss with an equation"):
        from_jinns(loss, params, np.ones((4, 2)), {"s": WIDE})


def test_without_jinns_the_adapter_names_the_extra(solved, monkeypatch):
    model = solved["decay"]
    monkeypatch.setitem(sys.modules, "jinns", None)
    with pytest.raises(ta.InputError, match=r"twoaxis\[jinns\]"):
        from_jinns(model.loss, model.params, model.data, {"rate": WIDE})


# ---------------------------------------------------------------- observations and loss


def observations(columns, values):
    return jinns.data.DataGeneratorObservations(
        key=jax.random.PRNGKey(5), observed_pinn_in=columns, observed_values=values
    )


def fitted_to(
    kind, equation, unknowns, seen, outputs=1, weights=None, keys="both", data=None, **more
):
    """Train with observations; return what `jinns.solve` returns."""
    EqParams.clear()
    data = generator(kind) if data is None else data
    columns = {"ODE": 1, "PDEStatio": 2, "PDENonStatio": 2}[kind]
    layers = ((eqx.nn.Linear, columns, 8), (jax.nn.tanh,), (eqx.nn.Linear, 8, outputs))
    u, start = jinns.nn.PINN_MLP.create(key=jax.random.PRNGKey(0), eqx_list=layers, eq_type=kind)
    params = Params(
        nn_params=start, eq_params={n: jnp.asarray(v, float) for n, v in unknowns.items()}
    )
    make, weigh, derive = KINDS[kind]
    loss = make(
        u=u, dynamic_loss=equation, loss_weights=weigh(**(weights or {})), params=params,
        derivative_keys=derive.from_str(params=params, dyn_loss=keys), **more,
    )  # fmt: skip
    return jinns.solve(
        n_iter=8, init_params=params, data=data, loss=loss, optimizer=optax.adam(1e-2),
        obs_data=seen, verbose=False, key=jax.random.PRNGKey(2),
    )  # fmt: skip


def own_loss(solution):
    """The loss of the last parameters as jinns computes it, on all of its points."""
    _, batch = solution[3].get_batch()
    _, seen = solution[8].get_batch()
    return float(solution[4].evaluate(solution[0], jinns.data.append_obs_batch(batch, seen))[0])


@pytest.fixture(scope="module")
def observed_decay():
    times = jnp.linspace(0.1, 0.9, 6)[:, None]
    seen = observations(times, jnp.exp(-times))
    return fitted_to(
        "ODE", Decay(), {"rate": 2.0}, seen, weights={"dyn_loss": 0.5, "observations": 3.0}
    )


def test_objective_and_observations_of_an_ode(observed_decay):
    solution = observed_decay
    frozen = ta.from_jinns(
        solution[4], solution[0], {"rate": WIDE}, points=solution[3], observed=solution[8]
    )
    assert_is_training_loss(frozen, own_loss(solution))
    times = np.linspace(0.1, 0.9, 6)[:, None]
    np.testing.assert_allclose(frozen.observed, times, rtol=1e-6)
    np.testing.assert_allclose(frozen.data, np.exp(-times[:, 0]), rtol=1e-6)
    outputs = [solution[4].u(jnp.asarray(t), solution[0])[0] for t in times]
    np.testing.assert_allclose(frozen.fitted, outputs, rtol=1e-5)
    assert frozen.about["library"] == f"jinns {importlib.metadata.version('jinns')}"
    assert frozen.about["weights"] == "25"


def test_what_is_not_known_of_the_loss_is_said(observed_decay):
    solution = observed_decay
    for options in (
        {"points": solution[3].times, "observed": solution[8]},  # the points as an array
        {"points": solution[3]},  # no observations
    ):
        frozen = ta.from_jinns(solution[4], solution[0], {"rate": WIDE}, **options)
        assert frozen.objective is None
        assert "objective.unknown" in [note.code for note in frozen.notes]
    where = np.array([[0.3], [0.4]])
    frozen = ta.from_jinns(
        solution[4], solution[0], {"rate": WIDE}, points=solution[3], observed=where, field=0
    )
    outputs = [solution[4].u(jnp.asarray(t), solution[0])[0] for t in where]
    np.testing.assert_allclose(frozen.fitted, outputs, rtol=1e-5)
    assert frozen.data is None
    table = pd.DataFrame(where, [3, 4])
    frozen = ta.from_jinns(
        solution[4], solution[0], {"rate": WIDE}, points=solution[3], observed=table, field=0
    )
    with pytest.raises(ta.InputError, match="data in the order of the observations"):
        ta.refine(frozen, pd.Series([1.0, 2.0], [4, 3]), noise=0.1)


@pytest.mark.long
def test_objective_and_observations_in_space_and_time():
    where = jnp.stack([jnp.linspace(0.1, 0.9, 7), jnp.linspace(0.2, 0.8, 7)], axis=1)
    seen = observations(where, jnp.cos(where[:, :1]))
    solution = fitted_to(
        "PDENonStatio",
        Heat(),
        {"theta": -1.0},
        seen,
        initial_condition_fun=jnp.sin,
        weights={"dyn_loss": 2.0, "observations": 1.0, "initial_condition": 0.3},
    )
    frozen = ta.from_jinns(
        solution[4], solution[0], {"theta": WIDE}, points=solution[3], observed=solution[8],
        transform={"theta": jnp.exp},
    )  # fmt: skip
    assert_is_training_loss(frozen, own_loss(solution))
    assert frozen.fitted.shape == (7,)


def test_weights_of_an_ode_with_a_start():
    times = jnp.linspace(0.1, 0.9, 6)[:, None]
    solution = fitted_to(
        "ODE", Both(), {"k": [1.0, 2.0]}, observations(times, jnp.exp(-times)), outputs=2,
        obs_slice=jnp.s_[1:2], initial_condition=(0.0, jnp.array([1.0, 0.5])),
        weights={"dyn_loss": 1.0, "observations": 1.0, "initial_condition": 2.0},
    )  # fmt: skip
    frozen = ta.from_jinns(
        solution[4], solution[0], {"k[0]": WIDE, "k[1]": WIDE}, points=solution[3],
        observed=solution[8],
    )  # fmt: skip
    assert_is_least_squares_system(frozen)
    system = frozen.weights
    assert system.how == "point by point, vectorized (jax.vmap of jax.jacrev)"
    u = solution[4].u(jnp.zeros(1), solution[0])
    np.testing.assert_allclose(
        np.abs(system.conditions(system.start)), np.abs(u - np.array([1.0, 0.5])), rtol=1e-5
    )
    assert "conditions.unknown" not in codes(frozen)
    points_alone = ta.from_jinns(
        solution[4], solution[0], {"k[0]": WIDE, "k[1]": WIDE}, points=solution[3].times
    )
    assert "conditions.unknown" in codes(points_alone)
    assert points_alone.weights.conditions(system.start).size == 0


@pytest.mark.long
def test_weights_with_conditions_in_space_and_time():
    where = jnp.stack([jnp.linspace(0.1, 0.9, 7), jnp.linspace(0.2, 0.8, 7)], axis=1)
    box = dict(dim=1, min_pts=(0.0,), max_pts=(1.0,), tmin=0.0, tmax=1.0)
    data = jinns.data.CubicMeshPDENonStatio(
        key=jax.random.PRNGKey(1), n=40, ni=4, nb=10, border_batch_size=None, **box
    )
    solution = fitted_to(
        "PDENonStatio",
        Heat(),
        {"theta": -1.0},
        observations(where, jnp.cos(where[:, :1])),
        data=data,
        initial_condition_fun=jnp.sin,
        boundary_condition=jinns.loss.Dirichlet(),
        weights={
            "dyn_loss": 2.0, "observations": 1.0, "initial_condition": 0.3, "boundary_loss": 4.0
        },
    )  # fmt: skip
    frozen = ta.from_jinns(
        solution[4], solution[0], {"theta": WIDE}, points=solution[3], observed=solution[8],
        transform={"theta": jnp.exp},
    )  # fmt: skip
    assert_is_least_squares_system(frozen)
    system = frozen.weights
    _, batch = solution[3].get_batch()
    _, seen = solution[8].get_batch()
    terms = solution[4].evaluate(solution[0], jinns.data.append_obs_batch(batch, seen))[1]
    own = float(terms.boundary_loss) + float(terms.initial_condition)
    assert (system.conditions(system.start) ** 2).sum() == pytest.approx(own, rel=1e-5)


@pytest.mark.long
def test_observations_of_one_of_two_fields():
    times = jnp.linspace(0.1, 0.9, 6)[:, None]
    solution = fitted_to(
        "ODE", Both(), {"k": [1.0, 2.0]}, observations(times, jnp.exp(-times)), outputs=2,
        obs_slice=jnp.s_[1:2], weights={"dyn_loss": 1.0, "observations": 1.0},
    )  # fmt: skip
    known = {"k[0]": WIDE, "k[1]": WIDE}
    frozen = ta.from_jinns(
        solution[4], solution[0], known, points=solution[3], observed=solution[8]
    )
    outputs = [solution[4].u(jnp.asarray(t), solution[0])[1] for t in np.asarray(times)]
    np.testing.assert_allclose(frozen.fitted, outputs, rtol=1e-5)
    assert_is_training_loss(frozen, own_loss(solution))


class Growth(jinns.loss.ODE):
    """u' = growth_0 u - growth_1 + source."""

    def equation(self, t, u, params):
        growth, source = params.eq_params.growth, params.eq_params.source
        slope = jax.jacfwd(lambda s: u(s, params))(t)[:, 0]
        return slope - growth[0] * u(t, params) + growth[1] - source


GROWTH = {
    "growth": ta.ParameterArray(shape=(2,), bounds=(-10.0, 10.0), coordinate="linear"),
    "source": REAL,
}


def growing(train, *, residual, observed):
    """Train with derivative keys: whether a term moves the network, growth and source."""
    EqParams.clear()
    key, times = jax.random.PRNGKey(0), jnp.linspace(0.1, 0.9, 6)[:, None]
    layers = ((eqx.nn.Linear, 1, 8), (jax.nn.tanh,), (eqx.nn.Linear, 8, 1))
    u, weights = jinns.nn.PINN_MLP.create(key=key, eqx_list=layers, eq_type="ODE")
    start = Params(
        nn_params=weights, eq_params={"growth": jnp.array([0.5, 0.2]), "source": jnp.array(0.1)}
    )
    dynamic, data = (
        Params(nn_params=network, eq_params={"growth": growth, "source": source})
        for network, growth, source in (residual, observed)
    )
    keys = jinns.parameters.DerivativeKeysODE(
        dyn_loss=dynamic, observations=data, initial_condition=data
    )
    weigh = jinns.loss.LossWeightsODE(dyn_loss=0.5, observations=3.0)
    loss = jinns.loss.LossODE(
        u=u, dynamic_loss=Growth(), loss_weights=weigh, derivative_keys=keys, params=start
    )
    return start, train(
        init_params=start, data=generator("ODE"), loss=loss, obs_data=observations(times, times),
        tracked_params=Params(nn_params=None, eq_params={"growth": True, "source": True}),
        verbose=False, key=key,
    )  # fmt: skip


def alternately(**arguments):
    """Train network and unknowns in turns, 4 of 3 + 2 + 2 iterations."""
    optimizer = optax.adam(1e-2)
    return jinns.solve_alternate(
        n_iter=4,
        optimizers=Params(
            nn_params=optimizer, eq_params={"growth": optimizer, "source": optimizer}
        ),
        n_iter_by_solver=Params(nn_params=3, eq_params={"growth": 2, "source": 2}),
        **arguments,
    )


def all_at_once(**arguments):
    return jinns.solve(n_iter=8, optimizer=optax.adam(1e-2), **arguments)


EVERYTHING, NETWORK = (True, True, True), (True, False, False)


@pytest.mark.parametrize("keys", [EVERYTHING, NETWORK])
def test_unknowns_that_were_trained_in_turns_of_their_own(keys):
    start, outputs = growing(alternately, residual=keys, observed=NETWORK)
    loss, params, points, seen = (outputs[k] for k in (4, 0, 3, 8))
    assert not np.any(jax.tree.leaves(loss.derivative_keys.dyn_loss.eq_params))
    moved = [after - before for after, before in zip(
        *(jax.tree.leaves(each.eq_params) for each in (params, start)), strict=True
    )]  # fmt: skip
    assert all(np.all(each != 0) for each in moved)
    frozen = ta.from_jinns(loss, params, GROWTH, points=points, observed=seen)
    found = [note.code for note in frozen.notes]
    # Of a training in which nothing moved them the same would be left.
    assert "training.keys_of_network" in found
    assert not {"training.residual_held", "objective.unknown"} & set(found)
    assert_is_training_loss(frozen, own_loss(outputs))
    audit = ta.audit(frozen, history=outputs, noise=0.1)
    assert audit.group("/history").sizes["step"] == 4 * (3 + 2 + 2)
    path = audit.group("/history")["value"].sel(parameter="growth[1]").values
    np.testing.assert_allclose(path[-1], params.eq_params.growth[1], rtol=1e-6)


@pytest.mark.parametrize(
    ("residual", "observed", "held"),
    [
        (NETWORK, EVERYTHING, ["growth[0]", "growth[1]", "source"]),
        ((True, True, False), NETWORK, ["source"]),
        ((False, True, True), NETWORK, []),  # the network does not follow the residual
    ],
)
def test_a_loss_whose_gradient_was_stopped_is_no_objective(residual, observed, held):
    _, outputs = growing(all_at_once, residual=residual, observed=observed)
    frozen = ta.from_jinns(outputs[4], outputs[0], GROWTH, points=outputs[3], observed=outputs[8])
    assert frozen.objective is None
    found = [note.code for note in frozen.notes]
    assert "objective.unknown" in found
    assert found.count("training.residual_held") == len(held)
    assert "training.keys_of_network" not in found


@pytest.mark.long
def test_bad_refinements_are_told(observed_decay):
    loss, params, points, seen = (observed_decay[k] for k in (4, 0, 3, 8))
    assert_bad_refinements_are_told(
        ta.from_jinns(loss, params, {"rate": WIDE}, points=points, observed=seen)
    )


def test_an_unknown_field_is_refused_plainly():
    EqParams.clear()
    params = Params(nn_params=None, eq_params={"rate": jnp.asarray(2.0)})
    field = {"rate": lambda t, _, params: params.eq_params.rate * t[0]}
    loss = SimpleNamespace(dynamic_loss=(Decay(eq_params_heterogeneity=field, params=params),))
    with pytest.raises(ta.InputError, match=r"rate at every point.*UnknownFunction"):
        _refuse_fields(loss, ["rate"])
    _refuse_fields(SimpleNamespace(dynamic_loss=(Decay(),)), ["rate"])


# ------------------------------------------------------------------ while it trains


def untrained():
    """Return what jinns.solve is called with, for the decay."""
    EqParams.clear()
    layers = ((eqx.nn.Linear, 1, 8), (jax.nn.tanh,), (eqx.nn.Linear, 8, 1))
    u, weights = jinns.nn.PINN_MLP.create(key=jax.random.PRNGKey(0), eqx_list=layers, eq_type="ODE")
    start = Params(nn_params=weights, eq_params={"rate": jnp.asarray(0.7)})
    make, weigh, derive = KINDS["ODE"]
    loss = make(
        u=u,
        dynamic_loss=Decay(),
        loss_weights=weigh(dyn_loss=1.0),
        derivative_keys=derive.from_str(params=start, dyn_loss="both"),
        params=start,
    )
    tracked = Params(nn_params=None, eq_params={"rate": True})
    return {
        "init_params": start,
        "data": generator("ODE"),
        "loss": loss,
        "optimizer": optax.adam(1e-2),
        "tracked_params": tracked,
    }


def decay_follower(**options):
    return ta.Follower(
        lambda loss, params, data, observed: ta.from_jinns(
            loss, params, {"rate": WIDE}, points=data, observed=observed
        ),
        **{"every": 4, "progress": False, "max_share": 1.0, **options},
    )


def test_a_training_in_pieces_is_followed_and_the_same():
    follower, arguments = decay_follower(), untrained()
    outputs = ta.jinns_solve(follower, n_iter=9, **arguments)
    assert follower.messages == []
    assert [row.step for row in follower.rows] == [4, 8, 9]
    assert follower.steps == 9
    whole = jinns.solve(n_iter=9, verbose=False, **arguments)
    np.testing.assert_allclose(outputs[1], whole[1], rtol=1e-5)
    np.testing.assert_allclose(outputs[6].eq_params.rate, whole[6].eq_params.rate, rtol=1e-5)
    assert follower.rows[-1].value[0] == pytest.approx(float(outputs[0].eq_params.rate))
    with pytest.raises(ta.InputError, match="without validation"):
        ta.jinns_solve(follower, n_iter=9, validation=object(), **arguments)
    frozen = ta.from_jinns(outputs[4], outputs[0], {"rate": WIDE}, points=outputs[3])
    recorded = ta.audit(frozen, history=outputs, spectrum=False).group("/history")
    np.testing.assert_allclose(recorded["value"][:, 0], outputs[6].eq_params.rate)
    assert recorded["step"].values.tolist() == list(range(1, 10))


def test_pieces_and_measurements_are_compiled_once():
    counts = []
    with counted_compilations() as compiled:

        def freeze(loss, params, data, observed):
            counts.append(len(compiled))
            return ta.from_jinns(loss, params, {"rate": WIDE}, points=data, observed=observed)

        follower = ta.Follower(freeze, every=4, progress=False, max_share=1.0)
        ta.jinns_solve(follower, n_iter=16, **untrained())
        counts.append(len(compiled))
    assert follower.messages == []
    setup, *measured = np.diff(counts)
    assert setup > 0
    assert measured == [0, 0, 0, 0]


@pytest.mark.long
def test_a_training_in_pieces_stops_where_that_is_asked_for():
    loose = ta.Tolerance(material=1e4, resolution=5, preference=5)
    follower = decay_follower(every=2, tolerance=loose, patience=1)
    outputs = ta.jinns_solve(follower, n_iter=99, stop=True, **untrained())
    assert follower.finished
    assert len(outputs[1]) == follower.rows[-1].step < 99


class Noisy(jinns.loss.ODE):
    """The decay, with another term that is drawn when the equation is compiled."""

    draw: Any = eqx.field(static=True, kw_only=True)

    def equation(self, t, u, params):
        return Decay().equation(t, u, params) + self.draw()


@pytest.mark.parametrize(
    "draw", [np.random.rand, random.random, np.random.default_rng(0).random],
    ids=["NumPy", "Python", "a generator"],
)  # fmt: skip
def test_an_equation_that_draws_random_numbers(draw):
    noise = draw()
    for each, refused in ((draw, True), (lambda: noise, False)):
        model = trained("ODE", Noisy(draw=each), {"rate": 0.7}, steps=2)
        arguments = model.loss, model.params, model.data, {"rate": WIDE}
        if refused:
            with pytest.raises(ta.InputError, match="a deterministic residual"):
                from_jinns(*arguments)
        else:
            assert np.isfinite(ta.score(from_jinns(*arguments)).displacement["rate"])


# ---------------------------------------------------------------- another field


def test_another_field_stands_within_the_transforms_of_a_pinn():
    hard = dict(output_transform=lambda t, u, _: 1.0 + t * u)
    solved = trained("ODE", Decay(), {"rate": 1.4}, **hard)
    frozen = ta.from_jinns(solved.loss, solved.params, {"rate": WIDE}, points=solved.data)
    slot = frozen.weights.slot()
    splines = TensorSplines.on_box([0.0], [1.0], [4])
    coefficients = np.random.default_rng(0).uniform(0.5, 1.5, (splines.size, 1))
    where, numbers = frozen.points, np.array([0.8])

    def evaluated(function):
        orders = function.orders_used(numbers, where, 1.0)
        jets = [each @ coefficients for each in splines.design(where, orders)]
        return function.values(np.stack(jets), orders, numbers, where)

    u, slope = (each @ coefficients for each in splines.design(where, [(0,), (1,)]))
    np.testing.assert_allclose(evaluated(slot.observed), 1 + where * u, rtol=1e-12)
    residual = u + where * slope + 0.8 * (1 + where * u)
    np.testing.assert_allclose(evaluated(slot.equations[0]), residual, rtol=1e-10)
    again = slot.freeze(splines, coefficients, frozen.known)
    np.testing.assert_allclose(again.residual(rate=0.8), residual[:, 0], rtol=1e-10)


def test_a_refinement_is_least_squares_with_the_solution():
    data = generator("ODE")
    times = np.linspace(0, 1, 40)
    values = np.exp(-0.7 * times) + 0.02 * np.random.default_rng(3).standard_normal(40)
    solved = trained("ODE", Decay(), {"rate": 1.4}, data=data)
    loss = eqx.tree_at(
        lambda each: (each.initial_condition, each.loss_weights.initial_condition),
        solved.loss,
        ((jnp.zeros(1), jnp.ones(1)), 1.0),
        is_leaf=lambda each: each is None,
    )
    frozen = ta.from_jinns(
        loss, solved.params, {"rate": WIDE}, points=data, observed=times[:, None]
    )
    assert frozen.weights.slot().conditions is not None
    found = ta.refine(frozen, values, noise=0.02, progress=False)
    best, covariance = curve_fit(
        lambda t, rate: np.exp(-rate * t), times, values, 1.0, np.full(40, 0.02),
        absolute_sigma=True,
    )  # fmt: skip
    error = covariance[0, 0] ** 0.5
    assert abs(found.values["rate"] - best[0]) < 0.02 * error
    assert abs(found.standard_error["rate"] / error - 1) < 0.02

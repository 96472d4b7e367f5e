"""The loop: what is reported, what rests, what is fixed, and what happens when a run diverges."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import twoaxis as ta
from twoaxis.runs.task import trained_runs
from twoaxis.training import METHODS
from twoaxis.training.backends import JaxDevice, find_device
from twoaxis.training.batch import Batch, Progress
from twoaxis.training.loop import NOT_DIVERGED, build_advance, build_step, initial_state
from twoaxis.training.methods import Recipe
from twoaxis.training.run_data import in_precision

EVERY_METHOD = pytest.mark.parametrize("method", METHODS)


def stepped(job, *cuts):
    """The states of a job after so many steps each, for every cut of the steps."""
    data = job.data()
    start, found = job.begin(data).state, []
    backend = JaxDevice(find_device("cpu"))
    with backend.session(job.settings, data) as session:
        for ends in cuts:
            state, done, states = start, 0, []
            for end in ends:
                state = session.advance(state, done, end - done)
                done = end
                states.append(state)
            found.append(states)
    return found[0] if len(cuts) == 1 else found


def leaves_equal(left, right):
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        assert a.dtype == b.dtype
        assert_array_equal(a, b)


# ------------------------------------------------------------------ what a run reports


@EVERY_METHOD
def test_the_reported_loss_is_the_frozen_view_on_the_field_before_the_step(trained, made, method):
    for run in trained[method]:
        step, before = run.follow()[-1]
        assert step == made.STEPS - 1
        r = before.residual(**run.snapshots[-1].delivered)
        last = run.history.iloc[-1]
        assert last["step"] == made.STEPS
        assert_allclose(r @ run.view.bind(run.points).apply(r), last["loss_residual"], rtol=1e-4)
        assert_allclose(last["loss"], last["loss_data"] + 2 * last["loss_residual"], rtol=1e-12)
        # One step is enough to tell the two fields apart.
        after = run.residual(**run.delivered)
        assert abs(after @ after - r @ r) > 1e-3 * (r @ r)


def test_the_reported_data_loss_is_the_misfit_before_the_step(trained):
    run = trained["adam"][0]
    before = replace(run, final=run.snapshots[-1])
    misfit = before.field(run.dataset.coordinates) - run.dataset.values
    assert_allclose((misfit**2).mean(), run.history.iloc[-1]["loss_data"], rtol=1e-5)


def test_attention_weights_are_those_of_the_last_evaluated_loss(made):
    run = made.tiny_train(snapshots=[1, 2, 3])[0]
    w = np.zeros(made.POINTS)
    fields = [initial_frozen(run), *(frozen for _, frozen in run.follow())]
    for snapshot, before in zip(run.snapshots, fields, strict=False):
        at = {name: p.delivered for name, p in before.parameters.items()}
        r = np.abs(before.residual(**at))
        w = 0.999 * w + 0.001 * r / r.max()
        frozen = snapshot.view.bind(run.points).matrix()
        assert_allclose(frozen, np.diag(w**2) / made.POINTS, rtol=1e-3, atol=1e-12)


def initial_frozen(run):
    """The field before the first step."""
    settings = run.settings
    job = Batch(settings, [run.spec])
    state = job.begin(job.data()).state
    layers = jax.tree.map(lambda leaf: leaf[0], state["layers"])
    start = replace(run.final, step=0, layers=layers, delivered=dict(run.spec.start))
    return replace(run, final=start).frozen


# ------------------------------------------------------------------ what moves and what rests


def test_a_warmup_rests_the_parameter_exactly(made):
    settings = made.tiny_settings(method="adam", warmup=0.4, precision="float32")
    assert settings.warmup_steps == 4
    job = Batch(settings, [made.tiny_spec()])
    start = job.begin(job.data()).state
    states = stepped(job, range(1, 11))
    for state in states[:4]:
        assert_array_equal(state["coordinates"], start["coordinates"])
        leaves_equal(state["coordinates_adam"], start["coordinates_adam"])
        assert not np.array_equal(state["layers"][0][0], start["layers"][0][0])
    for number, state in enumerate(states[4:]):
        assert not np.array_equal(state["coordinates"], states[3 + number]["coordinates"])
        assert state["coordinates_adam"][0].count == number + 1


def test_the_methods_own_warmup_is_the_default(trained):
    patch, adam = ([s.delivered["nu"] for s in trained[m][0].snapshots] for m in ("patch", "adam"))
    assert trained["patch"][0].settings.warmup_steps == 5
    # The start is rounded to float32 on its way through the logarithm.
    assert patch[0] == np.exp(np.float64(np.float32(np.log(0.02))))
    assert len(set(patch)) == 3
    assert adam[0] != patch[0]


def test_fixed_parameters_stay_exactly(made):
    settings = made.tiny_settings("darcy", "adam", precision="float32")
    job = Batch(settings, [made.tiny_spec("darcy", fixed={"lambda_1": 0.3})])
    start = job.begin(job.data()).state["coordinates"]
    for state in stepped(job, [1, 10]):
        assert_array_equal(state["coordinates"][:, 1], start[:, 1])
        assert (state["coordinates"][:, 0] != start[:, 0]).all()
    assert_array_equal(start, np.array([[0.0, 0.3]], np.float32))


def test_two_linear_parameters(made):
    settings = made.tiny_settings("darcy", "adam", precision="float32")
    job = Batch(settings, [made.tiny_spec("darcy", start={"lambda_0": -0.5, "lambda_1": 0.4})])
    (state,) = stepped(job, [10])
    run = trained_runs(job, Progress(10, state, [{"step": 10, **state}]))[0]
    assert list(run.delivered) == ["lambda_0", "lambda_1"]
    assert list(run.history)[-2:] == ["lambda_0", "lambda_1"]
    assert 0 < abs(run.delivered["lambda_0"] + 0.5) < 0.02
    assert 0 < abs(run.delivered["lambda_1"] - 0.4) < 0.02
    assert run.residual(**run.delivered).shape == (made.POINTS,)


def test_a_fixed_parameter_is_delivered_as_it_was_given(made):
    run = made.tiny_train(fixed={"nu": 0.0123}, snapshots=2)[0]
    assert run.delivered == {"nu": 0.0123}
    assert set(run.history["nu"]) == {0.0123}
    assert {s.delivered["nu"] for s in run.snapshots} == {0.0123}
    assert run.spec.fixed == {"nu"}


def test_starting_values(made):
    first = [made.tiny_train(start=s, snapshots=[1])[0] for s in (None, {"nu": 0.03})]
    for run, start in zip(first, (0.02, 0.03), strict=True):
        assert run.spec.start == {"nu": start}
        assert 0 < abs(run.snapshots[0].delivered["nu"] / start - 1) < 1.1e-3


# ------------------------------------------------------------------ numbers


def test_precision_is_that_of_all_arrays(made):
    first = {}
    for precision in ("float32", "float64"):
        job = Batch(made.tiny_settings(precision=precision), [made.tiny_spec()])
        (state,) = stepped(job, [2])
        floats = [a for a in jax.tree.leaves(state) if a.dtype.kind == "f"]
        assert {a.dtype.name for a in floats} == {precision}
        assert len(floats) > 10
        first[precision] = state["layers"][1][0]
    assert 0 < np.abs(first["float32"] - first["float64"]).max() < 1e-4


def test_whole_numbers_of_a_rule_stay_whole(made):
    with jax.enable_x64(True):
        found = in_precision(made.tiny_settings(precision="float32"), {"n": np.int32(3), "w": 0.5})
    assert {name: leaf.dtype.name for name, leaf in found.items()} == {"n": "int32", "w": "float32"}


def test_double_precision_is_kept_by_a_run(made):
    run = made.tiny_train(precision="float64", steps=2)[0]
    assert run.final.layers[0][0].dtype == np.float64


def test_products_have_full_precision(made):
    """Reduced products, which some devices use by default, bias the parameter."""
    for method in ("rba", "gaussian", "selector"):
        settings = made.tiny_settings(method=method, precision="float32")
        job = Batch(settings, [made.tiny_spec()])
        (data,) = job.data()
        state = initial_state(settings, job.specs[0], data)
        program = jax.make_jaxpr(build_advance(build_step(settings)))(state, data, 0, 1)
        found = list(products(program.jaxpr))
        assert len(found) > 10
        assert all(part == jax.lax.Precision.HIGHEST for pair in found for part in pair)


def products(jaxpr):
    """The precision of every matrix product in a program, its inner ones too."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            yield equation.params["precision"]
        for parameter in equation.params.values():
            for inner in parameter if isinstance(parameter, (tuple, list)) else [parameter]:
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from products(inner)


@pytest.mark.parametrize("method", ["rba", "selector", "patch"])
def test_another_cut_of_the_steps_gives_the_same_bits(made, trained, method):
    specs = [run.spec for run in trained[method]]
    job = Batch(trained[method][0].settings, specs)
    whole, pieces = stepped(job, [made.STEPS], [1, 2, 7, made.STEPS])
    leaves_equal(whole[-1], pieces[-1])


def test_snapshots_do_not_change_a_run(made):
    plain = made.tiny_train()[0]
    odd = made.tiny_train(snapshots=[1, 5, 11, 13])[0]
    for (w, b), (v, c) in zip(plain.final.layers, odd.final.layers, strict=True):
        assert_array_equal(w, v)
        assert_array_equal(b, c)
    assert plain.delivered == odd.delivered
    assert [s.step for s in odd.snapshots] == [1, 5, 11, 13]


# ------------------------------------------------------------------ divergence


def spoiled(dataset, value=1e30):
    values = dataset.values.copy()
    values[3] = value
    return replace(dataset, values=values)


def test_a_diverged_run_leaves_its_neighbours_alone(made):
    good = [made.tiny_dataset("burgers", n) for n in range(3)]
    healthy = made.tiny_train(datasets=good, batch=3)
    mixed = made.tiny_train(datasets=[good[0], spoiled(good[1]), good[2]], batch=3)
    for n in (0, 2):
        made.assert_same_bits(healthy[n], mixed[n])
    bad = mixed[1]
    assert bad.status.startswith("diverged at step 1: ")
    assert not bad.finished
    assert bad.final.step == 0
    assert len(bad.history) == 0
    assert_allclose(bad.delivered["nu"], 0.02, rtol=1e-6)
    # The last finite state is the start, and can be diagnosed.
    assert np.isfinite(ta.score(bad.frozen, at="delivered").H).all()
    assert np.isfinite(bad.field(good[0].coordinates)).all()
    table = mixed.to_dataframe()
    assert list(table["status"]) == ["finished", bad.status, "finished"]
    assert np.isnan(table["loss_data"][1])
    assert repr(mixed) == "<Runs: 3 of burgers; 2 finished, 1 diverged>"


@dataclass(frozen=True)
class Breaking:
    """A weight rule that fails at step 5 where the residual begins with a negative value."""

    needs_modes: bool = False

    def initial(self, points, modes):  # noqa: ARG002
        return {"points": jnp.ones(points)}

    def update(self, weights, moment):
        broken = (moment.step == 5) & (moment.residual[0] < 0)
        return {"points": jnp.where(broken, jnp.inf, weights["points"])}


@dataclass(frozen=True)
class BreakingMethod:
    name: str = "breaking"

    def recipe(self):
        return Recipe(weights=Breaking())


def test_a_run_that_diverges_later_keeps_its_last_finite_state(made):
    options = dict(datasets=5, steps=60, snapshots=[3, 5, 6, 60], batch=5)
    runs = made.tiny_train(method=BreakingMethod(), **options)
    ends = [run.final.step for run in runs]
    assert set(ends) == {5, 60}  # some went on and some did not
    for run in runs:
        if run.finished:
            assert [s.step for s in run.snapshots] == [3, 5, 6, 60]
            continue
        assert run.status.startswith("diverged at step 6")
        assert [s.step for s in run.snapshots] == [3, 5]
        assert list(run.history["step"]) == [1, 2, 3, 4, 5]
        assert_array_equal(made.flat(run.final.layers), made.flat(run.snapshots[-1].layers))
        assert not np.array_equal(run.final.layers[0][0], run.snapshots[0].layers[0][0])
        assert np.isfinite(run.residual(**run.delivered)).all()


def test_a_huge_learning_rate_ends_with_a_status(made):
    for run in made.tiny_train(datasets=2, learning_rate=1e8):
        assert run.status.startswith("diverged at step")
        assert np.isfinite(made.flat(run.final.layers)).all()
        assert all(np.isfinite(value) for value in run.delivered.values())
        assert np.isfinite(run.residual(**run.delivered)).all()
        assert run.frozen.parameters["nu"].delivered == run.delivered["nu"] > 0


def test_a_diverged_run_stays_where_it_was(made):
    settings = made.tiny_settings(precision="float32")
    spec = made.tiny_spec()
    job = Batch(settings, [replace(spec, dataset=spoiled(spec.dataset))])
    first, later = stepped(job, [1, 10])
    leaves_equal(first, later)
    assert later["diverged"][0] == 0
    healthy = stepped(Batch(settings, [spec]), [10])[-1]
    assert healthy["diverged"][0] == NOT_DIVERGED

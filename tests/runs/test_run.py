"""A run as a value: its residual, its field, its frozen form, its tables."""

from functools import partial
from itertools import pairwise

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import twoaxis as ta
from twoaxis.errors import InputError
from twoaxis.forward import get_solver
from twoaxis.problems import PROBLEMS, FixedEnds, get_problem
from twoaxis.runs import Runs
from twoaxis.training import METHODS
from twoaxis.training.loop import initial_network
from twoaxis.training.network import field_arrays, field_derivatives

EVERY_PROBLEM = pytest.mark.parametrize("problem", PROBLEMS)


@pytest.fixture(scope="module")
def exact(made):
    """A run with exact conditions on every problem, trained long enough to leave its start."""
    return {
        name: made.tiny_train(
            name, conditions="exact", steps=50, learning_rate=0.01, residual_points=30
        )[0]
        for name in PROBLEMS
    }


def double(layers):
    return [(np.asarray(w, float), np.asarray(b, float)) for w, b in layers]


@EVERY_PROBLEM
def test_the_residual_is_that_of_the_network_in_double_precision(made, exact, problem):
    run = exact[problem]
    where = run.points[:, 1] > (0.02 if problem != "darcy" else 0)
    parameters = run.problem.parameters
    q = np.array([float(p.to_coordinate(run.delivered[n])) for n, p in parameters.items()])
    with jax.enable_x64(True):
        nested = jax.jit(partial(made.nested_residual, problem, "exact"))
        wanted = nested(double(run.final.layers), q, run.points[where])
    found = run.residual(**run.delivered)
    assert found.dtype == np.float64
    assert_allclose(found[where], wanted, rtol=1e-8, atol=1e-9 * np.abs(wanted).max())
    assert_array_equal(run.frozen.residual(**run.delivered), found)
    assert_allclose(run.frozen.residual_at(run.points, **run.delivered), found, rtol=1e-12)


@EVERY_PROBLEM
def test_the_jacobian_is_exact(exact, problem):
    frozen = exact[problem].frozen
    at = {name: p.delivered for name, p in frozen.parameters.items()}
    found = frozen.jacobian(**at)
    assert found.shape == (30, len(at))
    for column, name in enumerate(at):
        h = 1e-6 * max(abs(at[name]), 1.0)
        up, down = (frozen.residual(**{**at, name: at[name] + s * h}) for s in (1, -1))
        wanted = (up - down) / (2 * h)
        assert_allclose(
            found[:, column], wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max() + 1e-12
        )


# ------------------------------------------------------------------ exact conditions


def fine_grid(problem):
    """Points of the fine solver's grid, with shape (times, places, 2)."""
    solver = get_solver(problem)
    shape = solver.shape
    return solver.points(np.arange(int(np.prod(shape)))).reshape(*shape, 2)


@pytest.mark.parametrize("problem", ["burgers", "buckley-leverett", "allen-cahn"])
def test_the_initial_condition_is_met(exact, problem):
    start = fine_grid(problem)[0]
    assert (start[:, 1] == 0).all()
    wanted = get_problem(problem).initial(start[:, 0])
    found = exact[problem].field(start)
    assert np.linalg.norm(found - wanted) < 1e-6 * np.linalg.norm(wanted)


@pytest.mark.parametrize("problem", ["burgers", "buckley-leverett"])
def test_boundary_values_are_met(exact, problem):
    grid, ends = fine_grid(problem), get_problem(problem).ends
    assert isinstance(ends, FixedEnds)
    assert np.abs(exact[problem].field(grid[:, 0]) - ends.left).max() < 1e-6
    assert np.abs(exact[problem].field(grid[:, -1]) - ends.right).max() < 1e-6


def test_boundary_values_of_a_square_are_met(exact):
    grid = fine_grid("darcy")
    edges = np.concatenate([grid[0], grid[-1], grid[:, 0], grid[:, -1]])
    assert np.abs(exact["darcy"].field(edges)).max() < 1e-6


def test_the_slope_vanishes_at_the_ends_after_the_start(exact):
    run, grid = exact["allen-cahn"], fine_grid("allen-cahn")
    for end in (grid[1:, 0], grid[1:, -1]):
        arrays = field_arrays(run.problem, "exact", end)
        layers = double(run.final.layers)
        slope = field_derivatives(layers, arrays, ("x", "t"), run.problem.derivatives, np)["u_x"]
        assert np.abs(slope).max() < 1e-6
        inside = end + np.array([-1e-7 * np.sign(end[0, 0]), 0])
        late = end[:, 1] > 0.01
        quotient = (run.field(inside) - run.field(end))[late] / 1e-7
        assert np.abs(quotient).max() < 1e-3


def test_training_moved_these_fields(made, exact):
    for run in exact.values():
        start = made.flat(initial_network(run.settings, run.spec))
        assert np.abs(made.flat(run.final.layers) - start).max() > 0.1
        assert run.finished


# ------------------------------------------------------------------ what a run hands out


def test_history(trained, made):
    for name, runs in trained.items():
        history = runs[0].history
        assert list(history) == ["step", "loss", "loss_data", "loss_residual", "nu"]
        assert list(history["step"]) == list(range(1, made.STEPS + 1))
        assert np.isfinite(history.to_numpy()).all()
        assert (history["loss"] > 0).all()
        assert history["nu"].iloc[-1] == runs[0].delivered["nu"]
        assert history["loss_data"].iloc[-1] < history["loss_data"].iloc[0], name


def test_history_has_about_fifty_rows_and_the_last_step(made):
    run = made.tiny_train(steps=157, snapshots=[100])[0]
    steps = list(run.history["step"])
    assert steps == sorted({*range(3, 157, 3), 100, 157})


def test_follow(trained, made):
    for runs in trained.values():
        run = runs[0]
        steps, fields = zip(*run.follow(), strict=True)
        assert steps == made.SNAPSHOTS
        for frozen, snapshot in zip(fields, run.snapshots, strict=True):
            assert frozen.parameters["nu"].delivered == snapshot.delivered["nu"]
            assert frozen.view is snapshot.view
            assert_array_equal(frozen.points, run.points)
        residuals = [frozen.residual(nu=0.01) for frozen in (*fields, run.frozen)]
        for first, second in pairwise(residuals):
            assert np.abs(first - second).max() > 1e-6


def test_the_last_snapshot_may_be_the_end(made):
    run = made.tiny_train(snapshots=2)[0]
    assert [s.step for s in run.snapshots] == [12, 24]
    assert_array_equal(run.snapshots[-1].layers[0][0], run.final.layers[0][0])
    assert made.tiny_train()[0].snapshots == ()
    assert made.tiny_train()[0].follow() == []


@pytest.mark.parametrize("method", METHODS)
def test_axis_two_takes_a_run(trained, method):
    frozen = trained[method][0].frozen
    score = ta.score(frozen)
    assert np.isfinite(score.H).all()
    assert score.H > 0
    scan = ta.frozen_scan(frozen)
    assert 0.002 <= scan.minimum["nu"] <= 0.05


def test_moved_to_other_points(trained):
    run = trained["adam"][0]
    where = np.array([[0.3, 0.5], [-0.2, 0.1], [0.0, 1.0]])
    moved = run.frozen.moved_to(where)
    assert_array_equal(moved.residual(nu=0.01), run.frozen.residual_at(where, nu=0.01))
    assert moved.size == 3


def test_bounds_hold_what_was_delivered(made):
    run = made.tiny_train(start={"nu": 0.05}, method="adam", batch=2, datasets=2)[0]
    assert run.frozen.parameters["nu"].bounds[1] == max(0.05, run.delivered["nu"])
    assert run.problem.parameters["nu"].bounds == (0.002, 0.05)


def test_field_error_is_the_relative_distance_over_the_grid(trained):
    run = trained["rba"][0]
    solver = get_solver("burgers")
    truth = solver.true_field()
    every = run.field(solver.points(np.arange(truth.size))).reshape(truth.shape)
    assert_allclose(run.field_error(), np.sqrt(((every - truth) ** 2).sum() / (truth**2).sum()))


def test_error_percent(trained):
    run = trained["rba"][0]
    assert_allclose(run.error_percent["nu"], 100 * (run.delivered["nu"] - 0.01) / 0.01)


BAD_POINTS = {
    "one coordinate": np.zeros((3, 1)),
    "a vector": np.zeros(2),
    "not finite": np.array([[0.0, np.nan]]),
    "text": [["a", "b"]],
    "ragged": [[1.0, 2.0], [3.0]],
}


@pytest.mark.parametrize("points", BAD_POINTS.values(), ids=BAD_POINTS)
def test_points_that_are_none(trained, points):
    run = trained["rba"][0]
    with pytest.raises(InputError, match=r"finite points with the columns x, t"):
        run.field(points)
    with pytest.raises(InputError, match=r"finite points with the columns x, t"):
        run.frozen.residual_at(points, nu=0.01)


def test_no_points(trained):
    assert trained["rba"][0].field(np.empty((0, 2))).shape == (0,)


def test_derivatives_cannot_be_changed_by_accident(trained):
    residual = trained["rba"][0].residual(nu=0.01)
    residual[:] = 0
    assert trained["rba"][0].residual(nu=0.01).any()
    assert trained["rba"][0].frozen.residual(nu=0.01).any()


# ------------------------------------------------------------------ several runs


def test_runs_are_a_sequence(trained):
    runs = Runs.of([run for pair in trained.values() for run in pair])
    assert len(runs) == 16
    assert isinstance(runs[2:5], Runs)
    assert [run.key for run in runs[2:5]] == [run.key for run in list(runs)[2:5]]
    assert runs[-1] is list(runs)[-1]
    assert runs[0] in runs
    with pytest.raises(IndexError):
        runs[16]
    assert len(runs[:0].to_dataframe()) == 0
    assert repr(runs) == "<Runs: 16 of burgers; 16 finished>"
    assert runs[0].key in repr(runs[0])
    assert "nu=" in repr(runs[0])


def test_the_table(trained):
    runs = trained["rba"]
    table = runs.to_dataframe()
    assert list(table) == [
        *("key", "problem", "method", "dataset", "seed", "steps", "loss_data", "loss_residual"),
        *("nu", "nu_error_percent", "status"),
    ]
    row = table.iloc[1]
    run = runs[1]
    assert row["key"] == run.key
    assert (row["problem"], row["method"], row["dataset"]) == ("burgers", "rba", "tiny1")
    assert (row["seed"], row["steps"], row["status"]) == (0, 24, "finished")
    assert row["nu"] == run.delivered["nu"]
    assert row["loss_residual"] == run.history["loss_residual"].iloc[-1]
    with_field = runs[:1].to_dataframe(field_error=True)
    assert with_field["field_error"][0] == runs[0].field_error()

"""The training loss as an objective: its value by NumPy, its gradient by differences, its use."""

from dataclasses import replace

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.remedies import polish
from twoaxis.runs import train
from twoaxis.runs.objective import run_objective
from twoaxis.training.run_data import boundary_sites

SMALL = {
    "datasets": 8,
    "residual_points": 60,
    "network": ta.Network(6, 2),
    "steps": 12,
    "progress": False,
}


@pytest.fixture(scope="module")
def objectives():
    chosen = [
        ("burgers", "rba", {}),
        ("allen-cahn", "gaussian", {"conditions": "exact"}),
        ("darcy", "pcgrad", {"datasets": None, "boundary_points": 20}),
    ]
    return {
        problem: run_objective(train(problem, method=method, **{**SMALL, **more})[0])
        for problem, method, more in chosen
    }


PROBLEMS = ("burgers", "allen-cahn", "darcy")


def loss_by_numpy(run):
    """The loss from what the run hands out: field, residual, view."""
    misfit = run.field(run.dataset.coordinates) - run.dataset.values
    loss = np.mean(misfit**2)
    residual = run.residual(**run.delivered)
    seen = run.view.bind(run.points).quadratic(residual, residual)
    if run.settings.has_boundary_term:
        edge = boundary_sites(run.settings, run.spec)
        off = run.field(edge) - run.problem.field(edge[:, 0], edge[:, 1])
        loss += run.settings.boundary_weight * np.mean(off**2)
    return loss + run.settings.physics_weight * seen


@pytest.mark.parametrize("problem", PROBLEMS)
def test_value_is_the_loss_of_the_run(problem, objectives):
    objective = objectives[problem]
    value, _ = objective.value_and_gradient(objective.start)
    assert value == pytest.approx(loss_by_numpy(objective.run), rel=1e-7)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_gradient_is_that_of_differences(problem, objectives):
    objective = objectives[problem]
    generator = np.random.default_rng(0)
    at = objective.start + 0.01 * generator.standard_normal(objective.start.size)
    _, gradient = objective.value_and_gradient(at)
    parameters = len(objective.names)
    own = np.zeros_like(at)
    own[-parameters:] = 1.0  # the parameters alone, beside a direction of everything
    for direction in (own, generator.standard_normal(at.size)):
        ahead, behind = (
            objective.value_and_gradient(at + s * 1e-5 * direction)[0] for s in (1, -1)
        )
        assert (ahead - behind) / 2e-5 == pytest.approx(gradient @ direction, rel=1e-5, abs=1e-9)


def test_value_is_the_loss_that_training_evaluates_next():
    """The last loss of a training was evaluated at the state one step before."""
    steps = SMALL["steps"]
    options = {**SMALL, "precision": "float64", "snapshots": [steps - 1]}
    run = train("burgers", method="adam", **options)[0]
    (before,) = run.snapshots
    objective = run_objective(replace(run, final=before))
    value, _ = objective.value_and_gradient(objective.start)
    assert value == pytest.approx(run.history["loss"].iloc[-1], rel=1e-12)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_start_is_the_run_itself(problem, objectives):
    objective = objectives[problem]
    run = objective.run
    back = objective.finished_run(objective.start)
    for (weight, bias), (w, b) in zip(back.final.layers, run.final.layers, strict=True):
        np.testing.assert_array_equal(weight, np.asarray(w, dtype=float))
        np.testing.assert_array_equal(bias, np.asarray(b, dtype=float))
    for name, value in run.delivered.items():
        assert back.delivered[name] == pytest.approx(value, rel=1e-14)
    frozen = objective.frozen(objective.start)
    np.testing.assert_allclose(
        frozen.residual(**run.delivered), run.residual(**run.delivered), rtol=1e-12
    )
    assert objective.names == list(run.problem.parameters)


def test_fixed_parameters_stay(objectives):
    run = objectives["darcy"].run
    held = replace(run, spec=replace(run.spec, fixed=frozenset({"lambda_0"})))
    objective = run_objective(held)
    assert objective.start.size == run.settings.network.parameter_count(2) + 1
    value, gradient = objective.value_and_gradient(objective.start)
    whole = objectives["darcy"].value_and_gradient(objectives["darcy"].start)
    assert value == pytest.approx(whole[0], rel=1e-12)
    np.testing.assert_allclose(gradient, np.delete(whole[1], -2), rtol=1e-9, atol=1e-12)
    moved = objective.finished_run(objective.start + 0.1).delivered
    assert moved["lambda_0"] == run.delivered["lambda_0"]
    assert moved["lambda_1"] == pytest.approx(run.delivered["lambda_1"] + 0.1)


@pytest.mark.parametrize(
    ("problem", "method"),
    [("buckley-leverett", "rba"), pytest.param("allen-cahn", "adam", marks=pytest.mark.long)],
)
def test_early_stopped_runs_close_their_gap_and_then_have_little_to_gain(problem, method):
    run = train(
        problem, method=method, datasets=8, steps=200, network=ta.Network(16, 2),
        residual_points=300, progress=False,
    )[0]  # fmt: skip
    objective = run_objective(run)
    found = polish(run, objective, iterations=200, progress=False)
    (closed,) = found.closed_percent.values()
    assert abs(next(iter(found.gap_before.values()))) > 5
    assert closed >= 90
    assert found.messages[0].code == "polish.gap_closed"
    assert found.finish.loss_after < found.finish.loss_before

    finished = objective.finished_run(found.finish.vector)
    again = polish(finished)
    assert again.little_to_gain


def test_bad_runs(objectives):
    run = objectives["burgers"].run
    with pytest.raises(ta.InputError, match=r"a run that twoaxis\.train returned"):
        run_objective(run.frozen)
    with pytest.raises(ta.InputError, match="trained at least one parameter"):
        run_objective(replace(run, spec=replace(run.spec, fixed=frozenset({"nu"}))))
    with pytest.raises(ta.InputError, match="stayed finite"):
        run_objective(replace(run, status="diverged at step 3"))

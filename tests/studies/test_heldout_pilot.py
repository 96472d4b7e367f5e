"""The held-out pilot: candidates, folds, the profile and the forward columns beside it."""

import numpy as np
import pandas as pd
import pytest

from twoaxis.datasets import published_dataset
from twoaxis.errors import InputError
from twoaxis.forward import get_solver
from twoaxis.problems import get_problem
from twoaxis.runs import Run, Snapshot
from twoaxis.studies.blocks.heldout_pilot import (
    BLOCK,
    candidates,
    location,
    prediction_profile,
    published_starts,
)
from twoaxis.studies.fields import PROBLEMS, Field
from twoaxis.studies.matched import gauss_newton_error
from twoaxis.studies.published import published_figures
from twoaxis.studies.readouts import PREDICTION, held_out
from twoaxis.studies.scale import FULL, SMOKE
from twoaxis.training import Network, settings_for
from twoaxis.views import Pointwise

BOUNDS = {"burgers": (0.002, 0.05), "buckley-leverett": (0.5, 4.0), "allen-cahn": (1.0, 10.0)}
TRUTH = {"burgers": 0.01, "buckley-leverett": 2.0, "allen-cahn": 5.0}


def synthetic_rows(scale, best, off_percent=10.0):
    """Rows of all fields, with the prediction error lowest at candidate number `best`."""
    predicted = []
    for field in BLOCK.needs(scale)[0].fields:
        numbers = candidates(field.problem, scale.pilot_candidates)
        away = int(np.argmin(np.abs(numbers - field.candidate))) - best
        predicted.append({**field.columns(), "held_out_mse": 1 + away**2 + 0.5 * field.fold})
    delivered = [
        {**field.columns(), "delivered": TRUTH[field.problem] * (1 - off_percent / 100)}
        for field in BLOCK.needs(scale)[1].fields
    ]
    return {"prediction": pd.DataFrame(predicted), "delivered": pd.DataFrame(delivered)}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_candidates_are_equispaced_in_the_logarithm_and_inside_the_bounds(problem):
    found = candidates(problem, 17)
    low, high = BOUNDS[problem]
    np.testing.assert_allclose(found, low * (high / low) ** (np.arange(17) / 16), rtol=1e-14)
    assert found.min() >= low
    assert found.max() <= high
    np.testing.assert_allclose(location(problem, found), np.arange(17) / 16, atol=1e-14)


def test_every_candidate_is_trained_on_both_halves():
    held, plain = BLOCK.needs(FULL)
    assert len(set(held.fields)) == 3 * 17 * 2
    assert {(f.method, f.dataset, f.conditions) for f in held.fields} == {("rba", 9, "soft")}
    for field in held.fields[::13]:
        spec = field.spec()
        assert len(spec.dataset.values) == 100
        assert list(spec.start.values()) == [field.candidate]
        assert spec.fixed == set(spec.start)
    assert [f.candidate for f in plain.fields] == [None] * 3


def test_the_published_location_gives_the_published_errors():
    figures = BLOCK.measure(synthetic_rows(FULL, best=11), FULL).figures
    for published in published_figures(BLOCK.name):
        if published.key.endswith(("location", "locations", "predicted", "matched")):
            assert published.same(figures[published.key].value), published.key


@pytest.mark.parametrize("scale", [FULL, SMOKE], ids=lambda scale: scale.name)
def test_measured_and_published_figures_have_the_same_keys(scale):
    found = BLOCK.measure(synthetic_rows(scale, best=2), scale)
    assert set(found.figures) == {figure.key for figure in published_figures(BLOCK.name)}
    assert len(found.tables["profiles"]) == 3 * scale.pilot_candidates
    assert found.figures["mean_rba"].value == pytest.approx(10.0)


def test_different_locations_are_counted():
    rows = synthetic_rows(FULL, best=11)
    one = (rows["prediction"]["problem"] == "burgers") & (
        rows["prediction"]["candidate"] == candidates("burgers", 17)[3]
    )
    rows["prediction"].loc[one, "held_out_mse"] = 0.1
    figures = BLOCK.measure(rows, FULL).figures
    assert figures["distinct_locations"].value == 2
    assert figures["burgers_location"].value == pytest.approx(3 / 16)


def test_the_sum_over_both_halves_selects():
    values = candidates("burgers", 3)
    errors = {0: [1.0, 5.0, 4.0], 1: [9.0, 4.0, 4.5]}  # sums 10, 9 and 8.5
    rows = pd.DataFrame(
        {"problem": "burgers", "candidate": value, "fold": fold, "held_out_mse": errors[fold][n]}
        for n, value in enumerate(values)
        for fold in (1, 0)
    )
    profile = prediction_profile(rows, "burgers")
    assert profile["selected"].tolist() == [False, False, True]
    assert profile["sum"].tolist() == [10.0, 9.0, 8.5]
    assert profile["trained_on_half_0"].tolist() == errors[0]


@pytest.mark.parametrize("fold", [0, 1])
def test_a_field_is_judged_on_the_half_that_it_did_not_see(fold):
    field = Field(problem="buckley-leverett", method="rba", dataset=9, fold=fold, candidate=1.5)
    run = constant_run(field, 0.3)
    ((row),) = PREDICTION.read(run, FULL)
    values = published_dataset("buckley-leverett", 9).values
    unseen = values[1::2] if fold == 0 else values[0::2]
    assert row["held_out_mse"] == pytest.approx(np.mean((0.3 - unseen) ** 2), rel=1e-12)
    assert not np.isin(held_out(run.dataset).sites, run.dataset.sites).any()


def test_only_halves_of_the_pilot_dataset_are_read():
    other = Field(problem="burgers", method="rba", dataset=8, fold=0).observations()
    for dataset in (published_dataset("burgers", 9), other):
        with pytest.raises(InputError, match="every second observation of dataset 9"):
            held_out(dataset)


def constant_run(field, value):
    """A run whose network returns one value everywhere."""
    settings = settings_for(
        get_problem(field.problem), field.method, steps=1, residual_points=5, network=Network(2, 1)
    )
    layers = [(np.zeros((2, 2)), np.zeros(2)), (np.zeros((1, 2)), np.array([value]))]
    final = Snapshot(1, layers, {"M": field.candidate}, Pointwise())
    points = np.full((5, 2), 0.25)
    return Run("made up", settings, field.spec(), points, final, pd.DataFrame(), "finished")


@pytest.mark.parametrize(
    ("problem", "delivered"),
    [("allen-cahn", 4.2), ("burgers", 0.0145), ("burgers", 0.06)],
    ids=["Allen–Cahn", "Burgers", "outside the bounds"],
)
def test_gauss_newton_is_one_linearised_step_in_the_logarithm(problem, delivered):
    data = published_dataset(problem, 9)
    (name,) = get_problem(problem).parameters
    q, h = np.log(delivered), 1e-4
    at = get_solver(problem).at_sites(data.sites, **{name: np.exp(q + np.array([-h, 0.0, h]))})
    slope = (at[2] - at[0]) / (2 * h)
    stepped = np.exp(q + slope @ (data.values - at[1]) / (slope @ slope))
    expected = 100 * abs(stepped / TRUTH[problem] - 1)
    # The step is taken on a curve through a bank of solutions.
    assert gauss_newton_error(problem, 9, delivered) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(
    "problem", [PROBLEMS[0], *(pytest.param(p, marks=pytest.mark.long) for p in PROBLEMS[1:])]
)
def test_a_step_from_the_printed_error_ends_at_the_printed_outcome(problem):
    printed = {figure.key: figure for figure in published_figures(BLOCK.name)}
    name = problem.replace("-", "_")
    low, _, high = (gauss_newton_error(problem, 9, start) for start in published_starts(problem))
    outcome = printed[f"{name}_published_gauss_newton"].value
    assert min(low, high) - 5e-4 <= outcome <= max(low, high) + 5e-4


def test_delivered_values_of_the_published_run_have_the_printed_errors():
    figures = {figure.key: figure for figure in published_figures(BLOCK.name)}
    for problem in PROBLEMS:
        low, middle, high = (
            100 * abs(start / TRUTH[problem] - 1) for start in published_starts(problem)
        )
        assert figures[f"{problem.replace('-', '_')}_rba"].same(middle)
        # What the third decimal of a percentage leaves open.
        assert (middle - low, high - middle) == pytest.approx((5e-4, 5e-4), rel=1e-6)

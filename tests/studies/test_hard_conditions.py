"""The control with exact conditions: how they are measured, and what the gap is."""

import numpy as np
import pandas as pd
import pytest

from twoaxis.errors import InputError
from twoaxis.problems import get_problem
from twoaxis.runs import Run, Snapshot
from twoaxis.studies.blocks.hard_conditions import (
    BLOCK,
    gap_closure,
    single_precision_errors,
)
from twoaxis.studies.fields import PROBLEMS, Field
from twoaxis.studies.published import published_figures
from twoaxis.studies.readouts import CONDITIONS, boundary_error, initial_error
from twoaxis.studies.scale import FULL, SMOKE
from twoaxis.training import Network, settings_for
from twoaxis.views import Pointwise

METHODS = ("pcgrad", "patch", "rba")
PRINTED = {figure.key: figure for figure in published_figures(BLOCK.name)}
# The twelve matched errors of the study, whose mean is the forward column.
FORWARD = {
    "burgers": [2.383, 1.477, 1.023, 17.160],
    "buckley-leverett": [4.286, 4.193, 0.767, 3.390],
    "allen-cahn": [0.599, 2.494, 7.392, 5.005],
}


def made_run(problem, conditions, layers, method="rba"):
    """A run with the given network."""
    problem = get_problem(problem)
    settings = settings_for(
        problem, method, steps=1, residual_points=5, network=Network(2, 1), conditions=conditions
    )
    delivered = {name: p.truth for name, p in problem.parameters.items()}
    spec = Field(problem=problem.name, method=method, dataset=10).spec()
    low, high = np.array(list(problem.domain.values())).T
    points = np.tile((low + high) / 2, (5, 1))
    final = Snapshot(1, layers, delivered, Pointwise())
    return Run("made up", settings, spec, points, final, pd.DataFrame(), "finished")


def constant(value):
    return [(np.zeros((2, 2)), np.zeros(2)), (np.zeros((1, 2)), np.array([value]))]


def random_layers(seed):
    generator = np.random.default_rng(seed)
    return [
        (generator.normal(0, 2, (2, 2)), generator.normal(0, 2, 2)),
        (generator.normal(0, 9, (1, 2)), generator.normal(0, 9, 1)),
    ]


def synthetic_rows(soft=1.0, exact=1.0, unfinished=0):
    """Errors of 10, 20 and 30 percent by method, times a factor; every second one negative."""
    rows = []
    for number, field in enumerate(BLOCK.needs(FULL)[0].fields):
        factor = soft if field.conditions == "soft" else exact
        size = 10 * (1 + METHODS.index(field.method)) * factor
        rows.append(
            {
                **field.columns(),
                "error_percent": size * (-1) ** number + 0.0,
                "field_error": size / 100 + (field.problem == "burgers"),
                "finished": True,
            }
        )
    delivered = pd.DataFrame(rows)
    of_exact = delivered.index[delivered["conditions"] == "exact"]
    delivered.loc[of_exact[:unfinished], "finished"] = False
    conditions = [
        {**field.columns(), "initial_error": number * 1e-9, "boundary_error": number * 1e-8}
        for number, field in enumerate(BLOCK.needs(FULL)[1].fields)
    ]
    return {"delivered": delivered, "conditions": pd.DataFrame(conditions)}


def test_thirty_six_fields_of_each_kind_and_conditions_of_the_exact_ones():
    both, exact = BLOCK.needs(FULL)
    assert len(set(both.fields)) == 72
    assert len(set(exact.fields)) == 36
    assert {field.conditions for field in exact.fields} == {"exact"}
    assert {field.settings(SMOKE).conditions for field in both.fields} == {"soft", "exact"}


@pytest.mark.parametrize("row", ["pcgrad", "patch", "rba", "overall"])
def test_printed_means_have_the_printed_gap(row):
    forward = PRINTED["forward"].value
    gap = gap_closure(PRINTED[f"{row}_soft"].value, PRINTED[f"{row}_hard"].value, forward)
    # Means are printed with two decimals: a tenth of a point of the gap is their rounding.
    assert gap == pytest.approx(PRINTED[f"{row}_gap"].value, abs=0.1)


def test_means_take_the_size_of_errors():
    found = BLOCK.measure(synthetic_rows(exact=0.5), FULL)
    figures = {key: figure.value for key, figure in found.figures.items()}
    assert [figures[f"{m}_soft"] for m in METHODS] == pytest.approx([10, 20, 30])
    assert [figures[f"{m}_hard"] for m in METHODS] == pytest.approx([5, 10, 15])
    assert figures["overall_soft"] == pytest.approx(20)
    forward = np.mean(list(FORWARD.values()))
    assert figures["rba_gap"] == pytest.approx(100 * 15 / (30 - forward), abs=0.01)
    assert figures["overall_gap"] == pytest.approx(100 * 10 / (20 - forward), abs=0.01)
    assert figures["burgers_rba_soft_field"] == pytest.approx(1.3)
    assert figures["rba_hard_field"] == pytest.approx(0.15 + 1 / 3)
    by_problem = found.tables["problems"].set_index(["problem", "method"])
    assert by_problem.loc[("Allen–Cahn", "patch"), "hard"] == pytest.approx(10)


def test_forward_means_are_exact():
    figures = BLOCK.measure(synthetic_rows(), FULL).figures
    assert PRINTED["forward"].same(figures["forward"].value)
    assert PRINTED["burgers_rba_forward"].same(figures["burgers_rba_forward"].value)


@pytest.mark.parametrize(("closed", "passed"), [(49.9, 0), (50.1, 1), (-30, 0)])
def test_the_gate_asks_for_half_of_the_overall_gap(closed, passed):
    forward = np.mean(list(FORWARD.values()))
    exact = (20 - closed / 100 * (20 - forward)) / 20
    figures = BLOCK.measure(synthetic_rows(exact=exact), FULL).figures
    assert figures["overall_gap"].value == pytest.approx(closed, abs=0.01)
    assert figures["gate_passed"].value == passed


def test_completed_runs_and_largest_errors_are_over_all_exact_fields():
    found = BLOCK.measure(synthetic_rows(unfinished=2), FULL)
    assert found.figures["completed"].value == 34
    assert found.tables["conditions"]["initial_error"].tolist() == pytest.approx(
        [11e-9, 23e-9, 35e-9]
    )


@pytest.mark.parametrize("scale", [FULL, SMOKE], ids=lambda scale: scale.name)
def test_measured_and_published_figures_have_the_same_keys(scale):
    assert set(BLOCK.measure(synthetic_rows(), scale).figures) == set(PRINTED)


def test_conditions_are_judged_in_single_precision():
    errors = single_precision_errors()
    # Buckley–Leverett's values are 0 and 1; in float32, sin(π) is not 0 and the flux is not either.
    assert errors.loc["buckley-leverett"].tolist() == [0, 0, 0]
    wanted = abs(float(np.sin(np.float32(np.pi))))
    assert errors.loc["burgers", "boundary_error"] == pytest.approx(wanted, rel=1e-6)
    assert (errors.drop("buckley-leverett")["initial_error"] > 5e-8).all()
    assert (errors["initial_error"] < 1.2e-7).all()
    figures = BLOCK.measure(synthetic_rows(), FULL).figures
    low, high = figures["initial_error"].ends
    assert low <= figures["initial_error"].value <= high < 1.2e-7


@pytest.mark.parametrize(("exact", "holds"), [(0.5, 0), (1.5, 0)])
def test_a_better_field_with_a_worse_parameter_needs_both(exact, holds):
    # In these rows the field error follows the parameter error.
    found = BLOCK.measure(synthetic_rows(exact=exact), FULL)
    assert found.figures["rba_better_field_worse_parameter"].value == holds
    rows = synthetic_rows(exact=1.5)
    rows["delivered"]["field_error"] *= np.where(rows["delivered"]["conditions"] == "exact", 0.1, 1)
    assert BLOCK.measure(rows, FULL).figures["rba_better_field_worse_parameter"].value == 1


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("seed", [0, 1])
def test_exact_fields_meet_all_conditions_to_rounding(problem, seed):
    (row,) = CONDITIONS.read(made_run(problem, "exact", random_layers(seed)), FULL)
    assert row["initial_error"] < 1e-15
    assert row["boundary_error"] < 1e-14


def test_initial_error_of_a_constant_field():
    x = np.linspace(0, 1, 201)
    declared = (x < 0.25).astype(float)  # fifty nodes
    expected = np.sqrt(50 * 0.7**2 + 151 * 0.3**2) / np.sqrt(declared.sum())
    run = made_run("buckley-leverett", "soft", constant(0.3))
    assert initial_error(run) == pytest.approx(expected, rel=1e-12)


def test_boundary_error_of_a_constant_field():
    # Values of 1 and 0 are declared at the ends.
    expected = np.sqrt((0.7**2 + 0.3**2) / 2)
    run = made_run("buckley-leverett", "soft", constant(0.3))
    assert boundary_error(run) == pytest.approx(expected, rel=1e-12)
    assert boundary_error(made_run("burgers", "soft", constant(-0.2))) == pytest.approx(0.2)


def test_boundary_error_with_zero_flux_is_that_of_the_slope():
    # u = 3 tanh(.5 x + .1): the slopes at both ends differ, and values do not matter.
    layers = [
        (np.array([[0.5, 0.0], [0.0, 0.0]]), np.array([0.1, 0.0])),
        (np.array([[3.0, 0.0]]), np.array([7.0])),
    ]
    slopes = [3 * 0.5 / np.cosh(0.5 * x + 0.1) ** 2 for x in (-1, 1)]
    run = made_run("allen-cahn", "soft", layers)
    assert boundary_error(run) == pytest.approx(np.sqrt(np.mean(np.square(slopes))), rel=1e-12)


def test_a_steady_field_has_no_initial_condition():
    with pytest.raises(InputError, match="evolution problem"):
        CONDITIONS.read(made_run("darcy", "soft", constant(0.1), method="pcgrad"), FULL)

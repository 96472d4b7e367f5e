"""The Darcy block: score, refined minimum and their comparison in two dimensions."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import least_squares

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.problems import get_problem
from twoaxis.runs.run import _complex_step
from twoaxis.studies.blocks.darcy import BLOCK, compared, darcy_fields
from twoaxis.studies.published import published_figures
from twoaxis.studies.readouts import DARCY
from twoaxis.studies.scale import FULL, SMOKE
from twoaxis.views import Patch

PRINTED = {figure.key: figure for figure in published_figures(BLOCK.name)}
TRUTH = np.array([0.15, 0.85])
BOX = ([-1.5, -1.0], [1.5, 2.5])
POINTS = np.random.default_rng(3).random((400, 2))


def derivatives(wrong):
    """The true field plus a share `wrong` of ``sin(2 pi x) sin(pi y)``, with derivatives."""
    x, y = np.pi * POINTS.T
    sin, cos = np.sin, np.cos
    u, v = sin(x) * sin(2 * y), wrong * sin(2 * x) * sin(y)
    return {
        "u": u + v,
        "u_x": np.pi * (cos(x) * sin(2 * y) + 2 * wrong * cos(2 * x) * sin(y)),
        "u_y": np.pi * (2 * sin(x) * cos(2 * y) + wrong * sin(2 * x) * cos(y)),
        "u_xx": -(np.pi**2) * (u + 4 * v),
        "u_yy": -(np.pi**2) * (4 * u + v),
    }


def made_run(wrong=0.1, shrunk=0.8, delivered=(0.1, 2.9)):
    """What the readout needs of a run; the delivered value may lie outside the box."""
    problem = get_problem("darcy")
    known = problem.coefficients(POINTS)
    here = {key: shrunk * values for key, values in derivatives(wrong).items()}

    def residual(**parameters):
        return problem.residual(**here, **known, **parameters)

    parameters = {
        name: replace(p.holding(value), delivered=value)
        for (name, p), value in zip(problem.parameters.items(), delivered, strict=True)
    }
    frozen = FrozenResidual(
        residual,
        parameters,
        POINTS,
        view=Patch(cells=8),
        jacobian=lambda **values: _complex_step(residual, values),
    )
    return SimpleNamespace(problem=problem, frozen=frozen, key="made up", finished=True)


def residual_of(run):
    return lambda q: run.frozen.residual(lambda_0=q[0], lambda_1=q[1])


@pytest.fixture(scope="module")
def run():
    return made_run()


@pytest.fixture(scope="module")
def row(run):
    (found,) = DARCY.read(run, FULL)
    return found


def test_score_is_pointwise_at_the_truth(run, row):
    r, h = residual_of(run), 1e-5
    jacobian = np.column_stack([(r(TRUTH + h * e) - r(TRUTH - h * e)) / (2 * h) for e in np.eye(2)])
    score, strength = jacobian.T @ r(TRUTH) / 400, jacobian.T @ jacobian / 400
    assert [row["B_0"], row["B_1"]] == pytest.approx(score, rel=1e-6)
    assert [row["H_00"], row["H_01"], row["H_11"]] == pytest.approx(
        strength[[0, 0, 1], [0, 1, 1]], rel=1e-6
    )
    full = -np.linalg.solve(strength, score)
    assert [row["full_0"], row["full_1"]] == pytest.approx(full, rel=1e-5)
    assert [row["diagonal_0"], row["diagonal_1"]] == pytest.approx(
        -score / np.diag(strength), rel=1e-5
    )
    assert row["loss_at_truth"] == pytest.approx(np.mean(r(TRUTH) ** 2))
    assert row["loss_after_step"] == pytest.approx(np.mean(r(TRUTH + full) ** 2), rel=1e-5)


def test_refined_minimum_is_that_of_bounded_least_squares(run, row):
    found = least_squares(residual_of(run), TRUTH, bounds=BOX, xtol=1e-14, ftol=1e-14, gtol=1e-14)
    assert [row["refined_0"], row["refined_1"]] == pytest.approx(found.x - TRUTH, abs=1e-7)
    assert row["scan_status"] == "interior"
    assert row["minima"] == 1
    assert row["start_spread"] < 1e-9


def test_the_box_is_the_published_one_wherever_the_network_ended():
    # A residual shrunk so much asks for a permeability beyond the box.
    (found,) = DARCY.read(made_run(wrong=0.0, shrunk=0.1, delivered=(4.0, 0.9)), SMOKE)
    assert found["scan_status"] == "on the upper bound of lambda_0"
    assert found["refined_0"] == pytest.approx(1.5 - 0.15)


def test_diagonal_and_full_step_differ_by_the_coupling_in_the_norm_of_the_strength(row):
    scale = np.sqrt([row["H_00"], row["H_11"]])
    full, diagonal = (np.array([row[f"{n}_0"], row[f"{n}_1"]]) for n in ("full", "diagonal"))
    gap = np.linalg.norm(scale * (diagonal - full)) / np.linalg.norm(scale * full)
    assert gap == pytest.approx(row["coupling"], rel=1e-9)
    assert row["coupling"] == pytest.approx(abs(row["H_01"]) / scale.prod())
    strength = np.array([[row["H_00"], row["H_01"]], [row["H_01"], row["H_11"]]])
    in_norm = [v @ strength @ v for v in (diagonal - full, full)]
    assert np.sqrt(in_norm[0] / in_norm[1]) == pytest.approx(row["coupling"], rel=1e-9)


def test_a_step_beyond_all_numbers_has_an_infinite_loss():
    (found,) = DARCY.read(made_run(wrong=0.0, shrunk=1e-4), SMOKE)
    assert found["full_0"] > 1000
    assert found["loss_after_step"] == np.inf
    assert np.isfinite(
        compared(pd.DataFrame([{**found, "method": "patch", "dataset": 1}]))["loss_factor"]
    ).all()


def test_a_field_without_a_minimum_is_refused():
    with pytest.raises(InputError, match="depends on the permeability"):
        DARCY.read(made_run(shrunk=0.0), SMOKE)


def test_comparison_of_known_steps():
    rows = pd.DataFrame(
        [
            {
                "method": "pcgrad",
                "dataset": 10,
                **{"full_0": 3.0, "full_1": 4.5, "diagonal_0": 3.0, "diagonal_1": -4.0},
                **{"refined_0": 3.0, "refined_1": 4.0, "coupling": 0.9},
                **{"loss_at_truth": 2.0, "loss_after_step": 0.5},
                **{"minima": 1, "scan_status": "interior", "start_spread": 1e-12},
            }
        ]
    )
    (found,) = compared(rows).to_dict("records")
    assert found["cosine"] == pytest.approx((9 + 18) / (5 * np.hypot(3, 4.5)))
    assert found["full"] == pytest.approx(0.5 / 5)
    assert found["diagonal"] == pytest.approx(8 / 5)
    # The box is 3 wide and 3.5 high.
    size = np.hypot(1, 4 / 3.5)
    assert found["full_in_box"] == pytest.approx(0.5 / 3.5 / size)
    assert found["diagonal_in_box"] == pytest.approx(8 / 3.5 / size)
    assert found["loss_factor"] == pytest.approx(0.25)


def synthetic_rows(scale):
    """PCGrad fields have small errors of the full step, PatchEvidence fields large ones."""
    rows = []
    for field in darcy_fields(scale):
        error = 0.01 * (field.dataset - 9) + (field.method == "patch")
        rows.append(
            {
                **field.columns(),
                **{"full_0": 1 + error, "full_1": 0.0, "refined_0": 1.0, "refined_1": 0.0},
                **{"diagonal_0": 1 + 2 * error, "diagonal_1": 0.0, "coupling": 0.8},
                **{"loss_at_truth": 1.0, "loss_after_step": error, "minima": 1},
                **{"scan_status": "interior", "start_spread": 1e-12 * field.dataset},
            }
        )
    return pd.DataFrame(rows)


def test_medians_by_method_and_seeds_drawn_with_both_methods():
    figures = BLOCK.measure({"darcy": synthetic_rows(FULL)}, FULL).figures
    assert figures["pcgrad_full"].value == pytest.approx(0.055)
    assert figures["patch_full"].value == pytest.approx(1.055)
    assert figures["overall_full"].value == pytest.approx((0.10 + 1.01) / 2)
    assert figures["overall_diagonal"].value == pytest.approx(0.10 + 1.01)
    # Each drawn seed brings one small and one large error, so the median lies between them.
    draws = figures["overall_full"].draws
    assert len(draws) == 10_000
    assert ((draws > 0.10) & (draws < 1.01)).all()
    assert np.ptp(draws) > 0.01


def test_wins_minima_and_spread_are_counted_over_all_fields():
    rows = synthetic_rows(FULL)
    rows.loc[0, "diagonal_0"] = rows.loc[0, "refined_0"]
    rows.loc[1, "scan_status"] = "on the upper bound of lambda_1"
    rows.loc[2, "minima"] = 2
    figures = BLOCK.measure({"darcy": rows}, FULL).figures
    found = {key: figure.value for key, figure in figures.items()}
    assert (found["full_wins"], found["full_wins_in_box"]) == (19, 19)
    assert (found["interior"], found["one_minimum"]) == (19, 18)
    assert found["start_spread"] == pytest.approx(19e-12)
    assert found["loss_factor"] == pytest.approx((0.10 + 1.01) / 2)


@pytest.mark.parametrize("scale", [FULL, SMOKE], ids=lambda scale: scale.name)
def test_measured_and_published_figures_have_the_same_keys(scale):
    found = BLOCK.measure({"darcy": synthetic_rows(scale)}, scale)
    assert set(found.figures) == set(PRINTED)
    assert len(found.tables["fields"]) == 2 * len(scale.darcy_datasets)


def test_ten_fields_of_each_method_with_the_published_network():
    (need,) = BLOCK.needs(FULL)
    plain = [field for field in need.fields if field.boundary_weight is None]
    assert len(set(plain)) == PRINTED["full_wins"].of == 20
    settings = need.fields[0].settings(FULL)
    assert (settings.network.width, settings.network.depth) == (64, 4)
    assert (settings.residual_points, settings.boundary_points) == (2048, 512)


def test_other_boundary_weights_stand_in_a_table_of_the_first_initialization_alone():
    (need,) = BLOCK.needs(FULL)
    assert {field.boundary_weight for field in need.fields} == {None, 10.0, 100.0}
    again = [BLOCK.repeat(field, 3) for field in need.fields]
    assert {field.boundary_weight for field in again if field is not None} == {None}
    assert [BLOCK.repeat(field, 0) for field in need.fields] == list(need.fields)
    rows = synthetic_rows(FULL)
    other = rows.assign(boundary_weight=10.0, coupling=0.5)
    both = pd.concat([rows, other], ignore_index=True)
    found = BLOCK.measure({"darcy": both}, FULL)
    alone = BLOCK.measure({"darcy": rows}, FULL)
    assert {k: f.value for k, f in found.figures.items()} == {
        k: f.value for k, f in alone.figures.items()
    }
    table = found.tables["boundary_weights"].set_index(["boundary_weight", "method"])
    assert table.loc[(10.0, "all"), "coupling"] == 0.5
    assert table.loc[(1.0, "all"), "coupling"] == found.figures["overall_coupling"].value

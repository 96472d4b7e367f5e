"""Steps of the differences crossed with grids of the scan."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis import views

X = np.linspace(0, 1, 80)
PARAMETERS = {
    "k": ta.Parameter(truth=0.9, bounds=(0.3, 3.0)),
    "m": ta.Parameter(truth=0.4, bounds=(-1.0, 2.0), coordinate="linear"),
}


def smooth(k, m):
    return np.exp(-k * X) + m * np.sin(3 * X) * k - 0.8 + 0.1 * np.cos(11 * X)


@pytest.fixture(scope="module")
def table():
    return ta.step_robustness(smooth, PARAMETERS, views.Pointwise(), points=X)


def test_every_step_is_crossed_with_every_grid(table):
    assert table.index.names == ["parameter", "step", "candidates"]
    assert set(table.index) == {
        (name, step, n) for name in "km" for step in (5e-4, 1e-3, 2e-3) for n in (81, 161)
    }
    assert len(table) == 12
    columns = ["displacement", "delta_percent", "grid_minimum", "refined_minimum"]
    assert table.columns.tolist() == columns
    assert np.isfinite(table.to_numpy()).all()


def test_the_displacement_does_not_depend_on_the_step(table):
    spread = table["displacement"].groupby("parameter").agg(np.ptp)
    assert (spread < 1e-5).all()
    assert (spread > 0).all()  # the steps were really changed


def test_the_refined_minimum_does_not_depend_on_the_grid(table):
    assert (table["refined_minimum"].groupby("parameter").agg(np.ptp) < 1e-7).all()


def test_rows_are_what_score_and_scan_say(table):
    for step in (5e-4, 2e-3):
        score = ta.score(
            smooth, PARAMETERS, views.Pointwise(), points=X, step=step, derivative="difference"
        )
        for name in "km":
            row = table.loc[name, step, 81]
            assert row["displacement"] == score.displacement[name]
            assert row["delta_percent"] == score.delta_percent[name]
    for n in (81, 161):
        scan = ta.frozen_scan(smooth, PARAMETERS, views.Pointwise(), points=X, candidates=n)
        assert table.loc["m", 1e-3, n]["grid_minimum"] == scan.grid_displacement["m"]
        assert table.loc["m", 1e-3, n]["refined_minimum"] == scan.displacement["m"]


def test_steps_and_grids_of_ones_own():
    table = ta.step_robustness(
        lambda k: smooth(k, 0.4), {"k": PARAMETERS["k"]}, views.Patch(cells=5), points=X,
        steps=[1e-2], candidates=[5, 9, 17], at={"k": 1.1},
    )  # fmt: skip
    assert table.index.tolist() == [("k", 1e-2, 5), ("k", 1e-2, 9), ("k", 1e-2, 17)]


def test_a_flat_profile_has_no_minimum_to_compare():
    table = ta.step_robustness(
        lambda k: X, {"k": PARAMETERS["k"]}, views.Pointwise(), points=X  # noqa: ARG005
    )  # fmt: skip
    assert (table["displacement"] == 0).all()
    assert "refined_minimum" not in table.columns


def test_exact_derivatives_are_differenced_too():
    # The table speaks of steps, so a given Jacobian does not hide their effect.
    frozen = ta.FrozenResidual(
        lambda k: smooth(k, 0.4), {"k": PARAMETERS["k"]}, X, view=views.Pointwise(),
        jacobian=lambda k: -X * np.exp(-k * X) + 0.4 * np.sin(3 * X),
    )  # fmt: skip
    table = ta.step_robustness(frozen)
    exact = ta.score(frozen).displacement["k"]
    assert np.ptp(table["displacement"]) > 0
    np.testing.assert_allclose(table["displacement"], exact, rtol=0, atol=1e-5)

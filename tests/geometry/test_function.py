"""What a frozen field prefers of an unknown function, against dense matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import twoaxis as ta
from twoaxis.unknown_function import Basis

NODES = np.array([0.0, 0.2, 0.5, 0.7, 1.0])
VALUES = np.array([1.0, 2.0, 1.5, 1.2, 2.5])
X = np.linspace(0, 1, 81)
SOURCE = np.sin(np.pi * X)  # no evidence at the ends
MATRIX = Basis((tuple(NODES),), "hat").matrix(X)
WANTED = VALUES * np.exp([0.3, -0.1, 0.2, 0.0, -0.4])
PARAMETERS = {
    "k": ta.UnknownFunction(nodes=NODES, bounds=(0.1, 10.0), truth=VALUES, delivered=2.0),
    "rate": ta.Parameter(bounds=(-5.0, 5.0), coordinate="linear", truth=0.5, delivered=0.4),
}


def residual(k, rate):
    return SOURCE * (k(X) - MATRIX @ WANTED) + (rate - 0.5) * X**2


@pytest.fixture(scope="module")
def score():
    return ta.score(residual, PARAMETERS, ta.views.Pointwise(), points=X)


def test_the_displacement_curve_is_that_of_the_node_values(score):
    found = score.function("k")
    moved = np.array([score.displacement[f"k[{node:g}]"] for node in NODES])
    jacobian = np.column_stack([SOURCE[:, None] * MATRIX * VALUES, X**2])
    expected = -np.linalg.lstsq(jacobian, SOURCE * (MATRIX @ (VALUES - WANTED)), rcond=None)[0]
    assert_allclose(moved, expected[:5], rtol=1e-5, atol=1e-7)
    places = found.data["place"].values
    curve = Basis((tuple(NODES),), "hat").matrix(places) @ expected[:5]
    assert_allclose(found.data["displacement"], curve, rtol=1e-5, atol=1e-6)
    assert_allclose(found.data["preferred_value"], VALUES * np.exp(expected[:5]), rtol=1e-5)
    assert_allclose(found.data["delivered"], 2.0)
    where, size = found.largest
    assert (where, round(size, 4)) == (0.0, round(float(expected[0]), 4))
    steps = np.diff(NODES)
    squares = (moved[:-1] ** 2 + moved[:-1] * moved[1:] + moved[1:] ** 2) / 3  # of linear pieces
    assert_allclose(found.rms, np.sqrt((squares * steps).sum()), rtol=1e-3)


def test_the_weak_directions_are_eigenfunctions_of_the_strength_with_the_rest_free(score):
    found = score.function("k").data
    jacobian = np.column_stack([SOURCE[:, None] * MATRIX * VALUES, X**2])
    H = jacobian.T @ jacobian / len(X)
    schur = H[:5, :5] - np.outer(H[:5, 5], H[5, :5]) / H[5, 5]
    assert_allclose(found["strength"], schur, rtol=1e-5, atol=1e-8)
    values, vectors = np.linalg.eigh(schur)
    assert_allclose(found["eigenvalue"], values, rtol=1e-4)
    overlap = np.abs(np.sum(found["direction_vector"].values * vectors.T, axis=1))
    assert_allclose(overlap, 1.0, rtol=1e-8)
    # The weakest is where the source vanishes.
    curve = np.abs(found["direction_curve"].values[0])
    assert found["place"].values[curve.argmax()] in (0.0, 1.0)


def test_a_residual_that_does_not_see_part_of_the_function_has_null_directions():
    found = ta.score(
        lambda k: k(X).mean() * np.ones(81) - 1.0,
        {"k": PARAMETERS["k"]},
        ta.views.Pointwise(),
        points=X,
    ).function()
    assert found.data["direction_status"].values.tolist() == ["null"] * 4 + ["seen"]
    assert found.weak_directions == 4


def test_the_scan_gives_the_function_exactly(tmp_path):
    scan = ta.frozen_scan(residual, PARAMETERS, ta.views.Pointwise(), points=X)
    found = scan.function("k")
    assert_allclose(found.data["preferred_value"], WANTED, rtol=1e-6)
    assert_allclose(found.data["node_displacement"], np.log(WANTED / VALUES), atol=1e-6)
    assert "eigenvalue" not in found.data
    loaded = ta.load(found.save(tmp_path / "function.nc"))
    assert loaded.data.identical(found.data)
    assert_allclose(loaded.summary()["preferred"], WANTED, rtol=1e-6)


def test_a_saved_score_still_tells_the_function(score, tmp_path):
    loaded = ta.load(score.save(tmp_path / "score.nc"))
    assert loaded.function().data.identical(score.function().data)

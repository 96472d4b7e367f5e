"""Rank 64 against rank 256, on profiles whose two halves want known parameters."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameter
from twoaxis.studies.blocks.cutoff import BLOCK
from twoaxis.studies.blocks.development import development_fields
from twoaxis.studies.published import published_figures
from twoaxis.studies.readouts import CUTOFFS
from twoaxis.studies.scale import SMOKE

POINTS = np.random.default_rng(2).random((300, 2))
GRID = np.geomspace(1.0, 4.0, 81)


def run_of(residual):
    parameters = {"nu": Parameter(truth=2.0, bounds=(1.0, 4.0))}
    frozen = FrozenResidual(residual, parameters, POINTS)
    return SimpleNamespace(frozen=frozen, problem=SimpleNamespace(parameters=parameters))


@pytest.fixture(scope="module")
def pairs():
    unit = (POINTS - POINTS.min(axis=0)) / np.ptp(POINTS, axis=0)
    K = np.exp(-((unit[:, None] - unit) ** 2).sum(axis=-1) * 6 * 64 / 2)
    values, vectors = np.linalg.eigh(K)
    return values[::-1], vectors[:, ::-1]


@pytest.mark.parametrize("mode", [65, 256, 257])
def test_only_modes_up_to_the_rank_move_the_minimum(pairs, mode):
    values, vectors = pairs
    # Mode 3 wants GRID[50]; the other wants GRID[20] and is weighed to count as much.
    first, second = vectors[:, 2], vectors[:, mode - 1] * np.sqrt(values[2] / values[mode - 1])
    (row,) = CUTOFFS.read(
        run_of(lambda nu: (nu - GRID[50]) * first + (nu - GRID[20]) * second), SMOKE
    )
    both = np.argmin((GRID - GRID[50]) ** 2 + (GRID - GRID[20]) ** 2)
    wanted = {64: GRID[50], 256: GRID[both] if mode <= 256 else GRID[50]}
    for rank, minimum in wanted.items():
        assert row[f"displacement_{rank}"] == pytest.approx(np.log(minimum / 2))
        assert row[f"error_percent_{rank}"] == pytest.approx(100 * abs(minimum / 2 - 1))
        assert row[f"status_{rank}"] == "interior"


def test_minimum_on_a_bound_is_named(pairs):
    (row,) = CUTOFFS.read(run_of(lambda nu: (nu - 9.0) * pairs[1][:, 0]), SMOKE)
    assert row["error_percent_64"] == pytest.approx(100)
    assert row["status_256"] == "on the upper bound of nu"


def test_improved_tied_and_change_are_counted_by_problem():
    # Signed relative displacements under rank 64 and rank 256, eight fields a problem.
    pairs = {
        "burgers": [(0.4, 0.1), (0.3, -0.2), (-0.2, -0.2), (0.1, 0.3)] * 2,
        "buckley-leverett": [(0.1, 0.1)] * 8,
        "allen-cahn": [(0.2, 0.2)] * 5 + [(0.1, 0.2)] * 3,
    }
    rows = []
    for field in development_fields():
        coarse, fine = pairs[field.problem].pop()
        moved = {"displacement_64": np.log1p(coarse), "displacement_256": np.log1p(fine)}
        errors = {"error_percent_64": 100 * abs(coarse), "error_percent_256": 100 * abs(fine)}
        status = {"status_64": "interior", "status_256": "interior"}
        rows.append({"key": "", **field.columns(), **moved, **errors, **status})
    measured = BLOCK.measure({"cutoffs": pd.DataFrame(rows)}, SMOKE)
    values = {key: figure.value for key, figure in measured.figures.items()}
    assert set(values) == {figure.key for figure in published_figures("cutoff")}
    assert values["burgers_improved"] == 4
    assert values["burgers_tied"] == 2
    assert values["burgers_change"] == pytest.approx((30 + 10 + 0 - 20) / 4)
    assert values["buckley_leverett_tied"] == 8
    assert values["buckley_leverett_change"] == 0
    assert values["allen_cahn_improved"] == 0
    assert values["allen_cahn_tied"] == 5
    assert values["allen_cahn_change"] == pytest.approx(-30 / 8)
    assert measured.tables["by_problem"]["worsened"].tolist() == [2, 0, 3]

"""Shares of the strength in bands of kernel modes, against sensitivities made of known modes."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameter
from twoaxis.studies import readouts as bands
from twoaxis.studies.blocks.development import development_fields
from twoaxis.studies.blocks.holdout import holdout_fields
from twoaxis.studies.blocks.spectrum import BLOCK
from twoaxis.studies.published import published_figures
from twoaxis.studies.scale import SMOKE
from twoaxis.views import Gaussian

POINTS = np.random.default_rng(0).uniform([-1.0, 0.0], [1.0, 0.5], (300, 2))


@pytest.fixture(scope="module")
def pairs():
    """Eigenpairs of K / sum(K), largest first, from the written-out kernel."""
    unit = (POINTS - POINTS.min(axis=0)) / np.ptp(POINTS, axis=0)
    K = np.exp(-((unit[:, None] - unit) ** 2).sum(axis=-1) * 6 * 64 / 2)
    values, vectors = np.linalg.eigh(K / K.sum())
    return values[::-1], vectors[:, ::-1]


def run_of(sensitivity):
    parameters = {"nu": Parameter(truth=2.0, bounds=(1.0, 4.0))}
    frozen = FrozenResidual(lambda nu: nu * sensitivity - 1.0, parameters, POINTS)
    return SimpleNamespace(frozen=frozen, problem=SimpleNamespace(parameters=parameters))


def test_shares_of_a_sensitivity_made_of_three_modes(pairs):
    values, vectors = pairs
    # Modes 64, 65 and 257 are the last or first of their bands.
    numbers, sizes = np.array([64, 65, 257]), np.array([1.0, 2.0, 4.0])
    (row,) = bands.SHARES.read(run_of(vectors[:, numbers - 1] @ sizes), SMOKE)
    pointwise = sizes**2 / 21
    weighted = values[numbers - 1] * sizes**2
    weighted /= weighted.sum()
    for band, point_share, weighted_share in zip(bands.BANDS, pointwise, weighted, strict=True):
        assert row[f"pointwise_{band}"] == pytest.approx(point_share, rel=1e-6)
        assert row[f"weighted_{band}"] == pytest.approx(weighted_share, rel=1e-6)


def test_shares_of_any_sensitivity_add_up_to_one():
    sensitivity = np.random.default_rng(1).standard_normal(300)
    (row,) = bands.SHARES.read(run_of(sensitivity), SMOKE)
    for reading in bands.READINGS:
        assert sum(row[f"{reading}_{band}"] for band in bands.BANDS) == pytest.approx(1)
    # In log coordinates J = 2 b, up to the third order of the difference.
    assert row["pointwise_H"] == pytest.approx(4 * np.mean(sensitivity**2), rel=1e-6)
    assert row["H"] == pytest.approx(
        4 * Gaussian().bind(POINTS).quadratic(sensitivity, sensitivity), rel=1e-6
    )


@pytest.mark.parametrize("rank", [None, 64])
def test_remembered_modes_are_the_gaussian_view(rank):
    found = bands.kernel_modes(POINTS, rank)
    wanted = Gaussian(rank=rank).bind(POINTS)
    np.testing.assert_allclose(found.matrix(), wanted.matrix(), rtol=0, atol=1e-15)
    assert found.rank == wanted.rank
    assert found.describe() == wanted.describe()


def test_modes_are_remembered_by_the_points_themselves():
    bands._pairs.cache_clear()
    bands.kernel_modes(POINTS)
    bands.kernel_modes(POINTS.copy(), 64)
    assert bands._pairs.cache_info().misses == 1
    moved = bands.kernel_modes(POINTS**2)
    assert bands._pairs.cache_info().misses == 2
    assert np.abs(moved.matrix() - bands.kernel_modes(POINTS).matrix()).max() > 1e-4


def test_block_averages_over_the_fields_of_a_problem():
    rows = []
    for number, field in enumerate([*development_fields(), *holdout_fields()]):
        low = 0.01 * number
        shares = {"pointwise_1_64": low, "pointwise_65_256": 0.1, "pointwise_257_2000": 0.9 - low}
        weighted = {name.replace("pointwise", "weighted"): 1 / 3 for name in shares}
        rows.append({"key": str(number), **field.columns(), **shares, **weighted})
    measured = BLOCK.measure({"bands": pd.DataFrame(rows)}, SMOKE)
    assert set(measured.figures) == {figure.key for figure in published_figures("spectrum")}
    # Eight development fields a problem, then four of the holdout.
    values = {key: figure.value for key, figure in measured.figures.items()}
    assert values["development_burgers_1_64"] == pytest.approx(np.mean(range(8)))
    assert values["development_allen_cahn_1_64"] == pytest.approx(np.mean(range(16, 24)))
    assert values["holdout_buckley_leverett_1_64"] == pytest.approx(np.mean(range(28, 32)))
    assert values["holdout_burgers_257_2000"] == pytest.approx(90 - np.mean(range(24, 28)))
    assert values["holdout_burgers_65_256"] == pytest.approx(10)
    table = measured.tables["shares_in_percent"]
    assert table.query("reading == 'weighted'")["modes_65_256"].to_numpy() == pytest.approx(100 / 3)


def test_printed_shares_add_up():
    printed = {figure.key: figure.value for figure in published_figures("spectrum")}
    for suite in ("development", "holdout"):
        for problem in ("burgers", "buckley_leverett", "allen_cahn"):
            total = sum(printed[f"{suite}_{problem}_{band}"] for band in bands.BANDS)
            assert total == pytest.approx(100, abs=0.015)

"""The printed intervention tables, and residuals that patches cannot see."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from twoaxis.statistics import pearson, pearson_within
from twoaxis.studies.blocks import interventions
from twoaxis.studies.blocks.development import development_fields
from twoaxis.studies.blocks.interventions import BLOCK
from twoaxis.studies.published import published_figures
from twoaxis.studies.scale import SMOKE

PUBLISHED = {figure.key: figure for figure in published_figures("interventions")}
# The adversarial residuals stand at as many points as a field has: fewer take less time.
QUICK = replace(SMOKE, residual_points=100, most_draws=50)


def printed_rows():
    """The rows that the fields of the paper would give, errors of the parameter with signs."""
    rows = []
    for number, field in enumerate(development_fields()):
        name = f"{field.problem}_{field.dataset}_{field.method}".replace("-", "_")
        error = PUBLISHED[f"parameter_{name}"].value
        rows.append(
            {
                "key": name,
                **field.columns(),
                "error_percent": error * (-1) ** number,
                "field_error": PUBLISHED[f"field_{name}"].value,
            }
        )
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def measured():
    return BLOCK.measure({"delivered": printed_rows()}, QUICK)


def test_printed_tables_give_the_printed_correlations():
    rows = printed_rows()
    x, y = rows["field_error"], rows["error_percent"].abs()
    assert f"{pearson(x, y):.3f}" == "0.057"
    assert f"{pearson_within(x, y, rows['problem']):.3f}" == "0.220"


def test_block_returns_the_printed_tables(measured):
    assert set(measured.figures) == set(PUBLISHED)
    own = {key: f for key, f in PUBLISHED.items() if not key.startswith("adversarial_r")}
    del own["adversarial_full"]
    assert len(own) == 24 + 24 + 3 + 1 + 1
    wrong = [key for key, figure in own.items() if not figure.same(measured.figures[key].value)]
    assert wrong == []


def test_only_correlations_and_percentages_are_resampled(measured):
    resampled = {key for key, figure in measured.figures.items() if figure.draws is not None}
    assert resampled == {
        "raw_r",
        "centered_r",
        "adversarial_patch",
        "adversarial_rank_64",
        "adversarial_full",
    }
    assert len(measured.figures["raw_r"].draws) == QUICK.most_draws


@pytest.mark.parametrize("better", ["patch", "gaussian-64"])
def test_full_rank_must_beat_both(better):
    rows = printed_rows()
    beaten = (rows["method"] == better) & (rows["problem"] == "burgers") & (rows["dataset"] == 9)
    rows.loc[beaten, "field_error"] = 0.0918
    found = BLOCK.measure({"delivered": rows}, QUICK)
    assert found.figures["full_rank_better_fields"].value == 5


def test_table_of_changes_tells_field_from_parameter(measured):
    table = measured.tables["full_rank_against_others"].set_index(["problem", "dataset"])
    row = table.loc[("allen-cahn", 8)]
    assert row["field_minus_patch"] == pytest.approx(0.1162 - 0.1349)
    assert row["parameter_minus_patch"] == pytest.approx(25.77 - 19.95)
    assert row["parameter_minus_rank_64"] == pytest.approx(25.77 - 21.90)


# ------------------------------------------------------------------ adversarial residuals


@pytest.fixture(scope="module")
def points():
    return np.random.default_rng(3).random((150, 2))


@pytest.fixture(scope="module")
def residuals(points):
    white = np.random.default_rng(4).standard_normal((150, 7))
    return interventions.without_patch_means(points, white)


def cells_of(points):
    unit = (points - points.min(axis=0)) / np.ptp(points, axis=0)
    x, y = np.minimum(np.floor(8 * unit), 7).T
    return 8 * x + y


def kernel_at(points):
    unit = (points - points.min(axis=0)) / np.ptp(points, axis=0)
    squares = ((unit[:, None] - unit) ** 2).sum(axis=-1)
    return np.exp(-squares * 6 * 64 / 2)


def test_residuals_have_no_mean_in_any_patch_and_are_not_zero(points, residuals):
    cell = cells_of(points)
    for number in np.unique(cell):
        own = cell == number
        assert np.abs(residuals[own].mean(axis=0)).max() < 1e-14
    assert (residuals**2).mean() > 0.3


def test_white_residual_loses_nothing_but_its_patch_means(points):
    white = np.random.default_rng(5).standard_normal((150, 1))
    moved = white - interventions.without_patch_means(points, white)
    for number in np.unique(cells_of(points)):
        own = cells_of(points) == number
        np.testing.assert_allclose(moved[own], white[own].mean(), rtol=1e-11)


def test_percentages_follow_from_the_dense_kernel(points, residuals):
    K = kernel_at(points)
    values, vectors = np.linalg.eigh(K)
    leading = (vectors[:, -64:] * values[-64:]) @ vectors[:, -64:].T
    pointwise = (residuals**2).mean(axis=0)
    found = interventions.percentages(points, residuals)
    for name, matrix in (("full", K), ("rank_64", leading)):
        loss = 100 * np.einsum("ij,ik,kj->j", residuals, matrix, residuals) / pointwise
        np.testing.assert_allclose(found[name], loss / K.sum(), rtol=1e-9)
        np.testing.assert_allclose(found[f"{name}_by_trace"], loss / np.trace(K), rtol=1e-9)
    assert found["patch"].max() < 1e-25
    assert (found["rank_64"] < found["full"]).all()


def test_figures_are_means_under_the_sum_normalization(measured):
    seen = interventions.adversarial_percentages(QUICK.residual_points)
    assert len(seen) == interventions.SETS * interventions.RESIDUALS
    assert measured.figures["adversarial_full"].value == pytest.approx(seen["full"].mean())
    assert measured.figures["adversarial_rank_64"].value == pytest.approx(seen["rank_64"].mean())
    table = measured.tables["adversarial"].set_index(["view", "normalization"])
    shown = table.loc[("Gaussian, full rank", "K / trace(K)"), "percent_of_pointwise_loss"]
    assert shown == pytest.approx(seen["full_by_trace"].mean())


def test_sets_of_points_differ():
    by_set = interventions.adversarial_percentages(QUICK.residual_points).groupby("set")["full"]
    assert by_set.mean().nunique() == interventions.SETS

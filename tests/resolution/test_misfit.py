"""The residual checks are calibrated on sound residuals and notice unsound ones."""

import numpy as np
import pytest
from scipy import stats

from twoaxis.resolution.misfit import check_residuals

SITES = np.column_stack(np.unravel_index(np.arange(120), (10, 12))).astype(float)


def p_values(residuals, position=SITES, **options):
    checks = check_residuals(residuals, 1, position, noise_known=True, **options)
    return {check.name: check.p_value for check in checks}


@pytest.fixture(scope="module")
def sound():
    """p-values of all three checks on 200 sound datasets, one parameter fitted away."""
    generator = np.random.default_rng(0)
    rows = []
    direction = np.ones(120) / np.sqrt(120)
    for _ in range(200):
        noise = generator.standard_normal(120)
        rows.append(p_values(noise - direction * (direction @ noise)))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("name", ["size", "normality", "whiteness"])
def test_p_values_are_uniform_on_sound_residuals(sound, name):
    assert stats.kstest(sound[name], "uniform").pvalue > 0.005


def test_size_notices_noise_of_the_wrong_scale_either_way():
    noise = np.random.default_rng(1).standard_normal(120)
    assert p_values(1.5 * noise)["size"] < 1e-4
    assert p_values(0.5 * noise)["size"] < 1e-4


def test_size_is_the_chi_square_probability():
    residuals = np.sqrt(np.full(120, 1.4))
    total, freedom = residuals @ residuals, 119
    assert p_values(residuals)["size"] == pytest.approx(2 * stats.chi2.sf(total, freedom))


def test_whiteness_does_not_depend_on_the_order_of_the_sites():
    place = np.random.default_rng(2).random((120, 2))
    smooth = np.sin(9 * place[:, 0]) + 0.5 * np.random.default_rng(2).standard_normal(120)
    order = np.random.default_rng(3).permutation(120)
    plain = check_residuals(smooth, 1, place, noise_known=True)[-1]
    mixed = check_residuals(smooth[order], 1, place[order], noise_known=True)[-1]
    assert plain.name == "whiteness"
    assert mixed.statistic == pytest.approx(plain.statistic)
    assert plain.p_value < 1e-6
    assert mixed.p_value < 1e-6


def test_whiteness_is_the_mean_product_with_the_four_nearest():
    place = np.random.default_rng(5).random((40, 2))
    values = np.random.default_rng(6).standard_normal(40)
    scaled = (place - place.min(axis=0)) / np.ptp(place, axis=0)
    distance = np.linalg.norm(scaled[:, None] - scaled, axis=-1)
    nearest = np.argsort(distance, axis=1)[:, 1:5]
    centered = values - values.mean()
    expected = np.sum(centered[:, None] * centered[nearest]) / 4 / np.sum(centered**2)
    found = check_residuals(values, 1, place, noise_known=True)[-1]
    assert found.statistic == pytest.approx(expected)


def test_whiteness_copes_with_sites_at_one_place():
    noise = np.random.default_rng(4).standard_normal(60)
    assert 0 < p_values(noise, np.zeros((60, 2)))["whiteness"] <= 1


def test_only_what_can_be_checked_is_checked():
    few = np.array([0.5, -1.0, 0.2])
    assert set(p_values(few, np.arange(3.0)[:, None])) == {"size"}
    estimated = check_residuals(np.arange(20.0), 1, np.arange(20.0)[:, None], noise_known=False)
    assert [check.name for check in estimated] == ["outliers", "normality", "whiteness"]

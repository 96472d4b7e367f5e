"""With noise that the data themselves gave: Student's intervals and Fisher's p-values, exactly."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import twoaxis as ta
from twoaxis.diagnosis.field_check import field_group, groups_of
from twoaxis.statistics import squares_above

X = np.linspace(-1.0, 1.0, 9)
DESIGN = np.column_stack([X, np.ones(9)])
TRUE = np.array([0.5, 2.0])


def readings(seed):
    return DESIGN @ TRUE + 0.3 * np.random.default_rng(seed).standard_normal(len(X))


def linear(value, **options):
    return ta.Parameter(
        delivered=value, bounds=(-50.0, 50.0), coordinate="linear", scale=1.0, **options
    )


def closed_form(design, data, level=0.95):
    """Estimates, standard deviation of the noise, and ends of the t intervals."""
    estimate, (rss,), *_ = np.linalg.lstsq(design, data, rcond=None)
    freedom = len(data) - design.shape[1]
    scale = np.sqrt(rss / freedom)
    error = scale * np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    half = stats.t.ppf((1 + level) / 2, freedom) * error
    return estimate, scale, estimate - half, estimate + half


@pytest.mark.parametrize("nuisance", [False, True])
def test_marginal_intervals_are_students(nuisance):
    data = readings(0)
    found = ta.resolve(
        lambda slope, level: slope * X + level,
        {"slope": linear(0.5), "level": linear(2.0, nuisance=nuisance)},
        data=data,
        replicas=5,
        progress=False,
    )
    estimate, scale, lower, upper = closed_form(DESIGN, data)
    one = found.data.isel(layout=0)
    assert_allclose(one["data_estimate"], estimate, rtol=1e-6)
    assert one["data_noise_scale"].item() == pytest.approx(scale, rel=1e-6)
    assert_allclose(one["data_set_lower"], lower, rtol=1e-5)
    assert_allclose(one["data_set_upper"], upper, rtol=1e-5)


def test_a_bank_has_the_same_interval():
    data = readings(1) - 2.0
    found = ta.resolve(
        lambda slope: slope * X, {"slope": linear(0.5)}, data=data, replicas=5, progress=False
    )
    _, _, lower, upper = closed_form(X[:, None], data)
    one = found.data.isel(layout=0)
    assert one["data_set_lower"].item() == pytest.approx(lower[0], rel=1e-6)
    assert one["data_set_upper"].item() == pytest.approx(upper[0], rel=1e-6)
    # Replicas are simulated with the noise that was found: for them it is known.
    assert found.data["set_lower"].sizes["replica"] == 5
    width = one["set_upper"].isel(replica=0).item() - one["set_lower"].isel(replica=0).item()
    scale = one["data_noise_scale"].item()
    assert width == pytest.approx(2 * stats.norm.ppf(0.975) * scale / np.sqrt(X @ X), rel=1e-6)


def test_the_deviance_of_a_delivered_value_follows_f():
    data = readings(2)
    parameters = {"slope": linear(0.9), "level": linear(2.2)}
    resolution = ta.resolve(
        lambda slope, level: slope * X + level, parameters, data=data, replicas=5, progress=False
    )
    residual = lambda slope, level: DESIGN @ [slope - 0.9, level - 2.2] + 1e-3 * np.cos(7 * X)  # noqa: E731
    audit = ta.audit(residual, parameters, ta.views.Pointwise(), points=X, resolution=resolution)
    estimate, scale, _, _ = closed_form(DESIGN, data)
    off = DESIGN @ (estimate - [0.9, 2.2])
    deviance = off @ off / scale**2
    delivered = audit.group("/resimulation").sel(value_of="delivered")
    assert delivered["deviance"].item() == pytest.approx(deviance, rel=1e-5)
    assert delivered["p_value"].item() == pytest.approx(stats.f.sf(deviance / 2, 2, 7), rel=1e-5)
    (asked,) = [q for q in audit.questions if q.code == "contradiction"]
    # The size of estimated noise is no test: outliers, normality, whiteness and this are.
    assert asked.limit == pytest.approx(2 * stats.f.isf(0.01 / 4, 2, 7), rel=1e-9)


@pytest.mark.parametrize(("count", "fitted"), [(6, 1), (8, 3), (20, 5)])
def test_p_values_of_right_values_are_uniform(count, fitted):
    generator = np.random.default_rng(7)
    basis = np.linalg.qr(generator.standard_normal((count, fitted)))[0]
    noise = generator.standard_normal((4000, count))
    explained = np.sum((noise @ basis) ** 2, axis=1)
    rest = np.sum(noise**2, axis=1) - explained
    freedom = count - fitted
    p = squares_above(explained / (rest / freedom), fitted, freedom)
    assert stats.kstest(p, "uniform").pvalue > 0.01
    # The law for known noise would raise twice as many alarms, or more.
    assert np.mean(stats.chi2.sf(explained / (rest / freedom), fitted) < 0.01) > 0.02


def test_a_right_field_is_rarely_said_to_miss_few_data():
    """Eight data, three fitted parameters, noise from the fit: the field is the truth."""
    generator = np.random.default_rng(3)
    basis = np.linalg.qr(generator.standard_normal((8, 3)))[0]
    groups = groups_of(np.arange(8.0)[:, None], ["t"])
    above = []
    for noise in generator.standard_normal((2000, 8)):
        rest = noise - basis @ (basis.T @ noise)
        scale = np.sqrt(rest @ rest / 5)
        above.append(field_group(noise / scale, groups, freedom=5)["p_above"].item())
    assert np.mean(np.array(above) < 0.01) <= 0.01


def test_noise_that_is_declared_far_too_large_is_not_called_noise_free():
    t = np.linspace(0, 5, 40)
    data = np.exp(-0.8 * t) + 0.02 * np.random.default_rng(3).standard_normal(40)
    k = {"k": ta.Parameter(delivered=2.0, bounds=(0.1, 4.0))}
    with pytest.warns(ta.MisfitWarning, match=r"0\.001 times as large as the declared noise"):
        found = ta.resolve(
            lambda k: np.exp(-k * t), k, noise=20.0, data=data, replicas=3, progress=False
        )
    codes = [message.code for message in found.messages]
    assert "resolution.misfit_size" in codes
    assert "data.noise_free" not in codes


def test_what_a_coarse_solver_leaves_is_no_noise():
    t = np.linspace(0, 5, 40)
    data = np.exp(-0.8 * t) + 5e-4 * np.sin(2 * t)
    k = {"k": ta.Parameter(delivered=0.8, bounds=(0.1, 4.0))}
    found = ta.resolve(
        lambda k: np.exp(-k * t), k, noise=0.2, data=data, replicas=3, progress=False
    )
    assert [m.code for m in found.messages if m.code.startswith("data")] == ["data.noise_free"]

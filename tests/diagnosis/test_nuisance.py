"""Audits with nuisance parameters, which forward model and residual need not share."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import twoaxis as ta
from twoaxis import Route

T = np.linspace(0.0, 2.0, 40)
NOISE = 0.02
K = dict(bounds=(0.2, 5.0))
AMOUNT = ta.Parameter(bounds=(0.2, 5.0), start=1.0, nuisance=True)


def readings(k=1.0, amount=1.3):
    return amount * np.exp(-k * T) + NOISE * np.random.default_rng(0).standard_normal(len(T))


def audited(delivered, **options):
    k = ta.Parameter(delivered=delivered, **K)
    resolution = ta.resolve(
        lambda k, amount: amount * np.exp(-k * T),
        {"k": k, "amount": AMOUNT},
        NOISE,
        replicas=10,
        at={"k": delivered, "amount": 1.3},
        progress=False,
    )
    frozen = ta.FrozenResidual(
        lambda k: (k - delivered) * np.exp(-T) + 1e-3 * np.cos(9 * T),
        {"k": k},
        T,
        view=ta.views.Pointwise(),
    )
    tolerance = ta.Tolerance(material=1.0, resolution=10.0, preference=5.0)
    return ta.audit(frozen, resolution=resolution, data=readings(), tolerance=tolerance, **options)


def profiled_chi2(k):
    """The amount enters linearly: its best value is a projection."""
    shape, y = np.exp(-k * T), readings()
    return np.sum(((y - shape * (shape @ y) / (shape @ shape)) / NOISE) ** 2)


def test_an_amount_that_only_the_simulator_has():
    found = audited(1.2)
    assert found.names == ["k"]
    assert found.route is Route.CONTRADICTED_BY_DATA
    again = found.group("/resimulation")
    best = min(profiled_chi2(k) for k in np.linspace(0.9, 1.1, 4001))
    deviance = float(again["deviance"].sel(value_of="delivered"))
    assert deviance == pytest.approx(profiled_chi2(1.2) - best, rel=1e-4)
    # One parameter of interest was held: one degree of freedom, whatever was fitted besides.
    assert_allclose(again["p_value"].sel(value_of="delivered"), stats.chi2.sf(deviance, 1))
    assert int(again["freedom"].sel(value_of="delivered")) == 39
    assert int(again["freedom"].sel(value_of="matched")) == 38
    matched = found.group("/matched")
    assert matched["other"].values.tolist() == ["amount"]
    assert float(matched["other_estimate"].item()) == pytest.approx(1.3, abs=0.03)
    assert "amount" not in found.answer


def test_a_right_value_with_another_amount_is_consistent():
    assert audited(1.0).route is Route.CONSISTENT_WITH_DATA


def test_the_likelihood_is_that_of_the_profile():
    group = audited(1.2).group("/likelihood")
    value, deviance = group["value"].values[0], group["deviance"].values[0]
    best = min(profiled_chi2(k) for k in np.linspace(0.9, 1.1, 4001))
    assert_allclose(deviance, [profiled_chi2(k) - best for k in value], atol=2e-3)
    assert value.min() < 1.0 < 1.2 <= value.max() + 1e-9


def test_a_parameter_that_only_the_residual_has():
    parameters = {
        "k": ta.Parameter(delivered=1.0, **K),
        "offset": ta.Parameter(
            bounds=(-1.0, 1.0), delivered=0.1, coordinate="linear", scale=1.0, nuisance=True
        ),
    }
    frozen = ta.FrozenResidual(
        lambda k, offset: (k - 1.0) * np.exp(-T) + (offset - 0.1) * np.cos(3 * T),
        parameters,
        T,
        view=ta.views.Pointwise(),
    )
    k = {"k": parameters["k"]}
    resolution = ta.resolve(lambda k: 1.3 * np.exp(-k * T), k, NOISE, replicas=5, progress=False)
    found = ta.audit(
        frozen, resolution=resolution, data=readings(), tolerance=ta.Tolerance(5, 5, 5)
    )
    assert found.route is Route.CONSISTENT_WITH_DATA
    assert list(found.summary().index) == ["k"]
    assert np.isnan(found.group("/matched")["estimate"].sel(parameter="offset"))


def test_a_saved_audit_with_nuisance_parameters(tmp_path):
    found = audited(1.2)
    found.save(tmp_path / "audit.nc")
    assert ta.load(tmp_path / "audit.nc").answer == found.answer


def test_a_parameter_of_interest_on_one_side_only_is_refused():
    k = {"k": ta.Parameter(delivered=1.0, **K), "a": ta.Parameter(delivered=1.0, **K)}
    resolution = ta.resolve(lambda k, a: a * np.exp(-k * T), k, NOISE, replicas=3, progress=False)
    frozen = ta.FrozenResidual(lambda k: (k - 1.0) * T, {"k": k["k"]}, T)
    with pytest.raises(ta.InputError, match="nuisance=True"):
        ta.audit(frozen, resolution=resolution, view=ta.views.Pointwise())

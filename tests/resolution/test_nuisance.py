"""Nuisance parameters in axis 1: fitted in every replica, left out of every headline."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import twoaxis as ta
from twoaxis.errors import InputError
from twoaxis.resolution.fisher import directions_of_interest

X = np.linspace(0.2, 3.0, 15)
NOISE = 0.05


def interest(**more):
    return ta.Parameter(truth=2.0, bounds=(0.2, 20.0), **more)


def nuisance(**more):
    return ta.Parameter(nuisance=True, start=1.5, bounds=(0.1, 15.0), **more)


def resolve(parameters, replicas=40, forward=None):
    return ta.resolve(
        forward or (lambda k, a: a * np.exp(-k * X)), parameters, noise=NOISE, replicas=replicas
    )


@pytest.fixture(scope="module")
def found():
    return resolve({"a": nuisance(), "k": interest()})


def test_standard_errors_are_those_of_the_whole_inverse(found):
    """Written out: the slope by log k with the slope by log a projected out."""
    slope = np.column_stack([1.5 * np.exp(-2 * X), -2 * X * 1.5 * np.exp(-2 * X)]) / NOISE
    covariance = np.linalg.inv(slope.T @ slope)
    expected = 100 * np.sqrt(2 / np.pi * covariance[1, 1])
    assert found.fisher_error_percent.item() == pytest.approx(expected, rel=1e-6)
    left = slope[:, 1] - slope[:, 0] * (slope[:, 0] @ slope[:, 1]) / (slope[:, 0] @ slope[:, 0])
    assert covariance[1, 1] == pytest.approx(1 / (left @ left))  # the Schur complement
    table = found.directions()
    assert list(table.columns) == ["standard_error_percent", "poorly_resolved", "k"]
    assert table["standard_error_percent"].item() == pytest.approx(
        100 * np.sqrt(covariance[1, 1]), rel=1e-6
    )


def test_properties_are_about_the_parameters_of_interest(found):
    assert found.error_percent.dims == ("layout", "replica")
    assert_allclose(found.error_percent, found.data["deviation_percent"].sel(parameter="k"))
    assert found.coverage.ndim == 0
    assert found.interval("mean").low < float(found.error_percent.mean())
    assert [name for name, _ in found.summary().index] == ["k", "a"]
    assert found.summary()["nuisance"].tolist() == [False, True]
    assert found.to_dict()["nuisance"] == ["a"]
    assert "a =" not in repr(found)
    found.check()


def test_rows_of_a_summary_belong_to_their_parameter(found):
    table = found.summary()
    for name in ("k", "a"):
        row = table.loc[name].iloc[0]
        errors = found.data["deviation_percent"].sel(parameter=name).values
        assert row["mean"] == pytest.approx(errors.mean())
        assert row["ci_low"] < row["mean"] < row["ci_high"]


def test_profile_sets_cover_with_the_nuisance_parameter_fitted():
    covered = resolve({"a": nuisance(), "k": interest()}, replicas=300).coverage.item()
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 300)


def test_directions_of_interest_are_those_of_the_marginal_covariance():
    rng = np.random.default_rng(3)
    root = rng.normal(size=(9, 4))
    values, vectors = np.linalg.eigh(root.T @ root)
    hidden = np.array([False, True, False, False])
    rows, errors = directions_of_interest(vectors.T, 1 / np.sqrt(values), hidden)
    inside = np.linalg.inv(root.T @ root)[np.ix_(~hidden, ~hidden)]
    assert_allclose(errors**2, np.linalg.eigvalsh(inside)[::-1])
    assert not rows[:, 1].any()
    kept = rows[:, ~hidden]
    assert_allclose(kept @ inside @ kept.T, np.diag(errors**2), atol=1e-10)


@pytest.mark.parametrize(("column", "null"), [(1, 0), (0, 1)])
def test_null_directions_count_where_they_hold_a_parameter_of_interest(column, null):
    """A zero column of a nuisance parameter hides nothing; that of another one does."""
    slope = np.random.default_rng(0).normal(size=(9, 3))
    slope[:, column] = 0.0
    values, vectors = np.linalg.eigh(slope.T @ slope)
    errors = np.where(values > 1e-9, 1 / np.sqrt(np.maximum(values, 1e-9)), np.inf)
    hidden = np.array([False, True, False])
    _, found = directions_of_interest(vectors.T, errors, hidden)
    assert np.isinf(found).sum() == null


def test_a_nuisance_parameter_that_absorbs_one_of_interest_leaves_it_unseen():
    found = resolve({"k": interest(), "a": nuisance()}, 2, lambda k, a: np.exp(-k * a * X / 3))
    assert np.isinf(found.fisher_error_percent.item())
    assert found.directions()["poorly_resolved"].all()
    assert "resolution.null_direction" in {message.code for message in found.messages}


# ------------------------------------------------------------- other parameters of the residual


def test_order_of_a_residual_with_nuisance_parameters_of_its_own(found):
    other = ta.Parameter(nuisance=True, start=1.0, bounds=(0.5, 2.0))
    again = found.in_order_of({"flux": other, "k": interest(delivered=2.2)})
    assert again.names == ["k", "a"]
    assert again.live is found.live
    assert again.fisher_error_percent.item() == found.fisher_error_percent.item()
    again.check()
    both = found.in_order_of({"k": interest(), "a": nuisance()})
    assert both.names == ["k", "a"]
    assert_allclose(
        both.data["fisher_information"].values[0],
        found.data["fisher_information"].values[0].T[::-1, ::-1],
    )


def test_parameters_of_interest_must_be_the_same(found):
    flux = ta.Parameter(truth=1.0, bounds=(0.5, 2.0))
    with pytest.raises(InputError) as error:
        found.in_order_of({"k": interest(), "flux": flux})
    assert error.value.got == "one of k"
    assert "nuisance=True" in error.value.fix
    with pytest.raises(InputError):
        found.in_order_of({"k": interest(), "a": ta.Parameter(truth=1.5, bounds=(0.1, 15.0))})
    with pytest.raises(InputError):
        found.in_order_of({"flux": flux})

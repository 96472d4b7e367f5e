"""The average log information against plain linear algebra."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twoaxis as ta
from twoaxis.remedies.sites.search import Criterion, mean_error_percent, packed, unpacked


def case(seed, points=3, candidates=30, d=2):
    generator = np.random.default_rng(seed)
    slopes = generator.standard_normal((points, candidates, d))
    root = generator.standard_normal((points, d, d))
    information = root @ np.swapaxes(root, 1, 2) + 0.1 * np.eye(d)
    return slopes, information


@pytest.mark.parametrize("d", [1, 2, 3])
def test_packed_products_are_the_outer_products(d):
    slopes, _ = case(0, d=d)
    whole = np.einsum("pna,pnb->pnab", slopes, slopes)
    np.testing.assert_allclose(unpacked(np.moveaxis(packed(slopes), 1, 2)), whole)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 3))
def test_a_gain_is_the_rise_of_the_average_log_determinant(seed, points, d):
    slopes, information = case(seed, points, 7, d)
    criterion = Criterion(packed(slopes))
    before = np.linalg.slogdet(information)[1].mean()
    after = [np.linalg.slogdet(criterion.add(information, n))[1].mean() for n in range(7)]
    gains = criterion.gains(information, np.arange(7))
    np.testing.assert_allclose(gains, np.array(after) - before, rtol=1e-8, atol=1e-10)
    assert (gains <= criterion.leverage(information) + 1e-12).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_the_bound_never_hides_the_best_free_candidate(seed, points):
    slopes, information = case(seed, points, 40)
    free = np.random.default_rng(seed).random(40) < 0.5
    free[seed % 40] = True
    criterion = Criterion(packed(slopes))
    gains = np.where(free, criterion.gains(information, np.arange(40)), -np.inf)
    place, gain = criterion.best(information, free)
    assert free[place]
    assert gain == pytest.approx(gains.max(), rel=1e-12)


def test_mean_error_is_that_of_the_inverse_matrix():
    _, information = case(4, d=3)
    inverse = np.linalg.inv(information)
    expected = 100 * np.sqrt(2 / np.pi * np.diagonal(inverse, axis1=1, axis2=2))
    np.testing.assert_allclose(mean_error_percent(information), expected, rtol=1e-9)


def test_what_is_not_seen_has_an_infinite_error_and_the_rest_a_finite_one():
    error = mean_error_percent(np.array([[[4.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]]]))
    assert error[0].tolist() == [pytest.approx(100 * np.sqrt(2 / np.pi) / 2), np.inf]
    assert np.isinf(error[1]).all()
    assert np.isinf(mean_error_percent(np.zeros((2, 2)))).all()


def test_the_mean_error_is_the_fisher_figure_of_resolve():
    x = np.linspace(0.2, 2, 12)
    parameters = {
        "a": ta.Parameter(truth=1.3, bounds=(0.1, 9.0)),
        "b": ta.Parameter(truth=-0.4, bounds=(-2.0, 2.0), coordinate="linear", scale=0.5),
    }
    found = ta.resolve(lambda a, b: a * x + b * x**2, parameters, 0.1, replicas=2, validate=0)
    slopes = np.column_stack([1.3 * x, 0.5 * x**2]) / 0.1  # steps of 100%
    np.testing.assert_allclose(
        mean_error_percent(slopes.T @ slopes), found.fisher_error_percent[:, 0], rtol=1e-6
    )


@pytest.mark.parametrize("size", [1e-9, 1e-150])
def test_a_best_candidate_is_found_among_those_that_add_next_to_nothing(size):
    """Below 1e-16, rounding may put a leverage under its own gain."""
    for seed in range(40):
        slopes, _ = case(seed, points=2, candidates=5, d=1)
        criterion = Criterion(packed(size * slopes))
        information = np.full((2, 1, 1), 3.7)
        place, gain = criterion.best(information, np.ones(5, dtype=bool))
        gains = criterion.gains(information, np.arange(5))
        assert gain == pytest.approx(gains.max(), rel=1e-12, abs=0)
        assert gains[place] == gain


def schur(information, hidden):
    """The information about the others, nuisance parameters fitted."""
    kept = ~hidden
    across = information[kept][:, hidden]
    inner = np.linalg.inv(information[hidden][:, hidden])
    return information[kept][:, kept] - across @ inner @ across.T


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 2))
def test_with_nuisance_parameters_a_gain_is_the_rise_of_the_schur_complement(seed, points, hidden):
    slopes, information = case(seed, points, 40, 3)
    nuisance = np.arange(3) < hidden
    criterion = Criterion(packed(slopes), nuisance)

    def log_of_interest(matrices):
        return np.array([np.linalg.slogdet(schur(each, nuisance))[1] for each in matrices])

    before = log_of_interest(information)
    np.testing.assert_allclose(criterion.log_information(information), before, rtol=1e-8)
    after = [log_of_interest(criterion.add(information, n)).mean() for n in range(40)]
    gains = criterion.gains(information, np.arange(40))
    np.testing.assert_allclose(gains, np.array(after) - before.mean(), rtol=1e-6, atol=1e-9)
    assert (gains <= criterion.leverage(information) + 1e-12).all()
    free = np.random.default_rng(seed).random(40) < 0.5
    free[seed % 40] = True
    place, gain = criterion.best(information, free)
    assert free[place]
    assert gain == pytest.approx(gains[free].max(), rel=1e-9)


def test_sites_are_for_the_parameters_of_interest():
    """A decay with an unknown amount: the best three sites for the rate, by trying all."""
    t = np.linspace(0, 4, 15)
    parameters = {
        "rate": ta.Parameter(truth=1.0, bounds=(0.05, 20.0)),
        "amount": ta.Parameter(truth=1.0, bounds=(0.01, 100.0), nuisance=True),
    }
    found = ta.suggest_sites(
        lambda rate, amount: amount * np.exp(-rate * t), parameters, 0.05, 3, progress=False
    )
    slopes = np.column_stack([-t * np.exp(-t), np.exp(-t)]) / 0.05

    def error(sites):
        chosen = slopes[list(sites)]
        return 100 * np.sqrt(2 / np.pi * np.linalg.inv(chosen.T @ chosen)[0, 0])

    best = min(error(sites) for sites in itertools.combinations(range(15), 3))
    assert error(found.sites) == pytest.approx(best, rel=1e-6)
    assert found.summary().loc["rate", "predicted"] == pytest.approx(best, rel=1e-4)
    assert list(found.summary().index) == ["rate", "amount"]
    assert not any("amount" in number.label for number in found.actions()[0].numbers)
    both = ta.suggest_sites(
        lambda rate, amount: amount * np.exp(-rate * t),
        {**parameters, "amount": ta.Parameter(truth=1.0, bounds=(0.01, 100.0))},
        0.05,
        3,
        progress=False,
    )
    assert error(both.sites) > error(found.sites)

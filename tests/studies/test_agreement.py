"""Statistics that blocks share, against direct computations."""

from __future__ import annotations

import numpy as np
import pytest

from twoaxis.studies.resampling import (
    Resampling,
    centered,
    correlation,
    correlation_within,
    count,
    labels,
    mean_difference,
    same_direction,
)
from twoaxis.studies.scale import SMOKE

RNG = np.random.default_rng(3)
X = RNG.normal(size=30)
Y = X + RNG.normal(size=30)
GROUPS = np.repeat(["a", "b", "c"], 10)
SAMPLE = Resampling(np.repeat(np.arange(15), 2), 1000, 1, SMOKE)


def test_correlations_are_pearson_plain_and_centered():
    assert correlation(SAMPLE, X, Y).value == pytest.approx(np.corrcoef(X, Y)[0, 1])
    x, y = (v - np.repeat([v[:10].mean(), v[10:20].mean(), v[20:].mean()], 10) for v in (X, Y))
    np.testing.assert_allclose(centered(X, GROUPS), x)
    assert correlation_within(SAMPLE, X, Y, GROUPS).value == pytest.approx(np.corrcoef(x, y)[0, 1])


def test_a_scale_may_ask_for_fewer_draws_and_draws_take_whole_clusters():
    found = mean_difference(SAMPLE, X, Y)
    assert found.value == pytest.approx(np.abs(X - Y).mean())
    assert found.draws.shape == (SMOKE.most_draws,)
    pairs = np.abs(X - Y).reshape(15, 2).mean(axis=1)
    assert found.draws.std() == pytest.approx(pairs.std() / np.sqrt(15), rel=0.25)


def test_counts_and_directions():
    assert same_direction([1, -1, 0, 2], [2, -3, 1, -1]).tolist() == [True, True, False, False]
    found = count(SAMPLE, X > 0)
    assert found.value == np.count_nonzero(X > 0)
    assert found.draws.max() <= 30


def test_a_correlation_with_a_constant_is_undefined_and_not_an_error():
    found = correlation(SAMPLE, X, np.ones(30))
    assert np.isnan(found.value)
    assert found.draws is None


def test_labels_join_columns():
    import pandas as pd

    frame = pd.DataFrame({"problem": ["a", "b"], "replica": [1, 2]})
    assert labels(frame, "problem", "replica") == ["a|1", "b|2"]

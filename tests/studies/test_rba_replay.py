"""What final weights follow, their effective support, and the minimum they select."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameter
from twoaxis.studies.blocks.rba_replay import BLOCK
from twoaxis.studies.blocks.selector import six_cases
from twoaxis.studies.published import published_figures
from twoaxis.studies.readouts import REPLAY, effective_support
from twoaxis.studies.scale import SMOKE
from twoaxis.views import Weighted

N = 60


def run_with(weights, offset, slope):
    """A residual offset + nu * slope, delivered at nu = 3 where the truth is 2."""
    parameters = {"nu": Parameter(truth=2.0, bounds=(1.0, 4.0), delivered=3.0)}
    points = np.random.default_rng(9).random((N, 2))
    frozen = FrozenResidual(lambda nu: offset + nu * slope, parameters, points)
    view = Weighted(loss_weights=weights**2)
    return SimpleNamespace(frozen=frozen, view=view, delivered={"nu": 3.0})


def rank_correlation(x, y):
    ranks = [np.argsort(np.argsort(np.abs(values))) for values in (x, y)]
    return np.corrcoef(*ranks)[0, 1]


def test_weights_are_compared_with_the_four_magnitudes():
    generator = np.random.default_rng(5)
    offset, slope = generator.standard_normal((2, N))
    weights = generator.random(N)
    (row,) = REPLAY.read(run_with(weights, offset, slope), SMOKE)
    at_truth = offset + 2 * slope
    wanted = {
        "residual": offset + 3 * slope,
        "truth_residual": at_truth,
        "sensitivity": slope,
        "score": slope * at_truth,
    }
    for name, values in wanted.items():
        assert row[f"weights_with_{name}"] == pytest.approx(rank_correlation(weights, values))
    assert row["points"] == N


def test_weights_that_grow_with_the_residual_follow_it():
    offset, slope = np.random.default_rng(6).standard_normal((2, N))
    (row,) = REPLAY.read(run_with(np.abs(offset + 3 * slope) ** 0.3, offset, slope), SMOKE)
    assert row["weights_with_residual"] == pytest.approx(1)
    assert row["weights_with_truth_residual"] < 0.99


def test_effective_support_is_that_of_the_squared_weights():
    offset, slope = np.random.default_rng(7).standard_normal((2, N))
    weights = np.repeat([1.0, 2.0], N // 2)
    (row,) = REPLAY.read(run_with(weights, offset, slope), SMOKE)
    assert row["effective_support"] == pytest.approx(N * 25 / 34)


@pytest.mark.parametrize("count", [1, 17, 60])
def test_support_of_equal_weights_is_their_number(count):
    assert effective_support(np.repeat([0.3, 0.0], [count, 60 - count])) == pytest.approx(count)


def test_block_takes_means_and_extremes_and_counts_equal_minima():
    replays, endpoints = [], []
    for number, field in enumerate(six_cases("rba")):
        own = {"key": f"field {number}", **field.columns()}
        replays.append(
            own
            | {
                "weights_with_residual": 0.1 * number,
                "weights_with_truth_residual": 0.5,
                "weights_with_sensitivity": -0.1 * number,
                "weights_with_score": 0.2,
                "effective_support": 600.0 + (number - 2) ** 2,
                "points": 2000,
            }
        )
        # The weights move the minimum of the last field alone; zero is a minimum like others.
        moved = 0.1 * number
        for view, minimum in (("own", moved), ("pointwise", moved if number < 5 else 0.0)):
            endpoints.append(own | {"view": view, "grid_displacement": minimum})
    rows = {"replay": pd.DataFrame(replays), "endpoints": pd.DataFrame(endpoints)}
    measured = BLOCK.measure(rows, SMOKE)
    values = {key: figure.value for key, figure in measured.figures.items()}
    assert set(values) == {figure.key for figure in published_figures("rba-replay")}
    assert values["weights_with_residual"] == pytest.approx(0.25)
    assert values["weights_with_sensitivity"] == pytest.approx(-0.25)
    assert values["smallest_support"] == 600
    assert values["largest_support"] == 609
    assert values["same_minimum"] == 5
    assert measured.tables["replays"]["same_minimum"].tolist() == [True] * 5 + [False]

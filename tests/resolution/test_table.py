"""Several resolutions in one table."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.resolution import resolution_table
from twoaxis.resolution.benchmarks import STRATIFIED, UNSTRATIFIED

T = np.linspace(0, 1, 20)


def found(truth, replicas=60, layouts=2):
    return ta.resolve(
        lambda rate: np.exp(-rate * T),
        {"rate": ta.Parameter(truth=truth, bounds=(0.01, 50.0))},
        0.05,
        {k: np.arange(20) for k in range(layouts)},
        replicas=replicas,
        seed=int(10 * truth),
        validate=0,
    )


def test_overall_interval_clusters_by_problem_and_replica():
    parts = {"slow": found(0.5), "fast": found(5.0)}
    table = resolution_table(parts)
    assert table.index.tolist() == ["slow", "fast", UNSTRATIFIED, STRATIFIED]
    by_cluster = np.stack([p.error_percent.mean("layout").values for p in parts.values()])
    normal = 1.96
    stratified = normal * np.sqrt((by_cluster.var(axis=1) / 60).sum()) / 2
    pooled = normal * by_cluster.std() / np.sqrt(120)
    width = table["ci_high"] - table["ci_low"]
    assert width[STRATIFIED] == pytest.approx(2 * stratified, rel=0.06)
    assert width[UNSTRATIFIED] == pytest.approx(2 * pooled, rel=0.06)


def test_one_problem_has_no_overall_row():
    assert resolution_table({"slow": found(0.5)}).index.tolist() == ["slow"]


def test_problems_must_weigh_the_same():
    with pytest.raises(ta.InputError, match="same number of layouts and replicas"):
        resolution_table({"slow": found(0.5), "fast": found(5.0, replicas=30)})


def test_intervals_keep_layouts_together():
    # The two layouts are copies: four times the replicas, not twice, would halve the interval.
    both, one = found(2.0, layouts=2), found(2.0, layouts=1)
    for statistic in ("mean", "median", "p90"):
        assert both.interval(statistic).low == pytest.approx(one.interval(statistic).low)
        assert both.interval(statistic).high == pytest.approx(one.interval(statistic).high)

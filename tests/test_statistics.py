"""Weighted statistics against repeated samples; the bootstrap against theory and a plain loop."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from twoaxis.errors import InputError
from twoaxis.statistics import (
    Interval,
    bootstrap,
    cluster_bootstrap,
    pearson,
    pearson_within,
    squares_above,
    squares_below,
    squares_limit,
    weighted_mean,
    weighted_pearson,
    weighted_quantile,
)

NORMAL_975 = stats.norm.ppf(0.975)

# tab:operator-intervention: rows AC 8, AC 9, BL 8, BL 9, Burgers 8, Burgers 9;
# columns Patch, R64, FRKE, RBA.
PARAMETER_ERROR = np.array(
    [
        [19.95, 21.90, 25.77, 10.82],
        [30.46, 16.55, 25.57, 14.71],
        [26.10, 12.28, 4.95, 2.26],
        [50.98, 28.71, 14.06, 28.75],
        [25.94, 1.32, 3.26, 9.88],
        [23.06, 27.90, 7.88, 37.88],
    ]
).ravel()
FIELD_ERROR = np.array(
    [
        [0.1349, 0.1525, 0.1162, 0.0967],
        [0.1661, 0.1507, 0.1380, 0.1061],
        [0.0372, 0.0416, 0.0224, 0.0583],
        [0.0497, 0.0442, 0.0332, 0.0541],
        [0.1309, 0.1389, 0.0912, 0.0840],
        [0.1302, 0.1437, 0.0919, 0.0780],
    ]
).ravel()
PDE = np.repeat(["allen-cahn", "buckley-leverett", "burgers"], 8)


@st.composite
def counted_samples(draw):
    """Values of ordinary size, some equal, and three rows of counts, none all zero."""
    n = draw(st.integers(1, 12))
    number = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6, width=32))
    values = np.array(draw(st.lists(number, min_size=n, max_size=n)))
    row = st.lists(st.integers(0, 4), min_size=n, max_size=n).filter(any)
    return values, np.array(draw(st.lists(row, min_size=3, max_size=3)))


@st.composite
def clustered_samples(draw):
    """Whole-number values, so that sums are exact in any order, with clusters and strata."""
    cluster = draw(st.lists(st.integers(0, 8), max_size=25))
    # Clusters 0 to 3 and 4 to 8 are the strata; two clusters of each are always there.
    cluster = np.array([0, 1, 4, 5, *cluster])
    values = draw(st.lists(st.integers(-99, 99), min_size=cluster.size, max_size=cluster.size))
    order = draw(st.permutations(range(cluster.size)))
    return np.array(values, dtype=float), cluster, np.array(order)


def mean_of(values):
    return lambda weights: weighted_mean(values, weights)


def recorded_weights(clusters, **options):
    """Return the weights that a statistic is given, all chunks together."""
    seen = []

    def statistic(weights):
        seen.append(weights.copy())
        return weights[:, 0]

    cluster_bootstrap(statistic, clusters, **options)
    return np.concatenate(seen)


# --- weighted statistics ---------------------------------------------------------------


@given(counted_samples())
def test_weighted_mean_is_the_mean_of_the_repeated_sample(sample):
    values, counts = sample
    expected = [np.repeat(values, row).mean() for row in counts]
    np.testing.assert_allclose(
        weighted_mean(values, counts), expected, rtol=1e-12, atol=1e-12 * np.abs(values).max()
    )


@given(counted_samples(), st.floats(0, 1))
def test_weighted_quantile_is_numpys_quantile_of_the_repeated_sample(sample, q):
    values, counts = sample
    expected = [np.quantile(np.repeat(values, row), q) for row in counts]
    np.testing.assert_allclose(
        weighted_quantile(values, counts, q),
        expected,
        rtol=1e-14,
        atol=1e-14 * np.abs(values).max(),
    )


@pytest.mark.parametrize("q", [0, 0.025, 0.25, 1 / 3, 0.5, 0.9, 1])
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_weighted_quantile_with_unit_weights_is_numpys_default(n, q):
    values = np.random.default_rng(n).normal(size=n)
    assert weighted_quantile(values, np.ones(n), q) == np.quantile(values, q)


@given(counted_samples(), st.integers(0, 2**32 - 1))
def test_weighted_pearson_is_the_correlation_of_the_repeated_pairs(sample, seed):
    x, counts = sample
    y = np.random.default_rng(seed).normal(size=x.size)
    # Rounding alone moves r where the spread of x is small beside x.
    spread = [np.ptp(np.repeat(x, row)) for row in counts]
    assume(x.size > 1 and min(spread) > 1e-3 * max(1e-3, np.abs(x).max()))
    expected = [np.corrcoef(np.repeat(x, row), np.repeat(y, row))[0, 1] for row in counts]
    np.testing.assert_allclose(weighted_pearson(x, y, counts), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_weighted_statistics_keep_the_leading_axes_of_the_weights(shape):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 6))
    weights = rng.integers(1, 4, size=(*shape, 6))
    for statistic in (
        lambda w: weighted_mean(x, w),
        lambda w: weighted_quantile(x, w, 0.3),
        lambda w: weighted_pearson(x, y, w),
    ):
        result = statistic(weights)
        assert result.shape == shape
        for index in np.ndindex(*shape):
            assert result[index] == statistic(weights[index])


@pytest.mark.parametrize("weights", [[-1, 2], [0, 0], [np.nan, 1], [np.inf, 1], [1, 1, 1], 1.0])
def test_weights_that_are_no_counts_are_refused(weights):
    with pytest.raises(InputError, match="weights"):
        weighted_mean([1.0, 2.0], weights)


def test_quantile_refuses_fractional_weights_and_percentages():
    with pytest.raises(InputError, match="integer counts"):
        weighted_quantile([1.0, 2.0], [0.5, 0.5], 0.5)
    with pytest.raises(InputError, match="divide a percentage by 100"):
        weighted_quantile([1.0, 2.0], [1, 1], 50)


@pytest.mark.parametrize("values", [[1.0, np.nan], [np.inf, 1.0], [], [[1.0, 2.0]], ["a", "b"]])
def test_values_that_are_no_sample_are_refused(values):
    with pytest.raises(InputError, match="values"):
        weighted_mean(values, [1, 1])


# --- correlations ----------------------------------------------------------------------


def test_published_field_and_parameter_correlation():
    assert round(pearson(FIELD_ERROR, PARAMETER_ERROR), 3) == 0.057
    assert round(pearson_within(FIELD_ERROR, PARAMETER_ERROR, PDE), 3) == 0.220


def test_pearson_agrees_with_scipy():
    x, y = np.random.default_rng(3).normal(size=(2, 50))
    assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1e200])
def test_pearson_does_not_depend_on_units(scale):
    x, y = np.random.default_rng(4).normal(size=(2, 20))
    assert pearson(scale * x, y) == pytest.approx(pearson(x, y), rel=1e-9)
    assert pearson(x, -scale * y) == pytest.approx(-pearson(x, y), rel=1e-9)


@given(st.permutations(range(24)), st.tuples(*[st.floats(-10, 10)] * 3))
def test_pearson_within_ignores_group_means_and_order(order, offsets):
    order = list(order)
    shift = dict(zip(np.unique(PDE), offsets, strict=True))
    x = FIELD_ERROR + np.array([shift[pde] for pde in PDE])
    moved = pearson_within(x[order], PARAMETER_ERROR[order], PDE[order])
    expected = pearson_within(FIELD_ERROR, PARAMETER_ERROR, PDE)
    assert moved == pytest.approx(expected, rel=1e-9)


def test_pearson_within_one_group_is_pearson_and_a_lone_pair_adds_nothing():
    x, y = np.random.default_rng(5).normal(size=(2, 10))
    inside = pearson(x[:9], y[:9])
    assert pearson_within(x[:9], y[:9], np.zeros(9)) == pytest.approx(inside, rel=1e-12)
    groups = ["a"] * 9 + ["b"]
    assert pearson_within(x, y, groups) == pytest.approx(inside, rel=1e-12)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([1.0], [2.0]),
        ([1.0, 2.0], [1.0, 2.0, 3.0]),
        ([1.0, np.nan], [1.0, 2.0]),
        ([1.0, 2.0], [1.0, -np.inf]),
        # The mean of three times 0.1 is not 0.1 in floating point.
        ([0.1, 0.1, 0.1], [1.0, 2.0, 4.0]),
        ([1.0, 2.0, 4.0], [0.1, 0.1, 0.1]),
    ],
)
def test_correlation_without_meaning_is_refused(x, y):
    with pytest.raises(InputError):
        pearson(x, y)
    with pytest.raises(InputError):
        pearson_within(x, y, np.zeros(len(x)))
    with pytest.raises(InputError):
        weighted_pearson(x, y, np.ones(len(x)))


def test_pearson_within_refuses_what_varies_between_groups_only():
    groups = ["a"] * 3 + ["b"] * 3
    between = [0.1] * 3 + [0.7] * 3
    inside = [1.0, 2.0, 4.0, 3.0, 1.0, 0.0]
    with pytest.raises(InputError, match="x constant inside every group"):
        pearson_within(between, inside, groups)
    with pytest.raises(InputError, match="y constant inside every group"):
        pearson_within(inside, between, groups)


def test_a_single_pair_is_refused_for_being_single():
    with pytest.raises(InputError, match="at least two pairs"):
        pearson([1.0], [2.0])


def test_a_pair_that_was_not_drawn_has_no_influence():
    y = [1.0, 2.0, 5.0, -3.0]
    expected = pearson([0.0, 1e-300, 3e-300], y[:3])
    far_away = [0.0, 1e-300, 3e-300, 1e300]
    assert weighted_pearson(far_away, y, [1, 1, 1, 0]) == pytest.approx(expected, rel=1e-12)


def test_weighted_pearson_says_how_many_draws_are_constant():
    with pytest.raises(InputError, match="constant x in 1 of 2 rows"):
        weighted_pearson([0.1, 0.1, 2.0], [1.0, 2.0, 3.0], [[1, 1, 1], [2, 1, 0]])


# --- the bootstrap ---------------------------------------------------------------------


def test_interval_of_a_mean_has_the_analytical_width():
    rng = np.random.default_rng(6)
    effect = rng.normal(size=100)
    values = np.repeat(effect, 4) + 0.3 * rng.normal(size=400)
    interval = cluster_bootstrap(mean_of(values), np.repeat(np.arange(100), 4), seed=7)
    standard_error = values.reshape(100, 4).mean(axis=1).std() / np.sqrt(100)
    assert interval.level == 0.95
    assert interval.high - interval.low == pytest.approx(2 * NORMAL_975 * standard_error, rel=0.04)
    middle = (interval.low + interval.high) / 2
    assert abs(middle - values.mean()) < 0.1 * standard_error


def test_strata_remove_the_spread_between_their_means():
    rng = np.random.default_rng(8)
    sizes, means, spreads = (40, 40, 40), (0.0, 5.0, 20.0), (1.0, 2.0, 0.5)
    parts = [rng.normal(m, s, n) for m, s, n in zip(means, spreads, sizes, strict=True)]
    values, strata = np.concatenate(parts), np.repeat(["a", "b", "c"], sizes)
    clusters = np.arange(values.size)
    stratified = cluster_bootstrap(mean_of(values), clusters, seed=9, strata=strata)
    pooled = cluster_bootstrap(mean_of(values), clusters, seed=9)
    error_within = np.sqrt(sum(part.var() / part.size for part in parts)) / 3
    error_pooled = values.std() / np.sqrt(values.size)
    width = stratified.high - stratified.low
    assert width == pytest.approx(2 * NORMAL_975 * error_within, rel=0.04)
    assert pooled.high - pooled.low == pytest.approx(2 * NORMAL_975 * error_pooled, rel=0.04)
    assert pooled.high - pooled.low > 3 * width


CLUSTERS = np.array(list("daacbbbceade"))
VALUES, OTHER = np.random.default_rng(10).normal(size=(2, CLUSTERS.size))


@pytest.mark.parametrize(
    ("of_weights", "of_sample"),
    [
        (lambda w: weighted_mean(VALUES, w), lambda i: VALUES[i].mean()),
        (lambda w: weighted_quantile(VALUES, w, 0.75), lambda i: np.quantile(VALUES[i], 0.75)),
        (
            lambda w: weighted_pearson(VALUES, OTHER, w),
            lambda i: np.corrcoef(VALUES[i], OTHER[i])[0, 1],
        ),
    ],
    ids=["mean", "quantile", "pearson"],
)
def test_interval_equals_an_explicit_resampling_loop(of_weights, of_sample):
    rng = np.random.default_rng(11)
    members = [np.flatnonzero(label == CLUSTERS) for label in "abcde"]
    estimates = []
    for _ in range(300):
        counts = rng.multinomial(5, [1 / 5] * 5)
        taken = [np.tile(m, count) for m, count in zip(members, counts, strict=True)]
        estimates.append(of_sample(np.concatenate(taken)))
    interval = cluster_bootstrap(of_weights, CLUSTERS, draws=300, seed=11, level=0.8)
    expected = np.quantile(estimates, [0.1, 0.9])
    np.testing.assert_allclose([interval.low, interval.high], expected, rtol=1e-12)


def test_weights_are_cluster_counts_that_fill_each_stratum():
    clusters = np.array([3, 1, 1, 2, 7, 7, 9, 3])
    strata = np.array(["p", "p", "p", "p", "q", "q", "q", "p"])
    weights = recorded_weights(clusters, draws=500, seed=12, strata=strata)
    assert weights.shape == (500, 8)
    np.testing.assert_array_equal(weights[:, [0, 1, 4]], weights[:, [7, 2, 5]])
    np.testing.assert_array_equal(weights[:, [0, 1, 3]].sum(axis=1), 3)
    np.testing.assert_array_equal(weights[:, [4, 6]].sum(axis=1), 2)
    # The strata are drawn independently: their counts do not go together.
    assert abs(np.corrcoef(weights[:, 1], weights[:, 4])[0, 1]) < 0.15


def test_strata_of_equal_size_do_not_share_their_draws():
    clusters = np.arange(8)
    weights = recorded_weights(clusters, draws=50, seed=12, strata=clusters // 4)
    assert np.any(weights[:, :4] != weights[:, 4:])


@pytest.mark.parametrize("stratified", [False, True])
@given(sample=clustered_samples(), seed=st.integers(0, 2**32 - 1))
def test_order_of_observations_does_not_change_the_interval(stratified, sample, seed):
    values, clusters, order = sample
    strata = clusters >= 4

    def interval(index):
        return cluster_bootstrap(
            mean_of(values[index]),
            clusters[index],
            draws=40,
            seed=seed,
            strata=strata[index] if stratified else None,
        )

    assert interval(order) == interval(np.arange(order.size))


def test_seed_decides_the_draws():
    values, clusters = np.random.default_rng(13).normal(size=9), np.arange(9)
    first, again, other = (
        cluster_bootstrap(mean_of(values), clusters, draws=100, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_one_stratum_is_no_stratification():
    clusters = np.arange(6)
    np.testing.assert_array_equal(
        recorded_weights(clusters, draws=30, seed=14),
        recorded_weights(clusters, draws=30, seed=14, strata=["only"] * 6),
    )


@pytest.mark.parametrize("strata", [None, np.repeat([0, 1, 1, 0], 5)])
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_chunks_do_not_change_the_numbers(monkeypatch, strata, rows):
    values, clusters = np.random.default_rng(15).normal(size=20), np.repeat(np.arange(4), 5)
    options = {"draws": 100, "seed": 16, "strata": strata}
    whole_weights = recorded_weights(clusters, **options)
    whole = cluster_bootstrap(mean_of(values), clusters, **options)
    monkeypatch.setattr(bootstrap, "CHUNK_BYTES", rows * 20 * 8)
    np.testing.assert_array_equal(recorded_weights(clusters, **options), whole_weights)
    assert cluster_bootstrap(mean_of(values), clusters, **options) == whole


def test_chunks_bound_the_memory():
    sizes = []

    def statistic(weights):
        sizes.append(weights.nbytes)
        return weights[:, 0]

    cluster_bootstrap(statistic, np.arange(2000), draws=5000, seed=17)
    assert sum(sizes) == 5000 * 2000 * 8
    assert max(sizes) <= 32 * 2**20
    assert len(sizes) == 3


@pytest.mark.parametrize(
    "labels",
    [
        ["b", "a", "c"],
        [2.5, -1.0, 7.0],
        np.array(["2026-02-01", "2026-01-01", "2026-03-01"], dtype="datetime64[D]"),
        np.array(["b", "a", "c"], dtype=object),
    ],
)
def test_any_sortable_label_serves(labels):
    expected = recorded_weights([1, 0, 2], draws=20, seed=18)
    np.testing.assert_array_equal(recorded_weights(labels, draws=20, seed=18), expected)


# --- what the bootstrap refuses --------------------------------------------------------


@pytest.mark.parametrize(
    ("clusters", "strata"),
    [([1, 1, 1], None), (["a", "b", "c"], ["s", "s", "t"])],
)
def test_a_single_cluster_has_no_interval(clusters, strata):
    with pytest.raises(InputError, match="at least two clusters") as caught:
        cluster_bootstrap(mean_of(np.arange(3.0)), clusters, seed=0, strata=strata)
    assert "without an interval" in caught.value.fix


def test_a_cluster_in_two_strata_is_named():
    with pytest.raises(InputError, match="cluster b in several strata"):
        cluster_bootstrap(mean_of(np.arange(5.0)), list("aabbc"), seed=0, strata=[0, 0, 0, 1, 1])


@pytest.mark.parametrize(
    "options",
    [
        {"draws": 0},
        {"draws": 2.5},
        {"level": 0},
        {"level": 1.0},
        {"level": 95},
        {"level": np.nan},
        {"seed": -1},
        {"seed": None},
        {"strata": [0, 0]},
        {"clusters": []},
        {"clusters": [[0, 1], [2, 3]]},
        {"clusters": [0.0, 1.0, np.nan]},
        {"clusters": np.array(["a", None, "b"], dtype=object)},
    ],
    ids=str,
)
def test_bootstrap_refuses_bad_options(options):
    arguments = {"clusters": [0, 1, 2], "seed": 0, **options}
    with pytest.raises(InputError):
        cluster_bootstrap(mean_of(np.arange(3.0)), **arguments)


@pytest.mark.parametrize(
    ("statistic", "message"),
    [
        (lambda w: np.where(w[:, 0] == 0, np.nan, 1.0), "NaN or infinity"),
        (lambda w: np.where(w[:, 0] == 0, np.inf, 1.0), "NaN or infinity"),
        (lambda w: w, "one estimate per row"),
        (lambda w: w.mean(), "estimates for each row"),
        # Some draws take a single pair over and over.
        (lambda w: weighted_pearson([0.0, 1.0, 2.0], [0.0, 1.0, 1.0], w), "constant"),
    ],
)
def test_bootstrap_refuses_draws_without_an_estimate(statistic, message):
    with pytest.raises(InputError, match=message):
        cluster_bootstrap(statistic, [0, 1, 2], draws=200, seed=0)


def test_interval_checks_itself():
    assert Interval(1.0, 1.0).level == 0.95
    for low, high, level in ((2.0, 1.0, 0.95), (np.nan, 1.0, 0.95), (0.0, 1.0, 95.0)):
        with pytest.raises(InputError):
            Interval(low, high, level)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("freedom", [np.inf, 4.0])
def test_sums_of_squares_follow_chi_square_or_f(count, freedom):
    law = stats.chi2(count) if np.isinf(freedom) else stats.f(count, freedom)
    scale = 1 if np.isinf(freedom) else count
    total = np.array([0.3, 4.0, 60.0])
    np.testing.assert_allclose(
        squares_above(total, count, freedom), law.sf(total / scale), rtol=1e-9
    )
    np.testing.assert_allclose(
        squares_below(total, count, freedom), law.cdf(total / scale), rtol=1e-9
    )
    limit = squares_limit(0.95, count, freedom)
    assert limit == pytest.approx(scale * law.ppf(0.95), rel=1e-9)

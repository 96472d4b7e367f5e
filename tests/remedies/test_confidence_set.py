"""Confidence sets: coverage, closed forms, refinement, and what they say."""

import numpy as np
import pytest
from scipy.stats import norm

import twoaxis as ta
from twoaxis.remedies import calibrate, confidence_set

T = np.linspace(0.5, 1.5, 6)


def forward(k):
    return k * T


def best(values):
    """The matched estimate of k, for rows of data."""
    return values @ T / (T @ T)


def codes(found):
    return [message.code for message in found.messages]


class Biased:
    """An estimator whose answer is a known function of the matched one."""

    vectorized = True

    def __init__(self, distort):
        self.distort = distort
        self.calls = []

    def __call__(self, values, seeds):
        self.calls.append(len(values))
        assert len(seeds) == len(values)
        return self.distort(best(values))


LINEAR = {"k": ta.Parameter(bounds=(1.0, 5.0), coordinate="linear", scale=1.0)}
LOG = {"k": ta.Parameter(bounds=(1.0, 5.0))}
DISTORTIONS = {
    "shifted": lambda k: 1.3 * k - 0.4,
    "bent": lambda k: k + 0.08 * (k - 2) ** 2 * np.sign(k - 2),
    "shrunk": lambda k: 2.5 + 0.5 * np.tanh(0.9 * (k - 2.5)),
}


def covered(distort, truth, noise, trials, parameters=LINEAR, statistic="signed", replicas=59):
    """How many of independent calibrations and datasets hold the truth."""
    generator = np.random.default_rng(11)
    inside = 0
    for trial in range(trials):
        found = calibrate(
            Biased(distort), forward, parameters, noise, candidates=7, replicas=replicas,
            seed=[trial, 1],
        )  # fmt: skip
        scale = np.broadcast_to(noise, T.shape)
        data = forward(truth) + scale * generator.standard_normal(T.size)
        inside += found.confidence_set(data, statistic=statistic).contains(truth)
    return inside


@pytest.mark.parametrize(
    ("name", "trials"),
    [("bent", 100), *(pytest.param(name, 250, marks=pytest.mark.long) for name in DISTORTIONS)],
)
def test_sets_of_a_biased_pipeline_hold_an_off_grid_truth_as_often_as_they_say(name, trials):
    # 2.2 is no candidate: 1, 1.67, 2.33, ... Unequal noise makes the answers heteroscedastic.
    inside = covered(DISTORTIONS[name], 2.2, np.linspace(0.1, 0.6, 6), trials)
    assert abs(inside / trials - 0.9) < 4 * np.sqrt(0.09 / trials)


@pytest.mark.parametrize("trials", [60, pytest.param(200, marks=pytest.mark.long)])
def test_the_absolute_statistic_covers_too(trials):
    inside = covered(DISTORTIONS["shifted"], 2.6, 0.4, trials, LOG, "absolute")
    assert abs(inside / trials - 0.9) < 4 * np.sqrt(0.09 / trials)


def test_between_candidates_shared_draws_keep_the_rank_exact():
    # With an answer that is linear in the data, interpolated bounds are those of the candidate
    # itself: a calibration without it decides as one with it.
    noise, truth = 0.3, 2.2
    generator = np.random.default_rng(0)
    few = calibrate(Biased(DISTORTIONS["shifted"]), forward, LINEAR, noise, candidates=4)
    with_it = calibrate(
        Biased(DISTORTIONS["shifted"]), forward, LINEAR, noise, candidates=[1, 2, truth, 3, 5]
    )
    for _ in range(50):
        data = forward(truth) + 0.6 * generator.standard_normal(T.size)
        without = few.confidence_set(data)
        exact = with_it.confidence_set(data)
        assert without.interval[:2] == pytest.approx(exact.interval[:2], abs=1e-9)
        assert without.contains(truth) == (exact.candidates.loc[truth, "p_value"] > 0.1 + 1e-9)


def test_many_replicas_give_the_closed_form():
    # Answer = a k + b + a s z: the set is (answer - b)/a -+ 1.645 s, the correction its middle.
    a, b, noise = 1.3, -0.4, 0.3
    s = noise / np.sqrt(T @ T)
    found = calibrate(
        Biased(lambda k: a * k + b), forward, LINEAR, noise, candidates=5, replicas=4_999
    ).confidence_set(estimate=3.2)
    centre, reach = (3.2 - b) / a, norm.ppf(0.95) * s
    error = found.monte_carlo["standard_error"]
    assert found.corrected == pytest.approx(centre, abs=4 * error["corrected"])
    assert found.interval.low == pytest.approx(centre - reach, abs=4 * error["low"])
    assert found.interval.high == pytest.approx(centre + reach, abs=4 * error["high"])
    # Of a median and of a 5% quantile: sqrt(p (1 - p) / R) over the density there.
    assert error["corrected"] == pytest.approx(s * np.sqrt(np.pi / 2 / 4_999), rel=0.2)
    tail = s * np.sqrt(0.05 * 0.95 / 4_999) / norm.pdf(norm.ppf(0.05))
    assert error["low"] == pytest.approx(tail, rel=0.2)


def test_a_bias_moves_the_signed_set_and_widens_the_absolute_one():
    found = calibrate(Biased(lambda k: k + 1.0), forward, LINEAR, 0.2, candidates=9)
    signed = found.confidence_set(estimate=3.5)
    absolute = found.confidence_set(estimate=3.5, statistic="absolute")
    assert signed.contains(2.5)
    assert absolute.contains(2.5)
    assert not signed.contains(4.4)
    # |3.5 - q| <= 1 + spread: as far to the other side as the bias reaches.
    assert absolute.contains(4.4)
    assert absolute.width_percent > 3 * signed.width_percent


def test_a_pipeline_that_is_not_monotone_leaves_several_intervals():
    found = calibrate(
        Biased(lambda k: 1 + (k - 3) ** 2), forward, LINEAR, 0.05, candidates=41
    ).confidence_set(estimate=2.0)
    assert len(found.intervals) == 2
    assert found.contains(2.0)
    assert found.contains(4.0)
    assert not found.contains(3.0)
    assert found.corrected is None
    assert found.correction.crossings == pytest.approx((2.0, 4.0), abs=0.05)
    assert codes(found) == ["set.several_intervals", "set.ambiguous_correction"]
    assert not found.is_open


def test_a_set_at_the_end_of_the_grid_is_open_there_and_never_cut_off_in_silence():
    found = calibrate(Biased(lambda k: k), forward, LINEAR, 0.3, candidates=9)
    at_end = found.confidence_set(estimate=4.95)
    assert at_end.interval.open_high
    assert not at_end.interval.open_low
    assert "5 or beyond)" in repr(at_end)
    (message,) = (one for one in at_end.messages if one.code == "set.open_high")
    assert message.numbers == {"candidate": 5.0}
    beyond = found.confidence_set(estimate=9.0)
    assert beyond.intervals == ()
    assert beyond.corrected is None
    assert codes(beyond)[:2] == ["set.empty", "set.no_correction"]
    assert "above" in beyond.messages[0].text
    assert "empty" in repr(beyond)
    with pytest.raises(ta.InputError, match="an empty one"):
        _ = beyond.interval
    assert beyond.summary()["width_percent"].item() == 0.0


def test_only_tested_values_can_be_asked_about():
    found = calibrate(
        Biased(lambda k: k), forward, LINEAR, 0.3, candidates=9, interval=(2.0, 4.0)
    ).confidence_set(estimate=3.0)
    for value in (1.9, 4.1, "3", float("nan")):
        with pytest.raises(ta.InputError, match="tested range, 2 to 4"):
            found.contains(value)


@pytest.mark.parametrize("bounds", [(0.1, 7.3), (0.3, 2.9), (1.7, 23.0), (0.001, 0.03)])
def test_an_open_set_holds_both_ends_of_what_was_tested(bounds):
    known = {"k": ta.Parameter(bounds=bounds)}
    # Answers that scatter around 1 wherever the truth lies.
    found = calibrate(
        Biased(lambda k: 1 + 0.01 * np.sin(1e6 * k)), forward, known, 0.1, candidates=7, replicas=19
    ).confidence_set(estimate=1.0)
    assert found.interval == (*bounds, True, True)
    assert found.contains(bounds[0])
    assert found.contains(bounds[1])


def curved(values, _):
    """Answer with log g = l + 0.3 sin 3 l: its slope goes from 0.1 to 1.9."""
    return np.exp(values[:, 0] + 0.3 * np.sin(3 * values[:, 0]))


def curved_set(truth, seed, **options):
    data = np.log(truth) + 0.002 * np.random.default_rng([seed, 8]).standard_normal(1)
    return confidence_set(
        curved, lambda h: np.log([h]), {"h": ta.Parameter(bounds=(0.2, 5.0))}, 0.002, data,
        vectorized_pipeline=True, seed=[seed, 4], **options,
    )  # fmt: skip


@pytest.mark.parametrize("trials", [30, pytest.param(200, marks=pytest.mark.long)])
def test_a_bent_answer_with_little_noise_is_covered_by_default(trials):
    truths = np.exp(np.random.default_rng(3).uniform(np.log(0.3), np.log(3.5), trials))
    inside = sum(curved_set(truth, k).contains(truth) for k, truth in enumerate(truths))
    assert inside / len(truths) > 0.9 - 3 * np.sqrt(0.09 / len(truths))


class GridSearch:
    """Least squares over trial values that are `step` apart."""

    vectorized = True

    def __init__(self, step):
        self.trials = np.arange(0.0, 6.0, step)

    def __call__(self, values, seeds):
        del seeds
        distance = np.abs(best(values)[:, None] - self.trials)
        return self.trials[distance.argmin(axis=1)]


@pytest.mark.parametrize(
    ("step", "refine", "trials"),
    [
        (0.25, 0, 40),
        *(pytest.param(step, refine, 700, marks=pytest.mark.long)
          for step in (0.1, 0.25) for refine in (0, 4)),
    ],
)  # fmt: skip
def test_a_grid_search_is_covered_between_the_candidates(step, refine, trials):
    spread = 0.05  # of the estimate before it is rounded to the grid
    noise = spread * np.sqrt(T @ T)
    generator = np.random.default_rng(7)
    inside = 0
    for trial, truth in enumerate(generator.uniform(1.7, 4.3, trials)):
        data = forward(truth) + noise * generator.standard_normal(T.size)
        inside += confidence_set(
            GridSearch(step), forward, LINEAR, noise, data, refine=refine, seed=[trial, 3]
        ).contains(truth)
    assert inside / trials > 0.9 - 3 * np.sqrt(0.09 / trials)


def test_pieces_of_a_stepwise_answer_end_at_candidates_and_are_refined():
    data = forward(2.3)
    options = {"replicas": 39, "seed": 2}
    coarse, found = (
        confidence_set(GridSearch(0.4), forward, LINEAR, 0.1, data, refine=rounds, **options)
        for rounds in (0, 4)
    )
    for one in (coarse, found):
        assert np.isin(one.interval[:2], one.calibration.candidates).all()
        # Whatever is kept, is kept with all that lies between it and its neighbors.
        kept = one.candidates.index[one.candidates["kept"]]
        assert one.interval.low < kept[0]
        assert kept[-1] < one.interval.high
    assert found.width_percent < coarse.width_percent


def test_refinement_ends_where_edges_stand_still_and_else_says_so():
    found = curved_set(1.3, 0)
    assert found.data.attrs["rounds"] > 1
    coarse = curved_set(1.3, 0, refine=0)
    assert "set.coarse_edge" in codes(coarse)
    # A straight answer needs one round to see that nothing moves.
    data = forward(2.3)
    straight = confidence_set(
        Biased(DISTORTIONS["shifted"]), forward, LINEAR, 0.3, data, candidates=9, replicas=39
    )
    assert straight.data.attrs["rounds"] == 1
    assert "set.coarse_edge" not in codes(straight)


def test_crossings_in_separate_intervals_give_no_corrected_value():
    # Two truths next to each other: every piece between them holds something of the set.
    found = calibrate(
        Biased(lambda k: 1 + (k - 3) ** 2), forward, LINEAR, 0.01, candidates=[1, 2.5, 3.0, 3.5, 5]
    ).confidence_set(estimate=1.1)
    assert len(found.intervals) == 2
    assert found.corrected is None
    assert found.correction.message.code == "set.ambiguous_correction"


def test_everything_at_once_refines_the_edges_within_the_budget():
    generator = np.random.default_rng(4)
    noise = 0.05  # little against the bend, so that one round does not settle the edges
    data = forward(2.3) + noise * generator.standard_normal(T.size)
    options = {"candidates": 6, "replicas": 39, "seed": 5}
    distort = DISTORTIONS["bent"]
    pipeline = Biased(distort)
    found = confidence_set(pipeline, forward, LINEAR, noise, data, refine=2, **options)
    assert found.estimate == pytest.approx(distort(best(data)))
    # The observed data, the grid in one batch, then a batch for each round.
    assert pipeline.calls[:2] == [1, 6 * 39]
    assert len(pipeline.calls) == 4
    assert found.retrainings == sum(pipeline.calls)
    assert set(found.candidates["round"]) == {0, 1, 2}
    dense = calibrate(Biased(distort), forward, LINEAR, noise, candidates=201, replicas=39, seed=5)
    exact = dense.confidence_set(estimate=found.estimate).interval
    coarse = confidence_set(Biased(distort), forward, LINEAR, noise, data, refine=0, **options)
    error, before = (
        abs(one.interval.low - exact.low) + abs(one.interval.high - exact.high)
        for one in (found, coarse)
    )
    assert error < before / 3
    tight = Biased(distort)
    limited = confidence_set(
        tight, forward, LINEAR, noise, data, refine=5, budget=1 + 7 * 39 + 38, **options
    )
    assert limited.retrainings == sum(tight.calls) == 1 + 7 * 39
    assert "(budget: 312)" in repr(limited)
    with pytest.raises(ta.InputError, match="a budget of at least 235 runs"):
        confidence_set(tight, forward, LINEAR, noise, data, budget=234, **options)


def test_one_by_one_and_together_give_the_same_set():
    def alone(values, seed):
        assert isinstance(seed, int)
        value = 1.2 * best(values) + 1e-3 * np.random.default_rng(seed).normal()
        values[:] = 0  # a pipeline may spoil what it gets
        return {"k": value}

    def together(values, seeds):
        return {"k": [alone(row.copy(), int(seed))["k"] for row, seed in zip(values, seeds)]}  # noqa: B905

    data = forward(2.0) + 0.1
    one = confidence_set(alone, forward, LOG, 0.2, data, candidates=4, replicas=19)
    both = confidence_set(
        together, forward, LOG, 0.2, data, candidates=4, replicas=19, vectorized_pipeline=True
    )
    assert one.intervals == both.intervals
    assert one.estimate == both.estimate


def test_candidates_are_even_in_the_coordinate_and_share_noise_and_seeds():
    seen = []

    def pipeline(values, seeds):
        seen.append((values, seeds))
        return best(values)

    found = calibrate(
        pipeline,
        forward,
        LOG,
        np.linspace(0.1, 0.3, 6),
        candidates=5,
        replicas=19,
        vectorized_pipeline=True,
    )
    assert found.candidates == pytest.approx(np.geomspace(1, 5, 5))
    ((values, seeds),) = seen
    values = values.reshape(5, 19, 6) - forward(found.candidates[:, None, None])
    assert values == pytest.approx(np.broadcast_to(values[0], values.shape), abs=1e-12)
    assert values[0].std(axis=0) == pytest.approx(np.linspace(0.1, 0.3, 6), rel=0.6)
    assert (seeds.reshape(5, 19) == seeds[:19]).all()
    assert len(set(seeds.tolist())) == 19


def test_a_layout_and_correlated_noise_reach_the_pipeline():
    layout = [4, 1, 3]
    covariance = 0.04 * 0.8 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    seen = []

    def pipeline(values, _):
        seen.append(values)
        return values @ T[layout] / (T[layout] @ T[layout])

    found = calibrate(
        pipeline, forward, LOG, covariance, layout=layout, candidates=3, replicas=4000,
        vectorized_pipeline=True,
    )  # fmt: skip
    noise = seen[0].reshape(3, 4000, 3)[0] - forward(1.0)[layout]
    assert np.cov(noise.T) == pytest.approx(covariance[np.ix_(layout, layout)], abs=0.004)
    data = forward(2.0)
    whole = found.confidence_set(data)
    part = found.confidence_set(data[layout])
    assert whole.estimate == part.estimate == pytest.approx(2.0)


def test_the_calibration_says_what_the_pipeline_does_at_each_candidate():
    found = calibrate(Biased(lambda k: 1.1 * k), forward, LOG, 0.1, candidates=5, replicas=400)
    table = found.summary()
    assert table["bias_percent"].to_numpy() == pytest.approx(10.0, abs=2.0)
    spread = 100 * 0.1 / np.sqrt(T @ T) / found.candidates
    assert table["sd_percent"].to_numpy() == pytest.approx(spread, rel=0.2)
    assert "5 candidates, 400 replicas each, 2000 runs" in repr(found)


@pytest.mark.long
def test_the_monte_carlo_error_is_the_spread_between_calibrations():
    found = [
        calibrate(
            Biased(lambda k: k), forward, LINEAR, 0.3, candidates=5, replicas=99, seed=[seed, 2]
        ).confidence_set(estimate=3.0)
        for seed in range(120)
    ]
    errors = np.array([one.monte_carlo["standard_error"] for one in found[:40]]).mean(axis=0)
    values = [(one.interval.low, one.interval.high, one.corrected) for one in found]
    assert errors == pytest.approx(np.std(values, axis=0, ddof=1), rel=0.25)


def test_data_whose_order_is_not_known_are_refused():
    known = {"k": ta.Parameter(bounds=(0.2, 5.0))}
    backwards = np.arange(6)[::-1]
    with pytest.raises(ta.InputError, match="data whose order is known"):
        ta.confidence_set(
            Biased(lambda k: k), forward, known, 0.1, 1.2 * T, layout=backwards, progress=False
        )

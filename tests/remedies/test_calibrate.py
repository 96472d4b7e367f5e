"""Running a pipeline at every candidate: answers of all kinds, failures, unusable input."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.remedies import calibrate, confidence_set

K = {"k": ta.Parameter(bounds=(1.0, 5.0))}


def forward(k):
    return k * np.ones(4)


def codes(found):
    return [message.code for message in found.messages]


def run(pipeline, model=forward, parameters=K, noise=0.3, **options):
    given = {"candidates": 5, "replicas": 19, "progress": False, **options}
    return calibrate(pipeline, model, parameters, noise, **given)


def test_failures_are_counted_named_and_conservative():
    def sometimes(values, seed):
        if seed % 7 == 0:
            raise FloatingPointError("loss is NaN")
        return values.mean() if seed % 11 else float("nan")

    whole = run(lambda values, _: values.mean(), replicas=99)
    found = run(sometimes, replicas=99)
    assert found.failures > 10
    assert found.failures % 5 == 0  # the same seeds at every candidate
    (message,) = found.messages
    assert message.code == "calibration.failures"
    assert message.numbers == {"failures": found.failures, "runs": 5 * 99}
    assert message.text.split()[0] in repr(found)
    reasons = found.data["reason"].values
    assert {str(r) for r in reasons.ravel()} >= {
        "",
        "the pipeline raised FloatingPointError: loss is NaN",
        "k = nan is not finite",
    }
    assert (np.isnan(found.data["estimate"].values) == (reasons != "")).all()
    wide, narrow = (one.confidence_set(estimate=2.5) for one in (found, whole))
    assert wide.interval.low <= narrow.interval.low
    assert wide.interval.high >= narrow.interval.high
    assert wide.summary()["failures"].item() == found.failures


def test_a_run_that_says_it_did_not_finish_has_failed():
    class Diverged:
        finished = False
        status = "diverged at step 12"
        delivered = {"k": 2.0}  # noqa: RUF012

    def pipeline(values, seed):
        return Diverged() if seed % 2 else values.mean()

    found = run(pipeline)
    assert 0 < found.failures < 95
    assert "diverged at step 12" in found.data["reason"].values
    assert codes(found) == ["calibration.failures"]


def test_every_kind_of_answer_is_read():
    points = np.arange(3.0)

    def frozen(value):
        known = {"k": ta.Parameter(bounds=(0.1, 50.0), delivered=value)}
        return ta.FrozenResidual(lambda k: k * np.ones(3), known, points)

    class Run:
        def __init__(self, value):
            self.delivered = {"k": value}
            self.frozen = frozen(value)

    kinds = [float, np.float32, lambda v: np.array([v]), lambda v: {"k": v}, frozen, Run]
    expected = run(lambda values, _: values.mean()).data["estimate"].values
    for kind in kinds:
        found = run(lambda values, _, kind=kind: kind(values.mean()))
        assert found.data["estimate"].values == pytest.approx(expected, rel=1e-6)


def test_a_batch_of_answers_may_be_of_any_library():
    jnp, torch = pytest.importorskip("jax.numpy"), pytest.importorskip("torch")

    expected = run(lambda values, _: values.mean()).data["estimate"].values
    kinds = [
        lambda v: torch.tensor(v, requires_grad=True),
        lambda v: {"k": torch.tensor(v)},
        jnp.asarray,
        list,
    ]
    for kind in kinds:
        found = run(
            lambda values, _, kind=kind: kind(values.mean(axis=1)), vectorized_pipeline=True
        )
        assert found.data["estimate"].values == pytest.approx(expected, rel=1e-6)


def test_a_delivered_zero_needs_a_scale():
    known = {"k": ta.Parameter(bounds=(-2.0, 2.0), coordinate="linear")}
    with pytest.raises(ta.InputError, match="declare one, as in Parameter"):
        run(lambda values, _: values.mean(), parameters=known).confidence_set(estimate=0.0)


def test_a_negative_answer_is_a_failure_in_log_coordinates():
    found = run(lambda values, seed: values.mean() if seed % 2 else -1.0)
    assert "k = -1 is not positive" in found.messages[0].text


def test_parameters_that_cannot_be_simulated_are_left_out_by_name():
    def unstable(k):
        return forward(k) if k > 1.6 else np.full(4, np.nan)

    found = run(lambda values, _: values.mean(), unstable, candidates=9)
    assert found.candidates[0] > 1.6
    assert codes(found) == ["calibration.untested_below"]
    assert found.messages[0].numbers == {"candidates": 3, "end": found.candidates[0]}
    assert found.retrainings == 6 * 19
    low = confidence_set(
        lambda values, _: values.mean(), unstable, K, 0.3, estimate=1.9, candidates=9,
        replicas=19, refine=2,
    )  # fmt: skip
    assert low.interval.open_low
    assert "calibration.untested_below" in codes(low)
    assert "set.open_low" in codes(low)


def test_a_hole_between_candidates_counts_as_kept():
    def holed(k):
        if 2.0 < k < 2.5:
            raise RuntimeError("no convergence")
        return forward(k)

    parameters = {"k": ta.Parameter(bounds=(1.0, 5.0), start=4.0)}
    found = run(
        lambda values, _: values.mean(), holed, parameters, candidates=[1, 1.5, 2.2, 3, 4, 5]
    )
    assert codes(found) == ["calibration.untested_between"]
    assert found.messages[0].numbers == {"candidates": 1}
    assert found.confidence_set(estimate=4.5).contains(2.2)
    assert not found.confidence_set(estimate=4.5).contains(1.2)
    assert np.isnan(found.summary().loc[2.2, "sd_percent"])


def test_a_pipeline_that_fails_at_one_end_is_calibrated_at_the_others():
    def diverges(values, _):
        if values.mean() < 2.0:
            raise FloatingPointError("loss is NaN")
        return values.mean()

    whole = run(lambda values, _: values.mean(), noise=0.01, candidates=17)
    found = run(diverges, noise=0.01, candidates=17)
    low = found.candidates < 1.9
    assert low.sum() > 5  # more than the calls whose failure would be a defect
    assert np.isnan(found.data["estimate"].values[low]).all()
    high = found.candidates > 2.1
    same = found.data["estimate"].values[high] == whole.data["estimate"].values[high]
    assert same.all()
    assert "FloatingPointError" in found.messages[0].text


def test_the_order_of_the_calls_does_not_change_who_gets_which_answer():
    seen = []

    def alone(values, seed):
        seen.append(values.mean())
        return values.mean() + 1e-3 * (seed % 97)

    def together(values, seeds):
        return values.mean(axis=1) + 1e-3 * (seeds % 97)

    one = run(alone, noise=1e-3, candidates=9)
    both = run(together, noise=1e-3, candidates=9, vectorized_pipeline=True)
    assert one.data["estimate"].values == pytest.approx(both.data["estimate"].values, abs=1e-12)
    # The first calls reach over all candidates.
    assert seen[:5] == pytest.approx(one.candidates[::2], abs=0.01)


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("raises", [False, True])
def test_a_refinement_that_fails_everywhere_keeps_what_was_calibrated(vectorized, raises):
    grid = np.geomspace(1, 5, 5)

    def pipeline(values, _):
        means = np.atleast_1d(values.mean(axis=-1))
        between = (np.abs(means[:, None] - grid) > 0.1).all(axis=1)
        if raises and between.any():
            raise FloatingPointError("loss is NaN")
        found = np.where(between, np.nan, means)
        return found if vectorized else float(found[0])

    found = confidence_set(
        pipeline, forward, K, 0.01, estimate=2.3, candidates=5, replicas=19, refine=1,
        vectorized_pipeline=vectorized, progress=False,
    )  # fmt: skip
    assert found.contains(2.3)
    table = found.candidates
    assert (table.loc[table["round"] == 0, "failures"] == 0).all()
    assert (table.loc[table["round"] == 1, "failures"] == 19).all()
    assert (table["round"] == 1).sum() > 0
    assert "calibration.failures" in codes(found)


# ------------------------------------------------------------------ input that cannot be used


def refused(match, pipeline=lambda values, _: values.mean(), **options):
    with pytest.raises(ta.InputError, match=match):
        run(pipeline, **options)


def test_bad_input_is_refused_before_the_pipeline_runs():
    def never(_values, _seed):
        raise AssertionError("the pipeline must not run")

    two = {"a": ta.Parameter(bounds=(1, 2)), "b": ta.Parameter(bounds=(1, 2))}
    refused("one parameter of interest for a calibrated set", never, parameters=two)
    refused("function of observed values and a seed", 3)
    refused("two arguments, the observed values and a seed", lambda _: 1.0)
    refused("from 3 to 100000 candidates", never, candidates=2)
    refused("inside the bounds", never, candidates=[0.1, 2, 3])
    refused("at least 3 different candidates", never, candidates=[2, 2, 3])
    refused("real numbers", never, candidates=["a", "b", "c"])
    refused("interval as two numbers", never, interval=(3, 2))
    refused("interval as two numbers", never, interval=3)
    refused("interval inside the bounds", never, interval=(0.5, 2))
    refused("both an interval and the candidates", never, candidates=[1, 2, 3], interval=(1, 2))
    refused("replicas as an integer", never, replicas=1)
    refused("as the seed", never, seed=None)
    refused("as the seed", never, seed=-1)
    refused("as the seed", never, seed=[])
    refused("positive standard deviations", never, noise=0.0)
    refused("flat indices", never, layout=[True, False])
    refused("forward to work at the center", never, model=lambda k: 1 / (k - k))
    refused("fit in 4 GB", never, replicas=10**6, candidates=1000)
    for data, match in (
        (np.ones(3), "the shape"),
        (np.array([1, 2, np.nan, 3]), "finite observations"),
        (["a"] * 4, "real numbers"),
        (None, "neither"),
    ):
        with pytest.raises(ta.InputError, match=match):
            confidence_set(never, forward, K, 0.3, data)
    with pytest.raises(ta.InputError, match="both"):
        confidence_set(never, forward, K, 0.3, np.ones(4), estimate=2.0)
    with pytest.raises(ta.InputError, match="at least 39 replicas"):
        confidence_set(never, forward, K, 0.3, np.ones(4), level=0.95, replicas=38)
    for value in (-1.0, float("inf"), "2", True):
        with pytest.raises(ta.InputError, match="the estimate as a positive, finite number"):
            confidence_set(never, forward, K, 0.3, estimate=value)
    with pytest.raises(ta.InputError, match="refine as an integer"):
        confidence_set(never, forward, K, 0.3, estimate=2.0, refine=-1)


def test_a_pipeline_with_a_defect_is_named_at_once():
    calls = []

    def broken(_, seed):
        calls.append(seed)
        raise KeyError("nu")

    refused("KeyError: 'nu', and as much in each of the first 5 calls", broken)
    assert len(calls) == 5
    refused("95 failures, the first: k = nan", lambda *_: np.nan)
    refused("answers of the pipeline that give k", lambda *_: "2.0")
    refused("answers of the pipeline that give k", lambda *_: {"nu": 2.0})
    refused("answers of the pipeline that give k", lambda values, _: values)
    refused("95 answers of a vectorized pipeline", lambda *_: [1.0] * 3, vectorized_pipeline=True)
    refused("got float", lambda *_: 1.0, vectorized_pipeline=True)
    refused("ZeroDivisionError", lambda *_: 1 / 0, vectorized_pipeline=True)
    refused("at least two candidates", model=lambda k: forward(k) * (1 if k == 5 else np.nan),
            parameters={"k": ta.Parameter(bounds=(1.0, 5.0), delivered=5.0)})  # fmt: skip


def test_a_pipeline_whose_answers_do_not_depend_on_the_data_is_refused():
    """Also where they depend on the seed, or where some runs fail."""
    same = "depend on the data, got the same answers at all 5 candidates, such as k = "
    refused(same + "2", lambda *_: 2.0)
    refused(same + "2", lambda values, _: np.full(len(values), 2.0), vectorized_pipeline=True)
    refused(same, lambda _, seed: 1 + seed % 7)
    refused(same + "2", lambda values, _: np.nan if values.mean() > 4 else 2.0)
    refused(same + "5", lambda values, _: min(values.mean() + 100, 5.0))
    with pytest.raises(ta.InputError, match=same):
        confidence_set(lambda *_: 2.0, forward, K, 0.3, np.ones(4), candidates=5, replicas=19)
    # A pipeline that answers at one end alone with something else does depend on them.
    run(lambda values, _: 1.0 if values.mean() < 2 else 2.0)


def test_a_pipeline_that_fails_on_the_real_data_is_not_given_a_set():
    def pipeline(values, _):
        return np.nan if values[0] == 2.0 else values.mean()

    def raising(values, seed):
        return 1 / 0 if values[0] == 2.0 else pipeline(values, seed)

    for one in (pipeline, raising):
        with pytest.raises(ta.InputError, match="no candidate can be ruled out"):
            confidence_set(one, forward, K, 0.3, np.full(4, 2.0), progress=False)


def test_the_delivered_value_of_the_parameter_serves_as_estimate():
    known = {"k": ta.Parameter(bounds=(1.0, 5.0), delivered=2.5)}
    found = confidence_set(
        lambda values, _: values.mean(), forward, known, 0.3, candidates=5, replicas=19
    )
    assert found.estimate == 2.5
    assert found.contains(2.5)

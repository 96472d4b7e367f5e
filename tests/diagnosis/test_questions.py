"""The order of questions: every answer, every route, their order, and the level of the tests."""

import dataclasses
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import twoaxis as ta
from twoaxis import Route
from twoaxis.diagnosis.field_check import field_group, groups_of
from twoaxis.diagnosis.training_check import loss_fall, remaining_path
from twoaxis.resolution.misfit import check_residuals
from twoaxis.training_loss import probe

T = np.linspace(0.0, 3.0, 60)
NOISE = 0.02
TRUE = 1.0


def decay(k):
    return np.exp(-k * T)


def readings(seed=0, model=decay, k=TRUE):
    return model(k) + NOISE * np.random.default_rng(seed).standard_normal(len(T))


def field(delivered, preferred=None, **options):
    """A frozen field whose residual prefers one value; training returned another."""
    goal = delivered if preferred is None else preferred
    k = ta.Parameter(delivered=delivered, bounds=(0.2, 5.0))
    options = {"view": ta.views.Pointwise(), **options}
    return ta.FrozenResidual(
        lambda k: (k - goal) * decay(goal) + 1e-3 * np.cos(9 * T), {"k": k}, T, **options
    )


def audited(delivered=TRUE, data=None, tolerance=5.0, model=decay, **options):
    data = readings() if data is None else data
    k = {"k": ta.Parameter(delivered=delivered, bounds=(0.2, 5.0))}
    resolution = ta.resolve(model, k, NOISE, replicas=20, bank=61, progress=False)
    limits = {} if tolerance is None else {"tolerance": ta.Tolerance(*[tolerance] * 3)}
    preferred = options.pop("preferred", None)
    return ta.audit(
        field(delivered, preferred), resolution=resolution, data=data, **limits, **options
    )


def answers(audit):
    return {question.code: question.answer for question in audit.questions}


GOOD = {"model": "yes", "field": "yes", "noise": "yes", "contradiction": "yes"}


def test_all_is_well():
    found = audited(fitted=decay(TRUE), history=path(0.0))
    assert answers(found) == {**GOOD, "training": "yes"}
    assert found.route is Route.CONSISTENT_WITH_DATA
    assert found.severity == "good"
    low, high = (float(found.group("/matched")[n].item()) for n in ("lower", "upper"))
    assert low < TRUE < high


def test_nothing_to_ask_is_not_green():
    found = ta.audit(field(1.2), tolerance=ta.Tolerance(5, 5, 5))
    assert set(answers(found).values()) == {"not known"}
    assert found.route is Route.SELF_CONSISTENT
    assert found.severity == "neutral"


def test_a_refuted_value_is_contradicted_whatever_its_field_says():
    found = audited(1.2)
    assert answers(found)["contradiction"] == "no"
    assert found.route is Route.CONTRADICTED_BY_DATA
    assert found.severity == "bad"
    again = found.group("/resimulation")
    deviance = float(again["deviance"].sel(value_of="delivered"))
    # By hand: chi2 at the delivered value minus the smallest one.
    grid = np.linspace(0.9, 1.1, 20001)
    chi2 = [np.sum(((readings() - decay(k)) / NOISE) ** 2) for k in (1.2, *grid)]
    assert deviance == pytest.approx(chi2[0] - min(chi2[1:]), rel=1e-4)
    (question,) = [q for q in found.questions if q.code == "contradiction"]
    assert question.p_value == pytest.approx(stats.chi2.sf(deviance, 1), rel=1e-6)
    assert question.parameters == ("k",)
    assert "matched fit gives" in found.answer
    assert found.actions[0].kind == "contradiction"


def test_a_contradiction_that_does_not_matter_is_tolerated():
    found = audited(1.2, tolerance=40.0)
    assert answers(found)["contradiction"] == "yes"
    assert found.route is Route.WITHIN_TOLERANCE  # not consistent: the data tell it from the best
    assert found.severity == "good"
    off = 100 * (1.2 / float(found.group("/matched")["estimate"].item()) - 1)
    assert f"{off:.3g}% above the matched fit" in found.answer


def test_a_deviance_is_compared_with_its_quantile():
    (near,) = [q for q in audited(1.005).questions if q.code == "contradiction"]
    (far,) = [q for q in audited(1.2).questions if q.code == "contradiction"]
    assert near.measured < near.limit
    assert near.limit == far.limit < far.measured
    # One parameter, and five tests: four checks of the residuals, and this one.
    assert far.limit == pytest.approx(stats.chi2.isf(0.01 / 5, 1), rel=1e-9)


def two_rates(k, c):
    return np.concatenate([np.exp(-k * T), np.exp(-c * T)])


def test_of_two_parameters_the_contradicted_one_is_named():
    names = {"k": 1.2, "c": 1.003}
    known = {n: ta.Parameter(delivered=v, bounds=(0.2, 5.0)) for n, v in names.items()}
    frozen = ta.FrozenResidual(
        lambda k, c: two_rates(k, c) - two_rates(**names), known, np.r_[T, T], ta.views.Pointwise()
    )
    data = two_rates(TRUE, TRUE) + NOISE * np.random.default_rng(0).standard_normal(2 * len(T))
    resolution = ta.resolve(two_rates, known, NOISE, replicas=20, progress=False)
    found = ta.audit(frozen, resolution=resolution, data=data, tolerance=ta.Tolerance(5, 5, 5))
    assert found.routes == {"k": Route.CONTRADICTED_BY_DATA, "c": Route.WITHIN_TOLERANCE}
    assert found.route is Route.CONTRADICTED_BY_DATA
    # Within a smaller tolerance it is not, but inside of its own interval.
    close = ta.Tolerance(material=0.05, resolution=5, preference=5)
    found = ta.audit(frozen, resolution=resolution, data=data, tolerance=close)
    assert found.routes == {"k": Route.CONTRADICTED_BY_DATA, "c": Route.CONSISTENT_WITH_DATA}


@pytest.mark.parametrize("noisy", [True, False])
def test_values_that_only_their_sum_contradicts_are_not_contradicted_one_by_one(noisy):
    """The data determine k + c; the matched fit is one of many that are as good."""
    names = {"k": 0.7, "c": 0.35}  # each is possible, and their sum is 5% too large

    def sum_of_rates(k, c):
        return np.exp(-(k + c) * T)

    known = {n: ta.Parameter(delivered=v, bounds=(0.1, 2.0)) for n, v in names.items()}
    frozen = ta.FrozenResidual(
        lambda k, c: sum_of_rates(k, c) - sum_of_rates(**names), known, T, ta.views.Pointwise()
    )
    data = readings() if noisy else decay(TRUE)
    resolution = ta.resolve(sum_of_rates, known, NOISE, data=data, replicas=5, progress=False)
    wide = ta.audit(frozen, resolution=resolution, tolerance=ta.Tolerance(5, 5, 5))
    (question,) = [q for q in wide.questions if q.code == "contradiction"]
    assert question.measured > question.limit  # together they are outside
    assert question.answer == "yes"
    assert "do not determine" in question.reason
    assert wide.route is Route.IMPROVE_OBSERVATIONS
    close = ta.audit(frozen, resolution=resolution, tolerance=ta.Tolerance(1, 1, 1))
    assert answers(close)["contradiction"] == "no"  # 1% does not undo what is wrong with the sum


def test_parameters_that_are_contradicted_together_have_one_next_step():
    names = {"k": 1.2, "c": 1.3}
    known = {n: ta.Parameter(delivered=v, bounds=(0.2, 5.0)) for n, v in names.items()}
    frozen = ta.FrozenResidual(
        lambda k, c: two_rates(k, c) - two_rates(**names), known, np.r_[T, T], ta.views.Pointwise()
    )
    data = two_rates(TRUE, TRUE) + NOISE * np.random.default_rng(0).standard_normal(2 * len(T))
    resolution = ta.resolve(two_rates, known, NOISE, replicas=20, progress=False)
    found = ta.audit(frozen, resolution=resolution, data=data, tolerance=ta.Tolerance(5, 5, 5))
    assert set(found.routes.values()) == {Route.CONTRADICTED_BY_DATA}
    (action,) = found.actions
    assert action.kind == "contradiction"
    numbers = {each.label: each.value for each in action.numbers}
    matched = found.group("/matched")
    for name, delivered in names.items():
        assert numbers[f"delivered value of {name}"] == delivered
        estimate = float(matched["estimate"].sel(parameter=name))
        assert numbers[f"matched estimate of {name}"] == estimate
    p = float(found.group("/resimulation")["p_value"].sel(value_of="delivered"))
    assert action.numbers[-1].value == p
    assert action.numbers[-1].unit == "p-value"


def test_a_field_that_misses_the_data_because_training_was_stopped():
    stopped = audited(1.3, fitted=decay(TRUE) + 0.2, history=path(0.5))
    finished = audited(1.3, fitted=decay(TRUE) + 0.2, history=path(0.0))
    assert stopped.route is finished.route is Route.FIELD_DOES_NOT_FIT
    assert "training has not finished" in stopped.answer
    assert "training has not finished" not in finished.answer


def test_no_tolerance_is_needed_to_be_contradicted():
    assert audited(1.2, tolerance=None).route is Route.CONTRADICTED_BY_DATA


WRONG_MODELS = {
    "another law": (lambda k: 1 / (1 + k * T), "size"),
    "an offset": (lambda k: decay(k) + 0.1, "size"),
}


@pytest.mark.parametrize(("model", "check"), WRONG_MODELS.values(), ids=WRONG_MODELS)
def test_a_wrong_forward_model_comes_before_everything(model, check):
    data = readings(model=model)
    found = audited(1.2, data, fitted=decay(3.0))
    assert found.route is Route.MODEL_DOES_NOT_FIT
    assert answers(found)["field"] == "no"
    p = found.group("/checks").set_index(check="check")["p_value"].sel(check=check)
    assert float(p) < 1e-4


def test_a_matched_fit_on_a_bound_is_said_first():
    data = readings(k=2.0)
    k = {"k": ta.Parameter(delivered=1.0, bounds=(0.2, 1.0))}
    found = ta.audit(
        ta.FrozenResidual(lambda k: (k - 1.0) * decay(1.0), k, T, view=ta.views.Pointwise()),
        resolution=ta.resolve(decay, k, NOISE, replicas=20, progress=False),
        data=data,
    )
    assert found.route is Route.MODEL_DOES_NOT_FIT
    assert "the matched fit lies on the upper bound of k, 1" in found.answer
    assert "data.on_bound" in {message.code for message in found.messages}
    assert "data.on_bound" not in {message.code for message in audited().messages}


def test_one_bad_reading():
    data = readings()
    data[17] += 8 * NOISE
    found = audited(data=data)
    assert found.route is Route.MODEL_DOES_NOT_FIT
    assert "number 17" in found.reason


def test_a_field_that_misses_the_data():
    fitted = decay(TRUE) + 0.2
    found = audited(1.3, fitted=fitted, history=path(0.5))
    assert found.route is Route.FIELD_DOES_NOT_FIT
    z = (readings() - fitted) / NOISE
    assert float(found.group("/field_fit")["rms"]) == pytest.approx(np.sqrt(np.mean(z**2)))
    assert_allclose(found.group("/observations")["field_misfit"], z, atol=1e-12)


def test_a_field_that_misses_one_region_only():
    fitted = decay(TRUE)
    fitted[-8:] += 5 * NOISE
    found = audited(fitted=fitted)
    group = found.group("/field_fit")
    assert found.route is Route.FIELD_DOES_NOT_FIT
    assert int(group["group_rms"].values.argmax()) == group.sizes["group"] - 1


def test_a_field_that_follows_the_noise():
    found = audited(fitted=readings() - 0.1 * (readings() - decay(TRUE)))
    assert found.route is Route.FIELD_FITS_NOISE
    assert answers(found)["field"] == "yes"
    (question,) = [q for q in found.questions if q.code == "noise"]
    assert question.measured == pytest.approx(
        0.1 * np.std((readings() - decay(1)) / NOISE), rel=0.1
    )


def quiet_readings():
    """Data with a quarter of the noise that is declared."""
    return decay(TRUE) + 0.25 * (readings() - decay(TRUE))


def test_noise_that_is_declared_too_large_is_not_held_against_the_field():
    found = audited(data=quiet_readings(), fitted=decay(TRUE))
    assert answers(found) == {**GOOD, "training": "not known"}
    assert found.route is Route.CONSISTENT_WITH_DATA
    size = found.group("/checks").set_index(check="check")["statistic"].sel(check="size")
    (question,) = [q for q in found.questions if q.code == "noise"]
    rms = np.sqrt(np.mean((quiet_readings() - decay(TRUE)) ** 2)) / NOISE
    assert question.measured == pytest.approx(rms / float(size))
    assert f"declared {1 / float(size):.2g} times too large" in found.answer


def test_a_field_that_follows_noise_declared_too_large():
    data = quiet_readings()
    fitted = data - 0.1 * (data - decay(TRUE))
    found = audited(data=data, fitted=fitted)
    assert found.route is Route.FIELD_FITS_NOISE
    size = found.group("/checks").set_index(check="check")["statistic"].sel(check="size")
    mean = np.mean(((data - fitted) / NOISE / float(size)) ** 2)
    (question,) = [q for q in found.questions if q.code == "noise"]
    assert question.p_value == pytest.approx(stats.f.cdf(mean, 60, 59))


def path(left, steps=2000):
    """A recorded path that ends `left` before its goal, in the coordinate."""
    step = np.arange(0, steps + 1, 20)
    k = TRUE * np.exp(-left * np.exp(-(step - steps) / 1000))
    return {"step": step, "k": k, "loss": np.full(len(step), 0.1)}


def test_a_parameter_on_its_way():
    found = audited(float(np.exp(-0.4)), history=path(0.4))
    assert found.route is Route.TRAINING_NOT_FINISHED  # before the contradiction, which is there
    assert answers(found)["contradiction"] == "no"
    group = found.group("/training")
    assert float(group["remaining"].item()) == pytest.approx(0.4, rel=0.05)
    assert float(group["remaining_steps"].item()) == pytest.approx(1000 * np.log(10), rel=0.05)


def test_without_a_path_the_loss_tells():
    step = np.arange(200)
    falling = {"step": step, "loss": np.exp(-step / 100)}
    assert audited(history=falling).route is Route.TRAINING_NOT_FINISHED
    flat = audited(history={"step": step, "loss": np.full(200, 0.3)})
    assert answers(flat)["training"] == "not known"


@dataclasses.dataclass
class Quadratic:
    """A training loss with one weight and one parameter, minimal at ``goal``."""

    goal: float
    now: float
    names = ("k",)
    positions = {"k": 1}  # noqa: RUF012

    @property
    def start(self):
        return np.array([0.3, np.log(self.now)])

    def value_and_gradient(self, vector):
        off = vector - np.array([0.0, np.log(self.goal)])
        return float(off @ off), 2 * off

    def frozen(self, vector):
        return field(float(np.exp(vector[1])))


def test_a_probe_of_the_loss():
    k = {"k": ta.Parameter(delivered=1.2, bounds=(0.2, 5.0))}
    resolution = ta.resolve(decay, k, NOISE, replicas=5, bank=61, progress=False)
    frozen = field(1.2, objective=Quadratic(1.0, 1.2))
    found = ta.audit(frozen, resolution=resolution, data=readings())
    assert found.route is Route.TRAINING_NOT_FINISHED
    moved = float(found.group("/training")["probe_moved"].item())
    assert moved == pytest.approx(-np.log(1.2), abs=1e-6)
    assert ta.audit(frozen, probe=False).group("/training") is None
    # That a few steps change nothing bounds nothing.
    still = ta.audit(field(1.0, objective=Quadratic(1.0, 1.0)))
    assert answers(still)["training"] == "not known"
    with pytest.raises(ta.InputError, match="training loss"):
        ta.audit(field(1.0), probe=True)


class Winding(Quadratic):
    """A slow valley: L-BFGS needs some 2,800 iterations from k = 1/e to the minimum at k = e."""

    positions = {"k": 0}  # noqa: RUF012

    @property
    def start(self):
        return np.r_[-1.0, np.ones(6)]

    def value_and_gradient(self, vector):
        away, rest = vector[0] - 1, vector[1:] - 2 * vector[:-1] ** 2 + 1
        gradient = np.append(-8 * rest * vector[:-1], 0.0)
        gradient[1:] += 2 * rest
        gradient[0] += away / 2
        return float(away**2 / 4 + rest @ rest), gradient

    def frozen(self, vector):
        return field(float(np.exp(vector[0])))


def test_a_probe_that_moves_little_in_a_slow_valley_is_no_end():
    loss, delivered = Winding(np.e, 1 / np.e), 1 / np.e
    known = {"k": ta.Parameter(delivered=delivered, bounds=(0.2, 5.0))}
    frozen = field(delivered, objective=loss)
    resolution = ta.resolve(decay, known, NOISE, replicas=5, bank=61, progress=False)
    limits = ta.Tolerance(10, 10, 10)
    found = ta.audit(frozen, resolution=resolution, data=readings(k=delivered), tolerance=limits)
    (asked,) = [q for q in found.questions if q.code == "training"]
    assert (asked.answer, asked.route) == ("not known", None)
    # The probe moves less than its limit; as many iterations as ten more, hundreds of times that.
    moved = float(found.group("/training")["probe_moved"].item())
    assert asked.measured == pytest.approx(100 * np.expm1(moved), rel=1e-9)
    assert 3 < asked.measured < asked.limit == 5
    assert int(found.group("/training")["probe_iterations"]) == 50
    further = probe(loss, frozen, iterations=550).displacement["k"]
    assert 100 * np.expm1(further) > 100 * asked.limit
    # The other checks go on to their verdict.
    assert answers(found)["contradiction"] == "yes"
    assert found.route is Route.CONSISTENT_WITH_DATA


@pytest.mark.parametrize(("pause", "answer"), [(0.3, "not known"), (0.6, "yes")])
def test_a_pause_in_a_slow_valley_is_no_end(pause, answer):
    """What an optimizer moved in the last half of its steps, it may move again."""
    step = np.arange(1000.0)
    jumps = 0.5 * np.tanh((step - (1 - pause) * step[-1]) / 20)
    fluctuations = 1e-3 * np.random.default_rng(0).standard_normal(len(step))
    audit = audited(TRUE, history={"step": step, "k": TRUE * np.exp(jumps + fluctuations)})
    group = audit.group("/training")
    assert float(group["remaining"].item()) == 0  # no speed can be told from the fluctuations
    late = (jumps + fluctuations)[step >= step[-1] / 2]
    assert float(group["late_range"].item()) == pytest.approx(np.ptp(late))
    assert answers(audit)["training"] == answer
    assert audit.route is not Route.TRAINING_NOT_FINISHED


@pytest.mark.parametrize(
    ("count", "names", "needed"),
    [(12, {"k"}, 20), (12, {"k", "loss"}, 20), (30, {"loss"}, 40), (1, {"k"}, 20)],
)
def test_a_history_that_is_too_short_is_not_missing(count, names, needed):
    def asked(count):
        recorded = dict.fromkeys(names, np.full(count, TRUE))
        found = audited(TRUE, history={"step": np.arange(count), **recorded})
        (training,) = [q for q in found.questions if q.code == "training"]
        return found.group("/training"), training

    group, training = asked(count)
    assert training.answer == "not known"
    assert {str(count), str(needed)} <= set(re.findall(r"\d+", training.reason))
    assert int(group["records"].item()) == count * ("k" in names)
    assert int(group["loss_records"]) == count * ("loss" in names)
    assert np.isnan(group["traveled"].item()) == (count == 1 or "k" not in names)
    _, enough = asked(needed)  # what the reason asks for does
    assert "too few" not in enough.reason


def test_that_one_of_two_parameters_has_settled_does_not_finish_a_training():
    known = {n: ta.Parameter(delivered=1.0, bounds=(0.2, 5.0)) for n in ("k", "c")}
    frozen = ta.FrozenResidual(
        lambda k, c: two_rates(k, c) - two_rates(1.0, 1.0), known, np.r_[T, T], ta.views.Pointwise()
    )
    one = path(0.0)
    assert answers(ta.audit(frozen, history=one))["training"] == "not known"
    assert answers(ta.audit(frozen, history={**one, "c": one["k"]}))["training"] == "yes"


def test_a_parameter_that_is_recorded_less_often_than_the_loss():
    step = np.arange(0.0, 2001.0, 5)
    k = np.where(step % 20 == 0, TRUE * (1 + 0.1 * np.exp(-step / 100)), np.nan)
    found = audited(TRUE, history={"step": step, "k": k, "loss": np.full(len(step), 0.1)})
    assert answers(found)["training"] == "yes"
    assert int(found.group("/training")["records"].item()) == 101


def test_a_parameter_that_nothing_moves_has_not_arrived():
    still = {"step": np.arange(200.0), "k": np.full(200, 1.2)}
    prefers_another = audited(1.2, preferred=2.0, history=still)
    (asked,) = [q for q in prefers_another.questions if q.code == "training"]
    assert asked.answer == "not known"
    assert "k has not moved" in asked.reason
    assert "Has training finished? Not known" in str(prefers_another)
    # Where its field wants it, it may rest.
    assert (
        answers(audited(history={"step": np.arange(200.0), "k": np.ones(200)}))["training"] == "yes"
    )
    # One that moved, and then stopped elsewhere, has finished: that is a matter of delivery.
    step = np.arange(2000.0)
    stopped = {"step": step, "k": 1.2 + np.exp(-step / 50)}
    assert answers(audited(1.2, preferred=2.0, history=stopped))["training"] == "yes"


def test_a_probe_that_moves_nothing_is_no_arrival():
    frozen = field(1.2, 2.0, objective=Quadratic(1.2, 1.2))
    (asked,) = [q for q in ta.audit(frozen).questions if q.code == "training"]
    assert (asked.answer, asked.route) == ("not known", None)


@pytest.mark.parametrize(("goal", "away"), [(1.05, False), (3.0, True)])
def test_training_that_leads_away_from_the_data_is_not_continued(goal, away):
    k = {"k": ta.Parameter(delivered=1.4, bounds=(0.2, 5.0))}
    resolution = ta.resolve(decay, k, NOISE, replicas=5, bank=61, progress=False)
    frozen = field(1.4, objective=Quadratic(goal, 1.4))
    found = ta.audit(frozen, resolution=resolution, data=readings())
    assert found.route is Route.TRAINING_NOT_FINISHED
    assert (found.actions[0].title == "Change the loss before training on") is away
    assert ("Train longer" in found.next_step) is not away
    missed = ta.audit(frozen, resolution=resolution, data=readings(), fitted=decay(0.5))
    assert missed.route is Route.FIELD_DOES_NOT_FIT
    assert ("Or train longer" in missed.actions[0].text) is not away
    assert ("lead away from the matched fit" in missed.actions[0].text) is away


def test_what_stops_all_parameters_is_said_once():
    known = {n: ta.Parameter(delivered=v, bounds=(0.2, 5.0)) for n, v in (("k", 1.0), ("c", 2.0))}

    def frozen_residual(k, c):
        return (k - 1) * decay(1) + (c - 2) * decay(3) + 1e-3 * np.cos(9 * T)

    frozen = ta.FrozenResidual(frozen_residual, known, T, view=ta.views.Pointwise())
    rng = np.random.default_rng(0)
    data = two_rates(1.0, 2.0) + NOISE * rng.standard_normal(2 * len(T))
    resolution = ta.resolve(two_rates, known, NOISE, replicas=5, progress=False)
    found = ta.audit(frozen, resolution=resolution, data=data, fitted=data + 0.2)
    assert found.route is Route.FIELD_DOES_NOT_FIT
    stopped, better = found.answer.splitlines()
    assert stopped.count(found.route.value) == 1
    assert " are not to be trusted" in stopped
    assert better.startswith("The matched fit gives k = ")


def test_around_a_truth_the_map_speaks_and_the_questions_stand_beside_it():
    k = {"k": ta.Parameter(truth=TRUE, delivered=1.2, bounds=(0.2, 5.0))}
    resolution = ta.resolve(decay, k, NOISE, replicas=20, bank=61, progress=False)
    frozen = dataclasses.replace(field(1.2), parameters=k)
    found = ta.audit(
        frozen, resolution=resolution, data=readings(), tolerance=ta.Tolerance(5, 5, 5)
    )
    assert answers(found)["contradiction"] == "no"
    assert found.route is Route.STRENGTHEN_RESIDUAL_EVIDENCE
    assert "question.contradiction" in [m.code for m in found.messages]
    assert "20% above the truth" in found.answer
    assert "the learned field is the cause" in found.answer


def test_data_without_a_forward_model():
    options = dict(data=readings(), tolerance=ta.Tolerance(5, 5, 5))
    found = ta.audit(field(1.2), fitted=decay(1.0) + 0.2, noise=NOISE, **options)
    assert found.route is Route.FIELD_DOES_NOT_FIT
    without = ta.audit(field(1.2), fitted=decay(1.0), **options)
    assert "data.no_noise" in [m.code for m in without.messages]


class Slow(Quadratic):
    """A loss of many weights that takes many iterations; it counts its evaluations."""

    weights = 200_000
    calls = 0

    @property
    def start(self):
        return np.append(np.ones(self.weights), np.log(self.now))

    positions = {"k": 200_000}  # noqa: RUF012

    def value_and_gradient(self, vector):
        self.calls += 1
        stiff = np.logspace(-4, 2, len(vector))
        return float(stiff @ vector**2), 2 * stiff * vector


@pytest.mark.parametrize(("probe", "most"), [(None, 20), (30, 30)])
def test_a_probe_of_a_large_model_is_shorter(probe, most):
    loss = Slow(1.0, 1.2)
    ta.audit(field(1.2, objective=loss), probe=probe)
    # One check and one first evaluation; hardly any iteration of a quadratic takes two.
    assert most <= loss.calls <= 1.3 * most + 4


@pytest.mark.parametrize("length", [0, 59, 61])
def test_data_and_field_of_other_lengths(length):
    with pytest.raises(ta.InputError, match="60 observations"):
        audited(fitted=np.ones(length))


@pytest.mark.parametrize("noise", [NOISE, None])
def test_data_are_those_that_the_frozen_field_predicts(noise):
    frozen = field(1.0, fitted=decay(TRUE))
    for data in (readings()[1:], np.append(readings(), 0.0)):
        with pytest.raises(ta.InputError, match="60 observations"):
            ta.audit(frozen, data=data, noise=noise)
    found = ta.audit(frozen, data=readings()[1:], noise=NOISE, fitted=decay(TRUE)[1:])
    assert found.group("/field_fit") is not None


def gaps():
    data = readings()
    data[[3, 30]] = np.nan
    return data


def test_missing_readings_are_refused_or_dropped_and_counted():
    with pytest.raises(ta.InputError, match=r"(?s)finite observations.*2 "):
        audited(data=gaps(), fitted=decay(TRUE))
    found = audited(data=gaps(), fitted=decay(TRUE), missing="drop")
    (message,) = [m for m in found.messages if m.code == "data.dropped"]
    assert message.numbers == {"count": 2.0, "total": 60.0}
    kept = np.delete(np.arange(60), [3, 30])
    z = ((readings() - decay(TRUE)) / NOISE)[kept]
    assert_allclose(found.group("/observations")["field_misfit"], z, atol=1e-12)
    assert int(found.group("/resimulation").attrs["observations"]) == 58


def test_missing_readings_without_a_forward_model():
    options = dict(data=gaps(), fitted=decay(TRUE), noise=NOISE)
    found = ta.audit(field(1.0), missing="drop", **options)
    assert found.group("/observations").sizes["observation"] == 58
    with pytest.raises(ta.InputError, match="finite observations"):
        ta.audit(field(1.0), **options)


def test_a_saved_audit_is_asked_again(tmp_path):
    found = audited(1.2, fitted=decay(1.2), history=path(0.0))
    found.save(tmp_path / "audit.nc")
    back = ta.load(tmp_path / "audit.nc")
    assert answers(back) == answers(found)
    assert (back.answer, back.severity, back.about) == (found.answer, found.severity, found.about)


@pytest.mark.long
def test_the_level_holds_over_all_checks():
    """False alarms of 400 well-specified datasets stay below the declared level."""
    k = {"k": ta.Parameter(delivered=TRUE, bounds=(0.2, 5.0))}
    resolution = ta.resolve(decay, k, NOISE, replicas=5, bank=61, progress=False)
    alarms = 0
    for seed in range(400):
        data = readings(seed)
        found = ta.audit(
            field(TRUE),
            resolution=resolution,
            data=data,
            fitted=decay(TRUE),
            level=0.9,
            candidates=5,
            spectrum=False,
        )
        alarms += found.route in (
            Route.MODEL_DOES_NOT_FIT,
            Route.FIELD_DOES_NOT_FIT,
            Route.CONTRADICTED_BY_DATA,
            Route.FIELD_FITS_NOISE,
        )
    assert alarms <= 0.1 * 400
    assert alarms > 0  # a test that never alarms has no level at all


def test_grubbs_by_hand():
    rng = np.random.default_rng(1)
    z = rng.standard_normal(30)
    z[4] = 6.0
    (check,) = [
        c
        for c in check_residuals(3 * z, 1, np.arange(30.0)[:, None], noise_known=False)
        if c.name == "outliers"
    ]
    s = np.sqrt(z @ z / 29)
    largest = np.abs(z).max() / s
    t = largest * np.sqrt(28 / (29 - largest**2))
    assert check.statistic == pytest.approx(largest)
    assert check.p_value == pytest.approx(30 * 2 * stats.t.sf(t, 28))


def test_fields_of_a_system_are_told_apart():
    """Susceptible and infected on the same days: the network has missed one of them."""
    both = np.stack([decay(1.0), 1 - decay(1.0)], axis=1)
    data = both + NOISE * np.random.default_rng(0).standard_normal(both.shape)
    k = {"k": ta.Parameter(delivered=1.0, bounds=(0.2, 5.0))}
    model = lambda k: np.stack([decay(k), 1 - decay(k)], axis=1)  # noqa: E731
    frozen = field(1.0, fields=("S", "I"), axes=("t",))
    fitted = both + np.array([0.0, 5 * NOISE])
    resolution = ta.resolve(model, k, NOISE, replicas=5, bank=61, progress=False)
    for options in (dict(resolution=resolution), dict(noise=NOISE)):
        found = ta.audit(frozen, data=data, fitted=fitted, **options)
        group = found.group("/field_fit")
        names = group["group"].values.tolist()
        worst = group["group_rms"].values
        assert found.route is Route.FIELD_DOES_NOT_FIT
        assert worst[[n.startswith("S, ") for n in names]].max() < 2
        assert worst[[n.startswith("I, ") for n in names]].min() > 4
        observed = found.group("/observations")
        assert observed["observed_field"].values.tolist() == ["S", "I"]
        assert observed["field_of"].values.tolist() == [0, 1] * 60
        assert observed.sizes["axis"] == 1


@pytest.mark.parametrize("given", ["observed", "points"])
def test_observations_lie_where_somebody_said(given):
    """Two fields at twelve places (x, t): the frozen residual or the resolution knows them."""
    where = np.random.default_rng(5).random((12, 2))
    known = {"k": ta.Parameter(delivered=1.0, bounds=(0.2, 5.0))}

    def forward(k):
        return np.stack([np.exp(-k * where[:, 1]), k * where[:, 0]], axis=1)

    names = dict(axes=("x", "t"), fields=("u", "v"))
    frozen = ta.FrozenResidual(
        lambda k: (k - 1.0) * where[:, 0], known, where, ta.views.Pointwise(), **names,
        fitted=forward(1.0), observed=where if given == "observed" else None,
    )  # fmt: skip
    own = {"points": np.repeat(where, 2, axis=0)} if given == "points" else {}
    resolution = ta.resolve(forward, known, NOISE, replicas=2, bank=21, progress=False, **own)
    noise = NOISE * np.random.default_rng(6).standard_normal((12, 2))
    group = ta.audit(frozen, resolution=resolution, data=forward(1.0) + noise).group(
        "/observations"
    )
    assert group["axis"].values.tolist() == ["x", "t"]
    np.testing.assert_array_equal(group["points"].values, np.repeat(where, 2, axis=0))
    assert group["field_of"].values.tolist() == [0, 1] * 12


def test_sensors_are_told_apart():
    time, sensor = np.meshgrid(np.arange(20), np.arange(3), indexing="ij")
    points = np.column_stack([time.ravel(), sensor.ravel()]).astype(float)
    groups = groups_of(points, ["t", "sensor"])
    assert groups.names == ["sensor = 0", "sensor = 1", "sensor = 2"]
    misfit = np.where(points[:, 1] == 2, 3.0, 1.0)
    found = field_group(misfit, groups)
    assert_allclose(found["group_rms"], [1.0, 1.0, 3.0])
    assert_allclose(found["group_p"], stats.chi2.sf([20, 20, 180], 20))


@pytest.mark.parametrize("rate", [300.0, 1000.0, 2000.0])
def test_the_rest_of_an_exponential_path(rate):
    step = np.arange(0.0, 3001.0, 2)
    found = remaining_path(step, 2 - np.exp(-step / rate))
    assert found.remaining == pytest.approx(np.exp(-3000 / rate), rel=0.01)
    assert not found.steady


def test_nothing_is_extrapolated_beyond_one_more_training():
    step = np.arange(0.0, 3001.0, 2)
    found = remaining_path(step, 2 - np.exp(-step / 4000))
    assert found.steady
    speed = np.exp(-2700 / 4000) / 4000  # in the middle of the last window
    assert found.remaining == pytest.approx(3000 * speed, rel=0.01)


def test_paths_that_do_not_relax():
    step = np.arange(0.0, 1001.0, 10)
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(step))
    assert remaining_path(step, 1 + noise).remaining == 0
    steady = remaining_path(step, step / 1000)
    assert steady.steady
    assert steady.remaining == pytest.approx(1.0)
    assert np.isnan(remaining_path(step[:3], step[:3]).remaining)


def test_the_fall_of_a_loss():
    step = np.arange(0.0, 1001.0)
    assert loss_fall(step, np.exp(-step / 500)) == pytest.approx(1 - np.exp(-200 / 500), rel=0.02)
    assert loss_fall(step, np.full(1001, 3.0)) == 0


def test_too_few_data_for_a_test_leave_the_model_open():
    few = np.where(np.arange(len(T)) < 4, readings(), np.nan)
    k = {"k": ta.Parameter(delivered=1.0, bounds=(0.2, 5.0))}
    data = readings()[:4]
    resolution = ta.resolve(
        lambda k: decay(k)[:4], k, data=data, replicas=5, bank=61, progress=False
    )
    found = ta.audit(field(1.0), resolution=resolution, tolerance=ta.Tolerance(5, 5, 5))
    assert answers(found)["model"] == "not known"
    kept = audited(data=few, missing="drop")
    assert answers(kept)["model"] == "yes"  # the size of declared noise can always be checked


def test_a_history_of_one_of_two_parameters_counts():
    names = {"k": 1.0, "c": 1.0}
    known = {n: ta.Parameter(delivered=v, bounds=(0.2, 5.0)) for n, v in names.items()}
    frozen = ta.FrozenResidual(
        lambda k, c: two_rates(k, c) - two_rates(**names), known, np.r_[T, T], ta.views.Pointwise()
    )
    moving = ta.audit(frozen, history=path(0.3))
    assert answers(moving)["training"] == "no"
    assert np.isnan(moving.group("/history")["value"].sel(parameter="c")).all()


def test_a_history_that_ends_elsewhere_is_mentioned():
    def codes(end):
        steps = np.arange(100)
        found = ta.audit(field(1.2), history={"step": steps, "k": np.full(100, end)})
        return {m.code: m.numbers for m in found.messages}

    assert codes(1.8)["history.other_end"]["percent"] == pytest.approx(50.0)
    assert "history.other_end" not in codes(1.22)


@pytest.mark.parametrize("steps", [[3.0, 2.0, 1.0], [0.0, np.nan, 2.0]])
def test_history_steps_ascend(steps):
    with pytest.raises(ta.InputError, match="do not decrease"):
        ta.audit(field(1.2), history={"step": steps, "k": [1.2, 1.2, 1.2]})


def test_records_of_one_step_have_no_speed():
    step = np.r_[np.zeros(20), np.ones(20)]
    assert np.isnan(remaining_path(step, np.linspace(1, 2, 40)).remaining)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"about": "run 7"}, "about"),
        ({"notes": "look here"}, "notes"),
        ({"notes": 5}, "notes"),
        ({"noise": 0.1}, "no data"),
        ({"data": readings(), "noise": 0.1, "fitted": np.full(len(T), np.nan)}, "fitted"),
    ],
)
def test_arguments_of_a_wrong_kind(options, named):
    with pytest.raises(ta.InputError, match=named):
        ta.audit(field(1.2), **options)


def test_a_gap_of_a_nuisance_parameter_that_was_not_delivered_is_no_number():
    nuisance = ta.Parameter(start=1.0, bounds=(0.1, 9.0), nuisance=True)
    k = ta.Parameter(truth=1.0, delivered=1.2, bounds=(0.2, 5.0))
    frozen = ta.FrozenResidual(
        lambda a, k: (k - 1.2) * decay(1.2) + (a - 1.0) * T, {"a": nuisance, "k": k}, T
    )
    resolution = ta.resolve(decay, {"k": k}, NOISE, replicas=20, bank=61, progress=False)
    found = ta.audit(
        frozen,
        view=ta.views.Pointwise(),
        resolution=resolution,
        tolerance=ta.Tolerance(5, 5, 50),
    )
    assert found.route is Route.INSPECT_ENDPOINT_DELIVERY
    (small,) = [m for m in found.messages if m.code == "delivery.small_gap"]
    assert small.numbers["gap"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_noise_free_data_raise_no_alarm(declared, scale):
    data = scale * decay(TRUE)
    k = {"k": ta.Parameter(delivered=1.01, bounds=(0.2, 5.0))}
    noise = scale * NOISE if declared else None
    resolution = ta.resolve(
        lambda k: scale * decay(k), k, noise, data=data, replicas=20, bank=61, progress=False
    )
    codes = [message.code for message in resolution.messages]
    assert "data.noise_free" in codes
    assert not [code for code in codes if code.startswith("resolution.misfit")]
    assumed = resolution.live.noise.array[0]
    assert assumed == pytest.approx(noise if declared else 0.01 * data.std())
    found = ta.audit(
        field(1.01), resolution=resolution, fitted=scale * decay(1.01),
        tolerance=ta.Tolerance(5, 5, 5), history=path(0.0),
    )  # fmt: skip
    assert answers(found) == {**GOOD, "training": "yes"}
    assert np.isnan(found.group("/resimulation")["p_value"]).all()
    assert all(np.isnan(question.p_value) for question in found.questions)


def test_noise_free_data_still_tell_a_wrong_value_and_a_bad_fit():
    k = {"k": ta.Parameter(delivered=1.5, bounds=(0.2, 5.0))}
    resolution = ta.resolve(decay, k, data=decay(TRUE), replicas=20, bank=61, progress=False)
    found = ta.audit(
        field(1.5), resolution=resolution, fitted=decay(1.5), tolerance=ta.Tolerance(5, 5, 5)
    )
    rms = np.sqrt(np.mean((decay(1.5) - decay(TRUE)) ** 2)) / (0.01 * decay(TRUE).std())
    assert answers(found)["field"] == answers(found)["contradiction"] == "no"
    assert float(found.group("/field_fit")["rms"]) == pytest.approx(rms)
    fits = ta.audit(
        field(1.5), resolution=resolution, fitted=decay(TRUE), tolerance=ta.Tolerance(5, 5, 5)
    )
    assert fits.route is Route.CONTRADICTED_BY_DATA


def test_noise_free_data_do_not_agree_with_a_value_that_assumed_noise_would_hide():
    """At noise of 1, a value that is off by half could not be told: that is no agreement."""
    k = {"k": ta.Parameter(delivered=1.5, bounds=(0.2, 5.0))}
    resolution = ta.resolve(decay, k, 1.0, replicas=20, bank=61, progress=False)
    limits = ta.Tolerance(5, 5, 5)
    found = ta.audit(field(1.5), resolution=resolution, data=decay(TRUE), tolerance=limits)
    (asked,) = [q for q in found.questions if q.code == "contradiction"]
    assert (asked.answer, asked.route) == ("not known", None)
    assert "50%" in asked.reason
    assert found.route is Route.IMPROVE_OBSERVATIONS
    # Close to what the data determine it does agree.
    close = ta.audit(field(1.01), resolution=resolution, data=decay(TRUE), tolerance=limits)
    assert answers(close)["contradiction"] == "yes"


def test_noise_free_data_that_come_later():
    found = audited(1.02, data=decay(TRUE), fitted=decay(TRUE))
    assert [m.code for m in found.messages].count("data.noise_free") == 1
    assert answers(found)["noise"] == "yes"


def test_misfit_of_the_field_where_the_noise_is_not_known():
    found = ta.audit(field(1.2), data=decay(TRUE), fitted=decay(TRUE) + 0.1 * decay(TRUE).std())
    (message,) = [m for m in found.messages if m.code == "data.no_noise"]
    assert message.numbers["relative_misfit"] == pytest.approx(0.1)


def test_the_likelihood_does_not_reach_for_a_value_far_away():
    found = audited(4.9)
    group, matched = (found.group(f"/{n}").sel(parameter="k") for n in ("likelihood", "matched"))
    width = np.log(float(matched["upper"]) / float(matched["lower"]))
    reach = np.log(group["value"].values.max() / float(matched["estimate"]))
    assert reach == pytest.approx(10 * width, rel=1e-6)
    assert reach < np.log(4.9 / TRUE)
    near = audited(1.1).group("/likelihood").sel(parameter="k")
    assert near["value"].values.max() == pytest.approx(1.1, rel=0.02)


def test_a_field_that_misses_the_data_takes_no_refits_far_away():
    def growth(r, K, y):
        return K / (1 + (K / y - 1) * np.exp(-r * 10 * T))

    true = {"r": 0.8, "K": 10.0, "y": 1.0}
    data = growth(**true) + 0.2 * np.random.default_rng(0).standard_normal(len(T))
    runs, likelihoods = [], []
    for far in (1.02, 3.0):
        value = {"r": 0.8 * far, "K": 10.0 / far, "y": 1.0}
        unknown = {
            name: ta.Parameter(bounds=(v / 10, v * 10), delivered=value[name])
            for name, v in true.items()
        }
        known = ta.resolve(growth, unknown, 0.2, data=data, at=true, replicas=20, progress=False)
        frozen = ta.FrozenResidual(
            lambda r, K, y, v=value: (r - v["r"]) * T + (K - v["K"]) + (y - 1) * np.cos(T),
            unknown,
            T,
            view=ta.views.Pointwise(),
        )
        before = known.live.setup.model.runs
        found = ta.audit(frozen, resolution=known, fitted=growth(**value))
        runs.append(known.live.setup.model.runs - before)
        likelihoods.append(found.group("/likelihood")["deviance"].values)
        assert answers(found)["field"] == ("yes" if far < 2 else "no")
    assert runs[1] < 1.2 * runs[0]
    assert np.isfinite(likelihoods).all()

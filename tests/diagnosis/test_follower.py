"""Following a model while it trains: the numbers, the budget, the verdict and what may go wrong."""

import contextlib
import dataclasses
import math
import os
import subprocess
import sys
import types

import numpy as np
import pandas as pd
import pytest

import twoaxis as ta
from twoaxis.diagnosis import follower as module
from twoaxis.diagnosis.follow import full_row, quick_row
from twoaxis.diagnosis.history import history_group
from twoaxis.diagnosis.sinks import LiveLine, sink_of

QUIET = {"progress": False, "max_share": 1.0}


class Training:
    """A made-up training: the field prefers one path of rates, the parameter follows another."""

    def __init__(self, made, preferred, value, truth=1.0, **options):
        self.made, self.options = made, {"truth": truth, **options}
        self.preferred, self.value, self.step = preferred, value, 0

    def freeze(self):
        rate, value = self.preferred(self.step), self.value(self.step)
        return self.made.heat_field(rate, value, **self.options)

    def follow(self, follower, steps):
        """Return the step at which the follower finished, or None."""
        for self.step in range(steps):
            if follower(self.step):
                return self.step
        return None


def relaxing(speed, end=1.3, far=0.5):
    return lambda step: end + far * math.exp(-speed * step)


# ------------------------------------------------------------------ the numbers


def test_the_numbers_are_those_of_score_and_scan(made):
    training = Training(made, relaxing(0.002), lambda step: 1.0 + 0.001 * step)
    follower = ta.Follower(training.freeze, every=100, **QUIET)
    training.follow(follower, 301)
    kept = []
    for training.step in (0, 100, 200, 300):
        kept.append((training.step, training.freeze()))
    found, expected = follower.result.data, ta.follow(kept).data
    assert found["step"].values.tolist() == [0, 100, 200, 300]
    # Derivatives are differences here, accurate to the square of their step, 1e-3.
    for name in ("value", "preferred", "displacement", "preference", "gap", "strength"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)
    last = ta.score(kept[-1][1])
    assert found["alignment"].values[-1, 0] == pytest.approx(last.alignment, rel=1e-9)
    assert found["residual_norm"].values[-1] == pytest.approx(last.residual_norm, rel=1e-9)
    assert follower.result.center.kind == "truth"


def nonlinear(value):
    x = np.linspace(0, 1, 60)
    known = {
        "a": ta.Parameter(delivered=value, bounds=(0.2, 5.0)),
        "b": ta.Parameter(delivered=0.3, bounds=(-2.0, 2.0), coordinate="linear"),
    }
    return ta.FrozenResidual(
        lambda a, b: (
            np.exp(-a * x) + b * x**2 - np.exp(-1.7 * x) - 0.4 * x**2 + 1e-3 * np.cos(9 * x)
        ),
        known,
        x,
        view=ta.views.Pointwise(),
    )


@pytest.mark.parametrize("value", [1.0, 2.5])
def test_a_local_search_finds_the_minimum_of_a_scan(value):
    frozen = nonlinear(value)
    center = frozen.known.center()
    full, affine = full_row(0, frozen, None, center)
    quick = quick_row(0, frozen, None, center, affine)
    assert not affine
    assert quick.status == full.status == "interior"
    np.testing.assert_allclose(quick.preferred, full.preferred, rtol=1e-5)


def test_two_parameters_at_once(made):
    frozen = made.wave_field(1.2, 0.8, (1.0, 1.0), truth=None)
    quick = quick_row(0, frozen, None, frozen.known.center(), affine=True)
    np.testing.assert_allclose(quick.preferred, [1.2, 0.8], rtol=1e-6)  # by differences


def test_no_value_is_preferred_outside_of_the_bounds_or_by_a_flat_profile(made):
    outside = made.heat_field(9.0, 1.0)
    found = quick_row(0, outside, None, outside.known.center(), affine=True)
    assert found.status == "on the upper bound of k"
    assert np.isnan(found.preferred).all()
    flat = dataclasses.replace(outside, residual=lambda k: np.ones(400) + 0 * k)
    found = quick_row(0, flat, None, flat.known.center(), affine=True)
    assert found.status.startswith("flat")
    assert np.isnan(found.preferred).all()


def test_distances_in_standard_errors_and_data_in_noise_levels(made):
    x, t = made.SITES.T
    noise = made.TIGHT
    data = np.exp(-t) * np.sin(x) + noise
    resolution = made.heat_resolution(noise)
    options = {"fitted": np.exp(-t) * np.sin(x), "data": data}
    training = Training(made, lambda _: 1.1, lambda _: 1.2, **options)
    follower = ta.Follower(training.freeze, every=1, resolution=resolution, **QUIET)
    training.follow(follower, 1)
    row = follower.summary().iloc[0]
    error = float(resolution.data["fisher_sd_percent"].values[0, 0]) / 100
    assert row["gap_se"] == pytest.approx(np.log(1.2 / 1.1) / error, rel=5e-3)
    assert row["displacement_se"] == pytest.approx(row["displacement"] / error)
    assert row["data_misfit"] == pytest.approx(1.0)


def test_without_a_truth_each_step_is_measured_around_its_own_value(made):
    training = Training(made, lambda _: 1.3, lambda step: 1.0 + 0.1 * step, truth=None)
    follower = ta.Follower(training.freeze, every=1, **QUIET)
    training.follow(follower, 3)
    data = follower.result.data
    assert follower.result.center.values == {"k": pytest.approx(1.2)}
    # D of an affine residual is (preferred - value) / value, in the logarithm.
    np.testing.assert_allclose(
        data["displacement"].values[:, 0], 1.3 / data["value"].values[:, 0] - 1, atol=5e-3
    )


def test_the_state_of_a_training_may_be_passed_along(made):
    follower = ta.Follower(lambda rate, value: made.heat_field(rate, value), every=10, **QUIET)
    for step in range(21):
        follower(step, 1.3, 1.0 + step / 100)
    assert [row.step for row in follower.rows] == [0, 10, 20]
    assert follower.measure(25, 1.3, 1.25).value.tolist() == [1.25]
    assert follower.measure(25, 1.3, 9.9).value.tolist() == [1.25]  # measured already


# ------------------------------------------------------------------ has it settled?


@pytest.mark.parametrize("steps", [None, 2000, 50_000])
def test_a_parameter_that_relaxes_is_finished_where_it_has_settled(made, steps):
    path = relaxing(0.01)
    training = Training(made, path, path, truth=None)
    follower = ta.Follower(
        training.freeze, every=20, steps=steps, tolerance=made.TOLERANCE, patience=3, **QUIET
    )
    assert not follower.finished
    stopped = training.follow(follower, 5000)
    assert follower.finished
    assert follower.state.code == "follower.settled"

    def ahead(step):
        """Movement in the last half of the steps, once for every doubling that is left."""
        doublings = 3 if steps is None else max(1, math.log2(steps / step))
        return doublings * math.log(path(step / 2) / path(step))

    # A twentieth of 5%; two more measurements for the patience.
    assert ahead(stopped) < 0.0025
    assert ahead(stopped - 80) > 0.0025
    assert follower.state.numbers["ahead"] == pytest.approx(ahead(stopped) / 0.05, rel=0.2)
    assert abs(path(stopped) / path(10**6) - 1) < 0.0025


def test_a_field_that_rests_without_fitting_the_data_is_not_finished(made):
    """No path tells a plateau from an end; the data may."""
    x, t = made.SITES.T
    path = relaxing(0.05)
    training = Training(made, path, path, truth=None)
    resting = training.freeze
    for offset, code in ((0.5, "follower.settled"), (2.0, "follower.not_fitted")):
        data = np.exp(-t) * np.sin(x)
        training.freeze = lambda data=data: dataclasses.replace(
            resting(), data=data, fitted=data, observed=made.SITES
        )
        follower = ta.Follower(
            training.freeze, every=20, data=data + 0.1 * offset, noise=0.1,
            tolerance=made.TOLERANCE, **QUIET,
        )  # fmt: skip
        training.follow(follower, 2000)
        assert follower.state.code == code
        assert follower.finished == (code == "follower.settled")
        assert follower.state.numbers["data_misfit"] == pytest.approx(offset)


def test_a_parameter_that_slows_down_without_end_is_never_finished(made):
    def path(step):
        return 1.0 + 0.1 * math.log1p(step)

    training = Training(made, path, path, truth=None)
    follower = ta.Follower(training.freeze, every=20, tolerance=made.TOLERANCE, **QUIET)
    assert training.follow(follower, 2000) is None
    assert follower.state.code == "follower.moving"
    assert follower.state.numbers["moved"] > 0.1


def test_a_field_that_fits_the_data_and_still_moves_is_said_to_follow_noise(made):
    x, t = made.SITES.T
    fitted = np.exp(-t) * np.sin(x)
    options = {"fitted": fitted, "data": fitted + made.TIGHT}
    training = Training(made, lambda s: 1 + s / 300, lambda s: 1 + s / 300, truth=None, **options)
    follower = ta.Follower(
        training.freeze, every=20, tolerance=made.TOLERANCE, noise=made.TIGHT, **QUIET
    )
    training.follow(follower, 400)
    assert follower.state.code == "follower.overfitting"
    assert follower.state.numbers["data_misfit"] == pytest.approx(1.0)


def test_a_parameter_that_rests_away_from_its_field_is_not_finished(made):
    training = Training(made, lambda _: 1.5, lambda _: 1.0, truth=None)
    follower = ta.Follower(training.freeze, every=20, tolerance=made.TOLERANCE, **QUIET)
    assert training.follow(follower, 1000) is None
    assert follower.state.code == "follower.not_trained"


def test_without_a_unit_nothing_is_said_to_have_settled(made):
    training = Training(made, lambda _: 1.3, lambda _: 1.3)
    follower = ta.Follower(training.freeze, every=10, **QUIET)
    assert training.follow(follower, 300) is None
    assert follower.state.code == "follower.no_unit"


# ------------------------------------------------------------------ what it costs


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves when a test says so."""

    class Clock:
        now = 0.0

        def perf_counter(self):
            return self.now

    found = Clock()
    monkeypatch.setattr(module, "time", found)
    return found


@pytest.mark.parametrize("share", [0.02, 0.2])
def test_a_dear_measurement_comes_less_often(made, clock, share):
    def freeze():
        clock.now += 1.0
        return made.heat_field(1.3, 1.2)

    follower = ta.Follower(freeze, every=100, max_share=share, progress=False)
    for step in range(100_000):
        clock.now += 0.005
        follower(step)
    assert 0.8 * share < follower.share <= share
    assert "follower.lengthened" in [message.code for message in follower.messages]
    # A second for every share of a second, in steps of 5 ms.
    spacing = np.diff([row.step for row in follower.rows])
    assert spacing[5:].min() >= (1 / share - 1) / 0.005 - 1


def test_a_cheap_measurement_comes_as_often_as_asked(made, clock):
    training = Training(made, lambda _: 1.3, lambda _: 1.2)
    follower = ta.Follower(training.freeze, every=100, progress=False)
    for training.step in range(1001):
        clock.now += 0.005
        follower(training.step)
    assert [row.step for row in follower.rows] == list(range(0, 1001, 100))
    assert follower.messages == []


# ------------------------------------------------------------------ what may go wrong


def test_a_parameter_that_becomes_nan_is_recorded_and_the_loop_goes_on(made):
    training = Training(made, lambda _: 1.3, lambda step: math.nan if 4 <= step < 8 else 1.2)
    follower = ta.Follower(training.freeze, every=1, **QUIET)
    with pytest.warns(UserWarning, match="step 4 was not measured") as seen:
        training.follow(follower, 12)
    assert len(seen) == 1
    assert [message.code for message in follower.messages] == ["follower.not_finite"]
    data = follower.result.data
    assert np.flatnonzero(np.isnan(data["value"].values[:, 0])).tolist() == [4, 5, 6, 7]
    assert data["status"].values[4] == "parameter or field not finite"
    assert data["status"].values[8] == "interior"


def test_a_training_that_ends_in_nan_keeps_its_measurements(made, tmp_path):
    training = Training(made, lambda _: 1.3, lambda step: math.nan if step >= 3 else 1.2)
    follower = ta.Follower(training.freeze, every=1, tolerance=made.TOLERANCE, **QUIET)
    with pytest.warns(UserWarning, match="not measured"):
        training.follow(follower, 6)
    assert follower.state.code == "follower.not_measured"
    loaded = ta.load(follower.save(tmp_path / "followed.nc"))
    assert loaded.center.values == {"k": 1.0}
    assert loaded.data["status"].values[-1] == "parameter or field not finite"


def test_an_exception_is_said_once(made):
    calls = []

    def freeze():
        calls.append(len(calls))
        if len(calls) > 2:
            raise RuntimeError("the model is gone")
        return made.heat_field(1.3, 1.2)

    follower = ta.Follower(freeze, every=1, **QUIET)
    with pytest.warns(UserWarning, match="the model is gone") as seen:
        [follower(step) for step in range(5)]
    assert len(seen) == 1
    assert [message.code for message in follower.messages] == ["follower.failed"]
    assert len(follower.rows) == 5


def test_a_follower_that_never_measured_anything_has_no_result():
    follower = ta.Follower(lambda state: state, every=1, **QUIET)
    with pytest.raises(ta.InputError, match="no call so far"):
        follower.result  # noqa: B018
    with pytest.warns(UserWarning, match="FrozenResidual"):
        follower(0, "no model")
    with pytest.raises(ta.InputError, match="FrozenResidual"):
        follower.summary()
    assert "1 measurements" in repr(follower)


def heat(made):
    return made.heat_field(1.3, 1.2)


BAD = {
    "no function": (lambda _: (None, {}), "function that freezes"),
    "a frozen residual": (lambda made: (heat(made), {}), "FrozenResidual"),
    "nothing frozen": (lambda _: (lambda: 3, {}), "return a twoaxis.FrozenResidual"),
    "no delivered value": (
        lambda made: (lambda: made.heat_field(1.3, None), {}),
        "delivered value for every parameter",
    ),
    "no steps": (lambda made: (lambda: heat(made), {"every": 0}), "every"),
    "no patience": (lambda made: (lambda: heat(made), {"patience": 0}), "patience"),
    "no drift": (lambda made: (lambda: heat(made), {"drift": -1.0}), "drift"),
    "all of the time": (lambda made: (lambda: heat(made), {"max_share": 1.5}), "max_share"),
    "a number as tolerance": (lambda made: (lambda: heat(made), {"tolerance": 5}), "Tolerance"),
    "a text as sink": (lambda made: (lambda: heat(made), {"sinks": ["runs"]}), "SummaryWriter"),
    "another resolution": (
        lambda made: (
            lambda: heat(made),
            {"resolution": made.heat_resolution(made.TIGHT, name="d")},
        ),
        "parameters k",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_input_ends_at_the_door(made, arguments, message):
    freeze, options = arguments(made)
    with pytest.raises(ta.InputError, match=message):
        ta.Follower(freeze, **{**QUIET, **options})


# ------------------------------------------------------------------ where the numbers go


class Scalars:
    def __init__(self):
        self.seen = []

    def add_scalar(self, name, value, step):
        self.seen.append((name, value, step))


class Metrics:
    def __init__(self):
        self.seen = []

    def log_metrics(self, metrics, step):
        self.seen += [(name, value, step) for name, value in metrics.items()]


class OwnSteps:
    def __init__(self):
        self.seen, self.declared = [], []

    def define_metric(self, name, step_metric=None):
        self.declared.append((name, step_metric))

    def log(self, numbers):
        step = numbers["twoaxis/step"]
        self.seen += [(n, v, step) for n, v in numbers.items() if n != "twoaxis/step"]


def test_every_logger_gets_the_same_numbers(made):
    plain, targets = [], [Scalars(), Metrics(), OwnSteps()]

    def sink(step, numbers):
        plain.extend((name, value, step) for name, value in numbers.items())

    training = Training(made, lambda _: 1.3, lambda step: 1.2 + 0.001 * step)
    follower = ta.Follower(training.freeze, every=10, sinks=[*targets, sink], **QUIET)
    training.follow(follower, 21)
    assert all(target.seen == plain for target in targets)
    assert targets[2].declared == [("twoaxis/step", None), ("twoaxis/*", "twoaxis/step")]
    numbers = {(name, step): value for name, value, step in plain}
    assert numbers["twoaxis/k/value", 20] == pytest.approx(1.22)
    gap = follower.result.data["gap"].values[:, 0]
    assert [numbers["twoaxis/k/gap", step] for step in (0, 10, 20)] == pytest.approx(gap.tolist())


def test_a_logger_that_fails_does_not_end_a_training(made):
    def broken(*_):
        raise OSError("disk full")

    training = Training(made, lambda _: 1.3, lambda _: 1.2)
    follower = ta.Follower(training.freeze, every=1, sinks=[broken], **QUIET)
    with pytest.warns(UserWarning, match="disk full") as seen:
        training.follow(follower, 5)
    assert len(seen) == 1
    assert len(follower.rows) == 5


def test_tensorboard_reads_what_was_written(made, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    writer = pytest.importorskip("torch.utils.tensorboard").SummaryWriter(str(tmp_path))
    training = Training(made, lambda _: 1.3, lambda step: 1.2 + 0.001 * step)
    follower = ta.Follower(training.freeze, every=10, sinks=[writer], **QUIET)
    training.follow(follower, 21)
    writer.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    found = [(each.step, each.value) for each in events.Scalars("twoaxis/k/value")]
    assert found == [(0, pytest.approx(1.2)), (10, pytest.approx(1.21)), (20, pytest.approx(1.22))]


def test_mlflow_reads_what_was_logged(made, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the other store needs SQLAlchemy
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    training = Training(made, lambda _: 1.3, lambda step: 1.2 + 0.001 * step)
    with mlflow.start_run() as run:
        follower = ta.Follower(training.freeze, every=10, sinks=[mlflow], **QUIET)
        training.follow(follower, 21)
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "twoaxis/k/value")
    found = sorted((each.step, each.value) for each in history)
    assert found == [(0, pytest.approx(1.2)), (10, pytest.approx(1.21)), (20, pytest.approx(1.22))]


def test_a_line_shows_the_last_measurement(made, capsys):
    training = Training(made, lambda _: 1.3, lambda _: 1.2)
    follower = ta.Follower(training.freeze, every=1, max_share=1.0)
    training.follow(follower, 50)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1  # no terminal: a line now and then
    assert "k = 1.2" in lines[0]


# ------------------------------------------------------------------ as a result and a history


def test_a_follower_is_saved_drawn_and_audited(made, tmp_path):
    training = Training(made, relaxing(0.01), relaxing(0.01))
    follower = ta.Follower(training.freeze, every=50, tolerance=made.TOLERANCE, **QUIET)
    training.follow(follower, 400)
    loaded = ta.load(follower.save(tmp_path / "followed.nc"))
    pd.testing.assert_frame_equal(loaded.summary(), follower.summary())
    assert [m.code for m in loaded.messages] == [follower.state.code]
    assert loaded.data["time_share"] == follower.share
    assert follower.plot(quantity="gap").get_xlabel() == "training step"
    assert "<table" in follower._repr_html_()
    audit = ta.audit(training.freeze(), history=follower, tolerance=made.TOLERANCE)
    assert audit.snapshots.summary().equals(follower.summary())
    path = audit.group("/history")["value"].values[:, 0]
    assert path.tolist() == [row.value[0] for row in follower.rows]
    again = ta.load(audit.save(tmp_path / "audit.nc"))
    assert again.snapshots.summary().equals(follower.summary())


def test_lightning_and_jinns_records_are_histories(made, tmp_path):
    known = {"k": ta.Parameter(bounds=made.BOUNDS)}
    csv = tmp_path / "metrics.csv"
    csv.write_text("epoch,step,train_loss,val_loss\n0,9,4.0,\n0,9,,5.0\n1,19,2.0,\n")
    found = history_group(csv, known)
    assert found["step"].values.tolist() == [9, 19]
    np.testing.assert_array_equal(found["recorded"], [[4.0, 5.0], [2.0, np.nan]])
    with pytest.raises(ta.InputError, match=r"metrics\.csv"):
        history_group(tmp_path / "no.csv", known)

    @dataclasses.dataclass
    class Terms:
        dyn_loss: object
        observations: object
        normalization: object = None

    @dataclasses.dataclass
    class Tracked:
        eq_params: object

    outputs = [None] * 12
    outputs[1] = np.array([3.0, 2.0, 0.0])  # stopped after two of three iterations
    outputs[2] = Terms(np.array([[1.0, 1.5], [0.5, 1.0], [0, 0]]), np.array([0.5, 0.5, 0.0]))
    outputs[6] = Tracked({"k": np.array([1.0, 1.1, 0.0])})
    found = history_group(tuple(outputs), known)
    assert found["step"].values.tolist() == [1, 2]
    names = ["loss", "loss dyn_loss[0]", "loss dyn_loss[1]", "loss observations"]
    assert found["quantity"].values.tolist() == names
    np.testing.assert_array_equal(found["recorded"], [[3, 1, 1.5, 0.5], [2, 0.5, 1, 0.5]])
    np.testing.assert_array_equal(found["value"], [[1.0], [1.1]])


def test_a_parameter_that_leaves_its_bounds_is_recorded_and_said():
    x, state = np.linspace(0, 1, 20), {"k": 2.0}

    def freeze():
        known = ta.Parameter(bounds=(0.5, 5.0)).holding(state["k"])
        known = dataclasses.replace(known, delivered=state["k"])
        return ta.FrozenResidual(
            lambda k: k * np.ones(20) - 1.2, {"k": known}, x, view=ta.views.Pointwise()
        )

    follower = ta.Follower(freeze, every=1, **QUIET)
    follower(0)
    state["k"] = 1e-11
    with pytest.warns(UserWarning, match="outside of its bounds"):
        follower(1)
    follower(2)
    (message,) = follower.messages
    assert message.code == "follower.out_of_bounds"
    assert message.numbers == {"value": 1e-11, "step": 1.0}
    found = follower.result
    assert found.data["value"].values.ravel().tolist() == [2.0, 1e-11, 1e-11]
    assert found.parameters["k"].bounds == (1e-11, 5.0)


# ------------------------------------------------------------------ the live line

LIVE = """
import numpy as np, twoaxis as ta
x, state = np.linspace(0, 1, 20), {"k": 2.0}
def freeze():
    known = {"k": ta.Parameter(delivered=state["k"], bounds=(0.5, 5.0))}
    return ta.FrozenResidual(lambda k: k * np.ones(20) - 1.2, known, x, view=ta.views.Pointwise())
follower = ta.Follower(freeze, every=1, max_share=1.0)
for step in range(3):
    follower(step)
print("printed")
"""


def test_a_terminal_has_one_line_that_covers_nothing():
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    size = {"TERM": "xterm", "COLUMNS": "60", "LINES": "20"}
    child = subprocess.Popen(
        [sys.executable, "-c", LIVE], stdout=theirs, stderr=theirs, env={**os.environ, **size}
    )
    os.close(theirs)
    written = b""
    with contextlib.suppress(OSError):  # Linux reports the end of the other side so
        while part := os.read(ours, 4096):
            written += part
    os.close(ours)
    assert child.wait() == 0
    first, *lines = written.decode().split("\r\x1b[2K")
    assert first == ""
    assert [line.partition(";")[0] for line in lines] == ["step 0", "step 1", "step 2"]
    assert all(len(line) < 60 and "\n" not in line for line in lines[:-1])
    last, _, rest = lines[-1].partition("printed")
    assert len(last) < 60
    assert rest.split() == []
    assert rest.endswith("\n")


def test_a_notebook_has_one_display_that_is_updated(monkeypatch):
    """IPython's ``display(..., display_id=True)`` returns a handle with ``update``."""
    shown = []
    handle = types.SimpleNamespace(update=lambda text: shown.append(("update", str(text))))

    def display(text, display_id):
        shown.append(("display", str(text)))
        return handle if display_id else None

    fake = types.ModuleType("IPython.display")
    fake.display = display
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    line = LiveLine()
    line.show("step 0")
    line.show("step 1 [bold]")
    assert shown == [("display", "step 0"), ("update", "step 1 [bold]")]


def test_weights_and_biases_get_a_step_of_their_own():
    """As its runs are called: a metric with its own step, and ``log`` without one."""
    calls = []
    run = types.SimpleNamespace(
        define_metric=lambda name, step_metric=None: calls.append((name, step_metric)),
        log=lambda numbers: calls.append(numbers),
    )
    sink = sink_of(run)
    sink(500, {"twoaxis/k/value": 1.5})
    sink(1000, {"twoaxis/k/value": 1.4})
    assert calls == [
        ("twoaxis/step", None),
        ("twoaxis/*", "twoaxis/step"),
        {"twoaxis/k/value": 1.5, "twoaxis/step": 500},
        {"twoaxis/k/value": 1.4, "twoaxis/step": 1000},
    ]

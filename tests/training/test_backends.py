"""Batches and workers give the numbers of single runs; a worker that dies is told about."""

import io
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from twoaxis.errors import InputError, WorkerError
from twoaxis.training import Network
from twoaxis.training.backends import (
    InProcess,
    Workers,
    choose_backend,
    in_process,
    worker,
    workers,
)
from twoaxis.training.backends import backend as choice
from twoaxis.training.backends.in_process import run_bytes
from twoaxis.training.job import Job
from twoaxis.training.methods import PatchEvidence, Recipe, SensitivitySelector
from twoaxis.training.settings import run_key

RUNS = 5


@dataclass(frozen=True)
class Sharper:
    """Weights that grow with the square of the residual, and count their own steps."""

    power: float = 2.0
    needs_modes: bool = False

    def initial(self, points, modes):  # noqa: ARG002
        return {"points": jnp.zeros(points), "count": jnp.zeros((), jnp.int32)}

    def update(self, weights, moment):
        size = jnp.abs(moment.residual) ** self.power
        count = weights["count"] + 1
        mean = weights["points"] + (size / jnp.max(size) - weights["points"]) / count
        return {"points": mean, "count": count}


@dataclass(frozen=True)
class SharperMethod:
    """A method of one's own."""

    power: float = 2.0

    @property
    def name(self):
        return "sharper"

    def recipe(self):
        return Recipe(weights=Sharper(self.power), warmup=0.1)


def close(run, other):
    """Equal to float32 rounding, which 24 steps of Adam carry on."""
    assert run.key == other.key
    for (w, b), (v, c) in zip(run.final.layers, other.final.layers, strict=True):
        assert_allclose(w, v, rtol=1e-4, atol=2e-6)
        assert_allclose(b, c, rtol=1e-4, atol=2e-6)
    for name in run.delivered:
        assert_allclose(run.delivered[name], other.delivered[name], rtol=1e-5)
    assert_allclose(run.history.to_numpy(), other.history.to_numpy(), rtol=1e-3)
    left, right = (r.view.bind(r.points).diagonal() for r in (run, other))
    assert_allclose(left, right, rtol=1e-3, atol=1e-9)


@pytest.fixture(scope="module")
def alone(made):
    """The first and the last run by themselves."""
    return {n: made.tiny_train(datasets=[made.tiny_dataset("burgers", n)])[0] for n in (0, 4)}


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_batch_equals_the_runs_alone(made, alone, batch):
    runs = made.tiny_train(datasets=RUNS, batch=batch)
    assert len(runs) == RUNS
    for n, single in alone.items():
        close(runs[n], single)


def test_a_batch_whose_runs_have_different_numbers_of_modes(made):
    method = SensitivitySelector(bandwidth=0.6)
    settings = made.tiny_settings(method=method)
    forms = [Job(settings, [made.tiny_spec(number=n)]).data()[0]["form"] for n in range(5)]
    counts = [len(form["factor"]) for form in forms]
    assert min(counts) < max(counts)
    pair = [made.tiny_dataset("burgers", int(n)) for n in (np.argmin(counts), np.argmax(counts))]
    together = made.tiny_train(datasets=pair, batch=2, method=method)
    close(together[0], made.tiny_train(datasets=pair[:1], method=method)[0])


def test_seeds_and_datasets_and_starts_differ_within_a_batch(made):
    runs = made.tiny_train(datasets=2, seeds=[0, 7], batch=2)
    assert [(run.dataset.label, run.seed) for run in runs] == [
        ("tiny0", 0),
        ("tiny0", 7),
        ("tiny1", 0),
        ("tiny1", 7),
    ]
    for first in range(4):
        for second in range(first):
            assert not np.array_equal(runs[first].points, runs[second].points)
            assert runs[first].delivered != runs[second].delivered


def test_two_calls_give_the_same_bits(made, compiled_anew):  # noqa: ARG001
    runs = []
    for _ in range(2):
        in_process._shared.cache_clear()
        runs.append(made.tiny_train(datasets=3, batch=2, steps=30))
    for first, second in zip(*runs, strict=True):
        made.assert_same_bits(first, second)


def test_a_program_is_shared_by_equal_settings_alone(made):
    in_process._shared.cache_clear()
    first = made.tiny_train(start={"nu": 0.03})[0]
    made.tiny_train(seeds=1)
    assert in_process._shared.cache_info()[:2] == (1, 1)
    made.tiny_train(learning_rate=2e-3, steps=2)
    made.tiny_train(method=SharperMethod(), steps=2)  # may change between two calls
    assert in_process._shared.cache_info()[:2] == (1, 2)
    made.assert_same_bits(first, made.tiny_train(start={"nu": 0.03})[0])


def test_options_that_cannot_be_looked_up(made):
    listed = made.tiny_train(method=PatchEvidence(cells=[4, 2]), steps=2)[0]
    plain = made.tiny_train(method=PatchEvidence(cells=(4, 2)), steps=2)[0]
    made.assert_same_bits(listed, plain)


def test_equal_parts(made):
    cpu = jax.devices("cpu")[0]
    data = Job(made.tiny_settings(), [made.tiny_spec(number=n) for n in range(RUNS)]).data()
    sizes = {b: InProcess(cpu, b)._size(made.tiny_settings(), data) for b in (None, 1, 2, 3, 4, 9)}
    assert sizes == {None: 1, 1: 1, 2: 2, 3: 3, 4: 3, 9: 5}


def test_a_batch_is_cut_to_fit_the_memory(made):
    settings = made.tiny_settings()
    data = Job(settings, [made.tiny_spec(number=n) for n in range(RUNS)]).data()
    one = run_bytes(settings, data[0])

    def size(memory):
        device = SimpleNamespace(platform="gpu", memory_stats=lambda: {"bytes_limit": memory})
        return InProcess(device)._size(settings, data)

    assert size(100 * one) == RUNS
    assert size(one / 100) == 1
    assert 1 < size(int(5 * one)) < RUNS
    bigger = made.tiny_settings(network=Network(64, 3))
    assert run_bytes(bigger, data[0]) > 5 * one


# ------------------------------------------------------------------ workers


@pytest.fixture(scope="module")
def spread(made):
    """A method of one's own in two workers, and the processes that did it."""
    started = []

    def recorded(*arguments):
        started.append(START(*arguments))
        return started[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "_start", recorded)
        runs = made.tiny_train(datasets=3, method=SharperMethod(), workers=2)
    return runs, started


START = workers._start


def test_workers_equal_this_process(made, spread):
    runs, _ = spread
    for run, other in zip(runs, made.tiny_train(datasets=3, method=SharperMethod()), strict=True):
        close(run, other)
        assert run.finished


def test_a_method_of_ones_own_has_its_effect(made, spread):
    run = spread[0][0]
    rba = made.tiny_train()[0]
    assert not np.allclose(run.final.layers[0][0], rba.final.layers[0][0], atol=1e-6)
    weights = run.view.loss_weights
    assert 0 < weights.min() < weights.max() <= 1
    assert run.key.startswith("burgers-sharper-dtiny0-s0-")
    other = replace(run.settings, method=SharperMethod(power=0.5))
    assert run_key(other, run.spec) != run.key == run_key(run.settings, run.spec)


def test_workers_end_with_their_session(spread):
    _, started = spread
    assert len(started) == 2
    for process in started:
        assert process.poll() is not None
        assert process.stdin.closed
        assert process.stdout.closed


def test_a_worker_that_cannot_start_says_why(made, monkeypatch):
    def broken(log, precision):  # noqa: ARG001
        script = "import sys; sys.exit('no such library')"
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        return subprocess.Popen([sys.executable, "-c", script], **pipes)

    monkeypatch.setattr(workers, "_start", broken)
    with pytest.raises(WorkerError, match=r"exit code 1;.*no such library"):
        made.tiny_train(datasets=2, workers=2)


def test_messages_come_back_as_they_were():
    stream = io.BytesIO()
    arrays = [np.arange(3.0), np.array(7, np.int32), np.ones((2, 3), np.float32).T, np.empty(0)]
    worker.write_message(stream, {"do": "data", "run": 3}, arrays)
    worker.write_message(stream, {}, [])
    stream.seek(0)
    order, found = worker.read_message(stream)
    assert order == {"do": "data", "run": 3}
    for sent, came in zip(arrays, found, strict=True):
        assert sent.dtype == came.dtype
        assert_array_equal(sent, came)
    assert worker.read_message(stream) == ({}, [])
    with pytest.raises(EOFError):
        worker.read_message(stream)


def test_half_a_message_is_the_end():
    stream = io.BytesIO()
    worker.write_message(stream, {"do": "data"}, [np.arange(3.0)])
    for length in (0, 8, 20, len(stream.getvalue()) - 1):
        with pytest.raises(EOFError):
            worker.read_message(io.BytesIO(stream.getvalue()[:length]))


# ------------------------------------------------------------------ the choice


def test_the_choice_of_a_backend(made, monkeypatch):
    monkeypatch.setattr(choice, "_first", lambda p: jax.devices("cpu")[0] if p == "cpu" else None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(4)))  # noqa: ARG005
    small = made.tiny_settings()
    large = made.tiny_settings(network=Network(64, 3), residual_points=2000, steps=5000)
    assert isinstance(choose_backend(small, 8), InProcess)
    assert choose_backend(large, 8) == Workers(4)
    assert choose_backend(large, 3) == Workers(3)
    assert isinstance(choose_backend(large, 1), InProcess)
    assert isinstance(choose_backend(large, 8, workers=0), InProcess)
    assert isinstance(choose_backend(large, 8, workers=1), InProcess)
    assert choose_backend(small, 8, workers=2) == Workers(2)
    assert choose_backend(small, 2, workers=7) == Workers(2)
    assert choose_backend(large, 8, batch=3) == InProcess(jax.devices("cpu")[0], 3)
    assert choose_backend(large, 8).describe() == "4 single-threaded workers"


def test_a_gpu_is_taken_where_there_is_one(made, monkeypatch):
    gpu = SimpleNamespace(platform="gpu", device_kind="Imagined")
    monkeypatch.setattr(choice, "_first", lambda p: gpu if p == "gpu" else jax.devices("cpu")[0])
    settings = made.tiny_settings()
    assert choose_backend(settings, 8) == InProcess(gpu)
    assert choose_backend(settings, 8, "gpu", batch=3) == InProcess(gpu, 3)
    assert choose_backend(settings, 8, "cpu").device.platform == "cpu"
    assert choose_backend(settings, 8).describe() == "gpu (Imagined)"


BAD = {
    "an unknown device": (dict(device="tpu"), r'"auto", "cpu" or "gpu".*tpu'),
    "no name": (dict(device=None), r'"auto", "cpu" or "gpu"'),
    "half a worker": (dict(workers=0.5), r"workers=0.5"),
    "fewer than no workers": (dict(workers=-1), r"at least 0 as workers.*workers=-1"),
    "true workers": (dict(workers=True), r"workers=True"),
    "no batch": (dict(batch=0), r"at least 1 as batch.*batch=0"),
    "a batch of text": (dict(batch="3"), r"batch='3'"),
    "a true batch": (dict(batch=True), r"batch=True"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD)
def test_bad_choices(made, options, message):
    with pytest.raises(InputError, match=message):
        made.tiny_train(datasets=2, **options)


def test_no_gpu_where_none_is(made, monkeypatch):
    monkeypatch.setattr(choice, "_first", lambda platform: None)  # noqa: ARG005
    with pytest.raises(InputError, match=r'GPU that JAX can use.*device="cpu"'):
        made.tiny_train(device="gpu")


def test_numpy_counts_are_counts(made):
    assert choose_backend(made.tiny_settings(), 8, workers=np.int64(2)) == Workers(2)

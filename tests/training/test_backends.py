"""Batches and workers give the numbers of single runs; a worker that dies is replaced."""

import io
import os
import signal
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
from twoaxis.training import Network, backends
from twoaxis.training.backends import (
    ATTEMPTS,
    JaxDevice,
    WorkerProcess,
    device,
    find_device,
    find_gpu,
    worker_process,
    worker_program,
)
from twoaxis.training.backends.device import run_bytes
from twoaxis.training.batch import Batch
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
    """A user's own method."""

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
    return {n: made.tiny_train(datasets=[made.tiny_dataset("burgers", n)])[0] for n in (0, 3)}


@pytest.mark.parametrize("batch", [1, 2])
def test_a_batch_equals_the_runs_alone(made, alone, batch):
    runs = made.tiny_train(datasets=4, batch=batch)
    assert len(runs) == 4
    for n, single in alone.items():
        close(runs[n], single)


def test_a_batch_whose_runs_have_different_numbers_of_modes(made):
    method = SensitivitySelector(bandwidth=0.6)
    settings = made.tiny_settings(method=method)
    forms = [Batch(settings, [made.tiny_spec(number=n)]).data()[0]["form"] for n in range(5)]
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
        device._shared.cache_clear()
        runs.append(made.tiny_train(datasets=2, batch=2, steps=30))
    for first, second in zip(*runs, strict=True):
        made.assert_same_bits(first, second)


def test_a_program_is_shared_by_equal_settings_alone(made):
    device._shared.cache_clear()
    first = made.tiny_train(start={"nu": 0.03})[0]
    made.tiny_train(seeds=1)
    assert device._shared.cache_info()[:2] == (1, 1)
    made.tiny_train(learning_rate=2e-3, steps=2)
    made.tiny_train(method=SharperMethod(), steps=2)  # may change between two calls
    assert device._shared.cache_info()[:2] == (1, 2)
    made.assert_same_bits(first, made.tiny_train(start={"nu": 0.03})[0])


def test_options_that_cannot_be_looked_up(made):
    listed = made.tiny_train(method=PatchEvidence(cells=[4, 2]), steps=2)[0]
    plain = made.tiny_train(method=PatchEvidence(cells=(4, 2)), steps=2)[0]
    made.assert_same_bits(listed, plain)


def test_on_a_cpu_a_batch_is_trained_as_it_was_cut(made):
    data = Batch(made.tiny_settings(), [made.tiny_spec(number=n) for n in range(RUNS)]).data()
    assert JaxDevice(find_device("cpu"))._size(made.tiny_settings(), data) == RUNS


def test_on_a_gpu_a_batch_is_cut_to_fit_the_memory(made):
    settings = made.tiny_settings()
    data = Batch(settings, [made.tiny_spec(number=n) for n in range(RUNS)]).data()
    one = run_bytes(settings, data[0])

    def size(memory):
        gpu = SimpleNamespace(platform="gpu", memory_stats=lambda: {"bytes_limit": memory})
        return JaxDevice(gpu)._size(settings, data)

    assert size(100 * one) == RUNS
    assert size(one / 100) == 1
    assert 1 < size(int(5 * one)) < RUNS
    bigger = made.tiny_settings(network=Network(64, 3))
    assert run_bytes(bigger, data[0]) > 5 * one


def test_parts_of_a_batch_are_equal_and_give_the_runs_in_order(made, monkeypatch):
    batch = Batch(made.tiny_settings(), [made.tiny_spec(number=n) for n in range(RUNS)])
    data = batch.data()
    start, states = batch.begin(data).state, []
    for size in (RUNS, 2):
        monkeypatch.setattr(JaxDevice, "_size", lambda *_, size=size: size)
        with JaxDevice(find_device("cpu")).session(batch.settings, data) as session:
            states.append(session.advance(start, 0, 3))
    for left, right in zip(*map(jax.tree.leaves, states), strict=True):
        assert_allclose(left, right, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------ worker processes


@pytest.fixture(scope="module")
def advanced(made):
    """Two runs of a user's own method after five steps: in this process and in a worker.

    The worker is killed between two chunks.
    """
    batch = Batch(
        made.tiny_settings(method=SharperMethod()), [made.tiny_spec(), made.tiny_spec(seed=1)]
    )
    data = batch.data()
    start, found, worker = batch.begin(data).state, [], WorkerProcess()
    for backend in (JaxDevice(find_device("cpu")), worker):
        with backend.session(batch.settings, data) as session:
            state = session.advance(start, 0, 2)
            if backend is worker:
                os.kill(worker.pid, signal.SIGKILL)
            found.append(session.advance(state, 2, 3))
    process = worker._process
    worker.close()
    worker.release()
    return found, worker, process


def test_a_worker_equals_this_process_and_is_replaced_when_it_dies(advanced):
    (here, there), worker, _ = advanced
    for left, right in zip(jax.tree.leaves(here), jax.tree.leaves(there), strict=True):
        assert left.dtype == right.dtype
        assert_allclose(left, right, rtol=1e-9, atol=1e-12)
    assert worker.deaths == 1


def test_a_worker_ends_when_it_is_closed(advanced, made):
    _, worker, process = advanced
    assert process.poll() is not None
    assert process.stdin.closed
    assert process.stdout.closed
    batch = Batch(made.tiny_settings(), [made.tiny_spec()])
    data = batch.data()
    start = batch.begin(data).state
    with (
        worker.session(batch.settings, data) as session,
        pytest.raises(WorkerError, match="stopped"),
    ):
        session.advance(start, 0, 1)


def test_a_method_of_ones_own_has_its_effect(made):
    run = made.tiny_train(method=SharperMethod())[0]
    rba = made.tiny_train()[0]
    assert not np.allclose(run.final.layers[0][0], rba.final.layers[0][0], atol=1e-6)
    weights = run.view.loss_weights
    assert 0 < weights.min() < weights.max() <= 1
    assert run.key.startswith("burgers-sharper-dtiny0-s0-")
    other = replace(run.settings, method=SharperMethod(power=0.5))
    assert run_key(other, run.spec) != run.key == run_key(run.settings, run.spec)


def test_a_worker_that_cannot_start_says_why(made, monkeypatch):
    started = []

    def broken(log):
        script = "import sys; sys.exit('no such library')"
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        started.append(subprocess.Popen([sys.executable, "-c", script], **pipes))
        return started[-1]

    monkeypatch.setattr(worker_process, "_start", broken)
    message = rf"ended {ATTEMPTS} times; exit code 1: no such library"
    with pytest.raises(WorkerError, match=message):
        made.tiny_train(datasets=2, workers=2)
    assert len(started) == 2 * ATTEMPTS
    assert all(process.poll() is not None for process in started)


def test_messages_come_back_as_they_were():
    stream = io.BytesIO()
    arrays = [np.arange(3.0), np.array(7, np.int32), np.ones((2, 3), np.float32).T, np.empty(0)]
    worker_program.write_message(stream, {"do": "data", "run": 3}, arrays)
    worker_program.write_message(stream, {}, [])
    stream.seek(0)
    order, found = worker_program.read_message(stream)
    assert order == {"do": "data", "run": 3}
    for sent, came in zip(arrays, found, strict=True):
        assert sent.dtype == came.dtype
        assert_array_equal(sent, came)
    assert worker_program.read_message(stream) == ({}, [])
    with pytest.raises(EOFError):
        worker_program.read_message(stream)


def test_half_a_message_is_the_end():
    stream = io.BytesIO()
    worker_program.write_message(stream, {"do": "data"}, [np.arange(3.0)])
    for length in (0, 8, 20, len(stream.getvalue()) - 1):
        with pytest.raises(EOFError):
            worker_program.read_message(io.BytesIO(stream.getvalue()[:length]))


# ------------------------------------------------------------------ devices


def test_a_gpu_is_taken_where_there_is_one(monkeypatch):
    gpu = SimpleNamespace(platform="gpu", device_kind="Imagined")
    monkeypatch.setattr(backends, "_first", lambda p: gpu if p == "gpu" else jax.devices("cpu")[0])
    assert find_device() is find_device("gpu") is find_gpu() is gpu
    assert find_device("cpu").platform == "cpu"
    assert find_gpu("cpu") is None


def test_no_gpu_where_none_is(monkeypatch):
    monkeypatch.setattr(backends, "_first", lambda platform: None)  # noqa: ARG005
    with pytest.raises(InputError, match=r'GPU that JAX can use.*device="cpu"'):
        find_gpu("gpu")
    for name in ("tpu", None):
        with pytest.raises(InputError, match=r'"auto", "cpu" or "gpu"'):
            find_gpu(name)

"""A training that was stopped at any moment goes on, and ends with the same bits."""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from twoaxis.errors import DamageWarning
from twoaxis.runs import RunStore, checkpoint, train
from twoaxis.runs import task as task_module
from twoaxis.runs.checkpoint import (
    batch_key,
    checkpoint_checksum,
    checkpoint_path,
    interrupted_batches,
    load_checkpoint,
    read_checkpoint,
    save_checkpoint,
)
from twoaxis.training.backends import worker_process
from twoaxis.training.batch import Batch, Progress
from twoaxis.training.settings import run_key


class Stopped(BaseException):
    """As sudden as a signal: nothing in the library knows it."""


def contents(directory):
    """All files in a directory and below it, by their paths there."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def visible(directory):
    """All files but those of a write that was cut off."""
    return {name: found for name, found in contents(directory).items() if ".twoaxis-" not in name}


def checkpoints(directory):
    return list(Path(directory).glob("checkpoints/checkpoint-*"))


@pytest.fixture
def often(monkeypatch):
    """A checkpoint after every chunk of steps."""
    monkeypatch.setattr(task_module, "CHECKPOINT_SECONDS", 0.0)


@pytest.fixture
def stop(monkeypatch, often):  # noqa: ARG001
    """``stop(function, n)``: the function is the last thing that happens.

    It is one of the training module, or a method of the store.
    """

    def arrange(name, calls, before=False):
        owner = RunStore if hasattr(RunStore, name) else task_module
        original, count = getattr(owner, name), [0]

        def stopping(*arguments, **options):
            count[0] += 1
            if before and count[0] == calls:
                raise Stopped
            found = original(*arguments, **options)
            if count[0] == calls:
                raise Stopped
            return found

        monkeypatch.setattr(owner, name, stopping)

    return arrange


def undisturbed(made, directory, **options):
    made.tiny_train(store=directory, **options)
    return contents(directory)


# One of each kind of state: weights of points, weights of modes, a parameter at rest.
@pytest.mark.parametrize("method", ["rba", "selector", "patch"])
def test_a_training_goes_on_where_it_stopped(made, trained, method, stop, monkeypatch, tmp_path):
    options = dict(method=method, datasets=2, batch=2, snapshots=made.SNAPSHOTS)
    for run in trained[method]:
        RunStore(tmp_path / "whole", create=True).save(run)
    stop("save_checkpoint", 9)
    with pytest.raises(Stopped):
        made.tiny_train(store=tmp_path / "cut", **options)
    assert contents(tmp_path / "cut").keys() == {
        str(path.relative_to(tmp_path / "cut")) for path in checkpoints(tmp_path / "cut")
    }
    assert len(checkpoints(tmp_path / "cut")) == 1
    monkeypatch.undo()
    steps = []
    watch(monkeypatch, steps)
    made.tiny_train(store=tmp_path / "cut", **options)
    assert steps == [9]
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def watch(monkeypatch, steps):
    """Note at which step every training begins."""
    original = Batch.train

    def watched(self, backend, data, progress, *others):
        steps.append(progress.step)
        return original(self, backend, data, progress, *others)

    monkeypatch.setattr(Batch, "train", watched)


# In one batch: two of three runs by themselves would have other bits.
TOGETHER = dict(datasets=3, batch=3)


@pytest.fixture(scope="module")
def together(made, tmp_path_factory):
    """What a batch of three leaves when nobody disturbs it."""
    return undisturbed(made, tmp_path_factory.mktemp("together"), **TOGETHER)


@pytest.mark.parametrize("calls", [1, 3])
def test_stopped_between_the_runs_that_are_written(
    made, together, stop, monkeypatch, tmp_path, calls
):
    stop("save", calls)
    with pytest.raises(Stopped):
        made.tiny_train(store=tmp_path / "cut", **TOGETHER)
    assert len(RunStore(tmp_path / "cut").keys()) == calls
    monkeypatch.undo()
    steps = []
    watch(monkeypatch, steps)
    runs = made.tiny_train(store=tmp_path / "cut", **TOGETHER)
    assert steps == ([made.STEPS] if calls < 3 else [])
    assert len(runs) == 3
    assert contents(tmp_path / "cut") == together


def test_stopped_while_more_runs_were_added(made, stop, monkeypatch, tmp_path):
    wanted = undisturbed(made, tmp_path / "whole", datasets=1, batch=3)
    others = [made.tiny_dataset("burgers", n) for n in (1, 2)]
    wanted |= undisturbed(made, tmp_path / "others", datasets=others, batch=3)
    out = tmp_path / "cut"
    made.tiny_train(store=out, datasets=1, batch=3)
    stop("save", 1)
    with pytest.raises(Stopped):
        made.tiny_train(store=out, datasets=3, batch=3)
    monkeypatch.undo()
    made.tiny_train(store=out, datasets=3, batch=3)
    assert contents(out) == wanted


def test_an_interrupt_keeps_what_was_done(made, monkeypatch, tmp_path):
    original = task_module._note

    def interrupted(job, now):
        if now.step == 17:
            raise KeyboardInterrupt
        return original(job, now)

    monkeypatch.setattr(task_module, "_note", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.tiny_train(store=tmp_path)
    monkeypatch.undo()
    steps = []
    watch(monkeypatch, steps)
    made.tiny_train(store=tmp_path)
    assert steps == [17]
    assert not checkpoints(tmp_path)


def test_without_a_directory_nothing_is_written(made, often, tmp_path, monkeypatch):  # noqa: ARG001
    monkeypatch.chdir(tmp_path)
    made.tiny_train()
    assert not list(tmp_path.iterdir())


def test_checkpoints_come_at_their_interval(made, monkeypatch, tmp_path):
    written = []
    monkeypatch.setattr(task_module, "save_checkpoint", lambda *given: written.append(given))
    made.tiny_train(store=tmp_path / "seldom")
    assert not written
    monkeypatch.setattr(task_module, "CHECKPOINT_SECONDS", 0.0)
    made.tiny_train(store=tmp_path / "often")
    assert [given[1].step for given in written] == list(range(1, made.STEPS))


# ------------------------------------------------------------------ real signals

CHILD = """
import json, sys, time
import numpy as np
from twoaxis.datasets import Dataset
from twoaxis.runs import task, train
from twoaxis.training import Network
from twoaxis.training.backends import worker_process
task.CHECKPOINT_SECONDS = 0.0
options = json.loads(sys.argv[1])
save, start = task.save_checkpoint, worker_process._start

def slowly(*arguments):
    save(*arguments)
    time.sleep(0.15)

def shown(*arguments):
    process = start(*arguments)
    print(process.pid, flush=True)
    return process

task.save_checkpoint, worker_process._start = slowly, shown
datasets = [
    Dataset(**{**d, **{k: np.array(d[k]) for k in ("sites", "coordinates", "values")}})
    for d in options.pop("datasets")
]
network = Network(*options.pop("network"))
train("burgers", datasets=datasets, network=network, progress=False, **options)
"""


def as_plain(dataset):
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in vars(dataset).items()
    }


def killed_at_random(made, store, **options):
    """Train in a process of its own until it is killed; return the lines that it printed."""
    given = {
        "datasets": [as_plain(made.tiny_dataset("burgers", n)) for n in range(2)],
        "network": [made.NETWORK.width, made.NETWORK.depth],
        "residual_points": made.POINTS,
        "steps": made.STEPS,
        "store": str(store),
        **options,
    }
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, json.dumps(given)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    try:
        while child.poll() is None and not checkpoints(store):
            time.sleep(0.01)
        # The rest would take three seconds at least.
        time.sleep(random.uniform(0.0, 1.5))
    finally:
        child.kill()
        printed, complaint = child.communicate()
    assert child.returncode == -signal.SIGKILL, complaint.decode()
    assert RunStore(store).keys() == []
    return printed.decode().split()


@pytest.mark.long
def test_killed_at_a_random_moment(made, monkeypatch, tmp_path):
    options = dict(datasets=2, batch=2)
    wanted = undisturbed(made, tmp_path / "whole", **options)
    (tmp_path / "cut").mkdir()
    killed_at_random(made, tmp_path / "cut", batch=2)
    steps = []
    watch(monkeypatch, steps)
    made.tiny_train(store=tmp_path / "cut", **options)
    assert steps[0] > 0
    assert visible(tmp_path / "cut") == wanted


@pytest.mark.long
def test_killed_with_workers(made, often, monkeypatch, tmp_path):  # noqa: ARG001
    """First the parent is killed, then one of the workers of the second attempt."""
    spread = undisturbed(made, tmp_path / "whole", datasets=2, workers=2)
    out = tmp_path / "cut"
    out.mkdir()
    pids = killed_at_random(made, out, workers=2)
    assert len(pids) == 2
    deadline = time.monotonic() + 20
    while any(alive(int(pid)) for pid in pids):  # workers end with their parent
        assert time.monotonic() < deadline
        time.sleep(0.01)

    started, steps, start, save = [], [], worker_process._start, task_module.save_checkpoint
    dead, written = threading.Event(), threading.Event()

    def recorded(*arguments):
        if len(started) == 2:  # the other task writes while this one is without a worker
            dead.set()
            assert written.wait(120)
        started.append(start(*arguments))
        return started[-1]

    def killing(*arguments):
        save(*arguments)
        if len(started) == 2:
            started[0].kill()  # not by its number, which may be gone by now, or another's
        if dead.is_set():
            written.set()

    watch(monkeypatch, steps)
    monkeypatch.setattr(worker_process, "_start", recorded)
    monkeypatch.setattr(task_module, "save_checkpoint", killing)
    runs = made.tiny_train(store=out, datasets=2, workers=2)
    assert len(started) == 3  # the one that was killed has been replaced
    assert runs.data["trained"].values.all()
    assert sorted(runs.work["attempts"]) == [1, 2]
    assert all(process.poll() == -9 for process in started)
    assert all(process.stdin.closed and process.stdout.closed for process in started)
    assert max(steps) > 0
    assert visible(out) == spread


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


# ------------------------------------------------------------------ files


@pytest.fixture
def job(made):
    return Batch(made.tiny_settings(precision="float32"), [made.tiny_spec()], (2,))


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path, create=True)


@pytest.fixture
def written(job, store):
    """A checkpoint with made-up numbers."""
    data = job.data()
    start = job.begin(data)
    records = [
        {
            "step": step,
            "loss_data": np.full(1, 0.5, np.float32),
            "loss_residual": np.full(1, 0.25, np.float32),
            "coordinates": np.full((1, 1), -4.0, np.float32),
        }
        for step in (1, 2, 3)
    ]
    kept = {name: start.state[name] for name in ("layers", "coordinates", "weights")}
    save_checkpoint(job, Progress(3, start.state, records, {2: kept}), store)
    return start, checkpoint_path(job, store)


def test_a_checkpoint_comes_back(job, written, store):
    start, path = written
    assert path.parent == store.directory / "checkpoints"
    found = load_checkpoint(job, start, store)
    assert found.step == 3
    assert [record["step"] for record in found.records] == [1, 2, 3]
    assert found.records[0]["loss_data"] == 0.5
    assert list(found.snapshots) == [2]
    left, right = (jax.tree.leaves(state) for state in (found.state, start.state))
    for a, b in zip(left, right, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_no_checkpoint(job, written, tmp_path):
    assert load_checkpoint(job, written[0], RunStore(tmp_path / "elsewhere", create=True)) is None


def refused(job, start, store):
    """The checkpoint is not used, and kept with the reason; returns that."""
    path = checkpoint_path(job, store)
    before = path.read_bytes() if path.is_file() else None
    with pytest.warns(DamageWarning, match="starts from the beginning") as told:
        assert load_checkpoint(job, start, store) is None
    assert len(told) == 1
    assert not os.path.lexists(path)
    (place,) = (store.directory / "damaged").iterdir()
    assert place.name == f"{path.name}.1"
    assert str(place) in str(told[0].message)
    assert before == ((place / path.name).read_bytes() if before is not None else None)
    reason = (place / "reason.txt").read_text()
    assert reason.strip() in str(told[0].message)
    shutil.rmtree(place)
    return reason


def test_every_changed_byte_is_refused(job, written, store):
    start, path = written
    content = path.read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    generator = np.random.default_rng(0)
    places = {*range(8), *generator.integers(8, header, 300)}
    places |= {*generator.integers(header, len(content), 100)}
    for place in sorted(places):
        changed = bytearray(content)
        changed[place] ^= 1 << int(generator.integers(8))
        path.write_bytes(bytes(changed))
        refused(job, start, store)
    path.write_bytes(content)
    assert load_checkpoint(job, start, store).step == 3


def test_every_truncation_is_refused(job, written, store):
    start, path = written
    content = path.read_bytes()
    for length in {*range(0, len(content), 97), 1, 7, 8, 9, len(content) - 1}:
        path.write_bytes(content[:length])
        refused(job, start, store)
    path.write_bytes(content + b"x")
    refused(job, start, store)


def test_a_damaged_checkpoint_is_told_and_the_training_begins_anew(
    made, stop, monkeypatch, tmp_path
):
    wanted = undisturbed(made, tmp_path / "whole")
    out = tmp_path / "cut"
    stop("save_checkpoint", 2)
    with pytest.raises(Stopped):
        made.tiny_train(store=out)
    monkeypatch.undo()
    (path,) = checkpoints(out)
    spoiled = path.read_bytes()[:-9]
    path.write_bytes(spoiled)
    steps = []
    watch(monkeypatch, steps)
    with pytest.warns(DamageWarning, match=r"checkpoint is damaged.*from the beginning"):
        made.tiny_train(store=out)
    assert steps == [0]
    kept = f"damaged/{path.name}.1"
    found = contents(out)
    assert found.pop(f"{kept}/{path.name}") == spoiled
    assert found.pop(f"{kept}/reason.txt").endswith(b"\n")
    assert found == wanted  # the same bits, and no checkpoint


def test_a_damaged_checkpoint_does_not_matter_where_all_is_made_anew(made, job, store, tmp_path):
    whole = Batch(replace(job.settings, steps=made.STEPS), job.specs)
    checkpoint_path(whole, store).write_bytes(b"spoiled")
    made.tiny_train(store=tmp_path, overwrite=True)
    assert not checkpoints(tmp_path)
    assert not (tmp_path / "damaged").exists()


def test_a_checkpoint_of_another_configuration(made, job, written, store):
    start, path = written
    other = Batch(job.settings, [made.tiny_spec(seed=1)], (2,))
    path.rename(checkpoint_path(other, store))
    assert "another batch" in refused(other, start, store)


def test_a_checkpoint_under_another_name_is_not_used_in_a_training(made, job, written, store):
    _, path = written
    other = Batch(job.settings, [made.tiny_spec(seed=1)], (2,))
    path.rename(checkpoint_path(other, store))
    with pytest.warns(DamageWarning, match="another batch"):
        run = train(
            "burgers",
            datasets=made.tiny_dataset(),
            seeds=1,
            snapshots=[2],
            store=store.directory,
            **{**made.TINY, "steps": 10},
        )[0]
    assert run.final.step == 10
    assert run.history["loss_data"].iloc[0] != 0.5  # the number that the checkpoint holds


def test_the_key_knows_everything(made, job):
    same = Batch(made.tiny_settings(precision="float32"), [made.tiny_spec()], (2,))
    assert batch_key(same) == batch_key(job)
    others = [
        Batch(made.tiny_settings(precision="float64"), job.specs, (2,)),
        Batch(made.tiny_settings(precision="float32", steps=11), job.specs, (2,)),
        Batch(job.settings, [made.tiny_spec(seed=1)], (2,)),
        Batch(job.settings, [made.tiny_spec(number=1)], (2,)),
        Batch(job.settings, [made.tiny_spec(), made.tiny_spec(seed=1)], (2,)),
        Batch(job.settings, [made.tiny_spec(seed=1), made.tiny_spec()], (2,)),
        Batch(job.settings, job.specs, (3,)),
        Batch(job.settings, job.specs),
    ]
    assert len({batch_key(each) for each in [job, *others]}) == 9


FOREIGN = {
    "nothing is told": lambda told, arrays: told.clear(),  # noqa: ARG005
    "no step": lambda told, arrays: told.pop("step"),  # noqa: ARG005
    "a step of text": lambda told, arrays: told.update(step="many"),  # noqa: ARG005
    "another step": lambda told, arrays: told.update(step="4"),  # noqa: ARG005
    "another format": lambda told, arrays: told.update(format="twoaxis checkpoint 9"),  # noqa: ARG005
    "an array is missing": lambda told, arrays: arrays.pop("state.0"),  # noqa: ARG005
    "an array is turned": lambda told, arrays: arrays.update(  # noqa: ARG005
        {"history.loss_data": arrays["history.loss_data"].T}
    ),
}


@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN)
def test_checkpoints_that_were_written_anew(job, written, store, change):
    start, path = written
    with safe_open(path, framework="numpy") as stored:
        told, arrays = stored.metadata(), {n: stored.get_tensor(n) for n in stored.keys()}  # noqa: SIM118
    change(told, arrays)
    save_file({n: np.ascontiguousarray(a) for n, a in arrays.items()}, path, metadata=told)
    refused(job, start, store)


FORGED = {
    "no history": lambda arrays: arrays.pop("history.step"),
    "a history that is too short": lambda arrays: arrays.update(
        {"history.loss_data": arrays["history.loss_data"][:1]}
    ),
    "a history of one number": lambda arrays: arrays.update(
        {"history.loss_data": np.array(1.0, np.float32)}
    ),
    "a state of another shape": lambda arrays: arrays.update({"state.0": np.zeros(3, np.float32)}),
    "no snapshot": lambda arrays: arrays.pop("snapshot.2.0"),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_forged_checkpoints(job, written, store, change):
    """The checksum fits, and the rest does not."""
    start, path = written
    sealed_again(path, lambda told, arrays: change(arrays))  # noqa: ARG005
    refused(job, start, store)


def sealed_again(path, change):
    """Let ``change(told, arrays)`` alter a checkpoint, and make its checksum right."""
    with safe_open(path, framework="numpy") as stored:
        told, arrays = stored.metadata(), {n: stored.get_tensor(n) for n in stored.keys()}  # noqa: SIM118
    change(told, arrays)
    told["sha256"] = checkpoint_checksum(arrays, told)
    save_file({n: np.ascontiguousarray(a) for n, a in arrays.items()}, path, metadata=told)


def steps(*values, dtype=np.int64):
    return lambda told, arrays: arrays.update(  # noqa: ARG005
        {"history.step": np.array(values, dtype)}
    )


def column(name, change):
    name = f"history.{name}"
    return lambda told, arrays: arrays.update({name: change(arrays[name])})  # noqa: ARG005


HISTORIES = {
    "steps that fall": (steps(3, 1), "steps of a training"),
    "one step twice": (steps(3, 3), "steps of a training"),
    "steps before the first": (steps(0, 3), "steps of a training"),
    "steps below zero": (steps(-1, 3), "steps of a training"),
    "a last step that is another": (steps(1, 2), "steps of a training"),
    "steps with a fraction": (steps(1, 3, dtype=np.float64), "steps of a training"),
    "no steps": (steps(), "steps of a training"),
    "a step alone": (lambda _, arrays: arrays.update({"history.step": np.array(3)}), ""),
    "fewer steps than losses": (steps(1, 3), "loss_data does not have the shape"),
    "one run more": (
        column("loss_residual", lambda a: np.repeat(a, 2, axis=1)),
        "loss_residual does not have the shape",
    ),
    "one parameter more": (
        column("coordinates", lambda a: np.repeat(a, 2, axis=-1)),
        "coordinates does not have the shape",
    ),
    "beyond the last step": (
        lambda told, arrays: (told.update(step="11"), steps(1, 11)(told, arrays)),
        "steps of a training",
    ),
    "a step that is no number": (lambda told, _: told.update(step="3.0"), "how far"),
    "a step of many digits": (lambda told, _: told.update(step="9" * 5000), "how far"),
    "a negative step": (lambda told, _: told.update(step="-3"), "how far"),
    "runs that are no list": (lambda told, _: told.update(runs='"x"'), "which runs"),
    "runs that are numbers": (lambda told, _: told.update(runs="[1]"), "which runs"),
    "runs of nobody": (lambda told, _: told.update(runs="[]"), "another batch"),
    "nested runs": (lambda told, _: told.update(runs="[" * 10**5), ""),
}


@pytest.mark.parametrize(("change", "message"), HISTORIES.values(), ids=HISTORIES)
def test_the_history_of_a_checkpoint(job, written, store, change, message):
    start, path = written
    sealed_again(path, change)
    assert message in refused(job, start, store)


def test_a_checkpoint_that_was_sealed_again_unchanged_is_read(job, written, store):
    start, path = written
    sealed_again(path, lambda told, arrays: None)  # noqa: ARG005
    assert load_checkpoint(job, start, store).step == 3


def test_reading_a_checkpoint_needs_no_batch(job, written):
    _, path = written
    stored = read_checkpoint(path)
    assert stored.job == batch_key(job)
    assert stored.step == 3
    assert stored.keys == [run_key(job.settings, spec) for spec in job.specs]
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read_checkpoint(path)


def test_what_a_damaged_checkpoint_quotes_cannot_command_a_terminal(job, written, store):
    """The name of an array that is too much is quoted by the library that reads it."""
    start, path = written
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length].replace(b'"dtype":"F32"', b'"dtype":"\\u001b[2J"', 1)
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[8 + length :])
    reason = refused(job, start, store)
    assert "\x1b" not in reason
    assert reason.count("\n") == 1  # at its end


@pytest.mark.parametrize("kind", ["a directory", "a pipe", "a link", "a link to nothing"])
def test_only_plain_files_are_read(job, written, store, tmp_path, kind):
    start, path = written
    path.rename(tmp_path / "elsewhere")
    if kind == "a directory":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / ("elsewhere" if kind == "a link" else "nothing"))
    assert interrupted_batches(job, store, ()) == []
    assert "no plain file" in refused(job, start, store)
    assert (tmp_path / "elsewhere").is_file()


def test_a_checkpoint_that_is_removed_while_it_is_looked_for(job, written, store, monkeypatch):
    """Another process has finished the batch: that is no damage."""
    start, _ = written
    monkeypatch.setattr(checkpoint, "_is_plain", lambda found: found.unlink() or True)
    assert load_checkpoint(job, start, store) is None
    assert not (store.directory / "damaged").exists()


def test_a_full_disk_leaves_the_checkpoint_before(job, written, store, monkeypatch):
    start, path = written
    before = contents(store.directory)

    def full(handle):  # noqa: ARG001
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    record = {name: np.zeros(1, np.float32) for name in checkpoint.HISTORY}
    with pytest.raises(OSError, match="No space"):
        save_checkpoint(job, Progress(1, start.state, [{"step": 1, **record}], {}), store)
    monkeypatch.undo()
    assert contents(store.directory) == before
    assert path.exists()


def test_other_checkpoints_are_left_alone(made, store, tmp_path):
    other = store.checkpoints / "checkpoint-0123456789abcdef.safetensors"
    other.write_bytes(b"somebody else's")
    made.tiny_train(store=tmp_path)
    assert other.read_bytes() == b"somebody else's"

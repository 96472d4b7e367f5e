"""A training that was stopped at any moment goes on, and ends with the same bits."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from twoaxis.errors import InputError, WorkerError
from twoaxis.training import save_run, train
from twoaxis.training.backends import workers
from twoaxis.training.checkpoint import checkpoint_path, job_key, load_checkpoint, save_checkpoint
from twoaxis.training.job import Job, Progress

# The package has a function of that name.
train_module = sys.modules["twoaxis.training.train"]


class Stopped(BaseException):
    """As sudden as a signal: nothing in the library knows it."""


def contents(directory):
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def visible(directory):
    """All files but those of a write that was cut off."""
    found = contents(directory)
    return {name: found[name] for name in found if not name.startswith(".twoaxis-")}


@pytest.fixture
def often(monkeypatch):
    """A checkpoint after every chunk of steps."""
    monkeypatch.setattr(train_module, "CHECKPOINT_SECONDS", 0.0)


@pytest.fixture
def stop(monkeypatch, often):  # noqa: ARG001
    """``stop(function, n)``: the training module's function is the last thing that happens."""

    def arrange(name, calls, before=False):
        original, count = getattr(train_module, name), [0]

        def stopping(*arguments):
            count[0] += 1
            if before and count[0] == calls:
                raise Stopped
            found = original(*arguments)
            if count[0] == calls:
                raise Stopped
            return found

        monkeypatch.setattr(train_module, name, stopping)

    return arrange


def undisturbed(made, directory, **options):
    made.tiny_train(out=directory, **options)
    return contents(directory)


# One of each kind of state: weights of points, weights of modes, a parameter at rest.
@pytest.mark.parametrize("method", ["rba", "selector", "patch"])
def test_a_training_goes_on_where_it_stopped(made, trained, method, stop, monkeypatch, tmp_path):
    options = dict(method=method, datasets=2, batch=2, snapshots=made.SNAPSHOTS)
    (tmp_path / "whole").mkdir()
    for run in trained[method]:
        save_run(run, tmp_path / "whole")
    stop("save_checkpoint", 9)
    with pytest.raises(Stopped):
        made.tiny_train(out=tmp_path / "cut", **options)
    (left,) = (tmp_path / "cut").iterdir()
    assert left.name.startswith("checkpoint-")
    monkeypatch.undo()
    steps = []
    watch(monkeypatch, steps)
    made.tiny_train(out=tmp_path / "cut", **options)
    assert steps[0] == 9
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def watch(monkeypatch, steps):
    """Note at which step every training begins."""
    original = Job.train

    def watched(self, backend, data, progress, *others):
        steps.append(progress.step)
        return original(self, backend, data, progress, *others)

    monkeypatch.setattr(Job, "train", watched)


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
    stop("save_run", calls)
    with pytest.raises(Stopped):
        made.tiny_train(out=tmp_path / "cut", **TOGETHER)
    found = contents(tmp_path / "cut")
    assert sum(name.endswith(".json") for name in found) == calls
    monkeypatch.undo()
    steps = []
    watch(monkeypatch, steps)
    runs = made.tiny_train(out=tmp_path / "cut", **TOGETHER)
    assert steps == [made.STEPS - 1]
    assert len(runs) == 3
    assert contents(tmp_path / "cut") == together


def test_stopped_while_more_runs_were_added(made, stop, monkeypatch, tmp_path):
    wanted = undisturbed(made, tmp_path / "whole", datasets=1, batch=3)
    others = [made.tiny_dataset("burgers", n) for n in (1, 2)]
    wanted |= undisturbed(made, tmp_path / "others", datasets=others, batch=3)
    out = tmp_path / "cut"
    made.tiny_train(out=out, datasets=1, batch=3)
    stop("save_run", 1)
    with pytest.raises(Stopped):
        made.tiny_train(out=out, datasets=3, batch=3)
    monkeypatch.undo()
    made.tiny_train(out=out, datasets=3, batch=3)
    assert contents(out) == wanted


def test_an_interrupt_keeps_what_was_done(made, monkeypatch, tmp_path):
    original = train_module._note

    def interrupted(job, now):
        if now.step == 17:
            raise KeyboardInterrupt
        return original(job, now)

    monkeypatch.setattr(train_module, "_note", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.tiny_train(out=tmp_path)
    monkeypatch.undo()
    steps = []
    watch(monkeypatch, steps)
    made.tiny_train(out=tmp_path)
    assert steps == [17]
    assert not list(tmp_path.glob("checkpoint-*"))


def test_without_a_directory_nothing_is_written(made, often, tmp_path, monkeypatch):  # noqa: ARG001
    monkeypatch.chdir(tmp_path)
    made.tiny_train()
    assert not list(tmp_path.iterdir())


def test_checkpoints_come_at_their_interval(made, monkeypatch, tmp_path):
    written = []
    monkeypatch.setattr(train_module, "save_checkpoint", lambda *given: written.append(given))
    made.tiny_train(out=tmp_path / "seldom")
    assert not written
    monkeypatch.setattr(train_module, "CHECKPOINT_SECONDS", 0.0)
    made.tiny_train(out=tmp_path / "often")
    assert [given[1].step for given in written] == list(range(1, made.STEPS))


# ------------------------------------------------------------------ real signals

CHILD = """
import json, os, sys, time
from pathlib import Path
sys.modules.pop("sitecustomize", None)
import numpy as np
from twoaxis.observations import Dataset
from twoaxis.training import Network, train
from twoaxis.training.backends import workers
module = sys.modules["twoaxis.training.train"]
module.CHECKPOINT_SECONDS = 0.0
options = json.loads(sys.argv[1])
slow = options.pop("slow")
save, start = module.save_checkpoint, workers._start

def slowly(*arguments):
    save(*arguments)
    time.sleep(slow)

def told(*arguments):
    process = start(*arguments)
    print(process.pid, flush=True)
    return process

module.save_checkpoint, workers._start = slowly, told
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


def killed_at_random(made, out, **options):
    """Train in a process of its own until it is killed; return the lines that it printed."""
    given = {
        "datasets": [as_plain(made.tiny_dataset("burgers", n)) for n in range(3)],
        "network": [made.NETWORK.width, made.NETWORK.depth],
        "residual_points": made.POINTS,
        "steps": made.STEPS,
        "out": str(out),
        "slow": 0.15,
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
        while child.poll() is None and not list(Path(out).glob("checkpoint-*")):
            time.sleep(0.01)
        # The rest would take three seconds at least.
        time.sleep(random.uniform(0.0, 1.5))
    finally:
        child.kill()
        said, complaint = child.communicate()
    assert child.returncode == -signal.SIGKILL, complaint.decode()
    assert not list(Path(out).glob("*.json"))
    return said.decode().split()


def test_killed_at_a_random_moment(made, as_shipped, monkeypatch, tmp_path):  # noqa: ARG001
    options = dict(datasets=3, batch=2)
    wanted = undisturbed(made, tmp_path / "whole", **options)
    (tmp_path / "cut").mkdir()
    killed_at_random(made, tmp_path / "cut", batch=2)
    steps = []
    watch(monkeypatch, steps)
    made.tiny_train(out=tmp_path / "cut", **options)
    assert steps[0] > 0
    assert visible(tmp_path / "cut") == wanted


SPREAD = dict(datasets=3, workers=2)


@pytest.fixture(scope="module")
def spread(made, tmp_path_factory):
    """What two workers leave when nobody disturbs them."""
    return undisturbed(made, tmp_path_factory.mktemp("spread"), **SPREAD)


def test_killed_with_workers(made, spread, often, monkeypatch, tmp_path):  # noqa: ARG001
    """First the parent is killed, then one of the workers of the second attempt."""
    out = tmp_path / "cut"
    out.mkdir()
    pids = killed_at_random(made, out, workers=2)
    assert len(pids) == 2
    while any(alive(int(pid)) for pid in pids):  # workers end with their parent
        time.sleep(0.01)

    started, steps, start, save = [], [], workers._start, train_module.save_checkpoint

    def recorded(*arguments):
        started.append(start(*arguments))
        return started[-1]

    def killing(*arguments):
        save(*arguments)
        if started[1].poll() is None:
            os.kill(started[1].pid, signal.SIGKILL)
            started[1].wait()

    watch(monkeypatch, steps)
    monkeypatch.setattr(workers, "_start", recorded)
    monkeypatch.setattr(train_module, "save_checkpoint", killing)
    with pytest.raises(WorkerError, match=r"^training worker 1 ended with exit code -9; .*resumed"):
        made.tiny_train(out=out, **SPREAD)
    assert [process.returncode for process in started] == [-9, -9]
    assert all(process.stdin.closed and process.stdout.closed for process in started)
    assert list(visible(out)) == [path.name for path in out.glob("checkpoint-*")]

    monkeypatch.setattr(train_module, "save_checkpoint", save)
    made.tiny_train(out=out, **SPREAD)
    assert 0 < steps[0] < steps[1]
    assert visible(out) == spread


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


# ------------------------------------------------------------------ files


@pytest.fixture
def job(made):
    return Job(made.tiny_settings(precision="float32"), [made.tiny_spec()], (2,))


@pytest.fixture
def written(job, tmp_path):
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
    save_checkpoint(job, Progress(3, start.state, records, {2: kept}), tmp_path)
    return start, checkpoint_path(job, tmp_path)


def test_a_checkpoint_comes_back(job, written, tmp_path):
    start, _ = written
    found = load_checkpoint(job, start, tmp_path)
    assert found.step == 3
    assert [record["step"] for record in found.records] == [1, 2, 3]
    assert found.records[0]["loss_data"] == 0.5
    assert list(found.snapshots) == [2]
    left, right = (jax.tree.leaves(state) for state in (found.state, start.state))
    for a, b in zip(left, right, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_no_checkpoint(job, written, tmp_path):
    assert load_checkpoint(job, written[0], tmp_path / "elsewhere") is None


def refused(job, start, directory):
    with pytest.raises(InputError) as caught:
        load_checkpoint(job, start, directory)
    assert caught.value.wanted
    assert caught.value.got
    assert caught.value.fix
    return str(caught.value)


def test_every_changed_byte_is_refused(job, written, tmp_path):
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
        refused(job, start, tmp_path)


def test_every_truncation_is_refused(job, written, tmp_path):
    start, path = written
    content = path.read_bytes()
    for length in (0, 1, 7, 8, 9, 200, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        refused(job, start, tmp_path)


def test_a_damaged_checkpoint_is_told_about_before_the_training(made, stop, monkeypatch, tmp_path):
    stop("save_checkpoint", 2)
    with pytest.raises(Stopped):
        made.tiny_train(out=tmp_path)
    monkeypatch.undo()
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-9])
    monkeypatch.setattr(Job, "train", lambda *given: pytest.fail("trained"))  # noqa: ARG005
    with pytest.raises(InputError, match=r"unchanged checkpoint.*delete or move it"):
        made.tiny_train(out=tmp_path)
    monkeypatch.undo()
    made.tiny_train(out=tmp_path, overwrite=True)
    assert not list(tmp_path.glob("checkpoint-*"))


def test_a_checkpoint_of_another_configuration(made, job, written, tmp_path):
    start, path = written
    other = Job(job.settings, [made.tiny_spec(seed=1)], (2,))
    path.rename(checkpoint_path(other, tmp_path))
    assert "another configuration" in refused(other, start, tmp_path)
    with pytest.raises(InputError, match="another configuration"):
        train(
            "burgers",
            datasets=made.tiny_dataset(),
            seeds=1,
            snapshots=[2],
            out=tmp_path,
            **{**made.TINY, "steps": 10},
        )


def test_the_key_knows_everything(made, job):
    same = Job(made.tiny_settings(precision="float32"), [made.tiny_spec()], (2,))
    assert job_key(same) == job_key(job)
    others = [
        Job(made.tiny_settings(precision="float64"), job.specs, (2,)),
        Job(made.tiny_settings(precision="float32", steps=11), job.specs, (2,)),
        Job(job.settings, [made.tiny_spec(seed=1)], (2,)),
        Job(job.settings, [made.tiny_spec(number=1)], (2,)),
        Job(job.settings, [made.tiny_spec(), made.tiny_spec(seed=1)], (2,)),
        Job(job.settings, [made.tiny_spec(seed=1), made.tiny_spec()], (2,)),
        Job(job.settings, job.specs, (3,)),
        Job(job.settings, job.specs),
    ]
    assert len({job_key(each) for each in [job, *others]}) == 9


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
def test_checkpoints_that_were_written_anew(job, written, tmp_path, change):
    start, path = written
    with safe_open(path, framework="numpy") as stored:
        told, arrays = stored.metadata(), {n: stored.get_tensor(n) for n in stored.keys()}  # noqa: SIM118
    change(told, arrays)
    save_file({n: np.ascontiguousarray(a) for n, a in arrays.items()}, path, metadata=told)
    refused(job, start, tmp_path)


def test_a_directory_in_its_place(job, written, tmp_path):
    start, path = written
    path.unlink()
    path.mkdir()
    refused(job, start, tmp_path)


def test_other_checkpoints_are_left_alone(made, tmp_path):
    (tmp_path / "checkpoint-0123456789abcdef.safetensors").write_bytes(b"somebody else's")
    made.tiny_train(out=tmp_path)
    left = (tmp_path / "checkpoint-0123456789abcdef.safetensors").read_bytes()
    assert left == b"somebody else's"

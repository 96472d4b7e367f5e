"""The front door: which runs are trained, which are stored already, and in what order."""

import contextlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from pandas.testing import assert_frame_equal

import twoaxis as ta
from twoaxis.errors import DamageWarning, InputError
from twoaxis.parameters import Parameters
from twoaxis.runs import RunStore, engines, load_runs, table, train, train_specs
from twoaxis.runs.engines import InProcess, Local
from twoaxis.training import Network
from twoaxis.training.batch import Batch
from twoaxis.training.settings import run_key


def contents(directory):
    """All files in a directory and below it, by their paths there."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def no_training(monkeypatch):
    def fail(*arguments):  # noqa: ARG001
        pytest.fail("trained again")

    monkeypatch.setattr(Batch, "train", fail)


@pytest.fixture(scope="module")
def stored(made, tmp_path_factory):
    directory = tmp_path_factory.mktemp("stored")
    return directory, made.tiny_train(datasets=2, store=directory, snapshots=[5])


# ------------------------------------------------------------------ what is stored


def test_finished_runs_are_not_trained_again(made, stored, no_training):  # noqa: ARG001
    directory, runs = stored
    before = contents(directory)
    again = made.tiny_train(datasets=2, store=directory, snapshots=[5])
    assert [run.key for run in again] == [run.key for run in runs]
    for run, other in zip(runs, again, strict=True):
        made.assert_same_bits(run, other)
    # Fewer snapshots than are there, another order, another backend: the same runs.
    made.tiny_train(datasets=2, store=directory, batch=2)
    reverse = [made.tiny_dataset("burgers", n) for n in (1, 0)]
    again = made.tiny_train(datasets=reverse, store=directory)
    assert [run.key for run in again] == [run.key for run in runs][::-1]
    assert contents(directory) == before


def test_files_of_a_finished_training(stored):
    directory, runs = stored
    wanted = {
        f"{run.key[-12:-10]}/{run.key}/{name}"
        for run in runs
        for name in ("run.json", "arrays.safetensors")
    }
    assert set(contents(directory)) == wanted
    shards = {run.key[-12:-10] for run in runs}
    assert {path.name for path in directory.iterdir()} <= shards | {"checkpoints"}


def test_only_what_is_missing_is_trained(made, monkeypatch, tmp_path):
    made.tiny_train(datasets=[made.tiny_dataset("burgers", 1)], store=tmp_path)
    before = contents(tmp_path)
    trained, original = [], Batch.train

    def watched(self, *arguments):
        trained.extend(spec.dataset.label for spec in self.specs)
        return original(self, *arguments)

    monkeypatch.setattr(Batch, "train", watched)
    runs = made.tiny_train(datasets=3, store=tmp_path)
    assert trained == ["tiny0", "tiny2"]
    assert [run.dataset.label for run in runs] == ["tiny0", "tiny1", "tiny2"]
    after = contents(tmp_path)
    assert {name: after[name] for name in before} == before


def test_missing_snapshots_are_not_trained_without_being_told(made, tmp_path):
    first = made.tiny_train(store=tmp_path)[0]
    before = contents(tmp_path)
    with pytest.raises(InputError, match="snapshots at the steps 3"):
        made.tiny_train(store=tmp_path, snapshots=[3])
    assert contents(tmp_path) == before
    second = made.tiny_train(store=tmp_path, snapshots=[3], overwrite=True)[0]
    assert second.key == first.key
    assert [s.step for s in RunStore(tmp_path).load(first.key).snapshots] == [3]
    assert_array_equal(second.final.layers[0][0], first.final.layers[0][0])


def test_overwrite(made, tmp_path, monkeypatch):
    first = made.tiny_train(store=tmp_path)[0]
    before = contents(tmp_path)
    for name in before:
        (tmp_path / name).write_bytes(b"spoiled")
    count, original = [], Batch.train

    def watched(self, *arguments):
        count.append(len(self.specs))
        return original(self, *arguments)

    monkeypatch.setattr(Batch, "train", watched)
    again = made.tiny_train(store=tmp_path, overwrite=True)[0]
    assert count == [1]
    made.assert_same_bits(again, first)
    assert contents(tmp_path) == before


def test_other_runs_in_the_directory_are_left_alone(made, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    made.tiny_train(store=tmp_path, seeds=1)
    before = contents(tmp_path)
    for options in (dict(seeds=2), dict(seeds=2, overwrite=True), dict(seeds=3, overwrite=True)):
        made.tiny_train(store=tmp_path, **options)
    after = contents(tmp_path)
    assert {name: after[name] for name in before} == before
    assert len(load_runs(tmp_path)) == 3


def test_what_a_killed_process_left_is_removed_when_it_is_old(made, tmp_path):
    run = made.tiny_train(store=tmp_path)[0]
    shard = RunStore(tmp_path).path(run.key).parent
    places = [tmp_path, tmp_path / "checkpoints", shard]
    old = [place / ".twoaxis-old.safetensors" for place in places]
    new = [place / ".twoaxis-new.safetensors" for place in places]
    for path in (*old, *new):
        path.write_bytes(b"half")
    half = shard / ".twoaxis-0123456789abcdef"
    half.mkdir()
    (half / "arrays.safetensors").write_bytes(b"half")
    then = time.time() - 7200
    for path in (*old, half):
        os.utime(path, (then, then))
    made.tiny_train(store=tmp_path)
    assert not any(path.exists() for path in (*old, half))
    assert all(path.exists() for path in new)  # perhaps another process is just writing it


# ------------------------------------------------------------------ damage


def spoiled(path):
    """Change one byte in the middle of a file, and return what it holds then."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    return bytes(content)


@pytest.mark.parametrize("name", ["run.json", "arrays.safetensors"])
def test_a_damaged_run_is_set_aside_and_made_again(made, tmp_path, name):
    runs = made.tiny_train(datasets=2, store=tmp_path, batch=1)
    before = contents(tmp_path)
    bad, good = RunStore(tmp_path).path(runs[0].key), RunStore(tmp_path).path(runs[1].key)
    untouched = good.stat().st_mtime_ns
    damaged = spoiled(bad / name)
    with pytest.warns(DamageWarning, match=f"{bad.name} is damaged") as told:
        again = made.tiny_train(datasets=2, store=tmp_path, batch=1)
    assert len(told) == 1
    for run, other in zip(runs, again, strict=True):
        made.assert_same_bits(run, other)
    found = contents(tmp_path)
    aside = f"damaged/{bad.name}.1"
    assert found.pop(f"{aside}/{bad.name}/{name}") == damaged
    assert found.pop(f"{aside}/reason.txt").decode().strip() in str(told[0].message)
    other = {"run.json": "arrays.safetensors", "arrays.safetensors": "run.json"}[name]
    assert (
        found.pop(f"{aside}/{bad.name}/{other}") == before[f"{bad.parent.name}/{bad.name}/{other}"]
    )
    assert found == before
    assert good.stat().st_mtime_ns == untouched
    assert [run.key for run in load_runs(tmp_path)] == sorted(run.key for run in runs)


def test_damage_is_no_reason_to_use_less_than_was_asked_for(made, tmp_path):
    """Damaged a second time, the run is made a second time, and both copies are kept."""
    first = made.tiny_train(store=tmp_path)[0]
    for number in (1, 2):
        spoiled(RunStore(tmp_path).path(first.key) / "arrays.safetensors")
        with pytest.warns(DamageWarning, match=f"{first.key}.{number}"):
            made.assert_same_bits(made.tiny_train(store=tmp_path)[0], first)
    names = {path.name for path in (tmp_path / "damaged").iterdir()}
    assert names == {f"{first.key}.1", f"{first.key}.2"}


def test_overwrite_does_not_ask_whether_there_was_damage(made, tmp_path):
    first = made.tiny_train(store=tmp_path)[0]
    before = contents(tmp_path)
    spoiled(RunStore(tmp_path).path(first.key) / "arrays.safetensors")
    made.tiny_train(store=tmp_path, overwrite=True)
    assert contents(tmp_path) == before


def test_a_file_in_the_place_of_a_directory_is_told_before_the_training(
    made,
    stored,
    no_training,  # noqa: ARG001
    tmp_path,
):
    key = stored[1][0].key
    (tmp_path / key[-12:-10]).write_text("mine")
    with pytest.raises(InputError, match="directories of its own"):
        made.tiny_train(store=tmp_path)
    assert contents(tmp_path) == {key[-12:-10]: b"mine"}


def test_two_trainings_of_the_same_runs_at_once(made, tmp_path):
    """Both have all runs, and one set of them is stored."""
    alone = made.tiny_train(datasets=2, store=tmp_path / "alone")
    with ThreadPoolExecutor(2) as threads:
        calls = [
            threads.submit(made.tiny_train, datasets=2, store=tmp_path / "both") for _ in range(2)
        ]
        found = [call.result() for call in calls]
    for runs in found:
        for run, other in zip(runs, alone, strict=True):
            made.assert_same_bits(run, other)
    assert contents(tmp_path / "both") == contents(tmp_path / "alone")


def test_a_directory_is_made(made, tmp_path):
    run = made.tiny_train(store=tmp_path / "new" / "inside")[0]
    assert RunStore(tmp_path / "new" / "inside").keys() == [run.key]


# ------------------------------------------------------------------ keys


def test_a_key_holds_all_that_defines_a_run(made):
    settings, spec = made.tiny_settings(), made.tiny_spec()
    values = spec.dataset.values.copy()
    values[0] += 1e-6
    moved = spec.dataset.coordinates.copy()
    moved[0, 0] += 1e-6
    settings_of = {
        "method": made.tiny_settings(method="adam"),
        "options": made.tiny_settings(method=ta.training.methods.RBA(decay=0.9)),
        "network": replace(settings, network=Network(6, 3)),
        "steps": replace(settings, steps=11),
        "conditions": replace(settings, conditions="exact"),
        "precision": replace(settings, precision="float32"),
        "learning_rate": replace(settings, learning_rate=2e-3),
        "physics_weight": replace(settings, physics_weight=1.0),
        "residual_points": replace(settings, residual_points=41),
        "boundary_weight": replace(settings, boundary_weight=0.5),
        "warmup": replace(settings, warmup=0.1),
    }
    specs = {
        "seed": replace(spec, seed=1),
        "start": replace(spec, start={"nu": 0.03}),
        "fixed": replace(spec, fixed=frozenset({"nu"})),
        "dataset": made.tiny_spec(number=1),
        "values": replace(spec, dataset=replace(spec.dataset, values=values)),
        "coordinates": replace(spec, dataset=replace(spec.dataset, coordinates=moved)),
    }
    keys = [run_key(settings, spec)]
    keys += [run_key(other, spec) for other in settings_of.values()]
    keys += [run_key(settings, other) for other in specs.values()]
    assert len(set(keys)) == 1 + len(settings_of) + len(specs)
    assert keys[0] == run_key(made.tiny_settings(), made.tiny_spec())


def test_a_key_is_the_same_on_processors_that_round_otherwise(made):
    settings, spec = made.tiny_settings(), made.tiny_spec()
    rounded = np.nextafter(spec.dataset.values, np.inf)
    other = replace(spec, dataset=replace(spec.dataset, values=rounded))
    assert not (rounded == spec.dataset.values).any()
    assert run_key(settings, other) == run_key(settings, spec)


def test_a_key_leaves_out_what_does_not_reach_the_training(made):
    settings, spec = made.tiny_settings(), made.tiny_spec()
    words = {n: replace(p, unit="m2/s", label="ν") for n, p in settings.problem.parameters.items()}
    renamed = replace(settings, problem=replace(settings.problem, parameters=Parameters(words)))
    assert run_key(renamed, spec) == run_key(settings, spec)
    moved = {n: replace(p, bounds=(0.001, 0.1)) for n, p in settings.problem.parameters.items()}
    wider = replace(settings, problem=replace(settings.problem, parameters=Parameters(moved)))
    assert run_key(wider, spec) != run_key(settings, spec)


@pytest.mark.parametrize("label", ["../../etc", "a b", "", "ü" * 300, "x/y\0z"])
def test_a_key_is_a_file_name(made, label):
    spec = made.tiny_spec()
    key = run_key(made.tiny_settings(), replace(spec, dataset=replace(spec.dataset, label=label)))
    assert "/" not in key
    assert "\0" not in key
    assert len(key) < 200
    assert key.isascii()


# ------------------------------------------------------------------ datasets, seeds, defaults


def test_published_datasets_are_the_default(made, monkeypatch):
    asked = []
    monkeypatch.setattr(Batch, "train", lambda self, *given: asked.extend(self.specs) or stop())  # noqa: ARG005
    with pytest.raises(StopIteration):
        train("burgers", batch=4, **{**made.TINY, "steps": 2})
    assert [spec.dataset.label for spec in asked] == ["8", "9", "10", "11"]
    published = ta.published_dataset("burgers", 9)
    assert_array_equal(asked[1].dataset.values, published.values)


def stop():
    raise StopIteration


def captured(monkeypatch, *arguments, **options):
    """The job that a call would train."""
    jobs = []

    def take(self, *given):  # noqa: ARG001
        jobs.append(self)
        stop()

    monkeypatch.setattr(Batch, "train", take)
    with pytest.raises(StopIteration):
        train(*arguments, progress=False, **{"batch": 100, **options})
    return jobs[0]


def test_the_published_protocol_is_the_default(made, monkeypatch):
    settings = captured(monkeypatch, "burgers", datasets=made.tiny_dataset()).settings
    assert (settings.steps, settings.learning_rate, settings.physics_weight) == (5000, 1e-3, 2.0)
    assert settings.network == Network(64, 3)
    assert (settings.residual_points, settings.precision) == (2000, "float32")
    assert (settings.conditions, settings.method.name) == ("soft", "rba")
    assert not settings.has_boundary_term
    settings = captured(monkeypatch, "darcy", datasets=made.tiny_dataset("darcy")).settings
    assert settings.network == Network(64, 4)
    assert (settings.residual_points, settings.boundary_points) == (2048, 512)
    assert settings.has_boundary_term


def test_datasets_and_seeds_of_any_kind(made, monkeypatch):
    def asked(**options):
        tiny = {name: made.TINY[name] for name in ("network", "residual_points")}
        job = captured(monkeypatch, "burgers", steps=2, **tiny, **options)
        return [(spec.dataset.label, int(spec.seed)) for spec in job.specs]

    first, second = (made.tiny_dataset("burgers", n) for n in range(2))
    assert asked(datasets=8, seeds=3) == [("8", 3)]
    assert asked(datasets=np.int64(8), seeds=np.int64(3)) == [("8", 3)]
    mixed = [8, ta.published_dataset("burgers", 10)]
    assert asked(datasets=mixed, seeds=[1]) == [("8", 1), ("10", 1)]
    assert asked(datasets=range(8, 10), seeds=(1,)) == [("8", 1), ("9", 1)]
    wanted = [("tiny0", 0), ("tiny0", 1), ("tiny1", 0), ("tiny1", 1)]
    assert asked(datasets=[first, second], seeds=range(2)) == wanted
    assert asked(datasets=(d for d in (first, second)), seeds=iter([0, 1])) == wanted
    assert asked(datasets=[first], seeds=np.arange(2)) == wanted[:2]


def test_sweeps_in_which_starts_differ(made):
    settings = made.tiny_settings(precision="float32", steps=3)
    specs = [
        made.tiny_spec(fixed={"nu": 0.01}),
        made.tiny_spec(fixed={"nu": 0.03}),
        made.tiny_spec(start={"nu": 0.03}),
    ]
    runs = train_specs(settings, specs, progress=False, batch=3)
    assert [run.delivered["nu"] for run in runs[:2]] == [0.01, 0.03]
    assert runs[2].delivered["nu"] != 0.03
    assert_array_equal(runs[0].points, runs[1].points)
    losses = [run.history["loss_residual"].iloc[0] for run in runs]
    assert losses[0] != losses[1] == losses[2]


def test_snapshots(made, monkeypatch):
    def asked(snapshots):
        options = dict(datasets=made.tiny_dataset(), residual_points=40, steps=24)
        return captured(monkeypatch, "burgers", snapshots=snapshots, **options).snapshot_steps

    assert [asked(given) for given in (0, 1, 5, [3, 1, 3], (24,), np.int64(2))] == [
        (),
        (24,),
        (5, 10, 14, 19, 24),
        (1, 3),
        (24,),
        (12, 24),
    ]


def test_progress_is_reported(made, monkeypatch):
    seen = []

    @contextlib.contextmanager
    def bar(title, total, show):
        seen.append((title, total, show))
        yield lambda steps, note="": seen.append((steps, note))

    monkeypatch.setattr(sys.modules["twoaxis.runs.train"], "progress_bar", bar)
    made.tiny_train(datasets=2, progress=True)
    (title, total, shown), *steps = seen
    assert title.startswith("Burgers, 2 runs, ")
    assert (total, shown) == (2 * 24, True)
    assert sum(step for step, _ in steps) == total
    notes = [note for step, note in steps if step]
    assert all(note.startswith("loss ") and ", nu " in note for note in notes)


def test_datasets_of_different_size_are_trained_one_by_one(made):
    datasets = [made.tiny_dataset(), made.tiny_dataset("burgers", 1, 21)]
    runs = made.tiny_train(datasets=datasets)
    assert [len(run.dataset.values) for run in runs] == [20, 21]


# ------------------------------------------------------------------ engines and failures


def test_the_choice_of_an_engine(made, monkeypatch):
    monkeypatch.setattr(engines, "cores", lambda: 4)
    monkeypatch.setattr(engines, "find_gpu", lambda device: None)  # noqa: ARG005
    small = made.tiny_settings()
    large = made.tiny_settings(network=Network(64, 3), residual_points=2000, steps=5000)

    def chosen(settings, runs, workers=None, batch=None):
        return engines.choose_engine(settings, runs, "auto", workers, batch)

    here = InProcess()
    assert chosen(small, 8) == here
    assert chosen(large, 8) == Local(4)
    assert chosen(large, 3) == Local(3)
    assert chosen(large, 1) == chosen(large, 8, batch=3) == chosen(large, 8, workers=1) == here
    assert chosen(small, 8, workers=np.int64(2)) == chosen(small, 2, workers=7) == Local(2)
    monkeypatch.setattr(engines, "find_gpu", lambda device: "a GPU")  # noqa: ARG005
    assert chosen(large, 8) == here


class FailsFor:
    """A view rule that cannot be used for one of the runs."""

    def __init__(self, label):
        self.label = label

    def describe(self):
        return "as told"

    def execute(self, tasks, work, report):
        def failing(task, backend, tell):
            if task.batch.specs[0].dataset.label == self.label:
                raise OSError("no power\nhere")
            return work(task, backend, tell)

        return InProcess().execute(tasks, failing, report)


def test_a_run_that_failed_is_a_row_and_can_be_saved(made, tmp_path):
    runs = made.tiny_train(datasets=2, engine=FailsFor("tiny1"))
    assert len(runs) == 2
    assert runs[0].finished
    assert runs.failures["status"].tolist() == ["OSError: no power here"]
    assert runs.failures["nu"].isna().all()
    assert runs.work["attempts"].tolist() == [1, 1]
    assert repr(runs) == "<Runs: 2 of burgers; 1 finished, 1 failed>"
    with pytest.raises(InputError, match="no power here"):
        runs[1]
    loaded = ta.load(runs.save(tmp_path / "runs.nc"))
    assert_frame_equal(loaded.to_dataframe(), runs.to_dataframe())
    assert_frame_equal(loaded.summary(), runs.summary())
    with pytest.raises(InputError, match=r"load_runs"):
        loaded[0]


def test_when_every_run_fails_the_first_error_is_raised(made):
    with pytest.raises(OSError, match="no power"):
        made.tiny_train(engine=FailsFor("tiny0"))


def test_runs_are_read_from_the_store_when_they_are_used(made, tmp_path, monkeypatch):
    monkeypatch.setattr(table, "KEPT_RUNS", 1)
    monkeypatch.setattr(sys.modules["twoaxis.runs.train"], "KEPT_RUNS", 1)
    alone = made.tiny_train(datasets=3)
    stored = made.tiny_train(datasets=3, store=RunStore(tmp_path, create=True))
    for runs in (stored, load_runs(tmp_path)):
        assert runs[2] is runs[2]
        by_key = {run.key: run for run in runs}
        for run in alone:
            made.assert_same_bits(run, by_key[run.key])
        assert [run.key for run in runs[1:]] == list(runs.keys[1:])

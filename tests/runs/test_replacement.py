"""Replacing a run: whatever happens at whatever moment, one sound run of that key is left."""

import errno
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from twoaxis.runs import RunStore, load_runs, save_run
from twoaxis.runs import run_file as moving
from twoaxis.runs.run_file import ARRAYS, load_run, taken_back


@pytest.fixture
def run(trained):
    return trained["rba"][0]


@pytest.fixture
def store(run, tmp_path):
    made = RunStore(tmp_path / "store", create=True)
    made.save(run)
    return made


@pytest.fixture(params=["exchange", "two renames"])
def way(request, monkeypatch):
    """Names change places, or cannot."""
    if request.param == "two renames":
        monkeypatch.setattr(moving, "exchange", lambda *names: False)  # noqa: ARG005
    elif not sys.platform.startswith("linux"):
        pytest.skip("only Linux lets names change places")
    return request.param


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def shorter(run):
    return replace(run, snapshots=run.snapshots[:1])


def test_a_run_is_replaced_and_nothing_else_is_left(made, store, run, way):  # noqa: ARG001
    store.save(shorter(run), overwrite=True)
    made.assert_same_bits(store.load(run.key), shorter(run))
    assert names(store.path(run.key).parent) == [run.key]


@pytest.mark.parametrize("there", ["nothing", "a file", "a link"])
def test_what_is_no_run_is_replaced_too(made, store, run, tmp_path, way, there):  # noqa: ARG001
    place = store.path(run.key)
    place.rename(tmp_path / "elsewhere")
    if there == "a file":
        place.write_text("mine")
    elif there == "a link":
        place.symlink_to(tmp_path / "elsewhere")
    store.save(shorter(run), overwrite=True)
    made.assert_same_bits(store.load(run.key), shorter(run))
    assert names(place.parent) == [run.key]
    made.assert_same_bits(replace_key(load_run, tmp_path / "elsewhere", run), run)


def replace_key(load, path, run):
    """Load a run that lies under another name than its own."""
    path.rename(path.with_name(run.key))
    return load(path.with_name(run.key))


def test_names_that_change_places(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    changed = moving.exchange(tmp_path / "a", tmp_path / "b")
    assert changed or not sys.platform.startswith("linux")
    assert names(tmp_path / "a") == ["b" if changed else "a"]
    assert not moving.exchange(tmp_path / "a", tmp_path / "missing")
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs names that change places")
def test_there_is_a_run_all_along(store, run):
    place, stop, missing = store.path(run.key), threading.Event(), []

    def watch():
        while not stop.is_set():
            if not os.path.lexists(place):
                missing.append(time.monotonic())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for number in range(60):
            store.save(run if number % 2 else shorter(run), overwrite=True)
    finally:
        stop.set()
        watcher.join()
    assert missing == []


# ------------------------------------------------------------------ killed between two renames

KILLED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from twoaxis.runs import RunStore
from twoaxis.runs import run_file as moving
store, key, way = RunStore(sys.argv[1]), sys.argv[2], sys.argv[3]
run = store.load(key)
original = getattr(moving, "exchange") if way == "exchange" else Path.rename

def last(*names):
    original(*names)
    os.kill(os.getpid(), signal.SIGKILL)

if way == "exchange":
    moving.exchange = last
else:
    moving.exchange = lambda *names: False
    Path.rename = last
store.save(replace(run, snapshots=run.snapshots[:1]), overwrite=True)
"""


def killed(store, run, way):
    """Replace a run in a process that is killed right after the first name has changed."""
    command = [sys.executable, "-c", KILLED, str(store.directory), run.key, way]
    assert subprocess.run(command, check=False).returncode == -9


def grown_old(store):
    for path in store.directory.rglob(".twoaxis-*"):
        os.utime(path, (0, 0))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs names that change places")
def test_killed_after_the_exchange(made, store, run):
    killed(store, run, "exchange")
    made.assert_same_bits(store.load(run.key), shorter(run))
    grown_old(store)
    store.tidy([run.key])
    made.assert_same_bits(store.load(run.key), shorter(run))
    assert names(store.path(run.key).parent) == [run.key]


def test_killed_between_two_renames(made, store, run):
    killed(store, run, "two renames")
    assert not store.holds(run.key)
    store.tidy([run.key])  # a moment later: another process may still be at it
    assert not store.holds(run.key)
    grown_old(store)
    store.tidy([run.key])
    made.assert_same_bits(store.load(run.key), run)
    assert names(store.path(run.key).parent) == [run.key]


def test_a_run_that_cannot_be_put_back_is_kept(made, store, run, monkeypatch):
    """The disk fails after the first rename, and for every one that follows."""
    rename, calls = Path.rename, []

    def failing(path, target):
        calls.append(path)
        if len(calls) > 1:
            raise OSError(errno.EIO, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(moving, "exchange", lambda *names: False)  # noqa: ARG005
    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="Input/output"):
        store.save(shorter(run), overwrite=True)
    monkeypatch.undo()
    assert len(calls) == 3
    assert not store.holds(run.key)
    grown_old(store)
    store.tidy([run.key])
    made.assert_same_bits(store.load(run.key), run)
    assert names(store.path(run.key).parent) == [run.key]


def moved_aside(store, run):
    """As a killed process leaves it."""
    aside = store.path(run.key).parent / ".twoaxis-aside"
    aside.mkdir()
    return store.path(run.key).rename(aside / run.key)


def test_a_newer_run_stays_where_it_is(made, store, run):
    moved_aside(store, run)
    store.save(shorter(run))
    grown_old(store)
    store.tidy([run.key])
    made.assert_same_bits(store.load(run.key), shorter(run))
    assert names(store.path(run.key).parent) == [run.key]


def test_a_damaged_run_is_not_taken_back(store, run):
    aside = moved_aside(store, run)
    (aside / ARRAYS).write_bytes(b"")
    assert not taken_back(aside.parent)
    assert not store.holds(run.key)


def test_other_temporaries_hold_no_run(tmp_path):
    (tmp_path / ".twoaxis-1").mkdir()
    (tmp_path / ".twoaxis-1" / "notes").write_text("")
    (tmp_path / ".twoaxis-2").write_text("")
    (tmp_path / ".twoaxis-3").symlink_to(tmp_path / ".twoaxis-1")
    for number in (1, 2, 3):
        assert not taken_back(tmp_path / f".twoaxis-{number}")


# ------------------------------------------------------------------ one layout for all


def test_a_saved_run_lies_where_runs_are_looked_for(made, run, tmp_path):
    place = save_run(run, tmp_path / "new" / "runs")
    assert place == RunStore(tmp_path / "new" / "runs").path(run.key)
    (found,) = load_runs(tmp_path / "new" / "runs")
    made.assert_same_bits(found, run)
    save_run(shorter(run), tmp_path / "new" / "runs")
    made.assert_same_bits(load_run(place), run)  # the first one stays
    save_run(shorter(run), tmp_path / "new" / "runs", overwrite=True)
    made.assert_same_bits(load_run(place), shorter(run))
    assert Path(place).parent.parent == tmp_path / "new" / "runs"

"""A directory of runs: many writers, nothing lost, and nothing used that is damaged."""

import errno
import os
import shutil
import threading
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from together import at_once

from twoaxis.errors import DamageWarning, InputError
from twoaxis.runs import DamagedRunError, RunStore, load_runs
from twoaxis.runs import run_file as storage
from twoaxis.runs.run_file import ARRAYS, MANIFEST
from twoaxis.runs.store import set_aside


@pytest.fixture
def run(trained):
    return trained["rba"][0]


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path / "store", create=True)


@pytest.fixture
def held(store, run):
    """A store with one run."""
    store.save(run)
    return store


def contents(directory):
    """All that lies in a directory, by its path there; None stands for what is no plain file."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


def spoil(store, key, name=ARRAYS):
    path = store.path(key) / name
    path.write_bytes(path.read_bytes()[:-2])


# ------------------------------------------------------------------ where runs lie


def test_a_run_comes_back(made, held, run):
    place = held.directory / run.key[-12:-10] / run.key
    assert held.path(run.key) == place
    assert sorted(contents(held.directory)) == sorted(
        str(path.relative_to(held.directory))
        for path in (place.parent, place, place / ARRAYS, place / MANIFEST)
    )
    assert held.holds(run.key)
    assert held.keys() == [run.key]
    made.assert_same_bits(held.load(run.key), run)
    made.assert_same_bits(held.found(run.key), run)


@pytest.mark.parametrize(
    ("key", "shard"),
    [
        ("burgers-rba-d8-s0-87594ad197f0", "87"),
        ("a-00ff00ff00ff", "00"),
        ("mine", "00"),
        ("mine-of-some-length", "00"),
        ("a-XY594ad197f0", "00"),
        ("a-8G594ad197f0", "00"),
        ("7594ad197f0", "00"),
        ("87594ad197f0", "87"),
    ],
)
def test_any_key_has_one_place(store, run, key, shard):
    assert store.path(key) == store.directory / shard / key
    store.save(replace(run, key=key))
    assert store.keys() == [key]
    assert store.load(key).key == key


def test_runs_are_spread_over_directories(store, trained):
    runs = [run for name in ("rba", "patch") for run in trained[name]]
    for each in runs:
        store.save(each)
    shards = {path.name for path in store.directory.iterdir()}
    assert shards == {each.key[-12:-10] for each in runs}
    assert len(shards) > 1


def test_what_is_not_there(store, run):
    assert not store.holds(run.key)
    assert store.found(run.key) is None
    assert store.keys() == []
    with pytest.raises(InputError, match="directory of a run"):
        store.load(run.key)
    assert contents(store.directory) == {}


def test_the_run_that_is_there_stays_unless_it_is_replaced(held, run):
    before = contents(held.directory)
    fewer = replace(run, snapshots=run.snapshots[:1])
    assert held.save(fewer) == held.path(run.key)
    assert contents(held.directory) == before
    assert held.save(fewer, overwrite=True) == held.path(run.key)
    assert len(held.load(run.key).snapshots) == 1


BAD_KEYS = {
    "nothing": "",
    "a dot": ".",
    "the directory above": "..",
    "a path": "a/b",
    "a path that leaves": "../../etc",
    "a path from the root": "/abs",
    "a hidden name": ".hidden",
    "a NUL": "a\0b",
    "a long name": "a" * 300,
    "a dot at its end": "a.",
    "None": None,
    "a path object": Path("a"),
}
CALLS = {
    "path": lambda store, key: store.path(key),
    "holds": lambda store, key: store.holds(key),
    "load": lambda store, key: store.load(key),
    "found": lambda store, key: store.found(key),
    "set_aside": lambda store, key: store.set_aside(key, "why"),
    "tidy": lambda store, key: store.tidy([key]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("key", BAD_KEYS.values(), ids=BAD_KEYS)
def test_keys_that_would_leave_the_store(store, key, call):
    with pytest.raises(InputError, match="the key of a run"):
        call(store, key)
    assert contents(store.directory.parent) == {"store": None}


def test_what_is_no_run_is_not_listed(made, held, run):
    shard = held.path(run.key).parent
    for name in ("notes", ".hidden", ".twoaxis-0123", "a b", "x."):
        (shard / name).mkdir()
    (shard / "notes").rmdir()
    (shard / "notes").write_text("mine")
    (held.directory / "ab").write_text("mine")
    (held.directory / "elsewhere").mkdir()
    wrong = held.directory / ("00" if shard.name != "00" else "01") / run.key
    shutil.copytree(held.path(run.key), wrong)  # where nobody looks for it
    assert held.keys() == [run.key]
    (loaded,) = load_runs(held.directory)
    made.assert_same_bits(loaded, run)


def test_a_store_may_be_a_link(made, held, run, tmp_path):
    (tmp_path / "link").symlink_to(held.directory)
    made.assert_same_bits(RunStore(tmp_path / "link").load(run.key), run)


@pytest.mark.parametrize("create", [False, True])
def test_places_that_are_no_store(tmp_path, create):
    (tmp_path / "file").write_text("")
    for where in (tmp_path / "file", tmp_path / ("x" * 300), "a\0b", 3, None):
        with pytest.raises(InputError, match="directory"):
            RunStore(where, create=create)


def test_a_store_is_made_where_it_is_asked_for(tmp_path):
    with pytest.raises(InputError, match="directory of runs"):
        RunStore(tmp_path / "new" / "inside")
    assert RunStore(tmp_path / "new" / "inside", create=True).keys() == []


# ------------------------------------------------------------------ all runs of a directory


def test_several_runs(made, store, trained):
    runs = [run for name in ("rba", "patch") for run in trained[name]]
    for run in runs:
        store.save(run)
    (store.directory / "notes.json").write_text("{")
    loaded = load_runs(store.directory)
    assert [run.key for run in loaded] == sorted(run.key for run in runs)
    for run in runs:
        (same,) = [other for other in loaded if other.key == run.key]
        made.assert_same_bits(same, run)


def test_directories_without_runs(tmp_path):
    (tmp_path / "file").write_text("")
    for where in (tmp_path, tmp_path / "nothing", tmp_path / "file", 3, None):
        with pytest.raises(InputError, match=r"directory"):
            load_runs(where)


@pytest.mark.parametrize("name", [MANIFEST, ARRAYS])
def test_a_damaged_run_is_not_overlooked(held, run, name):
    (held.path(run.key) / name).unlink()
    before = contents(held.directory)
    with pytest.raises(DamagedRunError, match="unchanged run"):
        load_runs(held.directory)
    assert contents(held.directory) == before  # a reader changes nothing


# ------------------------------------------------------------------ damage


DAMAGE = {
    "cut arrays": spoil,
    "cut manifest": partial(spoil, name=MANIFEST),
    "no arrays": lambda store, key: (store.path(key) / ARRAYS).unlink(),
    "no manifest": lambda store, key: (store.path(key) / MANIFEST).unlink(),
    "a file in its place": lambda store, key: replaced(store.path(key)).write_text("mine"),
    "an empty directory": lambda store, key: replaced(store.path(key)).mkdir(),
    "a link to nothing": lambda store, key: replaced(store.path(key)).symlink_to("nothing"),
    "a link to a run": lambda store, key: linked(store.path(key)),
    "a pipe": lambda store, key: os.mkfifo(replaced(store.path(key))),
    "a pipe as manifest": lambda store, key: os.mkfifo(replaced(store.path(key) / MANIFEST)),
}


def replaced(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return path


def linked(path):
    elsewhere = path.parents[2] / "elsewhere" / path.name
    elsewhere.parent.mkdir()
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def looked_at(path):
    """What lies at a place, whatever it is."""
    if path.is_symlink():
        return path.readlink()
    return path.read_bytes() if path.is_file() else contents(path)


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_run_is_set_aside_and_can_be_made_again(made, held, run, damage):
    damage(held, run.key)
    before = looked_at(held.path(run.key))
    with pytest.warns(DamageWarning, match=f"{run.key} is damaged") as told:
        assert held.found(run.key) is None
    assert len(told) == 1
    place = held.directory / "damaged" / f"{run.key}.1"
    assert str(place) in str(told[0].message)
    assert sorted(path.name for path in place.iterdir()) == [run.key, "reason.txt"]
    reason = (place / "reason.txt").read_text()
    assert reason.startswith(repr(str(held.path(run.key))))
    assert reason.strip() in str(told[0].message)
    assert looked_at(place / run.key) == before
    assert not os.path.lexists(held.path(run.key))
    assert held.keys() == []
    held.save(run)
    made.assert_same_bits(held.found(run.key), run)


def test_every_damaged_copy_is_kept(held, run):
    for number in (1, 2, 3):
        (held.path(run.key) / MANIFEST).write_text(f"damage {number}")
        with pytest.warns(DamageWarning, match=f"{run.key}.{number}"):
            held.found(run.key)
        held.save(run)
    for number in (1, 2, 3):
        place = held.directory / "damaged" / f"{run.key}.{number}"
        assert (place / run.key / MANIFEST).read_text() == f"damage {number}"


def test_what_is_no_damage_is_not_set_aside(held, run, monkeypatch):
    """A lack of permission, of file handles, or of the problem tells nothing about the run."""
    before, opened = contents(held.directory), os.open

    def denied(path, *given, **options):
        if Path(path).name == ARRAYS:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *given, **options)

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(InputError, match="Permission denied"):
        held.found(run.key)
    monkeypatch.undo()
    monkeypatch.setattr(storage, "PROBLEMS", {})
    with pytest.raises(InputError, match="the problem burgers"):
        held.found(run.key)
    assert contents(held.directory) == before


def test_a_reason_may_hold_any_text(held, run):
    place = held.set_aside(run.key, "grün \udcff")
    assert (place / "reason.txt").read_text(encoding="utf-8") == "grün \\udcff\n"


def test_what_cannot_be_set_aside_stays(held, run, monkeypatch):
    spoil(held, run.key)
    before = contents(held.directory)

    def full(*given):  # noqa: ARG001
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("write_text", "rename"):
        monkeypatch.setattr(Path, name, full)
        with pytest.raises(OSError, match="No space"):
            held.set_aside(run.key, "why")
        with pytest.raises(DamagedRunError, match="unchanged run"):
            held.found(run.key)
        monkeypatch.undo()
        assert contents(held.directory) == before | {"damaged": None}


def test_one_of_many_callers_sets_a_damaged_run_aside(held, run):
    for number in range(1, 31):
        spoil(held, run.key)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamageWarning)
            assert at_once(*[partial(held.found, run.key)] * 6) == [None] * 6
        places = list((held.directory / "damaged").iterdir())
        assert len(places) == number  # nothing twice, and no empty directory
        for place in places:
            assert sorted(path.name for path in place.iterdir()) == [run.key, "reason.txt"]
            assert (place / run.key / ARRAYS).exists()
        held.save(run)


def test_callers_that_set_aside_different_things_take_different_places(store):
    for number in range(20):
        things = [store.directory / f"{number}-{each}" / "same" for each in range(5)]
        for thing in things:
            thing.parent.mkdir()
            thing.write_text(str(thing))
        calls = [partial(set_aside, thing, store.directory, str(thing)) for thing in things]
        places = at_once(*calls)
        assert len(set(places)) == 5
        for thing, place in zip(things, places, strict=True):
            assert (place / "same").read_text() == str(thing)
            assert (place / "reason.txt").read_text() == f"{thing}\n"


def test_finding_beside_replacing_sets_nothing_aside(held, run):
    """A run that is replaced at this moment is not damaged."""
    runs = [replace(run, snapshots=run.snapshots[:count]) for count in (1, 2)]
    stop = threading.Event()

    def write():
        try:
            for number in range(60):
                held.save(runs[number % 2], overwrite=True)
        finally:
            stop.set()

    def find():
        while not stop.is_set():
            held.found(run.key)  # a warning would be an error

    at_once(write, find, find)
    assert not (held.directory / "damaged").exists()
    assert held.keys() == [run.key]


# ------------------------------------------------------------------ readers


@pytest.fixture
def closed(held, monkeypatch):
    """A store in which nothing can be written, by the administrator either."""

    def refused(*given, **options):  # noqa: ARG001
        raise OSError(errno.EROFS, "Read-only file system")

    def opened(path, flags, *given, original=os.open, **options):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            refused()
        return original(path, flags, *given, **options)

    monkeypatch.setattr(os, "open", opened)
    for name in ("mkdir", "rename", "replace", "unlink", "rmdir", "chmod"):
        monkeypatch.setattr(os, name, refused)
    yield held
    monkeypatch.undo()


def test_a_read_only_store_can_be_read_and_listed(made, closed, run):
    store = RunStore(closed.directory)
    assert store.keys() == [run.key]
    assert store.holds(run.key)
    made.assert_same_bits(store.load(run.key), run)
    made.assert_same_bits(store.found(run.key), run)
    made.assert_same_bits(load_runs(closed.directory)[0], run)
    store.tidy([run.key])


def test_a_read_only_store_is_told_to_writers(closed, run):
    with pytest.raises(InputError, match="Read-only file system"):
        RunStore(closed.directory, create=True)
    with pytest.raises(InputError, match="Read-only file system"):
        _ = closed.checkpoints
    with pytest.raises(OSError, match="Read-only file system"):
        closed.save(run, overwrite=True)
    assert closed.keys() == [run.key]


def test_damage_in_a_read_only_store_is_told_as_damage(held, run, request):
    spoil(held, run.key)
    closed = request.getfixturevalue("closed")
    with pytest.raises(DamagedRunError, match="unchanged run"):
        closed.found(run.key)


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may write everywhere")
def test_a_directory_without_permission_to_write(made, held, run):
    places = [held.directory, held.path(run.key).parent, held.path(run.key)]
    for place in places:
        place.chmod(0o555)
    try:
        store = RunStore(held.directory)
        assert store.keys() == [run.key]
        made.assert_same_bits(store.load(run.key), run)
    finally:
        for place in places:
            place.chmod(0o755)


# ------------------------------------------------------------------ links inside a store


def test_a_run_that_is_a_link_is_no_part_of_the_store(held, run):
    linked(held.path(run.key))
    assert not held.holds(run.key)
    assert held.keys() == []
    with pytest.raises(DamagedRunError, match="link"):
        held.load(run.key)


@pytest.fixture
def elsewhere(held, run, tmp_path):
    """The shard of a run is a link."""
    shard = held.path(run.key).parent
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    return tmp_path / "elsewhere"


def test_no_link_on_the_way_to_a_run_is_followed(held, run, elsewhere):
    old = elsewhere / ".twoaxis-old"
    old.write_text("half")
    os.utime(old, (0, 0))
    before = contents(elsewhere)
    assert held.keys() == []
    held.tidy([run.key])
    for call in (
        lambda: held.holds(run.key),
        lambda: held.load(run.key),
        lambda: held.found(run.key),
        lambda: held.save(run),
        lambda: held.save(run, overwrite=True),
        lambda: held.set_aside(run.key, "why"),
    ):
        with pytest.raises(InputError, match=r"directories of its own.*a link"):
            call()
    assert contents(elsewhere) == before


def test_a_file_in_the_place_of_a_shard_is_told_before_any_work(store, run):
    store.path(run.key).parent.write_text("mine")
    for call in (store.holds, store.found):
        with pytest.raises(InputError, match="no directory"):
            call(run.key)
    assert store.keys() == []


@pytest.mark.parametrize("name", ["checkpoints", "damaged"])
@pytest.mark.parametrize("there", [True, False])
def test_other_directories_of_a_store_are_no_links_either(held, run, tmp_path, name, there):
    if there:
        (tmp_path / "elsewhere").mkdir()
    (held.directory / name).symlink_to(tmp_path / "elsewhere")
    old = tmp_path / "elsewhere" / ".twoaxis-old"
    if there:
        old.write_text("half")
        os.utime(old, (0, 0))
    with pytest.raises(InputError, match="directories of its own"):
        held.checkpoints if name == "checkpoints" else held.set_aside(run.key, "why")
    held.tidy([run.key])
    assert old.exists() == there
    assert held.holds(run.key)


# ------------------------------------------------------------------ what a killed process left


def test_only_what_is_old_and_temporary_is_removed(held, run):
    shard = held.path(run.key).parent
    then = time.time() - 7200
    made, kept = [], []
    for place in (held.directory, held.checkpoints, shard):
        for name, age in ((".twoaxis-old", then), (".twoaxis-new", None), ("old", then)):
            file = place / f"{name}.safetensors"
            file.write_text("half")
            directory = place / f"{name}-directory"
            directory.mkdir()
            (directory / MANIFEST).write_text("half")
            for path in (file, directory):
                if age is not None:
                    os.utime(path, (age, age))
                (made if name == ".twoaxis-old" else kept).append(path)
    os.utime(held.path(run.key), (then, then))
    held.tidy([run.key])
    assert not any(path.exists() for path in made)
    assert all(path.exists() for path in kept)
    assert held.holds(run.key)


def test_a_temporary_link_is_removed_and_not_followed(held, run, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    link = held.path(run.key).parent / ".twoaxis-link"
    link.symlink_to(tmp_path / "mine")
    os.utime(link, (0, 0), follow_symlinks=False)
    held.tidy([run.key])
    assert not os.path.lexists(link)
    assert (tmp_path / "mine" / "file").read_text() == "mine"


def test_tidying_at_once(held, run):
    for _ in range(20):
        for number in range(20):
            path = held.path(run.key).parent / f".twoaxis-{number}"
            path.mkdir()
            os.utime(path, (0, 0))
        at_once(*[partial(held.tidy, [run.key])] * 3)
        assert list(held.path(run.key).parent.iterdir()) == [held.path(run.key)]

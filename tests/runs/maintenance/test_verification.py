"""A verification reads everything, and finds whatever was done to a store."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from twoaxis.errors import InputError
from twoaxis.runs import RunStore, load_runs
from twoaxis.runs.maintenance import Place, check_run, verify
from twoaxis.runs.store import REASON


def checked(store, **options):
    return verify(store, progress=False, **options)


def test_a_sound_store(store, makers):
    makers.put_checkpoint(store, [5, 6])
    before = makers.tree(store.directory)
    found = checked(store)
    assert found.ok
    assert (found.runs, found.checkpoints) == (3, 1)
    assert found.not_rebuilt == found.damaged == found.leftovers == found.unread == []
    assert makers.tree(store.directory) == before


def test_an_empty_store(tmp_path):
    found = checked(RunStore(tmp_path))
    assert found.ok
    assert found.runs == found.checkpoints == 0
    assert not list(tmp_path.iterdir())


def test_missing_directories(tmp_path):
    (tmp_path / "file").write_text("")
    for where in (tmp_path / "nothing", tmp_path / "file"):
        with pytest.raises(InputError, match="directory of runs"):
            RunStore(where)


def replaced(path, other):
    shutil.copyfile(other, path)


SPOILT = {
    "truncated arrays": lambda run, other, m: os.truncate(run / m.ARRAYS, 100),  # noqa: ARG005
    "a bit of the arrays": lambda run, other, m: m.flip(run / m.ARRAYS),  # noqa: ARG005
    "a bit of the manifest": lambda run, other, m: m.flip(run / m.MANIFEST, 200),  # noqa: ARG005
    "arrays of another run": lambda run, other, m: replaced(run / m.ARRAYS, other / m.ARRAYS),
    "a manifest of another": lambda run, other, m: replaced(run / m.MANIFEST, other / m.MANIFEST),
    "all of another run": lambda run, other, m: [
        replaced(run / name, other / name) for name in (m.ARRAYS, m.MANIFEST)
    ],
    "longer arrays": lambda run, other, m: (run / m.ARRAYS).write_bytes(  # noqa: ARG005
        (run / m.ARRAYS).read_bytes() + b"x"
    ),
    "no arrays": lambda run, other, m: (run / m.ARRAYS).unlink(),  # noqa: ARG005
    "linked arrays": lambda run, other, m: (  # noqa: ARG005
        (run / m.ARRAYS).rename(run / "elsewhere"),
        (run / m.ARRAYS).symlink_to("elsewhere"),
    ),
    "a linked manifest": lambda run, other, m: (  # noqa: ARG005
        (run / m.MANIFEST).rename(run / "elsewhere"),
        (run / m.MANIFEST).symlink_to("elsewhere"),
    ),
    "a pipe": lambda run, other, m: ((run / m.ARRAYS).unlink(), os.mkfifo(run / m.ARRAYS)),  # noqa: ARG005
    "what cannot be rebuilt": lambda run, other, m: m.forge(  # noqa: ARG005
        run, lambda plain: plain["settings"].update(colour="red")
    ),
    "a view that is none": lambda run, other, m: m.forge(  # noqa: ARG005
        run, lambda plain: plain["snapshots"][0].update(view={"kind": "\x1b[2J"})
    ),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_damage_is_found_and_told(store, makers, spoil):
    key, other, _ = store.keys()
    path = store.path(key)
    spoil(path, store.path(other), makers)
    before = makers.tree(store.directory)
    found = checked(store)
    assert not found.ok
    assert found.runs == 2
    assert [each.path for each in found.damaged] == [path]
    assert found.damaged[0].reason
    assert str(store.directory) not in found.damaged[0].reason
    assert makers.tree(store.directory) == before

    found = checked(store, set_aside=True)
    (moved,) = [each.moved for each in found.damaged]
    assert moved == store.directory / "damaged" / f"{key}.1"
    assert sorted(p.name for p in moved.iterdir()) == [key, REASON]
    assert "\x1b" not in (moved / REASON).read_text()
    again = checked(store)
    assert again.ok
    assert again.set_aside == 1
    assert (
        [run.key for run in load_runs(store.directory)]
        == store.keys()
        == sorted(
            {
                other,
                store.keys()[-1],
            }
        )
    )


@pytest.mark.parametrize("place", np.linspace(0, 1, 25))
def test_no_changed_bit_is_overlooked(store, makers, place):
    path = store.path(store.keys()[0])
    for name in (makers.ARRAYS, makers.MANIFEST):
        content = (path / name).read_bytes()
        at = int(place * (len(content) - 2))
        makers.flip(path / name, at)
        changed = (path / name).read_bytes()
        if name == makers.ARRAYS or not same_json(content, changed):
            assert check_run(Place(path)).state == "damaged"
        (path / name).write_bytes(content)
    assert check_run(Place(path)).state == "sound"


def same_json(left, right):
    try:
        return json.loads(left) == json.loads(right)
    except ValueError:
        return False


def test_what_only_rebuilding_finds(store, makers):
    """All checksums fit, and there is no such setting."""
    path = store.path(store.keys()[0])
    makers.forge(path, lambda plain: plain["settings"].update(steps=0))
    (damaged,) = checked(store).damaged
    assert "steps" in damaged.reason


def test_problems_of_ones_own_are_not_damage(store, makers, own_problem):
    run = makers.run_of(7, own_problem)
    path = store.save(run)
    found = checked(store, set_aside=True)
    assert found.ok
    assert found.runs == 3
    assert [each.path for each in found.not_rebuilt] == [path]
    assert "its problem is not built in" in found.not_rebuilt[0].reason
    assert path.is_dir()
    makers.flip(path / makers.ARRAYS)  # the checksums are compared all the same
    found = checked(store)
    assert [each.path for each in found.damaged] == [path]
    assert not found.not_rebuilt


def test_another_version_is_told_and_stays(store, makers):
    path = store.path(store.keys()[0])
    makers.forge(path, lambda plain: plain.update(version=2))
    found = checked(store, set_aside=True)
    assert not found.ok
    assert [each.path for each in found.unread] == [path]
    assert path.is_dir()


CHECKPOINTS = {
    "truncated": lambda path, m: os.truncate(path, 100),  # noqa: ARG005
    "empty": lambda path, m: path.write_bytes(b""),  # noqa: ARG005
    "a changed bit": lambda path, m: m.flip(path),
    "a changed header": lambda path, m: m.flip(path, 30),
    "another batch": lambda path, m: path.rename(path.with_name("checkpoint-0.safetensors")),  # noqa: ARG005
    "a link": lambda path, m: (path.rename(path.parent / "x"), path.symlink_to("x")),  # noqa: ARG005
    "a pipe": lambda path, m: (path.unlink(), os.mkfifo(path)),  # noqa: ARG005
    "a directory": lambda path, m: (path.unlink(), path.mkdir()),  # noqa: ARG005
    "no safetensors": lambda path, m: path.write_bytes(b"\xff" * 1000),  # noqa: ARG005
}


@pytest.mark.parametrize("spoil", CHECKPOINTS.values(), ids=CHECKPOINTS)
def test_damaged_checkpoints(store, makers, spoil):
    path = makers.put_checkpoint(store, [5])
    spoil(path, makers)
    found = checked(store, set_aside=True)
    assert found.runs == 3
    assert found.checkpoints == 0
    (damaged,) = found.damaged
    assert damaged.path.parent == path.parent
    assert damaged.moved.is_dir()
    assert checked(store).ok


def test_leftovers(store, makers, tmp_path):
    run = store.path(store.keys()[0])
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "private.txt").write_text("")
    strangers = [
        store.directory / "notes.txt",
        store.directory / ".DS_Store",
        store.directory / "zz",
        run.parent / ".hidden",
        run / "extra.txt",
        store.directory / "abcd",
    ]
    for path in strangers:
        path.write_text("")
    links = [store.directory / "ab", store.directory / "link", run.parent / ".link"]
    for path in links:
        path.symlink_to(secret)
    old, new = (run.parent / f".twoaxis-{name}" for name in ("old", "new"))
    for path in (old, new):
        path.mkdir()
    makers.grow_old(old, 10_000)
    (store.directory / "runs.csv").write_text("")
    (store.directory / "README.txt").write_text("")
    before = makers.tree(store.directory)
    found = checked(store)
    assert found.ok
    assert {each.path for each in found.leftovers} == {*strangers, *links, old}
    assert all(each.reason for each in found.leftovers)
    assert not any("private" in str(each) for each in found.leftovers)
    checked(store, set_aside=True)
    assert makers.tree(store.directory) == before


def test_links_where_directories_belong(store, makers, tmp_path):
    outside = RunStore(tmp_path / "outside", create=True)
    makers.put_checkpoint(outside, [5])
    makers.flip(makers.put_checkpoint(outside, [6]))
    (store.directory / "checkpoints").symlink_to(outside.directory / "checkpoints")
    before = makers.tree(outside.directory)
    found = checked(store, set_aside=True)
    assert found.ok
    assert found.checkpoints == 0
    assert [each.path.name for each in found.leftovers] == ["checkpoints"]
    assert makers.tree(outside.directory) == before


def test_a_linked_place_for_the_damaged_is_refused(store, makers, tmp_path):
    makers.flip(store.path(store.keys()[0]) / makers.ARRAYS)
    (tmp_path / "away").mkdir()
    (store.directory / "damaged").symlink_to(tmp_path / "away")
    with pytest.raises(InputError, match="link"):
        checked(store, set_aside=True)
    assert not list((tmp_path / "away").iterdir())
    assert len(store.keys()) == 3


def test_a_run_that_was_being_replaced(store, makers):
    """Killed between two renames: the old run is complete, in a temporary."""
    key = store.keys()[0]
    temporary = store.path(key).parent / ".twoaxis-killed"
    temporary.mkdir()
    store.path(key).rename(temporary / key)
    makers.grow_old(temporary, 10_000)
    (left,) = checked(store).leftovers
    assert left.path == temporary
    assert f"move it to {store.path(key).relative_to(store.directory)}" in left.reason


def test_what_vanishes_meanwhile_is_not_damage(store):
    place = Place(store.path(store.keys()[0]))
    shutil.rmtree(place.path)
    assert check_run(place).state == "gone"


def test_hostile_texts_do_not_stop_it(store, makers):
    path = store.path(store.keys()[0])
    makers.forge(path, lambda plain: plain["settings"].update({"\x1b[2J[bold]\ud800": 1}))
    found = checked(store, set_aside=True)
    (damaged,) = found.damaged
    assert "\\x1b[2J[bold]\\ud800" in (damaged.moved / REASON).read_text()


AS_NOBODY = """
import os, sys
import rich.console, rich.progress  # the interpreter may not be readable to others
from pathlib import Path
import twoaxis.runs.maintenance as listing
from twoaxis.errors import InputError
from twoaxis.runs.maintenance import plan, prune
from twoaxis.runs.maintenance import verify
from twoaxis.runs import RunStore
os.setgroups([])
os.setuid(65534)
store = RunStore(sys.argv[1])
assert len(listing.list_runs(store)) == 3
found = verify(store, progress=False)
assert found.runs == 1, found
assert len(found.damaged) == 1 and len(found.unread) == 1, found
try:
    verify(store, set_aside=True, progress=False)
except InputError as error:
    print(error.expected)
left = prune(plan(store))
assert len(left) == 1 and "cannot be removed" in left[0].reason, left
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_reader_without_permission(store, makers):
    first, second, _ = store.keys()
    makers.flip(store.path(first) / makers.ARRAYS)
    with tempfile.TemporaryDirectory() as home:  # where somebody else comes as far as the store
        Path(home).chmod(0o755)
        public = RunStore(shutil.copytree(store.directory, Path(home) / "store"))
        (public.path(second) / makers.ARRAYS).chmod(0o000)
        old = public.directory / ".twoaxis-old"
        old.mkdir()
        makers.grow_old(old, 10_000)
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, str(public.directory)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "a place where a file can be written" in done.stdout
        assert old.is_dir()

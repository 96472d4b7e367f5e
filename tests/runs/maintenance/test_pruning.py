"""What can go: leftovers of work that is done, and never a run."""

import os
import shutil

import pytest

from twoaxis.errors import InputError
from twoaxis.runs.maintenance import Removal, plan, prune, verify

HOUR = 3600.0


def planned(store, **options):
    return {str(each.path.relative_to(store.directory)) for each in plan(store, **options)}


def temporary(store, name, makers, age=2 * HOUR):
    path = store.directory / name
    path.mkdir()
    (path / "part").write_bytes(b"12345")
    makers.grow_old(path, age)
    return path


def test_nothing_can_go_from_a_sound_store(store, makers):
    before = makers.tree(store.directory)
    assert plan(store, damaged=True) == []
    assert prune([]) == []
    assert makers.tree(store.directory) == before


def test_abandoned_temporaries(store, makers):
    shard = store.path(store.keys()[0]).parent.name
    old = [temporary(store, f"{at}.twoaxis-old", makers) for at in ("", f"{shard}/")]
    file = store.checkpoints / ".twoaxis-x.safetensors"
    file.write_bytes(b"123")
    makers.grow_old(file, 2 * HOUR)
    new = temporary(store, ".twoaxis-new", makers, age=0)
    found = plan(store)
    assert {each.path for each in found} == {*old, file}
    assert sorted(each.bytes for each in found) == [3, 5, 5]
    assert all(path.exists() for path in (*old, file))  # a plan removes nothing
    assert prune(found) == []
    assert not any(path.exists() for path in (*old, file))
    assert new.is_dir()
    assert verify(store, progress=False).runs == 3
    assert prune(found) == []  # another process was faster


def test_checkpoints_of_runs_that_are_there(store, makers):
    done = makers.put_checkpoint(store, [0, 2], age=100)
    open_ones = [
        makers.put_checkpoint(store, [0, 9], age=100),  # 9 is not there
        makers.put_checkpoint(store, [1], age=-100),  # younger than its run: to replace it
    ]
    spoilt = makers.put_checkpoint(store, [0], age=100)
    makers.flip(spoilt)
    makers.grow_old(spoilt, 100)
    found = plan(store, damaged=True)
    assert [each.path for each in found] == [done]
    assert found[0].bytes == done.stat().st_size
    prune(found)
    assert not done.exists()
    assert all(path.exists() for path in (*open_ones, spoilt))


@pytest.mark.parametrize("name", ["arrays.safetensors", "run.json"])
def test_a_checkpoint_stays_while_one_of_its_runs_is_damaged(store, makers, name):
    makers.put_checkpoint(store, [0, 1], age=100)
    assert len(plan(store)) == 1
    makers.flip(store.path(makers.run_of(1).key) / name, 200)
    assert plan(store) == []


def test_a_checkpoint_that_names_no_run_stays(store, makers):
    makers.put_checkpoint(store, [], age=100)
    assert plan(store) == []


def test_a_checkpoint_of_linked_runs_stays(store, makers, tmp_path):
    makers.put_checkpoint(store, [0], age=100)
    shard = store.path(makers.run_of(0).key).parent
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    assert plan(store) == []


def test_what_was_set_aside_goes_only_when_asked_for(store, makers):
    key = store.keys()[0]
    makers.flip(store.path(key) / makers.ARRAYS)
    verify(store, set_aside=True, progress=False)
    assert plan(store) == []
    assert planned(store, damaged=True) == {f"damaged/{key}.1"}
    assert prune(plan(store, damaged=True)) == []
    assert not list((store.directory / "damaged").iterdir())
    assert len(store.keys()) == 2


def test_somebodys_own_directory_of_that_name_stays(store):
    own = store.directory / "damaged" / "holiday.1"
    own.mkdir(parents=True)
    (own / "photo.jpg").write_text("")
    (store.directory / "damaged" / "letters").mkdir()
    assert plan(store, damaged=True) == []


def test_links_are_removed_and_not_followed(store, makers, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("all of it")
    link = store.directory / ".twoaxis-link"
    link.symlink_to(precious)
    makers.grow_old(link, 2 * HOUR)
    inside = temporary(store, ".twoaxis-old", makers)
    (inside / "link").symlink_to(precious)
    makers.grow_old(inside, 2 * HOUR)
    damaged = store.directory / "damaged"
    damaged.mkdir()
    (damaged / "x.1").symlink_to(precious)
    found = plan(store, damaged=True)
    assert {each.path for each in found} == {link, inside}
    assert sum(each.bytes for each in found) < 5 + 2 * 4096
    assert prune(found) == []
    assert not os.path.lexists(link)
    assert not inside.exists()
    assert (precious / "thesis.tex").read_text() == "all of it"


@pytest.mark.parametrize("name", ["checkpoints", "damaged"])
def test_linked_directories_are_not_entered(store, makers, tmp_path, name):
    outside = tmp_path / "outside"
    (outside / "x.1").mkdir(parents=True)
    old = outside / ".twoaxis-old"
    old.write_text("")
    makers.grow_old(old, 2 * HOUR)
    (store.directory / name).symlink_to(outside)
    assert plan(store, damaged=True) == []


def test_a_complete_run_in_a_temporary_stays(store, makers):
    key = store.keys()[0]
    path = store.directory / ".twoaxis-killed"
    path.mkdir()
    store.path(key).rename(path / key)
    makers.grow_old(path, 2 * HOUR)
    assert plan(store) == []
    shutil.copytree(path / key, store.path(key))  # it is at its place again: the copy can go
    makers.grow_old(path, 2 * HOUR)
    assert [each.path for each in plan(store)] == [path]
    makers.flip(store.path(key) / makers.ARRAYS)
    assert plan(store) == []


def test_what_has_changed_since_stays(store, makers):
    path = temporary(store, ".twoaxis-old", makers)
    found = plan(store)
    (path / "more").write_text("somebody works here")
    (left,) = prune(found)
    assert left.path == path
    assert "changed" in left.reason
    assert path.is_dir()


def test_a_plan_of_ones_own_cannot_name_a_run(store):
    path = store.path(store.keys()[0])
    for wrong in (path, path.parent, store.directory, path / "run.json"):
        with pytest.raises(InputError, match="may be a run"):
            prune([Removal(wrong, 0, "")])
    assert verify(store, progress=False).runs == 3

"""An export is a store: the same bits, checked, whole or not at all."""

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import twoaxis as ta
from twoaxis.errors import InputError
from twoaxis.runs import RunStore
from twoaxis.runs import export as module
from twoaxis.runs.export import export
from twoaxis.runs.maintenance import list_runs, verify


def exported(store, target, keys=None):
    return export(store, target, keys, progress=False)


def same_bits(left, right):
    assert left.key == right.key
    assert left.status == right.status
    assert left.delivered == right.delivered
    assert left.settings == right.settings
    assert_array_equal(left.points, right.points)
    pd.testing.assert_frame_equal(left.history, right.history)
    for (weight, bias), (other, offset) in zip(left.final.layers, right.final.layers, strict=True):
        assert weight.dtype == other.dtype
        assert_array_equal(weight, other)
        assert_array_equal(bias, offset)
    assert_array_equal(left.frozen.residual(nu=0.01), right.frozen.residual(nu=0.01))


def files(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("zipped", [False, True])
def test_round_trip(store, tmp_path, zipped):
    target = tmp_path / ("out.zip" if zipped else "out")
    done = exported(store, target)
    assert done.target == target
    assert done.keys == store.keys()
    assert not done.left_out
    copy = tmp_path / "out"
    if zipped:
        with zipfile.ZipFile(target) as packed:
            assert packed.testzip() is None
            packed.extractall(copy)
    for left, right in zip(ta.load_runs(store.directory), ta.load_runs(copy), strict=True):
        same_bits(left, right)
    found = verify(RunStore(copy), progress=False)
    assert found.ok
    assert found.runs == 3
    assert not found.leftovers
    original = files(store.directory)
    assert {name: content for name, content in files(copy).items() if "/" in name} == original
    listed = pd.read_csv(copy / "runs.csv")
    assert list(listed["key"]) == store.keys()
    assert list(listed) == list(list_runs(store))
    assert_array_equal(listed["delivered_nu"], list_runs(store)["delivered_nu"])
    about = (copy / "README.txt").read_text()
    assert "Trained inverse PINNs: 3\n" in about
    assert "twoaxis runs verify" in about
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []
    assert copy.stat().st_mode & 0o777 == store.directory.stat().st_mode & 0o777


def test_only_what_belongs_to_a_store_travels(store, makers, tmp_path):
    makers.put_checkpoint(store, [7])
    (store.directory / "secret.txt").write_text("private")
    run = store.path(store.keys()[0])
    (run / "secret.txt").write_text("private")
    exported(store, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").rglob("*") if path.is_file()} == {
        *("run.json", "arrays.safetensors", "runs.csv", "README.txt")
    }


def test_chosen_runs(store, tmp_path):
    keys = store.keys()
    assert exported(store, tmp_path / "one", [keys[1][:-4]]).keys == [keys[1]]
    assert RunStore(tmp_path / "one").keys() == [keys[1]]
    assert exported(store, tmp_path / "two", ["*made0*", keys[2]]).keys == [keys[0], keys[2]]
    with pytest.raises(InputError, match="key of one run"):
        exported(store, tmp_path / "none", ["nothing"])
    assert not (tmp_path / "none").exists()


def test_a_zip_file_is_the_same_every_time(store, makers, tmp_path):
    exported(store, tmp_path / "a.zip")
    again = RunStore(tmp_path / "again", create=True)
    for number in (2, 0, 1):  # in another order, at another time
        again.save(makers.run_of(number))
    for path in again.directory.rglob("*"):
        makers.grow_old(path, 1e6)
    exported(again, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_no_entry_of_a_zip_file_leaves_it(store, tmp_path):
    exported(store, tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as packed:
        entries = packed.infolist()
    names = [entry.filename for entry in entries]
    assert names == sorted(names)
    assert len(set(names)) == len(names) == 8
    for entry in entries:
        assert not entry.filename.startswith("/")
        assert ".." not in entry.filename.split("/")
        assert "\\" not in entry.filename
        assert entry.date_time == (1980, 1, 1, 0, 0, 0)
        assert entry.external_attr >> 16 == 0o100644  # a plain file, and no link


def test_damaged_runs_are_left_out_and_told(store, makers, tmp_path):
    first, second, third = store.keys()
    makers.flip(store.path(first) / makers.ARRAYS)
    (store.path(second) / makers.MANIFEST).unlink()
    done = exported(store, tmp_path / "out")
    assert done.keys == [third]
    assert [each.path.name for each in done.left_out] == [first, second]
    assert all(each.reason for each in done.left_out)
    copy = RunStore(tmp_path / "out")
    assert copy.keys() == [third]
    assert verify(copy, progress=False).ok
    shards = [path.name for path in copy.directory.iterdir() if path.is_dir()]
    assert shards == [store.path(third).parent.name]
    assert store.holds(first)  # nothing is moved or mended in the source


def test_where_no_run_is_in_order_nothing_is_written(store, makers, tmp_path):
    for key in store.keys():  # noqa: SIM118
        makers.flip(store.path(key) / makers.ARRAYS)
    done = exported(store, tmp_path / "out")
    assert done.keys == []
    assert len(done.left_out) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


def test_links_do_not_travel(store, tmp_path):
    first, second, third = store.keys()
    secret = tmp_path / "secret"
    secret.write_text("private")
    arrays = store.path(first) / "arrays.safetensors"
    arrays.unlink()
    arrays.symlink_to(secret)
    store.path(second).rename(tmp_path / "elsewhere")
    store.path(second).symlink_to(tmp_path / "elsewhere")
    done = exported(store, tmp_path / "out")
    assert done.keys == [third]
    assert not any(path.is_symlink() for path in (tmp_path / "out").rglob("*"))


def test_a_run_that_is_replaced_while_it_is_copied(store, tmp_path, monkeypatch):
    """The first time, its arrays are those of another run: a second look takes both anew."""
    key = store.keys()[0]
    original, calls = module.read_plain, []

    def read_plain(path):
        calls.append(path.name)
        content = original(path)
        return bytes(len(content)) if len(calls) == 2 else content

    monkeypatch.setattr(module, "read_plain", read_plain)
    done = exported(store, tmp_path / "out", [key])
    assert len(calls) == 4
    assert done.keys == [key]
    assert verify(RunStore(tmp_path / "out"), progress=False).runs == 1


def test_problems_of_ones_own_travel(store, makers, own_problem, tmp_path):
    run = makers.run_of(7, own_problem)
    store.save(run)
    done = exported(store, tmp_path / "out", ["own-*"])
    assert done.keys == [run.key]
    assert len(done.not_rebuilt) == 1
    same_bits(ta.load_runs(tmp_path / "out", own_problem)[0], run)


def test_a_target_that_is_there(store, tmp_path):
    empty, full, file, link = (tmp_path / name for name in ("empty", "full", "file", "link"))
    for path in (empty, full):
        path.mkdir()
    (full / "mine").write_text("precious")
    file.write_text("precious")
    link.symlink_to(empty)
    zipped = tmp_path / "a.zip"
    zipped.write_text("precious")
    folder = tmp_path / "b.zip"
    folder.mkdir()
    before = files(tmp_path)
    for wrong in (
        full,
        file,
        link,
        zipped,
        folder,
        "",
        "/",
        "a\0b",
        "x" * 300,
        file / "below",
        3,
        None,
    ):
        with pytest.raises(InputError):
            exported(store, wrong)
    for inside in (store.directory, store.directory / "out", store.directory / "out.zip"):
        with pytest.raises(InputError, match="inside the store"):
            exported(store, inside)
    assert files(tmp_path) == before
    assert len(exported(store, empty).keys) == 3
    (tmp_path / "empty.zip").touch()
    exported(store, tmp_path / "empty.zip")
    exported(store, tmp_path / "new" / "deeper" / "out")
    assert RunStore(tmp_path / "new" / "deeper" / "out").keys() == store.keys()


def test_an_empty_store_has_nothing_to_export(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds none"):
        exported(RunStore(tmp_path / "empty"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["out", "out.zip"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", [1, 2, 100])
def test_a_failure_leaves_nothing(store, tmp_path, monkeypatch, name, error, at):
    original, calls = Path.write_bytes, []

    def write_bytes(path, content):
        calls.append(path)
        if len(calls) == at:
            raise error
        return original(path, content)

    def failing(*arguments):  # noqa: ARG001
        raise error

    if at == 100:  # when all has been copied
        monkeypatch.setattr(module, "_pack" if name.endswith("zip") else "flush_file", failing)
    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    with pytest.raises(InputError if isinstance(error, OSError) else KeyboardInterrupt) as caught:
        exported(store, tmp_path / name)
    assert isinstance(error, KeyboardInterrupt) or "disk full" in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_listing_obeys_nobody(store, makers, tmp_path):
    texts = ["=cmd()", "@here", "\x1b[2J", "two\nlines"]
    for number, text in enumerate(texts):
        run = makers.run_of(10 + number)
        store.save(run)
        makers.forge(store.path(run.key), lambda p, text=text: p["run"].update(dataset=text))
    done = exported(store, tmp_path / "out")
    assert len(done.keys) == 7
    text = (tmp_path / "out" / "runs.csv").read_text()
    assert "\x1b" not in text
    assert text.count("\n") == 8
    labels = set(pd.read_csv(tmp_path / "out" / "runs.csv")["dataset"])
    assert labels >= {"'=cmd()", "'@here", "\\x1b[2J", "two\\nlines"}
    assert np.isfinite(pd.read_csv(tmp_path / "out" / "runs.csv")["delivered_nu"]).all()

"""The list of runs: from manifests alone, whatever they say, and nothing is hidden."""

import json
import math
import os
import shutil
import time

import pandas as pd
import pytest

from twoaxis.errors import InputError
from twoaxis.runs import RunStore
from twoaxis.runs.maintenance import described, find_runs, list_runs


def test_what_a_row_says(store, makers):
    frame = list_runs(store)
    assert list(frame) == [
        *("key", "problem", "method", "dataset", "seed", "steps", "conditions", "precision"),
        *("delivered_nu", "status", "twoaxis", "bytes"),
    ]
    assert list(frame["key"]) == store.keys()
    row = frame[frame["seed"] == 2].iloc[0]
    run = makers.run_of(2)
    assert row["key"] == run.key
    assert row["problem"] == "burgers"
    assert row["method"] == "rba"
    assert row["dataset"] == "made2"
    assert row["steps"] == 10
    assert row["conditions"] == "soft"
    assert row["precision"] == "float32"
    assert row["delivered_nu"] == run.delivered["nu"]
    assert row["status"] == "finished"
    files = store.path(run.key).iterdir()
    assert row["bytes"] == sum(path.stat().st_size for path in files)
    assert frame["seed"].dtype == "int64"


def test_arrays_are_not_read(store, makers):
    """The same number of bytes, all of them wrong: only a verification can tell."""
    arrays = store.path(store.keys()[0]) / makers.ARRAYS
    arrays.write_bytes(bytes(arrays.stat().st_size))
    assert (list_runs(store)["status"] == "finished").all()


def test_an_empty_store(tmp_path):
    frame = list_runs(RunStore(tmp_path))
    assert frame.empty
    assert "key" in frame
    assert not list(tmp_path.iterdir())


def test_a_problem_of_ones_own_is_listed(store, makers, own_problem):
    store.save(makers.run_of(7, own_problem))
    assert "own-burgers" in set(list_runs(store)["problem"])


SPOILT = {
    "truncated": lambda run, m: (run / m.MANIFEST).write_bytes(
        (run / m.MANIFEST).read_bytes()[:50]
    ),
    "empty": lambda run, m: (run / m.MANIFEST).write_bytes(b""),
    "a changed bit": lambda run, m: m.flip(run / m.MANIFEST, 300),
    "missing": lambda run, m: (run / m.MANIFEST).unlink(),
    "without arrays": lambda run, m: (run / m.ARRAYS).unlink(),
    "shorter arrays": lambda run, m: (run / m.ARRAYS).write_bytes(b"short"),
    "a pipe": lambda run, m: ((run / m.MANIFEST).unlink(), os.mkfifo(run / m.MANIFEST)),
    "arrays in a pipe": lambda run, m: ((run / m.ARRAYS).unlink(), os.mkfifo(run / m.ARRAYS)),
    "a directory": lambda run, m: ((run / m.MANIFEST).unlink(), (run / m.MANIFEST).mkdir()),
    "nothing in it": lambda run, m: (shutil.rmtree(run), run.mkdir()),  # noqa: ARG005
    "a file": lambda run, m: (shutil.rmtree(run), run.write_text("x")),  # noqa: ARG005
    "a dangling link": lambda run, m: (shutil.rmtree(run), run.symlink_to("nowhere")),  # noqa: ARG005
    "deeply nested": lambda run, m: (run / m.MANIFEST).write_text("[" * 900 + "]" * 900),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_damaged_run_is_a_row(store, makers, spoil):
    key = store.keys()[1]
    spoil(store.path(key), makers)
    frame = list_runs(store)
    assert len(frame) == 3
    row = frame[frame["key"] == key].iloc[0]
    assert row["status"].startswith("damaged: ")
    assert row["problem"] is None
    assert str(store.directory) not in row["status"]
    assert frame[frame["key"] != key]["status"].eq("finished").all()
    assert all(type(seed) is int for seed in frame["seed"] if seed is not None)


def test_a_link_to_a_run_is_not_followed(store, tmp_path):
    key = store.keys()[0]
    elsewhere = tmp_path / "elsewhere"
    store.path(key).rename(elsewhere)
    store.path(key).symlink_to(elsewhere)
    row = list_runs(store).iloc[0]
    assert row["status"] == "damaged: it is a link, which is not followed"


def test_a_run_in_the_wrong_place_and_one_whose_name_is_no_key(store):
    first, second, _ = store.keys()
    shard = store.path(first).parent
    wrong = store.directory / ("00" if shard.name != "00" else "01")
    wrong.mkdir(exist_ok=True)
    store.path(first).rename(wrong / first)
    strange = "\x1b[2J[bold]\n"
    store.path(second).rename(store.path(second).parent / strange)
    status = list_runs(store).set_index("key")["status"]
    assert status[first].startswith("damaged: it lies where nobody looks")
    assert status[strange] == "damaged: its name is not the key of a run"
    assert len(status) == 3


STRANGE = {
    "a status that is a number": lambda plain: plain.update(status=3),
    "settings that are a list": lambda plain: plain.update(settings=[1]),
    "no settings": lambda plain: plain.pop("settings"),
    "no snapshots": lambda plain: plain.update(snapshots=[]),
    "delivered as text": lambda plain: plain.update(delivered="nu"),
    "a delivered list": lambda plain: plain.update(delivered=[1, 2]),
    "a delivered text": lambda plain: plain.update(delivered={"nu": "much"}),
    "a delivered truth": lambda plain: plain.update(delivered={"nu": True}),
    "a number beyond floats": lambda plain: plain.update(delivered={"nu": 10**400}),
    "a seed of text": lambda plain: plain["run"].update(seed="0"),
    "a method of text": lambda plain: plain["settings"].update(method="rba"),
    "a problem of nothing": lambda plain: plain["settings"].update(problem=None),
    "huge arrays": lambda plain: plain["arrays"].update(bytes=10**30),
    "negative arrays": lambda plain: plain["arrays"].update(bytes=-2),
    "a character that does not exist": lambda plain: plain.update(status="\ud800"),
    "a parameter that does not exist": lambda plain: plain.update(delivered={"\ud800": 1.0}),
    "another name": lambda plain: plain.update(key="../../elsewhere"),
}


@pytest.mark.parametrize("change", STRANGE.values(), ids=STRANGE)
def test_forged_manifests(store, makers, change):
    key = store.keys()[0]
    makers.forge(store.path(key), change)
    row = list_runs(store).set_index("key").loc[key]
    assert row["status"].startswith("damaged: ")
    assert row["problem"] is None


def test_another_version_is_not_called_damaged(store, makers):
    key = store.keys()[0]
    makers.forge(store.path(key), lambda plain: plain.update(version=2))
    row = list_runs(store).set_index("key").loc[key]
    assert row["status"].startswith("unread: version 2")


def test_a_parameter_cannot_take_the_name_of_a_column(store, makers):
    key = store.keys()[0]
    makers.forge(store.path(key), lambda plain: plain.update(delivered={"key": 1.0, "status": 2.0}))
    row = list_runs(store).set_index("key").loc[key]
    assert row["status"] == "finished"
    assert row["delivered_status"] == 2.0


def test_numbers_that_are_not_finite(store, makers):
    key = store.keys()[0]
    makers.forge(store.path(key), lambda plain: plain.update(delivered={"nu": math.nan}))
    assert pd.isna(list_runs(store).set_index("key").loc[key, "delivered_nu"])


@pytest.mark.long
def test_two_thousand_runs_are_listed_quickly(store, makers):
    source = store.path(store.keys()[0])
    plain = json.loads((source / makers.MANIFEST).read_text())
    plain["settings"]["method"]["options"] = {}
    for number in range(2000):
        key = f"fake-{number:012x}"
        path = store.path(key)
        path.mkdir(parents=True)
        (path / makers.ARRAYS).write_bytes(bytes(plain["arrays"]["bytes"]))
        (path / makers.MANIFEST).write_text(json.dumps(plain))
        makers.forge(path, lambda plain, key=key: plain.update(key=key))
    start = time.perf_counter()
    frame = list_runs(store)
    assert time.perf_counter() - start < 10
    assert len(frame) == 2003
    assert (frame["status"] == "finished").all()


def test_finding_a_run_by_what_is_typed(store):
    keys = store.keys()
    assert [p.path.name for p in find_runs(store, [keys[1]])] == [keys[1]]
    assert [p.path.name for p in find_runs(store, [keys[1][:-3]])] == [keys[1]]
    assert [p.path.name for p in find_runs(store, ["*"])] == keys
    assert [p.path.name for p in find_runs(store, ["*made2*", keys[0], keys[0]])] == [
        keys[0],
        keys[2],
    ]
    for wrong in ("burgers", "nothing", "", "x*", "../"):
        with pytest.raises(InputError, match="key of one run"):
            find_runs(store, [wrong])
    with pytest.raises(InputError, match="as a list"):
        find_runs(store, keys[0])


def test_a_manifest_in_readable_form(store, makers):
    plain = json.loads((store.path(makers.run_of(1).key) / makers.MANIFEST).read_text())
    found = dict(described(plain))
    assert found["settings.method.options.decay"] == "0.999"
    assert found["snapshots.0.step"] == "10"
    assert found["history"] == "step, loss, loss_data, loss_residual, nu"
    assert found["run.fixed"] == "none"
    assert found["run.seed"] == "1"
    deep = {}
    for _ in range(5000):
        deep = {"a": deep}
    assert len(list(described(deep))) == 1

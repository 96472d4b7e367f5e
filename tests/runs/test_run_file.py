"""Runs on disk: they come back as they were, and what was changed is refused."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from safetensors.numpy import load_file
from together import at_once

import twoaxis as ta
from twoaxis.errors import InputError
from twoaxis.problems import BURGERS
from twoaxis.runs import DamagedRunError, RunStore, load_run, load_runs
from twoaxis.runs import run_file as moving
from twoaxis.runs import run_file as storage
from twoaxis.runs.run_file import ARRAYS, MANIFEST, seal, write_run
from twoaxis.training import METHODS
from twoaxis.training.methods import PatchEvidence, Recipe
from twoaxis.training.methods.method import StoredMethod
from twoaxis.training.rules import ProjectBoth
from twoaxis.views import Gaussian, Patch


@dataclass(frozen=True)
class Own:
    """A method of one's own, with an option that is no plain value."""

    cells: int = 3
    view: object = Gaussian(rank=4)

    @property
    def name(self):
        return "own"

    def recipe(self):
        return Recipe(view=Patch(self.cells), gradient=ProjectBoth(), warmup=0.25)


@pytest.fixture(scope="module")
def own(made):
    return made.tiny_train(method=Own(), snapshots=1)[0]


@pytest.fixture
def saved(trained, tmp_path):
    return write_run(trained["rba"][0], tmp_path) / MANIFEST


def contents(directory):
    """All that lies in a directory, by its path there; None stands for what is no plain file."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


@pytest.mark.parametrize("method", METHODS)
def test_round_trip(made, trained, method, tmp_path):
    run = trained[method][0]
    path = write_run(run, tmp_path)
    assert path == tmp_path / run.key
    assert list(tmp_path.iterdir()) == [path]
    assert sorted(p.name for p in path.iterdir()) == [ARRAYS, MANIFEST]
    loaded = load_run(path)
    made.assert_same_bits(loaded, run)
    pd.testing.assert_frame_equal(loaded.history, run.history)
    assert loaded.settings == run.settings
    assert loaded.spec.describe() == run.spec.describe()
    assert loaded.dataset.noise_scale == run.dataset.noise_scale
    assert_array_equal(loaded.dataset.sites, run.dataset.sites)
    assert [s.step for s in loaded.snapshots] == [s.step for s in run.snapshots]
    assert_array_equal(loaded.residual(nu=0.013), run.residual(nu=0.013))
    assert repr(ta.score(loaded.frozen)) == repr(ta.score(run.frozen))
    again = write_run(loaded, tmp_path / "copy")
    assert contents(again) == contents(path)
    assert_array_equal(load_run(path / MANIFEST).points, run.points)


def test_a_method_whose_code_is_gone(made, own, tmp_path):
    path = write_run(own, tmp_path)
    loaded = load_run(path)
    made.assert_same_bits(loaded, own)
    method = loaded.settings.method
    assert isinstance(method, StoredMethod)
    assert method.name == "own"
    assert method.options["cells"] == 3
    assert repr(ta.score(loaded.frozen)) == repr(ta.score(own.frozen))
    with pytest.raises(InputError, match=r"whose code is known.*'own'.*diagnosed without it"):
        method.recipe()
    again = write_run(loaded, tmp_path / "again")  # nothing is lost when it is stored once more
    assert contents(again) == contents(path)


def test_numpy_options_are_plain_numbers_in_the_file(made, tmp_path):
    run = made.tiny_train(
        method=PatchEvidence(field_scale=np.float32(0.5)),
        steps=np.int64(2),
        learning_rate=np.float32(0.5),
        seeds=np.int64(3),
        store=tmp_path,
    )[0]
    loaded = load_run(RunStore(tmp_path).path(run.key))
    assert loaded.settings.method == PatchEvidence()
    assert type(loaded.settings.method.field_scale) is float
    assert loaded.settings.steps == 2
    assert (
        made.tiny_train(method="patch", steps=2, learning_rate=0.5, seeds=3, store=tmp_path)[0].key
        == run.key
    )


def test_a_problem_of_ones_own(made, tmp_path):
    def residual(*, u, u_t, u_x, u_xx, nu):
        return u_t + 2 * u * u_x - nu * u_xx

    problem = replace(BURGERS, name="own-burgers", residual=residual)
    dataset = replace(made.tiny_dataset(), problem="own-burgers")
    run = made.tiny_train(problem, [dataset], store=tmp_path)[0]
    path = RunStore(tmp_path).path(run.key)
    loaded = load_run(path, problem=problem)
    made.assert_same_bits(loaded, run)
    assert_array_equal(loaded.residual(nu=0.02), run.residual(nu=0.02))
    assert load_runs(tmp_path, problem)[0].key == run.key
    with pytest.raises(InputError, match="own-burgers"):
        load_run(path)
    with pytest.raises(InputError, match=r"the problem own-burgers, got burgers"):
        load_run(path, problem=BURGERS)
    stored = made.tiny_train(problem, [dataset], store=tmp_path)[0]
    made.assert_same_bits(stored, run)


def test_the_manifest_can_be_read_by_people(trained, saved):
    plain = json.loads(saved.read_text())
    run = trained["rba"][0]
    assert plain["delivered"] == run.delivered
    assert plain["settings"]["problem"] == "burgers"
    assert plain["settings"]["method"] == {
        "name": "rba",
        "options": {"decay": 0.999, "increment": 0.001},
    }
    assert plain["settings"]["steps"] == 24
    assert plain["run"]["dataset"] == "tiny0"
    assert plain["run"]["seed"] == 0
    assert plain["status"] == "finished"
    assert saved.read_text().count("\n") > 40
    content = saved.with_name(ARRAYS).read_bytes()
    assert plain["arrays"] == {
        "file": ARRAYS,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def test_the_checksum_of_a_manifest_can_be_computed_without_the_library(saved):
    """As the page on files describes it."""
    plain = json.loads(saved.read_text())
    told = plain.pop("sha256")
    text = json.dumps(plain, sort_keys=True)
    assert hashlib.sha256(text.encode("ascii")).hexdigest() == told


def test_a_run_is_named_by_its_directory_or_its_manifest(made, trained, saved, monkeypatch):
    monkeypatch.chdir(saved.parent)
    for path in (saved, saved.parent, str(saved), ".", MANIFEST, f"../{saved.parent.name}"):
        made.assert_same_bits(load_run(path), trained["rba"][0])


def test_weights_are_plain_safetensors(trained, saved):
    arrays = load_file(saved.with_name(ARRAYS))
    run = trained["rba"][0]
    last = len(run.snapshots)
    assert_array_equal(arrays[f"snapshot{last}.weight0"], run.final.layers[0][0])
    assert arrays[f"snapshot{last}.weight0"].dtype == np.float32
    assert_array_equal(arrays["points"], run.points)


def test_a_diverged_run_can_be_stored(made, tmp_path):
    values = made.tiny_dataset().values.copy()
    values[0] = 1e30
    run = made.tiny_train(datasets=[replace(made.tiny_dataset(), values=values)], store=tmp_path)[0]
    loaded = load_run(RunStore(tmp_path).path(run.key))
    made.assert_same_bits(loaded, run)
    assert loaded.status.startswith("diverged at step 1")
    assert list(loaded.history) == list(run.history)


# ------------------------------------------------------------------ what is refused


def refused(path, **options):
    with pytest.raises(InputError) as caught:
        load_run(path, **options)
    error = caught.value
    assert error.expected
    assert error.got
    assert error.fix
    assert str(error).startswith("expected ")
    return str(error)


def damaged(path):
    """The run is refused, and by an error that lets a store make it again."""
    with pytest.raises(DamagedRunError) as caught:
        load_run(path)
    return str(caught.value)


@pytest.mark.parametrize("name", [MANIFEST, ARRAYS])
def test_every_truncation_is_refused(saved, name):
    path = saved.with_name(name)
    content = path.read_bytes()
    whole = len(content) - (name == MANIFEST)  # a manifest ends with a line break
    for length in {*range(200), *range(0, whole, 7), *range(whole - 20, whole)}:
        path.write_bytes(content[:length])
        damaged(saved)
    path.write_bytes(content + b"x")
    damaged(saved)
    path.write_bytes(content)
    load_run(saved)


@pytest.mark.parametrize("name", [MANIFEST, ARRAYS])
def test_every_changed_byte_is_refused(saved, name):
    path = saved.with_name(name)
    content = path.read_bytes()
    generator = np.random.default_rng(0)
    for place in generator.choice(len(content), min(len(content), 1000), replace=False):
        changed = bytearray(content)
        changed[place] ^= 1 << int(generator.integers(8))
        if name == MANIFEST and same_json(content, bytes(changed)):
            continue  # only white space differs
        path.write_bytes(bytes(changed))
        damaged(saved)
    path.write_bytes(content)
    load_run(saved)


def same_json(left, right):
    try:
        return json.loads(left) == json.loads(right)
    except ValueError:
        return False


def test_numbers_in_the_manifest_cannot_be_changed(saved):
    text = saved.read_text()
    plain = json.loads(text)
    value = plain["delivered"]["nu"]
    saved.write_text(text.replace(repr(value), repr(value * 1.01)))
    assert "unchanged run" in refused(saved)


def resealed(plain):
    """A forgery: the manifest with a checksum that fits its new content."""
    plain = {name: value for name, value in plain.items() if name != "sha256"}
    return json.dumps(plain | {"sha256": seal(plain)})


FORGERIES = {
    "no settings": lambda plain: plain.pop("settings"),
    "settings as a list": lambda plain: plain.update(settings=[1, 2]),
    "settings as text": lambda plain: plain.update(settings="all"),
    "no steps": lambda plain: plain["settings"].update(steps=0),
    "steps of infinity": lambda plain: plain["settings"].update(steps=float("inf")),
    "an unknown setting": lambda plain: plain["settings"].update(colour="red"),
    "a method as text": lambda plain: plain["settings"].update(method="rba"),
    "a method without a name": lambda plain: plain["settings"]["method"].pop("name"),
    "a network of text": lambda plain: plain["settings"]["network"].update(width="64"),
    "an unknown problem": lambda plain: plain["settings"].update(problem="navier"),
    "a problem that is a number": lambda plain: plain["settings"].update(problem=4),
    "no run": lambda plain: plain.update(run=None),
    "an unknown program": lambda plain: plain.update(program="abacus"),
    "a program that is a number": lambda plain: plain.update(program=1),
    "a negative seed": lambda plain: plain["run"].update(seed=-1),
    "a start that is a list": lambda plain: plain["run"].update(start=[0.02]),
    "a fixed number": lambda plain: plain["run"].update(fixed=3),
    "noise that is text": lambda plain: plain["run"].update(noise_scale="low"),
    "no snapshots": lambda plain: plain.update(snapshots=[]),
    "snapshots that are numbers": lambda plain: plain.update(snapshots=[1, 2]),
    "too many snapshots": lambda plain: plain["snapshots"].append(plain["snapshots"][0]),
    "a step of infinity": lambda plain: plain["snapshots"][0].update(step=float("inf")),
    "delivered as a list": lambda plain: plain["snapshots"][0].update(delivered=[1]),
    "an unknown view": lambda plain: plain["snapshots"][0].update(view={"kind": "../x"}),
    "a view that is a list": lambda plain: plain["snapshots"][0].update(view=[]),
    "history of nothing": lambda plain: plain.update(history=None),
    "an unknown column": lambda plain: plain.update(history=["../../etc/passwd"]),
    "a key that leaves the directory": lambda plain: plain.update(key="../../elsewhere"),
    "no key": lambda plain: plain.pop("key"),
    "arrays that are text": lambda plain: plain.update(arrays="here"),
    "arrays without a checksum": lambda plain: plain["arrays"].pop("sha256"),
    "arrays of another checksum": lambda plain: plain["arrays"].update(sha256="0" * 64),
    "a checksum that is a number": lambda plain: plain["arrays"].update(sha256=0),
    "arrays without a size": lambda plain: plain["arrays"].pop("bytes"),
    "one byte more": lambda plain: plain["arrays"].update(bytes=plain["arrays"]["bytes"] + 1),
    "one byte less": lambda plain: plain["arrays"].update(bytes=plain["arrays"]["bytes"] - 1),
    "a size beyond all memory": lambda plain: plain["arrays"].update(bytes=10**15),
    "a size beyond all machines": lambda plain: plain["arrays"].update(bytes=10**40),
    "a size below zero": lambda plain: plain["arrays"].update(bytes=-1),
    "a size far below zero": lambda plain: plain["arrays"].update(bytes=-(10**15)),
    "no size": lambda plain: plain["arrays"].update(bytes=0),
    "a true size": lambda plain: plain["arrays"].update(bytes=True),
    "a size with a fraction": lambda plain: plain["arrays"].update(bytes=1e3),
    "a size as text": lambda plain: plain["arrays"].update(bytes="1000"),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_forged_manifests(saved, forge):
    plain = json.loads(saved.read_text())
    forge(plain)
    saved.write_text(resealed(plain))
    refused(saved)


def test_a_large_file_in_place_of_the_arrays_is_not_read(saved):
    """A terabyte, of which the disk holds nothing: reading it would end the process."""
    with saved.with_name(ARRAYS).open("r+b") as stream:
        stream.truncate(2**40)
    assert "larger than it can be" in damaged(saved)


def test_holes_that_the_manifest_claims_are_not_read(saved):
    plain = json.loads(saved.read_text())
    plain["arrays"]["bytes"] = 2**33
    saved.write_text(resealed(plain))
    with saved.with_name(ARRAYS).open("r+b") as stream:
        stream.truncate(2**33)
    assert "holes" in damaged(saved)


def test_a_manifest_that_is_too_large_is_not_read(saved):
    with saved.open("r+b") as stream:
        stream.truncate(storage.LARGEST_MANIFEST + 1)
    assert "larger than it can be" in damaged(saved)


def test_a_manifest_with_nested_lists(saved):
    """At about a thousand levels, one part of a program can follow and another cannot."""
    content = saved.read_text()
    for depth in (100, *range(800, 1001), 100_000):
        nested = "[" * depth + "]" * depth
        saved.write_text(content.replace('"history": [', f'"history": [{nested}, '))
        damaged(saved)


def test_arrays_are_read_from_beside_the_manifest_alone(saved, tmp_path):
    """A path in the manifest is for readers: whatever it says, nothing else is opened."""
    secret = tmp_path / "secret.safetensors"
    shutil.move(saved.with_name(ARRAYS), secret)
    plain = json.loads(saved.read_text())
    for place in ("../secret.safetensors", str(secret)):
        plain["arrays"]["file"] = place
        saved.write_text(resealed(plain))
        assert "arrays.safetensors cannot be read" in damaged(saved)


@pytest.mark.parametrize("version", [0, 2, "1", None, [1]])
def test_another_version(saved, version):
    plain = json.loads(saved.read_text())
    plain["version"] = version
    saved.write_text(resealed(plain))
    message = refused(saved)
    assert "version 1 of the format" in message
    assert "train again" in message


def test_a_version_that_became_another_by_damage_is_damage(saved):
    saved.write_text(saved.read_text().replace('"version": 1', '"version": 3'))
    damaged(saved)


def test_a_run_under_another_name(saved, tmp_path):
    shutil.copytree(saved.parent, tmp_path / "other")
    assert "another name" in damaged(tmp_path / "other")


@pytest.mark.parametrize("name", [MANIFEST, ARRAYS])
def test_files_of_two_runs(trained, tmp_path, name):
    first, second = (write_run(run, tmp_path) for run in trained["rba"])
    shutil.copy(second / name, first / name)
    assert {MANIFEST: "another name", ARRAYS: "checksum"}[name] in damaged(first)


@pytest.mark.parametrize("name", [MANIFEST, ARRAYS])
def test_a_run_that_lacks_a_file(saved, name):
    saved.with_name(name).unlink()
    assert f"{name} cannot be read" in damaged(saved.parent)


def test_a_file_that_may_not_be_read_is_no_damage(saved, monkeypatch):
    """Nor is a lack of file handles: such a run must not be set aside."""
    opened = os.open
    for number in (errno.EACCES, errno.EMFILE, errno.EIO):

        def fails(path, *given, number=number, **options):
            if Path(path).name == ARRAYS:
                raise OSError(number, os.strerror(number))
            return opened(path, *given, **options)

        monkeypatch.setattr(os, "open", fails)
        with pytest.raises(InputError, match=r"can read.*permissions") as caught:
            load_run(saved)
        assert not isinstance(caught.value, DamagedRunError)
        monkeypatch.undo()


# ------------------------------------------------------------------ links, pipes, directories


def replaced(path, kind, tmp_path):
    """Put something else in the place of a file, with the same content where it has one."""
    elsewhere = tmp_path / "elsewhere"
    shutil.move(path, elsewhere)
    if kind == "a link":
        path.symlink_to(elsewhere)
    elif kind == "a link to nothing":
        path.symlink_to(tmp_path / "nothing")
    elif kind == "a link to itself":
        path.symlink_to(path)
    elif kind == "a link to a device":
        path.symlink_to("/dev/zero")
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as made, contextlib.chdir(path.parent):
            made.bind(path.name)
    else:
        path.mkdir()


KINDS = [
    "a link",
    "a link to nothing",
    "a link to itself",
    "a link to a device",
    "a pipe",
    "a socket",
    "a directory",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [MANIFEST, ARRAYS])
def test_only_plain_files_are_read(saved, name, kind, tmp_path):
    replaced(saved.with_name(name), kind, tmp_path)
    handles = open_handles()
    assert f"{name} cannot be read" in damaged(saved.parent)
    assert open_handles() == handles


def open_handles():
    handles = Path("/proc/self/fd")
    return len(list(handles.iterdir())) if handles.is_dir() else 0


def test_a_pipe_with_a_writer_is_not_read(saved):
    content = saved.read_bytes()
    saved.unlink()
    os.mkfifo(saved)
    handle = os.open(saved, os.O_RDWR)
    try:
        os.write(handle, content)
        assert "no plain file" in damaged(saved.parent)
    finally:
        os.close(handle)


def test_a_run_that_is_a_link(saved, tmp_path):
    elsewhere = tmp_path / "elsewhere" / saved.parent.name
    elsewhere.parent.mkdir()
    saved.parent.rename(elsewhere)
    load_run(elsewhere)
    saved.parent.symlink_to(elsewhere)
    assert "link" in damaged(saved.parent)
    assert "link" in damaged(saved)


def test_the_way_to_a_run_may_have_links(made, trained, saved, tmp_path):
    """A whole directory of runs may lie elsewhere."""
    (tmp_path / "link").symlink_to(tmp_path)
    made.assert_same_bits(load_run(tmp_path / "link" / saved.parent.name), trained["rba"][0])


STRANGE = {
    "not there": lambda saved: saved.parent.with_name("nothing"),
    "a file that is not there": lambda saved: saved.with_name("nothing.json"),
    "another directory": lambda saved: saved.parent.parent,
    "the arrays": lambda saved: saved.with_name(ARRAYS),
    "a number": lambda saved: 7,  # noqa: ARG005
    "nothing": lambda saved: None,  # noqa: ARG005
    "a name with a NUL": lambda saved: "a\0b",  # noqa: ARG005
    "a manifest in what has a NUL": lambda saved: f"a\0b/{MANIFEST}",  # noqa: ARG005
    "a long name": lambda saved: "x" * 300,  # noqa: ARG005
    "an empty name": lambda saved: "",  # noqa: ARG005
    "the root": lambda saved: "/",  # noqa: ARG005
}


@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE)
def test_what_is_no_run(saved, make):
    refused(make(saved))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "[" * 100_000, "\udcff", '{"format": 3}', '{"format": "twoaxis run"}'],
)
def test_text_that_is_no_manifest(saved, text):
    saved.write_bytes(text.encode(errors="surrogateescape"))
    damaged(saved)


# ------------------------------------------------------------------ writing


KEYS = {
    "nothing": "",
    "a dot": ".",
    "the directory above": "..",
    "a path": "a/b",
    "a path that leaves": "../a",
    "a path from the root": "/abs",
    "a hidden name": ".hidden",
    "a temporary name": ".twoaxis-a",
    "a NUL": "a\0b",
    "a long name": "a" * 300,
    "a dot at its end": "a.",
    "a line break": "a\n",
    "a backslash": "a\\b",
    "a drive": "c:",
    "an option": "-rf",
    "a letter that is not ASCII": "ä",
    "a blank": "a b",
    "a number": 7,
    "None": None,
    "bytes": b"a",
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_keys_that_are_no_names(trained, tmp_path, key):
    (tmp_path / "inside").mkdir()
    with pytest.raises(InputError, match="the key of a run"):
        write_run(replace(trained["rba"][0], key=key), tmp_path / "inside")
    assert contents(tmp_path) == {"inside": None}


@pytest.mark.parametrize("key", ["a", "0", "_", "a" * 200, "A.b-c_d", "con"])
def test_keys_that_are_names(trained, tmp_path, key):
    run = replace(trained["rba"][0], key=key)
    assert load_run(write_run(run, tmp_path)).key == key


def other(run):
    """A run of the same key whose files differ."""
    return replace(run, snapshots=run.snapshots[:1])


def test_the_run_that_is_there_stays(trained, saved):
    before = contents(saved.parent)
    assert write_run(other(trained["rba"][0]), saved.parent.parent) == saved.parent
    assert contents(saved.parent) == before


def test_overwrite_replaces(trained, saved, tmp_path):
    run = other(trained["rba"][0])
    assert write_run(run, tmp_path, overwrite=True) == saved.parent
    assert len(load_run(saved).snapshots) == 1
    assert list(tmp_path.iterdir()) == [saved.parent]
    # Also where there is nothing, and where there is what cannot be used.
    assert contents(write_run(run, tmp_path / "new", overwrite=True)) == contents(saved.parent)
    saved.write_text("spoiled")
    (saved.parent / "more.txt").write_text("mine")
    write_run(run, tmp_path, overwrite=True)
    assert contents(saved.parent) == contents(tmp_path / "new" / run.key)


@pytest.mark.parametrize("kind", ["a file", "a link", "a link to nothing"])
def test_what_is_in_the_way_of_a_run(made, trained, tmp_path, kind):
    run = trained["rba"][0]
    place, elsewhere = tmp_path / "runs" / run.key, tmp_path / "elsewhere"
    place.parent.mkdir()
    if kind == "a file":
        place.write_text("mine")
    else:
        place.symlink_to(elsewhere)
    if kind == "a link":
        elsewhere.mkdir()
    before = contents(tmp_path)
    with pytest.raises(InputError, match=r"link or no directory.*move it away"):
        write_run(run, place.parent)
    assert contents(tmp_path) == before
    write_run(run, place.parent, overwrite=True)
    made.assert_same_bits(load_run(place), run)
    assert list(place.parent.iterdir()) == [place]
    assert elsewhere.exists() == (kind == "a link")
    assert not any(elsewhere.glob("*"))


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
def test_permissions_are_those_of_ordinary_files(trained, tmp_path, mask):
    before = os.umask(mask)
    try:
        path = write_run(trained["rba"][0], tmp_path / "runs")
    finally:
        after = os.umask(before)
    assert after == mask
    for directory in (path, path.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o777 & ~mask
    for file in path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~mask


def test_a_run_is_on_the_disk_before_it_has_its_name(trained, tmp_path, monkeypatch):
    """The order on which a power failure depends."""
    run, steps = trained["rba"][0], []
    fsync, rename = os.fsync, Path.rename

    def flushed(handle):
        steps.append(Path(f"/proc/self/fd/{handle}").readlink())
        fsync(handle)

    def renamed(path, target):
        steps.append((path, target))
        return rename(path, target)

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc")
    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "rename", renamed)
    target = write_run(run, tmp_path / "3f")
    whole = steps[-2][0]
    assert whole.parent == target.parent
    assert whole.name.startswith(".twoaxis-")
    assert steps == [
        tmp_path,
        whole / ARRAYS,
        whole / MANIFEST,
        whole,
        (whole, target),
        target.parent,
    ]


FAILURES = {
    "the first write": (Path, "write_bytes", 1),
    "the second write": (Path, "write_bytes", 2),
    "the first flush": (os, "fsync", 1),
    "the second flush": (os, "fsync", 2),
    "the rename": (Path, "rename", 1),
}
FULL = OSError(errno.ENOSPC, "No space left on device")


def failing(monkeypatch, owner, name, calls, error):
    """The call of this number fails, after it has done a part of its work."""
    original, count = getattr(owner, name), [0]

    def stopped(*given, **options):
        count[0] += 1
        if count[0] != calls:
            return original(*given, **options)
        if name == "write_bytes":
            original(given[0], given[1][: len(given[1]) // 2])
        raise error

    monkeypatch.setattr(owner, name, stopped)


@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["full", "interrupted"])
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_failed_write_leaves_nothing(made, trained, tmp_path, monkeypatch, failure, error):
    failing(monkeypatch, *failure, error)
    with pytest.raises(type(error)):
        write_run(trained["rba"][0], tmp_path)
    monkeypatch.undo()
    assert contents(tmp_path) == {}
    made.assert_same_bits(load_run(write_run(trained["rba"][0], tmp_path)), trained["rba"][0])


@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["full", "interrupted"])
@pytest.mark.parametrize(
    "failure",
    [*FAILURES.values(), (Path, "rename", 2)],
    ids=[*FAILURES, "the second rename"],
)
def test_a_failed_write_leaves_the_old_run_whole(trained, saved, monkeypatch, failure, error):
    before = contents(saved.parent.parent)
    if failure[1] == "rename":  # which is done where names cannot change places
        monkeypatch.setattr(moving, "exchange", lambda *names: False)  # noqa: ARG005
    failing(monkeypatch, *failure, error)
    with pytest.raises(type(error)):
        write_run(other(trained["rba"][0]), saved.parent.parent, overwrite=True)
    monkeypatch.undo()
    assert contents(saved.parent.parent) == before
    load_run(saved)


# ------------------------------------------------------------------ many at once


@pytest.mark.parametrize("overwrite", [False, True])
def test_writers_of_one_key_leave_one_run(trained, tmp_path, overwrite):
    """Each writer's run differs: what is left is one of them, and whole."""
    run = trained["rba"][0]
    runs = [replace(run, snapshots=run.snapshots[:count]) for count in range(4)]
    whole = [contents(write_run(each, tmp_path / str(n))) for n, each in enumerate(runs)]
    for number in range(60):
        home = tmp_path / f"round{number}"
        at_once(*(partial(write_run, each, home, overwrite=overwrite) for each in runs))
        assert list(home.iterdir()) == [home / run.key]
        assert contents(home / run.key) in whole
        load_run(home / run.key)


WRITER = """
import sys
from pathlib import Path
from dataclasses import replace
from twoaxis.runs.run_file import load_run, write_run
source, home, number, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
run = load_run(source)
run = replace(run, snapshots=run.snapshots[:number])
print("ready", flush=True)
sys.stdin.readline()
for each in range(rounds):
    write_run(run, home / str(each), overwrite=bool(each % 2))
"""


@pytest.mark.long
def test_writers_in_several_processes_leave_one_run(trained, saved, tmp_path):
    home, rounds = tmp_path / "rounds", 100
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(saved.parent), str(home), str(number), str(rounds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        for number in range(2)
    ]
    try:
        for writer in writers:
            assert writer.stdout.readline() == b"ready\n", writer.stderr.read().decode()
        for writer in writers:
            writer.stdin.write(b"\n")
            writer.stdin.flush()
        complaints = [writer.communicate(timeout=120)[1].decode() for writer in writers]
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    assert [writer.returncode for writer in writers] == [0, 0], complaints
    run = trained["rba"][0]
    whole = [
        contents(write_run(replace(run, snapshots=run.snapshots[:n]), tmp_path / f"{n}"))
        for n in range(2)
    ]
    for each in range(rounds):
        assert [path.name for path in (home / str(each)).iterdir()] == [run.key]
        assert contents(home / str(each) / run.key) in whole


def test_a_run_that_is_replaced_while_it_is_read_is_not_called_damaged(trained, saved, monkeypatch):
    """Between manifest and arrays a writer puts another run in the place."""
    run, opened, done = trained["rba"][0], os.open, []

    def replacing(path, *given, **options):
        if Path(path).name == ARRAYS and not done:
            done.append(path)
            write_run(other(run), saved.parent.parent, overwrite=True)
        return opened(path, *given, **options)

    monkeypatch.setattr(os, "open", replacing)
    assert len(load_run(saved).snapshots) == 1
    assert done


def test_readers_beside_a_writer_never_see_a_part(trained, saved):
    """A reader finds the old run, the new one or, for a moment, none; but nothing damaged."""
    run, home = trained["rba"][0], saved.parent.parent
    runs, stop, seen = [run, other(run)], threading.Event(), set()

    def write():
        try:
            for number in range(60):
                write_run(runs[number % 2], home, overwrite=True)
        finally:
            stop.set()

    def read():
        while not stop.is_set():
            try:
                seen.add(len(load_run(saved.parent).snapshots))
            except DamagedRunError:
                raise
            except InputError as error:
                assert "No such file" in str(error)  # noqa: PT017

    at_once(write, read, read)
    seen.add(len(load_run(saved.parent).snapshots))
    assert seen <= {1, len(run.snapshots)}


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_signal_as_soon_as_a_directory_is_there_leaves_no_trace(
    trained, tmp_path, monkeypatch, exchanges
):
    """Of a run that is replaced: its own directory, and the one where the old run waits."""
    write_run(trained["rba"][0], tmp_path)
    before, ordinary, made = contents(tmp_path), os.mkdir, []
    if not exchanges:
        monkeypatch.setattr(moving, "exchange", lambda *_: False)

    def interrupted(path, *arguments, **options):
        ordinary(path, *arguments, **options)
        made.append(path)
        if len(made) == (1 if exchanges else 2):
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_run(trained["rba"][0], tmp_path, overwrite=True)
    assert contents(tmp_path) == before

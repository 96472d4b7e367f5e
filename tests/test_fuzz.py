"""Nothing that is loaded runs code, and damaged files end in a clean error."""

import ast
import importlib
import os
import shutil
import tracemalloc
from pathlib import Path
from random import Random
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

import twoaxis as ta
from twoaxis.files import read_text
from twoaxis.netcdf import reading as netcdf

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "twoaxis"
FORBIDDEN = {"pickle", "cPickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}


@pytest.fixture(scope="module")
def fuzz(tmp_path_factory):
    """The cases of ``benchmarks/fuzz.py`` and undamaged files of every kind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        kinds = importlib.import_module("fuzz_kinds")
    home = tmp_path_factory.mktemp("fuzz")
    kinds.make_all(home / "made")
    return kinds, home


KINDS = (
    "run",
    "checkpoint",
    "audit",
    "resolution",
    "residual",
    "set",
    "simulated",
    "table",
    "record",
)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_end_well(fuzz, kind):
    kinds, home = fuzz
    known, made = kinds.KINDS[kind], home / "made" / kind
    original = known.read(made)
    outcomes = []
    for number in range(15 if kind == "audit" else 40):  # audits take the longest
        place = home / f"{kind}{number}"
        shutil.copytree(made, place)
        random = Random(f"3/{kind}/{number}")
        outcomes.append(kinds.outcome_of(known, random, place, original))
    assert [told for outcome, told in outcomes if outcome == "finding"] == []
    assert ("refused", "") in outcomes


def uses(path):
    """What a module has that could run the content of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.partition(".")[0] in FORBIDDEN)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").partition(".")[0] in FORBIDDEN:
                yield node.module
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec", "compile"):
                yield node.func.id
            if any(keyword.arg == "allow_pickle" for keyword in node.keywords):
                yield "allow_pickle"


def test_nothing_here_unpickles_or_evaluates():
    modules = sorted(SOURCE.rglob("*.py"))
    assert len(modules) > 100
    found = {str(path.relative_to(SOURCE)): sorted(set(uses(path))) for path in modules}
    assert {name: own for name, own in found.items() if own} == {}


def test_the_check_of_modules_finds_what_it_looks_for(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("import pickle\nfrom dill import load\neval('1')\nf(allow_pickle=True)\n")
    assert sorted(uses(path)) == ["allow_pickle", "dill", "eval", "pickle"]


# ------------------------------------------------------------------ netCDF

POINTS = np.linspace(0.0, 1.0, 12)
RATE = {"k": ta.Parameter(truth=1.0, bounds=(0.5, 2.0))}


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    home = tmp_path_factory.mktemp("originals")
    frozen = ta.FrozenResidual(
        lambda k: np.exp(-k * POINTS) - 0.4, RATE, POINTS, view=ta.views.Pointwise()
    )
    found = ta.resolve(lambda k: np.exp(-k * POINTS), RATE, 0.01, replicas=3, progress=False)
    frozen.save(home / "residual.nc")
    found.to_netcdf(home / "resolution.nc")
    ta.audit(frozen).to_netcdf(home / "audit.nc")
    return home


LOADERS = {
    "residual": ta.load,
    "resolution": ta.load_resolution,
    "audit": ta.load_audit,
}


@pytest.fixture(params=LOADERS)
def changed(request, originals, tmp_path):
    """``changed(change)``: load a copy to which this was done."""

    def load(change):
        path = tmp_path / "copy.nc"
        path.write_bytes((originals / f"{request.param}.nc").read_bytes())
        with h5py.File(path, "r+") as file:
            change(file)
        return LOADERS[request.param](path)

    return load


def coordinate_of_terabytes(file):
    # An index is made of a coordinate when the file is opened, before anything is asked for.
    file.create_dataset("huge", shape=(10**12,), dtype="f8").make_scale("huge")


def compressed(file):
    file.create_dataset("huge", shape=(10**10,), dtype="f8", chunks=(1000,), compression="gzip")


def one_large_chunk(file):
    file.create_dataset(
        "huge", shape=(1,), maxshape=(None,), dtype="f8", chunks=(10**8,), compression="gzip"
    )


def circle(file):
    file["a"] = file["/"]
    file["b"] = file["/"]


def many_names(file):
    big = file.create_dataset("big", data=np.zeros(20_000))
    for number in range(100):
        file[f"copy{number}"] = big


def many_variables(file):
    for number in range(1100):
        file.create_group(f"group{number}")


PROMISES = {
    "many variables": (many_variables, "more than 1000 variables"),
    "coordinate": (coordinate_of_terabytes, "more numbers promised"),
    "compressed": (compressed, "more numbers promised"),
    "chunk": (one_large_chunk, "more numbers promised"),
    "one array under many names": (many_names, "another name for"),
    "circle": (circle, "another name for"),
    "deep": (lambda file: file.create_group("/".join("abcdefghij")), "groups within each other"),
    "soft link": (lambda f: f.update({"x": h5py.SoftLink("/parameter")}), "a link in the place"),
    "other file": (
        lambda f: f.update({"x": h5py.ExternalLink("/etc/passwd", "/")}),
        "a link in the place",
    ),
    "other file's bytes": (
        lambda f: f.create_dataset("x", (9,), "i1", external=[("/etc/passwd", 0, 9)]),
        "lie in other files",
    ),
    "long attribute": (
        lambda f: f.attrs.create("x", ["text"] * 500, dtype=h5py.string_dtype()),
        "a long list as attribute",
    ),
}


def in_place_of(name, values, **options):
    """Another attribute in the place of one that HDF5 reads by itself."""

    def change(file):
        found = []
        file.visititems(lambda _, each: found.append(each) if name in each.attrs else None)
        each = found[0] if found else file[next(iter(file))]
        if name in each.attrs:
            del each.attrs[name]
        each.attrs.create(name, values, **options)

    return change


def lists(count, dtype):
    """So many empty lists of a type."""
    found = np.empty(count, object)
    for number in range(count):
        found[number] = np.empty(0, dtype)
    return found


DIMENSIONS = {
    "numbers": in_place_of("DIMENSION_LIST", [1.0] * 5000),
    "one number": in_place_of("DIMENSION_LIST", [1.0]),
    "a number alone": in_place_of("DIMENSION_LIST", 1.0),
    "nothing": in_place_of("DIMENSION_LIST", h5py.Empty("f8")),
    "texts": in_place_of("DIMENSION_LIST", ["x"] * 5, dtype=h5py.string_dtype()),
    "lists of numbers": in_place_of(
        "DIMENSION_LIST", lists(1, "i1"), dtype=h5py.vlen_dtype(np.int8)
    ),
    "too many": in_place_of(
        "DIMENSION_LIST", lists(9, h5py.ref_dtype), dtype=h5py.vlen_dtype(h5py.ref_dtype)
    ),
    "labels": in_place_of("DIMENSION_LABELS", ["x"] * 5000, dtype=h5py.string_dtype()),
    "back references": in_place_of("REFERENCE_LIST", [1.0] * 5000),
    "a class of numbers": in_place_of("CLASS", [1.0] * 5000),
    "a name of numbers": in_place_of("NAME", [1.0] * 5000),
}


@pytest.mark.parametrize("change", DIMENSIONS.values(), ids=DIMENSIONS)
def test_dimensions_that_are_none(changed, change):
    """HDF5 would write the first of them over memory that is not its own."""
    with pytest.raises(ta.InputError, match="dimensions that are none"):
        changed(change)


@pytest.mark.parametrize(("change", "message"), PROMISES.values(), ids=PROMISES)
def test_a_netcdf_file_that_promises_too_much(changed, change, message):
    with pytest.raises(ta.InputError, match=message):
        changed(change)


def test_an_unchanged_copy_is_read(changed):
    changed(lambda file: None)  # noqa: ARG005


def without_messages(file):
    del file.attrs["messages"]


def other_center(file):
    file.attrs["centered_on"] = "elsewhere"


def numbers_for_names(file):
    del file["layout"]
    file.create_dataset("layout", data=[1.0]).make_scale("layout")


@pytest.mark.parametrize("change", [without_messages, other_center, numbers_for_names])
def test_a_resolution_that_cannot_be_shown(originals, tmp_path, change):
    path = tmp_path / "copy.nc"
    path.write_bytes((originals / "resolution.nc").read_bytes())
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(ta.InputError):
        ta.load_resolution(path)


# ------------------------------------------------------------------ texts


def test_a_text_is_read_within_its_bound(tmp_path):
    path = tmp_path / "text"
    path.write_text("é" * 10, encoding="utf-8")
    assert read_text(path, 20) == "é" * 10
    with pytest.raises(ValueError, match="larger than 19 bytes"):
        read_text(path, 19)
    os.truncate(path, 2**40)  # a terabyte of nothing
    with pytest.raises(ValueError, match="larger"):
        read_text(path, 1000)


def test_a_pipe_is_no_text(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="no plain file"):
        read_text(tmp_path / "pipe", 10)


# ------------------------------------------------------------------ one text, many times

LONG = 3 * 2**20


def share(path, count):
    """Let `count` cells in a row point to the text of the first of them, the longest.

    A cell is the length of a text, the address of a heap and a number there: 16 bytes. The
    library that writes such files never lets two cells share a text, but the format allows it.
    """
    content = bytearray(path.read_bytes())
    place = content.find(LONG.to_bytes(4, "little"))
    while content[place + 16 : place + 20] != (1).to_bytes(4, "little"):
        place = content.find(LONG.to_bytes(4, "little"), place + 1)
        assert place >= 0
    content[place : place + 16 * count] = content[place : place + 16] * count
    path.write_bytes(bytes(content))


def text_list(file, count):
    file.attrs.create("shared", ["x" * LONG] + ["y"] * (count - 1), dtype=h5py.string_dtype())


def text_cells(file, count):
    file.create_dataset("shared", data=["x" * LONG] + ["y"] * (count - 1))


def text_square(file, count):
    cells = np.array(["x" * LONG] + ["y"] * (count - 1), dtype=object).reshape(-1, 4)
    file.create_dataset("shared", data=cells, dtype=h5py.string_dtype())


BOMBS = {
    "a list of texts": (text_list, 32, "a long list"),
    "cells": (text_cells, 100_000, "more numbers promised"),
    "cells in rows": (text_square, 4000, "more numbers promised"),
}


@pytest.mark.parametrize(("make", "count", "message"), BOMBS.values(), ids=BOMBS)
def test_one_text_that_is_read_many_times(tmp_path, make, count, message):
    """Read without a look at what it promises, each would take from a hundred megabytes on."""
    path = tmp_path / "file.nc"
    with h5py.File(path, "w") as file:
        make(file, count)
    share(path, count)
    with h5py.File(path) as file:  # it is well-formed
        found = file.attrs["shared"] if make is text_list else file["shared"][:2]
        assert len(np.ravel(np.asarray(found, dtype=object))[1]) == LONG
    assert path.stat().st_size < 3 * LONG
    assert peak(lambda: refused(path, message)) < 2**25


def refused(path, message):
    with pytest.raises(ta.InputError, match=message):
        ta.load_resolution(path)


def peak(call):
    """Return the most bytes that Python objects took during a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_many_attributes_with_one_text(tmp_path):
    """Each text is counted, however often it is the same."""
    path, names = tmp_path / "file.nc", [f"shared{number:02}" for number in range(40)]
    with h5py.File(path, "w") as file:
        for name in names:
            file.attrs[name] = "x" * (LONG if name == names[0] else 999)
    content = bytearray(path.read_bytes())
    cells = [
        content.index((LONG if name == names[0] else 999).to_bytes(4, "little"), at)
        for name in names
        for at in [content.index(f"{name}\0".encode())]
    ]
    for cell in cells:
        content[cell : cell + 16] = content[cells[0] : cells[0] + 16]
    path.write_bytes(bytes(content))
    with h5py.File(path) as file:
        assert {len(file.attrs[name]) for name in names} == {LONG}
    assert peak(lambda: refused(path, "a long list")) < 2**25


def test_numbers_in_attributes_are_counted_too():
    """The format lets variables share an attribute: what counts is what reading it takes."""

    class Attributes(dict):
        def get_id(self, name):
            size = self[name]
            return SimpleNamespace(
                shape=(size // 8,), dtype=np.dtype(float), get_storage_size=lambda: size
            )

    each = SimpleNamespace(attrs=Attributes(a=400, b=400, c=400))
    assert netcdf._size_of_attributes(each, 1200) == 1200
    with pytest.raises(netcdf.Promise, match="a long list as attribute 'c'"):
        netcdf._size_of_attributes(each, 1199)

"""netCDF in and out: what is written comes back, and what a stranger changed ends in InputError."""

import os
import struct
import subprocess
import sys
import time
from random import Random

import h5py
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twoaxis import io
from twoaxis.errors import InputError
from twoaxis.io import Variable, labelled, read_attributes, read_netcdf, write_netcdf

LAYOUT = {
    "parameter": Variable(("parameter",), "text", "name of the parameter"),
    "x": Variable(("x",), "float", "position", "m", finite=True),
    "fisher": Variable(("parameter", "x"), "float", "Fisher information"),
    "count": Variable(("parameter",), "int", "number of iterations"),
    "inside": Variable(("parameter",), "bool", "within the bounds"),
    "title": Variable((), "text", "title"),
    "cost": Variable((), "float", "cost", required=False),
    "message": Variable(("message",), "text", "messages"),
    "excluded": Variable(("excluded",), "float", "excluded values", required=False),
}
VALUES = {
    "parameter": ["Buckley–Leverett", "", "ν"],
    "x": [0.0, 0.5],
    "fisher": [[1.0, np.nan], [np.inf, -0.0], [5e-324, 1e300]],
    "count": [-(2**63), 0, 2**63 - 1],
    "inside": [True, False, True],
    "title": "é",
    "message": [],
    "excluded": [],
}
ATTRS = {"schema": "twoaxis/test/1", "empty": "", "one": "é", "seed": -3, "level": 0.95}
SCORE = {"score": Variable(("parameter",), "float", "score")}


@pytest.fixture
def path(tmp_path):
    return write_netcdf(tmp_path / "file.nc", labelled(LAYOUT, VALUES, ATTRS))


def read(path, layout=LAYOUT, attributes=ATTRS):
    return read_netcdf(path, {"/": layout}, {"/": attributes})["/"]


def refused(path, *parts, layout=LAYOUT, attributes=ATTRS):
    with pytest.raises(InputError) as caught:
        read(path, layout, attributes)
    message = str(caught.value)
    assert "a file of twoaxis" in message
    for part in parts:
        assert part in message


# ------------------------------------------------------------------ round trips


def test_every_kind_comes_back(path):
    data = labelled(LAYOUT, VALUES, ATTRS)
    xr.testing.assert_identical(read(path), data)
    assert read(path).attrs == ATTRS
    assert {k: type(v) for k, v in read(path).attrs.items()} == {
        k: type(v) for k, v in ATTRS.items()
    }
    assert read_attributes(path) == ATTRS
    assert data["x"].attrs == {"long_name": "position", "units": "m"}
    assert list(data.indexes) == ["parameter", "x", "message", "excluded"]
    assert "cost" not in data


def test_plain_xarray_opens_the_same(path):
    with xr.open_dataset(path, engine="h5netcdf") as opened:
        plain = opened.load()
    xr.testing.assert_identical(plain, read(path))
    assert plain.attrs == ATTRS
    assert plain["inside"].dtype == bool
    assert plain["title"].item() == "é"


def test_a_tree_comes_back(tmp_path):
    tree = xr.DataTree.from_dict(
        {
            "/": labelled(LAYOUT, VALUES, ATTRS),
            "/a/score": labelled(SCORE, {"score": [1, 2, 3]}, {"about": "–"}),
        }
    )
    path = write_netcdf(tmp_path / "tree.nc", tree)
    layouts = {"/a/score": SCORE, "/": LAYOUT, "/none": SCORE}
    found = read_netcdf(path, layouts, {"/": ATTRS, "/a/score": ["about"]}, optional=["/none"])
    assert list(found) == ["/", "/a/score"]
    xr.testing.assert_identical(xr.DataTree.from_dict(found), tree)
    with xr.open_datatree(path, engine="h5netcdf") as opened:
        xr.testing.assert_identical(opened.load(), tree)
    with pytest.raises(InputError, match="without the group '/none'"):
        read_netcdf(path, layouts, {})


def test_no_value_is_in_a_heap_and_none_compressed(path):
    def check(_, each):
        if isinstance(each, h5py.Dataset):
            assert not each.dtype.hasobject
            assert each.compression is None
        # Only what HDF5 itself writes for dimensions, which is never read.
        for name in set(each.attrs) - {"DIMENSION_LIST", "REFERENCE_LIST"}:
            assert not each.attrs.get_id(name).dtype.hasobject, name

    with h5py.File(path) as file:
        check("/", file)
        file.visititems(check)


numbers = st.floats(-1e300, 1e300) | st.sampled_from([np.nan, np.inf, -np.inf])
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(
        st.tuples(texts, numbers, st.integers(-(2**63), 2**63 - 1), st.booleans()), max_size=9
    ),
    about=texts,
    seed=st.integers(-(2**63), 2**63 - 1),
    level=st.floats(allow_nan=False),
)
def test_any_values_come_back(tmp_path, rows, about, seed, level):
    kinds = ("text", "float", "int", "bool")
    layout = {kind: Variable(("row",), kind, kind) for kind in kinds}
    values = {kind: [row[k] for row in rows] for k, kind in enumerate(kinds)}
    attrs = {"about": about, "seed": seed, "level": level}
    path = write_netcdf(tmp_path / "any.nc", labelled(layout, values, attrs))
    found = read(path, layout, attrs)
    assert found.attrs == attrs
    assert found["text"].values.tolist() == values["text"]
    for kind, dtype in (("float", np.float64), ("int", np.int64), ("bool", np.bool_)):
        np.testing.assert_array_equal(
            found[kind].values, np.array(values[kind], dtype), strict=True
        )
    with xr.open_dataset(path, engine="h5netcdf") as plain:
        xr.testing.assert_identical(plain.load(), found)


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        (Variable((), "float", "x"), 1e301),
        (Variable((), "float", "x", least=0), -1e-9),
        (Variable((), "float", "x", most=1), 1.5),
        (Variable((), "int", "x", least=-1), -2),
    ],
)
def test_numbers_outside_their_range_are_refused(spec, value):
    with pytest.raises(InputError, match="'x'"):
        labelled({"x": spec}, {"x": value}, {})
    assert float(labelled({"x": spec}, {"x": 1}, {})["x"]) == 1


def test_other_widths_are_written_as_they_are_read(tmp_path):
    layout = {"a": Variable(("n",), "float", ""), "b": Variable(("n",), "int", "")}
    data = xr.Dataset({"a": ("n", np.float32([0.5, 2])), "b": ("n", np.uint8([1, 255]))})
    data["a"].encoding = {"zlib": True, "chunksizes": (1,)}
    found = read(write_netcdf(tmp_path / "file.nc", data), layout, ())
    assert found["a"].values.tolist() == [0.5, 2.0]
    assert found["b"].values.tolist() == [1, 255]


# ------------------------------------------------------------------ values that are refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": None}, "no variable 'title'"),
        ({"other": 1}, "unknown variable 'other'"),
        ({"x": [[0.0]]}, "'x' of shape (1, 1)"),
        ({"x": [0.0, np.nan]}, "'x' that are not finite"),
        ({"x": [0.0, 1.0, 2.0]}, "'fisher' with 2 values along 'x' instead of 3"),
        ({"fisher": [[1.0], [2.0, 3.0]]}, "rows of different lengths"),
        ({"x": ["a", "b"]}, "not float"),
        ({"x": [1j, 2j]}, "not float"),
        ({"count": [0.5, 1.0, 2.0]}, "not int"),
        ({"count": [True, True, True]}, "not int"),
        ({"count": np.array([2**63, 0, 0], np.uint64)}, "beyond 64 bits"),
        ({"inside": [0, 1, 1]}, "not bool"),
        ({"title": 3}, "with a int, not text"),
        ({"title": "a\0b"}, "NUL"),
        ({"title": "\ud800"}, "broken Unicode"),
    ],
)
def test_values_that_do_not_fit(change, message):
    with pytest.raises(InputError) as caught:
        labelled(LAYOUT, {**VALUES, **change}, ATTRS)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "value", [True, [1], b"x", 2**63, "a\0", "\udc80", "x" * 60_001, np.zeros(2), {}]
)
def test_attributes_that_do_not_fit(tmp_path, value):
    with pytest.raises(InputError, match="'bad'"):
        labelled({}, {}, {"bad": value})
    with pytest.raises(InputError, match="'bad'"):
        write_netcdf(tmp_path / "file.nc", xr.Dataset(attrs={"bad": value}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "value", [np.datetime64("2020-01-01", "ns"), 1j, b"x", {}, "a\0b", "\ud800"]
)
def test_variables_that_cannot_be_written(tmp_path, value):
    data = xr.Dataset({"bad": ("n", np.array([value, value], dtype=np.asarray(value).dtype))})
    with pytest.raises(InputError, match="'bad'"):
        write_netcdf(tmp_path / "file.nc", data)
    assert list(tmp_path.iterdir()) == []


def test_coordinates_that_cannot_be_written(tmp_path):
    beside = xr.Dataset({"x": ("n", [1.0])}, coords={"label": ("n", ["a"])})
    across = xr.Dataset({"n": ("m", [1.0]), "x": ("n", [1.0, 2.0])})
    for data, name in ((beside, "label"), (across, "n")):
        with pytest.raises(InputError, match=f"'{name}'"):
            write_netcdf(tmp_path / "file.nc", data)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("units", ["seconds", "days since 2000-01-01"])
def test_units_that_xarray_would_decode(units):
    with pytest.raises(InputError, match="units"):
        Variable((), "float", "time", units)


def test_the_number_of_texts_is_bounded(path, monkeypatch):
    monkeypatch.setattr(io, "MOST_TEXTS", 2)
    refused(path, "more than 2 texts")
    with pytest.raises(InputError, match="more than 2 texts"):
        labelled(LAYOUT, VALUES, ATTRS)


# ------------------------------------------------------------------ paths that are refused


def test_paths_that_are_no_file(tmp_path, path):
    refused(tmp_path / "none", "No such file")
    refused(tmp_path, "a directory")
    refused(tmp_path / ("x" * 5000), "too long")
    refused(str(path) + "\0", "which cannot be read")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "a device or pipe")
    (tmp_path / "empty").touch()
    refused(tmp_path / "empty", "which is empty")
    (tmp_path / "text").write_text("x" * 5000)
    refused(tmp_path / "text", "not a netCDF-4 file")
    (tmp_path / "cut").write_bytes(path.read_bytes()[:-100])
    refused(tmp_path / "cut", "which cannot be read")
    with pytest.raises(InputError, match="the path of a netCDF file"):
        read_attributes(3)
    with pytest.raises(InputError, match="No such file"):
        read_attributes(tmp_path / "none")


def test_a_file_without_permission(path):
    path.chmod(0)
    user = os.geteuid()
    try:
        if user == 0:  # root may read everything
            os.seteuid(65534)
        refused(path, "Permission denied")
    finally:
        os.seteuid(user)


def test_a_sparse_file(path):
    os.truncate(path, 2**40)
    refused(path, "which claims 1099511627776 bytes")
    with pytest.raises(InputError, match="which claims"):
        read_attributes(path)


# ------------------------------------------------------------------ content that is refused


def replace(name, **options):
    def change(file):
        del file[name]
        file.create_dataset(name, **options)

    return change


def link(name, target):
    def change(file):
        del file[name]
        file[name] = target

    return change


def virtual(file):
    layout = h5py.VirtualLayout((2,), "f8")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (2,))
    del file["x"]
    file.create_virtual_dataset("x", layout)


def attribute(value, **options):
    return lambda file: file.attrs.create("schema", value, **options)


COMPOUND = np.dtype([("a", "f8"), ("b", h5py.string_dtype())])
CHANGES = {
    "soft link": (link("x", h5py.SoftLink("/fisher")), "a link in place of 'x'"),
    "external link": (link("x", h5py.ExternalLink("/etc/passwd", "/")), "a link in place of 'x'"),
    "group": (lambda f: (f.pop("x"), f.create_group("x")), "another kind in place of 'x'"),
    "type": (link("x", np.dtype("f8")), "another kind in place of 'x'"),
    "virtual": (virtual, "'x' in other files"),
    "external": (
        replace("x", shape=(2,), dtype="f8", external=[("/etc/passwd", 0, 16)]),
        "'x' in other files",
    ),
    "missing": (lambda f: f.pop("x"), "no variable 'x'"),
    "gzip": (replace("x", data=[0.0, 1.0], compression="gzip"), "compressed or in chunks"),
    "shuffle": (replace("x", data=[0.0, 1.0], shuffle=True), "compressed or in chunks"),
    "chunks": (replace("x", data=[0.0, 1.0], chunks=(1,)), "compressed or in chunks"),
    "not written": (replace("x", shape=(2,), dtype="f8"), "never written"),
    "terabytes": (replace("message", shape=(10**12, 1), dtype="S1"), "of shape"),
    "too much": (replace("x", shape=(30_000,), dtype="f8"), "than the file can hold"),
    "null": (replace("x", data=h5py.Empty("f8")), "no values in 'x'"),
    "compound": (replace("x", shape=(2,), dtype=COMPOUND), "not float"),
    "vlen": (replace("x", shape=(2,), dtype=h5py.vlen_dtype("f8")), "not float"),
    "reference": (replace("x", shape=(2,), dtype=h5py.ref_dtype), "not float"),
    "half": (replace("x", data=np.float32([0, 1])), "not float"),
    "unsigned": (replace("count", data=np.uint64([0, 1, 2])), "not int"),
    "enum": (replace("inside", data=np.array([True] * 3)), "not bool"),
    "vlen text": (replace("title", data="text"), "not text"),
    "rank": (replace("x", data=[[0.0]]), "of shape (1, 1)"),
    "no width": (replace("title", shape=(0,), dtype="S1"), "of shape (0,)"),
    "sizes": (replace("x", data=[0.0, 1.0, 2.0]), "along 'x'"),
    "not finite": (replace("x", data=[0.0, np.nan]), "not finite"),
    "not boolean": (replace("inside", data=np.int8([0, 1, 2])), "neither true nor false"),
    "not UTF-8": (replace("title", data=np.array([b"\xff", b"a"])), "UnicodeDecodeError"),
    "NUL inside": (replace("title", data=np.array([b"a", b"", b"b"])), "NUL"),
    "no attribute": (lambda f: f.attrs.pop("schema"), "attribute 'schema'"),
    "vlen attribute": (attribute("text"), "attribute 'schema'"),
    "many in one": (attribute([1, 2]), "attribute 'schema'"),
    "null attribute": (attribute(h5py.Empty("f8")), "attribute 'schema'"),
    "compound attribute": (
        attribute(np.array((1.0, "x"), dtype=COMPOUND), dtype=COMPOUND),
        "attribute 'schema'",
    ),
}


@pytest.mark.parametrize(("change", "message"), CHANGES.values(), ids=CHANGES)
def test_content_that_is_refused(path, change, message):
    with h5py.File(path, "r+", track_order=True) as file:
        file.attrs.create("padding", np.zeros(6000))  # so that other bounds than the size count
        file.create_dataset("more", data=np.zeros(12_000))
        read(path)
        change(file)
    refused(path, message)


def test_one_array_under_two_names_is_counted_twice(tmp_path):
    layout = {name: Variable(("n",), "float", name) for name in "ab"}
    path = write_netcdf(tmp_path / "file.nc", labelled(layout, {name: [] for name in "ab"}, {}))
    with h5py.File(path, "r+") as file:
        replace("a", data=np.zeros(20_000))(file)
        del file["b"]
        file["b"] = file["a"]
    refused(path, "more values in 'b' than the file can hold", layout=layout, attributes=())


def test_unknown_members_are_not_looked_at(path):
    before = read(path)
    with h5py.File(path, "r+") as file:
        file.create_dataset("huge", shape=(10**12,), dtype="f8").make_scale("huge")
        file.create_dataset("bomb", shape=(10**10,), dtype="f8", chunks=(1000,), compression="gzip")
        file["loop"] = file["/"]
        file["link"] = h5py.ExternalLink("/etc/passwd", "/")
        file["x"].attrs["DIMENSION_LABELS"] = [1.0] * 50
        for name in ("DIMENSION_LIST", "CLASS", "NAME"):
            file["fisher"].attrs[name] = [1.0] * 50
        file.attrs["list"] = ["text"] * 500
        for number in range(5000):
            file.create_group(f"group{number}")
    xr.testing.assert_identical(read(path), before)
    assert read_attributes(path) == ATTRS


def test_a_dimension_has_one_size_in_a_tree(tmp_path):
    path = tmp_path / "tree.nc"
    tree = {"/": labelled(LAYOUT, VALUES, {}), "/a": labelled(SCORE, {"score": [1, 2, 3]}, {})}
    write_netcdf(path, xr.DataTree.from_dict(tree))
    with h5py.File(path, "r+") as file:
        replace("a/score", data=[1.0, 2.0])(file)
    with pytest.raises(InputError, match="'score' with 2 values along 'parameter' instead of 3"):
        read_netcdf(path, {"/": LAYOUT, "/a": SCORE}, {})


# ------------------------------------------------------------------ time and memory

MEASURE = """
import resource, sys, time
sys.path.insert(0, sys.argv[2])
from test_io import LAYOUT, ATTRS
from twoaxis.errors import InputError
from twoaxis.io import read_attributes, read_netcdf
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
outcome = ""
for call in (lambda path: read_netcdf(path, {"/": LAYOUT}, {"/": ATTRS}), read_attributes):
    try:
        call(sys.argv[1])
        outcome += "read "
    except InputError:
        outcome += "refused "
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(outcome, (after - before) / 1024, time.perf_counter() - start)
"""


def measure(path):
    """Return the outcome of both readers, and the MB and seconds that they took."""
    here = os.path.dirname(__file__)  # noqa: PTH120
    command = [sys.executable, "-c", MEASURE, str(path), here]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    *outcome, memory, seconds = done.stdout.split()
    return outcome, float(memory), float(seconds)


LONG = 3_000_000


def bare_unlimited_dimension(file):
    """No values at all, but a size: h5netcdf gives variables of it that size."""
    file.create_dataset("n", shape=(4 * 10**8,), maxshape=(None,), dtype="f8", chunks=(2**14,))
    del file["x"]
    file.create_dataset("x", shape=(4 * 10**8,), maxshape=(None,), dtype="f8", chunks=(2**14,))


def shared_text(file):
    """Many attributes that will all point to one long text."""
    file.attrs["schema"] = "x" * LONG
    for number in range(200):
        file.attrs[f"f{number}"] = "y" * 999


def compound_text(file):
    """One attribute with many fields that will all point to one long text."""
    dtype = np.dtype([(f"f{k}", h5py.string_dtype()) for k in range(300)])
    value = np.array([("x" * LONG,) + ("y" * 999,) * 299], dtype=dtype)
    file.attrs.create("schema", value, dtype=dtype)


def length_of(path, name):
    """Return how long one of these texts is for HDF5, without reading the others."""
    with h5py.File(path) as file:
        if name in file.attrs:
            return len(file.attrs[name])
        field = np.empty(1, np.dtype([(name, h5py.string_dtype())]))
        file.attrs.get_id("schema").read(field)
        return len(field[name][0])


def point_to_one_heap_object(path):
    """Let every 16-byte cell for a text of 999 bytes point to the text of 3 MB."""
    content = bytearray(path.read_bytes())
    long, short = struct.pack("<I", LONG), struct.pack("<I", 999)
    place = content.find(long)
    # Length, address of a heap within the file, number in it.
    while struct.unpack_from("<Q", content, place + 4)[0] >= len(content) or not any(
        content[place + 4 : place + 12]
    ):
        place = content.find(long, place + 1)
        assert place >= 0
    cell, changed = content[place : place + 16], 0
    at = content.find(short)
    while at >= 0:
        address = struct.unpack_from("<Q", content, at + 4)[0]
        if content[address : address + 4] == b"GCOL":
            content[at : at + 16] = cell
            changed += 1
        at = content.find(short, at + 1)
    path.write_bytes(content)
    return changed


def test_a_dimension_that_claims_gigabytes(path):
    with h5py.File(path, "r+") as file:
        bare_unlimited_dimension(file)
    outcome, memory, seconds = measure(path)
    assert outcome == ["refused", "read"]
    assert memory < 100
    assert seconds < 20


@pytest.mark.parametrize("make", [shared_text, pytest.param(compound_text, marks=pytest.mark.long)])
def test_one_text_that_is_read_many_times(tmp_path, make):
    path = tmp_path / "file.nc"
    # The old format has no checksums that the change of bytes would have to renew.
    with h5py.File(path, "w", libver=("earliest", "latest")) as file:
        make(file)
    assert point_to_one_heap_object(path) >= 200
    assert {length_of(path, name) for name in ("f1", "f150", "f199")} == {LONG}  # it works
    outcome, memory, seconds = measure(path)
    assert outcome == ["refused", "read"]
    assert memory < 100
    assert seconds < 20
    with pytest.raises(InputError, match="without a text or number as attribute 'schema'"):
        read_netcdf(path, {"/": {}}, {"/": ["schema"]})


def test_a_heap_on_which_hdf5_loops_forever(path):
    with h5py.File(path, "r+") as file:
        file.attrs["schema"] = "a text in a global heap"
    content = bytearray(path.read_bytes())
    start = content.find(b"a text in a global heap") - 16
    assert start > 0
    struct.pack_into("<HHIQ", content, start, 0, 0, 0, 0)
    path.write_bytes(content)
    script = "import h5py, sys; h5py.File(sys.argv[1]).attrs['schema']"
    with pytest.raises(subprocess.TimeoutExpired):  # the attack works
        subprocess.run([sys.executable, "-c", script, str(path)], timeout=3)
    outcome, _, seconds = measure(path)
    assert outcome == ["refused", "read"]
    assert seconds < 20


def test_a_group_on_which_hdf5_loops_forever(tmp_path):
    path = tmp_path / "old.nc"
    with h5py.File(path, "w", libver=("earliest", "latest")) as file:
        for name in LAYOUT:
            file.create_dataset(name, data=1.0)
    content = bytearray(path.read_bytes())
    heap = content.find(b"HEAP")
    _, free, data = struct.unpack_from("<QQQ", content, heap + 8)
    struct.pack_into("<QQ", content, data + free, free, 16)  # the free list goes in a circle
    path.write_bytes(content)
    script = "import h5py, sys; h5py.File(sys.argv[1])['x']"
    with pytest.raises(subprocess.TimeoutExpired):  # the attack works
        subprocess.run(
            ["bash", "-c", 'ulimit -v 8000000; exec "$@"', "-", sys.executable, "-c", script, path],
            timeout=3,
        )
    refused(path, "old format")


def test_bytes_that_look_like_heaps_cost_nothing(path):
    with h5py.File(path, "r+") as file:
        heap = np.frombuffer(b"GCOL\x01\0\0\0" + struct.pack("<Q", 2**23), np.float64)
        file.create_dataset("heaps", data=np.tile(heap, 2**19))
    start = time.perf_counter()
    read(path)
    assert time.perf_counter() - start < 2.0


def test_memory_is_a_few_times_the_size(path):
    """The most that a variable takes: texts, in four bytes per character."""
    with h5py.File(path, "r+") as file:
        replace("message", data=np.full((2**20, 32), b"x"))(file)
    outcome, memory, _ = measure(path)
    assert outcome == ["read", "read"]
    assert memory < 250


# ------------------------------------------------------------------ damage


def test_random_damage_is_refused_or_fits_the_layout(path):
    original, outcomes = path.read_bytes(), []
    for seed in range(500):
        random, content = Random(seed), bytearray(original)
        for _ in range(random.choice((1, 3, 30))):
            place = random.randrange(len(content))
            content[place] = random.choice((0, 255, content[place] ^ 1, random.randrange(256)))
        if random.random() < 0.1:
            del content[random.randrange(len(content)) :]
        path.write_bytes(content)
        try:
            found = read(path)
        except InputError as error:
            assert "a file of twoaxis" in str(error)  # noqa: PT017
            outcomes.append("refused")
            continue
        outcomes.append("read")
        assert np.isfinite(found["x"]).all()
        # It fits: the layout accepts it as it came.
        again = labelled(LAYOUT, {name: found.get(name) for name in LAYOUT}, found.attrs)
        xr.testing.assert_identical(again, found)
    assert min(outcomes.count("read"), outcomes.count("refused")) > 20

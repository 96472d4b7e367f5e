"""Heaps of texts in HDF5 files: sound ones pass, and those that would hold HDF5 for ever do not."""

import struct
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from twoaxis.errors import InputError
from twoaxis.netcdf import read_netcdf
from twoaxis.netcdf.heaps import COLLECTION, Promise, check_heaps


@pytest.fixture
def path(tmp_path):
    """A file of texts of many lengths, an empty one among them, which fill several heaps."""
    texts = np.array(["a" * k for k in range(120)], dtype=object)
    data = xr.Dataset({"text": ("n", texts)}, attrs={"about": "b" * 77, "empty": ""})
    data.to_netcdf(tmp_path / "texts.nc", engine="h5netcdf")
    return tmp_path / "texts.nc"


def heaps_of(content):
    start = content.find(COLLECTION)
    while start >= 0:
        yield start, struct.unpack_from("<Q", content, start + 8)[0]
        start = content.find(COLLECTION, start + 1)


def objects_of(content, start, size):
    """Where objects begin, by number."""
    place, found = start + 16, {}
    while start + size - place >= 16:
        number, length = struct.unpack_from("<H6xQ", content, place)
        found[number] = place
        place += 16 + -(-length // 8) * 8 if number else length
    return found


def test_sound_files_pass(path, tmp_path):
    content = path.read_bytes()
    heaps = list(heaps_of(content))
    assert len(heaps) >= 2
    assert sum(len(objects_of(content, *each)) for each in heaps) > 120
    check_heaps(path)
    (tmp_path / "none").write_bytes(b"")
    check_heaps(tmp_path / "none")


def test_a_rest_without_size_is_refused_and_would_hold_hdf5_for_ever(path):
    content = bytearray(path.read_bytes())
    start, size = next(heaps_of(content))
    # The first heap ends here in an object 0 of size 0.
    place = max(objects_of(content, start, size).values())
    struct.pack_into("<HHIQ", content, place, 0, 0, 0, 0)
    path.write_bytes(content)
    with pytest.raises(Promise, match="whose parts do not fit"):
        check_heaps(path)
    with pytest.raises(InputError, match="whose parts do not fit"):
        read_netcdf(path, xr.open_dataset, "somebody", "write it again")
    script = "import h5py, sys; f = h5py.File(sys.argv[1]); f['text'][:]; f.attrs['about']"
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", script, str(path)], timeout=5)


@pytest.mark.parametrize("length", [2**64 - 1, 2**64 - 15, 2**40, 4096])
def test_an_object_beyond_its_heap_is_refused(path, length):
    content = bytearray(path.read_bytes())
    start, size = next(heaps_of(content))
    place = objects_of(content, start, size)[1]
    struct.pack_into("<Q", content, place + 8, length)
    path.write_bytes(content)
    with pytest.raises(Promise, match="whose parts do not fit"):
        check_heaps(path)


@pytest.mark.parametrize("size", [0, 15, 2**20, 2**64 - 1])
def test_a_heap_beyond_the_file_is_refused(path, size):
    content = bytearray(path.read_bytes())
    start, _ = next(heaps_of(content))
    struct.pack_into("<Q", content, start + 8, size)
    path.write_bytes(content)
    with pytest.raises(Promise, match="a part that ends beyond the file"):
        check_heaps(path)


def test_a_heap_that_is_cut_off_is_refused(tmp_path):
    for length in range(len(COLLECTION), 24):
        (tmp_path / "cut").write_bytes((b"x" + COLLECTION + bytes(16))[: length + 1])
        with pytest.raises(Promise, match="a part that ends beyond the file"):
            check_heaps(tmp_path / "cut")

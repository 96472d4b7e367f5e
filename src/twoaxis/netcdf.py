"""Reading netCDF files that others may have changed: first what they promise, then their numbers.

A small file can claim an array of terabytes: values that were never written, compressed ones,
one text that a million cells point to. It can also name other files as parts of itself. What
this library writes has none of that: every number and every text stands in the file once, as
it is. So the parts of a file are counted before anything is read, and must fit into its size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from twoaxis.errors import InputError

Content = TypeVar("Content")

# A group in a group: the files of this library have one level of them.
MOST_LEVELS = 4
# The files of this library have some hundred; the time to open one grows with the square.
MOST_OBJECTS = 2000
# HDF5 allows no more dimensions, and an attribute of a variable lists at most these.
MOST_DIMENSIONS = 32
# Bytes of a cell that points to a text.
POINTER = 16
# How h5netcdf knows a dimension without values, which it never reads.
BARE_DIMENSION = b"This is a netCDF dimension but not a netCDF variable."


class Promise(ValueError):  # noqa: N818 - not raised to users
    """A file that says of itself what no file of this library says."""


def read_netcdf(path: Path, read: Callable[[Path], Content], writer: str, again: str) -> Content:
    """Return ``read(path)`` of a file whose content fits into its size.

    Parameters
    ----------
    path : Path
        Of a file that exists.
    read : callable
    writer : str
        Whose files these are, for the message.
    again : str
        What to do with any other file.

    Raises
    ------
    InputError
        Whatever a damaged file makes the libraries for HDF5 raise, it means the same.
    """
    try:
        _check_promises(path)
        return read(path)
    except Promise as error:
        fault, cause = f"with {error}", error
    except Exception as error:
        fault, cause = f"which cannot be read ({type(error).__name__})", error  # type: ignore[assignment]
    raise InputError(
        f"a netCDF file that {writer} wrote",
        f"{str(path)!r}, {fault}",
        f"{again}; the file may be damaged or of another kind",
    ) from cause


def _check_promises(path: Path) -> None:
    """Compare what a file promises with its size, before its numbers are read."""
    import h5py  # type: ignore[import-untyped]

    left: int = path.stat().st_size
    with h5py.File(path, "r") as file:
        for each in _objects(file):
            left -= _text_of_attributes(each, left)
            if isinstance(each, h5py.Dataset):
                left -= _size(each, left)
            if left < 0:
                raise Promise("more numbers promised than the file can hold")


def _objects(file: Any) -> Iterator[Any]:
    """Yield groups and datasets; only what lies in the file itself, under one name each."""
    import h5py

    seen = {h5py.h5o.get_info(file["/"].id).addr}
    open_groups = [(file["/"], 0)]
    while open_groups:
        group, level = open_groups.pop()
        if level > MOST_LEVELS:
            raise Promise("groups within each other")
        yield group
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise Promise(f"a link in the place of {str(name)[:40]!r}")
            each = group[name]
            address = h5py.h5o.get_info(each.id).addr
            # A group that holds itself would be read without end.
            if address in seen:
                raise Promise(f"another name for {str(name)[:40]!r}")
            if len(seen) > MOST_OBJECTS:
                raise Promise(f"more than {MOST_OBJECTS} variables and groups")
            seen.add(address)
            if isinstance(each, h5py.Group):
                open_groups.append((each, level + 1))
            elif isinstance(each, h5py.Dataset):
                yield each
            else:
                raise Promise(f"a type of its own, {str(name)[:40]!r}")


def _size(dataset: Any, left: int) -> int:
    """Return how many bytes reading a dataset takes, at least."""
    import h5py

    layout = dataset.id.get_create_plist()
    if layout.get_layout() == h5py.h5d.VIRTUAL or layout.get_external_count():
        raise Promise("values that lie in other files")
    count = 0 if dataset.shape is None or _is_bare(dataset) else math.prod(dataset.shape)
    if not count:
        return 0
    text = h5py.check_string_dtype(dataset.dtype)
    if dataset.dtype.hasobject and text is None:
        raise Promise("cells that are neither numbers nor texts")
    # A chunk is read whole, however little of it is asked for.
    cells = max(count, math.prod(dataset.chunks or (1,)))
    size: int = cells * max(dataset.dtype.itemsize, POINTER if dataset.dtype.hasobject else 1)
    if size > left or not dataset.dtype.hasobject:
        return size
    # Cells may point to the same text: they are read one by one until it is too much.
    for place in np.ndindex(dataset.shape):
        size += len(dataset[place])
        if size > left:
            break
    return size


def _is_bare(dataset: Any) -> bool:
    """Whether h5netcdf takes this for a dimension without values."""
    name = dataset.attrs.get("NAME", b"")
    name = name.encode() if isinstance(name, str) else name
    return isinstance(name, bytes) and BARE_DIMENSION in name


def _text_of_attributes(each: Any, left: int) -> int:
    """Return how many bytes the texts among the attributes take."""
    import h5py

    size = 0
    for name in each.attrs:
        known = each.attrs.get_id(name)
        if known.shape is None:
            continue
        if known.dtype.hasobject and known.dtype.names is None:
            if math.prod(known.shape) > MOST_DIMENSIONS:
                raise Promise(f"a long list as attribute {str(name)[:40]!r}")
            if h5py.check_string_dtype(known.dtype) is not None:
                value = each.attrs[name]
                size += len(value) if isinstance(value, (str, bytes)) else sum(map(len, value))
        elif known.get_storage_size() > left:
            raise Promise(f"a long list as attribute {str(name)[:40]!r}")
        if size > left:
            break
    return size

"""Reading netCDF files that others may have changed: first what they promise, then their numbers.

A small file can claim an array of terabytes: values that were never written, compressed ones,
one text that a million cells point to. It can also name other files as parts of itself. What
this library writes has none of that: every number and every text stands in the file once, as
it is. So the parts of a file are counted before anything is read, and must fit into its size;
and what HDF5 itself would follow blindly is looked at first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from twoaxis.errors import InputError
from twoaxis.netcdf.heaps import Promise, check_heaps

Content = TypeVar("Content")

# A group in a group: the files of this library have one level of them.
MOST_LEVELS = 4
# The files of this library have one or two hundred; the time to open one grows with the square.
MOST_OBJECTS = 1000
# Texts that an attribute may list.
MOST_TEXTS = 32
# Bytes that are read at once before it is known whether many texts are one and the same.
AT_ONCE = 2**24
# Bytes of a cell that points to a text.
POINTER = 16
# How h5netcdf knows a dimension without values, which it never reads.
BARE_DIMENSION = b"This is a netCDF dimension but not a netCDF variable."


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
    check_heaps(path)
    with h5py.File(path, "r") as file:
        for each in _objects(file):
            left -= _size_of_attributes(each, left)
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
    # Cells may point to the same text: they are read in parts until it is too much.
    for part in _parts(dataset.shape, max(1, AT_ONCE // left)):
        size += sum(map(len, np.ravel(np.asarray(dataset[part], dtype=object))))
        if size > left:
            break
    return size


def _parts(shape: tuple[int, ...], most: int) -> Iterator[tuple[Any, ...]]:
    """Yield selections of at most `most` cells each, which together are the whole array.

    >>> list(_parts((2, 3), 2))
    [(0, slice(0, 2, None)), (0, slice(2, 4, None)), (1, slice(0, 2, None)), (1, slice(2, 4, None))]
    """
    if not shape:
        yield ()
        return
    inner = math.prod(shape[1:])
    if inner > most:
        for number in range(shape[0]):
            for rest in _parts(shape[1:], most):
                yield (number, *rest)
        return
    rows = most // inner
    for first in range(0, shape[0], rows):
        yield (slice(first, first + rows),)


def _is_bare(dataset: Any) -> bool:
    """Whether h5netcdf takes this for a dimension without values."""
    name = dataset.attrs.get("NAME", b"")
    name = name.encode() if isinstance(name, str) else name
    return isinstance(name, bytes) and BARE_DIMENSION in name


def _size_of_attributes(each: Any, left: int) -> int:
    """Return how many bytes the attributes take; many may point to one text, or be one."""
    size = 0
    for name in each.attrs:
        known = each.attrs.get_id(name)
        _check_scale(each, name, known)
        if known.shape is None:
            continue
        if known.dtype.hasobject and known.dtype.names is None:
            size += _size_of_texts(each, name, known, left - size)
        else:
            size += known.get_storage_size()
        if size > left:
            raise Promise(f"a long list as attribute {str(name)[:40]!r}")
    return size


def _check_scale(each: Any, name: str, known: Any) -> None:
    """Refuse attributes that HDF5 would take for dimensions of a variable although they are none.

    Its functions for dimensions read these with room for what belongs there, and no more: a list
    of other length or type would overwrite memory.
    """
    import h5py

    fitting = True
    if name == "DIMENSION_LIST":
        inner = h5py.check_vlen_dtype(known.dtype)
        reference = inner is not None and h5py.check_ref_dtype(inner) is h5py.Reference
        fitting = reference and known.shape == (getattr(each, "ndim", -1),)
    elif name == "REFERENCE_LIST":
        fitting = known.dtype.names == ("dataset", "dimension") and len(known.shape or ()) == 1
    elif name in ("CLASS", "NAME"):
        fitting = h5py.check_string_dtype(known.dtype) is not None and known.shape == ()
    elif name == "DIMENSION_LABELS":
        fitting = False
    if not fitting:
        raise Promise(f"dimensions that are none, in the attribute {name}")


def _size_of_texts(each: Any, name: str, known: Any, left: int) -> int:
    """Return the length of the texts in an attribute, which can only be read all at once."""
    import h5py

    count = math.prod(known.shape)
    if h5py.check_string_dtype(known.dtype) is None:
        # Of lists within an attribute, netCDF has one for each dimension of a variable.
        if count > max(1, getattr(each, "ndim", 0)):
            raise Promise(f"a long list as attribute {str(name)[:40]!r}")
        return 0
    # No text is longer than the file; as many may be the same one.
    if count > MOST_TEXTS or (count > 1 and count * left > AT_ONCE):
        raise Promise(f"a long list as attribute {str(name)[:40]!r}")
    value = each.attrs[name]
    return len(value) if isinstance(value, (str, bytes)) else sum(map(len, np.ravel(value)))

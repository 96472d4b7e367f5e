"""netCDF files: labelled results written whole, and read back by the layout that they must have.

Files may come from strangers. Reading opens the groups, variables and attributes that a layout
names, and nothing else: unknown members are neither listed nor followed, nothing in a file runs,
and no other file is opened through it. Memory is bounded before it is allocated: a variable must
be stored uncompressed in one piece, and all variables together must fit into the real size of the
file, so that time and memory are linear in it. Structures on which the HDF5 library can loop
forever (variable-length values in global heaps, groups of the old format with local heaps) are
refused before HDF5 follows them; dimension-scale attributes are never read. Every fault ends in
one `InputError`. What remains trusted is HDF5 itself, which parses the headers that are named.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, TypeAlias

import h5py  # type: ignore[import-untyped]
import numpy as np
import xarray as xr

from twoaxis.errors import InputError
from twoaxis.files import write_whole
from twoaxis.text import visible

SIGNATURE = b"\x89HDF\r\n\x1a\n"
# HDF5 holds one message of an object header in 64 kB; a longer text belongs into a variable.
MOST_ATTRIBUTE_BYTES = 60_000
# Root attributes that `read_attributes` looks at.
MOST_ATTRIBUTES = 256
# A text takes about 60 bytes of Python however short it is, so its bytes alone bound nothing.
MOST_TEXTS = 2**20
# A file system that compresses stores less than the size of a file; a hole stores nothing.
MOST_SPARSE = 8
# Files below this size may be sparse: they are harmless.
SMALL = 2**20
# No finite number of a result is larger: axes, sums and margins around it could not be drawn.
HUGE = 1e300
# Units that `xarray.open_dataset` decodes as time differences.
DECODED_UNITS = (
    "days hours minutes seconds milliseconds microseconds nanoseconds".split()  # noqa: SIM905
)

Scalar: TypeAlias = str | int | float


@dataclass(frozen=True)
class Variable:
    """One variable of a labelled layout.

    Parameters
    ----------
    dims : tuple of str
        Names of its dimensions. A 1-D variable with the name of its dimension is an index
        coordinate.
    kind : {"float", "int", "bool", "text"}
        Stored as float64, int64, int8 (0 or 1) and UTF-8 bytes of a fixed width.
    long_name : str
    units : str
        Empty where it is dimensionless. Write "s" rather than "seconds", which xarray would
        decode as a time difference.
    required : bool
    finite : bool
        Refuse NaN and infinity.
    least, most : float
        Refuse numbers below or above; NaN passes.
    """

    dims: tuple[str, ...]
    kind: Literal["float", "int", "bool", "text"]
    long_name: str
    units: str = ""
    required: bool = True
    finite: bool = False
    least: float = -math.inf
    most: float = math.inf

    def __post_init__(self) -> None:
        if self.units in DECODED_UNITS or " since " in self.units:
            raise InputError(
                "units that xarray does not decode as time", repr(self.units), 'write "s" or "h"'
            )


Layout: TypeAlias = Mapping[str, Variable]


class _Fault(ValueError):  # noqa: N818 - never raised to users
    """What is wrong with values or a file; becomes an `InputError` that says where."""


# ------------------------------------------------------------------ values


def labelled(layout: Layout, values: Mapping[str, Any], attrs: Mapping[str, Any]) -> xr.Dataset:
    """Return a dataset of `values` with the dimensions, names and units of `layout`.

    Parameters
    ----------
    layout : mapping of str to Variable
    values : mapping of str to array_like
        None leaves an optional variable out.
    attrs : mapping of str to str, int or float
        None leaves an attribute out.

    Raises
    ------
    InputError
        A value is missing, not in the layout, or of another kind or shape.
    """
    try:
        if unknown := set(values) - set(layout):
            raise _Fault(f"the unknown variable {min(unknown)!r}")
        sizes: dict[str, int] = {}
        return _dataset(layout, values, attrs, sizes)
    except _Fault as fault:
        raise InputError(
            "values that fit the layout of the result", str(fault), "correct this value"
        ) from fault


def _dataset(
    layout: Layout, values: Mapping[str, Any], attrs: Mapping[str, Any], sizes: dict[str, int]
) -> xr.Dataset:
    """Check values against `layout` and `sizes`, to which their dimensions are added."""
    variables = {}
    for name, spec in layout.items():
        value = values.get(name)
        if value is None:
            if spec.required:
                raise _Fault(f"no variable {name!r}")
            continue
        array = _array(name, spec, value)
        _check_shape(name, spec, array.shape, sizes)
        about = {"long_name": spec.long_name} | ({"units": spec.units} if spec.units else {})
        variables[name] = xr.Variable(spec.dims, array, about, fastpath=True)
    kept = {name: _scalar(name, value) for name, value in attrs.items() if value is not None}
    return xr.Dataset(variables, attrs=kept)


def _check_shape(name: str, spec: Variable, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
    if len(shape) != len(spec.dims):
        raise _Fault(f"{name!r} of shape {shape} for the dimensions {spec.dims}")
    for dim, size in zip(spec.dims, shape, strict=True):
        if sizes.setdefault(dim, size) != size:
            raise _Fault(f"{name!r} with {size} values along {dim!r} instead of {sizes[dim]}")
    if spec.kind == "text" and math.prod(shape) > MOST_TEXTS:
        raise _Fault(f"{name!r} of more than {MOST_TEXTS} texts")


def _array(name: str, spec: Variable, value: Any) -> np.ndarray[Any, Any]:
    """Return an array of the kind of `spec`; conversions that lose something are refused."""
    if spec.kind == "text":
        return _texts(name, value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise _Fault(f"{name!r} with rows of different lengths") from error
    kinds = {"float": "fiu", "int": "iu", "bool": "b"}[spec.kind]
    # An empty list has the type float64, whatever it is a list of.
    if array.dtype.kind not in kinds and array.size:
        raise _Fault(f"{name!r} of type {array.dtype}, not {spec.kind}")
    if array.dtype == np.uint64 and spec.kind == "int" and (array > np.iinfo(np.int64).max).any():
        raise _Fault(f"{name!r} with integers beyond 64 bits")
    array = array.astype({"float": np.float64, "int": np.int64, "bool": np.bool_}[spec.kind])
    if spec.finite and not np.isfinite(array).all():
        raise _Fault(f"values of {name!r} that are not finite")
    if (array < spec.least).any() or (array > spec.most).any():
        raise _Fault(f"values of {name!r} outside {spec.least:g} to {spec.most:g}")
    if spec.kind == "float" and np.max(np.abs(array), initial=0.0, where=np.isfinite(array)) > HUGE:
        raise _Fault(f"values of {name!r} beyond {HUGE:g}")
    return array


def _texts(name: str, value: Any) -> np.ndarray[Any, Any]:
    """Return texts as objects, the type with which xarray opens them."""
    array = np.array(value, dtype=object)
    for each in array.ravel():
        _encoded(name, each)
    return array


def _encoded(name: str, text: Any) -> bytes:
    if not isinstance(text, str):
        raise _Fault(f"{name!r} with a {type(text).__name__}, not text")
    if "\0" in text:
        raise _Fault(f"{name!r} with a NUL character in its text")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _Fault(f"{name!r} with broken Unicode in its text") from error


def _scalar(name: str, value: Any) -> Scalar:
    """Return an attribute as str, int or float; nothing else goes into a file."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _Fault(f"the attribute {name!r} of type {type(value).__name__}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise _Fault(f"the attribute {name!r} with an integer beyond 64 bits")
    if isinstance(value, str) and len(_encoded(name, value)) > MOST_ATTRIBUTE_BYTES:
        raise _Fault(f"the attribute {name!r} of more than {MOST_ATTRIBUTE_BYTES} bytes")
    return value


# ------------------------------------------------------------------ writing


def write_netcdf(path: str | os.PathLike[str], data: xr.Dataset | xr.DataTree) -> Path:
    """Write a dataset or a tree to `path`, whole or not at all, and return the path.

    Texts have a fixed width, and nothing is compressed: `read_netcdf` refuses everything else.
    ``xarray.open_dataset(path, engine="h5netcdf")`` and ``xarray.open_datatree`` open the file.
    """
    try:
        if isinstance(data, xr.DataTree):
            groups = {
                node.path: _stored_group(node.to_dataset(inherit=False)) for node in data.subtree
            }
        else:
            groups = {"/": _stored_group(data)}
    except _Fault as fault:
        raise InputError(
            "numbers, booleans and texts to write", str(fault), "convert it first"
        ) from fault

    # In memory first: on a disk that gets full, HDF5 crashes.
    content = BytesIO()
    with h5py.File(content, "w", track_order=True) as file:
        _Writer(file).write_groups(groups)
    return write_whole(path, lambda target: target.write_bytes(content.getbuffer()))


@dataclass(frozen=True)
class _StoredVariable:
    """A variable as the file holds it: numbers, or the bytes of texts along one more dimension."""

    dims: tuple[str, ...]
    array: np.ndarray[Any, Any]
    attrs: dict[str, Any]


@dataclass(frozen=True)
class _StoredGroup:
    variables: dict[str, _StoredVariable]
    attrs: dict[str, Any]


def _stored_group(data: xr.Dataset) -> _StoredGroup:
    variables = {str(name): _stored_variable(str(name), v) for name, v in data.variables.items()}
    if others := set(map(str, data.coords)) - set(map(str, data.dims)):
        raise _Fault(f"the coordinate {min(others)!r}, which is not that of a dimension")
    for name, variable in variables.items():
        if name in data.dims and variable.dims[:1] != (name,):
            raise _Fault(f"{name!r}, which has the name of a dimension that is not its first")
    return _StoredGroup(variables, _stored_attributes(data.attrs))


def _stored_variable(name: str, variable: xr.Variable) -> _StoredVariable:
    kinds = {"f": "float", "i": "int", "u": "int", "b": "bool", "U": "text", "O": "text"}
    kind: Any = kinds.get(variable.dtype.kind)
    if kind is None:
        raise _Fault(f"{name!r} of type {variable.dtype}")
    array, marks = _array(name, Variable((), kind, ""), variable.values), {}
    dims = tuple(map(str, variable.dims))
    if kind == "bool":  # how xarray itself stores booleans
        array, marks = array.astype(np.int8), {"dtype": "bool"}
    elif kind == "text":  # and texts
        if array.size > MOST_TEXTS:
            raise _Fault(f"{name!r} of more than {MOST_TEXTS} texts")
        texts = [_encoded(name, str(each)) for each in array.ravel()]
        width = max([1, *map(len, texts)])
        array = np.array(texts, dtype=f"S{width}").view("S1").reshape(*array.shape, width)
        dims, marks = (*dims, f"string{width}"), {"_Encoding": "utf-8"}
    return _StoredVariable(dims, array, _stored_attributes({**variable.attrs, **marks}))


def _stored_attributes(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Return numbers as arrays, and texts as bytes of fixed length, outside any global heap."""
    stored: dict[str, Any] = {}
    for name, value in attrs.items():
        value = _scalar(str(name), value)
        if isinstance(value, str):
            content = value.encode()
            # h5netcdf reads one byte as a character, not as text.
            dtype = h5py.string_dtype("utf-8", max(2, len(content)))
            stored[str(name)] = np.array(content, dtype=dtype)
        else:
            stored[str(name)] = np.array([value])
    return stored


@dataclass
class _Writer:
    """Groups of variables in an HDF5 file, by the conventions of netCDF-4.

    xarray's own writer asks h5netcdf, which looks every object up again for each dimension of
    each variable: an audit of 200 variables takes it most of a second. The conventions are few.
    A dimension is an HDF5 *dimension scale* with a number. Its coordinate is the scale where it
    has one, and an array without values is elsewhere. A variable is attached to the scale of each
    of its dimensions. A coordinate of two dimensions (of texts) lists their numbers instead.
    """

    file: Any

    def __post_init__(self) -> None:
        self._count = 0  # of the dimensions
        self._scales: dict[str, dict[str, tuple[int, Any]]] = {}  # by group and name

    def write_groups(self, groups: Mapping[str, _StoredGroup]) -> None:
        """Write groups by their path, those around a group before it."""
        for place, content in groups.items():
            group = self.file if place == "/" else self.file.create_group(place, track_order=True)
            _put_attributes(group, content.attrs)
            self._write(place, group, content.variables)

    def _write(self, place: str, group: Any, variables: Mapping[str, _StoredVariable]) -> None:
        around = place.rsplit("/", 1)[0] or "/"
        scales = self._scales[place] = {} if place == "/" else dict(self._scales[around])
        written = {name: _put(group, name, variable) for name, variable in variables.items()}
        for variable in variables.values():
            for dim, size in zip(variable.dims, variable.array.shape, strict=True):
                own = scales.get(dim)
                if own is None or (dim in written and own[1] is not written[dim]):
                    scales[dim] = self._new_scale(group, dim, size, written.get(dim))
        for name, variable in variables.items():
            dataset = written[name]
            if name not in scales or scales[name][1] is not dataset:
                for axis, dim in enumerate(variable.dims):
                    h5py.h5ds.attach_scale(dataset.id, scales[dim][1].id, axis)
            elif len(variable.dims) > 1:
                numbers = [scales[dim][0] for dim in variable.dims]
                dataset.attrs["_Netcdf4Coordinates"] = np.array(numbers, np.int32)

    def _new_scale(self, group: Any, dim: str, size: int, coordinate: Any) -> tuple[int, Any]:
        """Make the scale of a dimension, and return its number and dataset."""
        scale, label = coordinate, dim
        if coordinate is None:
            label = f"This is a netCDF dimension but not a netCDF variable.{size:10d}"
            scale = group.create_dataset(
                dim, (size,), ">f4", maxshape=_most((size,)), track_order=True
            )
        h5py.h5ds.set_scale(scale.id, label.encode())
        scale.attrs["_Netcdf4Dimid"] = np.int32(self._count)
        self._count += 1
        return self._count - 1, scale


def _most(shape: tuple[int, ...]) -> tuple[int | None, ...] | None:
    """Return how large an array may become: netCDF knows empty dimensions as unlimited alone."""
    return tuple(size or None for size in shape) if 0 in shape else None


def _put(group: Any, name: str, variable: _StoredVariable) -> Any:
    array = variable.array
    dataset = group.create_dataset(name, data=array, maxshape=_most(array.shape), track_order=True)
    _put_attributes(dataset, variable.attrs)
    return dataset


def _put_attributes(target: Any, attrs: Mapping[str, Any]) -> None:
    for name, value in attrs.items():
        target.attrs.create(name, value, dtype=value.dtype)


# ------------------------------------------------------------------ reading


def read_attributes(path: str | os.PathLike[str]) -> dict[str, Scalar]:
    """Return the root attributes that are one text or number each, for example the schema.

    Attributes of other types, which `write_netcdf` never writes, are left out.
    """
    found: dict[str, Scalar] = {}
    with _opened(path) as file:
        root = file.group("/")
        if (count := h5py.h5a.get_num_attrs(root)) > MOST_ATTRIBUTES:
            raise _Fault(f"with more than {MOST_ATTRIBUTES} attributes")
        for index in range(count):
            attribute = h5py.h5a.open(root, index=index)
            name = attribute.name.decode()
            if not name.startswith("_") and (value := file.attribute(attribute)) is not None:
                found[name] = value
    return found


def read_netcdf(
    path: str | os.PathLike[str],
    layouts: Mapping[str, Layout],
    attributes: Mapping[str, Iterable[str]],
    *,
    optional: Collection[str] = (),
) -> dict[str, xr.Dataset]:
    """Return the datasets of a file by group, with the variables and attributes named here.

    Parameters
    ----------
    path : path-like
        Written by `write_netcdf`.
    layouts : mapping of str to Layout
        By group: "/" is the root, "/score" a group in it. Names and units come from here.
    attributes : mapping of str to iterable of str
        Attributes that each group must have.
    optional : collection of str
        Groups that may be missing, and are then left out.

    Raises
    ------
    InputError
        The file cannot be read, holds more than its size, or does not fit the layouts.
    """
    found: dict[str, xr.Dataset] = {}
    sizes: dict[str, dict[str, int]] = {}
    with _opened(path) as file:
        for place, layout in sorted(layouts.items()):
            group = file.group(place)
            if group is None:
                if place in optional:
                    continue
                raise _Fault(f"without the group {place!r}")
            # A dimension has the same size in a group and in those around it.
            own: dict[str, int] = {}
            for outer, known in sizes.items():
                if place.startswith(outer.rstrip("/") + "/"):
                    own.update(known)
            values = {name: file.values(group, name, v, own) for name, v in layout.items()}
            attrs = {name: file.named_attribute(group, name) for name in attributes.get(place, ())}
            try:
                found[place] = _dataset(layout, values, attrs, own)
            except _Fault as fault:
                raise _Fault(f"with {fault} in {place!r}") from fault
            sizes[place] = own
    return found


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[_File]:
    """Open a file of this library; every fault of it, until it is closed, is one `InputError`."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError("the path of a netCDF file", repr(path), "pass a file name")
    try:
        size = _checked_size(path)
        with h5py.File(path, "r") as file:
            yield _File(h5py.h5g.open(file.id, b"/"), size, size)
        return
    except _Fault as error:
        fault, cause = str(error), error
    except Exception as error:  # whatever damaged bytes make HDF5, h5py and NumPy raise
        reason = getattr(error, "strerror", None) or type(error).__name__
        fault, cause = f"which cannot be read ({reason})", error  # type: ignore[assignment]
    raise InputError(
        "a file of twoaxis",
        f"{visible(os.fspath(path), most=300)!r}, {fault}",
        "check the path, or write the file again: it may be damaged or of another kind",
    ) from cause


def is_sparse(info: os.stat_result) -> bool:
    """Whether a file claims far more bytes than the disk stores: memory would hold its holes."""
    # Windows does not tell how much is stored.
    stored = 512 * info.st_blocks if hasattr(info, "st_blocks") else info.st_size
    return info.st_size > SMALL + MOST_SPARSE * stored


def _checked_size(path: str | os.PathLike[str]) -> int:
    """Return the size of a regular file that begins like HDF5 and stores what it claims."""
    info = os.stat(path)  # noqa: PTH116 - a path with a NUL is refused alike in all versions
    if not stat.S_ISREG(info.st_mode):
        kind = "a directory" if stat.S_ISDIR(info.st_mode) else "a device or pipe"
        raise _Fault(f"which is {kind}")
    if is_sparse(info):
        raise _Fault(f"which claims {info.st_size} bytes and stores fewer")
    with Path(path).open("rb") as stream:
        if stream.read(len(SIGNATURE)) != SIGNATURE:
            raise _Fault("which is not a netCDF-4 file" if info.st_size else "which is empty")
    return info.st_size


@dataclass
class _File:
    """An open file, through the low-level interface of h5py: it does only what is asked."""

    root: Any
    size: int
    left: int  # bytes that variables not yet read may still take

    def group(self, place: str) -> Any:
        """Return a group by its path, None where there is none."""
        group = self.root
        for part in filter(None, place.split("/")):
            group = self._member(group, part, h5py.h5g.GroupID)
            if group is None:
                return None
        return group

    def _member(self, group: Any, name: str, kind: type) -> Any:
        # Groups of the old format, which HDF5 can search forever, do not keep an order of
        # creation; netCDF files always do.
        if not group.get_create_plist().get_link_creation_order():
            raise _Fault("with a group of an old format")
        key = name.encode()
        if not group.links.exists(key):
            return None
        if group.links.get_info(key).type != h5py.h5l.TYPE_HARD:
            raise _Fault(f"with a link in place of {name!r}")
        found = h5py.h5o.open(group, key)
        if not isinstance(found, kind):
            raise _Fault(f"with an object of another kind in place of {name!r}")
        return found

    def named_attribute(self, group: Any, name: str) -> Scalar:
        key = name.encode()
        value = self.attribute(h5py.h5a.open(group, key)) if h5py.h5a.exists(group, key) else None
        if value is None:
            raise _Fault(f"without a text or number as attribute {name!r}")
        return value

    def attribute(self, attribute: Any) -> Scalar | None:
        """Return one text or number, None where it is anything else."""
        kind, space = attribute.get_type(), attribute.get_space()
        # A null dataspace has no points, so it is left out here too.
        if space.get_simple_extent_npoints() != 1 or kind.get_size() > MOST_ATTRIBUTE_BYTES:
            return None
        shape = space.get_simple_extent_dims()
        if kind.get_class() == h5py.h5t.STRING and not kind.is_variable_str():
            text = np.empty(shape, dtype=f"S{kind.get_size()}")
            attribute.read(text, mtype=kind)
            return str(text.item().decode())
        if kind.get_class() not in (h5py.h5t.INTEGER, h5py.h5t.FLOAT):
            return None
        number = np.empty(shape, dtype=kind.dtype)
        attribute.read(number)
        return float(number.item()) if number.dtype.kind == "f" else int(number.item())

    def values(self, group: Any, name: str, spec: Variable, sizes: dict[str, int]) -> Any:
        """Return the array of a variable, None where there is none."""
        dataset = self._member(group, name, h5py.h5d.DatasetID)
        if dataset is None:
            return None
        # First where it lies: asking a virtual dataset for its shape can open other files.
        created = dataset.get_create_plist()
        layout = created.get_layout()
        if layout == h5py.h5d.VIRTUAL or created.get_external_count():
            raise _Fault(f"with values of {name!r} in other files")
        kind = dataset.get_type()
        width, dtype = self._stored_as(name, spec, kind)
        space = dataset.get_space()
        if space.get_simple_extent_type() == h5py.h5s.NULL:
            raise _Fault(f"with no values in {name!r}")
        shape = space.get_simple_extent_dims()
        text = spec.kind == "text"
        if (text and not (shape and shape[-1])) or max(shape, default=0) > self.size:
            raise _Fault(f"with {name!r} of shape {shape}")
        try:
            _check_shape(name, spec, shape[:-1] if text else shape, dict(sizes))
        except _Fault as fault:
            raise _Fault(f"with {fault}") from fault
        if not math.prod(shape):  # of an unlimited dimension, in chunks that nobody asks for
            return np.empty(shape[:-1] if text else shape, object if text else dtype)
        if layout not in (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT) or created.get_nfilters():
            raise _Fault(f"with values of {name!r} compressed or in chunks")
        self.left -= width * math.prod(shape)
        if self.left < 0:
            raise _Fault(f"with more values in {name!r} than the file can hold")
        if layout == h5py.h5d.CONTIGUOUS and dataset.get_offset() is None:
            raise _Fault(f"with values of {name!r} that were never written")
        array = np.empty(shape, dtype)
        dataset.read(h5py.h5s.ALL, h5py.h5s.ALL, array, mtype=kind if text else None)
        return _decoded(name, spec, array)

    def _stored_as(self, name: str, spec: Variable, kind: Any) -> tuple[int, Any]:
        """Return the bytes per value and the NumPy type, if it is the one that is written."""
        stored: dict[str, tuple[int, int, Any]] = {
            "float": (h5py.h5t.FLOAT, 8, np.float64),
            "int": (h5py.h5t.INTEGER, 8, np.int64),
            "bool": (h5py.h5t.INTEGER, 1, np.int8),
            "text": (h5py.h5t.STRING, 1, "S1"),
        }
        expected, width, dtype = stored[spec.kind]
        fits = kind.get_class() == expected and kind.get_size() == width
        # An unsigned integer has the size of a signed one; variable-length text has another.
        if not fits or kind.dtype.kind != np.dtype(dtype).kind:
            raise _Fault(f"with {name!r} of a type that is not {spec.kind}")
        return width, dtype


def _decoded(name: str, spec: Variable, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return booleans and texts from how they are stored."""
    if spec.kind == "bool":
        if not np.isin(array, (0, 1)).all():
            raise _Fault(f"with values of {name!r} that are neither true nor false")
        return array.astype(np.bool_)
    if spec.kind == "text":
        texts = array.view(f"S{array.shape[-1]}")[..., 0]
        decoded = np.empty(texts.size, object)
        decoded[:] = [each.decode() for each in texts.ravel()]
        return decoded.reshape(texts.shape)
    return array

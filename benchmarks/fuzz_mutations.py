"""Ways to damage a file: blind ones for any bytes, and some that know the format."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

Random = random.Random
Mutation = Callable[[Random, bytes], bytes]

ENORMOUS = 10**12
NUMBERS = (0, -1, -(2**63), 2**31, 2**63, ENORMOUS, 10**400, 1e308, -1e308, 1e-320)
STRANGE = (*NUMBERS, float("nan"), float("inf"), None, True, "", "x" * 1000, "\ud800", "\0", [], {})
DEEP = 100_000


# ------------------------------------------------------------------ any bytes


def flip_bits(random: Random, content: bytes) -> bytes:
    """Half of the times where there is something: much of a netCDF file is empty space."""
    changed = bytearray(content)
    places = range(len(content))
    if random.random() < 0.5:
        places = [n for n in places if content[n]] or places
    for _ in range(random.choice((1, 1, 2, 8, 64))):
        changed[random.choice(places)] ^= 1 << random.randrange(8)
    return bytes(changed)


def truncate(random: Random, content: bytes) -> bytes:
    return content[: random.randrange(len(content))]


def insert(random: Random, content: bytes) -> bytes:
    at, count = random.randrange(len(content)), random.choice((1, 8, 100, 5000))
    return content[:at] + random.randbytes(count) + content[at:]


def duplicate(random: Random, content: bytes) -> bytes:
    a, b = sorted(random.choices(range(len(content)), k=2))
    return content[:b] + content[a:b] + content[b:]


def swap(random: Random, content: bytes) -> bytes:
    a, b, c, d = sorted(random.choices(range(len(content)), k=4))
    return content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def overwrite(random: Random, content: bytes) -> bytes:
    """Put extreme words where sizes, addresses and numbers stand."""
    changed = bytearray(content)
    word = random.choice((b"\xff" * 8, b"\0" * 8, struct.pack("<Q", ENORMOUS), b"\x7f" * 4))
    at = 4 * random.randrange(max(1, len(content) // 4))
    changed[at : at + len(word)] = word
    return bytes(changed)


BLIND: tuple[Mutation, ...] = (flip_bits, truncate, insert, duplicate, swap, overwrite)


# ------------------------------------------------------------------ JSON and tables


def deep_json(random: Random, content: bytes) -> bytes:  # noqa: ARG001
    opening, closing = random.choice((("[", "]"), ('{"a":', "}")))
    whole = opening * DEEP + "1" + closing * (DEEP if random.random() < 0.5 else 0)
    return whole.encode()


def changed_value(random: Random, plain: Any) -> Any:
    """Replace, remove, rename or repeat one item somewhere in plain values, in place."""
    places = [place for place in _places(plain) if len(place[0])]
    home, key = random.choice(places)
    what = random.randrange(6)
    if what == 0:
        del home[key]
    elif what == 1 and isinstance(home, dict):
        home[random.choice(("", "x", "__class__", "dtype"))] = home.pop(key)
    elif what == 1:
        home.extend([home[key]] * random.choice((1, 1000)))
    elif what == 2:
        other, there = random.choice(places)
        home[key] = other[there] if not isinstance(other[there], (dict, list)) else None
    elif what == 3:
        home[key] = _nested(random.choice((20, 500)))
    else:
        home[key] = random.choice(STRANGE)
    return plain


def _places(plain: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    for key in list(plain) if isinstance(plain, dict) else range(len(plain)):
        found.append((plain, key))
        if isinstance(plain[key], (dict, list)):
            found += _places(plain[key])
    return found


def _nested(depth: int) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = [found]
    return found


def json_value(random: Random, content: bytes) -> bytes:
    return json.dumps(changed_value(random, json.loads(content))).encode()


def json_number(random: Random, content: bytes) -> bytes:
    """Put a number that JSON allows and no double can hold into the text itself."""
    text = content.decode()
    places = [n for n, c in enumerate(text) if c.isdigit()]
    at = random.choice(places)
    number = random.choice(("9" * 5000, "1e999", "-1e999", "NaN", "-Infinity", "9" * 400))
    return (text[:at] + number + text[at + 1 :]).encode()


def table_cell(random: Random, content: bytes) -> bytes:
    rows = [line.split(",") for line in content.decode().splitlines()]
    row = random.choice(rows)
    cell = random.choice((*map(str, NUMBERS), "nan", "", '"', "\0", "9" * 5000, "é" * 200_000))
    row[random.randrange(len(row))] = cell
    return "\n".join(map(",".join, rows)).encode()


# ------------------------------------------------------------------ safetensors


def arrays_header(random: Random, content: bytes) -> bytes:
    """Change names, shapes, types and places of the arrays in the header."""
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    name = random.choice([name for name in header if name != "__metadata__"])
    what = random.randrange(5)
    if what == 0:
        header[name]["shape"] = random.choice(([ENORMOUS], [2**32, 2**32], [-1], [2**62, 4], []))
    elif what == 1:
        header[name]["data_offsets"] = random.choice(([0, ENORMOUS], [8, 0], [2**63, 2**64 - 1]))
    elif what == 2:
        header[name]["dtype"] = random.choice(("F16", "BF16", "I8", "C64", "F8_E5M2", "object"))
    elif what == 3:
        header[random.choice(("x", "../x", "__class__"))] = header.pop(name)
    else:
        changed_value(random, header)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def arrays_length(random: Random, content: bytes) -> bytes:
    length = random.choice((0, 1, 2**20, 99_999_999, 2**32, ENORMOUS, 2**63, 2**64 - 1))
    return struct.pack("<Q", length) + content[8:]


# ------------------------------------------------------------------ netCDF


def netcdf_change(random: Random, path: Path) -> None:
    """Change a file with the library that wrote it: all that is within is well-formed."""
    with h5py.File(path, "r+") as file:
        random.choice(NETCDF)(random, file)


def _datasets(file: Any) -> list[str]:
    found: list[str] = []
    file.visititems(lambda n, each: found.append(n) if isinstance(each, h5py.Dataset) else None)
    return sorted(found)


def _strange_values(random: Random, file: Any) -> None:
    dataset = file[random.choice(_datasets(file))]
    if dataset.shape is None or not dataset.size or dataset.dtype.kind not in "iufO":
        return
    number = random.choice((np.nan, np.inf, -1.0, 0.0, 1e308, -1e308, 1e299, 5e-324))
    if dataset.dtype.kind == "O":
        dataset[...] = random.choice(("", "x" * 5000, "\x07", "log", "truth"))
    elif dataset.dtype.kind in "iu":
        dataset[...] = random.choice((0, 1, -1, np.iinfo(dataset.dtype).max))
    elif random.random() < 0.5:
        with np.errstate(over="ignore"):  # too large for a single-precision variable is a case too
            dataset[...] = number
    else:
        values = dataset[...]
        with np.errstate(over="ignore"):  # a half number has no room for all of them
            values.flat[random.randrange(values.size)] = number
        dataset[...] = values


def _attribute(random: Random, file: Any) -> None:
    home = file[random.choice(["/", *_datasets(file)])]
    names = sorted(home.attrs) or ["units"]
    name = random.choice([*names, "units", "scale_factor", "_FillValue", "dtype", "coordinates"])
    if random.random() < 0.3:
        home.attrs.pop(name, None)
    else:
        values = (0, -1.0, np.nan, "", "x" * 9999, "days since 0001-01-01", "bool", [1.0] * 5000)
        home.attrs[name] = random.choice(values)


def _remove(random: Random, file: Any) -> None:
    found: list[str] = []
    file.visit(found.append)
    del file[random.choice(sorted(found))]


def _rename(random: Random, file: Any) -> None:
    name = random.choice(_datasets(file))
    file.move(name, random.choice((name + "_", "x", name.rpartition("/")[0] + "/y")))


def _another_array(random: Random, file: Any) -> None:
    name = random.choice(_datasets(file))
    kind, shape = random.choice(("f8", "i1", "S9", "c16", "V16")), random.choice(((), (3,), (2, 2)))
    del file[name]
    file.create_dataset(name, shape=shape, dtype=kind)


def _terabytes(random: Random, file: Any) -> None:
    """A shape of 10^12 values, of which none or one was ever written."""
    name = random.choice([*_datasets(file), "extra"])
    shape = random.choice(((ENORMOUS,), (10**6, 10**6), (2**40, 2), (10**8,)))
    options: dict[str, Any] = {}
    if random.random() < 0.7:
        options = {"chunks": tuple(min(n, 1000) for n in shape), "compression": "gzip"}
        options["maxshape"] = random.choice((None, tuple(None for _ in shape)))
    attributes = {}
    if name in file:
        # Where the dimensions belong to others, the file still opens with this shape.
        attributes = {k: v for k, v in file[name].attrs.items() if not k.isupper()}
        del file[name]
    text = h5py.string_dtype() if random.random() < 0.3 else random.choice(("f8", "i1"))
    dataset = file.create_dataset(name, shape=shape, dtype=text, **options)
    dataset.attrs.update(attributes)
    if options:
        dataset[(0,) * len(shape)] = "a" if dataset.dtype.kind == "O" else 1
    if random.random() < 0.5:
        dataset.make_scale(name.rpartition("/")[2])


def _large_chunk(random: Random, file: Any) -> None:
    """Few values in a chunk of gigabytes, compressed to nothing."""
    name = random.choice(_datasets(file))
    shape = file[name].shape or (1,)
    del file[name]
    chunk = (10**7, *(1 for _ in shape[1:]))
    file.create_dataset(
        name, shape=shape, dtype="f8", chunks=chunk, maxshape=(None,) * len(shape),
        compression="gzip",
    )  # fmt: skip


def _one_text_for_all(random: Random, file: Any) -> None:
    """Fixed texts that compress well: many cells of a long text."""
    name = random.choice([*_datasets(file), "extra"])
    if name in file:
        del file[name]
    file.create_dataset(name, shape=(10**6,), dtype="S60000", chunks=(10,), compression="gzip")


def _links(random: Random, file: Any) -> None:
    name = random.choice(_datasets(file))
    what = random.randrange(4)
    if what == 0:
        file["circle"] = file["/"]
        file["circle2"] = file["/"]
        return
    del file[name]
    if what == 1:
        file[name] = h5py.ExternalLink("/etc/passwd", "/")
    elif what == 2:
        file[name] = h5py.SoftLink(random.choice((name, "/", "/nowhere")))
    else:
        file.create_dataset(name, shape=(64,), dtype="i1", external=[("/etc/passwd", 0, 64)])


def _many_links(random: Random, file: Any) -> None:
    """One array under thousands of names."""
    chosen = file[random.choice(_datasets(file))]
    for number in range(3000):
        file[f"copy{number}"] = chosen


def _groups(random: Random, file: Any) -> None:
    file.create_group("/".join(["deep"] * random.choice((3, 50, 300))))


def _virtual(random: Random, file: Any) -> None:
    name = random.choice(_datasets(file))
    del file[name]
    layout = h5py.VirtualLayout(shape=(ENORMOUS,), dtype="f8")
    layout[:10] = h5py.VirtualSource(".", "truth", shape=(10,))
    file.create_virtual_dataset(name, layout)


def _meaning(random: Random, file: Any) -> None:
    """Well-formed numbers that mean something else: scaled, negated, exchanged, of another."""
    names = [n for n in _datasets(file) if file[n].dtype.kind in "if" and file[n].size]
    dataset = file[random.choice(names)]
    values = dataset[...]
    what = random.randrange(5)
    if what == 0:
        values = (values * random.choice((1.1, 0.5, 2, 100))).astype(values.dtype)
    elif what == 1:
        values = -values
    elif what == 2:
        values = values.ravel()[::-1].reshape(values.shape)
    elif what == 3:
        values.flat[random.randrange(values.size)] = values.flat[random.randrange(values.size)]
    else:
        other = file[random.choice(names)][...].ravel()
        with np.errstate(invalid="ignore"):  # NaN as an integer is a case, too
            values = np.resize(other, values.shape).astype(values.dtype)
    dataset[...] = values


def _text(random: Random, file: Any) -> None:
    """A text of the file in place of another: a route, a status, a name, a version."""
    homes = [file["/"], *(each for each in file.values() if isinstance(each, h5py.Group))]
    texts = [(h, n) for h in homes for n, v in h.attrs.items() if isinstance(v, (str, bytes))]
    (home, name), (other, there) = random.choice(texts), random.choice(texts)
    home.attrs[name] = random.choice((other.attrs[there], "", "x" * 300, "</script><b>"))


def _bare_dimension(random: Random, file: Any) -> None:
    """A dimension of billions without values, which a reader of all dimensions would fill."""
    name = f"{random.choice(['', 'score/'])}time"
    file.create_dataset(name, (2**33,), ">f4", maxshape=(None,), chunks=(1024,))
    file[name].make_scale("This is a netCDF dimension but not a netCDF variable.")


def _heap_attributes(random: Random, file: Any) -> None:
    """Attributes of variable length and of compounds, some hundred, at any place."""
    home = file[random.choice(["/", *_datasets(file)])]
    value = np.empty(1, object)
    value[0] = np.zeros(2000)
    for number in range(100):
        home.attrs.create(f"v{number}", value, dtype=h5py.vlen_dtype(np.float64))
        home.attrs.create(f"c{number}", np.zeros(1, dtype=[("a", "f8", (700,))]))


def _conflicting_sizes(random: Random, file: Any) -> None:
    """One array with more or fewer rows than its dimension has elsewhere in the tree."""
    names = [n for n in _datasets(file) if file[n].shape and file[n].size]
    name = random.choice(names)
    values = file[name][...]
    rows = len(values) + random.choice((-1, 1, 7))
    kept = {k: v for k, v in file[name].attrs.items() if not k.isupper()}
    del file[name]
    file.create_dataset(name, data=np.resize(values, (rows, *values.shape[1:])))
    file[name].attrs.update(kept)


NETCDF = (
    *(_meaning, _meaning, _meaning, _meaning, _text, _bare_dimension, _heap_attributes),
    *(_conflicting_sizes, _conflicting_sizes),
    *(_strange_values, _strange_values, _strange_values, _attribute, _attribute, _remove),
    *(_rename, _another_array, _terabytes, _terabytes, _terabytes, _large_chunk),
    *(_one_text_for_all, _links, _many_links, _groups, _virtual),
)

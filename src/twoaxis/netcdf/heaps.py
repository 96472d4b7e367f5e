"""The heaps in which HDF5 keeps texts, walked before HDF5 walks them.

A global heap collection is ``GCOL``, a version, its size, and then objects one after another, each
with its number, its size and its content, rounded up to eight bytes. Object 0 is the free rest, and
its size counts its own header. HDF5 steps from object to object by these sizes: a rest of size 0
keeps it on the spot for ever, without a way to interrupt it.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

# The signature, version 1 and three bytes that are zero.
COLLECTION = b"GCOL\x01\x00\x00\x00"
HEADER = 16


class Promise(ValueError):  # noqa: N818 - not raised to users
    """A file that says of itself what no file of this library says."""


def check_heaps(path: Path) -> None:
    """Refuse a file with a heap whose objects do not follow each other to its end."""
    if not path.stat().st_size:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.find(COLLECTION)
        while start >= 0:
            _check_collection(content, start)
            start = content.find(COLLECTION, start + 1)


def _check_collection(content: mmap.mmap, start: int) -> None:
    end, place = start, start + HEADER
    if place <= len(content):
        end += struct.unpack_from("<Q", content, start + 8)[0]
    if not place <= end <= len(content):
        raise Promise("a part that ends beyond the file, which may have been cut off")
    while end - place >= HEADER:
        number, size = struct.unpack_from("<H6xQ", content, place)
        step = HEADER + (size + 7) // 8 * 8 if number else size
        if not HEADER <= step <= end - place:
            raise Promise("a heap of texts whose parts do not fit")
        place += step

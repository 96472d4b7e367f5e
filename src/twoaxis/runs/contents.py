"""What lies in a store, by name and kind alone: nothing is read and no link is followed."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from twoaxis.errors import InputError
from twoaxis.files import TEMPORARY
from twoaxis.training.store import CHECKPOINTS, DAMAGED, RunStore, abandoned

SHARD = re.compile("[0-9a-f]{2}")
CHECKPOINT = re.compile(r"checkpoint-.*\.safetensors", re.DOTALL)
# What an export has beside its runs.
LISTING = "runs.csv"
README = "README.txt"

LINK = "a link, which is not followed"
STRANGER = "no part of a store"


class Finding(NamedTuple):
    """Something in a store, what there is to say about it, and where it was moved to."""

    path: Path
    reason: str
    moved: Path | None = None


class Place(NamedTuple):
    """A name where a run belongs; `fault` says why there can be none, and is empty otherwise."""

    path: Path
    fault: str = ""


@dataclass
class Contents:
    """What was found in a store.

    Attributes
    ----------
    places : list of Place
        Everything that is a run or stands where runs belong, in the order of the names.
    checkpoints : list of path
    set_aside : list of path
        What was found damaged earlier, as `twoaxis.training.store.set_aside` leaves it.
    abandoned : list of path
        Temporaries that nobody has written to for long.
    strangers : list of Finding
        Names that have no meaning here, and links.
    unread : list of Finding
        Directories that may not be read.
    """

    places: list[Place] = field(default_factory=list)
    checkpoints: list[Path] = field(default_factory=list)
    set_aside: list[Path] = field(default_factory=list)
    abandoned: list[Path] = field(default_factory=list)
    strangers: list[Finding] = field(default_factory=list)
    unread: list[Finding] = field(default_factory=list)


def look_through(store: RunStore) -> Contents:
    """Return what a store contains."""
    found = Contents()
    for item in _names(store.directory, found):
        path = Path(item.path)
        directory = item.is_dir(follow_symlinks=False)
        if item.is_symlink():
            found.strangers.append(Finding(path, LINK))
        elif directory and SHARD.fullmatch(item.name):
            _look_at_shard(path, store, found)
        elif directory and item.name == CHECKPOINTS:
            _look_at_checkpoints(path, found)
        elif directory and item.name == DAMAGED:
            _look_at_damaged(path, found)
        elif directory or item.name not in (LISTING, README):
            found.strangers.append(Finding(path, STRANGER))
    found.places.sort(key=lambda place: (place.path.name, place.fault))
    return found


def size_of(path: Path) -> int:
    """Return the bytes in a file, or in all files of a directory; of a link, those of its own."""
    try:
        if path.is_symlink() or not path.is_dir():
            return path.lstat().st_size
        return sum(size_of(Path(item.path)) for item in os.scandir(path))
    except OSError:  # gone meanwhile, or not ours to look at
        return 0


def _names(directory: Path, found: Contents) -> list[os.DirEntry[str]]:
    """Return what a directory holds, in order; temporaries are noted where they are abandoned."""
    try:
        items = sorted(os.scandir(directory), key=lambda item: item.name)
    except OSError as error:
        found.unread.append(Finding(directory, f"it cannot be read ({error.strerror})"))
        return []
    found.abandoned += sorted(abandoned(directory))
    return [item for item in items if not item.name.startswith(TEMPORARY)]


def _look_at_shard(directory: Path, store: RunStore, found: Contents) -> None:
    for item in _names(directory, found):
        fault = _fault(item, store)
        if fault is None:
            reason = LINK if item.is_symlink() else STRANGER
            found.strangers.append(Finding(Path(item.path), reason))
        else:
            found.places.append(Place(Path(item.path), fault))


def _fault(item: os.DirEntry[str], store: RunStore) -> str | None:
    """Say why this cannot be a run, nothing where it may be one; None for what nobody minds."""
    directory = item.is_dir(follow_symlinks=False)
    try:
        belongs_here = store.path(item.name) == Path(item.path)
    except InputError:
        return "its name is not the key of a run" if directory else None
    if item.is_symlink():
        return "it is a link, which is not followed"
    if not directory:
        return "it is a file, where a run is a directory" if belongs_here else None
    if not belongs_here:
        return f"it lies where nobody looks for it, and not in {store.path(item.name).parent.name}/"
    return ""


def _look_at_checkpoints(directory: Path, found: Contents) -> None:
    for item in _names(directory, found):
        if CHECKPOINT.fullmatch(item.name):
            found.checkpoints.append(Path(item.path))
        else:
            found.strangers.append(Finding(Path(item.path), STRANGER))


def _look_at_damaged(directory: Path, found: Contents) -> None:
    for item in _names(directory, found):
        number = item.name.rpartition(".")[2]
        if item.is_dir(follow_symlinks=False) and number.isdecimal():
            found.set_aside.append(Path(item.path))
        else:
            found.strangers.append(Finding(Path(item.path), STRANGER))

"""Is this run, or this checkpoint, complete and unchanged?"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Literal, NamedTuple

from twoaxis.errors import InputError
from twoaxis.problems import PROBLEMS
from twoaxis.runs.contents import Place
from twoaxis.training.checkpoint import read_checkpoint
from twoaxis.training.packing import ARRAYS, sha256
from twoaxis.training.storage import DamagedRunError, load_run, read_manifest

State = Literal["sound", "not rebuilt", "damaged", "unread", "gone"]
# All that was stored is there as it was stored.
COMPLETE = ("sound", "not rebuilt")


class Check(NamedTuple):
    """How something stored was found, and why.

    ``"not rebuilt"`` has its checksums, but its problem is not built in. ``"unread"`` could not
    be looked at, or is of another version: it may be in order. ``"gone"`` was there a moment ago.
    """

    state: State
    reason: str = ""


def check_manifest(place: Place) -> tuple[dict[str, Any], Check]:
    """Return the manifest of a run after all that can be checked without its arrays."""
    if place.fault:
        return {}, Check("damaged", place.fault)
    try:
        manifest = read_manifest(place.path)
        obstacle = _obstacle(place.path / ARRAYS)
        if obstacle is not None:
            return {}, obstacle if os.path.lexists(place.path) else Check("gone")
        came, wanted = (place.path / ARRAYS).lstat().st_size, manifest["arrays"]["bytes"]
        if came != wanted:
            return {}, Check("damaged", f"its arrays have {came} bytes, where {wanted:d} belong")
        return manifest, Check("sound")
    except Exception as error:
        return {}, _judged(error, place.path)


def check_run(place: Place) -> Check:
    """Read a run, compare its checksums and build it again.

    A problem of one's own is in no file: of its runs, the checksums are compared.
    """
    found = _check_run(place)
    # Another process may have replaced the run between its two files: a second look tells.
    return _check_run(place) if found.state == "damaged" else found


def _check_run(place: Place) -> Check:
    manifest, found = check_manifest(place)
    if found.state != "sound":
        return found
    try:
        problem = manifest["settings"]["problem"]
        if not isinstance(problem, str) or problem in PROBLEMS:
            load_run(place.path)
            return found
        if sha256(read_plain(place.path / ARRAYS)) != manifest["arrays"]["sha256"]:
            return Check("damaged", "its arrays do not have the checksum that the manifest names")
        return Check("not rebuilt", f"its problem is not built in: {problem}")
    except Exception as error:
        return _judged(error, place.path)


def check_checkpoint(path: Path) -> tuple[list[str], Check]:
    """Return the keys of the runs in a checkpoint, and how it was found."""
    obstacle = _obstacle(path)
    if obstacle is not None:
        return [], obstacle if os.path.lexists(path) else Check("gone")
    try:
        return read_checkpoint(path).keys, Check("sound")
    except ValueError as error:
        return [], Check("damaged", str(error))
    except Exception as error:
        return [], _judged(error, path)


def _judged(error: Exception, path: Path) -> Check:
    """Say what an error means for the file that provoked it.

    Any error may come of a forged file, and the others are still to be checked.
    """
    if not os.path.lexists(path):
        return Check("gone")
    if isinstance(error, InputError):
        reason = error.got.removeprefix(f"{str(path)!r}: ")
        return Check("damaged" if isinstance(error, DamagedRunError) else "unread", reason)
    if isinstance(error, KeyError):
        return Check("damaged", f"it does not say its {error}")
    return Check("damaged", f"{type(error).__name__}: {error}")


def _obstacle(path: Path) -> Check | None:
    """Say why this is no plain file that can be read; reading a pipe would wait for ever."""
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return Check("damaged", f"{path.name} is missing")
    except OSError as error:
        return Check("unread", f"{path.name} cannot be read ({error.strerror})")
    if not stat.S_ISREG(kind):
        what = "a link, which is not followed" if stat.S_ISLNK(kind) else "no plain file"
        return Check("damaged", f"{path.name} is {what}")
    if not os.access(path, os.R_OK):
        return Check("unread", f"{path.name} cannot be read (permission denied)")
    return None


def read_plain(path: Path) -> bytes:
    """Return the content of a plain file; a link is not followed, a pipe not waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError("it is no plain file")
        return stream.read()

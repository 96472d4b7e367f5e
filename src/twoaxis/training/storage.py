"""One run on disk: arrays as safetensors, everything else in a readable manifest.

A run is a directory with the name of its key::

    KEY/run.json             the manifest, with the checksum of the arrays and one of its own
    KEY/arrays.safetensors   weights, points, observations, history

It is put together beside its place and moved there in one step, so that a run which is there is
complete, whoever else writes at the same time. Reading runs no code from a file, follows no
link and opens nothing outside the directory.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load

from twoaxis.errors import InputError
from twoaxis.files import flush_directory, flush_file, temporary_beside
from twoaxis.problems import PROBLEMS, Problem
from twoaxis.training.moving import (
    is_own_directory,
    put_in_place,
    remove,
)
from twoaxis.training.packing import ARRAYS, FORMAT, VERSION, packed, rebuilt, seal, sha256
from twoaxis.training.run import Run

MANIFEST = "run.json"

# A key becomes a name in the file system: nothing in it may lead elsewhere.
KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
# A manifest is some kilobytes long. A file that is larger than this is none.
LARGEST_MANIFEST = 64 * 2**20
# Errors that tell of a run which lacks a file or has something else in its place. Others, such
# as a lack of permission, tell nothing about the run.
NO_FILE = (None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO)


class DamagedRunError(InputError):
    """A stored run that is incomplete or was changed, and must not be used."""


def is_key(name: Any) -> bool:
    """Whether a name can be that of a run."""
    return isinstance(name, str) and bool(KEY.fullmatch(name)) and not name.endswith(".")


def checked_key(key: Any) -> str:
    """Return a key that can be a name in a directory."""
    if not is_key(key):
        raise InputError(
            "the key of a run, made of letters, digits, dots, dashes and underscores",
            repr(key)[:100],
            "copy it from a list of the runs",
        )
    return str(key)


def write_run(run: Run, directory: str | Path, *, overwrite: bool = False) -> Path:
    """Write one run as ``directory/KEY`` and return that place.

    A store has a directory for every two digits: `twoaxis.training.save_run` knows it.

    Parameters
    ----------
    run : Run
    directory : path
    overwrite : bool
        Replace a run of the same key. Without it the one that is there stays: it was made of
        the same settings, by somebody who was faster.
    """
    target = Path(directory) / checked_key(run.key)
    if not overwrite and _is_taken(target):
        return target
    _make_directory(target.parent)
    manifest, arrays = packed(run)
    whole = temporary_beside(target)
    try:
        whole.mkdir()
        for name, content in ((ARRAYS, arrays), (MANIFEST, manifest)):
            (whole / name).write_bytes(content)
            flush_file(whole / name)
        flush_directory(whole)
        put_in_place(whole, target, overwrite)
    finally:
        remove(whole)
    return target


def _is_taken(target: Path) -> bool:
    """Whether there is a run in this place; what is there instead is in its way."""
    if os.path.lexists(target) and not is_own_directory(target):
        raise InputError(
            "a place that is free, or holds a run",
            f"{str(target)!r}, which is a link or no directory",
            "move it away",
        )
    return target.exists()


def _make_directory(place: Path) -> None:
    """Make a directory that is still there after a power failure."""
    if not place.exists():
        place.mkdir(parents=True, exist_ok=True)
        flush_directory(place.parent)


def taken_back(temporary: Path) -> bool:
    """Bring a run home that a killed process had moved aside, and say whether there was one.

    It lies under its name in a temporary directory beside its place. A damaged one stays, and
    so does one whose place is taken.
    """
    if not is_own_directory(temporary):
        return False
    for path in temporary.iterdir():
        run = is_own_directory(path) and is_key(path.name)
        if run and not os.path.lexists(temporary.parent / path.name):
            try:
                load_run(path)
            except DamagedRunError:
                continue
            except InputError:
                pass  # a problem that is not built in, or no permission: it is not ours to judge
            path.rename(temporary.parent / path.name)
            flush_directory(temporary.parent)
            return True
    return False


def load_run(path: str | Path, problem: Problem | None = None) -> Run:
    """Read one run.

    Parameters
    ----------
    path : path
        Of its directory, or of the manifest in it.
    problem : Problem, optional
        For a run on a problem of one's own, which no file can hold.
    """
    where = run_directory(path)
    while True:
        found = identity(where)
        try:
            return _loaded(where, problem)
        except InputError:
            # A run that was replaced while it was read is not damaged: the new one is read.
            if identity(where) == found:
                raise


def identity(where: Path) -> tuple[int, ...] | None:
    """Return what tells a directory from the one that has its name a moment later."""
    try:
        known = where.lstat()
    except (OSError, ValueError):
        return None
    return known.st_dev, known.st_ino, known.st_ctime_ns


def _loaded(where: Path, problem: Problem | None) -> Run:
    plain = read_manifest(where)
    chosen = _problem_of(plain, where, problem)
    content = _read(where, ARRAYS, plain["arrays"]["bytes"])
    if len(content) != plain["arrays"]["bytes"]:
        raise _damaged(where, "its arrays do not have the size that the manifest names")
    if sha256(content) != plain["arrays"]["sha256"]:
        raise _damaged(where, "its arrays do not have the checksum that the manifest names")
    try:
        return rebuilt(plain, load(content), chosen)
    except (
        *(SafetensorError, KeyError, TypeError, ValueError, RecursionError),
        *(IndexError, AttributeError, OverflowError),
    ) as error:
        raise _damaged(where, str(error)) from error


def run_directory(path: Any) -> Path:
    """Return the directory of a run, named by itself or by its manifest."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError("the directory of a run", repr(path), "name DIR/KEY")
    where = Path(path)
    where = where.parent if where.name == MANIFEST else where
    # The name of a run is its key: "." and ".." do not show it.
    return where if where.name not in ("", "..") else where.resolve()


def read_manifest(where: Path) -> dict[str, Any]:
    """Return the manifest of a run, checked but for its arrays."""
    content = _read(where, MANIFEST, LARGEST_MANIFEST)
    try:
        plain = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _damaged(where, "its manifest is not JSON, or only a part of it") from error
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise _damaged(where, "its manifest is not one of a run")
    # Before the version, which a changed byte may have turned into another one.
    if not _is_sealed(plain):
        raise _damaged(where, "its manifest does not have its own checksum")
    if plain.get("version") != VERSION:
        raise InputError(
            f"a run in version {VERSION} of the format",
            f"version {plain.get('version')!r} in {str(where)!r}",
            "read it with the twoaxis that wrote it, or train again",
        )
    arrays = plain.get("arrays")
    if not isinstance(arrays, dict) or not (
        isinstance(arrays.get("sha256"), str) and isinstance(arrays.get("bytes"), int)
    ):
        raise _damaged(where, "its manifest does not name size and checksum of the arrays")
    if plain.get("key") != where.name:
        raise _damaged(where, "its manifest describes a run of another name")
    return plain


def _is_sealed(plain: dict[str, Any]) -> bool:
    """Take the checksum out of a manifest, and say whether it is that of the rest."""
    sealed = plain.pop("sha256", None)
    try:
        return bool(sealed == seal(plain))
    except RecursionError:  # nested more deeply than anything that was written
        return False


def _read(where: Path, name: str, most: int) -> bytes:
    """Return the content of a plain file in the directory of a run, of `most` bytes at most.

    No link is followed: what lies elsewhere is no part of a run.
    """
    try:
        if where.is_symlink():
            raise OSError("the directory is a link")
        # A pipe is opened without waiting for a writer, and then refused.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with open(where / name, "rb", opener=lambda file, _: os.open(file, flags)) as stream:
            known = os.fstat(stream.fileno())
            if not stat.S_ISREG(known.st_mode):
                raise OSError("it is no plain file")
            content = stream.read(known.st_size + 1) if known.st_size <= most else None
    except (OSError, ValueError) as error:
        raise _unreadable(where, name, error) from error
    if content is None or len(content) > most:
        raise _damaged(where, f"{name} is larger than it can be")
    return content


def _unreadable(where: Path, name: str, error: Exception) -> InputError:
    """Return what to say of a file that was not read: what is missing or no file is damage."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    try:
        inside = where.is_dir()
    except (OSError, ValueError):
        inside = False
    if not inside:
        return InputError("the directory of a run", f"{str(where)!r} ({reason})", "name DIR/KEY")
    if isinstance(error, OSError) and error.errno not in NO_FILE:
        return InputError(
            "a run that this process can read",
            f"{str(where / name)!r} ({reason})",
            "mend its permissions, or look after the disk",
        )
    return _damaged(where, f"{name} cannot be read ({reason})")


def _problem_of(plain: dict[str, Any], where: Path, problem: Problem | None) -> Problem:
    """Return the problem of a run: a benchmark, or the one that was handed in."""
    settings = plain.get("settings")
    name = settings.get("problem") if isinstance(settings, dict) else None
    if not isinstance(name, str):
        raise _damaged(where, "its manifest does not name its problem")
    chosen = PROBLEMS.get(name) if problem is None else problem
    if chosen is None or chosen.name != name:
        raise InputError(
            f"the problem {name}",
            "none of that name" if chosen is None else chosen.name,
            "pass the one that the run was made with, as in load_run(path, problem=...)",
        )
    return chosen


def _damaged(where: Path, why: str) -> DamagedRunError:
    return DamagedRunError(
        "a complete, unchanged run",
        f"{str(where)!r}: {why}",
        "move it away and train the run again, or restore it from a copy",
    )

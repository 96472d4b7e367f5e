"""What can go from a store: nothing that somebody could still want."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from twoaxis.errors import InputError
from twoaxis.files import TEMPORARY
from twoaxis.runs.checks import check_checkpoint
from twoaxis.runs.contents import Finding, look_through, size_of
from twoaxis.runs.verification import holds, stranded_run
from twoaxis.training.storage import MANIFEST
from twoaxis.training.store import CHECKPOINTS, DAMAGED, REASON, RunStore


class Removal(NamedTuple):
    """Something that can go: where it is, its bytes, and why."""

    path: Path
    bytes: int
    reason: str


def plan(store: RunStore, *, damaged: bool = False) -> list[Removal]:
    """Return what can go from a store; nothing is removed.

    Temporaries that nobody has written to for an hour can go, unless one holds a complete run
    that the store lacks. A checkpoint can go when all its runs are there, complete and not older
    than itself: with older ones it belongs to a training that was to replace them.

    Parameters
    ----------
    store : RunStore
    damaged : bool
        Also what was set aside as damaged.
    """
    contents = look_through(store)
    reasons: list[tuple[Path, str]] = [
        (path, "a temporary that somebody abandoned")
        for path in contents.abandoned
        if stranded_run(path, store) is None
    ]
    reasons += [(path, "its runs are all there") for path in _done(contents.checkpoints, store)]
    if damaged:
        reasons += [
            (path, "set aside as damaged") for path in contents.set_aside if _is_set_aside(path)
        ]
    return [Removal(path, size_of(path), reason) for path, reason in reasons]


def prune(removals: Iterable[Removal]) -> list[Finding]:
    """Remove what a plan names, and return what could not be removed, with the reason.

    No link is followed: of a link, the link itself goes. What has changed since it was planned
    stays.

    Parameters
    ----------
    removals : iterable of Removal
        From `plan`.
    """
    left = []
    for path, size, _ in removals:
        if not (path.name.startswith(TEMPORARY) or path.parent.name in (CHECKPOINTS, DAMAGED)):
            raise InputError(
                "what plan(store) names",
                f"{str(path)!r}, which may be a run",
                "pass the list as it came, or a part of it",
            )
        try:
            if os.path.lexists(path) and size_of(path) != size:
                left.append(Finding(path, "it has changed meanwhile"))
            elif path.is_symlink() or not path.is_dir():
                path.unlink(missing_ok=True)
            else:
                shutil.rmtree(path)
        except FileNotFoundError:
            continue  # another process was faster
        except OSError as error:
            left.append(Finding(path, f"it cannot be removed ({error.strerror})"))
    return left


def _done(checkpoints: list[Path], store: RunStore) -> Iterator[Path]:
    """Yield the checkpoints of batches whose runs are all complete, and not older."""
    for path in checkpoints:
        keys, check = check_checkpoint(path)
        if check.state == "sound" and keys and all(_replaces(key, path, store) for key in keys):
            yield path


def _replaces(key: str, checkpoint: Path, store: RunStore) -> bool:
    try:
        stored = (store.path(key) / MANIFEST).lstat().st_mtime
        return stored >= checkpoint.lstat().st_mtime and holds(store, key)
    except (InputError, OSError):
        return False


def _is_set_aside(path: Path) -> bool:
    """Whether a directory is as `set_aside` makes it: NAME.1 with NAME and the reason in it."""
    try:
        names = {item.name for item in os.scandir(path)}
    except OSError:
        return False
    return names <= {path.name.rpartition(".")[0], REASON}

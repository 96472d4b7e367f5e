"""Everything in a store is read and checked, run by run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from twoaxis.errors import InputError
from twoaxis.files import ensure_directory
from twoaxis.progress import progress_bar
from twoaxis.runs.checks import COMPLETE, Check, check_checkpoint, check_run
from twoaxis.runs.contents import STRANGER, Contents, Finding, Place, look_through
from twoaxis.training.packing import ARRAYS
from twoaxis.training.storage import MANIFEST
from twoaxis.training.store import RunStore
from twoaxis.training.store import set_aside as move_aside


@dataclass
class Verification:
    """What a verification found.

    Attributes
    ----------
    runs, checkpoints : int
        How many are sound: checksums fit, and a run can be built again.
    not_rebuilt : list of Finding
        Runs whose checksums fit, on problems that are not built in.
    damaged : list of Finding
        Runs and checkpoints that must not be used, with the reason, and where they were moved.
    unread : list of Finding
        What could not be looked at, or was written by another version. It stays where it is.
    leftovers : list of Finding
        Names that are no runs, links, and temporaries that somebody abandoned. They do no harm.
    set_aside : int
        How many damaged ones had been set aside before.
    """

    runs: int = 0
    checkpoints: int = 0
    not_rebuilt: list[Finding] = field(default_factory=list)
    damaged: list[Finding] = field(default_factory=list)
    unread: list[Finding] = field(default_factory=list)
    leftovers: list[Finding] = field(default_factory=list)
    set_aside: int = 0

    @property
    def ok(self) -> bool:
        """Whether all runs and checkpoints were read, and none is damaged."""
        return not self.damaged and not self.unread


def verify(store: RunStore, set_aside: bool = False, progress: bool = True) -> Verification:
    """Read and check every run and every checkpoint of a store.

    Nothing is changed, unless damaged ones are to be set aside.

    Parameters
    ----------
    store : RunStore
    set_aside : bool
        Move what is damaged to ``damaged/``, with the reason beside it. Training makes it again.
    progress : bool
        Show a progress bar.
    """
    if set_aside:
        ensure_directory(store.directory)  # says now that it cannot be written to, not at the end
    contents = look_through(store)
    found = Verification(set_aside=len(contents.set_aside), unread=list(contents.unread))
    found.leftovers += contents.strangers
    found.leftovers += [Finding(path, _about(path, store)) for path in contents.abandoned]
    _check_all(contents, found, progress)
    if set_aside:
        found.damaged = [_moved(each, store) for each in found.damaged]
    return found


def _check_all(contents: Contents, found: Verification, progress: bool) -> None:
    total = len(contents.places) + len(contents.checkpoints)
    with progress_bar("Checking runs", total, progress) as advance:
        for place in contents.places:
            check = check_run(place)
            found.runs += check.state == "sound"
            _note(place.path, check, found)
            found.leftovers += _strangers_in(place)
            advance(1)
        for path in contents.checkpoints:
            _, check = check_checkpoint(path)
            found.checkpoints += check.state == "sound"
            _note(path, check, found)
            advance(1)


def _note(path: Path, check: Check, found: Verification) -> None:
    lists = {"not rebuilt": found.not_rebuilt, "damaged": found.damaged, "unread": found.unread}
    if check.state in lists:
        lists[check.state].append(Finding(path, check.reason))


def _strangers_in(place: Place) -> list[Finding]:
    """Return what lies in the directory of a run and does not belong there."""
    if place.fault:
        return []
    try:
        names = sorted(item.name for item in os.scandir(place.path))
    except OSError:  # its check has told
        return []
    return [Finding(place.path / n, STRANGER) for n in names if n not in (MANIFEST, ARRAYS)]


def _about(path: Path, store: RunStore) -> str:
    key = stranded_run(path, store)
    if key is None:
        return "a temporary that somebody abandoned"
    home = store.path(key).relative_to(store.directory)
    return f"an abandoned temporary that holds a complete run; move it to {home} to keep it"


def stranded_run(path: Path, store: RunStore) -> str | None:
    """Return the key of a complete run in an abandoned temporary that the store lacks.

    A process that is killed while it replaces a run leaves the old one there.
    """
    if path.is_symlink() or not path.is_dir():
        return None
    for item in sorted(path.iterdir()):
        inside = item.is_dir() and not item.is_symlink()
        if inside and check_run(Place(item)).state in COMPLETE and not holds(store, item.name):
            return item.name
    return None


def holds(store: RunStore, key: str) -> bool:
    """Whether a store has the run of this key, complete and at its place."""
    try:
        place = store.path(key)
    except InputError:  # no key: nothing that a store could hold
        return False
    return not place.parent.is_symlink() and check_run(Place(place)).state in COMPLETE


def _moved(each: Finding, store: RunStore) -> Finding:
    try:
        place = move_aside(each.path, store.directory, each.reason)
    except OSError as error:
        reason = f"{each.reason}; it could not be set aside ({error.strerror})"
        return each._replace(reason=reason)
    return each._replace(moved=place)

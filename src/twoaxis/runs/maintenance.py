"""Look after a store: list its runs, check them, and remove what nobody needs.

`look_through` finds what is in a store by name and kind alone. `list_runs` adds a row for each run
from its manifest, `verify` reads and checks every file, and `plan` and `prune` remove abandoned
temporary files, checkpoints of finished batches and, if asked for, damaged runs. Nothing here
follows a link.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd

from twoaxis.errors import InputError
from twoaxis.files import TEMPORARY, ensure_directory
from twoaxis.problems import PROBLEMS
from twoaxis.progress import progress_bar
from twoaxis.runs.checkpoint import read_checkpoint
from twoaxis.runs.run_file import (
    ARRAYS,
    MANIFEST,
    DamagedRunError,
    load_run,
    read_manifest,
    sha256,
)
from twoaxis.runs.store import CHECKPOINTS, DAMAGED, REASON, RunStore, abandoned
from twoaxis.runs.store import set_aside as move_aside

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
        What was found damaged earlier, as `twoaxis.runs.store.set_aside` leaves it.
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
        came, expected = (place.path / ARRAYS).lstat().st_size, manifest["arrays"]["bytes"]
        if came != expected:
            return {}, Check("damaged", f"its arrays have {came} bytes, where {expected:d} belong")
        return manifest, Check("sound")
    except Exception as error:
        return {}, _judged(error, place.path)


def check_run(place: Place) -> Check:
    """Read a run, compare its checksums and build it again.

    A user's own problem is in no file: for its runs, the checksums are compared.
    """
    found = _check_run(place)
    # Another process may have replaced the run between its two files: it is checked twice.
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


COLUMNS = (
    *("key", "problem", "method", "dataset", "seed", "steps", "conditions", "precision"),
    *("status", "twoaxis", "bytes"),
)
NUMBERS = ("seed", "steps", "bytes")


def list_runs(store: RunStore) -> pd.DataFrame:
    """Return a row for each run of a store, in the order of the keys.

    The columns are ``key``, ``problem``, ``method``, ``dataset``, ``seed``, ``steps``,
    ``conditions``, ``precision``, ``status``, ``twoaxis`` (the version that wrote the run),
    ``bytes`` on disk, and ``delivered_NAME`` for every parameter. Arrays are not read. Everything
    in the place of a run has a row; for a damaged one the status says so, and the columns from its
    manifest are empty.

    Parameters
    ----------
    store : RunStore

    Examples
    --------
    >>> import tempfile, twoaxis as ta
    >>> from twoaxis.runs.maintenance import list_runs
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = ta.RunStore(folder)
    ...     runs = ta.train(
    ...         "burgers", datasets=8, steps=3, residual_points=50, store=store, progress=False
    ...     )
    ...     table = list_runs(store)
    >>> print(table[["problem", "method", "dataset", "steps", "status"]])
       problem method dataset  steps    status
    0  burgers    rba       8      3  finished
    """
    return frame_of(run_rows(store))


def run_rows(store: RunStore) -> list[dict[str, Any]]:
    """Return what `list_runs` shows as plain values, with ``delivered`` as one of them."""
    rows = [_row(place) for place in look_through(store).places]
    return [row for row in rows if row is not None]


def frame_of(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return rows as a table, with a column for each delivered parameter."""
    names = {name: None for row in rows for name in row["delivered"]}
    flat = [
        row | {f"delivered_{name}": value for name, value in row["delivered"].items()}
        for row in rows
    ]
    columns = [*COLUMNS[:8], *(f"delivered_{name}" for name in names), *COLUMNS[8:]]
    frame = pd.DataFrame(flat, columns=columns, dtype=object)
    # Integers stay integers beside the empty cells of a damaged run, and text stays text: the
    # name of a file need not be one that every string type can hold.
    numbers = [
        name
        for name in columns
        if name.startswith("delivered_") or (name in NUMBERS and frame[name].notna().all())
    ]
    return frame.assign(**{name: frame[name].infer_objects() for name in numbers})


def find_runs(store: RunStore, names: Sequence[str]) -> list[Place]:
    """Return the places of runs, in the order of their names, each once.

    Parameters
    ----------
    store : RunStore
    names : sequence of str
        Keys, beginnings that only one key has, or patterns with ``*``.
    """
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InputError("keys of runs as a list of text", repr(names)[:100], "pass keys=[KEY]")
    places = look_through(store).places
    found = [place for name in names for place in _matching(name, places)]
    return sorted(set(found), key=lambda place: place.path.name)


def find_run(store: RunStore, name: str) -> Place:
    """Return the place of one run, named by its key or a beginning that only one key has."""
    if "*" in name:
        raise InputError("the key of one run", repr(name), "write it without *")
    (place,) = find_runs(store, [name])
    return place


def _matching(name: str, places: list[Place]) -> list[Place]:
    keys = {place.path.name: place for place in reversed(places)}  # a faultless one comes first
    if name in keys:
        return [keys[name]]
    pattern = "*" in name
    fitting = [k for k in keys if (fnmatchcase(k, name) if pattern else k.startswith(name))]
    if not fitting or (len(fitting) > 1 and not pattern):
        some = f" ({', '.join(map(repr, sorted(fitting)[:3]))}, ...)" if fitting else ""
        raise InputError(
            "the key of one run, or a beginning that only one has",
            f"{name!r}, which fits {len(fitting)} of {len(keys)} runs{some}",
            "write more of the key; twoaxis runs list DIR shows them all",
        )
    return [keys[key] for key in fitting]


def described(manifest: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield everything in a manifest as names with dots and texts, in its order."""
    waiting: list[tuple[str, Any]] = [("", manifest)]
    while waiting:  # without recursion: the depth is chosen by whoever wrote the file
        name, value = waiting.pop()
        parts: list[tuple[str, Any]] = []
        if isinstance(value, dict):
            parts = [(key, part) for key, part in value.items()]
        elif isinstance(value, list) and any(isinstance(part, (dict, list)) for part in value):
            parts = [(str(number), part) for number, part in enumerate(value)]
        if parts:
            waiting += [(f"{name}.{key}" if name else key, part) for key, part in reversed(parts)]
        elif isinstance(value, (dict, list)):
            yield name, ", ".join(str(part) for part in value) or "none"
        else:
            yield name, str(value)


def _row(place: Place) -> dict[str, Any] | None:
    manifest, found = check_manifest(place)
    if found.state == "gone":
        return None
    row: dict[str, Any] = dict.fromkeys(COLUMNS) | {"delivered": {}}
    row |= {"key": place.path.name, "bytes": size_of(place.path)}
    try:
        if found.state == "sound":
            return row | _stated(manifest)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        found = Check("damaged", "its manifest does not say what a run says")
    return row | {"status": f"{found.state}: {found.reason}"}


def _stated(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what a manifest states; anything may be in it, and an error says that it is."""
    settings, run = manifest["settings"], manifest["run"]
    return {
        "problem": _text(settings["problem"]),
        "method": _text(settings["method"]["name"]),
        "dataset": _text(run["dataset"]),
        "seed": _integer(run["seed"]),
        "steps": _integer(manifest["snapshots"][-1]["step"]),
        "conditions": _text(settings["conditions"]),
        "precision": _text(settings["precision"]),
        "delivered": {
            _text(name): float(value) if isinstance(value, float) else float(_integer(value))
            for name, value in dict(manifest["delivered"]).items()
        },
        "status": _text(manifest["status"]),
        "twoaxis": _text(manifest["twoaxis"]),
    }


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    value.encode()  # JSON can spell characters that do not exist
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("not an integer")
    return value


@dataclass
class Verification:
    """What a verification found.

    Attributes
    ----------
    runs, checkpoints : int
        How many are sound: the checksums match, and a run can be rebuilt.
    not_rebuilt : list of Finding
        Runs whose checksums match, on problems that are not built in.
    damaged : list of Finding
        Runs and checkpoints that must not be used, with the reason, and where they were moved.
    unread : list of Finding
        What could not be read, or was written by another version. It is left in place.
    leftovers : list of Finding
        Names that are not runs, links, and abandoned temporary files. They are harmless.
    set_aside : int
        How many damaged ones had already been set aside.

    Examples
    --------
    >>> import tempfile, twoaxis as ta
    >>> from twoaxis.runs.maintenance import verify
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = ta.RunStore(folder)
    ...     runs = ta.train(
    ...         "burgers", datasets=8, steps=3, residual_points=50, store=store, progress=False
    ...     )
    ...     arrays = store.path(runs.keys[0]) / "arrays.safetensors"
    ...     _ = arrays.write_bytes(arrays.read_bytes()[:-1])  # one byte is lost
    ...     found = verify(store, progress=False)
    >>> found.ok, found.runs, len(found.damaged)
    (False, 0, 1)
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

    Examples
    --------
    >>> import tempfile, twoaxis as ta
    >>> from twoaxis.runs.maintenance import verify
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = ta.RunStore(folder)
    ...     runs = ta.train(
    ...         "burgers", datasets=8, steps=3, residual_points=50, store=store, progress=False
    ...     )
    ...     found = verify(store, progress=False)
    >>> found.ok, found.runs, found.damaged
    (True, 1, [])
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
    except OSError:  # its check has said so
        return []
    return [Finding(place.path / n, STRANGER) for n in names if n not in (MANIFEST, ARRAYS)]


def _about(path: Path, store: RunStore) -> str:
    key = stranded_run(path, store)
    if key is None:
        return "an abandoned temporary file"
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


class Removal(NamedTuple):
    """Something that can go: where it is, its bytes, and why."""

    path: Path
    bytes: int
    reason: str


def plan(store: RunStore, *, damaged: bool = False) -> list[Removal]:
    """Return what can be removed from a store, without removing it.

    Temporary files that have not been written to for an hour can be removed, unless one holds a
    complete run that the store lacks. A checkpoint can be removed when all its runs are there,
    complete and not older than itself: with older ones it belongs to a training that was to replace
    them.

    Parameters
    ----------
    store : RunStore
    damaged : bool
        Also what was set aside as damaged.

    Examples
    --------
    >>> import tempfile, twoaxis as ta
    >>> from twoaxis.runs.maintenance import plan
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = ta.RunStore(folder)
    ...     runs = ta.train(
    ...         "burgers", datasets=8, steps=3, residual_points=50, store=store, progress=False
    ...     )
    ...     print(plan(store))  # nothing to remove
    []
    """
    contents = look_through(store)
    reasons: list[tuple[Path, str]] = [
        (path, "an abandoned temporary file")
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
    """Remove what a plan lists, and return what could not be removed, with the reason.

    No link is followed: only the link itself is removed. What has changed since it was planned is
    kept.

    Parameters
    ----------
    removals : iterable of Removal
        From `plan`.

    Examples
    --------
    >>> import tempfile, twoaxis as ta
    >>> from twoaxis.runs.maintenance import plan, prune
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = ta.RunStore(folder)
    ...     runs = ta.train(
    ...         "burgers", datasets=8, steps=3, residual_points=50, store=store, progress=False
    ...     )
    ...     print(prune(plan(store)))  # everything in the plan was removed
    []
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

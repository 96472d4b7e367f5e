"""Runs for a colleague: a store of their own, as a directory or as one zip file."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twoaxis.errors import InputError
from twoaxis.files import (
    ensure_directory,
    flush_directory,
    flush_file,
    temporary_beside,
    write_whole,
)
from twoaxis.progress import progress_bar
from twoaxis.runs.maintenance import (
    COMPLETE,
    LISTING,
    README,
    Check,
    Finding,
    Place,
    check_manifest,
    check_run,
    find_runs,
    list_runs,
    look_through,
    read_plain,
)
from twoaxis.runs.run_file import ARRAYS, MANIFEST
from twoaxis.runs.store import RunStore
from twoaxis.text import visible

# The first date that a zip file can name.
DATE = (1980, 1, 1, 0, 0, 0)

ABOUT = """\
Trained inverse PINNs: {count}
{rule}

Each run is a directory NN/KEY with two files. run.json says what was trained, on which data and
what came out; arrays.safetensors has the weights, the residual sites, the observations and the
history of the losses. Both have checksums, which were compared when this copy was made.
runs.csv lists the runs. Its columns are those of twoaxis runs list.

This directory is itself a store of runs. With twoaxis and its extra train,

    pip install 'twoaxis[train]'

a terminal does

    twoaxis runs list .
    twoaxis runs verify .
    twoaxis audit --run .

and Python

    import twoaxis as ta
    runs = ta.load_runs(".")

A run on a problem that is not built into twoaxis needs that problem:
ta.load_runs(".", problem=MINE). No file here holds code, and reading them runs none.
"""


@dataclass
class Export:
    """What an export contains.

    Attributes
    ----------
    target : path
        Where it was written. Nothing is written if no run is sound.
    keys : list of str
        The runs in it.
    not_rebuilt : list of Finding
        Those among them whose problem is not built in; their checksums were compared.
    left_out : list of Finding
        Runs that are damaged or could not be read.

    Examples
    --------
    >>> import tempfile, twoaxis as ta
    >>> from pathlib import Path
    >>> from twoaxis.runs.export import export
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Path(folder, "runs")
    ...     runs = ta.train(
    ...         "burgers", datasets=8, steps=3, residual_points=50, store=store, progress=False
    ...     )
    ...     found = export(ta.RunStore(store), Path(folder, "runs.zip"), progress=False)
    >>> found.keys == list(runs.keys), found.not_rebuilt, found.left_out
    (True, [], [])
    """

    target: Path
    keys: list[str] = field(default_factory=list)
    not_rebuilt: list[Finding] = field(default_factory=list)
    left_out: list[Finding] = field(default_factory=list)


def export(
    store: RunStore,
    target: str | Path,
    keys: Sequence[str] | None = None,
    *,
    progress: bool = True,
) -> Export:
    """Copy runs to a new store, with a listing and a page that says what it is.

    Every copy is read back and checked as `verify` does. Damaged runs are left out and listed.
    The target is written completely or not at all. The same runs give the same bytes.

    Parameters
    ----------
    store : RunStore
    target : path
        A directory that is missing or empty. One that ends in ``.zip`` becomes a zip file.
    keys : sequence of str, optional
        Keys, beginnings that only one key has, or patterns with ``*``. Without it, all runs.
    progress : bool
        Show a progress bar.

    Examples
    --------
    >>> import tempfile, twoaxis as ta
    >>> from pathlib import Path
    >>> from twoaxis.runs.export import export
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Path(folder, "runs")
    ...     runs = ta.train(
    ...         "burgers", datasets=8, steps=3, residual_points=50, store=store, progress=False
    ...     )
    ...     found = export(ta.RunStore(store), Path(folder, "runs.zip"), progress=False)
    >>> found.target.name, len(found.keys), found.left_out
    ('runs.zip', 1, [])
    """
    free = _free_target(target, store)
    places = look_through(store).places if keys is None else find_runs(store, keys)
    if not places:
        raise InputError(
            "a store that holds runs",
            f"{str(store.directory)!r}, which holds none",
            "name the directory given to train(store=...)",
        )
    try:
        return _made(places, free, progress)
    except OSError as error:
        raise InputError(
            "room to write the copy",
            f"{str(free)!r} ({error.strerror or error})",
            "choose another place; nothing was left behind",
        ) from error


def _made(places: list[Place], free: Path, progress: bool) -> Export:
    done = Export(free)
    ensure_directory(free.parent)
    scratch = temporary_beside(free)
    try:
        scratch.mkdir()
        copy = RunStore(scratch / "whole", create=True)
        with progress_bar("Copying runs", len(places), progress) as advance:
            for place in places:
                _note(place, _copied(place, copy), done)
                advance(1)
        if done.keys:
            _describe(copy, len(done.keys))
            _hand_over(copy.directory, free)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return done


def _note(place: Place, check: Check, done: Export) -> None:
    if check.state in COMPLETE:
        done.keys.append(place.path.name)
    if check.state == "not rebuilt":
        done.not_rebuilt.append(Finding(place.path, check.reason))
    elif check.state in ("damaged", "unread"):
        done.left_out.append(Finding(place.path, check.reason))


def _copied(place: Place, copy: RunStore) -> Check:
    """Copy one run and check the copy; what is not in order leaves no trace."""
    found = Check("gone")
    for _ in range(2):  # another process may replace the run between its two files
        _, found = check_manifest(place)
        if found.state != "sound":
            return found
        try:
            contents = {name: read_plain(place.path / name) for name in (MANIFEST, ARRAYS)}
        except OSError as error:
            found = Check("unread", f"it cannot be read ({error})")
            continue
        target = copy.path(place.path.name)
        target.mkdir(parents=True)
        for name, content in contents.items():
            (target / name).write_bytes(content)
        found = check_run(Place(target))
        if found.state in COMPLETE:
            return found
        shutil.rmtree(target)
        with suppress(OSError):  # others lie beside it
            target.parent.rmdir()
    return found


def _describe(copy: RunStore, count: int) -> None:
    frame = list_runs(copy).map(_cell).rename(columns=_cell)
    frame.to_csv(copy.directory / LISTING, index=False, lineterminator="\n", encoding="utf-8")
    title = str(count)
    text = ABOUT.format(count=title, rule="=" * len(f"Trained inverse PINNs: {title}"))
    (copy.directory / README).write_text(text, encoding="utf-8", newline="\n")


def _cell(value: Any) -> Any:
    """Return a cell that a terminal prints and a spreadsheet shows, and neither obeys."""
    if not isinstance(value, str):
        return value
    return visible(f"'{value}" if value.startswith(("=", "+", "-", "@")) else value)


def _hand_over(whole: Path, target: Path) -> None:
    if target.suffix.lower() == ".zip":
        write_whole(target, lambda path: _pack(whole, path))
        return
    for path in sorted(whole.rglob("*")):
        flush_directory(path) if path.is_dir() else flush_file(path)
    try:
        whole.rename(target)
    except OSError as error:
        raise _occupied(target, str(error.strerror)) from error
    flush_directory(target.parent)


def _pack(whole: Path, target: Path) -> None:
    """Write a zip file whose bytes depend on the content alone.

    The files are stored as they are: compressed bytes would depend on the library, and weights
    hardly shrink.
    """
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as packed:
        for path in sorted(p for p in whole.rglob("*") if p.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(whole).as_posix(), DATE)
            entry.create_system = 3  # the same on every system
            entry.external_attr = 0o100644 << 16
            packed.writestr(entry, path.read_bytes())


def _free_target(target: Any, store: RunStore) -> Path:
    """Return the place to write to, or say that something is there."""
    if not isinstance(target, (str, os.PathLike)):
        raise InputError("a directory or a zip file to write", repr(target), "pass a path")
    try:
        path = Path(target).absolute()
        free = path.parent.resolve() / path.name
        if not free.name or free.is_relative_to(store.directory):
            raise _occupied(free, "inside the store itself")
        size = free.lstat().st_size
        zipped = free.suffix.lower() == ".zip"
        plain = not free.is_symlink() and (free.is_file() if zipped else free.is_dir())
        empty = plain and not (size if zipped else any(free.iterdir()))
    except FileNotFoundError:
        return free
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise _occupied(target, str(error)) from error
    if not empty:
        raise _occupied(free, "which is there already")
    return free


def _occupied(target: Any, why: str) -> InputError:
    return InputError(
        "a place where nothing is: a new or empty directory, or a new zip file",
        f"{str(target)!r} ({why})",
        "choose another name",
    )

"""A directory of runs: many writers, nothing lost, nothing used that is damaged.

::

    STORE/3f/KEY/          a run (see `twoaxis.runs.run_file`); 3f: two digits of the hash in KEY
    STORE/checkpoints/     batches under way
    STORE/damaged/         what was found incomplete or changed, with the reason

A run that is there is complete. A damaged one is moved to ``damaged/`` with a warning and trained
again; it is never used and never deleted.
"""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from twoaxis.errors import DamageWarning, InputError
from twoaxis.files import TEMPORARY, ensure_directory
from twoaxis.problems import Problem
from twoaxis.runs.run import Run
from twoaxis.runs.run_file import (
    DamagedRunError,
    checked_key,
    is_key,
    is_own_directory,
    load_run,
    taken_back,
    write_run,
)
from twoaxis.text import visible

CHECKPOINTS = "checkpoints"
DAMAGED = "damaged"
REASON = "reason.txt"
# A temporary file that nobody has written to for so long belongs to a process that was killed.
ABANDONED_SECONDS = 3600.0


class RunStore:
    """Runs on disk, by their keys.

    Parameters
    ----------
    directory : path
    create : bool
        Create the directory if it is missing; False is for readers, who may lack permission.

    Examples
    --------
    >>> import tempfile, twoaxis as ta
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = ta.RunStore(folder)
    ...     runs = ta.train(
    ...         "burgers", datasets=8, steps=3, residual_points=50, store=store, progress=False
    ...     )
    ...     print(store.holds(runs.keys[0]), len(store.keys()))
    True 1
    """

    def __init__(self, directory: str | Path, *, create: bool = False) -> None:
        if create:
            self.directory = ensure_directory(directory)
        else:
            self.directory = _existing(directory)

    @classmethod
    def opened(cls, store: str | Path | RunStore, *, create: bool = False) -> RunStore:
        """Return the store in a directory; a store passes through."""
        return store if isinstance(store, RunStore) else cls(store, create=create)

    def path(self, key: str) -> Path:
        """Return where the run of this key lies, or would lie."""
        return self.directory / _shard(checked_key(key)) / key

    def _place(self, key: str) -> Path:
        """Return the path of a run, with no link on the way from the store to it."""
        path = self.path(key)
        _own(path.parent)
        return path

    def holds(self, key: str) -> bool:
        """Whether there is a run of this key; it may still turn out to be damaged."""
        return is_own_directory(self._place(key))

    def keys(self) -> list[str]:
        """Return the keys of all runs, in order."""
        return sorted(path.name for path in self._places())

    def _places(self) -> Iterator[Path]:
        """Yield the runs; a link, or what lies where no run belongs, is no part of the store."""
        for shard in self.directory.glob("[0-9a-f][0-9a-f]"):
            if is_own_directory(shard):
                for path in shard.iterdir():
                    named = is_key(path.name) and self.path(path.name) == path
                    if named and is_own_directory(path):
                        yield path

    def load(self, key: str, problem: Problem | None = None) -> Run:
        """Read a run; see `twoaxis.load_run`."""
        return load_run(self._place(key), problem)

    def found(self, key: str, problem: Problem | None = None) -> Run | None:
        """Return a run that can be used, or None. A damaged one is set aside with a warning."""
        path = self._place(key)
        while os.path.lexists(path):
            try:
                return self.load(key, problem)
            except DamagedRunError as error:
                damage: InputError = error
            except InputError as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    continue  # it was replaced or set aside at this moment
                if path.is_dir():
                    raise
                damage = error  # a file or a link in the place of a run
            self._warn_and_set_aside(key, damage)
            return None
        return None

    def _warn_and_set_aside(self, key: str, damage: InputError) -> None:
        try:
            place = self.set_aside(key, str(damage.got))
        except (OSError, InputError) as hindrance:
            raise damage from hindrance
        warnings.warn(
            f"the stored run {key} is damaged and will be trained again; it was set aside in "
            f"{str(place)!r}: {damage.got}",
            DamageWarning,
            stacklevel=3,
        )

    def save(self, run: Run, *, overwrite: bool = False) -> Path:
        """Write a run and return its place.

        Parameters
        ----------
        run : Run
        overwrite : bool
            Replace a run of the same key. Without it the one that is there stays: it was made
            from the same settings, by a process that was faster.
        """
        return write_run(run, self._place(run.key).parent, overwrite=overwrite)

    @property
    def checkpoints(self) -> Path:
        """Directory of the checkpoints of batches under way."""
        return ensure_directory(_own(self.directory / CHECKPOINTS))

    def set_aside(self, key: str, reason: str) -> Path:
        """Move a damaged run to ``damaged/``, with the reason beside it."""
        return set_aside(self._place(key), self.directory, reason)

    def tidy(self, keys: Iterable[str]) -> None:
        """Remove what a killed process left half written beside these runs.

        A run that it had moved aside, to put a new one in its place, is brought back.
        """
        shards = {self.path(key).parent for key in keys}
        for place in (self.directory, self.directory / CHECKPOINTS, *sorted(shards)):
            for path in abandoned(place) if is_own_directory(place) else []:
                with suppress(OSError):  # another process was faster
                    if place.parent == self.directory and place.name != CHECKPOINTS:
                        taken_back(path)
                    shutil.rmtree(path) if is_own_directory(path) else path.unlink()


def save_run(run: Run, directory: str | Path, *, overwrite: bool = False) -> Path:
    """Write one run into a directory of runs, which is created if it is missing.

    It lies where `load_runs`, `RunStore` and ``twoaxis runs`` look for it. Returns its path,
    for `load_run`.

    Parameters
    ----------
    run : Run
    directory : path
        As given to ``train(store=...)``.
    overwrite : bool
        Replace a run of the same key.

    Examples
    --------
    >>> import tempfile, twoaxis as ta
    >>> from twoaxis.runs import save_run
    >>> run = ta.train("burgers", datasets=8, steps=3, residual_points=50, progress=False)[0]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_run(run, folder)
    ...     print(sorted(each.suffix for each in path.iterdir()))
    ['.json', '.safetensors']
    """
    return RunStore(directory, create=True).save(run, overwrite=overwrite)


def set_aside(path: Path, directory: Path, reason: str) -> Path:
    """Move a file or directory of a store to ``damaged/``, under a name that is free.

    The reason often quotes the damaged file: it is written as a single line of plain characters.
    """
    home = ensure_directory(_own(directory / DAMAGED))
    for number in range(1, 10_000):
        place = home / f"{path.name}.{number}"
        try:
            place.mkdir()
        except FileExistsError:
            continue  # another one has this number
        try:
            (place / REASON).write_text(visible(reason) + "\n", "utf-8")
            path.rename(place / path.name)
        except OSError as error:
            shutil.rmtree(place, ignore_errors=True)
            if isinstance(error, FileNotFoundError):
                return home  # another process has set it aside already
            raise
        return place
    raise InputError(
        "fewer than 10,000 damaged copies of one run", f"{str(home)!r}", "look into that directory"
    )


def abandoned(place: Path) -> list[Path]:
    """Return temporary files in a directory that nobody has written to for long."""
    found = []
    for path in place.glob(f"{TEMPORARY}*"):
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime > ABANDONED_SECONDS:
                found.append(path)
    return found


def _shard(key: str) -> str:
    """Return two digits of the hash at the end of a key, so that no directory grows too large."""
    digits = key[-12:-10]
    return digits if set(digits) <= set("0123456789abcdef") and len(digits) == 2 else "00"


def _own(place: Path) -> Path:
    """Return a place in a store where a directory is, or can be made, and no link."""
    if os.path.lexists(place) and not is_own_directory(place):
        raise InputError(
            "a store with directories of its own",
            f"{str(place)!r}, which is a link or no directory",
            "move it away, or put the directory itself in its place",
        )
    return place


def _existing(directory: str | Path) -> Path:
    try:
        if isinstance(directory, (str, os.PathLike)) and Path(directory).is_dir():
            return Path(directory).resolve()
    except OSError:  # a name that no directory can have, or one that may not be looked at
        pass
    raise InputError(
        "a directory of runs", repr(str(directory)), "pass the one given to train(store=...)"
    )

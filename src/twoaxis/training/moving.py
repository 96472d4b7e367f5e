"""A complete run takes its place: at no moment is a sound one lost.

A run that is replaced changes places with the new one in a single step. Where the system cannot do
that, it waits in a temporary directory beside its place, under its own name: if the process is
killed before the new run is there, a store takes the old one back.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

from twoaxis.files import flush_directory, temporary_beside

# Of renameat2: paths begin in the current directory, and the two names change places.
AT_CURRENT_DIRECTORY = -100
EXCHANGE = 2


def is_own_directory(path: Path) -> bool:
    """Whether a directory lies at this very place, and no link to one."""
    return path.is_dir() and not path.is_symlink()


def remove(path: Path) -> None:
    """Remove a directory, or whatever else lies there."""
    if is_own_directory(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def put_in_place(whole: Path, target: Path, overwrite: bool) -> None:
    """Give a complete run its name; of two writers one is first, and the other's is dropped."""
    # A name that is free for the one step may be taken for the other: then the first works.
    tries = 2 if overwrite else 0
    done = any(exchange(whole, target) or _takes(whole, target) for _ in range(tries))
    if not done:
        aside = temporary_beside(target) / target.name if overwrite else None
        try:
            if aside is not None:
                aside.parent.mkdir()
            _rename(whole, target, aside)
        finally:
            if aside is not None and os.path.lexists(target):
                shutil.rmtree(aside.parent, ignore_errors=True)
            elif aside is not None:  # a run that could not be put back waits there
                with suppress(OSError):
                    aside.parent.rmdir()
    flush_directory(target.parent)


def _takes(whole: Path, target: Path) -> bool:
    """Take a free name, and say whether it was free."""
    if os.path.lexists(target):
        return False
    try:
        whole.rename(target)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            return False
        raise
    return True


def exchange(one: Path, other: Path) -> bool:
    """Let two names change places in one step, so that there is something under each all along.

    False tells that nothing was done: a name is missing, or the system or file system cannot.
    """
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, TypeError, AttributeError):  # not every system has it
        return False
    rename.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    here, there = os.fsencode(one), os.fsencode(other)
    return bool(rename(AT_CURRENT_DIRECTORY, here, AT_CURRENT_DIRECTORY, there, EXCHANGE) == 0)


def _rename(whole: Path, target: Path, aside: Path | None) -> None:
    """Move what is there aside, and a run to its place; a failure brings it back."""
    try:
        if aside is not None:
            with suppress(FileNotFoundError):  # nothing is there, or another writer was faster
                target.rename(aside)
        whole.rename(target)
    except BaseException as error:
        if not (isinstance(error, OSError) and error.errno in (errno.EEXIST, errno.ENOTEMPTY)):
            if aside is not None:
                with suppress(OSError):
                    aside.rename(target)
            raise

"""Files that are written completely or not at all."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable
from pathlib import Path

from twoaxis.errors import InputError, StorageError

TEMPORARY = ".twoaxis-"
# Errors of a disk that has no space for this user.
FULL = (errno.ENOSPC, errno.EDQUOT)


def ensure_writable(path: str | os.PathLike[str]) -> Path:
    """Return `path` if a file can be written there, and raise `InputError` otherwise.

    Call it before a long computation, so that its result is not lost at the end. The test writes
    a temporary file next to the target, since permission bits alone are not conclusive.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InputError("the path of a file to write", repr(path), "pass a file name")
    try:
        # A symbolic link stays one; its target is written.
        path = Path(path).resolve()
        if path.exists() and not path.is_file():
            kind = "directory" if path.is_dir() else "device or pipe"
            raise InputError(
                "a file name to write to",
                f"the {kind} {str(path)!r}",
                "name an ordinary file",
            )
        probe = temporary_beside(path)
        try:
            _create(probe)
        finally:
            probe.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise _refusal(
            error,
            path,
            "a place where a file can be written",
            "create the directory, or choose a path with write permission",
        ) from error
    return path


def _refusal(error: OSError | ValueError, path: object, expected: str, fix: str) -> Exception:
    """Return what to raise for a place that cannot be written: it is full, or it is none."""
    if isinstance(error, OSError) and error.errno in FULL:
        return StorageError.of(path, error)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return InputError(expected, f"{str(path)!r} ({reason})", fix)


def read_text(path: Path, most: int) -> str:
    """Return the text of a regular file of at most `most` bytes.

    A sparse file can claim terabytes, and a pipe has no end.

    Raises
    ------
    OSError, ValueError
        The file cannot be read, is not a regular file, is too large, or is not UTF-8.
    """
    if path.exists() and not path.is_file():
        raise ValueError("it is not a regular file")
    with path.open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it is larger than {most} bytes")
    return content.decode("utf-8")


def ensure_directory(path: str | os.PathLike[str]) -> Path:
    """Return `path` as a writable directory, created if it does not exist."""
    if not (isinstance(path, (str, os.PathLike)) and os.fspath(path)):
        raise InputError(
            "the path of a directory", repr(path), 'pass its name, or "." for the working directory'
        )
    try:
        directory = Path(path).resolve()
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise _refusal(
            error,
            path,
            "a directory that exists or can be created",
            "choose a path with write permission",
        ) from error
    ensure_writable(directory / f"{TEMPORARY}probe")
    return directory


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> Path:
    """Call ``write(temporary)``, then move the temporary file to `path`.

    A reader sees the old file or the new one, never a part. After a failure nothing is left.

    Raises
    ------
    InputError
        No file can be written there.
    StorageError
        The disk is full, or it failed.
    """
    path = ensure_writable(path)
    temporary = temporary_beside(path)
    try:
        _create(temporary)
        write(temporary)
        flush_file(temporary)
        if path.exists():  # the new file keeps the permissions of the old one
            temporary.chmod(path.stat().st_mode & 0o777)
        temporary.replace(path)
        flush_directory(path.parent)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise StorageError.of(path, error) from error
        raise
    return path


def flush_file(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def flush_directory(path: Path) -> None:
    """Wait until the entries of a directory are on the disk, where the system supports it."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # not every system opens directories
        return
    try:
        os.fsync(handle)
    except OSError:  # not every file system flushes them
        pass
    finally:
        os.close(handle)


def temporary_beside(path: Path) -> Path:
    """Return an unused name in the directory of `path`, without creating the file.

    The name is chosen first because a signal can end a process as soon as the file exists: the
    cleanup must know the name by then.
    """
    return path.with_name(f"{TEMPORARY}{uuid.uuid4().hex}{path.suffix}")


def _create(path: Path) -> None:
    """Create an empty file with a new name and the permissions of an ordinary open().

    `tempfile` restricts its files to their owner, and reading the umask of the process means
    changing it for a moment, which other threads would see.
    """
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))

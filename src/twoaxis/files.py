"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path

from twoaxis.errors import InputError

TEMPORARY = ".twoaxis-"


def ensure_writable(path: str | os.PathLike[str]) -> Path:
    """Return `path` if a file can be written there, or say now that it cannot.

    Called before long work starts, so that the work is not lost at its end. The test is a
    temporary file beside the target: permission bits alone tell too little.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InputError("the path of a file to write", repr(path), "pass a file name")
    try:
        # A link stays a link: its target is what gets written.
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
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(
            "a place where a file can be written",
            f"{str(path)!r} ({reason})",
            "create the directory first, or choose a path that you may write to",
        ) from error
    return path


def existing_netcdf(path: str | os.PathLike[str]) -> Path:
    """Return `path` if there is a file to read, or say that there is none."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError("the path of a netCDF file", repr(path), "pass a file name")
    path = Path(path)
    if not path.is_file():
        raise InputError("a netCDF file", f"no file at {str(path)!r}", "check the path")
    return path


def read_text(path: Path, most: int) -> str:
    """Return the text of a plain file of at most `most` bytes.

    A file can have a size of terabytes without any content, and a pipe has no end.

    Raises
    ------
    OSError, ValueError
        It cannot be read, is no plain file, larger than that, or not UTF-8.
    """
    if path.exists() and not path.is_file():
        raise ValueError("it is no plain file")
    with path.open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it is larger than {most} bytes")
    return content.decode("utf-8")


def ensure_directory(path: str | os.PathLike[str]) -> Path:
    """Return `path` as a directory in which files can be written, created where it is missing."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError("the path of a directory", repr(path), "pass a directory name")
    try:
        directory = Path(path).resolve()
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(
            "a directory that exists or can be made",
            f"{str(path)!r} ({reason})",
            "choose a path that you may write to",
        ) from error
    ensure_writable(directory / f"{TEMPORARY}probe")
    return directory


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> Path:
    """Call ``write(temporary)`` and move the temporary file to `path` when it is complete.

    A reader sees the old file or the new one, never a part; a failure leaves no trace.
    """
    path = ensure_writable(path)
    temporary = temporary_beside(path)
    try:
        _create(temporary)
        write(temporary)
        flush_file(temporary)
        if path.exists():  # what is replaced keeps its permissions
            temporary.chmod(path.stat().st_mode & 0o777)
        temporary.replace(path)
        flush_directory(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


def flush_file(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def flush_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk, where the system can."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # a directory cannot be opened on every system
        return
    try:
        os.fsync(handle)
    except OSError:  # nor flushed on every file system
        pass
    finally:
        os.close(handle)


def temporary_beside(path: Path) -> Path:
    """Return a name that nobody has, in the directory of `path`; nothing is made there yet.

    The name comes first because a signal can end a process as soon as the file is there: only
    one who knows its name by then can remove it.
    """
    return path.with_name(f"{TEMPORARY}{uuid.uuid4().hex}{path.suffix}")


def _create(path: Path) -> None:
    """Create an empty file of a new name, with the permissions of an ordinary open().

    tempfile keeps its files to their owner, and asking for the mask of the process changes it
    for a moment, under the feet of other threads.
    """
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))

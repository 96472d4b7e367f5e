"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from twoaxis.errors import InputError


def ensure_writable(path: str | os.PathLike[str]) -> Path:
    """Return `path` if a file can be written there, or say now that it cannot.

    Called before long work starts, so that the work is not lost at its end. The test is a
    temporary file beside the target: permission bits alone tell too little.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(
            "a file name to write to", f"the directory {str(path)!r}", "add a file name to it"
        )
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise InputError(
            "a place where a file can be written",
            f"{str(path)!r} ({error.strerror or error})",
            "create the directory first, or choose a path that you may write to",
        ) from error
    return path


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> Path:
    """Call ``write(temporary)`` and move the temporary file to `path` when it is complete.

    A reader sees the old file or the new one, never a part; a failure leaves no trace.
    """
    path = ensure_writable(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        # mkstemp makes the file private; give it the permissions an ordinary open() would.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path

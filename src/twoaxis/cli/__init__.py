"""The command line: parse, call the library, print. One command per file.

Nothing here imports the rest of the library before a command needs it: ``twoaxis --help`` loads
neither NumPy's relatives nor a plotting or training library.
"""

from __future__ import annotations

from twoaxis.cli import (  # noqa: F401  (each registers its command)
    audit,
    compare_methods,
    remedy,
    reproduce,
    resolve,
    runs,
    train,
)
from twoaxis.cli.app import main

__all__ = ["main"]

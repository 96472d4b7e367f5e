"""The command line: parse, call the library, print. One command a file."""

from __future__ import annotations

from twoaxis.cli import (  # noqa: F401  (each registers its command)
    audit,
    remedy,
    reproduce,
    resolve,
    runs,
    train,
)
from twoaxis.cli.app import main

__all__ = ["main"]

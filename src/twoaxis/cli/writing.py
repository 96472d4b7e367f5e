"""Results that leave the program: JSON, and the line that says where a file went."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from twoaxis.cli.app import err
from twoaxis.files import write_whole
from twoaxis.text import visible

JSON_HELP = "Write the numbers as JSON to this file; - is standard output, and then nothing else."
Json = Annotated[str | None, typer.Option("--json", metavar="FILE|-", help=JSON_HELP)]


def write_json(target: str, content: dict[str, Any]) -> None:
    """Write JSON to a file, or to standard output for ``-``."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        write_whole(target, lambda path: path.write_text(text))
        say_written(target)


def say_written(path: str | Path) -> None:
    """Say where a file went, on the error stream."""
    err.print(f"wrote {visible(path)}", highlight=False, markup=False, soft_wrap=True)

"""Options that several commands share, and how their values are read and checked."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from twoaxis.cli.app import print_written

# For help texts: importing the problems would load SciPy.
PROBLEM_NAMES = ("burgers", "buckley-leverett", "allen-cahn", "darcy")
METHOD_NAMES = (
    "adam",
    "pcgrad",
    "rba",
    "patch",
    "gaussian-64",
    "gaussian",
    "selector",
    "gauss-newton",
)
GAUSS_NEWTON_STEPS = 450
MOST_NUMBERS = 100_000
PAGES, FIGURES = (".html", ".htm"), (".png", ".pdf", ".svg")


class DeviceName(StrEnum):
    """Where the steps are computed."""

    auto = "auto"
    cpu = "cpu"
    gpu = "gpu"


class ConditionsName(StrEnum):
    """Whether initial and boundary conditions are built into the field."""

    soft = "soft"
    exact = "exact"
    layered = "layered"


Device = Annotated[DeviceName, typer.Option(help="auto uses a GPU if there is one.")]
Conditions = Annotated[
    ConditionsName | None,
    typer.Option(
        help="exact builds initial and boundary conditions into the field; layered also gives "
        "the network the variables of a jump in them.  "
        "[default: soft; gauss-newton layered, or exact where there is no jump]"
    ),
]
Method = Annotated[str, typer.Option(help=f"One of {', '.join(METHOD_NAMES)}.")]
Steps = Annotated[
    int | None,
    typer.Option(help=f"Optimizer steps.  [default: 5000; gauss-newton {GAUSS_NEWTON_STEPS}]"),
]
Json = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="FILE|-", help="Write the numbers as JSON; - is standard output only."
    ),
]


def parse_numbers(text: str, option: str, most: int = MOST_NUMBERS) -> list[int]:
    """Read ``8-11`` and ``8,9,12-14`` as a list of integers.

    >>> parse_numbers("8-10,12", "--layouts")
    [8, 9, 10, 12]
    """
    from twoaxis.errors import InputError

    fix = f"write {option} 8-11 or {option} 8,9,10"
    numbers: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.strip().partition("-")
            several = range(int(first), int(last if dash else first) + 1)
            if len(several) + len(numbers) > most:
                raise InputError(f"at most {most} numbers with {option}", repr(text), fix)
            numbers.extend(several)
    except InputError:
        raise
    except (ValueError, OverflowError):
        numbers = []
    if not numbers:
        raise InputError(f"integers and ascending ranges with {option}", repr(text), fix)
    return numbers


def check_suffix(path: Path, suffixes: tuple[str, ...], kind: str) -> Path:
    """Return `path` if its name ends in one of `suffixes`; `kind` is what the file holds."""
    from twoaxis.errors import InputError

    if path.suffix.lower() not in suffixes:
        raise InputError(
            f"a file name for the {kind} that ends in {' or '.join(suffixes)}",
            repr(str(path)),
            "change the file name",
        )
    return path


def check_writable(*targets: str | Path | None) -> None:
    """Find out before the work starts whether its results can be written, each to its own file.

    None and ``-`` (standard output) are no files.
    """
    from twoaxis.errors import InputError
    from twoaxis.files import ensure_writable

    paths = [ensure_writable(path) for path in targets if path is not None and str(path) != "-"]
    if twice := {path for path in paths if paths.count(path) > 1}:
        raise InputError("a different file for each output", f"{twice.pop()} twice", "rename one")


def write_json(target: str, content: dict[str, Any]) -> None:
    """Write JSON to a file, or to standard output for ``-``."""
    from twoaxis.files import write_whole

    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        print_written(write_whole(target, lambda path: path.write_text(text)))

"""The application: what all commands share, and what becomes of an error.

Exit codes: 0, done; 1, the work failed, or what is stored is damaged; 2, the input cannot be
used; 130, interrupted.

Whole numbers as people write them on a command line.

Text from files on its way to a terminal.

Results that leave the program: JSON, and the line that says where a file went.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.markup import escape

import twoaxis
from twoaxis.errors import InputError, LibraryWarning, WorkerError
from twoaxis.files import write_whole
from twoaxis.text import visible

MOST = 100_000


def parse_numbers(text: str, option: str, most: int = MOST) -> list[int]:
    """Read ``8-11`` and ``8,9,12-14`` as a list of numbers.

    >>> parse_numbers("8-10,12", "--layouts")
    [8, 9, 10, 12]
    """
    advice = f"write {option} 8-11 or {option} 8,9,10"
    numbers: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.strip().partition("-")
            several = range(int(first), int(last if dash else first) + 1)
            if len(several) + len(numbers) > most:
                raise InputError(f"at most {most} numbers with {option}", repr(text), advice)
            numbers.extend(several)
    except InputError:
        raise
    except (ValueError, OverflowError):
        numbers = []
    if not numbers:
        raise InputError(
            f"whole numbers and ranges with {option}, each range upwards", repr(text), advice
        )
    return numbers


def shown(text: Any, *, most: int | None = None, lines: bool = False) -> str:
    """Return a text that is printed as it is: neither markup, nor a command to the terminal.

    See `twoaxis.text.visible` for the options.
    """
    return escape(visible(text, most=most, lines=lines))


INTERRUPTED = 130

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Why did my inverse PINN return the wrong parameter? A two-axis diagnosis.",
)
# A colon is a colon: what files say must not turn into pictures.
out = Console(emoji=False)
err = Console(stderr=True, emoji=False)


def main() -> None:
    """Run the command line, and turn what may go wrong into a sentence and an exit code."""
    try:
        with _plain_warnings():
            code = app(standalone_mode=False) or 0
    except (InputError, WorkerError) as error:
        said = shown(error, lines=isinstance(error, WorkerError))  # which may quote a worker
        err.print(f"[bold red]error:[/] {said}", soft_wrap=True, highlight=False)
        sys.exit(2 if isinstance(error, InputError) else 1)
    except (KeyboardInterrupt, typer.Abort):
        _interrupted()
    except Exception as error:
        # The parser's own errors know how to show themselves; anything else is a defect.
        if not (hasattr(error, "show") and hasattr(error, "exit_code")):
            raise
        error.show()
        sys.exit(error.exit_code)

    if code == INTERRUPTED:  # the parser turns an interrupt into an exit code of its own
        _interrupted()
    sys.exit(code)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print doubts of the library's own as one line; others come with their place in the code."""
    with warnings.catch_warnings():
        with_place = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if not issubclass(category, LibraryWarning):
                with_place(message, category, filename, lineno, file, line)
                return
            err.print(f"[bold yellow]warning:[/] {shown(message)}", soft_wrap=True, highlight=False)

        warnings.showwarning = show
        yield


def _interrupted() -> None:
    err.print("interrupted; no file was left half written")
    sys.exit(INTERRUPTED)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"twoaxis {twoaxis.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Why did my inverse PINN return the wrong parameter? A two-axis diagnosis."""


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

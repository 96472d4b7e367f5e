"""The application: consoles, errors and exit codes.

Exit codes: 0, success; 1, the work failed, stored data are damaged or nobody reads what is printed;
2, the input cannot be used; 130, interrupted.
"""

from __future__ import annotations

import codecs
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

import twoaxis
from twoaxis.text import visible

INTERRUPTED = 130

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # joins the lines of a paragraph, and leaves brackets alone
    help="Why did my inverse PINN return the wrong parameter? A two-axis diagnosis.",
)
# A colon is a colon: names in files must not turn into emoji.
out = Console(emoji=False)
err = Console(stderr=True, emoji=False)


def main() -> None:
    """Run the command line; turn errors into one line and an exit code."""
    _print_everywhere()
    try:
        with _short_warnings():
            _refuse_empty(sys.argv[1:])
            code = app(standalone_mode=False) or 0
            sys.stdout.flush()  # here, where an error can be explained
    except (KeyboardInterrupt, typer.Abort):
        _interrupted()
    except Exception as error:
        sys.exit(_explained(error))
    if code == INTERRUPTED:  # the parser turns an interrupt into an exit code of its own
        _interrupted()
    sys.exit(code)


def _refuse_empty(arguments: list[str]) -> None:
    """Refuse an argument without a text: as a path it would be the working directory."""
    for before, text in pairwise(["twoaxis", *arguments]):
        option, equals, value = text.partition("=")
        if not text or (option.startswith("--") and equals and not value):
            from twoaxis.errors import InputError

            raise InputError(
                f"a text after {before if not text else option}",
                "an empty one",
                "fill it in, with . for the working directory, or leave the option out",
            )


def _explained(error: Exception) -> int:
    """Print what went wrong, and return the exit code; a defect keeps its traceback."""
    # The parser's own errors know how to show themselves.
    if hasattr(error, "show") and hasattr(error, "exit_code"):
        error.show()
        return int(error.exit_code)
    if isinstance(error, BrokenPipeError):  # as of head, which has read enough
        _print_nothing_more()
        return 1
    from twoaxis.errors import InputError, StorageError, WorkerError
    from twoaxis.files import FULL

    if isinstance(error, OSError) and error.errno in FULL:
        error = StorageError(error.filename or "the output", str(error.strerror))
        _print_nothing_more()
    if not isinstance(error, (InputError, StorageError, WorkerError)):
        raise error
    message = shown(error, lines=isinstance(error, WorkerError))  # which may quote a worker
    err.print(f"[bold red]error:[/] {message}", soft_wrap=True, highlight=False)
    return 2 if isinstance(error, InputError) else 1


def _print_nothing_more() -> None:
    """Drop what could not be printed: Python would try it again when it ends."""
    with suppress(OSError, ValueError):  # no file stands behind the stream
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupted() -> None:
    err.print("interrupted; no file was left half written")
    sys.exit(INTERRUPTED)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Print warnings of this library as one line; others keep their place in the code."""
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
            from twoaxis.errors import LibraryWarning

            if not issubclass(category, LibraryWarning):
                with_place(message, category, filename, lineno, file, line)
                return
            err.print(f"[bold yellow]warning:[/] {shown(message)}", soft_wrap=True, highlight=False)

        warnings.showwarning = show
        yield


# ------------------------------------------------------------------ text on a terminal

# What a terminal without Unicode shows in place of the typographic characters in our texts.
ASCII = {"\N{MINUS SIGN}": "-", "\N{EN DASH}": "-", "\xa0": " ", "\N{HORIZONTAL ELLIPSIS}": "..."}
ENCODING_ERRORS = "twoaxis.ascii"


def _print_everywhere() -> None:
    """Make printing safe on terminals whose encoding lacks some of our characters."""
    codecs.register_error(ENCODING_ERRORS, _ascii)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, as by >&-
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=ENCODING_ERRORS)


def _ascii(error: UnicodeError) -> tuple[str, int]:
    """Return characters that cannot be encoded as ASCII: a minus sign stays a minus sign."""
    assert isinstance(error, UnicodeEncodeError)
    missing = error.object[error.start : error.end]
    text = "".join(ASCII.get(c, c) for c in missing)
    return text.encode("ascii", "backslashreplace").decode(), error.end


def shown(text: Any, *, most: int | None = None, lines: bool = False) -> str:
    """Return a text that is printed as it is: neither markup, nor a command to the terminal.

    See `twoaxis.text.visible` for the options.
    """
    return escape(visible(text, most=most, lines=lines))


def print_result(result: Any, title: str = "") -> None:
    """Print a result as its ``repr`` shows it, below a title."""
    if title:
        out.print(f"\n[bold]{shown(title)}[/]", highlight=False)
    out.print(Text(visible(result, lines=True)), soft_wrap=True)


def print_written(*paths: str | Path) -> None:
    """Print where files went, to standard error."""
    for path in paths:
        name = relative(path)
        err.print(f"wrote {visible(name)}", highlight=False, markup=False, soft_wrap=True)


def relative(path: str | Path) -> Path:
    """Return a path relative to the working directory, where it lies below it."""
    here, path = Path.cwd(), Path(path)
    return path.relative_to(here) if path.is_relative_to(here) else path


# ------------------------------------------------------------------ options of no command


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"twoaxis {twoaxis.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Why did my inverse PINN return the wrong parameter? A two-axis diagnosis."""

"""The application: what all commands share, and what becomes of an error.

Exit codes: 0, done; 1, the work failed, or what is stored is damaged; 2, the input cannot be
used; 130, interrupted.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, TextIO

import typer
from rich.console import Console

import twoaxis
from twoaxis.cli.text import shown
from twoaxis.errors import InputError, LibraryWarning, WorkerError

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

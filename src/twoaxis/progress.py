"""A progress bar with the time left, on the error stream, for work that takes a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Advance(Protocol):
    """Moves a bar on."""

    def __call__(self, steps: int, note: str = "") -> None:
        """Move it on by `steps`, and say in a few words how the work stands."""
        ...


@contextmanager
def progress_bar(description: str, total: int | None, show: bool = True) -> Iterator[Advance]:
    """Yield a function that moves the bar on by a number of steps.

    Parameters
    ----------
    description : str
        What is being done.
    total : int, optional
        Number of steps; None where it is not known beforehand.
    show : bool
        False keeps quiet. Nothing is drawn either where the error stream is not a terminal.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    quiet = not (show and console.is_terminal)
    with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
        task = progress.add_task(description, total=total, note="")

        def advance(steps: int, note: str = "") -> None:
            progress.update(task, advance=steps, note=note)

        yield advance

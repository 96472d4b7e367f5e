"""Progress bars with the remaining time, on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
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
    """A function that advances a progress bar."""

    def __call__(self, steps: int, note: str = "") -> None:
        """Advance by `steps`, and show `note` next to the bar."""
        ...


class Bars:
    """Several bars at once, one below the other, advanced from any thread.

    Parameters
    ----------
    progress : rich.progress.Progress
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._stopped = Event()

    @contextmanager
    def bar(self, description: str, total: int | None) -> Iterator[Advance]:
        """Add a bar for as long as the context lasts; see `progress_bar`."""
        task = self._progress.add_task(description, total=total, note="")

        def advance(steps: int, note: str = "") -> None:
            if self._stopped.is_set():
                raise KeyboardInterrupt
            self._progress.update(task, advance=steps, note=note)

        try:
            yield advance
        finally:
            self._progress.refresh()  # draw the last state before the bar is removed
            self._progress.remove_task(task)

    def stop(self) -> None:
        """Interrupt the work behind every bar the next time it advances.

        A keyboard interrupt reaches the main thread only.
        """
        self._stopped.set()


@contextmanager
def progress_bars(show: bool = True) -> Iterator[Bars]:
    """Yield a group of bars; see `progress_bar` for `show`."""
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
        yield Bars(progress)


@contextmanager
def progress_bar(
    description: str, total: int | None, show: bool | Bars = True
) -> Iterator[Advance]:
    """Yield a function that advances the bar by a number of steps.

    Parameters
    ----------
    description : str
        What is being done.
    total : int, optional
        Number of steps; None if it is not known in advance.
    show : bool or Bars
        False draws nothing; neither does a standard error that is not a terminal. `Bars` adds
        this bar to others.
    """
    if isinstance(show, Bars):
        with show.bar(description, total) as advance:
            yield advance
    else:
        with progress_bars(show) as bars, bars.bar(description, total) as advance:
            yield advance

"""Progress bars with the remaining time, on standard error."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress


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
    rich = _rich_progress()
    console = rich.Console(stderr=True)
    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
        rich.TimeRemainingColumn(),
        rich.TextColumn("{task.fields[note]}"),
    )
    quiet = not (show and console.is_terminal)
    with rich.Progress(*columns, console=console, transient=True, disable=quiet) as progress:
        yield Bars(progress)


def _rich_progress() -> Any:
    """Import rich when a bar is needed; it draws a random number, which is undone.

    A user who has seeded Python's random numbers gets the same sequence with and without a bar.
    """
    state = random.getstate()
    try:
        return importlib.import_module("rich.progress")
    finally:
        random.setstate(state)


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

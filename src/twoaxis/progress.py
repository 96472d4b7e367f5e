"""Progress with the remaining time, on standard error: bars, or lines where bars cannot be drawn.

On a terminal, and in a notebook that has ipywidgets, there are bars. Elsewhere (a batch job, a
log file, a notebook without widgets) a line is written now and then, and only for work that takes
longer than a few seconds.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress

# Seconds of work before the first line, and between lines.
FIRST_LINE = 5.0
NEXT_LINE = 30.0


class Advance(Protocol):
    """A function that advances a progress bar."""

    def __call__(self, steps: int, note: str = "") -> None:
        """Advance by `steps`, and show `note` next to the bar."""
        ...


class Display(Protocol):
    """Where several tasks are shown."""

    def add(self, description: str, total: int | None) -> Any:
        """Show another task, and return what names it."""
        ...

    def update(self, task: Any, steps: int, note: str) -> None:
        """Advance a task; may be called from any thread."""
        ...

    def remove(self, task: Any) -> None:
        """Show a task no longer."""
        ...


class RichDisplay:
    """Bars of rich, one below the other."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def add(self, description: str, total: int | None) -> Any:
        """Add a bar."""
        return self._progress.add_task(description, total=total, note="")

    def update(self, task: Any, steps: int, note: str) -> None:
        """Advance a bar."""
        self._progress.update(task, advance=steps, note=note)

    def remove(self, task: Any) -> None:
        """Draw the last state of a bar and remove it."""
        self._progress.refresh()
        self._progress.remove_task(task)


class LineDisplay:
    """A line on standard error for each task, now and then.

    The first comes after `FIRST_LINE` seconds, and another whenever a task advances and the last
    line is `NEXT_LINE` seconds old. A task that had a line gets one when it ends.
    """

    def __init__(self) -> None:
        self._lock = Lock()

    def add(self, description: str, total: int | None) -> Any:
        """Start a task."""
        now = time.monotonic()
        return {"what": description, "total": total, "done": 0, "start": now, "last": None}

    def update(self, task: Any, steps: int, note: str) -> None:
        """Advance a task, and write a line where one is due."""
        with self._lock:
            task["done"] += steps
            now = time.monotonic()
            due = task["start"] + FIRST_LINE if task["last"] is None else task["last"] + NEXT_LINE
            if now >= due:
                task["last"] = now
                self._write(_line(task, now, note))

    def remove(self, task: Any) -> None:
        """End a task."""
        if task["last"] is not None:
            elapsed = time.monotonic() - task["start"]
            self._write(f"{task['what']}: finished after {clock(elapsed)}")

    def _write(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


def _line(task: dict[str, Any], now: float, note: str) -> str:
    done, total, elapsed = task["done"], task["total"], now - task["start"]
    parts = [f"{done}/{'?' if total is None else total}", f"{clock(elapsed)} elapsed"]
    if total is not None and done:
        parts.append(f"about {clock(elapsed * max(total - done, 0) / done)} left")
    return f"{task['what']}: {', '.join(parts)}{f' ({note})' if note else ''}"


def clock(seconds: float) -> str:
    """Return hours, minutes and seconds, as the bars show them."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}"


class Bars:
    """Several tasks at once, advanced from any thread.

    Parameters
    ----------
    display : Display, optional
        Where they are shown; nowhere by default.
    """

    def __init__(self, display: Display | None = None) -> None:
        self._display = display
        self._stopped = Event()

    @contextmanager
    def bar(self, description: str, total: int | None) -> Iterator[Advance]:
        """Add a bar for as long as the context lasts; see `progress_bar`."""
        display = self._display
        task = None if display is None else display.add(description, total)

        def advance(steps: int, note: str = "") -> None:
            if self._stopped.is_set():
                raise KeyboardInterrupt
            if display is not None:
                display.update(task, steps, note)

        try:
            yield advance
        finally:
            if display is not None:
                display.remove(task)

    def stop(self) -> None:
        """Interrupt the work behind every bar the next time it advances.

        A keyboard interrupt reaches the main thread only.
        """
        self._stopped.set()


@contextmanager
def progress_bars(show: bool = True) -> Iterator[Bars]:
    """Yield a group of bars; see `progress_bar` for `show`."""
    if not show:
        yield Bars()
        return
    rich = _rich_progress()
    console = rich.Console(stderr=True)
    widgets = console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
    if not (console.is_terminal or widgets):
        yield Bars(LineDisplay())
        return
    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
        rich.TimeRemainingColumn(),
        rich.TextColumn("{task.fields[note]}"),
    )
    with rich.Progress(*columns, console=console, transient=True) as progress:
        yield Bars(RichDisplay(progress))


def announce(text: str, show: bool) -> None:
    """Say on standard error what is coming, where progress is shown."""
    if show:
        print(text, file=sys.stderr, flush=True)


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
        False shows nothing. True draws a bar where that is possible, and else writes lines for
        work that takes longer than a few seconds. `Bars` adds this bar to others.
    """
    if isinstance(show, Bars):
        with show.bar(description, total) as advance:
            yield advance
    else:
        with progress_bars(show) as bars, bars.bar(description, total) as advance:
            yield advance

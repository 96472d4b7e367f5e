"""What every engine is: something that executes tasks somewhere. The simplest one does it here."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, final

from twoaxis.runs.run import Run
from twoaxis.runs.task import Report, Task, Work
from twoaxis.training.backends import Device, JaxDevice, find_device


@dataclass(frozen=True)
class Outcome:
    """What became of a task.

    Attributes
    ----------
    number : int
        Of the task.
    runs : tuple of Run
        Its runs, where there is no store that holds them.
    worker : str
        Host and process that executed it.
    attempts : int
        How often it was begun.
    failure : str
        Why it failed, as one line; empty if it did not.
    error : BaseException, optional
        What was raised.
    """

    number: int
    runs: tuple[Run, ...] = ()
    worker: str = ""
    attempts: int = 1
    failure: str = ""
    error: BaseException | None = None


class Engine(Protocol):
    """Executes tasks somewhere."""

    def describe(self) -> str:
        """Return a few words for the terminal."""
        ...

    def execute(self, tasks: Sequence[Task], work: Work, report: Report) -> Iterator[Outcome]:
        """Yield an outcome for every task, in the order in which they end.

        ``report(steps, note)`` counts steps over all runs. Whatever a task raises is its
        outcome. Closing the iterator, or an interrupt, stops everything: tasks that wait are
        dropped, and those under way are left to their checkpoints.
        """
        ...


def reason(error: BaseException) -> str:
    """Return an error as one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    plain = type(error).__name__ in ("InputError", "StorageError", "WorkerError")
    return text if plain else f"{type(error).__name__}: {text}"


def this_process() -> str:
    """Return host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


@final
@dataclass(frozen=True)
class InProcess:
    """One task after the other in this process: what every other engine is compared with.

    Parameters
    ----------
    device : {"auto", "cpu", "gpu"}
    """

    device: Device = "auto"

    def describe(self) -> str:
        """Return the device."""
        found = find_device(self.device)
        return f"{found.platform} ({found.device_kind})"

    def execute(self, tasks: Sequence[Task], work: Work, report: Report) -> Iterator[Outcome]:
        """Execute the tasks in their order."""
        backend = JaxDevice(find_device(self.device))
        for task in tasks:
            try:
                yield Outcome(task.number, work(task, backend, report), this_process())
            except Exception as error:  # whatever goes wrong in a task is a row of the table
                yield Outcome(task.number, failure=reason(error), error=error)

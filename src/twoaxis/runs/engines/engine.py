"""What every engine is: something that executes tasks, and tells how it goes.

One task after the other, in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, final

from twoaxis.runs.task import Task

Work = Callable[[Task], str]

# How often a task is begun at most. A task that fails by itself is not repeated: it would fail
# again. One whose worker died may only have been unlucky.
ATTEMPTS = 4


@dataclass(frozen=True)
class Standing:
    """How a sweep stands: what a progress bar shows."""

    workers: int
    done: int
    running: int
    failed: int


@dataclass(frozen=True)
class Result:
    """What became of a task.

    Attributes
    ----------
    number : int
        Of the task.
    worker : str
        Who did it, or tried last.
    attempts : int
        How often it was begun.
    failure : str
        Why it failed; empty where it did not.
    """

    number: int
    worker: str = ""
    attempts: int = 1
    failure: str = ""


class Engine(Protocol):
    """Executes tasks somewhere."""

    def describe(self) -> str:
        """Return a few words for the terminal."""
        ...

    def execute(
        self, tasks: Sequence[Task], work: Work, report: Callable[[Standing], None]
    ) -> Iterator[Result]:
        """Yield a result for every task as it comes.

        An interrupt stops all of it: tasks that wait are dropped, and those on their way are
        left to their checkpoints.
        """
        ...


def reason(error: BaseException) -> str:
    """Return an error as one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if type(error).__name__ == "InputError" else f"{type(error).__name__}: {text}"


@final
class InProcess:
    """No workers at all: simple to debug, and what every other engine is compared with."""

    def describe(self) -> str:
        """Return a few words for the terminal."""
        return "this process"

    def execute(
        self, tasks: Sequence[Task], work: Work, report: Callable[[Standing], None]
    ) -> Iterator[Result]:
        """Execute the tasks in their order."""
        failed = 0
        for done, task in enumerate(tasks):
            report(Standing(1, done - failed, 1, failed))
            try:
                result = Result(task.number, work(task))
            except Exception as error:  # whatever went wrong in a task is a row of the table
                failed += 1
                result = Result(task.number, failure=reason(error))
            yield result
            report(Standing(1, done + 1 - failed, 0, failed))

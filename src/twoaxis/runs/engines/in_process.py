"""One task after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import final

from twoaxis.runs.engines.engine import Result, Standing, Work, reason
from twoaxis.runs.task import Task


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

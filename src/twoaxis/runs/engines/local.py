"""Processes on this machine, one single-threaded worker per core.

Small networks gain nothing from a second thread, and everything from a second process. Each task
is prepared, watched and stored by a thread of this process, and its steps are computed by a
`WorkerProcess`: this process keeps the states, so a worker that is killed costs one chunk of steps.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from queue import SimpleQueue
from typing import final

from twoaxis.arrays import is_integer
from twoaxis.errors import InputError, WorkerError
from twoaxis.runs.engines.engine import Outcome, reason
from twoaxis.runs.run import Run
from twoaxis.runs.task import Report, Task, Work
from twoaxis.training.backends import Programs, WorkerProcess, cores

# Seconds after which a wait looks for interrupts.
LOOK = 0.2


@final
@dataclass(frozen=True)
class Local:
    """Several worker processes of one thread each.

    Parameters
    ----------
    workers : int, optional
        One per core without it.
    """

    workers: int | None = None

    def __post_init__(self) -> None:
        check_workers(self.workers)

    def describe(self) -> str:
        """Return how many there are."""
        return f"{self.workers or cores()} single-threaded processes"

    def execute(self, tasks: Sequence[Task], work: Work, report: Report) -> Iterator[Outcome]:
        """Execute the tasks; whoever is free takes the next one."""
        programs, free = Programs(), SimpleQueue[WorkerProcess]()
        workers = [WorkerProcess(programs) for _ in range(min(self.workers or cores(), len(tasks)))]
        for worker in workers:
            free.put(worker)

        def executed(task: Task) -> Outcome:
            worker = free.get()
            before = worker.deaths
            runs: tuple[Run, ...] = ()
            raised: Exception | None = None
            try:
                runs = work(task, worker, report)
            except Exception as error:  # whatever goes wrong in a task is a row of the table
                raised = error
            finally:
                free.put(worker)
            deaths = worker.deaths - before
            attempts = deaths if isinstance(raised, WorkerError) else deaths + 1
            name = f"{socket.gethostname()}:{worker.pid}"
            failure = "" if raised is None else reason(raised)
            return Outcome(task.number, runs, name, attempts, failure, raised)

        threads = ThreadPoolExecutor(len(workers))
        try:
            for future in _ended([threads.submit(executed, task) for task in tasks]):
                yield future.result()
        finally:
            # Without workers, the tasks under way write their checkpoints and end.
            for worker in workers:
                worker.close()
            threads.shutdown(cancel_futures=True)
            for worker in workers:
                worker.release()


def _ended(futures: Iterable[Future[Outcome]]) -> Iterator[Future[Outcome]]:
    """Yield what has ended, and notice an interrupt from the keyboard meanwhile.

    The system may hand it to a thread that just starts a worker. Python raises it in the main
    thread, which would sleep on.
    """
    under_way = set(futures)
    while under_way:
        done, under_way = wait(under_way, LOOK, FIRST_COMPLETED)
        yield from done


def check_workers(workers: int | None) -> None:
    """Refuse a number of workers that is not a positive integer."""
    if workers is not None and not (is_integer(workers) and workers >= 1):
        raise InputError(
            "an integer of at least 1 as workers",
            f"workers={workers!r}",
            'pass workers=2, or engine="in-process" for none',
        )

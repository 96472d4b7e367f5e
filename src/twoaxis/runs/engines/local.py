"""Processes on this machine, one single-threaded worker a core.

Small networks gain nothing from a second thread, and everything from a second process. A worker
that dies (killed, out of memory) takes its task with it; the task is begun again elsewhere, and
how often is counted.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from typing import final

from twoaxis.errors import InputError
from twoaxis.runs.engines.engine import ATTEMPTS, Result, Standing, Work, reason
from twoaxis.runs.task import Task
from twoaxis.training.backends import ONE_THREAD, cores

WORKER = ONE_THREAD | {"OPENBLAS_NUM_THREADS": "1"}
# How often a task is begun beside others. A worker that dies ends all of them; the task that
# kills its worker each time is found by beginning each of them alone.
SHARED_ATTEMPTS = 2


@final
@dataclass(frozen=True)
class Local:
    """So many processes of one thread each.

    Parameters
    ----------
    workers : int, optional
        As many as there are cores without it.
    """

    workers: int | None = None

    def __post_init__(self) -> None:
        check_workers(self.workers)

    @property
    def count(self) -> int:
        """How many workers there are."""
        return self.workers or cores()

    def describe(self) -> str:
        """Return a few words for the terminal."""
        return f"{self.count} single-threaded processes"

    def execute(
        self, tasks: Sequence[Task], work: Work, report: Callable[[Standing], None]
    ) -> Iterator[Result]:
        """Execute the tasks, whoever is free takes the next one."""
        return _Execution(tasks, work, report, min(self.count, len(tasks))).results()


class _Execution:
    """Tasks on their way through a pool, which is made anew when a worker dies."""

    def __init__(
        self,
        tasks: Sequence[Task],
        work: Work,
        report: Callable[[Standing], None],
        workers: int,
    ) -> None:
        self._waiting = list(reversed(tasks))
        self._attempts = dict.fromkeys((task.number for task in tasks), 0)
        self._work, self._report, self._workers = work, report, workers
        self._running: dict[Future[str], Task] = {}
        self._done = self._failed = 0

    def results(self) -> Iterator[Result]:
        while self._waiting:
            pool = ProcessPoolExecutor(
                self._workers, multiprocessing.get_context("spawn"), initializer=_one_thread
            )
            try:
                yield from self._through(pool)
            finally:
                _end(pool)

    def _through(self, pool: ProcessPoolExecutor) -> Iterator[Result]:
        """Yield results until all tasks are done or the pool is broken."""
        # No more tasks than workers are handed over: those are the ones that a death can hit.
        while self._waiting or self._running:
            if not self._handed_over(pool):
                yield from self._again()
                return
            self._tell()
            finished, _ = wait(self._running, return_when=FIRST_COMPLETED)
            broken = False
            for future in finished:
                task = self._running.pop(future)
                result = self._result(future, task)
                broken = broken or isinstance(future.exception(), BrokenProcessPool)
                if result is not None:
                    self._done += not result.failure
                    self._failed += bool(result.failure)
                    yield result
            self._tell()
            if broken:
                yield from self._again()
                return

    def _handed_over(self, pool: ProcessPoolExecutor) -> bool:
        """Hand over as many tasks as can start now; False when the pool is found broken."""
        while self._waiting and self._room():
            task = self._waiting[-1]
            try:
                with interrupts_held():  # a worker is started here
                    future = pool.submit(_executed, self._work, task)
            except BrokenProcessPool:  # a worker died while it had nothing to do
                return False
            self._waiting.pop()
            self._attempts[task.number] += 1
            self._running[future] = task
        return True

    def _room(self) -> bool:
        """Whether the next task can start beside those that run."""
        alone = self._attempts[self._waiting[-1].number] >= SHARED_ATTEMPTS or any(
            self._attempts[task.number] > SHARED_ATTEMPTS for task in self._running.values()
        )
        return not self._running if alone else len(self._running) < self._workers

    def _again(self) -> Iterator[Result]:
        """Take back what the broken pool had: a worker that dies ends the others, too."""
        for future, task in list(self._running.items()):
            result = self._result(future, task)
            if result is not None:
                self._done += not result.failure
                self._failed += bool(result.failure)
                yield result
        self._running.clear()

    def _result(self, future: Future[str], task: Task) -> Result | None:
        """Return what became of a task, or None where it is begun again."""
        attempts = self._attempts[task.number]
        error = future.exception()
        if error is None:
            return Result(task.number, future.result(), attempts)
        if not isinstance(error, BrokenProcessPool):
            return Result(task.number, attempts=attempts, failure=reason(error))
        if attempts < ATTEMPTS:
            self._waiting.append(task)
            return None
        return Result(task.number, attempts=attempts, failure=f"its worker ended {attempts} times")

    def _tell(self) -> None:
        self._report(Standing(self._workers, self._done, len(self._running), self._failed))


def check_workers(workers: int | None) -> None:
    """Refuse a number of workers that is none."""
    if workers is not None and (
        not isinstance(workers, int) or isinstance(workers, bool) or workers < 1
    ):
        raise InputError("at least one worker", f"workers={workers!r}", "pass workers=2")


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold an interrupt from the keyboard back until the end of the context.

    Processes and threads that start in it never get one: a terminal interrupts all processes
    at once, and the parent alone decides what follows.
    """
    if not hasattr(signal, "pthread_sigmask"):  # not on every system
        yield
        return
    # Python's own helper process lets interrupts through again when it is started later.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _one_thread() -> None:
    """Keep a worker to one thread, and leave an interrupt from the keyboard to the parent."""
    os.environ.update(WORKER)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where it was not held
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _executed(work: Work, task: Task) -> str:
    """Execute a task; a worker that is told to end removes what it was writing, and ends."""
    signal.signal(signal.SIGTERM, _leave)
    try:
        return work(task)
    except SystemExit:
        os._exit(1)
    finally:
        # Without a task it ends on the spot: on its way out through the queue it would let
        # another worker read the rest of half a message.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end_with_parent() -> None:
    """End this worker when its parent was killed: nobody would hand it a task any more."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _end(pool: ProcessPoolExecutor) -> None:
    """End the workers at once: what they hold is in the store, or is made again."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(5)
        if process.is_alive():
            process.kill()

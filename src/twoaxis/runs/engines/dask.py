"""Dask distributed: the same tasks on any cluster.

The scheduler hands out tasks, the workers train them into a store that all of them see, and what
travels is small. GPU workers announce a resource named ``GPU`` and take large batches. A worker
that dies is the scheduler's business; a scheduler that goes away is waited for, and whatever was
not done is submitted again. A worker that no longer answers is told of, and work that all workers
have left ends.

Without a scheduler, a cluster is started on this machine for as long as the work takes. Dask
restarts a worker that dies at its work, but it loses one that dies while it starts, and waits
without end for one that never gets ready. Here the first is replaced, the second given up, and
an interrupt finds workers that can be ended, whatever they are doing.

Whoever can talk to a scheduler or a worker can run code as the user who started it, and every user
of a machine reaches its ports. The cluster that is started here talks to holders of a certificate
alone, which is made for it and never leaves its processes.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import platform
import signal
import socket
import tempfile
import time
import uuid
import warnings
from asyncio import CancelledError
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError as FutureCancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from multiprocessing import resource_tracker
from typing import Any, ClassVar, final

import dask
from distributed import Client, LocalCluster, as_completed
from distributed.comm.core import CommClosedError, FatalCommClosedError
from distributed.core import Status
from distributed.scheduler import KilledWorker
from distributed.security import Security

from twoaxis.errors import InputError, WorkerError, WorkerWarning, needs_extra
from twoaxis.runs.engines.engine import Outcome, reason, this_process
from twoaxis.runs.engines.local import check_workers
from twoaxis.runs.task import Report, Task, Work
from twoaxis.training.backends import ATTEMPTS, cores, one_thread
from twoaxis.version import __version__

# Variables that workers start with; None takes one away.
BEFORE_START = "distributed.nanny.pre-spawn-environ"
# Dask asks for memory to be given back at once. A training takes and frees the same arrays at every
# step, and runs at half its speed then.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": None}
# Dask serves HTTP in any case, without TLS: then nothing is behind it.
NO_PAGES: dict[str, list[str]] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


def temporary_security() -> Security:
    """Return credentials that whoever connects must have: a new key and its certificate."""
    with needs_extra("dask", 'engine="dask" without a scheduler'):
        importlib.import_module("cryptography")
    return Security.temporary()


@contextmanager
def own_cluster(count: int, gpu: bool, patience: float, security: Security) -> Iterator[str]:
    """Yield the address of a scheduler with `count` workers, or with those that could start.

    Parameters
    ----------
    count : int
    gpu : bool
        Whether the workers announce a resource ``GPU``.
    patience : float
        Seconds within which workers must be ready.
    security : Security
        Credentials of the scheduler, of its workers and of those who may connect.
    """
    # A worker may be started again at any time, so the settings stay for as long as the cluster.
    known = dask.config.get(BEFORE_START)
    place = dask.config.get("temporary-directory", None)
    with (
        dask.config.set({BEFORE_START: {**known, **KEEP_MEMORY}, **NO_PAGES}),
        # Workers unpickle what they have put there: nobody else may write to it.
        tempfile.TemporaryDirectory(
            prefix="twoaxis-dask-", dir=place, ignore_cleanup_errors=True
        ) as scratch,
    ):
        yield from _running_cluster(count, gpu, patience, security, scratch)


def _running_cluster(
    count: int, gpu: bool, patience: float, security: Security, scratch: str
) -> Iterator[str]:
    with interrupts_held():  # for the thread that starts the workers, now and later
        cluster = LocalCluster(
            n_workers=0,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            security=security,
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            local_directory=scratch,
            memory_limit="auto",
            env=one_thread() | {"OPENBLAS_NUM_THREADS": "1"},
            resources={"GPU": 1} if gpu else {},
            # A busy worker calls it an error that the scheduler was ended, and a scheduler that a
            # worker died. Whatever matters comes back as a result.
            silence_logs=logging.CRITICAL,
        )
    with cluster:
        if not cluster.sync(_staffed, cluster, count, patience):
            raise WorkerError(
                f"none of {count} Dask workers on this machine was ready within {patience:g} "
                "seconds: they ended, or stood still"
            )
        yield cluster.scheduler_address


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


async def _staffed(cluster: Any, count: int, patience: float) -> int:
    """Start workers, and return how many there are: `count`, or fewer when time runs out."""
    deadline = time.monotonic() + patience
    while len(cluster.worker_spec) < count and time.monotonic() < deadline:
        while len(cluster.worker_spec) < count:
            cluster.worker_spec.update(cluster.new_worker_spec())
        await _started(cluster, deadline)
        for name, worker in list(cluster.workers.items()):
            if not worker.is_alive():
                del cluster.workers[name], cluster.worker_spec[name]
                await worker.close()
    return len(cluster.worker_spec)


async def _started(cluster: Any, deadline: float) -> None:
    """Start the workers that are missing; those that are not ready in time are killed."""
    start = asyncio.ensure_future(cluster)
    # A worker that did not start is seen later, and here no reason to complain.
    start.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        await asyncio.wait({start}, timeout=deadline - time.monotonic())
    finally:
        # An interrupt leads here, too: Dask cannot end a cluster with workers half started.
        for worker in cluster._created:
            if worker.status in (Status.init, Status.starting) and worker.is_alive():
                worker.process.process.kill()
    await asyncio.wait({start})


# Seconds before a client that was cut off tries again.
RETRY = 0.5
# Seconds after which a wait looks for results, and asks whether the workers answer.
LOOK, ASK = 0.1, 5.0
# Seconds without an answer after which a worker is told of. They answer every few seconds.
SILENCE = 30.0
# What a lost scheduler looks like from here.
GONE = (CommClosedError, CancelledError, FutureCancelledError, OSError, TimeoutError)


@final
@dataclass(frozen=True)
class Dask:
    """A Dask cluster.

    Parameters
    ----------
    scheduler : str, optional
        Its address, such as ``tls://host:8786``; without it a cluster on this machine is
        started, with one worker per core.
    workers : int, optional
        Of the cluster on this machine.
    gpu : bool
        Hand tasks only to workers with a free resource ``GPU``.
    patience : float
        Seconds to wait for a scheduler that is not there, or not any more, for the workers of a
        cluster on this machine, and for another worker after all have left.
    security : distributed.Security, optional
        Credentials. Without them, those of Dask's own configuration for a scheduler that is there,
        and new ones, which nobody else has, for a cluster on this machine.

    Examples
    --------
    >>> from twoaxis.runs.engines.dask import Dask
    >>> engine = Dask("tls://head:8786")  # for ta.train(..., store="/shared/runs", engine=engine)
    >>> engine.scheduler, engine.gpu
    ('tls://head:8786', False)
    """

    needs_store: ClassVar[bool] = True  # runs stay where they were trained

    scheduler: str | None = None
    workers: int | None = None
    gpu: bool = False
    patience: float = 60.0
    security: Security | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_workers(self.workers)
        if self.security is not None and not isinstance(self.security, Security):
            raise InputError(
                "credentials as a distributed.Security",
                f"security={type(self.security).__name__}",
                "pass distributed.Security(tls_ca_file=..., tls_client_cert=..., ...), or nothing",
            )

    def describe(self) -> str:
        """Return a few words for the terminal."""
        where = self.scheduler or f"{self.workers or cores()} workers on this machine"
        return f"Dask, {where}"

    def execute(self, tasks: Sequence[Task], work: Work, report: Report) -> Iterator[Outcome]:
        """Execute the tasks on the cluster."""
        with ExitStack() as stack:
            security = self.security
            if self.scheduler is None:
                security = security or temporary_security()
                own = own_cluster(self.workers or cores(), self.gpu, self.patience, security)
                address = stack.enter_context(own)
            else:
                address = self.scheduler
            waiting = {task.number: task for task in tasks}
            standing = _State(waiting, work, report, self.gpu, self.scheduler, self.patience)
            while standing.waiting:
                try:
                    with _connected(address, self.patience, security) as client:
                        _check_versions(client)
                        yield from standing.through(client)
                except GONE as error:
                    # Everything that was done is in the store and off the list.
                    standing.interruptions += 1
                    if standing.interruptions >= ATTEMPTS:
                        raise WorkerError(
                            f"the scheduler at {address} went away {standing.interruptions} "
                            f"times; what was done is stored ({reason(error)})"
                        ) from error


@dataclass
class _State:
    """Tasks that are still to be done, whatever becomes of the scheduler."""

    waiting: dict[int, Task]
    work: Work
    report: Report
    gpu: bool
    scheduler: str | None = None
    patience: float = 60.0
    done: int = 0
    failed: int = 0
    interruptions: int = 0
    attempts: dict[int, int] = field(default_factory=dict)
    reported: float = 0.0
    note: str = ""
    asked: float = 0.0
    silent: set[str] = field(default_factory=set)
    staffed: bool = False
    empty_since: float | None = None
    empty_told: bool = False

    def through(self, client: Any) -> Iterator[Outcome]:
        """Yield results until all is done; raise one of `GONE` when the scheduler is lost."""
        self.empty_since = None  # another scheduler's workers need their time, too
        futures = {self._submit(client, task): task for task in self.waiting.values()}
        try:
            self._report(client, force=True)
            completed = as_completed(list(futures), loop=client.loop)
            while not completed.is_empty():
                self._wait(client, completed)
                future = next(completed)
                task = futures[future]
                result = self._result(client, future, task)
                if result is None:
                    again = self._submit(client, task)
                    futures[again] = task
                    completed.add(again)
                    continue
                del self.waiting[task.number]
                self.done += not result.failure
                self.failed += bool(result.failure)
                self._report(client, task, force=not self.waiting)
                yield result
        finally:
            with suppress(*GONE):
                client.cancel(list(futures), force=True)

    def _wait(self, client: Any, completed: Any) -> None:
        """Wait until a task has ended; meanwhile ask whether the workers answer."""
        while True:
            if time.monotonic() - self.asked >= ASK:
                self._ask(client)
                self.asked = time.monotonic()
            if completed.has_ready():
                return
            time.sleep(LOOK)

    def _ask(self, client: Any) -> None:
        """Tell of workers that do not answer, and end where none is left and none comes."""
        silences: dict[str, float] = client.run_on_scheduler(_silences, gpu=self.gpu)
        before, self.silent = self.silent, {w for w, s in silences.items() if s >= SILENCE}
        if fresh := sorted(self.silent - before):
            processing = client.processing()
            held = sum(len(processing.get(worker, ())) for worker in fresh)
            _warn(
                f"no answer for {min(silences[worker] for worker in fresh):.0f} seconds from "
                f"{', '.join(fresh)}, with {held} tasks; {len(silences) - len(self.silent)} of "
                f"{len(silences)} Dask workers answer. The tasks wait for it, or begin elsewhere "
                "once its process is ended or the scheduler gives it up "
                "(distributed.scheduler.worker-ttl)"
            )
        self._check_staff(len(silences))
        self._report(client)

    def _check_staff(self, workers: int) -> None:
        """Raise `WorkerError` where all workers have been gone for too long; tell before."""
        now = time.monotonic()
        if workers:
            self.staffed, self.empty_since, self.empty_told = True, None, False
            return
        self.empty_since = now if self.empty_since is None else self.empty_since
        empty = now - self.empty_since
        kind = "Dask worker with a resource GPU" if self.gpu else "Dask worker"
        start = f"start one with dask worker {self.scheduler}{' --resources GPU=1' * self.gpu}"
        if self.staffed and empty >= self.patience:
            again = f"{start}, and repeat the call" if self.scheduler else "repeat the call"
            raise WorkerError(
                f"no {kind} is left, and none came within {self.patience:g} seconds; what was done "
                f"is stored: {again}"
            )
        if empty >= SILENCE and not self.empty_told:
            self.empty_told = True
            _warn(
                f"no {kind} has been there for {empty:.0f} seconds"
                f"{f'; {start}' if self.scheduler else ''}"
            )

    def _submit(self, client: Any, task: Task) -> Any:
        self.attempts[task.number] = self.attempts.get(task.number, 0) + 1
        return client.submit(
            _executed,
            self.work,
            task,
            versions(),
            key=f"twoaxis-{task.number}-{uuid.uuid4().hex}",
            pure=False,
            resources={"GPU": 1} if self.gpu else None,
        )

    def _result(self, client: Any, future: Any, task: Task) -> Outcome | None:
        """Return what became of a task, or None where it is begun again."""
        attempts = self.attempts[task.number] + _deaths(client, future.key)
        error = future.exception()
        if error is None:
            return Outcome(task.number, worker=future.result(), attempts=attempts)
        if isinstance(error, GONE):
            raise error
        if not isinstance(error, KilledWorker):
            return Outcome(task.number, attempts=attempts, failure=reason(error), error=error)
        attempts -= 1  # the scheduler gave up after the last death
        self.attempts[task.number] = attempts
        if attempts < ATTEMPTS:
            return None
        failure = f"its worker ended {attempts} times"
        return Outcome(task.number, attempts=attempts, failure=failure, error=WorkerError(failure))

    def _report(self, client: Any, ended: Task | None = None, force: bool = False) -> None:
        steps = len(ended.batch.specs) * ended.batch.settings.steps if ended else 0
        if force or time.monotonic() - self.reported >= 1:
            # Asking the scheduler after every task would slow it down.
            self.reported = time.monotonic()
            running = sum(len(keys) for keys in client.processing().values())
            workers = len(client.scheduler_info(n_workers=-1)["workers"])
            self.note = f"{workers} workers, {running} running, {self.failed} failed"
            if self.silent:
                self.note += f", {len(self.silent)} silent"
        self.report(steps, self.note)


def _connected(address: str, patience: float, security: Security | None) -> Any:
    """Return a client, or say that nobody answers."""
    until = time.monotonic() + patience
    try:
        while True:
            try:
                return Client(address, timeout=patience, set_as_default=False, security=security)
            except CommClosedError as error:
                if isinstance(error, FatalCommClosedError):
                    raise
                # A scheduler that ends while it answers may be started again.
                if time.monotonic() > until:
                    raise
                time.sleep(RETRY)
    except (FatalCommClosedError, TypeError, RuntimeError) as error:
        raise InputError(
            f"credentials for the Dask scheduler at {address}",
            reason(error),
            "put them into Dask's configuration, under distributed.comm.tls, or pass "
            "twoaxis.runs.engines.dask.Dask(address, security=...) as the engine",
        ) from error
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"a Dask scheduler at {address}",
            f"no answer within {patience:g} seconds ({reason(error)})",
            "start one with dask scheduler, or correct --scheduler",
        ) from error


def versions() -> tuple[str, ...]:
    """Return the versions that decide the numbers: twoaxis, JAX and Python."""
    major, minor, _ = platform.python_version_tuple()
    return f"twoaxis {__version__}", f"jax {version('jax')}", f"python {major}.{minor}"


def _executed(work: Work, task: Task, expected: tuple[str, ...]) -> str:
    """Execute a task in a worker, which may have joined late, and return who did it."""
    if versions() != expected:
        raise InputError(
            f"a worker with {', '.join(expected)}",
            f"one with {', '.join(versions())} on {socket.gethostname()}",
            "install the same versions on every worker",
        )
    work(task)
    return this_process()


def _check_versions(client: Any) -> None:
    """Refuse workers whose versions would give other numbers, before any work is done."""
    ours = versions()
    found = client.run(versions, on_error="return")
    # A worker that went away over the question does no work either.
    known = {
        worker: reason(theirs) if isinstance(theirs, Exception) else ", ".join(theirs)
        for worker, theirs in sorted(found.items())
        if not isinstance(theirs, GONE)
    }
    others = {worker: theirs for worker, theirs in known.items() if theirs != ", ".join(ours)}
    if others:
        worker, theirs = next(iter(others.items()))
        raise InputError(
            f"workers with {', '.join(ours)}",
            f"{len(others)} of {len(known)} with others, the first {worker}: {theirs}",
            "install the same versions on every worker",
        )


def _silences(dask_scheduler: Any, gpu: bool) -> dict[str, float]:
    """Return how many seconds ago each worker was heard of that may get tasks."""
    now = time.time()
    return {
        address: now - worker.last_seen
        for address, worker in dask_scheduler.workers.items()
        if not gpu or worker.resources.get("GPU")
    }


def _warn(text: str) -> None:
    warnings.warn(text, WorkerWarning, stacklevel=2)


def _deaths(client: Any, key: str) -> int:
    """Return how many workers died over a task, which the scheduler counts."""
    with suppress(*GONE, ValueError, RuntimeError):
        return int(client.run_on_scheduler(_suspicious, key=key))
    return 0


def _suspicious(dask_scheduler: Any, key: str) -> int:
    task = dask_scheduler.tasks.get(key)
    return 0 if task is None else int(task.suspicious)

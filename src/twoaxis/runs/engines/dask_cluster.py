"""A Dask cluster on this machine, for as long as a sweep takes.

Dask starts a worker again that dies at its work. One that dies while it starts is lost to it, and
one that never gets ready is waited for without end. Here the first is replaced, the second given
up, and an interrupt finds workers that can be ended, whatever they are at.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
from distributed import LocalCluster
from distributed.core import Status

from twoaxis.errors import WorkerError
from twoaxis.runs.engines.local import WORKER, interrupts_held

# Variables that workers start with; None takes one away.
BEFORE_START = "distributed.nanny.pre-spawn-environ"
# Dask asks for memory to be given back at once. A training takes and frees the same arrays at every
# step, and runs at half its speed then.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": None}


@contextmanager
def own_cluster(count: int, gpu: bool, patience: float) -> Iterator[str]:
    """Yield the address of a scheduler with `count` workers, or with those that could start.

    Parameters
    ----------
    count : int
    gpu : bool
        Whether the workers announce a resource ``GPU``.
    patience : float
        Seconds within which workers must be ready.
    """
    # A worker may be started again at any time, so the setting stays for as long as the cluster.
    known = dask.config.get(BEFORE_START)
    with dask.config.set({BEFORE_START: {**known, **KEEP_MEMORY}}):
        yield from _running_cluster(count, gpu, patience)


def _running_cluster(count: int, gpu: bool, patience: float) -> Iterator[str]:
    with interrupts_held():  # for the thread that starts the workers, now and later
        cluster = LocalCluster(
            n_workers=0,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            # Dask serves pages in any case: on a free port, and to nobody else.
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            memory_limit="auto",
            env=WORKER,
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
    """Start the workers that are wanted; whoever is not ready in time is killed."""
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

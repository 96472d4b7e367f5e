"""Tasks through an engine, with a progress bar: what sweeps and pipelines share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twoaxis.arrays import is_integer
from twoaxis.errors import InputError
from twoaxis.progress import progress_bar
from twoaxis.runs.engines import Engine, Result, Standing
from twoaxis.runs.task import Task, Training, versions
from twoaxis.training import RunStore
from twoaxis.training.backends import Device

# Runs of a task on a GPU, which trains them side by side.
GPU_BATCH = 80


def task_size(batch: Any, device: Device) -> int:
    """Return how many runs make a task: as asked for, or what suits the device."""
    size = (GPU_BATCH if device == "gpu" else 1) if batch is None else batch
    if not is_integer(size) or size < 1:
        raise InputError("at least one run a task", f"batch={batch!r}", "pass batch=1")
    return int(size)


def execute(
    tasks: Sequence[Task], store: RunStore, engine: Engine, device: Device, show: bool
) -> dict[int, Result]:
    """Execute tasks into a store, and return what became of them, by number."""
    work = Training(str(store.directory), device, versions())
    results: dict[int, Result] = {}
    if not tasks:
        return results
    with progress_bar(engine.describe(), len(tasks), show) as advance:

        def report(now: Standing) -> None:
            advance(0, f"{now.workers} workers, {now.running} running, {now.failed} failed")

        coming = engine.execute(tasks, work, report)
        try:
            for result in coming:
                results[result.number] = result
                advance(1)
        finally:
            # An interrupt may come between two results: workers must not outlive it.
            close: Callable[[], None] = getattr(coming, "close", lambda: None)
            close()
    return results

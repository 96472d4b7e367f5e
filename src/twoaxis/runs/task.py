"""The unit of work: a batch of runs that is trained in one place, and how it is trained.

A task holds all that defines its runs. Whoever has time executes it, and runs that the store holds
already are not trained again: a task may be executed twice, anywhere, and nothing is lost or
doubled. A batch is always trained as it was cut, so that an interrupted one ends with the numbers
of an undisturbed one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import numpy as np
import pandas as pd

from twoaxis.errors import InputError, StorageError, WorkerError
from twoaxis.parameters import Parameters
from twoaxis.runs.checkpoint import checkpoint_path, load_checkpoint, save_checkpoint
from twoaxis.runs.run import FINISHED, Run, Snapshot, frozen_view
from twoaxis.runs.store import RunStore
from twoaxis.training.backends import Backend, Device, JaxDevice, Program, find_device
from twoaxis.training.batch import KEPT, Batch, Progress
from twoaxis.training.loop import NOT_DIVERGED
from twoaxis.training.run_data import residual_sites
from twoaxis.training.settings import RunSpec, Settings, run_key

Tree = Any
Report = Callable[[int, str], None]

# How old a checkpoint is when the next one is written.
CHECKPOINT_SECONDS = 20.0


@dataclass(frozen=True)
class Task:
    """A batch of runs with its place among the tasks of a call.

    Parameters
    ----------
    number : int
    batch : Batch
    """

    number: int
    batch: Batch


class Work(Protocol):
    """What is done with a task."""

    def __call__(
        self, task: Task, backend: Backend | None = None, report: Report | None = None
    ) -> tuple[Run, ...]:
        """Train a task and return its runs, or nothing where they went into a store."""
        ...


@dataclass(frozen=True)
class Training:
    """Train a task, into a store if there is one.

    Parameters
    ----------
    store : str, optional
        Directory, as the workers see it. Without it the runs are returned.
    device : {"auto", "cpu", "gpu"}
    overwrite : bool
        Train again, and replace what the store holds.
    """

    store: str | None = None
    device: Device = "auto"
    overwrite: bool = False

    def __call__(
        self, task: Task, backend: Backend | None = None, report: Report | None = None
    ) -> tuple[Run, ...]:
        """Train from the beginning or from a checkpoint.

        Parameters
        ----------
        task : Task
        backend : Backend, optional
            Where the steps are computed; on `device` of this process without it.
        report : callable, optional
            ``report(steps, note)``: so many more steps are done, counted over all runs.
        """
        batch, count = task.batch, len(task.batch.specs)
        tell: Report = report or (lambda steps, note: None)  # noqa: ARG005
        store = None if self.store is None else RunStore(self.store, create=True)
        going_on = store is not None and not self.overwrite
        if store is not None and going_on and all(store.holds(key) for key in batch.keys):
            tell(count * batch.settings.steps, "")
            return ()
        data, state = self._begun(batch, tell)
        if store is not None and going_on:
            state = load_checkpoint(batch, state, store) or state
        tell(count * state.step, "")

        def keep(now: Progress) -> None:
            if store is not None:
                save_checkpoint(batch, now, store)

        def moved(now: Progress, steps: int) -> None:
            nonlocal state
            state = now
            tell(count * steps, _note(batch, now))

        chosen = JaxDevice(find_device(self.device)) if backend is None else backend
        try:
            done = batch.train(chosen, data, state, moved, keep, CHECKPOINT_SECONDS)
        except (KeyboardInterrupt, WorkerError):
            if state.step:
                with suppress(StorageError):  # the last checkpoint is still there
                    keep(state)
            raise
        runs = trained_runs(batch, done, chosen.program(batch.settings))
        if store is None:
            return runs
        if count > 1:  # a process that is killed while it writes must not tear the batch apart
            keep(done)
        for run in runs:
            store.save(run, overwrite=self.overwrite)
        checkpoint_path(batch, store).unlink(missing_ok=True)
        return ()

    @staticmethod
    def _begun(batch: Batch, tell: Report) -> tuple[list[Tree], Progress]:
        """Return the data of a batch and its state before the first step."""
        ready = 0

        def one_more(runs: int) -> None:
            nonlocal ready
            ready += runs
            tell(0, f"preparing run {ready} of {len(batch.specs)}")

        data = batch.data(one_more)
        return data, batch.begin(data)


def cut(
    settings: Settings, specs: Sequence[RunSpec], size: int, snapshots: tuple[int, ...] = ()
) -> list[Batch]:
    """Cut runs into batches of `size`, the last one perhaps smaller."""
    parts = [specs[start : start + size] for start in range(0, len(specs), size)]
    for part in parts:
        counts = sorted({len(spec.dataset.values) for spec in part})
        if len(counts) > 1:
            raise InputError(
                "datasets with equally many observations in a batch",
                f"{counts} observations",
                "pass batch=1, or train them in separate calls",
            )
    return [Batch(settings, tuple(part), snapshots) for part in parts]


def _note(batch: Batch, now: Progress) -> str:
    """Return median loss and parameters of a batch, for a progress bar."""
    last, parameters = now.records[-1], Parameters(batch.settings.problem.parameters)
    loss = np.median(last["loss_data"] + batch.settings.physics_weight * last["loss_residual"])
    middle = np.median(np.asarray(last["coordinates"], dtype=float), axis=0)
    values = parameters.named(parameters.physical(middle))
    return ", ".join([f"loss {loss:.3g}", *(f"{n} {v:.4g}" for n, v in values.items())])


# ------------------------------------------------------------------ from a batch to its runs


def trained_runs(batch: Batch, progress: Progress, program: Program = "xla") -> tuple[Run, ...]:
    """Return the runs of a batch whose training has ended."""
    return tuple(_run(batch, progress, number, program) for number in range(len(batch.specs)))


def _run(batch: Batch, progress: Progress, number: int, program: Program) -> Run:
    settings, spec = batch.settings, batch.specs[number]
    points = residual_sites(settings, spec)
    failed = int(progress.state["diverged"][number])
    ended = progress.step if failed == NOT_DIVERGED else failed
    history = _history(batch, progress, number)

    def snapshot(step: int, tree: Tree) -> Snapshot:
        own = jax.tree.map(lambda leaf: np.array(leaf[number]), tree)
        view = frozen_view(settings.method.recipe().view, own["weights"], points)
        return Snapshot(step, own["layers"], _physical(settings, spec, own["coordinates"]), view)

    return Run(
        key=run_key(settings, spec),
        settings=settings,
        spec=spec,
        points=points,
        final=snapshot(ended, {name: progress.state[name] for name in KEPT}),
        history=history[history["step"] <= ended],
        status=FINISHED if failed == NOT_DIVERGED else diverged_status(failed),
        snapshots=tuple(
            snapshot(step, tree)
            for step, tree in sorted(progress.snapshots.items())
            if step <= ended
        ),
        program=program,
    )


def _physical(settings: Settings, spec: RunSpec, coordinates: Any) -> dict[str, float]:
    """Return the parameters of a run; a fixed one as it was given, not rounded by a log."""
    parameters = Parameters(settings.problem.parameters)
    values = parameters.named(parameters.physical(np.asarray(coordinates, float)))
    return values | {name: float(spec.start[name]) for name in spec.fixed}


def _history(batch: Batch, progress: Progress, number: int) -> pd.DataFrame:
    rows = []
    for record in progress.records:
        data, residual = (float(record[f"loss_{n}"][number]) for n in ("data", "residual"))
        rows.append(
            {
                "step": record["step"],
                "loss": data + batch.settings.physics_weight * residual,
                "loss_data": data,
                "loss_residual": residual,
                **_physical(batch.settings, batch.specs[number], record["coordinates"][number]),
            }
        )
    return pd.DataFrame(rows)


def diverged_status(step: int) -> str:
    """Return the status of a run that is no longer finite."""
    return (
        f"diverged at step {step + 1}: loss or weights were no longer finite; "
        "this is the last finite state"
    )

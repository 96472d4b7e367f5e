"""A batch on its way: the loop over chunks of steps, with history, snapshots and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import pandas as pd

from twoaxis.parameters import Parameters
from twoaxis.training.backends import Backend
from twoaxis.training.backends.in_process import stack
from twoaxis.training.form import stacked_forms
from twoaxis.training.program import (
    NOT_DIVERGED,
    in_precision,
    initial_state,
    residual_sites,
    run_data,
)
from twoaxis.training.run import FINISHED, Run, Snapshot, frozen_view
from twoaxis.training.settings import RunSpec, Settings, run_key

Tree = Any
# Rows of the history of a whole training.
RECORDS = 50

# What a snapshot keeps of the state.
KEPT = ("layers", "coordinates", "weights")


@dataclass
class Progress:
    """How far a batch has come: all that a checkpoint holds.

    Attributes
    ----------
    step : int
        Steps done.
    state : tree of arrays
        The first axis counts the runs.
    records : list of dict
        The history so far: step, losses (runs,), coordinates (runs, d).
    snapshots : dict of int to tree
        By step.
    """

    step: int
    state: Tree
    records: list[dict[str, Any]] = field(default_factory=list)
    snapshots: dict[int, Tree] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """Runs that are trained together.

    Parameters
    ----------
    settings : Settings
    specs : sequence of RunSpec
    snapshot_steps : tuple of int
        After which steps the field is kept.
    """

    settings: Settings
    specs: Sequence[RunSpec]
    snapshot_steps: tuple[int, ...] = ()

    def data(self, report: Callable[[int], None] = lambda _: None) -> list[Tree]:
        """Return the data of every run, with equal shapes and in the training precision.

        Eigenvectors of a view take a second a run: `report(1)` is called after each.
        """
        data = []
        for spec in self.specs:
            data.append(in_precision(self.settings, run_data(self.settings, spec)))
            report(1)
        forms = stacked_forms([tree["form"] for tree in data])
        return [{**tree, "form": form} for tree, form in zip(data, forms, strict=True)]

    def begin(self, data: list[Tree]) -> Progress:
        """Return the state before the first step."""
        with jax.enable_x64(self.settings.precision == "float64"):
            states = [
                initial_state(self.settings, spec, tree)
                for spec, tree in zip(self.specs, data, strict=True)
            ]
        return Progress(0, stack(states))

    def train(
        self,
        backend: Backend,
        data: list[Tree],
        progress: Progress,
        report: Callable[[Progress, int], None],
        checkpoint: Callable[[Progress], None],
        checkpoint_seconds: float,
    ) -> Progress:
        """Go on from `progress` to the end.

        Parameters
        ----------
        backend : Backend
        data : list of tree
        progress : Progress
        report : callable
            ``report(progress, steps)`` after every chunk of so many steps.
        checkpoint : callable
            ``checkpoint(progress)``, called between chunks when the last one is old enough.
        checkpoint_seconds : float
            How old that is.
        """
        written = time.monotonic()
        with backend.session(self.settings, data) as session:
            for end in self._ends(progress.step):
                steps = end - progress.step
                state = session.advance(progress.state, progress.step, steps)
                progress = self._noted(progress, state, end)
                report(progress, steps)
                if time.monotonic() - written >= checkpoint_seconds and end < self.settings.steps:
                    checkpoint(progress)
                    written = time.monotonic()
        return progress

    def _ends(self, done: int) -> list[int]:
        """Return where the chunks end: at every record, every snapshot and the last step."""
        steps = self.settings.steps
        every = max(1, steps // RECORDS)
        ends = {*range(every, steps, every), *self.snapshot_steps, steps}
        return sorted(end for end in ends if end > done)

    def _noted(self, progress: Progress, state: Tree, step: int) -> Progress:
        """Return the progress with a row of history, and a snapshot where one is due."""
        row = {"step": step, "coordinates": state["coordinates"]}
        row |= {name: state[name] for name in ("loss_data", "loss_residual")}
        snapshots = progress.snapshots
        if step in self.snapshot_steps:
            snapshots = {**snapshots, step: {name: state[name] for name in KEPT}}
        return Progress(step, state, [*progress.records, row], snapshots)

    def results(self, progress: Progress) -> list[Run]:
        """Return the runs of a finished training."""
        return [self._run(progress, number) for number in range(len(self.specs))]

    def _run(self, progress: Progress, number: int) -> Run:
        settings, spec = self.settings, self.specs[number]
        points = residual_sites(settings, spec)
        failed = int(progress.state["diverged"][number])
        ended = progress.step if failed == NOT_DIVERGED else failed
        kept = {name: progress.state[name] for name in KEPT}
        history = self._history(progress, number)
        along = [
            self._snapshot(step, tree, number, points)
            for step, tree in sorted(progress.snapshots.items())
            if step <= ended
        ]
        return Run(
            key=run_key(settings, spec),
            settings=settings,
            spec=spec,
            points=points,
            final=self._snapshot(ended, kept, number, points),
            history=history[history["step"] <= ended],
            status=FINISHED if failed == NOT_DIVERGED else diverged_status(failed),
            snapshots=tuple(along),
        )

    def _snapshot(self, step: int, tree: Tree, number: int, points: Any) -> Snapshot:
        own = jax.tree.map(lambda leaf: np.array(leaf[number]), tree)
        view = frozen_view(self.settings.method.recipe().view, own["weights"], points)
        return Snapshot(step, own["layers"], self._physical(own["coordinates"], number), view)

    def _physical(self, coordinates: Any, number: int) -> dict[str, float]:
        """Return the parameters of a run; a fixed one as it was given, not rounded by a log."""
        values = Parameters(self.settings.problem.parameters).named(
            Parameters(self.settings.problem.parameters).physical(np.asarray(coordinates, float))
        )
        spec = self.specs[number]
        return values | {name: float(spec.start[name]) for name in spec.fixed}

    def _history(self, progress: Progress, number: int) -> pd.DataFrame:
        rows = []
        for record in progress.records:
            data, residual = (float(record[f"loss_{n}"][number]) for n in ("data", "residual"))
            rows.append(
                {
                    "step": record["step"],
                    "loss": data + self.settings.physics_weight * residual,
                    "loss_data": data,
                    "loss_residual": residual,
                    **self._physical(record["coordinates"][number], number),
                }
            )
        return pd.DataFrame(rows)


def diverged_status(step: int) -> str:
    """Say that a run is no longer finite."""
    return (
        f"diverged at step {step + 1}: loss or weights were no longer finite; "
        "this is the last finite state"
    )

"""A batch of runs and how far it has come: chunks of steps, with history and snapshots.

The chunks end at every row of the history and at every snapshot. Between two chunks the state can
be written to a checkpoint: going on from there gives the same numbers, bit by bit on the same
machine, because the state holds all that changes and the steps do not depend on where they are
cut.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import jax

from twoaxis.training.backends import Backend
from twoaxis.training.backends.device import stack
from twoaxis.training.loop import initial_state
from twoaxis.training.residual_loss import stacked_forms
from twoaxis.training.run_data import in_precision, run_data
from twoaxis.training.settings import RunSpec, Settings, run_key

Tree = Any
# Rows of the history of a complete training.
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
class Batch:
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

    @property
    def keys(self) -> list[str]:
        """Keys of the runs, in order."""
        return [run_key(self.settings, spec) for spec in self.specs]

    def data(self, report: Callable[[int], None] = lambda _: None) -> list[Tree]:
        """Return the data of every run, with equal shapes and in the training precision.

        Eigenvectors of a view take a second per run: `report(1)` is called after each.
        """

        def prepared(spec: RunSpec) -> Tree:
            return in_precision(self.settings, run_data(self.settings, spec))

        # Pools of sites are large and elementwise: threads help. Linear algebra has its own.
        elementwise = self.settings.method.recipe().continuation is not None
        data = []
        with ThreadPoolExecutor(os.cpu_count() if elementwise else 1) as threads:
            for tree in threads.map(prepared, self.specs):
                data.append(tree)
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

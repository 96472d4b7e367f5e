"""From a trained run to its audit: the declared solver, the run's own data, the frozen field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twoaxis.diagnosis import Audit, Tolerance, audit, follow
from twoaxis.errors import InputError
from twoaxis.forward import get_solver
from twoaxis.frozen import FrozenResidual
from twoaxis.observations import RECOVERABILITY_SEED, grid_sites, noise_seed
from twoaxis.resolution import Resolution, resolve
from twoaxis.training.run import Run
from twoaxis.views import View


def audit_run(
    run: Run,
    *,
    tolerance: Tolerance | None = None,
    truth: bool = True,
    view: View | None = None,
    resolution: Resolution | None = None,
    replicas: int = 200,
    seed: int = RECOVERABILITY_SEED,
    progress: bool = True,
    notes: Sequence[str] = (),
) -> Audit:
    """Audit a run of a built-in problem with everything that is known about it.

    Parameters
    ----------
    run : Run
    tolerance : Tolerance, optional
    truth : bool
        False leaves the benchmark's truth out, as for real data: the audit is then centred on
        the delivered value.
    view : View, optional
        Another view than the one of the training.
    resolution : Resolution, optional
        Axis 1 of this dataset, from `resolution_of_run`; without it, it is computed.
    replicas, seed : int
        Of axis 1: noisy replicas of the run's observations, and the seed of their noise.
    progress : bool
        Show progress bars.
    notes : sequence of str
        Sentences that come first among the messages of the audit.

    Examples
    --------
    >>> from twoaxis.training import train
    >>> runs = train("allen-cahn", datasets=8, steps=3, residual_points=60, progress=False)
    >>> found = audit_run(runs[0], replicas=5, progress=False)
    >>> found.centered_on
    'truth'
    """
    if not isinstance(run, Run):
        raise InputError(
            "a run that twoaxis.train returned", type(run).__name__, "pass runs[0], for instance"
        )
    frozen = run.frozen if truth else without_truth(run.frozen)
    if resolution is None:
        resolution = resolution_of_run(
            run, truth=truth, replicas=replicas, seed=seed, progress=progress
        )
    told = list(notes)
    if not run.finished:
        told.insert(0, f"the training did not finish: {run.status}")
    # Snapshots are followed around the final value: around their own they would not move.
    center = None if truth else run.delivered
    along = [
        (step, each if truth else holding(without_truth(each), run.delivered))
        for step, each in run.follow()
    ]
    return audit(
        frozen,
        view=view,
        resolution=resolution,
        data=run.dataset.values,
        tolerance=tolerance,
        history=run.history if len(run.history) else None,
        snapshots=follow(along, at=center) if along else None,
        notes=told,
    )


def resolution_of_run(
    run: Run,
    *,
    truth: bool = True,
    replicas: int = 200,
    seed: int = RECOVERABILITY_SEED,
    progress: bool = True,
) -> Resolution:
    """Resolve the observations of a run with the declared solver of its problem."""
    problem, dataset = run.problem, run.dataset
    # Around a truth the bounds are the problem's, whatever the network delivered.
    parameters = problem.parameters if truth else without_truth(run.frozen).parameters
    on_grid = grid_sites(dataset)

    def forward(**values: Any) -> Any:
        solver = get_solver(problem)
        if on_grid is not None:
            return solver.at_sites(on_grid, **values)
        return solver.at_points(dataset.coordinates, **values)

    return resolve(
        forward,
        parameters,
        dataset.noise_scale,
        {dataset.label: np.arange(len(dataset.values))},
        replicas=replicas,
        seed=noise_seed(problem, seed),
        points=dataset.coordinates,
        vectorized=True,
        progress=progress,
    )


def without_truth(frozen: FrozenResidual) -> FrozenResidual:
    """Return the same field as somebody has it who does not know the truth."""
    parameters = {name: replace(p, truth=None) for name, p in frozen.parameters.items()}
    return replace(frozen, parameters=parameters)


def holding(frozen: FrozenResidual, values: Mapping[str, float]) -> FrozenResidual:
    """Return the same field with bounds that hold these values."""
    parameters = {name: p.holding(values[name]) for name, p in frozen.parameters.items()}
    return replace(frozen, parameters=parameters)

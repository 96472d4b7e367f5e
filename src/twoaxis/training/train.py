"""The front door of the engine: name a problem, a method, datasets and seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twoaxis.errors import InputError, WorkerError
from twoaxis.observations import Dataset
from twoaxis.problems import EvolutionProblem, Problem, get_problem
from twoaxis.progress import Bars, progress_bar
from twoaxis.training.backends import Device, choose_backend
from twoaxis.training.checkpoint import (
    checkpoint_path,
    interrupted_jobs,
    load_checkpoint,
    save_checkpoint,
)
from twoaxis.training.job import Job, Progress
from twoaxis.training.methods import Method, get_method
from twoaxis.training.network import Network
from twoaxis.training.run import Run, Runs
from twoaxis.training.settings import (
    Conditions,
    Precision,
    RunSpec,
    Settings,
    check_specs,
    chosen_datasets,
    chosen_seeds,
    ensure_snapshots,
    run_key,
    snapshot_steps,
    starting_values,
)
from twoaxis.training.store import RunStore

# The published protocol.
STEPS = 5000
LEARNING_RATE = 1e-3
PHYSICS_WEIGHT = 2.0
RESIDUAL_POINTS = {"evolution": 2000, "steady": 2048}
BOUNDARY_POINTS = 512
# Open in the study: the boundary term counts like the data.
BOUNDARY_WEIGHT = 1.0

CHECKPOINT_SECONDS = 20.0


def train(
    problem: str | Problem,
    *,
    method: str | Method = "rba",
    datasets: int | Dataset | Iterable[int | Dataset] | None = None,
    seeds: int | Iterable[int] = 0,
    steps: int = STEPS,
    network: Network | None = None,
    conditions: Conditions = "soft",
    precision: Precision = "float32",
    learning_rate: float = LEARNING_RATE,
    physics_weight: float = PHYSICS_WEIGHT,
    residual_points: int | None = None,
    boundary_points: int = BOUNDARY_POINTS,
    boundary_weight: float = BOUNDARY_WEIGHT,
    warmup: float | None = None,
    start: Mapping[str, float] | None = None,
    fixed: Mapping[str, float] | None = None,
    snapshots: int | Sequence[int] = 0,
    out: str | Path | None = None,
    overwrite: bool = False,
    device: Device = "auto",
    workers: int | None = None,
    batch: int | None = None,
    progress: bool = True,
) -> Runs:
    """Train inverse PINNs, one for every dataset and seed, together.

    The loss is the mean squared misfit of the field to the observations plus `physics_weight`
    times the residual term of the method.

    Parameters
    ----------
    problem : str or Problem
    method : str or Method
        A name (``"rba"``, ``"pcgrad"``, ...) or one of ``twoaxis.methods``.
    datasets : int, Dataset or iterable of them, optional
        A number is a published draw. Without it, all published draws of the problem.
    seeds : int or iterable of int
        Each seeds an initialisation and a set of residual sites, for every dataset.
    steps : int
        Adam steps.
    network : Network, optional
        Three hidden layers of 64; four for a steady problem.
    conditions : {"soft", "exact"}
        Whether initial and boundary conditions are built into the field.
    precision : {"float32", "float64"}
        Of the training.
    learning_rate, physics_weight : float
    residual_points, boundary_points : int, optional
        2,000 residual sites, for a steady problem 2,048 and 512 on the boundary.
    boundary_weight : float
        Factor of the boundary term of a steady problem.
    warmup : float, optional
        Share of the steps during which the parameters rest; the method's own without it.
    start : mapping of str to float, optional
        Starting values, in place of the problem's.
    fixed : mapping of str to float, optional
        Parameters that keep the given value: only the field is trained.
    snapshots : int or sequence of int
        So many fields along the training, evenly spaced, or after these steps.
    out : path, optional
        Directory for runs and checkpoints. Runs that are there already are not trained again,
        and an interrupted call goes on where it stopped.
    overwrite : bool
        Train again, and replace what is there.
    device : {"auto", "cpu", "gpu"}
    workers, batch : int, optional
        Worker processes on a CPU (0: none), and runs side by side in this process.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Runs
        In the order of datasets, then seeds.

    Examples
    --------
    >>> runs = train("burgers", datasets=8, steps=3, residual_points=50, progress=False)
    >>> runs[0].frozen.size, runs[0].status
    (50, 'finished')
    """
    settings = settings_for(
        problem,
        method,
        steps=steps,
        network=network,
        conditions=conditions,
        precision=precision,
        learning_rate=learning_rate,
        physics_weight=physics_weight,
        residual_points=residual_points,
        boundary_points=boundary_points,
        boundary_weight=boundary_weight,
        warmup=warmup,
    )
    return train_specs(
        settings,
        specs_for(settings.problem, datasets=datasets, seeds=seeds, start=start, fixed=fixed),
        snapshots=snapshots,
        out=out,
        overwrite=overwrite,
        device=device,
        workers=workers,
        batch=batch,
        progress=progress,
    )


def settings_for(
    problem: str | Problem,
    method: str | Method = "rba",
    *,
    steps: int = STEPS,
    network: Network | None = None,
    conditions: Conditions = "soft",
    precision: Precision = "float32",
    learning_rate: float = LEARNING_RATE,
    physics_weight: float = PHYSICS_WEIGHT,
    residual_points: int | None = None,
    boundary_points: int = BOUNDARY_POINTS,
    boundary_weight: float = BOUNDARY_WEIGHT,
    warmup: float | None = None,
) -> Settings:
    """Return the settings of a training, the published ones where nothing is given; see `train`."""
    problem, method = get_problem(problem), get_method(method)
    steady = not isinstance(problem, EvolutionProblem)
    return Settings(
        problem=problem,
        method=method,
        network=Network(64, 4 if steady else 3) if network is None else network,
        steps=steps,
        conditions=conditions,
        precision=precision,
        learning_rate=learning_rate,
        physics_weight=physics_weight,
        residual_points=RESIDUAL_POINTS["steady" if steady else "evolution"]
        if residual_points is None
        else residual_points,
        boundary_points=boundary_points if steady else 0,
        boundary_weight=boundary_weight if steady else 0.0,
        warmup=method.recipe().warmup if warmup is None else warmup,
    )


def specs_for(
    problem: Problem,
    *,
    datasets: int | Dataset | Iterable[int | Dataset] | None = None,
    seeds: int | Iterable[int] = 0,
    start: Mapping[str, float] | None = None,
    fixed: Mapping[str, float] | None = None,
) -> list[RunSpec]:
    """Return a run for every dataset and seed, in this order; see `train`."""
    started = starting_values(problem, start, fixed)
    each_seed = chosen_seeds(seeds)
    return [
        RunSpec(dataset=dataset, seed=seed, start=started, fixed=frozenset(fixed or {}))
        for dataset in chosen_datasets(problem, datasets)
        for seed in each_seed
    ]


def train_specs(
    settings: Settings,
    specs: Sequence[RunSpec],
    *,
    snapshots: int | Sequence[int] = 0,
    out: str | Path | None = None,
    overwrite: bool = False,
    device: Device = "auto",
    workers: int | None = None,
    batch: int | None = None,
    progress: bool | Bars = True,
) -> Runs:
    """Train runs that share their settings; see `train` for the options.

    For sweeps in which starting or fixed values differ by run.
    """
    check_specs(settings.problem, specs)
    keys = [run_key(settings, spec) for spec in specs]
    if not specs or len(set(keys)) < len(keys):
        raise InputError(
            "runs that differ, at least one",
            f"{len(specs)} runs of which {len(set(keys))} differ",
            "give every dataset and every seed once",
        )
    if len({len(spec.dataset.values) for spec in specs}) > 1:
        raise InputError(
            "datasets with equally many observations",
            f"{sorted({len(spec.dataset.values) for spec in specs})} observations",
            "train them in separate calls",
        )
    steps = snapshot_steps(snapshots, settings.steps)
    store = None if out is None else RunStore(out, create=True)
    if store is not None:
        store.sweep(keys)
    found = {} if store is None or overwrite else _stored(keys, store, settings.problem, steps)
    whole = Job(settings, specs, steps)
    jobs = [] if store is None or overwrite else interrupted_jobs(whole, store)
    begun = {run_key(settings, spec) for job in jobs for spec in job.specs}
    missing = [s for s, key in zip(specs, keys, strict=True) if key not in found.keys() | begun]
    for job in [*jobs, Job(settings, missing, steps)] if missing else jobs:
        backend = choose_backend(settings, len(job.specs), device, workers, batch)
        found |= {run.key: run for run in _train(job, backend, store, overwrite, progress)}
    return Runs([found[key] for key in keys])


def _train(
    job: Job, backend: Any, store: RunStore | None, overwrite: bool, show: bool | Bars
) -> list[Run]:
    """Train one batch from its beginning or its checkpoint, and store it."""
    with progress_bar(f"{job.settings.problem.title}, set-up", len(job.specs), show) as advance:
        data = job.data(advance)
    state = job.begin(data)
    if store is not None and not overwrite:
        state = load_checkpoint(job, state, store) or state

    def keep(now: Progress) -> None:
        if store is not None:
            save_checkpoint(job, now, store)

    title = f"{job.settings.problem.title}, {len(job.specs)} runs"
    with progress_bar(title, job.settings.steps, show) as advance:
        advance(state.step)
        latest = state

        def report(now: Progress, steps: int) -> None:
            nonlocal latest
            latest = now
            advance(steps, _note(job, now))

        try:
            done = job.train(backend, data, state, report, keep, CHECKPOINT_SECONDS)
        except (KeyboardInterrupt, WorkerError):
            if latest.step:
                keep(latest)
            raise
    runs = job.results(done)
    if store is not None:
        for run in runs:
            store.save(run, overwrite=overwrite)
        checkpoint_path(job, store).unlink(missing_ok=True)
    return runs


def _note(job: Job, now: Progress) -> str:
    """Say in a few words how the batch fares: median loss and parameters."""
    last = now.records[-1]
    loss = np.median(last["loss_data"] + job.settings.physics_weight * last["loss_residual"])
    middle = np.median(last["coordinates"], axis=0)
    values = [
        f"{name} {float(p.to_value(q)):.4g}"
        for (name, p), q in zip(job.settings.problem.parameters.items(), middle, strict=True)
    ]
    return ", ".join([f"loss {loss:.3g}", *values])


def _stored(
    keys: list[str], store: RunStore, problem: Problem, snapshot_steps: tuple[int, ...]
) -> dict[str, Run]:
    """Return the runs among `keys` that a store holds already, with their snapshots."""
    found = {}
    for key in keys:
        run = store.found(key, problem)
        if run is None:
            continue
        ensure_snapshots(run, snapshot_steps)
        found[key] = run
    return found

"""The front door of training: name a problem, a method, datasets and seeds.

Every training takes the same way, whether it is one run, a sweep of thousands on a cluster, a
pipeline or a study: specifications of runs become batches, batches become tasks, an engine
executes them, and the runs come back as one table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from twoaxis.arrays import is_integer
from twoaxis.datasets import Dataset
from twoaxis.errors import InputError, WorkerError
from twoaxis.problems import Problem
from twoaxis.progress import Bars, progress_bar
from twoaxis.runs.checkpoint import interrupted_batches
from twoaxis.runs.engines import Engine, InProcess, Outcome, choose_engine, get_engine
from twoaxis.runs.run import Run
from twoaxis.runs.store import RunStore
from twoaxis.runs.table import KEPT_RUNS, Runs, failed_row, row_of
from twoaxis.runs.task import Task, Training, cut
from twoaxis.training.backends import Device, find_gpu
from twoaxis.training.batch import Batch
from twoaxis.training.methods import Method
from twoaxis.training.network import Network
from twoaxis.training.settings import (
    BOUNDARY_POINTS,
    BOUNDARY_WEIGHT,
    LEARNING_RATE,
    PHYSICS_WEIGHT,
    Conditions,
    Precision,
    RunSpec,
    Settings,
    check_specs,
    settings_for,
    snapshot_steps,
    specs_for,
)

# Runs of a task for a Dask worker with a GPU, which trains them side by side.
GPU_BATCH = 80


def train(
    problem: str | Problem,
    *,
    method: str | Method = "rba",
    datasets: int | Dataset | Iterable[int | Dataset] | None = None,
    seeds: int | Iterable[int] = 0,
    steps: int | None = None,
    network: Network | None = None,
    conditions: Conditions | None = None,
    precision: Precision | None = None,
    learning_rate: float = LEARNING_RATE,
    physics_weight: float = PHYSICS_WEIGHT,
    residual_points: int | None = None,
    boundary_points: int = BOUNDARY_POINTS,
    boundary_weight: float = BOUNDARY_WEIGHT,
    warmup: float | None = None,
    start: Mapping[str, float] | None = None,
    fixed: Mapping[str, float] | None = None,
    snapshots: int | Sequence[int] = 0,
    store: str | Path | RunStore | None = None,
    overwrite: bool = False,
    engine: str | Engine | None = None,
    device: Device = "auto",
    workers: int | None = None,
    scheduler: str | None = None,
    batch: int | None = None,
    progress: bool = True,
) -> Runs:
    r"""Train inverse PINNs, one for every dataset and seed.

    The loss is the mean squared misfit of the field to the observations plus `physics_weight`
    times the residual term of the method,

    .. math:: L(\theta, q) = \frac1n \sum_i (u_\theta(x_i) - y_i)^2 + \lambda\, r^\top M r.

    The runs are cut into tasks, which an engine executes. On a CPU the same call gives the same
    numbers, bit by bit, whatever the engine, the number of workers and the interruptions.

    Parameters
    ----------
    problem : str or Problem
    method : str or Method
        A name (``"rba"``, ``"pcgrad"``, ...) or one of ``twoaxis.methods``.
    datasets : int, Dataset or iterable of them, optional
        A number is a published draw. Without it, all published draws of the problem.
    seeds : int or iterable of int
        Each gives an initial network and a set of residual sites, for every dataset.
    steps : int, optional
        5,000 steps of Adam; as many as its continuation has for ``"gauss-newton"``.
    network : Network, optional
        Three hidden layers of 64, four for a steady problem; three of 24 for
        ``"gauss-newton"``.
    conditions : {"soft", "exact", "layered"}, optional
        Whether initial and boundary conditions are built into the field: ``"soft"``, and
        ``"exact"`` for ``"gauss-newton"`` where the problem has an ansatz. ``"layered"`` is
        exact, and the network also reads the variables of the layer that a jump in the
        conditions creates; ``"gauss-newton"`` takes it for Buckley–Leverett.
    precision : {"float32", "float64"}, optional
        Of the training: ``"float32"``, and ``"float64"`` for ``"gauss-newton"``.
    learning_rate, physics_weight : float
        The first is Adam's alone. ``"gauss-newton"`` lets the weight of the equation grow.
    residual_points, boundary_points : int, optional
        2,000 residual sites, for a steady problem 2,048 and 512 on the boundary; 3,000 for
        ``"gauss-newton"``.
    boundary_weight : float
        Factor of the boundary term of a steady problem.
    warmup : float, optional
        Share of the steps during which the parameters rest; the method's own without it.
    start : mapping of str to float, optional
        Starting values, in place of the problem's.
    fixed : mapping of str to float, optional
        Parameters that keep the given value: only the field is trained.
    snapshots : int or sequence of int
        Number of fields kept along the training, evenly spaced, or the steps after which.
    store : path or RunStore, optional
        Directory for runs and checkpoints. Runs that are there already are not trained again,
        and an interrupted call goes on where it stopped. Without it runs stay in memory.
    overwrite : bool
        Train again, and replace what is there.
    engine : {"in-process", "local", "dask"} or Engine, optional
        Where tasks are executed: here, in processes of this machine, or on a Dask cluster, which
        needs a `store` that all its workers see. Without it, a GPU is used if there is one, else
        processes for several long runs, else this process.
    device : {"auto", "cpu", "gpu"}
        ``"gpu"`` with Dask means workers that announce a resource ``GPU``.
    workers : int, optional
        Processes on this machine; one per core without it.
    scheduler : str, optional
        Address of a Dask scheduler; without it Dask starts a cluster on this machine.
    batch : int, optional
        Runs that are trained side by side as one task: 1 on a CPU and as many as fit on a GPU (80
        with Dask) without it.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Runs
        In the order of datasets, then seeds. A run that failed is a row with the reason as its
        status. If all of them failed, the first error is raised.

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
        store=store,
        overwrite=overwrite,
        engine=engine,
        device=device,
        workers=workers,
        scheduler=scheduler,
        batch=batch,
        progress=progress,
    )


def train_specs(
    settings: Settings,
    specs: Sequence[RunSpec],
    *,
    snapshots: int | Sequence[int] = 0,
    store: str | Path | RunStore | None = None,
    overwrite: bool = False,
    engine: str | Engine | None = None,
    device: Device = "auto",
    workers: int | None = None,
    scheduler: str | None = None,
    batch: int | None = None,
    progress: bool | Bars = True,
    require_one: bool = True,
) -> Runs:
    """Train runs that share their settings; see `train` for the options.

    For runs whose starting or fixed values differ. `require_one` raises the first error if all of
    them failed; without it the table says why each did.

    Examples
    --------
    >>> import twoaxis as ta
    >>> from twoaxis.runs import train_specs
    >>> from twoaxis.training import RunSpec
    >>> run = ta.train("burgers", datasets=8, steps=3, residual_points=50, progress=False)[0]
    >>> specs = [
    ...     RunSpec(dataset=run.dataset, seed=0, start={"nu": value}, fixed=frozenset({"nu"}))
    ...     for value in (0.005, 0.02)
    ... ]
    >>> runs = train_specs(run.settings, specs, progress=False)
    >>> [round(each.delivered["nu"], 4) for each in runs]
    [0.005, 0.02]
    """
    check_specs(settings.problem, specs)
    steps = snapshot_steps(snapshots, settings.steps)
    whole = Batch(settings, tuple(specs), steps)
    keys = whole.keys
    if not specs or len(set(keys)) < len(keys):
        raise InputError(
            "runs that differ, at least one",
            f"{len(specs)} runs of which {len(set(keys))} differ",
            "give every dataset and every seed once",
        )
    if batch is not None and not (is_integer(batch) and batch >= 1):
        raise InputError("an integer of at least 1 as batch", f"batch={batch!r}", "pass batch=1")
    find_gpu("auto" if device == "gpu" and engine == "dask" else device)  # refuses other names
    if engine is None and scheduler is None:
        chosen = choose_engine(settings, len(specs), device, workers, batch)
    else:
        chosen = get_engine(engine, workers=workers, scheduler=scheduler, device=device)
    if getattr(chosen, "needs_store", False) and store is None:
        raise InputError(
            "a store that all Dask workers see", "no store", "pass store=..., a shared directory"
        )
    home = None if store is None else RunStore.opened(store, create=True)
    if home is not None:
        home.tidy(keys)
    known = {} if home is None or overwrite else _stored(keys, home, settings.problem, steps)
    begun = [] if home is None or overwrite else interrupted_batches(whole, home, known)
    named = set(known).union(*(each.keys for each in begun))
    missing = [spec for key, spec in zip(keys, specs, strict=True) if key not in named]
    size = _task_size(batch, chosen, engine, device, len(missing))
    batches = [*begun, *cut(settings, missing, size, steps)]
    tasks = [Task(number, each) for number, each in enumerate(batches)]
    work = Training(None if home is None else str(home.directory), device, overwrite)
    outcomes = _executed(chosen, tasks, work, settings, progress)
    found = _table(whole, tasks, outcomes, home, known)
    if require_one and not found.data["trained"].values.any():
        errors = (outcomes[n].error for n in sorted(outcomes))
        first = next((each for each in errors if each is not None), None)
        raise first or WorkerError(str(found.data["status"].values[0]))
    return found


def _stored(
    keys: Sequence[str], store: RunStore, problem: Problem, steps: tuple[int, ...]
) -> dict[str, Run | None]:
    """Return the runs that a store holds by key; None for those that are not kept in memory."""
    found: dict[str, Run | None] = {}
    for key in keys:
        run = store.found(key, problem)
        if run is not None:
            _ensure_snapshots(run, steps)
            found[key] = run if len(found) < KEPT_RUNS else None
    return found


def _ensure_snapshots(run: Run, steps: Sequence[int]) -> None:
    """Refuse a stored run that lacks snapshots which are asked for.

    Snapshots are not part of a key, because they change no number. A run that was stored without
    them gets them by training alone, which is left to the caller. After the end of a run that
    diverged there are none to ask for.
    """
    held = {snapshot.step for snapshot in run.snapshots}
    lacking = [step for step in steps if step <= run.final.step and step not in held]
    if lacking:
        raise InputError(
            f"stored runs with snapshots at the steps {', '.join(map(str, lacking))}",
            f"{run.key}, which was stored without them",
            "choose another directory, or train it again with train(..., overwrite=True)",
        )


def _task_size(batch: int | None, engine: Engine, name: Any, device: Device, runs: int) -> int:
    """Return how many runs make a task: as asked for, or what suits the device."""
    if batch is not None:
        return int(batch)
    if isinstance(engine, InProcess) and find_gpu(engine.device) is not None:
        return max(1, runs)  # the device takes as many at a time as fit into its memory
    return GPU_BATCH if name == "dask" and device == "gpu" else 1


def _executed(
    engine: Engine,
    tasks: Sequence[Task],
    work: Training,
    settings: Settings,
    show: bool | Bars,
) -> dict[int, Outcome]:
    """Execute tasks, and return what became of them by number."""
    outcomes: dict[int, Outcome] = {}
    if not tasks:
        return outcomes
    count = sum(len(task.batch.specs) for task in tasks)
    title = f"{settings.problem.title}, {count} runs, {engine.describe()}"
    with progress_bar(title, count * settings.steps, show) as advance:
        coming = engine.execute(tasks, work, advance)
        try:
            for outcome in coming:
                outcomes[outcome.number] = outcome
        finally:
            # An interrupt may come between two outcomes: workers must not outlive it.
            close: Callable[[], None] = getattr(coming, "close", lambda: None)
            close()
    return outcomes


def _table(
    whole: Batch,
    tasks: Sequence[Task],
    outcomes: Mapping[int, Outcome],
    store: RunStore | None,
    known: Mapping[str, Run | None],
) -> Runs:
    """Return the runs in the order that was asked for."""
    problem, method = whole.settings.problem, whole.settings.method.name
    task_of = {key: task.number for task in tasks for key in task.batch.keys}
    in_memory = {run.key: run for outcome in outcomes.values() for run in outcome.runs}
    in_memory |= {key: run for key, run in known.items() if run is not None}
    rows: list[dict[str, Any]] = []
    kept: dict[int, Run] = {}
    for number, (key, spec) in enumerate(zip(whole.keys, whole.specs, strict=True)):
        outcome = outcomes.get(task_of.get(key, -1), Outcome(-1, attempts=0))
        run = in_memory.get(key)
        if run is None and store is not None:
            run = store.found(key, problem)
        if run is None:
            why = outcome.failure or "not trained"
            about = (key, problem, method, spec.dataset.label, int(spec.seed))
            rows.append(failed_row(*about, why, outcome.attempts))
            continue
        rows.append(row_of(run, outcome.worker, outcome.attempts))
        if store is None or len(kept) < KEPT_RUNS:
            kept[number] = run
    if store is None:
        return Runs.from_rows(rows, kept.__getitem__)
    return Runs.from_store(rows, store, problem, kept)

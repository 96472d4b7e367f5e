"""Refinement of a run of the engine, or of a built-in problem with a dataset."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.datasets import Dataset
from twoaxis.errors import InputError
from twoaxis.gauss_newton import Continuation
from twoaxis.parameters import Parameters
from twoaxis.problems import Problem, get_problem
from twoaxis.remedies.refine.result import End, Path, Refinement, check_enough, refinement
from twoaxis.resolution.layouts import Noise
from twoaxis.runs.refined import linearized
from twoaxis.runs.run import Run
from twoaxis.runs.train import train_specs
from twoaxis.training.methods import GaussNewton
from twoaxis.training.settings import RunSpec, Settings, settings_for, starting_values

FloatArray = NDArray[np.float64]

HOW = "per-point Jacobians by automatic differentiation in JAX"
# Options of a refinement that are settings of its training, and those that say where it runs.
SETTINGS = ("network", "conditions", "residual_points", "boundary_points", "boundary_weight")
PLACES = ("store", "overwrite", "engine", "device", "workers", "scheduler")


def refine_run(
    subject: Any,
    data: Any,
    noise: float | None,
    continuation: Continuation | None,
    seed: int,
    progress: bool,
    training: dict[str, Any],
) -> Refinement:
    """Refine a run, or a built-in problem with a dataset; see `twoaxis.refine`."""
    before = subject if isinstance(subject, Run) else None
    problem, dataset = _asked(subject, data)
    _check_options(training)
    if noise is None and not 0 <= dataset.noise_scale < np.inf:
        raise InputError(
            "a dataset with its noise, or with noise_scale=0 where it is not known",
            f"noise_scale={dataset.noise_scale!r}",
            "correct it, or pass noise=...",
        )
    estimated = noise is None and dataset.noise_scale == 0
    if estimated:  # a first guess, which decides little: the plateau does not depend on it
        noise = _guessed(dataset)
    if noise is not None:
        dataset = replace(dataset, noise_scale=float(noise))
    method = GaussNewton() if continuation is None else GaussNewton(continuation)
    chosen = {name: training.pop(name) for name in SETTINGS if name in training}
    settings = settings_for(problem, method, **chosen)
    start = _start(problem, before)
    began = time.perf_counter()
    run = _trained(settings, dataset, start, seed, progress, training)
    if estimated:
        rest = run.field(dataset.coordinates) - dataset.values
        spread = np.sqrt((rest**2).sum() / _freedom(rest.size, run))
        dataset = replace(dataset, noise_scale=float(spread))
        start_again = _inside(problem, run.delivered)
        run = _trained(settings, dataset, start_again, seed, progress, training)
    return _result(run, before, start, estimated, time.perf_counter() - began)


def _asked(subject: Any, data: Any) -> tuple[Problem, Dataset]:
    """Return the problem and the observations."""
    if isinstance(subject, Run):
        problem: Problem = subject.problem
        dataset = subject.dataset if data is None else data
    else:
        problem, dataset = get_problem(subject), data
    if not isinstance(dataset, Dataset):
        raise InputError(
            f"a dataset of {problem.name}",
            type(dataset).__name__,
            "pass data=twoaxis.published_dataset(...), or a twoaxis.Dataset of your own",
        )
    check_enough(len(dataset.values), len(problem.parameters))
    return problem, dataset


def _check_options(training: Mapping[str, Any]) -> None:
    unknown = [name for name in training if name not in (*SETTINGS, *PLACES)]
    if unknown:
        raise InputError(
            f"options among {', '.join((*SETTINGS, *PLACES))}",
            ", ".join(unknown),
            "check the spelling, or leave them out",
        )


def _guessed(dataset: Dataset) -> float:
    """Return a tenth of the spread of the data."""
    spread = float(np.std(dataset.values))
    if not spread > 0:
        raise InputError(
            "data that vary, from which the noise can be estimated",
            f"{len(dataset.values)} equal values",
            "pass noise=..., or a dataset with its noise_scale",
        )
    return 0.1 * spread


def _freedom(count: int, run: Run) -> float:
    """Return the degrees of freedom that so many observations leave for the noise."""
    return max(1.0, float(count - len(run.problem.parameters)))


def _start(problem: Problem, before: Run | None) -> dict[str, float]:
    """Return where the parameters start: what the run delivered, inside the bounds."""
    if before is None:
        return starting_values(problem, None, None)
    return _inside(problem, before.delivered)


def _inside(problem: Problem, values: Mapping[str, float]) -> dict[str, float]:
    """Return values a little inside the bounds, from which a training can start."""
    known = Parameters(problem.parameters)
    low, high = known.coordinate_bounds
    inner = 0.02 * (high - low)
    q = np.clip(known.coordinates(values), low + inner, high - inner)
    return known.named(known.physical(q))


def _trained(
    settings: Settings,
    dataset: Dataset,
    start: dict[str, float],
    seed: int,
    progress: bool,
    training: dict[str, Any],
) -> Run:
    spec = RunSpec(dataset=dataset, seed=seed, start=start)
    run = train_specs(settings, [spec], progress=progress, **training)[0]
    if not run.finished:
        raise InputError(
            "a refinement that stays finite",
            run.status,
            "start from another value, or use a wider network",
        )
    return run


def _result(
    run: Run, before: Run | None, start: dict[str, float], estimated: bool, seconds: float
) -> Refinement:
    """Return what a run of the Gauss–Newton method found, with its path."""
    recipe = run.settings.method.recipe()
    plan, known = recipe.continuation, Parameters(run.problem.parameters)
    assert plan is not None
    ended = linearized(run)
    noise, count = run.dataset.noise_scale, len(run.dataset.values)
    path = Path()
    rows = run.history.to_dict(orient="records")
    for row, before_row in zip(rows, [None, *rows[:-1]], strict=True):
        weight = float(plan.weight(row["step"] - 1, np))
        # The parameters move at the end of a stage, and only there.
        moved = before_row is None or any(row[name] != before_row[name] for name in known)
        if weight < plan.free or not (moved or row is rows[-1]):
            continue
        path.weight.append(min(weight, ended.weight))
        path.misfit.append(row["loss_data"] / noise**2)
        share = row["loss_residual"] * run.settings.physics_weight * count / path.weight[-1]
        path.residual.append(float(np.sqrt(share)) / noise)
        path.coordinates.append(known.coordinates({name: row[name] for name in known}))
        path.errors.append(np.full(len(known), np.nan))
    path.errors[-1] = np.sqrt(np.diag(ended.covariance))
    path.misfit[-1], path.residual[-1] = ended.misfit, ended.residual
    quiet = np.abs(ended.step) <= plan.settled * np.maximum(path.errors[-1], 1e-300)
    end = End(
        coordinates=path.coordinates[-1],
        covariance=ended.covariance,
        sensitivity=ended.sensitivity,
        fitted=run.field(run.dataset.coordinates),
        data=np.asarray(run.dataset.values, dtype=float),
        sites=run.dataset.coordinates,
        noise=Noise(np.full(count, noise), _freedom(count, run) if estimated else np.inf),
        settled=bool(quiet.all()) and ended.weight >= plan.plateau,
        free=0.0,  # the conditions are exact
        free_moves=np.zeros((count, 0)),
    )
    delivered = start if before is None else before.delivered
    found = refinement(known.delivering(delivered), path, end, HOW, seconds)
    found.frozen = run.frozen
    found.before_frozen = None if before is None else before.frozen

    def at(points: FloatArray) -> tuple[FloatArray, FloatArray]:
        return run.field(points), linearized(run, points).sensitivity

    found._sensitivity_at = at
    return found

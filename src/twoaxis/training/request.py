"""What was asked for, checked before any work is done: datasets, seeds, values, snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from twoaxis.errors import InputError
from twoaxis.observations import Dataset, published_dataset
from twoaxis.problems import Problem
from twoaxis.training.settings import RunSpec
from twoaxis.views.checks import is_whole

if TYPE_CHECKING:
    from twoaxis.training.run import Run


def check_specs(problem: Problem, specs: Any) -> None:
    """Refuse runs that cannot be trained, whoever composed them."""
    if not isinstance(specs, Sequence) or not all(isinstance(spec, RunSpec) for spec in specs):
        raise InputError(
            "a list of twoaxis.training.RunSpec", repr(specs)[:100], "make one for every run"
        )
    for spec in specs:
        _check_dataset(problem, spec.dataset)
        known = starting_values(problem, spec.start, None)
        if set(spec.start) != set(known) or not spec.fixed <= set(known):
            raise InputError(
                f"values for {', '.join(known)}, of which some may be fixed",
                f"start={dict(spec.start)}, fixed={sorted(spec.fixed)}",
                "use the names of the problem's parameters",
            )


def starting_values(
    problem: Problem, start: Mapping[str, float] | None, fixed: Mapping[str, float] | None
) -> dict[str, float]:
    """Return where every parameter starts: the problem's values, replaced by those given."""
    for name, values_of in (("start", start), ("fixed", fixed)):
        if values_of is not None and not isinstance(values_of, Mapping):
            raise InputError(
                f"{name} as a mapping from names to values",
                repr(values_of)[:100],
                f"pass {name}={{{next(iter(problem.parameters))!r}: ...}}",
            )
    given = {**(start or {}), **(fixed or {})}
    unknown = sorted(set(given) - set(problem.parameters))
    both = sorted(set(start or {}) & set(fixed or {}))
    if unknown or both:
        raise InputError(
            f"starting or fixed values for {', '.join(problem.parameters)}, each once",
            f"values for {', '.join(unknown or both)}" + ("" if unknown else " twice"),
            "use the names of the problem's parameters",
        )
    values = {}
    for name, parameter in problem.parameters.items():
        value = given.get(name, parameter.start)
        if value is None:
            raise InputError(
                f"a starting value for {name}",
                "none in the problem and none given",
                f"pass start={{{name!r}: ...}}",
            )
        kind = "fixed value" if name in (fixed or {}) else "start"
        values[name] = parameter._checked_value(kind, value)
    return values


def chosen_datasets(problem: Problem, datasets: Any) -> list[Dataset]:
    """Return the datasets, each checked against the problem."""
    if datasets is None:
        datasets = problem.observed.layouts
    given = [datasets] if isinstance(datasets, (int, np.integer, Dataset)) else datasets
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
        raise InputError(
            "datasets as published numbers or Dataset objects",
            repr(datasets)[:100],
            "pass datasets=[8, 9], or twoaxis.fresh_dataset(...)",
        )
    return [_checked_dataset(problem, each) for each in given]


def _checked_dataset(problem: Problem, dataset: Any) -> Dataset:
    if is_whole(dataset):
        return published_dataset(problem, int(dataset))
    if not isinstance(dataset, Dataset):
        raise InputError(
            "a dataset as a published number or a Dataset",
            repr(dataset)[:100],
            "pass datasets=[8, 9], or twoaxis.fresh_dataset(...)",
        )
    _check_dataset(problem, dataset)
    return dataset


def _check_dataset(problem: Problem, dataset: Any) -> None:
    """Refuse observations that cannot be used, before any work is done."""
    if not isinstance(dataset, Dataset) or dataset.problem != problem.name:
        raise InputError(
            f"a dataset of {problem.name}",
            f"one of {dataset.problem}" if isinstance(dataset, Dataset) else repr(dataset)[:100],
            "make it for the problem that you train on",
        )
    parts = ("values", "coordinates", "sites", "noise_scale")
    values, where, _, noise = (_numbers(dataset, name) for name in parts)
    if noise.ndim or not 0 <= noise < np.inf:
        raise InputError(
            "a finite noise_scale that is not negative",
            f"noise_scale={dataset.noise_scale!r}",
            "give the standard deviation of the noise, or 0 where none is known",
        )
    if values.ndim != 1 or where.shape != (len(values), len(problem.domain)) or not len(values):
        raise InputError(
            "observations of shape (n,) at coordinates of shape (n, 2)",
            f"values {values.shape} and coordinates {where.shape}",
            "give every observation its place in the domain",
        )
    if not np.isfinite(values).all():
        bad = np.flatnonzero(~np.isfinite(values))
        raise InputError(
            "finite observations",
            f"{len(bad)} of {len(values)} that are not (number {bad[0]} first)",
            "leave those observations out, with their coordinates",
        )
    low, high = np.array(list(problem.domain.values())).T
    outside = ~((where >= low) & (where <= high)).all(axis=1)
    if outside.any():
        first = where[outside][0]
        raise InputError(
            f"observation sites inside the domain {dict(problem.domain)}",
            f"{int(outside.sum())} outside, the first at {tuple(map(float, first))}",
            "check the order of the columns, or leave those sites out",
        )


def _numbers(dataset: Dataset, name: str) -> Any:
    try:
        array = np.asarray(getattr(dataset, name))
    except ValueError:  # rows of different length
        array = np.asarray(None)
    if array.dtype.kind not in "iuf":
        raise InputError(
            f"real numbers as {name} of the dataset",
            f"{name}={getattr(dataset, name)!r}"[:100],
            "convert them to floats, or leave the dataset out",
        )
    return array


def chosen_seeds(seeds: Any) -> list[int]:
    """Return the seeds as a list."""
    given = [seeds] if isinstance(seeds, (int, np.integer)) else seeds
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
        raise InputError("seeds as whole numbers", repr(seeds)[:100], "pass seeds=range(10)")
    return cast("list[int]", list(given))


def snapshot_steps(snapshots: Any, steps: int) -> tuple[int, ...]:
    """Return after which steps the field is kept."""
    if is_whole(snapshots):
        if 0 <= snapshots <= steps:
            found = np.linspace(0, steps, int(snapshots) + 1)[1:]
            return tuple(sorted({round(float(step)) for step in found}))
    elif isinstance(snapshots, Sequence) and not isinstance(snapshots, (str, bytes)):
        kinds = {type(step) for step in snapshots}
        whole = all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds)
        if whole and all(1 <= step <= steps for step in snapshots):
            return tuple(sorted({int(step) for step in snapshots}))
    raise InputError(
        f"a number of snapshots from 0 to {steps}, or a list of steps from 1 to {steps}",
        f"snapshots={snapshots!r}",
        "pass snapshots=10, or snapshots=[100, 1000, 5000]",
    )


def ensure_snapshots(run: Run, steps: Sequence[int]) -> None:
    """Refuse a stored run that lacks snapshots which are asked for.

    A key does not tell of snapshots: they change no number. A run that was stored without them
    cannot get them but by training, which is left to the caller. After the end of a run that
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

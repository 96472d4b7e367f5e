"""Axis 1 of the built-in problems, under the published protocol.

Several problems in one table, with a balanced row over all of them.

The overall interval comes in two readings. *Unstratified* resamples all problem–replica
clusters together, as the study does, so the number of clusters of each problem varies from
draw to draw. *Stratified* keeps that number and is narrower.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError
from twoaxis.forward import Fidelity, get_solver
from twoaxis.observations import (
    RECOVERABILITY_SEED,
    layout,
    noise_scale,
    noise_seed,
    published_dataset,
)
from twoaxis.problems import SCALAR_BENCHMARKS, Problem, get_problem
from twoaxis.resolution.resolve import resolve
from twoaxis.resolution.result import BOOTSTRAP_DRAWS, BOOTSTRAP_SEED, Resolution
from twoaxis.statistics import Interval, cluster_bootstrap, weighted_mean


def resolve_problem(
    problem: str | Problem,
    *,
    layouts: Sequence[int] | None = None,
    replicas: int = 200,
    seed: int = RECOVERABILITY_SEED,
    fit_solver: Fidelity = "fine",
    data: Mapping[int, ArrayLike] | None = None,
    **options: Any,
) -> Resolution:
    """Resolve a built-in problem with its declared solver, layouts and noise.

    Parameters
    ----------
    problem : str or Problem
    layouts : sequence of int, optional
        Layout seeds; by default the published four.
    replicas : int
    seed : int
        Of the noise; every problem draws from a stream of its own under this seed.
    fit_solver : {"fine", "coarse"}
        The data always come from the fine solver. Fitting them with the coarse one is the
        solver-discrepancy control.
    data : mapping of int to array, optional
        Observed values for each layout seed.
    **options
        Further arguments of `twoaxis.resolve`, such as ``validate`` or ``level``.

    Examples
    --------
    >>> import twoaxis as ta
    >>> found = ta.resolve_problem("allen-cahn", layouts=[8], replicas=50)
    >>> round(float(found.fisher_error_percent[0]), 3)
    2.35
    """
    problem = get_problem(problem)
    seeds = list(problem.observed.layouts if layouts is None else layouts)
    if len(set(seeds)) != len(seeds):
        raise InputError("each layout once", f"layouts={seeds}", "drop the repetitions")
    sites = {str(s): layout(problem, s) for s in seeds}
    if not sites:
        raise InputError("at least one layout", "none", "pass layout seeds, such as [8, 9]")
    observed = np.unique(np.concatenate(list(sites.values())))
    points = get_solver(problem).points(observed)

    def forward(**parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        return get_solver(problem).at_sites(observed, **parameters)

    def coarse(**parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        return get_solver(problem, "coarse").at_points(points, **parameters)

    get_solver(problem, fit_solver)  # a misspelt solver is found out here
    return resolve(
        forward,
        problem.parameters,
        noise_scale(problem),
        {name: np.searchsorted(observed, s) for name, s in sites.items()},
        replicas=replicas,
        seed=noise_seed(problem, seed),
        data=None if data is None else {str(s): values for s, values in data.items()},
        coordinates=points,
        fit_forward=coarse if fit_solver == "coarse" else None,
        vectorized=True,
        **options,
    )


def benchmark_draws(*, progress: bool = True) -> pd.DataFrame:
    """Matched estimates of the study's twelve benchmark draws.

    Returns
    -------
    pandas.DataFrame
        Columns ``problem``, ``dataset`` (the layout seed), ``parameter``, ``truth``,
        ``estimate`` and ``error_percent``.
    """
    rows = []
    for problem in SCALAR_BENCHMARKS:
        data = {s: published_dataset(problem, s).values for s in problem.observed.layouts}
        found = resolve_problem(problem, replicas=1, data=data, validate=0, progress=progress)
        (name,) = found.parameters
        for s in data:
            one = found.data.sel(parameter=name, layout=str(s))
            rows.append(
                {
                    "problem": problem.name,
                    "dataset": s,
                    "parameter": name,
                    "truth": problem.parameters[name].truth,
                    "estimate": float(one["data_estimate"]),
                    "error_percent": float(one["data_error_percent"]),
                }
            )
    return pd.DataFrame(rows)


UNSTRATIFIED = "overall"
STRATIFIED = "overall, stratified"


def resolution_table(resolutions: Mapping[str, Resolution]) -> pd.DataFrame:
    """Return one row a problem and, for several, two balanced overall rows.

    Parameters
    ----------
    resolutions : mapping of str to Resolution
        Of one parameter each. For the overall rows they must have the same number of layouts
        and replicas, so that every problem has the same weight.
    """
    for name, found in resolutions.items():
        if len(found.parameters) > 1:
            raise InputError(
                "resolutions of one parameter each",
                f"{', '.join(found.parameters)} in {name!r}",
                "use its own summary(), which has a row for each parameter",
            )
    rows = {
        name: {"problem": name, **found.summary().iloc[-1].to_dict()}
        for name, found in resolutions.items()
    }
    table = pd.DataFrame(list(rows.values())).set_index("problem")
    if len(resolutions) > 1:
        table = pd.concat([table, _overall(resolutions, table)])
    return table


def _overall(resolutions: Mapping[str, Resolution], table: pd.DataFrame) -> pd.DataFrame:
    """Return the balanced rows: pooled errors, and intervals over problem–replica clusters."""
    shapes = {found.error_percent.shape for found in resolutions.values()}
    if len(shapes) > 1:
        raise InputError(
            "the same number of layouts and replicas for every problem",
            f"shapes (layouts, replicas) {sorted(shapes)}",
            "resolve every problem with the same layouts and replicas",
        )
    ((layouts, replicas),) = shapes
    errors = np.concatenate([f.error_percent.values.ravel() for f in resolutions.values()])
    problem = np.repeat(np.arange(len(resolutions)), layouts * replicas)
    replica = np.tile(np.arange(replicas), layouts * len(resolutions))
    cluster = problem * replicas + replica
    row: dict[str, float] = {
        **{str(name): float(value) for name, value in table.mean().items()},
        "median": float(np.median(errors)),
        "p90": float(np.quantile(errors, 0.9)),
        "bias": float(table["bias"].abs().mean()),  # biases of opposite sign must not cancel
        "on_bound": int(table["on_bound"].sum()),
    }
    both: dict[str, dict[str, float]] = {}
    for name, strata in ((UNSTRATIFIED, None), (STRATIFIED, problem)):
        interval = _interval(errors, cluster, strata) if replicas > 1 else None
        ends = {} if interval is None else {"ci_low": interval.low, "ci_high": interval.high}
        both[name] = {**row, **ends}
    return pd.DataFrame.from_dict(both, orient="index").rename_axis("problem")


def _interval(
    errors: np.ndarray[tuple[int], np.dtype[np.float64]],
    cluster: np.ndarray[tuple[int], np.dtype[np.intp]],
    strata: np.ndarray[tuple[int], np.dtype[np.intp]] | None,
) -> Interval:
    return cluster_bootstrap(
        lambda weights: weighted_mean(errors, weights),
        cluster,
        strata=strata,
        draws=BOOTSTRAP_DRAWS,
        seed=BOOTSTRAP_SEED,
    )

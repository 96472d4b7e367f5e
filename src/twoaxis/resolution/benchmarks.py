"""Tables over several built-in problems: the benchmark draws, and a balanced overall row.

The overall interval comes in two kinds. *Unstratified* resamples all problem-replica clusters
together, as the study does, so that the number of clusters of each problem varies from draw to
draw. *Stratified* keeps that number and is narrower.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoaxis.datasets import published_dataset
from twoaxis.errors import InputError
from twoaxis.problems import SCALAR_BENCHMARKS
from twoaxis.resolution.resolve import resolve
from twoaxis.resolution.result import BOOTSTRAP_DRAWS, BOOTSTRAP_SEED, Resolution
from twoaxis.statistics import Interval, cluster_bootstrap, weighted_mean

UNSTRATIFIED = "overall"
STRATIFIED = "overall, stratified"


def benchmark_draws(*, progress: bool = True) -> pd.DataFrame:
    """Return the matched estimates of the twelve benchmark draws of the study.

    Returns
    -------
    pandas.DataFrame
        Columns ``problem``, ``dataset`` (the layout seed), ``parameter``, ``truth``,
        ``estimate`` and ``error_percent``.

    Examples
    --------
    >>> from twoaxis.resolution import benchmark_draws
    >>> draws = benchmark_draws()  # doctest: +SKIP
    >>> print(draws[["problem", "dataset", "error_percent"]].head(3).round(3))  # doctest: +SKIP
       problem  dataset  error_percent
    0  burgers        8          2.383
    1  burgers        9          1.477
    2  burgers       10          1.023
    """
    rows = []
    for problem in SCALAR_BENCHMARKS:
        data = {s: published_dataset(problem, s).values for s in problem.observed.layouts}
        found = resolve(problem, replicas=1, data=data, validate=0, progress=progress)
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
                    "error_percent": float(one["data_deviation_percent"]),
                }
            )
    return pd.DataFrame(rows)


def resolution_table(resolutions: Mapping[str, Resolution]) -> pd.DataFrame:
    """Return one row per problem and, for several, two balanced overall rows.

    Parameters
    ----------
    resolutions : mapping of str to Resolution
        Of one parameter each. For the overall rows they must have the same number of layouts
        and replicas, so that every problem has the same weight.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> from twoaxis.resolution import resolution_table
    >>> t = np.linspace(0, 4, 40)
    >>> def study(rate):
    ...     known = {"k": ta.Parameter(truth=rate, bounds=(0.1, 4.0))}
    ...     return ta.resolve(
    ...         lambda k: np.exp(-k * t), known, noise=0.05, replicas=20, bank=25, progress=False
    ...     )
    >>> table = resolution_table({"slow": study(0.5), "fast": study(1.0)})
    >>> table.index.tolist()
    ['slow', 'fast', 'overall', 'overall, stratified']
    >>> table.loc["slow", ["mean", "fisher"]].round(1).tolist()
    [1.4, 2.1]
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
    """Return the balanced rows: pooled errors, and intervals over problem-replica clusters."""
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
    errors: NDArray[np.float64], cluster: NDArray[np.intp], strata: NDArray[np.intp] | None
) -> Interval:
    return cluster_bootstrap(
        lambda weights: weighted_mean(errors, weights),
        cluster,
        strata=strata,
        draws=BOOTSTRAP_DRAWS,
        seed=BOOTSTRAP_SEED,
    )

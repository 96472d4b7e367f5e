"""Print the figures of results.md that no command prints: ``python docs/results.py``.

Intervals resample replicas, all layouts of a replica together; over several problems, all
problem–replica clusters together, as in the study.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import twoaxis as ta
from twoaxis.datasets import FRESH_NOISE_SEED
from twoaxis.statistics import cluster_bootstrap, weighted_mean, weighted_quantile

PROBLEMS = ("burgers", "buckley-leverett", "allen-cahn")
BLOCK = 200

Statistic = Callable[[np.ndarray, np.ndarray], np.ndarray]


def show(label: str, tables: list[np.ndarray], statistic: Statistic = weighted_mean) -> None:
    """Print a statistic of one (layout, replica) table a problem, with its 95% interval."""
    values = np.concatenate([table.astype(float).ravel() for table in tables])
    cluster = np.concatenate(
        [np.tile(np.arange(t.shape[1]) + k * t.shape[1], len(t)) for k, t in enumerate(tables)]
    )
    ends = cluster_bootstrap(lambda w: statistic(values, w), cluster, draws=20_000, seed=20260719)
    middle = float(statistic(values, np.ones(values.size)))
    print(f"{label:55} {middle:8.3f} [{ends.low:.3f}, {ends.high:.3f}]")


def show_each(label: str, tables: list[np.ndarray], statistic: Statistic = weighted_mean) -> None:
    """Print a statistic for each problem, then for all of them together."""
    for name, table in zip(PROBLEMS, tables, strict=True):
        show(f"{label}, {name}", [table], statistic)
    show(f"{label}, overall", tables, statistic)


def percentiles(fine: dict[str, ta.Resolution]) -> list[np.ndarray]:
    """100 where a repeated-noise error does not exceed that of the study's own dataset."""
    own = ta.benchmark_draws(progress=False).set_index(["problem", "dataset"])["error_percent"]
    return [
        100.0 * np.stack([found.error_percent.sel(layout=s) <= own[name, int(s)] for s in seeds])
        for name, found in fine.items()
        for seeds in [found.layouts]
    ]


def blocks(array: np.ndarray) -> np.ndarray:
    """Cut (layout, replica) into blocks of replicas: (block, everything in it)."""
    return np.stack([part.ravel() for part in np.split(array, array.shape[1] // BLOCK, axis=1)])


def main() -> None:
    """Compute and print everything; it takes under a minute."""
    fine = {p: ta.resolve(p, validate=24, progress=False) for p in PROBLEMS}
    coarse = {p: ta.resolve(p, fit_forward="coarse", progress=False) for p in PROBLEMS}
    errors = [f.error_percent.values for f in fine.values()]
    coarse_errors = [f.error_percent.values for f in coarse.values()]
    show_each("median", errors, lambda v, w: weighted_quantile(v, w, 0.5))
    show_each("P90", errors, lambda v, w: weighted_quantile(v, w, 0.9))
    show_each("coverage", [100 * f.covered.values for f in fine.values()])
    show_each("coverage, coarse", [100 * f.covered.values for f in coarse.values()])
    gaps = [c - f for c, f in zip(coarse_errors, errors, strict=True)]
    show("mean error, coarse less matched, overall", gaps)
    show("percentile of the study's datasets, overall", percentiles(fine))
    bias = max(float(abs(f.noiseless_bias_percent).max()) for f in fine.values())
    check = max(f.data.attrs["bank_check_percent"] for f in fine.values())
    print(f"largest noiseless error {bias:.3g}, bank check {check:.4f}")
    fresh = {p: ta.resolve(p, seed=FRESH_NOISE_SEED, replicas=20) for p in PROBLEMS}
    show_each("mean, fresh noise", [f.error_percent.values for f in fresh.values()])

    options = {"replicas": 40 * BLOCK, "validate": 0, "progress": False}
    medians = blocks(ta.resolve("burgers", **options).error_percent.values)
    covered = blocks(ta.resolve("burgers", fit_forward="coarse", **options).covered.values)
    for label, of_block, overall in (
        ("median", np.median(medians, axis=1), np.median(medians)),
        ("coarse coverage", 100 * covered.mean(axis=1), 100 * covered.mean()),
    ):
        above = int((of_block > of_block[0]).sum())
        print(
            f"Burgers {label} in 40 blocks: {of_block.min():.3f} to {of_block.max():.3f}, "
            f"all together {overall:.3f}; {above} above the first block"
        )
    print(f"{int((np.median(medians, axis=1) >= 14.51).sum())} block medians are 14.51 or more")


if __name__ == "__main__":
    main()

"""Do confidence sets keep their level where the pipeline estimates nuisance parameters, too?

Two pipelines with a deliberate bias, on datasets with fresh noise each. A 90% set is made for each
dataset, and the share of sets that hold the truth is printed with its 95% binomial interval.

*Michaelis-Menten.* ``v = V S / (K + S)`` at ten concentrations; ``V`` is in question, ``K`` is a
nuisance parameter. The pipeline is nonlinear least squares with a penalty that pulls ``log K`` to
a wrong value, so that both answers are biased. Three ways to make the set:

- ``nuisance``: `K` is declared a nuisance parameter, which is what the library does with it;
- ``held``: `K` is held in forward and in the pipeline at what the pipeline made of the data;
- ``known``: `K` is held at its true value, which nobody knows outside a benchmark.

*Linear.* ``y = p x + a z``; ``p`` is in question, ``a`` is a nuisance parameter, and the pipeline
is ridge regression.

Beside the share of a nuisance parameter that is fitted stands what it should be to first order.
With the weights ``w`` of the data in the answer and the sensitivity ``z`` of the data to the
nuisance parameter, the coverage is, for many replicas,

    2 Phi(q |w| / |w - z (z w) / (z z)|) - 1   with   Phi(q) = 0.95,

which is never below the nominal 90%, and exact for the linear case.

    export OPENBLAS_NUM_THREADS=1
    python benchmarks/coverage_nuisance.py --out results/remedies/nuisance.txt

It takes about two minutes on one core.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, norm

import twoaxis as ta
from twoaxis.files import write_whole

FloatArray = NDArray[np.float64]

LEVEL = 0.9
SEED = 20261116

# ---------------------------------------------------------------- Michaelis-Menten

CONCENTRATION = np.geomspace(0.2, 5.0, 10)
RATE, CONSTANT, NOISE = 2.0, 1.0, 0.08
# The penalty: log K is pulled to twice its true value, with this standard deviation.
PULL, WIDTH = 2.0, 0.4
GRID = np.geomspace(0.05, 20.0, 600)


def saturation(constant: Any) -> FloatArray:
    """Return ``S / (K + S)``, with a leading axis for an array of constants."""
    return np.asarray(
        CONCENTRATION / (np.asarray(constant, dtype=float)[..., None] + CONCENTRATION)
    )


def fitted(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return V and K of datasets (m, n) by penalized least squares, V in closed form at every K."""
    shapes = saturation(GRID)
    along, square = values @ shapes.T, np.sum(shapes**2, axis=1)
    pulled = (np.log(GRID / PULL) / WIDTH) ** 2
    objective = -(along**2) / square / NOISE**2 + pulled
    best = np.clip(objective.argmin(axis=1), 1, len(GRID) - 2)
    rows = np.arange(len(values))
    left, middle, right = (objective[rows, best + k] for k in (-1, 0, 1))
    # The vertex of the parabola through the three lowest points, in log K.
    shift = 0.5 * (left - right) / np.maximum(left - 2 * middle + right, 1e-300)
    constant = np.exp(np.log(GRID[best]) + np.clip(shift, -1, 1) * np.log(GRID[1] / GRID[0]))
    shape = saturation(constant)
    return np.sum(values * shape, axis=1) / np.sum(shape**2, axis=1), constant


def estimate_both(values: FloatArray, _: Any) -> dict[str, FloatArray]:
    """Return what the pipeline makes of datasets (m, n)."""
    rate, constant = fitted(values)
    return {"V": rate, "K": constant}


def held_at(constant: float) -> Callable[[FloatArray, Any], dict[str, FloatArray]]:
    """Return the pipeline with K held."""
    shape = saturation(constant)
    return lambda values, _: {"V": values @ shape / (shape @ shape)}


def michaelis_menten(values: FloatArray, way: str, seed: int) -> ta.ConfidenceSet:
    """Make the set of V for one dataset."""
    parameters = {"V": ta.Parameter(bounds=(0.7, 6.0))}
    options: dict[str, Any] = {"candidates": 9, "seed": [SEED, seed], "progress": False}
    if way == "nuisance":
        parameters["K"] = ta.Parameter(nuisance=True, start=1.5, bounds=(0.05, 20.0))
        return ta.confidence_set(
            estimate_both,
            lambda V, K: V[:, None] * saturation(K),
            parameters,
            NOISE,
            values,
            vectorized=True,
            vectorized_pipeline=True,
            **options,
        )
    constant = CONSTANT if way == "known" else float(fitted(values[None])[1][0])
    shape = saturation(constant)
    return ta.confidence_set(
        held_at(constant),
        lambda V: V[:, None] * shape,
        parameters,
        NOISE,
        values,
        vectorized=True,
        vectorized_pipeline=True,
        **options,
    )


# ---------------------------------------------------------------- linear

TIMES = np.linspace(0.0, 1.0, 25)
DESIGN = np.column_stack([TIMES, np.exp(-2 * TIMES)])
SLOPE, AMOUNT, SPREAD, RIDGE = 1.5, 1.0, 0.25, 1.0
# What ridge regression makes of data: a row of weights for each parameter.
WEIGHTS = np.linalg.solve(DESIGN.T @ DESIGN + RIDGE * np.eye(2), DESIGN.T)


def linear(values: FloatArray, _: str, seed: int) -> ta.ConfidenceSet:
    """Make the set of p for one dataset."""
    wide: dict[str, Any] = {"bounds": (-2.0, 5.0), "coordinate": "linear", "scale": 1.0}
    return ta.confidence_set(
        lambda values, _: dict(zip(("p", "a"), WEIGHTS @ values.T, strict=True)),
        lambda p, a: np.column_stack([p, a]) @ DESIGN.T,
        {"p": ta.Parameter(**wide), "a": ta.Parameter(nuisance=True, start=0.0, **wide)},
        SPREAD,
        values,
        candidates=9,
        seed=[SEED, seed],
        vectorized=True,
        vectorized_pipeline=True,
        progress=False,
    )


# ---------------------------------------------------------------- all together


def first_order(weights: FloatArray, hidden: FloatArray) -> float:
    """Return the coverage for answers with these weights, and this nuisance sensitivity."""
    left = weights - hidden * (hidden @ weights) / (hidden @ hidden)
    ratio = np.linalg.norm(weights) / np.linalg.norm(left)
    return float(2 * norm.cdf(norm.ppf((1 + LEVEL) / 2) * ratio) - 1)


def michaelis_menten_coverage() -> float:
    """Return it for the nonlinear case, with derivatives at the data without noise."""
    clean, step = RATE * saturation(CONSTANT), 1e-3
    moved = clean + step * np.concatenate([np.eye(len(clean)), -np.eye(len(clean))])
    ahead, behind = np.split(fitted(moved)[0], 2)
    hidden = RATE * (saturation(CONSTANT + step) - saturation(CONSTANT - step)) / (2 * step)
    return first_order((ahead - behind) / (2 * step), hidden)


def measured(
    make: Callable[[FloatArray, str, int], ta.ConfidenceSet],
    clean: FloatArray,
    noise: float,
    truth: float,
    way: str,
    datasets: int,
) -> str:
    """Make a set for each of many datasets, and say how many hold the truth."""
    began = time.perf_counter()
    draws = np.random.default_rng([SEED, 1]).normal(size=(datasets, len(clean)))
    found = [make(clean + noise * draw, way, k) for k, draw in enumerate(draws)]
    held = sum(each.contains(truth) for each in found)
    ends = binomtest(held, datasets).proportion_ci(method="wilson")
    errors = [100 * (each.estimate / truth - 1) for each in found]
    width = float(np.median([each.width_percent for each in found]))
    still = sum(each.is_open for each in found)
    return (
        f"{way:<10}{held:>5} of {datasets}{held / datasets:>8.1%}"
        f"  [{ends.low:.1%}, {ends.high:.1%}]"
        f"{np.mean(errors):>+9.1f}%{width:>9.1f}%{still:>6}{time.perf_counter() - began:>8.1f} s"
    )


def main() -> None:
    """Print the coverage of both cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=int, default=400)
    parser.add_argument("--quick", action="store_true", help="three datasets, for a check")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.quick:
        options.datasets = 3
    clean = RATE * saturation(CONSTANT)
    head = "set          truth held     share  95% interval    bias    width  open    time"
    lines = [
        f"90% sets with a nuisance parameter, {options.datasets} datasets; Python "
        f"{platform.python_version()}, NumPy {version('numpy')}",
        "",
        f"Michaelis-Menten: V = {RATE:g} in question, K = {CONSTANT:g} a nuisance parameter; "
        f"first order {michaelis_menten_coverage():.1%}",
        head,
        *(
            measured(michaelis_menten, clean, NOISE, RATE, way, options.datasets)
            for way in ("nuisance", "held", "known")
        ),
        "",
        f"Linear, ridge regression: first order {first_order(WEIGHTS[0], DESIGN[:, 1]):.1%}",
        head,
        measured(linear, DESIGN @ [SLOPE, AMOUNT], SPREAD, SLOPE, "nuisance", options.datasets),
    ]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if options.out is not None:
        write_whole(options.out, lambda path: path.write_text(text))


if __name__ == "__main__":
    main()

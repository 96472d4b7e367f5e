"""Axis 1: the 2,400-fit reference beside the obvious loop, in one run.

The obvious loop fits one dataset a call of ``scipy.optimize.minimize_scalar`` and solves the
equation once an evaluation. It would take many minutes, so a sample of datasets is
fitted and the time of one is scaled to 2,400. Our time is that of the whole reference, banks,
Fisher information, profile sets and bank checks included.

    python benchmarks/resolution.py            # 12 sampled loop fits a problem
    python benchmarks/resolution.py --quick    # 1 sampled loop fit a problem
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.optimize import minimize_scalar

import twoaxis as ta
from twoaxis.datasets import fresh_dataset
from twoaxis.forward import get_solver
from twoaxis.problems import SCALAR_BENCHMARKS, EvolutionProblem

LAYOUTS = (8, 9, 10, 11)
REPLICAS = 200


def loop_fit(problem: EvolutionProblem, layout: int, replica: int) -> tuple[float, int, float]:
    """Fit one dataset the obvious way; return seconds, solves and the estimate."""
    solver = get_solver(problem)
    ((name, parameter),) = problem.parameters.items()
    data = fresh_dataset(problem, layout=layout, replica=replica)

    def misfit(q: float) -> float:
        predicted = solver.at_sites(data.sites, **{name: np.exp(q)})[0]
        total = float(np.sum((data.values - predicted) ** 2))
        return total if np.isfinite(total) else 1e12

    start = time.perf_counter()
    found = minimize_scalar(misfit, bounds=parameter.coordinate_bounds, method="bounded")
    return time.perf_counter() - start, found.nfev, float(np.exp(found.x))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    sample = 1 if parser.parse_args().quick else 12
    ours_total = loop_total = 0.0
    print(f"{'problem':18}{'ours, 800 fits':>16}{'loop, a fit':>14}{'solves':>8}{'ratio':>8}")
    for problem in SCALAR_BENCHMARKS:
        get_solver(problem).true_field()  # both sides find the data ready
        start = time.perf_counter()
        ta.resolve(problem, layouts=LAYOUTS, replicas=REPLICAS, progress=False)
        ours = time.perf_counter() - start
        fits = [loop_fit(problem, LAYOUTS[k % 4], k // 4) for k in range(sample)]
        one = float(np.mean([seconds for seconds, *_ in fits]))
        solves = float(np.mean([count for _, count, _ in fits]))
        loop = one * len(LAYOUTS) * REPLICAS
        print(f"{problem.name:18}{ours:14.2f} s{one:12.3f} s{solves:8.1f}{loop / ours:7.0f}x")
        ours_total += ours
        loop_total += loop
    print(
        f"whole reference: {ours_total:.2f} s; the loop, scaled from {3 * sample} fits, "
        f"{loop_total:.0f} s; {loop_total / ours_total:.0f} times faster"
    )


if __name__ == "__main__":
    main()

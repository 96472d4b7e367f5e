"""Axis 2: what a score, a scan and a spectrum cost, and how the score grows with N.

The field is the true Burgers solution, read between its nodes by a spline, so that the
residual is that of a real field. First every view at 2,000 points: milliseconds, and the same
as multiples of the pointwise score in this run. Then the score under the full-rank Gaussian
view, binding included, against the number of points, beside the dense formula at 10^4. The
exponent says how time and memory grow from one row to the next: 1 is linear, 2 quadratic.

    python benchmarks/geometry.py            # N = 10^4, 10^5, 10^6
    python benchmarks/geometry.py --quick    # N = 10^3, 10^4; every view at 1,000 points

BLAS threads that compete for busy cores can slow every row; with OPENBLAS_NUM_THREADS=1 the
numbers are steady.
"""

from __future__ import annotations

import argparse
import math
import time
import tracemalloc
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RectBivariateSpline
from scipy.spatial.distance import cdist

import twoaxis as ta
from twoaxis import views
from twoaxis.forward import get_solver
from twoaxis.problems import BURGERS

FloatArray = NDArray[np.float64]
NU = dict(BURGERS.parameters)
TRUTH = 0.01
POINTS, QUICK_POINTS = 2_000, 1_000
DENSE_POINTS = 10_000


@cache
def spline() -> RectBivariateSpline:
    """Return the true solution as a smooth function of (x, t)."""
    solver = get_solver("burgers")
    return RectBivariateSpline(solver.x, solver.t, solver.true_field().T)


def frozen_field(size: int) -> tuple[Callable[[float], FloatArray], FloatArray]:
    """Return the Burgers residual of the true field at random points, and the points."""
    xt = np.random.default_rng(0).uniform([-1.0, 0.0], [1.0, 1.0], (size, 2))
    u = spline().ev(*xt.T)
    u_x, u_t, u_xx = (spline().ev(*xt.T, dx=i, dy=j) for i, j in ((1, 0), (0, 1), (2, 0)))
    return (lambda nu: BURGERS.residual(u=u, u_t=u_t, u_x=u_x, u_xx=u_xx, nu=nu)), xt


def views_of(size: int) -> dict[str, views.View]:
    """Return one of every kind; the dense matrix is that of the patch view."""
    _, points = frozen_field(size)
    return {
        "pointwise": views.Pointwise(),
        "weighted": views.Weighted(loss_weights=np.linspace(0.1, 1.0, size)),
        "patch": views.Patch(cells=8),
        "Gaussian, rank 64": views.Gaussian(rank=64),
        "Gaussian": views.Gaussian(),
        "dense": views.Dense(views.Patch(cells=8).bind(points).matrix()),
        "two blocks": views.Blocks([views.Patch(cells=8), views.Pointwise()]),
    }


def best(call: Callable[[], Any], repeats: int = 5) -> float:
    """Return the least seconds of some calls, fewer where one takes long."""
    seconds: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
        if sum(seconds) > 1.0:
            break
    return min(seconds)


def timed_row(
    residual: Callable[[float], Any], view: views.View, points: FloatArray
) -> list[float]:
    """Return the seconds of each column of the first table."""
    bound = view.bind(points)
    given = {"parameters": NU, "view": bound, "points": points}
    return [
        best(lambda: view.bind(points)),
        best(lambda: ta.score(residual, **given)),
        best(lambda: ta.frozen_scan(residual, **given)),
        best(lambda: ta.frozen_scan(lambda nu: residual(nu * (1 + nu)), **given)),
        best(lambda: ta.spectrum(residual, **given), repeats=1),
    ]


def print_views(size: int) -> None:
    residual, points = frozen_field(size)
    both = {"two blocks": lambda nu: (residual(nu), 0.1 * residual(nu))}
    rows = {
        name: timed_row(both.get(name, residual), view, points)
        for name, view in views_of(size).items()
    }
    unit = rows["pointwise"][1]
    heads = ("bind", "score", "scan", "bent scan", "spectrum")
    title = f"{size:,} points"
    for head, scale, digits in (("milliseconds", 1e3, 2), ("pointwise scores", 1 / unit, 1)):
        print(f"{title + ', ' + head:34}" + "".join(f"{h:>12}" for h in heads))
        for name, seconds in rows.items():
            print(f"{name:34}" + "".join(f"{s * scale:12,.{digits}f}" for s in seconds))
        print()
    print(
        "score: the view bound already; scan: 81\n"
        "candidates of an affine residual, in closed form; bent scan: the same of one that is\n"
        "not affine, each candidate evaluated; spectrum: all modes.\n"
    )


def dense_score(residual: Callable[[float], FloatArray], points: FloatArray) -> float:
    """Return D by the formula written out, all N^2 entries of the kernel at once."""
    c = (points - points.min(axis=0)) / np.ptp(points, axis=0)
    kernel = cdist(c, c, "sqeuclidean")
    kernel *= -0.5 / views.DEFAULT_BANDWIDTH**2
    np.exp(kernel, out=kernel)
    kernel /= kernel.sum()
    step = 1e-3
    J = (residual(TRUTH * np.exp(step)) - residual(TRUTH * np.exp(-step))) / (2 * step)
    return float(-(J @ kernel @ residual(TRUTH)) / (J @ kernel @ J))


def fast_score(residual: Callable[[float], FloatArray], points: FloatArray) -> float:
    found = ta.score(residual, NU, views.Gaussian(), points=points)
    return found.displacement["nu"]


def measure(
    method: Callable[[Callable[[float], FloatArray], FloatArray], float], size: int
) -> tuple[float, float, float]:
    """Return seconds, peak megabytes beyond the residual and its points, and D."""
    residual, points = frozen_field(size)
    seconds = best(lambda: method(residual, points), repeats=3)
    tracemalloc.start()  # apart from the times, which tracing slows
    D = method(residual, points)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return seconds, peak, D


def print_growth(sizes: list[int]) -> None:
    heads = ("N", "seconds", "exponent", "peak MB", "exponent", "bytes/N", "D")
    title = "score, Gaussian view of full rank"
    print(f"{title:34}" + "".join(f"{head:>11}" for head in heads))
    before: tuple[int, float, float] | None = None
    for size in sizes:
        seconds, peak, D = measure(fast_score, size)
        powers = ["", ""]
        if before is not None:
            decades = math.log(size / before[0])
            powers = [
                f"{math.log(now / then) / decades:.2f}"
                for now, then in ((seconds, before[1]), (peak, before[2]))
            ]
        print_row("twoaxis", size, seconds, peak, D, powers)
        before = size, seconds, peak
    print_row("dense formula", DENSE_POINTS, *measure(dense_score, DENSE_POINTS), ["", ""])


def print_row(
    name: str, size: int, seconds: float, peak: float, D: float, powers: list[str]
) -> None:
    print(
        f"{name:34}{size:11,}{seconds:11.4f}{powers[0]:>11}{peak:11.1f}{powers[1]:>11}"
        f"{peak * 2**20 / size:11,.0f}{D:11.6f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    print_views(QUICK_POINTS if quick else POINTS)
    print_growth([1_000, 10_000] if quick else [10_000, 100_000, 1_000_000])


if __name__ == "__main__":
    main()

"""The Gaussian view against the number of points, beside the dense formula, in one run.

For N two-dimensional points: binding (which sums the kernel), one quadratic form and one
product, in seconds and in peak memory beyond the points themselves. The dense formula
evaluates all N^2 entries and is run where they fit. Growth is the factor of time from one
row to the next: ten points for one should take ten times as long, not a hundred.

    python benchmarks/views.py            # N = 10^4, 10^5, 10^6; dense at 10^4
    python benchmarks/views.py --quick    # N = 10^3, 10^4, 10^5; dense at 10^3

BLAS threads that compete for busy cores can slow every row; with OPENBLAS_NUM_THREADS=1 the
numbers are steady.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from twoaxis.views import DEFAULT_BANDWIDTH, Gaussian, Patch, Pointwise, View

FloatArray = NDArray[np.float64]
Measured = tuple[float, float, float, FloatArray]


def dense_formula(points: FloatArray, r: FloatArray) -> tuple[float, FloatArray]:
    c = (points - points.min(axis=0)) / np.ptp(points, axis=0)
    squares = np.zeros((len(c), len(c)))
    for column in c.T:
        squares += np.subtract.outer(column, column) ** 2
    K = np.exp(squares / (-2 * DEFAULT_BANDWIDTH**2))
    product = K @ r / K.sum()
    return float(r @ product), product


def through(view: View) -> Callable[[FloatArray, FloatArray], tuple[float, FloatArray]]:
    def evaluate(points: FloatArray, r: FloatArray) -> tuple[float, FloatArray]:
        bound = view.bind(points)
        return float(bound.quadratic(r, r)), bound.apply(r)

    return evaluate


def measure(
    evaluate: Callable[[FloatArray, FloatArray], tuple[float, FloatArray]], size: int
) -> Measured:
    """Return the best of three times, peak memory in MB, the loss and the product."""
    rng = np.random.default_rng(0)
    points, r = rng.random((size, 2)), rng.standard_normal(size)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        loss, product = evaluate(points, r)
        seconds.append(time.perf_counter() - start)
    # Apart from the times, which tracing slows.
    tracemalloc.start()
    evaluate(points, r)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return min(seconds), peak, loss, product


def print_growth(view: View, sizes: list[int]) -> Measured:
    """Print a row for each size, and return what the smallest one gave."""
    first: Measured | None = None
    before = None
    for size in sizes:
        found = measure(through(view), size)
        first = first or found
        growth = "" if before is None else f"{found[0] / before:8.1f}x"
        per_point = found[1] * 2**20 / size
        print(
            f"{view.describe():40}{size:>10,}{found[0]:10.4f} s{growth:>9}"
            f"{found[1]:9.1f} MB{per_point:8.0f} B"
        )
        before = found[0]
    assert first is not None
    return first


def print_shares(size: int = 2000, draws: int = 100) -> None:
    """Print which share of the pointwise loss is seen of residuals without patch means."""
    rng = np.random.default_rng(0)
    points, r = rng.random((size, 2)), rng.standard_normal((size, draws))
    _, indicators = Patch().bind(points).eigenpairs()
    r -= indicators @ (indicators.T @ r)  # the means of the cells
    pointwise = np.diag(Pointwise().bind(points).quadratic(r, r))
    print(f"\nwhite residuals with zero mean in every patch, {size:,} points: share of the")
    print(f"pointwise loss that is seen, mean of {draws} draws")
    views = [
        Patch(),
        *(Gaussian(rank=k, normalize=n) for n in ("sum", "trace") for k in (64, None)),
    ]
    for view in views:
        share = np.mean(np.diag(view.bind(points).quadratic(r, r)) / pointwise)
        divisor = f"K / {view.normalize}(K)" if isinstance(view, Gaussian) else ""
        print(f"{view.describe().split(', divided')[0]:50}{divisor:15}{100 * share:10.3g} %")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    sizes = [10**k for k in ((3, 4, 5) if parser.parse_args().quick else (4, 5, 6))]
    print(f"{'view':40}{'N':>10}{'time':>12}{'growth':>9}{'memory':>12}{'a point':>10}")
    for plain in (Pointwise(), Patch()):
        print_growth(plain, sizes)
    first = print_growth(Gaussian(), sizes)
    dense = measure(dense_formula, sizes[0])
    print(f"{'dense formula':40}{sizes[0]:>10,}{dense[0]:10.4f} s{'':9}{dense[1]:9.1f} MB")
    print(
        f"\ndense formula / Gaussian view at N = {sizes[0]:,}: {dense[0] / first[0]:.0f} times the "
        f"time, {dense[1] / first[1]:.0f} times the memory"
    )
    loss = abs(first[2] / dense[2] - 1)
    product = float(np.abs(first[3] - dense[3]).max() / np.abs(dense[3]).max())
    print(f"they agree: loss to {loss:.1e} relative, product to {product:.1e} of its largest entry")

    print(f"\n{'leading 64 eigenpairs (Gaussian, rank 64)':50}{'N':>10}{'time':>12}{'growth':>9}")
    before = None
    for size in sizes:
        points = np.random.default_rng(0).random((size, 2))
        start = time.perf_counter()
        Gaussian(rank=64).bind(points)
        seconds = time.perf_counter() - start
        growth = "" if before is None else f"{seconds / before:8.1f}x"
        print(f"{'':50}{size:>10,}{seconds:10.2f} s{growth:>9}")
        before = seconds
    print_shares()


if __name__ == "__main__":
    main()

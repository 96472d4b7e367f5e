"""Axis 1 with a slow simulator: model runs and times of the interpolant beside direct fits.

Two parts, both as ratios inside one run:

* an oscillator with two unknowns whose every call sleeps for 10 ms: `resolve` with 200 replicas on
  one layout, on the interpolant and by direct fits of every replica. Direct fits of a sample of
  replicas are timed and scaled;
* Lorenz with three unknowns, an ODE integrated in Python: model runs of `resolve`, of
  `audit(data=)`, and of the profile sets when every end is searched up to its bound over 32
  values (--quick: 2) with full refits, as a scan for gaps would.

Model runs are exact counts and do not depend on the machine.

    python benchmarks/slow_simulator.py            # 200 replicas, 10 ms
    python benchmarks/slow_simulator.py --quick    # 40 replicas, 1 ms
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import twoaxis as ta
from twoaxis.resolution.data_fit import DataFit, LiveModel, Observed

FloatArray = NDArray[np.float64]

TIMES = np.linspace(0, 10, 80)


class Counted:
    """A forward model that counts its calls and waits in each."""

    def __init__(self, forward: Callable[..., FloatArray], seconds: float = 0.0) -> None:
        self.forward, self.seconds, self.runs = forward, seconds, 0

    def __call__(self, **values: float) -> FloatArray:
        """Solve the model once."""
        self.runs += 1
        time.sleep(self.seconds)
        return self.forward(**values)

    def since(self, before: int) -> int:
        """Return the number of calls after the first `before`."""
        return self.runs - before


def oscillation(omega: float, zeta: float) -> FloatArray:
    damped = omega * np.sqrt(1 - zeta**2)
    return np.asarray(np.exp(-zeta * omega * TIMES) * np.cos(damped * TIMES))


def lorenz(sigma: float, rho: float, beta: float) -> FloatArray:
    """Integrate to time 1.5 by the classical Runge-Kutta method, 30 states."""

    def rate(s: FloatArray) -> FloatArray:
        x, y, z = s
        return np.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])

    state, step, kept = np.ones(3), 0.01, []
    for number in range(150):
        k1 = rate(state)
        k2 = rate(state + step / 2 * k1)
        k3 = rate(state + step / 2 * k2)
        k4 = rate(state + step * k3)
        state = state + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        if number % 5 == 4:
            kept.append(state)
    return np.array(kept)


def two_parameters(replicas: int, seconds: float, sample: int) -> None:
    unknown = {
        "omega": ta.Parameter(truth=2.0, bounds=(0.5, 8.0)),
        "zeta": ta.Parameter(truth=0.1, bounds=(0.01, 0.9)),
    }
    print(f"oscillator, 2 parameters, {1e3 * seconds:g} ms a run, {replicas} replicas")
    ta.resolve(oscillation, unknown, 0.08, replicas=20, progress=False)  # imports
    model = Counted(oscillation, seconds)
    start = time.perf_counter()
    ours = ta.resolve(model, unknown, 0.08, replicas=replicas, seed=0, progress=False)
    spent = time.perf_counter() - start
    start = time.perf_counter()
    few = ta.resolve(model, unknown, 0.08, replicas=sample, method="direct", progress=False)
    one = (time.perf_counter() - start) / few.model_runs
    plain = Counted(oscillation)
    every = ta.resolve(
        plain, unknown, 0.08, replicas=replicas, seed=0, method="direct", progress=False
    )
    direct = one * every.model_runs
    moved = 100 * np.abs(ours.estimate - every.estimate) / every.data["center"]
    largest = float((moved / every.data["fisher_sd_percent"]).max())
    stored = ours.data.attrs["interpolant_check_standard_errors"]
    print(f"  {'interpolant':14}{ours.model_runs:8,} runs {spent:8.1f} s")
    print(f"  {'direct':14}{every.model_runs:8,} runs {direct:8.1f} s (at the time of one run)")
    fewer, faster = every.model_runs / ours.model_runs, direct / spent
    print(f"  {fewer:.0f} times fewer runs, {faster:.0f} times faster")
    print(f"  differences in standard errors: {stored:.1e} in the result, {largest:.1e} over all")


def three_parameters(replicas: int, values: int) -> None:
    unknown = {
        "sigma": ta.Parameter(truth=10.0, delivered=10.5, bounds=(5.0, 20.0)),
        "rho": ta.Parameter(truth=28.0, delivered=28.2, bounds=(14.0, 40.0)),
        "beta": ta.Parameter(truth=8 / 3, delivered=2.6, bounds=(1.0, 6.0)),
    }
    data = lorenz(10.0, 28.0, 8 / 3) + np.random.default_rng(0).standard_normal((30, 3))
    model = Counted(lorenz)
    print(f"Lorenz, 3 parameters, {replicas} replicas")
    found = ta.resolve(model, unknown, 1.0, replicas=replicas, seed=0, progress=False)
    before = model.runs
    x, y, z = lorenz(10.5, 28.2, 2.6).T  # a field that satisfies the delivered equations

    def residual(sigma: float, rho: float, beta: float) -> FloatArray:
        return np.ravel([(10.5 - sigma) * (y - x), x * (28.2 - rho), (beta - 2.6) * z])

    ta.audit(
        residual,
        unknown,
        ta.views.Pointwise(),
        points=np.tile(np.linspace(0.05, 1.5, 30), 3)[:, None],
        resolution=found,
        data=data,
        tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
    )
    audited = model.since(before)
    live = found.live
    assert live is not None
    observed = live.observed(data, None)
    fit = live.fit(observed, progress=False)
    before = model.runs
    live.fit(observed, progress=False)
    fitted = model.since(before)
    before = model.runs
    scanned(live, observed, fit, values)
    print(f"  {'resolve':34}{found.model_runs:8,} runs")
    print(f"  {'audit(data=)':34}{audited:8,} runs")
    print(f"  {'  of which the fit and its sets':34}{fitted:8,} runs")
    print(f"  {f'six ends of sets, {values} values each':34}{model.since(before):8,} runs")


def scanned(live: LiveModel, observed: Observed, fit: DataFit, values: int) -> None:
    """Refit along every profile from the estimate to both bounds."""
    estimate = fit.fits.estimate[0]
    estimator, layout = live.estimator, observed.layout
    row = layout.row(observed.values)
    for column in range(len(estimate)):
        for bound in (bounds[column] for bounds in live.setup.bounds):
            start = np.tile(estimate, (values, 1))
            start[:, column] += (bound - estimate[column]) * np.linspace(0, 1, values + 1)[1:]
            free = np.arange(len(estimate)) != column
            estimator.refit(layout, np.tile(row, (values, 1)), start, np.tile(free, (values, 1)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    two_parameters(40 if quick else 200, 0.001 if quick else 0.01, 2 if quick else 8)
    three_parameters(20 if quick else 200, 2 if quick else 32)


if __name__ == "__main__":
    main()

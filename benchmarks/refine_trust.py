"""Does *trusted* mean what a user reads in it, and do intervals of unknown noise hold the truth?

*Coverage.* Logistic growth from an unknown start at 8, 12 and 40 readings of unknown noise: the
share of 95% intervals that hold the rate, over datasets with fresh noise each.

*Wrong.* Refinements that end, or begin, where the answer is wrong: an oscillator started at other
frequencies, with the noise declared and not; the wrong equation (logistic growth with a square, a
pendulum of large amplitude without its sine); and noise that is correlated from reading to
reading. A value is wrong where it is more than three reported standard errors from the truth. None
of those may be trusted. The best fit of the wrong equations is off by 1.3 and 1.4 noise levels
(RMS).

*Hidden.* The wrong equations again, off by 0.44 and 0.96 noise levels, which the data can hardly
show or not at all: how often a residual check still sees it.

*Right.* The same problems with the right equation and independent noise, started elsewhere: the
share that is refused.

    python benchmarks/refine_trust.py --workers 2 --out results/refine/trust.txt
    python benchmarks/refine_trust.py --quick      # two of each, and few steps
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from scipy.integrate import solve_ivp
from scipy.stats import beta

import twoaxis as ta
from twoaxis.files import write_whole
from twoaxis.gauss_newton import Continuation

WRONG = 3.0  # standard errors
QUICK = Continuation(first=10, free=1e2, plateau=1e3, last=1e3, steps=2, free_steps=3, more=1)


class Case(NamedTuple):
    """A refinement: an equation, where it starts, the data and what is said of their noise."""

    kind: str
    equation: Callable[..., Any]
    truth: float
    start: float
    bounds: tuple[float, float]
    times: np.ndarray
    data: np.ndarray
    noise: float | None
    seed: int


def slope(u, t):
    return torch.autograd.grad(u.sum(), t, create_graph=True)[0]


def oscillator(model, t, p):
    u = model(t)
    return slope(slope(u, t), t) + p**2 * u


def pendulum(model, t, p):
    u = model(t)
    return slope(slope(u, t), t) + p * torch.sin(u)


def without_sine(model, t, p):
    u = model(t)
    return slope(slope(u, t), t) + p * u


def logistic(model, t, p):
    u = model(t)
    return slope(u, t) - p * u * (1 - u)


def with_square(model, t, p):
    u = model(t)
    return slope(u, t) - p * u * (1 - u**2)


def noise_of(seed: int, count: int, correlation: float = 0.0) -> np.ndarray:
    """Return noise of variance one, each reading correlated with the one before."""
    white = np.random.default_rng(seed).standard_normal(count)
    for k in range(1, count):
        white[k] = correlation * white[k - 1] + np.sqrt(1 - correlation**2) * white[k]
    return white


def growth(t):
    return 1 / (1 + 9 * np.exp(-1.5 * t))


def swing(t):
    rates = lambda _, y: (y[1], -4 * np.sin(y[0]))  # noqa: E731
    return solve_ivp(rates, (0, t[-1]), (2.5, 0.0), t_eval=t, rtol=1e-9, atol=1e-11).y[0]


def growing(kind, equation, seed, count=40, correlation=0.0, start=1.0, noise=None, size=0.03):
    t = np.linspace(0, 6, count)
    data = growth(t) + size * noise_of(seed, count, correlation)
    return Case(kind, equation, 1.5, start, (0.1, 20.0), t, data, noise, seed)


def swinging(kind, equation, seed, start=3.0, size=0.1):
    t = np.linspace(0, 4, 40)
    data = swing(t) + size * noise_of(seed, 40)
    return Case(kind, equation, 4.0, start, (0.2, 50.0), t, data, None, seed)


def ringing(kind, seed, start, noise=None):
    t = np.linspace(0, 3, 30)
    data = np.sin(3 * t) + 0.3 * noise_of(seed, 30)
    return Case(kind, oscillator, 3.0, start, (0.3, 12.0), t, data, noise, seed)


def coverage_cases(datasets: int) -> list[Case]:
    return [
        growing(f"{count} readings", logistic, 10_000 * count + k, count=count, start=1.2)
        for count in (8, 12, 40)
        for k in range(datasets)
    ]


def wrong_cases(runs: int) -> list[Case]:
    starts = np.array([0.5, 0.8, 1.2, 2.0, 4.5, 6.0, 8.0, 10.0])
    kinds: list[Callable[[int], Case]] = [
        lambda k: ringing("another basin, noise unknown", 100 + k, starts[k % 8]),
        lambda k: ringing("another basin, noise declared", 200 + k, starts[k % 8], noise=0.3),
        lambda k: growing("wrong equation, growth", with_square, 300 + k, size=0.01),
        lambda k: swinging("wrong equation, pendulum", without_sine, 400 + k, size=0.07),
        lambda k: growing("correlated noise, growth", logistic, 500 + k, correlation=0.9),
    ]
    return [make(k) for make in kinds for k in range(runs // len(kinds))]


def hidden_cases(runs: int) -> list[Case]:
    kinds: list[Callable[[int], Case]] = [
        lambda k: growing("hidden, growth", with_square, 1000 + k),
        lambda k: swinging("hidden, pendulum", without_sine, 1100 + k),
    ]
    return [make(k) for make in kinds for k in range(runs // len(kinds))]


def right_cases(runs: int) -> list[Case]:
    kinds: list[Callable[[int], Case]] = [
        lambda k: growing("right, growth", logistic, 600 + k, start=0.5 + 0.2 * (k % 10)),
        lambda k: growing("right, growth, noise declared", logistic, 700 + k, noise=0.03),
        lambda k: swinging("right, pendulum", pendulum, 800 + k, start=2.0 + 0.5 * (k % 8)),
        lambda k: ringing("right, oscillator", 900 + k, 2.6 + 0.1 * (k % 10)),
    ]
    return [make(k) for make in kinds for k in range(runs // len(kinds))]


def refined(case: Case, quick: bool) -> tuple[str, float, float, bool, bool, list[str]]:
    """Return the kind, value, distance from the truth, whether held and trusted, and why not."""
    torch.set_num_threads(1)
    torch.manual_seed(case.seed)
    layers = [torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 16), torch.nn.Tanh()]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(16, 1)).double()
    frozen = ta.from_torch(
        net,
        case.equation,
        {"p": ta.Parameter(delivered=float(case.start), bounds=case.bounds)},
        points=np.linspace(0, case.times[-1], 100)[:, None],
        observed=case.times[:, None],
    )
    plan = QUICK if quick else None
    found = ta.refine(frozen, case.data, noise=case.noise, continuation=plan, progress=False)
    value, (low, high) = found.values["p"], found.interval["p"]
    off = abs(value - case.truth) / found.standard_error["p"]
    codes = [m.code for m in found.messages if m.severity == "warning"]
    return case.kind, value, off, low <= case.truth <= high, found.trusted, codes


def share(count: int, total: int) -> str:
    """Return a share with its 95% interval of Clopper and Pearson."""
    low = beta.ppf(0.025, count, total - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, total - count) if count < total else 1.0
    return f"{count} of {total} ({100 * count / total:.1f}% [{100 * low:.1f}, {100 * high:.1f}])"


def report(rows) -> list[str]:
    lines = []
    for kind in dict.fromkeys(row[0] for row in rows):
        some = [row for row in rows if row[0] == kind]
        count = len(some)
        wrong = [row for row in some if row[2] > WRONG]
        lines += [
            f"{kind}:",
            f"  truth in the 95% interval  {share(sum(r[3] for r in some), count)}",
            f"  trusted                    {share(sum(r[4] for r in some), count)}",
            f"  wrong                      {share(len(wrong), count)}",
            f"  wrong and trusted          {share(sum(r[4] for r in wrong), count)}",
        ]
        why = Counter(code for row in some for code in row[5])
        lines += [f"  {code:26s} {number}" for code, number in why.most_common()]
    return lines


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--datasets", type=int, default=200, help="of each number of readings")
    options.add_argument("--runs", type=int, default=100, help="wrong ones, and as many right ones")
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--quick", action="store_true", help="two of each, and few steps")
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    datasets, runs = (1, 4) if given.quick else (given.datasets, given.runs)
    began = time.perf_counter()
    few = max(runs // 5, 2)
    cases = (
        coverage_cases(datasets),
        wrong_cases(max(runs, 5)),
        right_cases(runs),
        hidden_cases(2 * few),
    )
    every = [case for group in cases for case in group]
    with ProcessPoolExecutor(given.workers, mp_context=get_context("fork")) as pool:
        rows = list(pool.map(partial(refined, quick=given.quick), every))
    lines = ["command: python benchmarks/refine_trust.py", ""]
    ends = np.cumsum([0, *map(len, cases)])
    for name, first, last in zip(
        ("Coverage", "Wrong", "Right", "Hidden"), ends, ends[1:], strict=False
    ):
        lines += [name, *report(rows[first:last]), ""]
    wrong = [row for row in rows[ends[1] : ends[2]] if row[2] > WRONG]
    right = rows[ends[2] : ends[3]]
    lines += [
        f"wrong and trusted: {share(sum(row[4] for row in wrong), int(ends[2] - ends[1]))}",
        f"right and refused: {share(sum(not row[4] for row in right), len(right))}",
        f"{len(every)} refinements in {time.perf_counter() - began:.0f} s, {given.workers} workers",
    ]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if given.out is not None:
        write_whole(given.out, lambda path: path.write_text(text))


if __name__ == "__main__":
    main()

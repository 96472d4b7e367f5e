"""Polishing: how far the delivery gap of early-stopped and of full trainings closes.

First inverse PINNs that were stopped too early, trained here (a network of three hidden layers of
32, 800 residual points): the delivery gap, the same after joint finishing by L-BFGS on the same
loss, and what became of the parameter's error, which is another matter. Then full trainings of
5,000 steps from a store of runs, where there is one: how large their gaps are (the parameter alone,
field held), and joint finishing of the first run of each problem and method.

    python benchmarks/remedies_polish.py --out results/remedies/polish.txt
    python benchmarks/remedies_polish.py --quick      # few steps and iterations

A gap is delivered minus preferred, in percent of what the field prefers under its training view.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import jax
import numpy as np
import scipy

from twoaxis.files import write_whole
from twoaxis.remedies import Polish, polish
from twoaxis.runs import Run, RunStore, train
from twoaxis.runs.objective import run_objective
from twoaxis.training import Network
from twoaxis.version import __version__

PROBLEMS = ("burgers", "buckley-leverett", "allen-cahn")
METHODS = ("adam", "rba")
COLUMNS = (
    f"{'problem':17} {'method':9} {'steps':>5} {'delivered':>10} {'preferred':>10} "
    f"{'finished':>10} {'gap':>9} {'after':>9} {'closed':>7} {'loss fall':>9} "
    f"{'gradient':>17} {'iterations':>10} {'error':>8} {'after':>8} {'seconds':>7}"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--store", type=Path, default=Path("reproduction/fields"))
    options = parser.parse_args()
    lines: list[str] = []

    def say(line: str = "") -> None:
        print(line, flush=True)
        lines.append(line)

    header(say)
    early_stopped(say, options.quick)
    if options.store.is_dir():
        full_runs(say, RunStore(options.store), options.quick)
    else:
        say(f"no store of full runs at {options.store}")
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        text = "\n".join(lines) + "\n"
        write_whole(options.out, lambda path: path.write_text(text, "utf-8"))


def header(say: Any) -> None:
    say(f"command: python {' '.join(sys.argv)}")
    say(
        f"twoaxis {__version__}, JAX {jax.__version__}, SciPy {scipy.__version__}, Python "
        f"{platform.python_version()}; device: {jax.devices()[0].platform}, float64"
    )


def early_stopped(say: Any, quick: bool) -> None:
    say("\nStopped early (network 32 x 3, 800 residual points, dataset 8, joint finishing)")
    say(COLUMNS)
    found = []
    for problem in PROBLEMS[:1] if quick else PROBLEMS:
        for method in METHODS[:1] if quick else METHODS:
            for steps in (50,) if quick else (300, 1000):
                run = train(
                    problem, method=method, datasets=8, seeds=0, steps=steps, progress=False,
                    network=Network(32, 3), residual_points=800,
                )[0]  # fmt: skip
                found.append(polished(say, run, 20 if quick else 300))
    closing(say, found)


def full_runs(say: Any, store: RunStore, quick: bool) -> None:
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    keys = store.keys()
    for key in keys:
        problem = next((p for p in PROBLEMS if key.startswith(p)), None)
        if problem is not None:
            groups[problem, key[len(problem) + 1 :].split("-d")[0]].append(key)
    count = 2 if quick else 10
    say(f"\nFull trainings of the store: size of the gap, {count} runs spread over each group")
    say(f"{'problem':17} {'method':12} {'median':>8} {'largest':>8}  within 1%  no minimum")
    for (problem, method), own in sorted(groups.items()):
        some = [own[k] for k in np.unique(np.linspace(0, len(own) - 1, count).astype(int))]
        gaps = [polish(store.load(key)).gap_before for key in some]
        sizes = np.array([max(map(abs, gap.values())) for gap in gaps if gap is not None])
        within = f"{int((sizes <= 1).sum())} of {len(sizes)}"
        none = len(gaps) - len(sizes)
        say(
            f"{problem:17} {method:12} {np.median(sizes):7.3f}% {sizes.max():7.3f}%  "
            f"{within:>9}  {none:10}"
        )
    say("\nFull trainings: joint finishing of the first run of each group (network 64 x 3)")
    say(COLUMNS)
    found = []
    for (_, method), own in sorted(groups.items()):
        if method in ("rba", "pcgrad"):
            found.append(polished(say, store.load(own[0]), 5 if quick else 150))
            if quick:
                break
    closing(say, found)


def polished(say: Any, run: Run, iterations: int) -> Polish:
    start = time.perf_counter()
    found = polish(run, run_objective(run), iterations=iterations, progress=False)
    seconds = time.perf_counter() - start
    finish, (name,) = found.finish, run.problem.parameters
    assert finish is not None

    def shown(values: dict[str, float] | None, form: str, unit: str = "") -> str:
        return "none" if values is None else format(values[name], form) + unit

    fall = format(found.loss_fall_percent, ".1f") + "%"
    gradient = f"{finish.gradient_before:.1e} {finish.gradient_after:.1e}"
    say(
        f"{run.problem.name:17} {run.settings.method.name:9} {run.final.step:5} "
        f"{shown(found.delivered, '10.5g')} {shown(found.frozen_minimum, '.5g'):>10} "
        f"{shown(found.finished, '10.5g')} {shown(found.gap_before, '+.3g', '%'):>9} "
        f"{shown(found.gap_after, '+.2g', '%'):>9} {shown(found.closed_percent, '.1f', '%'):>7} "
        f"{fall:>9} {gradient:>17} {finish.iterations:10} "
        f"{errors(found)[0]:+7.1f}% {errors(found)[1]:+7.1f}% "
        f"{seconds:7.1f}"
    )
    return found


def errors(found: Polish) -> list[float]:
    """Return the error of the first parameter as delivered and when finished, in percent."""
    stages = found.data["error_percent"].isel(parameter=0)
    return [float(stages.sel(stage=name)) for name in ("delivered", "finished")]


def closing(say: Any, found: list[Polish]) -> None:
    """Count the verdicts, and how often the error grew while the gap closed."""
    wide = [each for each in found if each.little_to_gain is False]
    closed = [max((each.closed_percent or {"": -np.inf}).values()) for each in wide]
    nine = sum(value >= 90 for value in closed)
    little = sum(each.little_to_gain is True for each in found)
    none = sum(each.little_to_gain is None for each in found)
    worse = sum(
        abs(errors(each)[1]) > abs(errors(each)[0]) for each in found if each.finish is not None
    )
    say(
        f"{len(found)} runs: gap above 1% in {len(wide)}, of which {nine} closed by nine tenths or "
        f"more; within 1% in {little}; no minimum to measure a gap from in {none}."
    )
    say(f"The parameter's error grew in {worse} of {len(found)} runs while they were finished.")


if __name__ == "__main__":
    main()

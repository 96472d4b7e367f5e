"""The fused GPU program beside the one that XLA makes: how fast it is, and what it delivers.

    python benchmarks/fused.py speed                     # milliseconds per step, both programs
    python benchmarks/fused.py train DIRECTORY           # paired trainings: the same seeds and data
    python benchmarks/fused.py compare DIRECTORY         # on any machine: do they deliver the same?

The first two need a GPU that the fused program serves; ``--quick`` tries them elsewhere, with the
kernels interpreted, and says nothing. All rows of a table come from one run of the script.

*speed* times a batch of 240 runs of the study's network (three hidden layers of 64; four for
Darcy), 2,000 residual and 200 data points, RBA, unless a row says otherwise. The share of the peak
counts the multiplications of the hidden layers that a step needs, each three times because of the
split, against the dense peak of the tensor cores in 16 bits.

*train* keeps the end of 240 runs per problem, 60 seeds on each of the four published datasets: by
XLA in float32, by the fused program twice, and by XLA in float64 for 24 of them. *compare* has the
absolute errors of the delivered parameters in percent, the paired difference with its
standard error, and the correlation of the displacement D with the delivered log error.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import twoaxis as ta
from twoaxis.runs.task import trained_runs
from twoaxis.training import Network
from twoaxis.training.backends import JaxDevice, device
from twoaxis.training.batch import KEPT, Batch, Progress
from twoaxis.training.settings import Settings, settings_for, specs_for

PROBLEMS = ("burgers", "buckley-leverett", "allen-cahn")
DATASETS = (8, 9, 10, 11)
SEEDS, CHECKED_SEEDS = 60, 6
# Of an H200, in operations per second, by its data sheet.
PEAK = 989e12


def batch_of(settings: Settings, runs: int) -> Batch:
    """Return a batch of so many runs, on the published datasets in turn."""
    datasets = settings.problem.observed.layouts
    specs = specs_for(settings.problem, datasets=datasets, seeds=range(-(-runs // len(datasets))))
    return Batch(settings, specs[:runs])


# ------------------------------------------------------------------ speed

# Runs, problem, method, and settings that are not the usual ones.
ROWS: list[tuple[int, str, str, dict[str, Any]]] = [
    (240, "burgers", "rba", {}),
    (240, "buckley-leverett", "rba", {}),
    (240, "allen-cahn", "rba", {}),
    (240, "darcy", "rba", {}),
    (240, "burgers", "rba", {"conditions": "exact"}),
    (240, "buckley-leverett", "rba", {"conditions": "exact"}),
    (240, "allen-cahn", "rba", {"conditions": "exact"}),
    (240, "burgers", "rba", {"network": Network(32, 3)}),
    (240, "burgers", "rba", {"network": Network(128, 3)}),
    (240, "burgers", "rba", {"network": Network(128, 4)}),
    (240, "burgers", "pcgrad", {}),
    (240, "burgers", "patch", {}),
    (1, "burgers", "rba", {}),
    (10, "burgers", "rba", {}),
    (80, "burgers", "rba", {}),
    (480, "burgers", "rba", {}),
]


def speed(steps: int, runs: int | None) -> None:
    where = jax.devices()[0]
    print(f"{where.device_kind}, {steps} steps, best of two", flush=True)
    print(
        f"{'runs':>5} {'problem':17}{'conditions':11}{'method':8}{'network':>8}"
        f"{'xla, ms':>9}{'fused, ms':>10}{'ratio':>7}{'5,000 steps, s':>15}{'of peak':>9}"
    )
    for count, problem, method, changes in ROWS if runs is None else ROWS[:8:4]:
        settings = settings_for(problem, method, steps=steps, **changes)
        batch = batch_of(settings, runs or count)
        data = batch.data()
        start = batch.begin(data).state
        taken = [
            _seconds(JaxDevice(where, fused=fused), settings, data, start, steps)
            for fused in (False, True)
        ]
        share = 6 * products(settings) * len(batch.specs) / taken[1] / PEAK
        network = f"{settings.network.depth} x {settings.network.width}"
        print(
            f"{len(batch.specs):5} {problem:17}{settings.conditions:11}{method:8}{network:>8}"
            f"{1e3 * taken[0]:9.3f}{1e3 * taken[1]:10.3f}{taken[0] / taken[1]:7.2f}"
            f"{5000 * taken[1]:15.1f}{share:9.1%}",
            flush=True,
        )


def products(settings: Settings) -> int:
    """Return the multiply-adds of the hidden layers in one step of a run: forward, and twice back.

    The data term has one coefficient where the residual has several.
    """
    network = settings.network
    columns = settings.residual_points * len(settings.problem.derivatives)
    columns += settings.problem.observed.sites + settings.boundary_points
    return 3 * (network.depth - 1) * network.width**2 * columns


def _seconds(backend: JaxDevice, settings: Settings, data: Any, start: Any, steps: int) -> float:
    """Return the better of two times of one step."""
    found = []
    with backend.session(settings, data) as session:
        session.advance(start, 0, 1)
        for _ in range(2):
            begun = time.perf_counter()
            session.advance(start, 0, steps)
            found.append((time.perf_counter() - begun) / steps)
    return min(found)


# ------------------------------------------------------------------ paired trainings


def paired(problem: str, steps: int, seeds: int) -> Batch:
    settings = settings_for(problem, "rba", steps=steps)
    return Batch(settings, specs_for(settings.problem, datasets=DATASETS, seeds=range(seeds)))


def checked(batch: Batch, seeds: int) -> Batch:
    """Return the runs that are trained in float64, too."""
    few = [spec for spec in batch.specs if spec.seed < seeds]
    return Batch(replace(batch.settings, precision="float64"), few)


def train(directory: Path, steps: int, seeds: int, few: int, programs: list[str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    where = jax.devices()[0]
    for problem in PROBLEMS:
        batch = paired(problem, steps, seeds)
        for name in programs:
            backend = JaxDevice(where, fused=name == "fused")
            own = checked(batch, few) if name == "float64" else batch
            state = _trained(f"{problem}, {name}", backend, own)
            leaves = jax.tree.leaves({key: state[key] for key in (*KEPT, "diverged")})
            np.savez_compressed(directory / f"{problem}-{name}.npz", *leaves)
            if name == "fused":
                again = jax.tree.leaves(_trained(f"{problem}, fused again", backend, own))
                pairs = zip(again, jax.tree.leaves(state), strict=True)
                same = all(np.array_equal(a, b) for a, b in pairs)
                word = "bit-identical" if same else "NOT the same"
                print(f"{problem}, fused: repeated, {word}", flush=True)


def _trained(title: str, backend: JaxDevice, batch: Batch) -> Any:
    """Train a batch, print how long the steps took, and return its last state."""
    data = batch.data()
    start = batch.begin(data)
    with backend.session(batch.settings, data) as session:
        session.advance(start.state, 0, 1)  # compiles
    begun = time.perf_counter()
    done = batch.train(backend, data, start, lambda *_: None, lambda _: None, float("inf"))
    took = time.perf_counter() - begun
    print(f"{title}: {len(batch.specs)} runs, {took:.1f} s", flush=True)
    return done.state


def compare(directory: Path, steps: int, seeds: int, few: int) -> None:
    for problem in PROBLEMS:
        batch = paired(problem, steps, seeds)
        found = {
            name: _outcomes(of, directory / f"{problem}-{name}.npz")
            for name, of in (
                ("xla", batch),
                ("fused", batch),
                ("float64", checked(batch, few)),
            )
        }
        size = {name: np.abs(errors) for name, (errors, _, _) in found.items()}
        change = size["fused"] - size["xla"]
        deviation = change.std(ddof=1) / np.sqrt(len(change))
        correlations = {
            name: np.corrcoef(displacements, logs)[0, 1]
            for name, (_, displacements, logs) in found.items()
            if name != "float64"
        }
        chosen = np.array([spec.seed < few for spec in batch.specs])
        print(f"{problem}: {len(change)} paired runs")
        print(f"  mean absolute error: xla {size['xla'].mean():.3f}%, ", end="")
        print(f"fused {size['fused'].mean():.3f}%, ", end="")
        print(f"difference {change.mean():+.3f} ± {deviation:.3f} points")
        print(f"  {chosen.sum()} of them: float64 {size['float64'].mean():.3f}%, ", end="")
        for name in ("xla", "fused"):
            apart = size[name][chosen] - size["float64"]
            spread = apart.std(ddof=1) / np.sqrt(len(apart))
            print(f"{name} {apart.mean():+.3f} ± {spread:.3f}", end=", " if name == "xla" else "\n")
        print(f"  correlation of D and log error: xla {correlations['xla']:.4f}, ", end="")
        print(f"fused {correlations['fused']:.4f}", flush=True)


def _outcomes(batch: Batch, path: Path) -> tuple[Any, Any, Any]:
    """Return signed errors in percent, displacements and delivered log errors of all runs."""
    begun = batch.begin(batch.data()).state
    kept = {key: begun[key] for key in (*KEPT, "diverged")}
    with np.load(path) as arrays:
        leaves = [arrays[name] for name in arrays.files]
    state = jax.tree.unflatten(jax.tree.structure(kept), leaves)
    row = {"step": batch.settings.steps, "coordinates": state["coordinates"]}
    row |= {name: np.zeros(len(batch.specs)) for name in ("loss_data", "loss_residual")}
    runs = trained_runs(batch, Progress(batch.settings.steps, state, [row]))
    assert all(run.finished for run in runs)
    (name,) = batch.settings.problem.parameters
    truth = batch.settings.problem.parameters[name].truth
    errors = [run.error_percent[name] for run in runs]
    displacements = [float(ta.score(run.frozen).displacement[name]) for run in runs]
    logs = [np.log(run.delivered[name] / truth) for run in runs]
    return np.array(errors), np.array(displacements), np.array(logs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=("speed", "train", "compare"), default="speed")
    parser.add_argument("directory", nargs="?", type=Path, default=Path("fused"))
    parser.add_argument("--programs", default="xla,fused,float64", help="what to train with")
    parser.add_argument(
        "--quick", action="store_true", help="a few steps, interpreted, for a check"
    )
    options = parser.parse_args()
    if options.quick:
        _interpret()
    steps, seeds, few = (3, 1, 1) if options.quick else (5000, SEEDS, CHECKED_SEEDS)
    if options.what == "speed":
        speed(2 if options.quick else 200, 2 if options.quick else None)
    elif options.what == "train":
        train(options.directory, steps, seeds, few, options.programs.split(","))
    else:
        compare(options.directory, steps, seeds, few)


def _interpret() -> None:
    """Let the fused program serve here, with its kernels interpreted."""
    from twoaxis.training.fused import fused_field

    JaxDevice.program = lambda self, _: "fused" if self._fused else "xla"  # type: ignore[assignment]
    plain = device._field
    device._field = lambda settings, program: (
        fused_field(settings.problem.domain, True)
        if program == "fused"
        else plain(settings, program)
    )


if __name__ == "__main__":
    main()

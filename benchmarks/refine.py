"""Refinement against the likelihood of a converged solver, on data that such a solver made.

For each problem, datasets from a finer grid than the declared one (so that the data obey the
equation that a network solves), on the published layouts, with three truths each. RBA is trained
on each of them, the Gauss-Newton method refines it from RBA's parameter, and the likelihood with
the converged solver is the estimate that no method without further knowledge can beat.

    python benchmarks/refine.py --train trained.npz --datasets 44    (a GPU: about four minutes)
    python benchmarks/refine.py --read trained.npz --datasets 44 --out results/refine/benchmark.txt
    python benchmarks/refine.py --fresh runs                         (a GPU: about five minutes)
    python benchmarks/refine.py --routes runs --out results/refine/routes.txt
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar
from scipy.stats import binom

from twoaxis.datasets import Dataset, fresh_dataset, layout, noise_scale, published_dataset
from twoaxis.files import write_whole
from twoaxis.forward import get_solver
from twoaxis.forward.converged import converged_at_sites
from twoaxis.forward.explicit import ExplicitSolver
from twoaxis.problems import get_problem

FloatArray = NDArray[np.float64]

PROBLEMS = ("burgers", "buckley-leverett", "allen-cahn")
# The settings of the method were chosen on the noise of seed 20261116.
SEED = 20261117
# Truths as multiples of the benchmark's, one after the other.
TRUTHS = (1.0, 0.8, 1.25)
Z = 1.959964
CALIBRATIONS = Path(__file__).parents[1] / "results" / "remedies" / "confidence" / "candidates.csv"
# Noise vectors of the study's fresh noise, for each layout.
REPLICAS = 20
# Candidates of the likelihood, as multiples of the benchmark's truth.
CANDIDATES = {
    "burgers": np.geomspace(0.2, 5.0, 121),
    "buckley-leverett": np.geomspace(0.3, 3.5, 91),
    "allen-cahn": np.geomspace(0.6, 1.7, 81),
}


@lru_cache(maxsize=8)
def bank(name: str, layouts: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Return the coordinates of the candidates and their predictions, (P, layouts, n)."""
    problem, declared = get_problem(name), get_solver(name)
    assert isinstance(declared, ExplicitSolver)
    (unknown,) = problem.parameters
    truth = problem.parameters[unknown].truth
    sites = np.concatenate([layout(name, seed) for seed in layouts])
    values = CANDIDATES[name] * truth
    found = converged_at_sites(declared, sites, **{unknown: values})
    return np.log(values), found.reshape(len(values), len(layouts), -1)


def curve_at(name: str, layouts: tuple[int, ...], place: int) -> CubicSpline:
    """Return what the converged solver predicts against the log of the parameter."""
    coordinates, fields = bank(name, layouts)
    finite = np.isfinite(fields[:, place]).all(axis=1)
    return CubicSpline(coordinates[finite], fields[finite, place])


def spread_at(curve: CubicSpline, q: float, data: Dataset) -> float:
    """Return the standard error of the log that the converged solver predicts."""
    slope = curve(q, 1) / data.noise_scale
    return float(1 / np.sqrt(slope @ slope))


def likelihood(
    name: str, layouts: tuple[int, ...], place: int, data: Dataset
) -> tuple[float, float]:
    """Return the most likely value and its standard error (of the log), by the converged solver."""
    curve = curve_at(name, layouts, place)

    def deviance(q: float) -> float:
        return float((((curve(q) - data.values) / data.noise_scale) ** 2).sum())

    grid = curve.x
    lowest = int(np.argmin([deviance(q) for q in grid]))
    ends = grid[max(lowest - 1, 0)], grid[min(lowest + 1, len(grid) - 1)]
    best = float(minimize_scalar(deviance, bounds=ends, method="bounded").x)
    return float(np.exp(best)), spread_at(curve, best, data)


def datasets(name: str, count: int) -> list[tuple[float, int, Dataset]]:
    """Return truth, place of the layout and data of `count` datasets from the converged solver."""
    problem, declared = get_problem(name), get_solver(name)
    (unknown,) = problem.parameters
    layouts = problem.observed.layouts
    scale = noise_scale(name)
    made = []
    for k in range(count):
        place = k % len(layouts)
        truth = problem.parameters[unknown].truth * TRUTHS[k // len(layouts) % len(TRUTHS)]
        sites = layout(name, layouts[place])
        stream = [SEED, zlib.crc32(name.encode()), k]
        noise = scale * np.random.default_rng(stream).standard_normal(len(sites))
        values = curve_at(name, layouts, place)(np.log(truth)) + noise
        how = f"converged solver, {unknown} = {truth:g}; default_rng({stream})"
        points = declared.points(sites)
        made.append((truth, place, Dataset(name, sites, points, values, scale, how, f"c{k}")))
    return made


# ---------------------------------------------------------------- training


def trained(
    name: str, given: list[Dataset], device: str, starts: Any = None, store: Path | None = None
) -> dict[str, Any]:
    """Train RBA and refine it; return delivered values, standard errors and times."""
    from twoaxis.runs.refined import linearized
    from twoaxis.runs.train import train, train_specs
    from twoaxis.training.settings import RunSpec, settings_for

    problem = get_problem(name)
    (unknown,) = problem.parameters
    if starts is None:
        runs = train(problem, datasets=given, device=device, store=store and store / "rba")
        rba = np.array([run.delivered[unknown] for run in runs])
    else:
        rba = starts
    low, high = problem.parameters[unknown].bounds
    begin = np.clip(rba, 1.02 * low, 0.98 * high)
    specs = [
        RunSpec(dataset=each, seed=0, start={unknown: float(start)})
        for each, start in zip(given, begin, strict=True)
    ]
    settings = settings_for(problem, "gauss-newton")
    began = time.perf_counter()
    runs = train_specs(settings, specs, device=device, store=store and store / "refined")
    seconds = time.perf_counter() - began
    ends = [linearized(run) for run in runs]
    return {
        "rba": rba,
        "refined": np.array([run.delivered[unknown] for run in runs]),
        "error": np.array([np.sqrt(found.covariance[0, 0]) for found in ends]),
        "step": np.array([found.step[0] for found in ends]),
        "misfit": np.array([found.misfit for found in ends]),
        "residual": np.array([found.residual for found in ends]),
        "weight": np.array([found.weight for found in ends]),
        "path": np.array([run.history[unknown].to_numpy() for run in runs]),
        "steps": runs[0].history["step"].to_numpy(),
        "seconds": np.array(seconds),
    }


def train_all(path: Path, count: int, device: str, starts: Any) -> None:
    """Train on all datasets and on the published draws, and write what came out."""
    found: dict[str, Any] = {}
    for name in PROBLEMS:
        given = [data for _, _, data in datasets(name, count)]
        given += [published_dataset(name, seed) for seed in get_problem(name).observed.layouts]
        rba = None if starts is None else starts[f"{name}/rba"]
        for key, values in trained(name, given, device, rba).items():
            found[f"{name}/{key}"] = values
        print(f"{name}: {len(given)} runs refined in {found[f'{name}/seconds']:.1f} s", flush=True)
        write_whole(path, lambda target: np.savez(target.open("wb"), **found))


def train_fresh(folder: Path, device: str, problems: Sequence[str], replicas: int) -> None:
    """Train and refine on the fresh noise of the study, and keep the runs."""
    for name in problems:
        given = [
            fresh_dataset(name, layout=seed, replica=replica)
            for seed in get_problem(name).observed.layouts
            for replica in range(replicas)
        ]
        seconds = trained(name, given, device, store=folder / name)["seconds"]
        print(f"{name}: {len(given)} runs refined in {seconds:.1f} s", flush=True)


# ---------------------------------------------------------------- tables


def percent(values: FloatArray, truth: FloatArray) -> FloatArray:
    """Return signed deviations in percent."""
    return np.asarray(100 * (values / truth - 1))


def within(values: FloatArray, center: FloatArray, error: FloatArray, most: float) -> int:
    """Return how many values lie within so many standard errors (of the log) of the center."""
    return int((np.abs(np.log(values / center)) / error <= most).sum())


def table(stored: Any, count: int) -> list[str]:
    """Return the lines of the result."""
    lines = []
    for name in PROBLEMS:
        problem, made = get_problem(name), datasets(name, count)
        layouts = problem.observed.layouts
        truth = np.array([each[0] for each in made])
        likely, error = np.array([likelihood(name, layouts, k, d) for _, k, d in made]).T
        rba, refined, own = (stored[f"{name}/{key}"][:count] for key in ("rba", "refined", "error"))
        sizes = [np.abs(percent(each, truth)).mean() for each in (rba, refined, likely)]
        ends = binom.interval(0.95, count, 0.95)
        seconds = float(stored[f"{name}/seconds"]) / len(stored[f"{name}/refined"])
        lines += [
            f"{name}: {count} datasets from a converged solver",
            f"  mean absolute error: RBA {sizes[0]:.2f}%, refined {sizes[1]:.2f}%, likelihood "
            f"{sizes[2]:.2f}%; refined / likelihood {sizes[1] / sizes[2]:.3f}",
            f"  within half a standard error of the likelihood's value: refined "
            f"{within(refined, likely, error, 0.5)}, RBA {within(rba, likely, error, 0.5)}",
            f"  95% intervals that hold the truth: refined {within(refined, truth, own, Z)}, "
            f"likelihood {within(likely, truth, error, Z)}; nominal {ends[0]:.0f} to {ends[1]:.0f}",
            f"  mean standard error: refined {100 * own.mean():.2f}%, likelihood "
            f"{100 * error.mean():.2f}%",
            *intervals(name, made, rba, refined, own),
            f"  {seconds:.2f} s a run, {len(stored[f'{name}/refined'])} side by side, compiling "
            "included",
            *published(name, stored, count),
        ]
    return lines


def intervals(
    name: str,
    made: list[tuple[float, int, Dataset]],
    rba: FloatArray,
    refined: FloatArray,
    own: FloatArray,
) -> list[str]:
    """Return coverage and width of 95% intervals: nominal around RBA, refined, calibrated sets."""
    layouts = get_problem(name).observed.layouts
    truth = np.array([each[0] for each in made])
    places = np.array([each[1] for each in made])
    nominal = np.array(
        [
            spread_at(curve_at(name, layouts, place), np.log(value), data)
            for (_, place, data), value in zip(made, rba, strict=True)
        ]
    )
    lines = []
    for word, chosen in (("all layouts", places >= 0), ("layout 8", places == 0)):
        rows = [
            ("nominal around RBA", *interval(rba, nominal, truth)),
            ("refined", *interval(refined, own, truth)),
        ]
        if word == "layout 8":
            rows.append(("calibrated sets of RBA", *calibrated(name, rba, truth, chosen)))
        for label, holds, width in rows:
            lines.append(
                f"  95% intervals, {word}, {label}: {int(holds[chosen].sum())} of "
                f"{int(chosen.sum())} hold the truth, median width "
                f"{np.median(width[chosen]):.1f}% of it"
            )
    return lines


def interval(
    values: FloatArray, error: FloatArray, truth: FloatArray
) -> tuple[NDArray[np.bool_], FloatArray]:
    """Return whether intervals of the log hold the truth, and their widths in percent of it."""
    holds = np.abs(np.log(values / truth)) <= Z * error
    return holds, 200 * values / truth * np.sinh(Z * error)


def calibrated(
    name: str, rba: FloatArray, truth: FloatArray, chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], FloatArray]:
    """Return the same for confidence sets, from the recorded calibration of layout 8.

    The sets are those of `benchmarks/remedies_confidence.py`: 17 candidates with 59 retrainings
    each, on data of the declared solver.
    """
    from twoaxis.remedies.calibrate import calibrate
    from twoaxis.runs.pipeline import Pipeline

    table = pd.read_csv(CALIBRATIONS).query("problem == @name")
    recorded = table.sort_values(["candidate", "replica"])
    count = recorded["candidate"].nunique()
    estimates = iter(recorded["estimate"].to_numpy())
    pipeline = Pipeline(name, layout=8)
    found = calibrate(
        lambda values, _: [next(estimates) for _ in values],
        pipeline.forward,
        pipeline.parameters,
        pipeline.noise,
        candidates=np.sort(recorded["candidate"].unique()),
        replicas=len(recorded) // count,
        vectorized=True,
        vectorized_pipeline=True,
        progress=False,
    )
    holds, width = np.zeros(len(rba), bool), np.zeros(len(rba))
    for k in np.flatnonzero(chosen):
        made = found.confidence_set(estimate=float(rba[k]), level=0.95)
        holds[k] = made.contains(float(truth[k]))
        width[k] = made.width_percent * rba[k] / truth[k]
    return holds, width


def published(name: str, stored: Any, count: int) -> list[str]:
    """Return the lines of the published draws, whose solver is not converged."""
    problem = get_problem(name)
    (unknown,) = problem.parameters
    layouts = problem.observed.layouts
    center = np.full(len(layouts), problem.parameters[unknown].truth)
    drawn = [published_dataset(name, seed) for seed in layouts]
    likely, error = np.array([likelihood(name, layouts, k, d) for k, d in enumerate(drawn)]).T
    rows = [
        ("RBA", percent(stored[f"{name}/rba"][count:], center)),
        ("refined", percent(stored[f"{name}/refined"][count:], center)),
        ("likelihood, converged solver", percent(likely, center)),
        ("standard error, refined", 100 * stored[f"{name}/error"][count:]),
        ("standard error, likelihood", 100 * error),
    ]
    return [
        f"  published draws, {word:<29}" + "".join(f"{value:+8.1f}%" for value in values)
        for word, values in rows
    ]


def routes(folder: Path, problems: Sequence[str]) -> list[str]:
    """Audit the runs on fresh noise before and after, and count their routes."""
    import twoaxis as ta
    from twoaxis.runs.store import RunStore

    lines, tolerance = [], ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)
    for name in problems:
        layouts = get_problem(name).observed.layouts
        known = {str(seed): ta.resolve(name, layouts=[seed], progress=False) for seed in layouts}
        for center in ("truth", "delivered"):
            for kind in ("rba", "refined"):
                counts: Counter[str] = Counter()
                store = RunStore(folder / name / kind)
                for key in sorted(store.keys()):
                    run = store.load(key)
                    made = ta.audit(
                        run,
                        resolution=known[run.dataset.label.partition("r")[0]],
                        tolerance=tolerance,
                        at=None if center == "truth" else center,
                        spectrum=False,  # most of the time, and no part of the route
                        progress=False,
                    )
                    counts[str(made.route)] += 1
                told = ", ".join(f"{count} {route}" for route, count in counts.most_common())
                lines.append(f"{name}, around the {center} value, {kind}: {told}")
                print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Train, or read what was trained and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=int, default=40, help="of each problem")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--starts", type=Path, help="take RBA's values from an earlier file")
    parser.add_argument("--train", type=Path, help="write trained values here")
    parser.add_argument("--read", type=Path, help="read trained values from here")
    parser.add_argument("--fresh", type=Path, help="train on fresh noise, keep the runs here")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    parser.add_argument("--replicas", type=int, default=REPLICAS, help="noise vectors of --fresh")
    parser.add_argument("--routes", type=Path, help="count the routes of such runs")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="only the likelihood, of few datasets")
    options = parser.parse_args()
    if options.quick:
        for name in PROBLEMS:
            layouts = get_problem(name).observed.layouts
            for truth, place, data in datasets(name, 4):
                found = likelihood(name, layouts, place, data)
                print(
                    f"{name}: truth {truth:g}, likelihood {found[0]:.4g} +- {100 * found[1]:.1f}%"
                )
        return
    if options.train is not None:
        starts = None if options.starts is None else np.load(options.starts)
        train_all(options.train, options.datasets, options.device, starts)
    if options.fresh is not None:
        train_fresh(options.fresh, options.device, options.problems, options.replicas)
    lines = []
    if options.read is not None:
        lines += table(np.load(options.read), options.datasets)
        print("\n".join(lines))
    if options.routes is not None:
        lines += routes(options.routes, options.problems)
    if lines and options.out is not None:
        text = "\n".join(lines) + "\n"
        write_whole(options.out, lambda path: path.write_text(text))


if __name__ == "__main__":
    main()

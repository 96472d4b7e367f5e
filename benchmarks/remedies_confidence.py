"""Do calibrated sets hold the truth, and does a simulated audit know the bias of a pipeline?

Two checks of remedies that run the whole training again, on the built-in problems with RBA.

*Coverage.* On one layout the pipeline is calibrated at 17 candidates with 59 replicas each. Then it
runs on datasets that the calibration never saw, at truths between the candidates. Printed are the
share of 90% sets that hold the truth, beside nominal Fisher intervals around the same delivered
values, and the error of the delivered, the bias-corrected and the matched estimate. The fresh-noise
runs of the reproduction on the same layout are a second, smaller test, at the benchmark's truth.
All datasets of a problem share one calibration, so that their coverage scatters more than a
binomial share: with 59 replicas by another 4 points.

*Simulated audit.* For every problem and layout, data are simulated at a few values that span what
the fresh-noise runs delivered. The mean error there, interpolated at each delivered value, predicts
the signed error of that run without its truth. A simulation can know the bias of a layout, not the
noise of one dataset, so that means over the runs of a layout are printed beside single runs.

    python benchmarks/remedies_confidence.py --device gpu --store DIR --out OUT   # minutes
    python benchmarks/remedies_confidence.py --quick                  # seconds, says nothing

What a batch delivered is kept in the store as a small table, so that an interrupted call goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
from scipy.interpolate import PchipInterpolator
from scipy.stats import binomtest, norm

import twoaxis as ta
from twoaxis.datasets import noise_seed, standard_noise
from twoaxis.files import write_whole
from twoaxis.problems.problem import truth_of
from twoaxis.remedies import calibrate
from twoaxis.remedies.simulated.result import known_truth
from twoaxis.remedies.simulator import pipeline_seeds
from twoaxis.runs import Pipeline

LEVEL = 0.9
PROBLEMS = ("burgers", "buckley-leverett", "allen-cahn")
LAYOUTS = (8, 9, 10, 11)
# Zhang and Tao (2026): coverage of nominal Fisher intervals around RBA, in percent.
PUBLISHED = {"burgers": 97.5, "buckley-leverett": 67.5, "allen-cahn": 28.75}
# Fixed before anything was run: noise of the calibration, of the test data and of the audit.
CALIBRATION, TEST, AUDIT = 20260901, 20260902, 20260903
READOUTS = Path(__file__).parents[1] / "results" / "reproduction" / "readouts"


@dataclass(frozen=True)
class Size:
    """How much is trained."""

    problems: tuple[str, ...]
    layouts: tuple[int, ...] = LAYOUTS
    candidates: int = 17
    replicas: int = 59
    datasets: int = 60
    audit_candidates: int = 5
    audit_replicas: int = 8
    training: dict[str, Any] = field(default_factory=lambda: {"steps": 5000})


@dataclass(eq=False)
class Kept:
    """A pipeline that keeps what each batch delivered, and trains nothing twice.

    Attributes
    ----------
    pipeline : Pipeline
    store : Path, optional
    batch : int
        Runs that are trained, and kept, together.
    """

    pipeline: Pipeline
    store: Path | None
    batch: int = 340
    trained: int = 0
    seconds: float = 0.0
    vectorized: bool = True

    def __call__(self, values: Any, seeds: Any) -> Any:
        """Return what the pipeline delivers on each dataset."""
        return self.table(values, seeds)["delivered"].to_numpy()

    def table(self, values: Any, seeds: Any, at: Any = None) -> pd.DataFrame:
        """Return a row for each dataset; with `at`, the truths, fields are scored there."""
        starts = range(0, len(values), self.batch)
        parts = [slice(start, start + self.batch) for start in starts]
        return pd.concat(
            [self._part(values[p], seeds[p], None if at is None else at[p]) for p in parts],
            ignore_index=True,
        )

    def _part(self, values: Any, seeds: Any, at: Any) -> pd.DataFrame:
        described = json.dumps(self.pipeline.settings.describe(), default=repr, sort_keys=True)
        given = (self.pipeline.template.coordinates, values, seeds, [] if at is None else at)
        arrays = [np.ascontiguousarray(each, dtype=float) for each in given]
        digest = hashlib.sha256(described.encode() + b"".join(a.tobytes() for a in arrays))
        name = f"{self.pipeline.problem.name}-{digest.hexdigest()[:16]}.csv"
        path = None if self.store is None else self.store / name
        if path is not None and path.exists():
            return pd.read_csv(path)
        started = time.perf_counter()
        runs = self.pipeline(values, seeds)
        self.trained += len(runs)
        truths = [None] * len(runs) if at is None else at
        table = pd.DataFrame([_row(*each) for each in zip(runs, truths, strict=True)])
        self.seconds += time.perf_counter() - started
        print(f"  {self.pipeline.problem.name}: {len(runs)} runs, {self.seconds:.0f} s", flush=True)
        if path is not None:
            write_whole(path, lambda target: table.to_csv(target, index=False))
        return table


def _row(run: Any, truth: float | None) -> dict[str, float]:
    (name,) = run.problem.parameters
    delivered = run.delivered[name] if run.finished else np.nan
    if truth is None:
        return {"delivered": delivered}
    if not run.finished:
        return {"delivered": delivered, "displacement": np.nan, "preferred": np.nan}
    frozen = known_truth(run.frozen, {name: float(truth)}, run.delivered)
    scan = ta.frozen_scan(frozen, at="truth")
    return {
        "delivered": delivered,
        "displacement": ta.score(frozen, at="truth").displacement[name],
        "preferred": np.nan if scan.displacement is None else scan.displacement[name],
    }


# ------------------------------------------------------------------ coverage


def coverage(
    problem: str, layout: int, kept: Kept, size: Size
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a row for each test dataset, and all estimates of the calibration."""
    pipeline = kept.pipeline
    ((name, parameter),) = pipeline.parameters.items()
    calibration = calibrate(
        kept,
        pipeline.forward,
        pipeline.parameters,
        pipeline.noise,
        candidates=size.candidates,
        replicas=size.replicas,
        seed=noise_seed(problem, CALIBRATION),
        vectorized=True,
    )
    print(calibration, flush=True)
    tested = test_data(problem, kept, size, *calibration.coordinates[[0, -1]])
    values, truth = tested.pop("values"), np.array(tested["truth"])
    table = pd.DataFrame(tested)
    matched = matched_fits(pipeline, parameter, name, values)
    table["matched_error_percent"] = 100 * (matched / truth - 1)
    fresh = fresh_runs(problem, layout)[["delivered"]].head(size.datasets)
    fresh = fresh.assign(source="fresh", truth=truth_of(pipeline.problem)[name])
    table = pd.concat([table, fresh], ignore_index=True)
    sigma = fisher_sigma(pipeline, name, table["truth"].to_numpy())
    cases = zip(table.to_dict("records"), sigma, strict=True)
    rows = [one_set(calibration, *case) for case in cases]
    found = pd.concat([table, pd.DataFrame(rows)], axis=1)
    found.insert(0, "problem", problem)
    estimates = calibration.data["estimate"].to_dataframe().reset_index()
    estimates.insert(0, "problem", problem)
    return found, estimates


def test_data(problem: str, kept: Kept, size: Size, low: float, high: float) -> dict[str, Any]:
    """Run the pipeline on datasets of its own noise, at truths between the candidates."""
    pipeline = kept.pipeline
    ((name, parameter),) = pipeline.parameters.items()
    seed = noise_seed(problem, TEST)
    generator = np.random.default_rng([*seed, 2])
    # Away from the ends of what was tested, where a set would be cut off by the grid.
    share = np.sort(generator.uniform(0.1, 0.9, size.datasets))
    truth = parameter.to_value(low + share * (high - low))
    clean = pipeline.forward(**{name: truth})
    noise = pipeline.noise * standard_noise(seed, size.datasets, clean.shape[1])
    delivered = kept(clean + noise, pipeline_seeds(seed, size.datasets)[1:])
    return {"source": "new", "truth": truth, "delivered": delivered, "values": clean + noise}


def one_set(calibration: Any, row: Any, sigma: float) -> dict[str, Any]:
    """Return what a set says about one delivered value, beside the nominal interval."""
    reach = norm.ppf((1 + LEVEL) / 2) * sigma
    error = np.log(row["delivered"] / row["truth"])
    nominal = {
        "error_percent": 100 * np.expm1(error),
        "fisher_holds": bool(abs(error) <= reach),
        "fisher_width_percent": 200 * np.exp(error) * np.sinh(reach),
    }
    if not np.isfinite(row["delivered"]):  # no answer rules nothing out
        return {**nominal, "holds": True, "failed": True}
    found = calibration.confidence_set(estimate=float(row["delivered"]), level=LEVEL)
    absolute = calibration.confidence_set(
        estimate=float(row["delivered"]), level=LEVEL, statistic="absolute"
    )
    relative = row["delivered"] / row["truth"]
    corrected = np.nan if found.corrected is None else found.corrected
    return {
        **nominal,
        "failed": False,
        "holds": found.contains(float(row["truth"])),
        "width_percent": found.width_percent * relative,
        "open": found.is_open,
        "intervals": len(found.intervals),
        "corrected_error_percent": 100 * (corrected / row["truth"] - 1),
        "absolute_holds": absolute.contains(float(row["truth"])),
        "absolute_width_percent": absolute.width_percent * relative,
    }


def fisher_sigma(pipeline: Pipeline, name: str, truth: Any, step: float = 1e-3) -> Any:
    """Return the standard error of log p that the observations allow at each truth."""
    ends = [pipeline.forward(**{name: truth * np.exp(sign * step)}) for sign in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * step)
    return pipeline.noise / np.linalg.norm(slope, axis=1)


def matched_fits(pipeline: Pipeline, parameter: Any, name: str, values: Any) -> Any:
    """Return least-squares fits of the forward model, from a bank that is solved once."""
    q = np.linspace(*parameter.coordinate_bounds, 241)
    bank = pipeline.forward(**{name: parameter.to_value(q)})
    usable = np.isfinite(bank).all(axis=1)
    fine = np.linspace(q[usable][0], q[usable][-1], 8001)
    between = PchipInterpolator(q[usable], bank[usable])(fine)
    misfit = (between**2).sum(axis=1) - 2 * values @ between.T
    return parameter.to_value(fine[misfit.argmin(axis=1)])


# ------------------------------------------------------------------ simulated audit


def fresh_runs(problem: str, layout: int) -> pd.DataFrame:
    """Return what the fresh-noise runs of the reproduction delivered on one layout."""
    table = pd.read_csv(READOUTS / "delivered-1.csv", comment="#")
    chosen = (
        (table["problem"] == problem)
        & (table["method"] == "rba")
        & table["replica"].notna()
        & table["finished"]
        & (table["conditions"] == "soft")
        & (table["stream"] == 0)
        & (table["initialization"] == 0)
    )
    for column in ("fold", "candidate", "width", "depth"):
        chosen &= table[column].isna()
    chosen &= table["dataset"].astype(str) == str(layout)
    return table.loc[chosen, ["dataset", "replica", "delivered"]].reset_index(drop=True)


def audit(problem: str, layout: int, kept: Kept, size: Size) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the simulated replicas of one layout, and a prediction for each fresh-noise run."""
    pipeline = kept.pipeline
    ((name, parameter),) = pipeline.parameters.items()
    runs = fresh_runs(problem, layout)
    ends = parameter.to_coordinate([runs["delivered"].min(), runs["delivered"].max()])
    q = np.linspace(*ends, size.audit_candidates)
    clean = pipeline.forward(**{name: parameter.to_value(q)})
    q, clean = q[np.isfinite(clean).all(axis=1)], clean[np.isfinite(clean).all(axis=1)]
    seed, count = noise_seed(problem, AUDIT), size.audit_replicas
    noise = pipeline.noise * standard_noise(seed, count, clean.shape[1])
    values = (clean[:, None] + noise).reshape(-1, clean.shape[1])
    at = np.repeat(parameter.to_value(q), count)
    table = kept.table(values, np.tile(pipeline_seeds(seed, count)[1:], len(q)), at)
    table = table.assign(problem=problem, layout=layout, candidate=at)
    table["error"] = np.log(table["delivered"] / table["candidate"])
    means = table.groupby("candidate", sort=True)[["error", "displacement"]].mean()
    spread = table.groupby("candidate")["error"].sem()
    truth = truth_of(pipeline.problem)[name]
    here = np.log(runs["delivered"])
    places = np.log(means.index.to_numpy())
    predicted = runs.assign(
        problem=problem,
        real_error=here - np.log(truth),
        predicted_error=np.interp(here, places, means["error"]),
        predicted_displacement=np.interp(here, places, means["displacement"]),
        standard_error=np.interp(here, places, spread),
    )
    return table, predicted


# ------------------------------------------------------------------ report


def share(holds: Any) -> str:
    """Return a share in percent with its exact 95% interval."""
    count, total = int(np.sum(holds)), len(holds)
    ends = binomtest(count, total).proportion_ci(0.95)
    return f"{100 * count / total:5.1f}% [{100 * ends.low:.0f}, {100 * ends.high:.0f}]"


def coverage_lines(found: pd.DataFrame) -> list[str]:
    lines = [
        f"coverage of {100 * LEVEL:g}% sets, with its binomial 95% interval; median width in "
        "percent of the truth",
        "",
        f"{'problem':18}{'data':7}{'n':>4}  {'calibrated set':24}{'width':>7}  "
        f"{'absolute statistic':24}{'width':>7}  {'nominal Fisher':24}{'width':>7}  published"
        "  open",
    ]
    for (problem, source), rows in found.groupby(["problem", "source"], sort=False):
        lines.append(
            f"{problem:18}{source:7}{len(rows):4}  {share(rows['holds']):24}"
            f"{rows['width_percent'].median():7.1f}  "
            f"{share(rows['absolute_holds'].fillna(True).astype(bool)):24}"
            f"{rows['absolute_width_percent'].median():7.1f}  {share(rows['fisher_holds']):24}"
            f"{rows['fisher_width_percent'].median():7.1f}  "
            f"{PUBLISHED.get(problem, np.nan):8.2f}%  {int(rows['open'].fillna(True).sum()):4}"
        )
    lines += ["", "mean absolute error in percent; bias: median signed error", ""]
    lines.append(
        f"{'problem':18}{'data':7}{'delivered':>11}{'corrected':>11}{'matched':>9}"
        f"{'bias before':>13}{'after':>8}{'no correction':>15}{'failed':>8}"
    )
    for (problem, source), rows in found.groupby(["problem", "source"], sort=False):
        before, after = rows["error_percent"], rows["corrected_error_percent"]
        lines.append(
            f"{problem:18}{source:7}{before.abs().mean():11.2f}{after.abs().mean():11.2f}"
            f"{rows['matched_error_percent'].abs().mean():9.2f}{before.median():13.2f}"
            f"{after.median():8.2f}{int(after.isna().sum()):15}{int(rows['failed'].sum()):8}"
        )
    return lines


def audit_lines(predicted: pd.DataFrame) -> list[str]:
    lines = [
        "simulated audit: the signed log error of each fresh-noise run, predicted from "
        "simulations at its delivered value",
        "",
        f"{'problem':18}{'runs':>5}{'mean error':>12}{'predicted':>11}{'by D':>9}{'same sign':>11}"
        f"{'correlation':>13}{'mean size':>11}{'corrected':>11}",
    ]
    groups = [*predicted.groupby("problem", sort=False), ("all", predicted)]
    for problem, rows in groups:
        real, guess = rows["real_error"], rows["predicted_error"]
        lines.append(
            f"{problem:18}{len(rows):5}{real.mean():12.4f}{guess.mean():11.4f}"
            f"{rows['predicted_displacement'].mean():9.4f}"
            f"{100 * np.mean(np.sign(real) == np.sign(guess)):10.1f}%"
            f"{np.corrcoef(real, guess)[0, 1]:13.3f}{real.abs().mean():11.4f}"
            f"{(real - guess).abs().mean():11.4f}"
        )
    return [*lines, "", *layout_lines(predicted)]


def layout_lines(predicted: pd.DataFrame) -> list[str]:
    by_layout = predicted.groupby(["problem", "dataset"], sort=False)
    means = by_layout[["real_error", "predicted_error", "standard_error"]].mean()
    means["scatter"] = by_layout["real_error"].sem()
    lines = [
        "means over the runs of a layout, with standard errors",
        "",
        f"{'problem':18}{'layout':>6}{'mean error':>20}{'predicted':>20}",
    ]
    for (problem, layout), row in means.iterrows():
        real = f"{row['real_error']:+.4f} ± {row['scatter']:.4f}"
        predicted = f"{row['predicted_error']:+.4f} ± {row['standard_error']:.4f}"
        lines.append(f"{problem:18}{layout:6}{real:>20}{predicted:>20}")
    real, predicted = means["real_error"], means["predicted_error"]
    centered = means - means.groupby("problem").transform("mean")
    apart = (real - predicted) / np.hypot(means["scatter"], means["standard_error"])
    return [
        *lines,
        "",
        f"correlation over {len(means)} layouts {real.corr(predicted):.3f}, "
        f"within problems {centered['real_error'].corr(centered['predicted_error']):.3f}; "
        f"same sign in {int((np.sign(real) == np.sign(predicted)).sum())}; "
        f"largest distance {apart.abs().max():.1f} standard errors",
    ]


def head(size: Size, trained: int, seconds: float, device: str) -> list[str]:
    names = ("jax", "numpy", "scipy")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    kind = jax.devices("cpu")[0] if device == "cpu" else jax.devices()[0]
    return [
        f"python {' '.join(sys.argv)}",
        f"twoaxis {ta.__version__}, Python {platform.python_version()}, {versions}; "
        f"{kind.device_kind}",
        f"{size.candidates} candidates, {size.replicas} replicas, {size.datasets} test datasets; "
        f"{trained} retrainings in {seconds:.0f} s in this call, others from the store; "
        f"{size.training}",
        "",
    ]


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--layout", type=int, default=8, help="of the coverage check")
    parser.add_argument("--device", choices=["auto", "cpu", "gpu"], default="auto")
    parser.add_argument("--store", type=Path, help="directory for what was trained")
    parser.add_argument("--out", type=Path, help="directory for tables and report")
    parser.add_argument("--candidates", type=int, default=17, help="of the calibration")
    parser.add_argument("--skip", choices=["coverage", "audit"], help="leave one check out")
    parser.add_argument("--quick", action="store_true", help="few tiny trainings")
    return parser.parse_args()


def main() -> None:
    options = read_options()
    size = Size(tuple(options.problems.split(",")), candidates=options.candidates)
    if options.quick:
        tiny = {"steps": 20, "network": ta.Network(8, 2), "residual_points": 60}
        size = Size(size.problems[-1:], (options.layout,), 4, 19, 3, 2, 2, tiny)
    if options.store is not None:
        options.store.mkdir(parents=True, exist_ok=True)
    tables: dict[str, list[pd.DataFrame]] = {}
    trained, seconds = 0, 0.0

    def put(name: str, table: pd.DataFrame) -> None:
        tables.setdefault(name, []).append(table)

    for problem in size.problems:
        for layout in dict.fromkeys([options.layout, *size.layouts]):
            pipeline = Pipeline(
                problem, layout=layout, device=options.device, progress=False, **size.training
            )
            kept = Kept(pipeline, options.store)
            if layout == options.layout and options.skip != "coverage":
                found, estimates = coverage(problem, layout, kept, size)
                put("coverage", found)
                put("candidates", estimates)
            if layout in size.layouts and options.skip != "audit":
                simulated, predicted = audit(problem, layout, kept, size)
                put("simulated", simulated)
                put("predictions", predicted)
            trained, seconds = trained + kept.trained, seconds + kept.seconds
    whole = {name: pd.concat(parts, ignore_index=True) for name, parts in tables.items()}
    lines = head(size, trained, seconds, options.device)
    if "coverage" in whole:
        lines += [*coverage_lines(whole["coverage"]), ""]
    if "predictions" in whole:
        lines += audit_lines(whole["predictions"])
    text = "\n".join(lines) + "\n"
    print("\n" + text)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        write_whole(options.out / "report.txt", lambda path: path.write_text(text))
        for name, table in whole.items():
            write_whole(
                options.out / f"{name}.csv",
                lambda path, table=table: table.to_csv(path, index=False, float_format="%.8g"),
            )


if __name__ == "__main__":
    main()

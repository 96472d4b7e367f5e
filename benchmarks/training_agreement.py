"""Do the trained parameters agree, as distributions, with the check figures and the study?

Every method trains on the twelve benchmark datasets from several initializations. For each
dataset the mean error over the initializations and their spread are printed beside the figures
of an earlier, independent check of the same protocol; for each method the mean over all
datasets, with a 95% interval from resampling initializations, beside the published mean of
single runs, which is one draw from such a distribution.

    python benchmarks/training_agreement.py --out results/training    # minutes on a GPU
    python benchmarks/training_agreement.py --conditions exact --seeds 4
    python benchmarks/training_agreement.py --methods gaussian-64,gaussian,selector --datasets 8,9
    python benchmarks/training_agreement.py --quick                   # seconds, says nothing
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

from twoaxis.files import write_whole
from twoaxis.problems import SCALAR_BENCHMARKS
from twoaxis.runs import train
from twoaxis.training import get_method
from twoaxis.training.settings import Conditions

DATASETS = (8, 9, 10, 11)
# Mean absolute error in percent of RBA by dataset, ten initializations each: an earlier check.
CHECK_RBA = {
    "burgers": (5.6, 34.6, 6.1, 5.0),
    "buckley-leverett": (3.6, 19.1, 28.1, 10.4),
    "allen-cahn": (11.9, 9.8, 13.6, 8.7),
}
# Zhang and Tao (2026), means over the three problems, one run a dataset: the columns "Original"
# and "Hard" of the exact-condition table, then the operator interventions and the selector,
# which have datasets 8 and 9 alone.
PUBLISHED = {
    ("rba", "soft", DATASETS): 14.52,
    ("pcgrad", "soft", DATASETS): 27.89,
    ("patch", "soft", DATASETS): 24.89,
    ("rba", "exact", DATASETS): 15.76,
    ("pcgrad", "exact", DATASETS): 42.48,
    ("patch", "exact", DATASETS): 24.51,
    ("gaussian-64", "soft", (8, 9)): 18.11,
    ("gaussian", "soft", (8, 9)): 13.58,
    ("selector", "soft", (8, 9)): 27.89,
}


def errors(
    method: str, conditions: Conditions, datasets: tuple[int, ...], seeds: int, steps: int
) -> pd.DataFrame:
    parts = []
    for problem in SCALAR_BENCHMARKS:
        start = time.perf_counter()
        runs = train(
            problem,
            method=method,
            conditions=conditions,
            datasets=datasets,
            seeds=range(seeds),
            steps=steps,
        )
        print(f"{method}, {problem.name}: {len(runs)} runs, {time.perf_counter() - start:.1f} s")
        name = next(iter(problem.parameters))
        frame = runs.to_dataframe()
        frame["error_percent"] = frame[f"{name}_error_percent"]
        frame["delivered"] = frame[name]
        parts.append(
            frame[["problem", "method", "dataset", "seed", "delivered", "error_percent", "status"]]
        )
    return pd.concat(parts)


def by_dataset(frame: pd.DataFrame) -> pd.DataFrame:
    size = frame.assign(size=frame["error_percent"].abs())
    table = size.groupby(["method", "problem", "dataset"], sort=False)["size"].agg(["mean", "std"])
    return table.reset_index()


def interval(frame: pd.DataFrame) -> tuple[float, float, float]:
    """Return the mean over datasets of one method, and its 95% interval over initializations."""
    table = frame.assign(size=frame["error_percent"].abs()).pivot_table(
        index=["problem", "dataset"], columns="seed", values="size"
    )
    values = table.to_numpy()
    draws = np.random.default_rng(0).integers(values.shape[1], size=(10_000, *values.shape))
    # One initialization a dataset is what the study has: the spread of such single means.
    single = np.take_along_axis(values[None], draws[:, :, :1], axis=2).mean(axis=(1, 2))
    low, high = np.quantile(single, [0.025, 0.975])
    return float(values.mean()), float(low), float(high)


def report(frame: pd.DataFrame, conditions: str, datasets: tuple[int, ...]) -> str:
    lines = ["mean absolute error in percent by dataset (spread between initializations)", ""]
    for (method, problem), rows in by_dataset(frame).groupby(["method", "problem"], sort=False):
        pairs = zip(rows["mean"], rows["std"], strict=True)
        cells = "".join(f"{mean:9.1f} ({spread:4.1f})" for mean, spread in pairs)
        lines.append(f"{method:12}{problem:18}{cells}")
        if method == "rba" and conditions == "soft" and datasets == DATASETS:
            check = "".join(f"{value:9.1f}       " for value in CHECK_RBA[problem])
            lines.append(f"{'':12}{'  earlier check':18}{check}")
    lines += ["", f"{conditions} conditions, mean over problems and datasets {datasets};"]
    lines += ["interval of a mean of single runs", ""]
    for method in frame["method"].unique():
        mean, low, high = interval(frame[frame["method"] == method])
        line = f"{method:12}{mean:7.2f} [{low:.2f}, {high:.2f}]"
        published = PUBLISHED.get((method, conditions, datasets))
        if published is not None:
            word = "agrees" if low <= published <= high else "differs"
            line += f"   published {published:.2f}   {word}"
        lines.append(line)
    failed = frame[frame["status"] != "finished"]
    lines += ["", f"{len(frame)} runs, {len(failed)} not finished"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few short runs, for a check")
    parser.add_argument("--methods", default="rba,pcgrad,patch")
    parser.add_argument("--conditions", choices=("soft", "exact"), default="soft")
    parser.add_argument("--datasets", default="8,9,10,11")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--out", type=Path, help="directory for runs.csv and agreement.txt")
    options = parser.parse_args()
    methods = [get_method(name).name for name in options.methods.split(",")]
    datasets = tuple(int(number) for number in options.datasets.split(","))
    seeds, steps = options.seeds, options.steps
    if options.quick:
        methods, datasets, seeds, steps = methods[:1], datasets[:1], 2, 20
    frame = pd.concat([errors(m, options.conditions, datasets, seeds, steps) for m in methods])
    text = report(frame, options.conditions, datasets)
    print("\n" + text)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        write_whole(options.out / "agreement.txt", lambda path: path.write_text(text))
        write_whole(options.out / "runs.csv", lambda path: frame.to_csv(path, index=False))


if __name__ == "__main__":
    main()

"""Print the figures of training in results.md: ``python docs/results_training.py``.

Nothing is trained: the runs are those of ``results/training/runs.csv``, which
``python benchmarks/training_agreement.py --out results/training`` made on a GPU.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as student

RUNS = Path(__file__).parents[1] / "results" / "training" / "runs.csv"

# Single runs of the study: table of operator interventions, datasets 8 and 9.
PUBLISHED = {
    "rba": {
        "burgers": (9.88, 37.88),
        "buckley-leverett": (2.26, 28.75),
        "allen-cahn": (10.82, 14.71),
    },
    "patch": {
        "burgers": (25.94, 23.06),
        "buckley-leverett": (26.10, 50.98),
        "allen-cahn": (19.95, 30.46),
    },
}


def next_run(sizes: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """Return where the error of one more run would fall, by Student's t; no error is negative."""
    reach = student.ppf((1 + level) / 2, len(sizes) - 1) * sizes.std(ddof=1)
    reach *= np.sqrt(1 + 1 / len(sizes))
    return max(0.0, float(sizes.mean() - reach)), float(sizes.mean() + reach)


def main() -> None:
    """Print single published runs beside the spread of ours."""
    runs = pd.read_csv(RUNS)
    print("method   problem           dataset   ours, interval for a single run   published")
    for method, problems in PUBLISHED.items():
        for problem, values in problems.items():
            for dataset, published in zip((8, 9), values, strict=True):
                chosen = runs.query("method == @method and problem == @problem")
                sizes = chosen.query("dataset == @dataset")["error_percent"].abs().to_numpy()
                low, high = next_run(sizes)
                word = "agrees" if low <= published <= high else "differs"
                ours = f"{sizes.mean():5.1f} [{low:.1f}, {high:.1f}]"
                print(f"{method:8} {problem:17} {dataset:7}   {ours:31} {published:9.2f}   {word}")


if __name__ == "__main__":
    main()

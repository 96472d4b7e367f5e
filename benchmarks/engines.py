"""How engines scale: run-steps a second and the overhead of a task, against one process.

``python benchmarks/engines.py`` measures on this machine; ``--quick`` checks that it runs. Counted
is from the moment at which every worker has brought its first result: starting and compiling
stand in a column of their own. Only ratios inside one run mean anything.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import Any

import twoaxis as ta
from twoaxis.runs.engines.dask import Dask
from twoaxis.runs.engines.engine import Engine
from twoaxis.runs.engines.in_process import InProcess
from twoaxis.runs.engines.local import Local
from twoaxis.runs.task import Training, cut, versions
from twoaxis.training import RunStore, settings_for, specs_for


def measured(engine: Engine, workers: int, runs: int, **options: Any) -> tuple[float, float]:
    """Return seconds a task once all workers are warm, and seconds until they were."""
    settings = settings_for("burgers", **options)
    specs = specs_for(settings.problem, datasets=8, seeds=range(runs))
    with tempfile.TemporaryDirectory() as where:
        store = RunStore(where, create=True)
        work = Training(str(store.directory), "cpu", versions())
        began, arrived = time.perf_counter(), []
        for result in engine.execute(cut(settings, specs, 1), work, lambda _: None):
            if result.failure:
                raise RuntimeError(result.failure)
            arrived.append(time.perf_counter())
    warm = arrived[workers - 1]
    return (arrived[-1] - warm) / (runs - workers), warm - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny, to see that it runs")
    quick = parser.parse_args().quick
    steps, points, runs, light = (20, 50, 4, 6) if quick else (500, 2000, 16, 100)
    engines: list[tuple[str, int, Engine]] = [
        ("in-process", 1, InProcess()),
        ("local, 1 worker", 1, Local(1)),
        ("local, 2 workers", 2, Local(2)),
        ("dask, 1 worker", 1, Dask(workers=1)),
        ("dask, 2 workers", 2, Dask(workers=2)),
    ]
    print(f"{steps} steps at {points} points a run, one run a task")
    print(f"{'engine':18} {'run-steps/s':>12} {'ratio':>6} {'ms a light task':>16} {'warm, s':>8}")
    reference = None
    for name, workers, engine in engines:
        each, start = measured(engine, workers, runs, steps=steps, residual_points=points)
        reference = reference or each
        # One step of a small network: what is left is handing out, setting up and storing.
        small: dict[str, Any] = {"steps": 1, "residual_points": 20, "network": ta.Network(4, 1)}
        overhead, _ = measured(engine, workers, light, **small)
        rate = steps / each
        print(
            f"{name:18} {rate:12.0f} {reference / each:6.2f} {1000 * overhead:16.1f} {start:8.1f}"
        )


if __name__ == "__main__":
    main()

"""How engines scale, and what a run and a task cost whoever hands them out.

The first table has run-steps per second and the overhead of a task, against one process. Counted
is from the moment at which every worker has brought its first result: starting and compiling
stand in a column of their own. The second has what grows with the number of runs, whatever the
engine: the bytes that a task sends through a scheduler, and the time that one process needs for
the key of a run and for storing, finding and reading it.

    python benchmarks/engines.py            # on this machine
    python benchmarks/engines.py --costs    # the second table alone
    python benchmarks/engines.py --quick    # to see that it runs

Only ratios inside one run mean anything.
"""

from __future__ import annotations

import argparse
import os
import pickle
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import twoaxis as ta
from twoaxis.files import write_whole
from twoaxis.runs import RunStore, train_specs
from twoaxis.runs.engines.dask import Dask
from twoaxis.runs.engines.engine import Engine, InProcess
from twoaxis.runs.engines.local import Local
from twoaxis.runs.task import Task, Training, cut
from twoaxis.runs.train import GPU_BATCH
from twoaxis.training import settings_for, specs_for
from twoaxis.training.settings import run_key


def measured(engine: Engine, workers: int, runs: int, **options: Any) -> tuple[float, float]:
    """Return seconds per task once all workers are warm, and seconds until they were."""
    settings = settings_for("burgers", **options)
    specs = specs_for(settings.problem, datasets=8, seeds=range(runs))
    with tempfile.TemporaryDirectory() as where:
        store = RunStore(where, create=True)
        work = Training(str(store.directory), "cpu")
        tasks = [Task(n, batch) for n, batch in enumerate(cut(settings, specs, 1))]
        began, arrived = time.perf_counter(), []
        for result in engine.execute(tasks, work, lambda *_: None):
            if result.failure:
                raise RuntimeError(result.failure)
            arrived.append(time.perf_counter())
    warm = arrived[workers - 1]
    return (arrived[-1] - warm) / (runs - workers), warm - began


def scaling(steps: int, points: int, runs: int, light: int) -> Iterator[str]:
    """Yield the lines of the first table."""
    engines: list[tuple[str, int, Engine]] = [
        ("in-process", 1, InProcess()),
        ("local, 1 worker", 1, Local(1)),
        ("local, 2 workers", 2, Local(2)),
        ("dask, 1 worker", 1, Dask(workers=1)),
        ("dask, 2 workers", 2, Dask(workers=2)),
    ]
    yield f"{steps} steps at {points} points a run, one run a task"
    yield f"{'engine':18} {'run-steps/s':>12} {'ratio':>6} {'ms a light task':>16} {'warm, s':>8}"
    reference = None
    for name, workers, engine in engines:
        each, start = measured(engine, workers, runs, steps=steps, residual_points=points)
        reference = reference or each
        # One step of a small network: what is left is handing out, setting up and storing.
        small: dict[str, Any] = {"steps": 1, "residual_points": 20, "network": ta.Network(4, 1)}
        overhead, _ = measured(engine, workers, light, **small)
        ratio = reference / each
        yield f"{name:18} {steps / each:12.0f} {ratio:6.2f} {1e3 * overhead:16.1f} {start:8.1f}"


def costs(runs: int) -> Iterator[str]:
    """Yield the lines of the second table, for the study's network."""
    settings = settings_for("burgers", steps=1)
    published = specs_for(settings.problem, datasets=(8, 9, 10, 11), seeds=range(GPU_BATCH // 4))
    replicas = [ta.fresh_dataset("burgers", layout=8, replica=n) for n in range(GPU_BATCH)]
    fresh = specs_for(settings.problem, datasets=replicas, seeds=0)
    for name, specs in (("4 datasets", published), (f"{GPU_BATCH} datasets", fresh)):
        size = len(pickle.dumps(cut(settings, specs, GPU_BATCH)[0]))
        yield f"{f'a task of {GPU_BATCH} runs on {name}':40}{size / 1e3:10.1f} kB"
    specs = fresh[:runs]
    trained = train_specs(settings, specs, engine="in-process", device="cpu", progress=False)
    keys = [run.key for run in trained]
    with tempfile.TemporaryDirectory() as where:
        store = RunStore(where, create=True)
        steps: dict[str, tuple[Callable[[Any], Any], Sequence[Any]]] = {
            "the key of a run": (lambda spec: run_key(settings, spec), specs),
            "finding that a run is missing": (store.found, keys),
            "storing a run": (store.save, list(trained)),
            "reading a run and its checksums": (store.found, keys),
        }
        yield f"\n{'one process, milliseconds':40}{'elapsed':>10}{'busy':>10}"
        for name, (step, items) in steps.items():
            began, busy = time.perf_counter(), time.process_time()
            for item in items:
                step(item)
            elapsed, busy = time.perf_counter() - began, time.process_time() - busy
            yield f"{name:40}{1e3 * elapsed / len(items):10.2f}{1e3 * busy / len(items):10.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny, to see that it runs")
    parser.add_argument("--costs", action="store_true", help="the second table alone")
    parser.add_argument("--out", type=Path, help="file for what is printed")
    options = parser.parse_args()
    lines = [
        "$ " + " ".join(["python", "benchmarks/engines.py", *sys.argv[1:]]),
        f"twoaxis {ta.__version__}, JAX {version('jax')}, Dask {version('distributed')}, "
        f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores",
        "",
    ]
    print("\n".join(lines), flush=True)
    tables = [costs(4 if options.quick else GPU_BATCH)]
    if not options.costs:
        scaled = scaling(20, 50, 4, 6) if options.quick else scaling(500, 2000, 16, 100)
        tables = [scaled, iter([""]), *tables]
    for line in chain.from_iterable(tables):
        lines.append(line)
        print(line, flush=True)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(options.out, lambda path: path.write_text("\n".join(lines) + "\n"))


if __name__ == "__main__":
    main()

"""The front door of the scoreboard: every training method on every benchmark problem.

A directory holds all of it: ``scoreboard.nc`` (every run), ``runs.csv`` (the same as text),
``scoreboard.csv`` and ``scoreboard.md`` (the table to cite) and ``index.html``. It is written after
each combination of a problem and a method, and runs whose rows are there are not trained again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from twoaxis.arrays import is_integer
from twoaxis.datasets import published_dataset
from twoaxis.diagnosis.scoreboard import Scoreboard
from twoaxis.errors import InputError, WorkerError
from twoaxis.files import ensure_directory, write_whole
from twoaxis.frozen import bound_view
from twoaxis.geometry import delivery, frozen_scan, score
from twoaxis.parameters import Parameters
from twoaxis.problems import PROBLEMS, Problem, get_problem
from twoaxis.progress import Bars, progress_bars
from twoaxis.resolution import resolve
from twoaxis.result import load
from twoaxis.runs import Run, RunStore, train_specs
from twoaxis.studies.library import BATCHES_ON_GPU, stored_readout
from twoaxis.studies.readouts import ENDPOINTS, OWN, PROFILES, in_published_box
from twoaxis.studies.reproduce import device_name, package_versions
from twoaxis.training import RunSpec, Settings, settings_for
from twoaxis.training.backends import Device, cores, find_gpu
from twoaxis.training.methods import METHODS, Method, get_method
from twoaxis.training.settings import run_key, specs_for

# As the study: 200 noisy replicas of each dataset.
REPLICAS = 200
FILE = "scoreboard.nc"
# Methods whose training view is one of the fixed views of the readout `profiles`.
PROFILED = {"adam": "pointwise", "pcgrad": "pointwise", "patch": "patch-8"}
PROFILED |= {"gaussian": "full kernel"}

Row = dict[str, Any]


class Combination(NamedTuple):
    """One method on one problem: runs that share their settings, by key."""

    settings: Settings
    specs: dict[str, RunSpec]


def compare_methods(
    problems: str | Problem | Iterable[str | Problem] | None = None,
    methods: str | Method | Iterable[str | Method] | None = None,
    *,
    seeds: int | Iterable[int] = range(5),
    layouts: int | None = None,
    steps: int | None = None,
    replicas: int = REPLICAS,
    out: str | Path | None = None,
    store: str | Path | RunStore | None = None,
    readouts: str | Path | None = None,
    device: Device = "auto",
    workers: int | None = None,
    progress: bool = True,
) -> Scoreboard:
    """Train methods on benchmark problems, and measure each run on both axes.

    Parameters
    ----------
    problems : str, Problem or iterable of them, optional
        All built-in problems without it.
    methods : str, Method or iterable of them, optional
        Names, or methods of your own: ``[*ta.methods.METHODS, MyMethod()]``. All built-in methods
        without it. Combinations that are not possible are skipped, with the reason.
    seeds : int or iterable of int
        Each gives an initial network and residual sites for every dataset.
    layouts : int, optional
        Take so many of the published layouts of each problem; all without it.
    steps : int, optional
        Of every method; without it each method has its own number.
    replicas : int
        Noisy replicas of each dataset for the matched error.
    out : path, optional
        Directory for the board. Runs that an earlier call left there are not trained again. The
        page is not written: see `write_board`.
    store : path or RunStore, optional
        Directory for the trained fields. Without it they are measured and dropped.
    readouts : path, optional
        Directory ``readouts`` of a reproduction. Its runs of the same problems, methods and
        layouts join the board, from all initializations, in place of training.
    device : {"auto", "cpu", "gpu"}
    workers : int, optional
        Processes on a CPU; one per core without it.
    progress : bool
        Show progress bars.

    Returns
    -------
    Scoreboard

    Examples
    --------
    >>> board = compare_methods(
    ...     "burgers", "adam", seeds=0, layouts=1, steps=2, replicas=3, progress=False
    ... )
    >>> print(*board.summary().loc[0, ["method", "runs", "layouts"]])
    adam 1 1
    """
    chosen = [get_problem(each) for each in _several(problems, PROBLEMS)]
    with_names = [get_method(each) for each in _several(methods, METHODS)]
    names = [method.name for method in with_names]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InputError(
            "methods with names of their own", f"{twice.pop()} twice", "give one another name"
        )
    if layouts is not None and not (is_integer(layouts) and layouts >= 1):
        raise InputError("at least one layout", f"layouts={layouts!r}", "pass layouts=4")
    gpu = find_gpu(device)
    directory = None if out is None else ensure_directory(out)
    board = _Board(device, store, workers, directory, replicas)
    numbers = {problem.name: problem.observed.layouts[:layouts] for problem in chosen}
    for problem in chosen:
        board.match(problem, numbers[problem.name])
    combinations = [
        each
        for problem in chosen
        for method in with_names
        if (each := board.combination(problem, method, numbers[problem.name], seeds, steps))
    ]
    if readouts is not None:
        board.take(_from_readouts(Path(readouts), combinations, numbers))
    with progress_bars(progress) as bars, bars.bar("methods", len(combinations)) as advance:

        def work(one: Combination) -> None:
            board.train(one, bars)
            advance(1)

        if gpu is None:
            for each in combinations:
                work(each)
        else:  # while one program is compiled, others are trained
            with ThreadPoolExecutor(BATCHES_ON_GPU) as threads:
                list(threads.map(work, combinations))
    return board.result()


def write_board(board: Scoreboard, directory: str | Path) -> list[Path]:
    """Write a board into a directory: netCDF, its tables as CSV and Markdown, and the page."""
    home = ensure_directory(directory)
    texts = {
        "runs.csv": board.rows.to_csv(index=False),
        "scoreboard.csv": board.summary().to_csv(index=False),
        "scoreboard.md": board.to_markdown(),
    }
    written = [board.save(home / FILE), board.to_html(home / "index.html")]
    for name, text in texts.items():
        put = partial(Path.write_text, data=text, encoding="utf-8")
        written.append(write_whole(home / name, put))
    return written


class _Board:
    """A board that grows: rows by the key of their run, from those that a directory holds."""

    def __init__(
        self,
        device: Device,
        store: str | Path | RunStore | None,
        workers: int | None,
        directory: Path | None,
        replicas: int,
    ) -> None:
        self._device, self._store, self._workers = device, store, workers
        self._directory, self._replicas = directory, replicas
        self._writing = threading.Lock()
        self._order = {name: k for k, name in enumerate(METHODS)}
        self.rows: dict[str, list[Row]] = {}
        self.settings, self.skipped = list[Row](), list[Row]()
        stored = None if directory is None else _stored(directory)
        if stored is not None:
            for row in _records(stored.rows):
                self.rows.setdefault(row["key"], []).append(row)
            self.skipped = _records(stored.skipped)
            if stored.data.attrs["replicas"] == replicas:
                self.settings = _records(stored.matched)

    def match(self, problem: Problem, datasets: Sequence[int]) -> None:
        """Add the matched errors of a problem, unless they are there."""
        held = {each["dataset"] for each in self.settings if each["problem"] == problem.name}
        missing = [number for number in datasets if str(number) not in held]
        if missing:
            self.settings += _matched(problem, missing, self._replicas)

    def combination(
        self,
        problem: Problem,
        method: Method,
        datasets: Sequence[int],
        seeds: int | Iterable[int],
        steps: int | None,
    ) -> Combination | None:
        """Return the runs of a method on a problem; None, with the reason kept, if it has none.

        Rows of the same method that were trained with other settings leave the board.
        """
        asked = (problem.name, method.name)
        self.skipped = [e for e in self.skipped if (e["problem"], e["method"]) != asked]
        try:
            settings = settings_for(problem, method, steps=steps)
            specs = specs_for(problem, datasets=datasets, seeds=seeds)
        except InputError as error:
            self.skip(*asked, error)
            return None
        self._order.setdefault(method.name, len(self._order))
        for key, ((row, *_)) in list(self.rows.items()):
            if (row["problem"], row["method"]) == asked:
                same = specs_for(problem, datasets=int(row["dataset"]), seeds=int(row["seed"]))
                if run_key(settings, same[0]) != key:
                    del self.rows[key]
        return Combination(settings, {run_key(settings, spec): spec for spec in specs})

    def take(self, rows: Mapping[str, list[Row]]) -> None:
        """Add rows that are not there."""
        self.rows = {**rows, **self.rows}

    def skip(self, problem: str, method: str, error: BaseException) -> None:
        """Keep why a combination has no runs."""
        reason = " ".join(str(error).split()).rstrip(".")
        self.skipped.append({"problem": problem, "method": method, "reason": reason})

    def train(self, one: Combination, bars: Bars) -> None:
        """Train what has no rows yet, and measure it."""
        missing = {key: spec for key, spec in one.specs.items() if key not in self.rows}
        if not missing:
            return
        device = device_name(self._device)
        clock = time.monotonic if find_gpu(self._device) else _processor_time
        began = clock()
        try:
            runs = train_specs(
                one.settings,
                list(missing.values()),
                store=self._store,
                device=self._device,
                workers=self._workers,
                progress=bars,
            )
        except (InputError, WorkerError) as error:
            self.skip(one.settings.problem.name, one.settings.method.name, error)
            return
        now = int((runs.work["attempts"] > 0).sum())
        each = (clock() - began) / now if now else np.nan
        there = [k for k in range(len(runs)) if runs.data["trained"].values[k]]
        # A run that a store held before was not timed.
        took = [each if runs.work["attempts"][k] else np.nan for k in there]
        with ThreadPoolExecutor(cores()) as threads:
            measure = partial(measured, device=device)
            found = list(threads.map(measure, (runs[k] for k in there), took))
        with self._writing:
            self.rows |= {rows[0]["key"]: rows for rows in found}
            if self._directory is not None:
                self.result().save(self._directory / FILE)

    def result(self) -> Scoreboard:
        """Return the board as it stands."""
        places = list(dict.fromkeys(each["problem"] for each in self.settings))
        ordered = sorted(
            (row for rows in self.rows.values() for row in rows),
            key=lambda row: (
                places.index(row["problem"]),
                self._order.get(row["method"], len(self._order)),
                int(row["dataset"]),
                row["seed"],
            ),
        )
        versions = ", ".join(f"{name} {each}" for name, each in package_versions().items())
        attributes = {"versions": versions, "replicas": self._replicas}
        return Scoreboard.of(ordered, self.settings, self.skipped, attributes)


def _processor_time() -> float:
    """Return the seconds of this process and of the workers that it has ended.

    Other programs on the machine do not lengthen it.
    """
    return sum(os.times()[:4])


def measured(run: Run, took: float, *, device: str) -> list[Row]:
    """Return the rows of a run, one for each parameter.

    The score and the scan are those of the training view, around the truth and inside the
    published bounds, whatever the network delivered.

    Parameters
    ----------
    run : Run
    took : float
        Seconds of its training.
    device : str
        What it was trained on.
    """
    frozen = in_published_box(run)
    metric = bound_view(frozen, run.view)
    found = score(frozen, view=metric, at="truth")
    scan = frozen_scan(frozen, view=metric, at="truth")
    nothing = dict.fromkeys(run.problem.parameters, float("nan"))
    gap, displacement = nothing, nothing
    if scan.minimum is not None and scan.displacement is not None:
        gap = delivery(run.frozen.parameters, scan.minimum).gap_percent
        known = Parameters(frozen.parameters)
        sizes = known.displacement_percent(list(scan.displacement.values()), found.center.values)
        displacement = dict(zip(known, map(float, sizes), strict=True))
    return [
        {
            "key": run.key,
            "problem": run.problem.name,
            "method": run.settings.method.name,
            "parameter": name,
            "dataset": run.dataset.label,
            "seed": run.seed,
            "delivered": run.delivered[name],
            "error_percent": run.error_percent[name],
            "displacement_percent": displacement[name],
            "local_percent": found.delta_percent[name],
            "gap_percent": gap[name],
            "time": took,
            "status": run.status,
            "device": device,
        }
        for name in run.problem.parameters
    ]


def _several(given: Any, every: Mapping[str, Any]) -> list[Any]:
    if given is None:
        return list(every.values())
    single = isinstance(given, (str, Problem)) or hasattr(given, "recipe")
    found = [given] if single else list(given)
    if not found:
        raise InputError("at least one", "none", "name one, or leave it out for all")
    return found


def _stored(directory: Path) -> Scoreboard | None:
    """Return the board that an earlier call left."""
    path = directory / FILE
    if not path.exists():
        return None
    board = load(path)
    if not isinstance(board, Scoreboard):
        raise InputError("a scoreboard", f"another result in {str(path)!r}", "move it away")
    return board


def _records(table: pd.DataFrame) -> list[Row]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _matched(problem: Problem, datasets: Sequence[int], replicas: int) -> list[Row]:
    """Return the matched errors of a problem, by parameter and dataset."""
    found = resolve(
        problem,
        layouts=list(datasets),
        replicas=replicas,
        data={number: published_dataset(problem, number).values for number in datasets},
        validate=0,
        progress=False,
    )
    rows = []
    for number in datasets:
        for name in problem.parameters:
            own = found.data.sel(layout=str(number), parameter=name)
            rows.append(
                {
                    "problem": problem.name,
                    "parameter": name,
                    "dataset": str(number),
                    "resolution_percent": float(own["deviation_percent"].mean()),
                    "matched_percent": float(own["data_deviation_percent"]),
                }
            )
    return rows


def _from_readouts(
    directory: Path, combinations: Sequence[Combination], datasets: Mapping[str, Sequence[int]]
) -> dict[str, list[Row]]:
    """Return rows of the runs that a reproduction has read out under their training view.

    The readouts name runs by the same keys, so that a run which is asked for and stored there is
    not trained. All of their problems have one parameter, in log coordinates.
    """
    frames = []
    for readout in (ENDPOINTS, PROFILES):
        rows = stored_readout(directory, readout)
        if not rows.empty:
            own = OWN if readout is ENDPOINTS else rows["method"].map(PROFILED)
            frames.append(rows[rows["view"] == own])
    if not frames:
        raise InputError(
            f"a directory with {ENDPOINTS.file} or {PROFILES.file}",
            f"{str(directory)!r}",
            "pass the folder readouts of a reproduction",
        )
    table = pd.concat(frames).drop_duplicates("key").set_index("key")
    found: dict[str, list[Row]] = {}
    for settings, _ in combinations:
        problem, method = settings.problem, settings.method.name
        stored = table[(table["problem"] == problem.name) & (table["method"] == method)]
        seeds = sorted({int(seed) for seed in stored["initialization"]})
        for spec in specs_for(problem, datasets=datasets[problem.name], seeds=seeds):
            key = run_key(settings, spec)
            if key in stored.index:
                found[key] = [_read_out(key, problem, method, spec, stored.loc[key])]
    return found


def _read_out(key: str, problem: Problem, method: str, spec: RunSpec, read: Any) -> Row:
    ((name, parameter),) = problem.parameters.items()
    assert parameter.truth is not None
    moved, preferred = (float(read[f"{n}_displacement"]) for n in ("delivered", "refined"))
    return {
        "key": key,
        "problem": problem.name,
        "method": method,
        "parameter": name,
        "dataset": spec.dataset.label,
        "seed": spec.seed,
        "delivered": parameter.truth * float(np.exp(moved)),
        "error_percent": 100 * float(np.expm1(moved)),
        "displacement_percent": float(read["refined_error_percent"]),
        "local_percent": float(read["delta_percent"]),
        "gap_percent": 100 * float(np.expm1(moved - preferred)),
        "time": float("nan"),
        "status": "finished",
        "device": "",
    }

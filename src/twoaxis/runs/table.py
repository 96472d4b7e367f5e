"""Trained runs as a table: one row per run, with the run itself behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final, overload

import numpy as np
import pandas as pd
import xarray as xr

from twoaxis.errors import InputError
from twoaxis.io import Layout, Variable
from twoaxis.problems import Problem
from twoaxis.result import Result
from twoaxis.runs.run import FINISHED, Run
from twoaxis.runs.store import RunStore

# Runs of a store that are kept in memory. A view can take 30 MB.
KEPT_RUNS = 32
PER_RUN = ("key",)
PER_VALUE = ("key", "parameter")

LAYOUT: Layout = {
    "key": Variable(PER_RUN, "text", "key of the run: a name derived from all that defines it"),
    "problem": Variable(PER_RUN, "text", "name of the problem"),
    "method": Variable(PER_RUN, "text", "name of the training method"),
    "dataset": Variable(PER_RUN, "text", "label of the dataset"),
    "seed": Variable(PER_RUN, "int", "seed of the initial network and the residual sites"),
    "steps": Variable(PER_RUN, "int", "steps done"),
    "loss_data": Variable(PER_RUN, "float", "data term of the last loss; NaN: none"),
    "loss_residual": Variable(PER_RUN, "float", "residual term of the last loss; NaN: none"),
    "parameter": Variable(("parameter",), "text", "name of the parameter"),
    "delivered": Variable(PER_VALUE, "float", "value from training; NaN: none"),
    "truth": Variable(PER_VALUE, "float", "true value; NaN: not known"),
    "error_percent": Variable(PER_VALUE, "float", "signed error of the delivered value", "%"),
    "status": Variable(PER_RUN, "text", "finished, or a sentence"),
    "program": Variable(PER_RUN, "text", "what computed its steps, xla or fused; empty: none"),
    "trained": Variable(PER_RUN, "bool", "whether there is a run"),
    "worker": Variable(PER_RUN, "text", "host and process that trained it, if it was trained now"),
    "attempts": Variable(PER_RUN, "int", "how often its training was begun; 0: found in a store"),
}
COLUMNS = ("key", "problem", "method", "dataset", "seed", "steps", "loss_data", "loss_residual")


@final
class Runs(Result[xr.Dataset], Sequence[Run]):
    """Trained runs, in the order in which they were asked for.

    Indexing gives a `Run`, which is read when it is first used if it is in a store. A run that
    failed is a row with its reason as status; asking for it raises that reason. `save` writes the
    table alone, for `twoaxis.load`; the runs themselves are in the store, for `twoaxis.load_runs`.

    Attributes
    ----------
    data : xarray.Dataset
        Dimensions ``key`` and ``parameter``: ``problem``, ``method``, ``dataset``, ``seed``,
        ``steps``, ``loss_data``, ``loss_residual``, ``delivered``, ``truth``, ``error_percent``,
        ``status``, ``program``, ``trained``, ``worker``, ``attempts``.

    Examples
    --------
    >>> import twoaxis as ta
    >>> runs = ta.train("burgers", datasets=8, steps=3, residual_points=50, progress=False)
    >>> len(runs), runs.to_dataframe()["method"].tolist(), len(runs.failures)
    (1, ['rba'], 0)
    """

    schema = "runs"
    layouts = {"/": LAYOUT}  # noqa: RUF012
    _read: Callable[[int], Run] | None = None

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Runs:
        """Return a table of runs that are in memory."""
        kept = tuple(runs)
        return cls.from_rows([row_of(run) for run in kept], kept.__getitem__)

    @classmethod
    def from_rows(cls, rows: Sequence[dict[str, Any]], read: Callable[[int], Run]) -> Runs:
        """Return a table of rows as `row_of` and `failed_row` make them.

        Parameters
        ----------
        rows : sequence of dict
        read : callable
            ``read(k)``: the run of row k.
        """
        names = list(dict.fromkeys(name for row in rows for name in row["delivered"]))
        per_value = ("delivered", "truth", "error_percent")
        values: dict[str, Any] = {
            name: np.array([[row[name].get(each, np.nan) for each in names] for row in rows])
            for name in per_value
        }
        others = [name for name in LAYOUT if name not in (*per_value, "parameter")]
        values |= {name: [row[name] for row in rows] for name in others}
        found = cls.from_values(values | {"parameter": names}, {})
        found._read = read
        return found

    @classmethod
    def from_store(
        cls,
        rows: Sequence[dict[str, Any]],
        store: RunStore,
        problem: Problem | None,
        known: Mapping[int, Run],
    ) -> Runs:
        """Return a table of rows whose runs are in a store; `known` are some that were read."""
        kept = {number: known[number] for number in sorted(known)[:KEPT_RUNS]}

        def read(number: int) -> Run:
            if number not in kept:
                if len(kept) >= KEPT_RUNS:
                    kept.pop(next(iter(kept)), None)
                kept[number] = store.load(rows[number]["key"], problem)
            return kept[number]

        return cls.from_rows(rows, read)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Runs: ...
    def __getitem__(self, index: int | slice) -> Run | Runs:
        """Return a run, or several."""
        numbers = range(len(self))[index]
        if isinstance(numbers, int):
            return self._run(numbers)
        some = Runs(self.data.isel(key=list(numbers)))
        some._read = lambda number: self._run(numbers[number])
        return some

    def _run(self, number: int) -> Run:
        if not self.data["trained"].values[number]:
            raise InputError(
                f"a run that was trained as number {number}",
                str(self.data["status"].values[number]),
                "train it again; runs.failures lists all that failed",
            )
        if self._read is None:
            raise InputError(
                "runs with their fields",
                "a table from a file, which holds none",
                "load the runs with twoaxis.load_runs(directory)",
            )
        return self._read(number)

    def __len__(self) -> int:
        return int(self.data.sizes["key"])

    def __repr__(self) -> str:
        status, there = self.data["status"].values, self.data["trained"].values
        finished, failed = int(np.sum(status == FINISHED)), int(np.sum(~there))
        diverged = len(self) - finished - failed
        parts = [f"{finished} finished"]
        parts += [f"{n} {name}" for n, name in ((diverged, "diverged"), (failed, "failed")) if n]
        what = ", ".join(sorted({str(name) for name in self.data["problem"].values}))
        return f"<Runs: {len(self)} of {what}; {', '.join(parts)}>"

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the runs, in order."""
        return tuple(map(str, self.data["key"].values))

    def to_dataframe(self, field_error: bool = False) -> pd.DataFrame:
        """Return a row for each run: what it was, what it delivered, and its status.

        Parameters
        ----------
        field_error : bool
            Add the relative L2 error of the field, which takes about a second per run.
        """
        data = self.data
        columns: dict[str, Any] = {name: data[name].values for name in COLUMNS}
        for number, name in enumerate(map(str, data["parameter"].values)):
            columns[name] = data["delivered"].values[:, number]
            if np.isfinite(data["truth"].values[:, number]).any():
                columns[f"{name}_error_percent"] = data["error_percent"].values[:, number]
        if field_error:
            there = data["trained"].values
            columns["field_error"] = [
                self[k].field_error() if there[k] else np.nan for k in range(len(self))
            ]
        return pd.DataFrame({**columns, "status": data["status"].values})

    @property
    def failures(self) -> pd.DataFrame:
        """The rows of runs that are not there, with the reason as status."""
        return self.to_dataframe().loc[~self.data["trained"].values]

    @property
    def work(self) -> pd.DataFrame:
        """Who trained each run, with which program, and how often it was begun."""
        names = ("key", "worker", "program", "attempts")
        return pd.DataFrame({name: self.data[name].values for name in names})

    def summary(self) -> pd.DataFrame:
        """Return counts and absolute errors by problem, method and parameter."""
        rows = []
        frame = self.to_dataframe()
        for (problem, method), own in frame.groupby(["problem", "method"], sort=False):
            for name in map(str, self.data["parameter"].values):
                if not own[name].notna().any():
                    continue
                row = {"problem": problem, "method": method, "parameter": name, "runs": len(own)}
                row |= {"finished": int((own["status"] == FINISHED).sum())}
                row |= {"mean_delivered": own[name].mean()}
                error = own.get(f"{name}_error_percent")
                if error is not None:
                    size = error.abs()
                    row |= {"mean_abs_error_percent": size.mean()}
                    row |= {"median_abs_error_percent": size.median()}
                    row |= {"max_abs_error_percent": size.max()}
                rows.append(row)
        columns = ["problem", "method", "parameter", "runs", "finished", "mean_delivered"]
        return pd.DataFrame(rows, columns=None if rows else columns)


def row_of(run: Run, worker: str = "", attempts: int = 0) -> dict[str, Any]:
    """Return the row of a run that is there."""
    last: Any = run.history.iloc[-1] if len(run.history) else {}
    return {
        **_defined(run.key, run.problem, run.settings.method.name, run.dataset.label, run.seed),
        "steps": run.final.step,
        "loss_data": float(last.get("loss_data", np.nan)),
        "loss_residual": float(last.get("loss_residual", np.nan)),
        "delivered": run.delivered,
        "error_percent": run.error_percent,
        "status": run.status,
        "program": run.program,
        "trained": True,
        "worker": worker,
        "attempts": attempts,
    }


def failed_row(
    key: str, problem: Problem, method: str, dataset: str, seed: int, why: str, attempts: int
) -> dict[str, Any]:
    """Return the row of a run that is not there."""
    return {
        **_defined(key, problem, method, dataset, seed),
        "steps": 0,
        "loss_data": np.nan,
        "loss_residual": np.nan,
        "delivered": dict.fromkeys(problem.parameters, np.nan),
        "error_percent": {},
        "status": why,
        "program": "",
        "trained": False,
        "worker": "",
        "attempts": attempts,
    }


def _defined(key: str, problem: Problem, method: str, dataset: str, seed: int) -> dict[str, Any]:
    truth = {n: p.truth for n, p in problem.parameters.items() if p.truth is not None}
    return {
        **{"key": key, "problem": problem.name, "method": method},
        **{"dataset": dataset, "seed": seed, "truth": truth},
    }


def load_runs(directory: Any, problem: Problem | None = None) -> Runs:
    """Read all runs of a store, in the order of their keys.

    Parameters
    ----------
    directory : path or RunStore
        As given to ``train(store=...)``.
    problem : Problem, optional
        For runs of a user's own problem, which no file can hold.

    Examples
    --------
    >>> import tempfile, twoaxis as ta
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = ta.train(
    ...         "burgers", datasets=8, steps=3, residual_points=50, store=folder, progress=False
    ...     )
    ...     print(len(ta.load_runs(folder)))
    1
    """
    store = RunStore.opened(directory)
    keys = store.keys()
    if not keys:
        raise InputError(
            "a directory that holds runs",
            f"{str(store.directory)!r}, which holds none",
            "train some with twoaxis train PROBLEM --out DIR",
        )
    rows, known = [], {}
    for number, key in enumerate(keys):
        run = store.load(key, problem)
        rows.append(row_of(run))
        if number < KEPT_RUNS:
            known[number] = run
    return Runs.from_store(rows, store, problem, known)

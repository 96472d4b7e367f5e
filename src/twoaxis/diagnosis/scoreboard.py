"""Training methods side by side: what each delivered, and why it was off, problem by problem.

Each row is one parameter of one run: its delivered error, the displacement of its frozen field
under the training view, its delivery gap, and what the training took. The matched error, which is
a property of the observations and no method's, stands beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from twoaxis.io import Layout, Variable
from twoaxis.result import Result
from twoaxis.text import number, visible

LEVEL = 0.95
# What a run is measured by, and its heading.
QUANTITIES = {"error": "error", "displacement": "displacement", "gap": "delivery gap"}

_ROW, _SETTING, _SKIPPED = ("row",), ("setting",), ("skipped",)
ROWS: Layout = {
    "key": Variable(_ROW, "text", "key of the run"),
    "problem": Variable(_ROW, "text", "name of the problem"),
    "method": Variable(_ROW, "text", "name of the training method"),
    "parameter": Variable(_ROW, "text", "name of the parameter"),
    "dataset": Variable(_ROW, "text", "label of the dataset: the seed of its layout"),
    "seed": Variable(_ROW, "int", "seed of the initial network and the residual sites"),
    "delivered": Variable(_ROW, "float", "value from training; NaN: none"),
    "error_percent": Variable(_ROW, "float", "signed error of the delivered value", "%"),
    "displacement_percent": Variable(
        _ROW, "float", "size of the displacement of the frozen scan minimum; NaN: none", "%"
    ),
    "local_percent": Variable(_ROW, "float", "size of the local displacement D; NaN: none", "%"),
    "gap_percent": Variable(_ROW, "float", "delivered relative to preferred; NaN: none", "%"),
    "time": Variable(_ROW, "float", "time of the training; NaN: not measured", "s"),
    "status": Variable(_ROW, "text", "finished, or a sentence"),
    "device": Variable(_ROW, "text", "what it was trained on; empty: a run of a reproduction"),
}
LAYOUT: Layout = {
    **ROWS,
    "setting_problem": Variable(_SETTING, "text", "name of the problem"),
    "setting_parameter": Variable(_SETTING, "text", "name of the parameter"),
    "setting_dataset": Variable(_SETTING, "text", "label of the dataset"),
    "resolution_percent": Variable(
        _SETTING, "float", "mean matched error over noisy replicas of the dataset", "%"
    ),
    "matched_percent": Variable(
        _SETTING, "float", "matched error on the dataset itself; NaN: none", "%"
    ),
    "skipped_problem": Variable(_SKIPPED, "text", "name of the problem"),
    "skipped_method": Variable(_SKIPPED, "text", "name of the method"),
    "skipped_reason": Variable(_SKIPPED, "text", "why there are no runs"),
}


class Mean(NamedTuple):
    """A mean with the ends of its interval; NaN where it has none."""

    value: float
    low: float
    high: float


def mean_over_layouts(values: ArrayLike, layouts: ArrayLike) -> Mean:
    r"""Return the mean in which every layout counts the same, with a 95% interval.

    With the mean :math:`m_l` and the number :math:`n_l` of values on layout l of L, and the
    variance :math:`s^2` within layouts, pooled over them, the mean is
    :math:`\frac1L \sum_l m_l` and its standard error
    :math:`\frac{s}{L} \sqrt{\sum_l 1 / n_l}`, with Student's t for
    :math:`\sum_l (n_l - 1)` degrees of freedom. The interval is for the mean over
    initializations: layouts and noise are held.

    Parameters
    ----------
    values : array_like, shape (n,)
        Values that are not finite are left out.
    layouts : array_like, shape (n,)

    Examples
    --------
    >>> found = mean_over_layouts([1.0, 3.0, 10.0, 12.0, 14.0], ["8", "8", "9", "9", "9"])
    >>> [round(end, 2) for end in found]
    [7.0, 4.35, 9.65]
    """
    array, groups = np.asarray(values, dtype=float), np.asarray(layouts)
    kept = np.isfinite(array)
    own = [array[kept & (groups == each)] for each in np.unique(groups[kept])]
    if not own:
        return Mean(np.nan, np.nan, np.nan)
    middle = float(np.mean([group.mean() for group in own]))
    freedom = sum(len(group) - 1 for group in own)
    if not freedom:
        return Mean(middle, np.nan, np.nan)
    variance = sum(float(np.sum((group - group.mean()) ** 2)) for group in own) / freedom
    error = np.sqrt(variance * sum(1 / len(group) for group in own)) / len(own)
    reach = float(stdtrit(freedom, (1 + LEVEL) / 2) * error)
    return Mean(middle, middle - reach, middle + reach)


@final
class Scoreboard(Result[xr.Dataset]):
    """Two-axis profiles of training methods; made by `twoaxis.compare_methods`.

    Attributes
    ----------
    data : xarray.Dataset
        Dimension ``row``, one for each parameter of each run; ``setting``, one for each
        parameter and dataset of a problem, with its matched error; ``skipped``, the
        combinations without runs. The attribute ``replicas`` says what the matched errors are
        means of.

    Examples
    --------
    >>> import twoaxis as ta
    >>> board = ta.compare_methods(
    ...     "burgers", "adam", seeds=0, layouts=1, steps=2, replicas=3, progress=False
    ... )
    >>> board.problems, board.rows["status"].tolist()
    (['burgers'], ['finished'])
    """

    schema = "scoreboard"
    layouts: ClassVar = {"/": LAYOUT}
    attributes: ClassVar = {"/": ("versions", "replicas")}

    @property
    def rows(self) -> pd.DataFrame:
        """A row for each parameter of each run."""
        return pd.DataFrame({name: self.data[name].values for name in ROWS})

    @property
    def problems(self) -> list[str]:
        """Names of the problems that have runs, in order."""
        return list(dict.fromkeys(map(str, self.data["problem"].values)))

    @property
    def skipped(self) -> pd.DataFrame:
        """Combinations of a problem and a method without runs, and why."""
        names = ("problem", "method", "reason")
        return pd.DataFrame({n: self.data[f"skipped_{n}"].values for n in names})

    @property
    def matched(self) -> pd.DataFrame:
        """The matched errors, a row for each problem, parameter and dataset."""
        names = ("problem", "parameter", "dataset")
        table = pd.DataFrame({n: self.data[f"setting_{n}"].values for n in names})
        percent = ("resolution_percent", "matched_percent")
        return table.assign(**{name: self.data[name].values for name in percent})

    def resolution(self, problem: str, parameter: str) -> float:
        """Return the matched error in percent: its mean over replicas and layouts."""
        table = self.matched
        own = (table["problem"] == problem) & (table["parameter"] == parameter)
        return float(table.loc[own, "resolution_percent"].mean())

    def summary(self) -> pd.DataFrame:
        """Return the board: a row for each problem, parameter and method.

        ``error``, ``displacement`` and ``gap`` are mean absolute percentages in which each layout
        counts the same, with the ends ``_low`` and ``_high`` of a 95% interval over
        initializations (see `mean_over_layouts`); ``matched`` is the mean matched error and
        ``time`` the mean time of a run.
        """
        rows = []
        groups = self.rows.groupby(["problem", "parameter", "method"], sort=False)
        for (problem, parameter, method), own in groups:
            row: dict[str, Any] = {"problem": problem, "parameter": parameter, "method": method}
            row |= {"runs": len(own), "finished": int((own["status"] == "finished").sum())}
            row |= {"layouts": own["dataset"].nunique()}
            for name in QUANTITIES:
                found = mean_over_layouts(own[f"{name}_percent"].abs(), own["dataset"])
                ends = {f"{name}_low": max(found.low, 0.0), f"{name}_high": found.high}
                row |= {name: found.value, **ends}
            row["matched"] = self.resolution(str(problem), str(parameter))
            row["time"] = own["time"].mean()
            rows.append(row)
        columns = ["problem", "parameter", "method", "runs", "finished", "layouts"]
        columns += [f"{name}{end}" for name in QUANTITIES for end in ("", "_low", "_high")]
        return pd.DataFrame(rows, columns=[*columns, "matched", "time"])

    def cells(self, problem: str) -> tuple[list[str], list[list[str]]]:
        """Return the board of one problem as texts: headings, and a row for each method."""
        own = self.summary()
        own = own[own["problem"] == problem]
        several = own["parameter"].nunique() > 1
        heads = ["method", *(["parameter"] if several else []), "runs"]
        heads += [f"{words}, %" for words in QUANTITIES.values()]
        heads += ["matched error, %", "time, s"]
        settings = self.matched
        layouts = settings.loc[settings["problem"] == problem, "dataset"].nunique()
        rows = []
        for row in own.to_dict("records"):
            runs = str(row["runs"])
            if row["finished"] < row["runs"]:
                runs = f"{row['finished']} of {runs} finished"
            if row["layouts"] < layouts:  # not to be compared with those that have all
                runs += f", {row['layouts']} of {layouts} layouts"
            cells = [visible(row["method"]), *([visible(row["parameter"])] if several else [])]
            cells += [runs, *(_with_interval(row, name) for name in QUANTITIES)]
            rows.append([*cells, _number(row["matched"]), _number(row["time"])])
        return heads, rows

    def to_markdown(self) -> str:
        """Return the board as Markdown tables, one for each problem."""
        parts = []
        for problem in self.problems:
            heads, rows = self.cells(problem)
            lines = ["| " + " | ".join(cells) + " |" for cells in (heads, *rows)]
            lines.insert(1, "|---" * len(heads) + "|")
            parts.append("\n".join([f"**{visible(problem)}**", "", *lines]))
        return "\n\n".join([*parts, *self.notes]) + "\n"

    @property
    def notes(self) -> list[str]:
        """What a reader must know beside the numbers, as sentences."""
        notes = []
        for each in self.skipped.to_dict("records"):
            combination = f"{visible(each['method'])} on {visible(each['problem'])}"
            notes.append(f"Skipped: {combination}: {visible(each['reason'])}.")
        rows = self.rows
        taken = rows["device"] == ""
        if taken.any():
            runs = rows.loc[taken, "key"].nunique()
            notes.append(
                f"{runs} of {rows['key'].nunique()} runs were not trained for this board: they "
                "are those of the reproduction, from its readouts, and have no time."
            )
        for device in dict.fromkeys(rows.loc[~taken, "device"]):
            kind = "processor time" if device == "CPU" else "elapsed time, shared by a batch"
            notes.append(f"Time on {visible(device)} is {kind}, per run, compilation included.")
        return notes

    def __repr__(self) -> str:
        runs, methods = self.rows["key"].nunique(), self.rows["method"].nunique()
        lines = [f"Scoreboard: {methods} methods on {len(self.problems)} problems, {runs} runs"]
        for problem in self.problems:
            heads, rows = self.cells(problem)
            table = pd.DataFrame(rows, columns=heads).to_string(index=False)
            lines += ["", visible(problem), table]
        return "\n".join([*lines, *(["", *self.notes] if self.notes else [])])

    @classmethod
    def of(
        cls,
        rows: Sequence[Mapping[str, Any]],
        settings: Sequence[Mapping[str, Any]],
        skipped: Sequence[Mapping[str, str]],
        attributes: Mapping[str, Any],
    ) -> Scoreboard:
        """Return a board of rows, matched errors and skipped combinations.

        Parameters
        ----------
        rows : sequence of mapping
            With the names of `ROWS`.
        settings : sequence of mapping
            With ``problem``, ``parameter``, ``dataset``, ``resolution_percent`` and
            ``matched_percent``.
        skipped : sequence of mapping
            With ``problem``, ``method`` and ``reason``.
        attributes : mapping
            ``versions`` and ``replicas``.
        """
        values: dict[str, Any] = {name: [row[name] for row in rows] for name in ROWS}
        for name in ("problem", "parameter", "dataset"):
            values[f"setting_{name}"] = [each[name] for each in settings]
        for name in ("resolution_percent", "matched_percent"):
            values[name] = [each[name] for each in settings]
        for name in ("problem", "method", "reason"):
            values[f"skipped_{name}"] = [each[name] for each in skipped]
        return cls.from_values(values, attributes)


def _number(value: float) -> str:
    return "–" if np.isnan(value) else number(value, ".3g")


def _with_interval(row: Mapping[Any, Any], name: str) -> str:
    middle, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    if np.isnan(middle) or np.isnan(high):
        return _number(middle)
    return f"{_number(middle)} ({_number(low)} to {_number(high)})"

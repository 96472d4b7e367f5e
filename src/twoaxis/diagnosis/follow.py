"""How the preferred value came about: score and scan at several steps of one training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
import pandas as pd
import xarray as xr

from twoaxis.arrays import is_integer
from twoaxis.errors import InputError, refuse_masked
from twoaxis.frozen import FrozenResidual, bound_view
from twoaxis.geometry import frozen_scan, score
from twoaxis.io import Layout, Variable, labelled
from twoaxis.parameters import Parameter, Parameters
from twoaxis.result import CENTER_LAYOUT, PARAMETER_LAYOUT, CenteredResult

if TYPE_CHECKING:
    from twoaxis.views import View

_SP = ("step", "parameter")


@final
class Snapshots(CenteredResult):
    """Preferred value, strength and delivery gap along one training; made by `twoaxis.follow`."""

    schema = "snapshots"
    layouts: ClassVar = {
        "/": {
            **PARAMETER_LAYOUT,
            **CENTER_LAYOUT,
            "step": Variable(("step",), "int", "training step of the snapshot"),
            "value": Variable(_SP, "float", "value of the parameter at the step; NaN: not known"),
            "displacement": Variable(_SP, "float", "displacement D from the center", finite=True),
            "preference": Variable(
                _SP, "float", "frozen scan minimum minus center, in coordinates; NaN: none"
            ),
            "gap": Variable(_SP, "float", "value minus frozen scan minimum, in coordinates"),
            "strength": Variable(
                ("step", "parameter", "other_parameter"), "float", "strength H", finite=True
            ),
            "other_parameter": Variable(("other_parameter",), "text", "name of the parameter"),
            "status": Variable(("step",), "text", "where the scan minimum lies"),
        }
    }
    attributes: ClassVar = {"/": ("centered_on",)}

    def derived(self) -> dict[str, Any]:
        """Return the gap: coordinate of the value - (coordinate of the center + preference)."""
        data, parameters = self.data, self.parameters
        home = parameters.coordinates(self.center.values)
        values = data["value"].transpose("step", "parameter").values
        reached = parameters.coordinates(dict(zip(parameters, values.T, strict=True)))
        return {
            "gap": reached - (home + data["preference"].values),
            "other_parameter": parameters.names,
        }

    def summary(self) -> pd.DataFrame:
        """Return a table with one row per step and parameter."""
        names = ("value", "displacement", "preference", "gap")
        table = {n: self.data[n].transpose("step", "parameter").values.ravel() for n in names}
        H = self.data["strength"].transpose("step", "parameter", "other_parameter").values
        table["strength"] = np.diagonal(H, axis1=1, axis2=2).ravel()
        rows = pd.MultiIndex.from_product(
            [self.data["step"].values, self.names], names=["step", "parameter"]
        )
        found = pd.DataFrame(table, index=rows)
        found["status"] = np.repeat(self.data["status"].values, len(self.names))
        return found

    def __repr__(self) -> str:
        steps = self.data["step"].values
        head = f"{len(steps)} snapshots of one training, steps {steps[0]} to {steps[-1]}"
        return f"{head}\n{self.summary().to_string(float_format=lambda v: f'{v:.4g}')}"


def follow(
    snapshots: Iterable[tuple[int, FrozenResidual]],
    view: View | None = None,
    at: str | Mapping[str, float] | None = None,
    *,
    candidates: int = 81,
) -> Snapshots:
    """Follow preferred value, strength and delivery gap along one training.

    Parameters
    ----------
    snapshots : iterable of (int, FrozenResidual)
        Training steps, ascending, with the field frozen there. Each snapshot's parameters
        carry the value at that step as ``delivered``.
    view : View, optional
        By default the training view that each snapshot carries: adaptive weights change.
    at : {"truth", "delivered"} or mapping of str to float, optional
        The center, one for all steps. By default the truth where it is known, else the value
        delivered at the last step.
    candidates : int
        Of the scan of each snapshot.

    Returns
    -------
    Snapshots
        NaN where a profile is flat or its minimum lies on a bound. ``audit(..., snapshots=...)``
        keeps it.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 20)
    >>> def frozen(preferred, delivered):
    ...     k = ta.Parameter(truth=1.0, delivered=delivered, bounds=(0.5, 2.0))
    ...     return ta.FrozenResidual(
    ...         lambda k: k * np.ones(20) - preferred, {"k": k}, x, view=ta.views.Pointwise()
    ...     )
    >>> found = ta.follow([(100, frozen(1.2, 1.0)), (200, frozen(1.1, 1.1))])
    >>> found.data["gap"].values.round(3).ravel().tolist()
    [-0.182, 0.0]
    """
    rows = [_checked(item) for item in snapshots]
    if not rows:
        raise InputError("at least one snapshot", "none", "pass (step, FrozenResidual) pairs")
    steps = [step for step, _ in rows]
    if sorted(set(steps)) != steps:
        raise InputError("steps in ascending order, each once", repr(steps), "sort them")
    last = rows[-1][1]
    names = last.names
    for step, frozen in rows:
        if frozen.names != names:
            raise InputError(
                f"the parameters {', '.join(names)} in every snapshot",
                f"{', '.join(frozen.names)} at step {step}",
                "follow one training at a time",
            )
    parameters = Parameters(last.parameters)
    center = parameters.center(at)
    home = parameters.coordinates(center.values)
    rows_read = [_read(frozen, view, center.values, home, candidates) for _, frozen in rows]
    return Snapshots.from_values(
        {
            **parameters.variables(),
            "center": [center.values[name] for name in names],
            "step": steps,
            **{name: np.stack([row[name] for row in rows_read]) for name in rows_read[0]},
        },
        {"centered_on": center.kind},
    )


def _checked(item: Any) -> tuple[int, FrozenResidual]:
    try:
        step, frozen = item
    except (TypeError, ValueError):
        step, frozen = None, item
    if not is_integer(step) or not isinstance(frozen, FrozenResidual):
        raise InputError(
            "snapshots as pairs of a step and a twoaxis.FrozenResidual",
            repr(item),
            "write follow([(1000, frozen_1000), (2000, frozen_2000)])",
        )
    return int(step), frozen


def _read(
    frozen: FrozenResidual,
    view: View | None,
    center: dict[str, float],
    home: Any,
    candidates: int,
) -> dict[str, Any]:
    """One row of the table."""
    metric = bound_view(frozen, view)
    found = score(frozen, view=metric, at=center)
    scan = frozen_scan(frozen, view=metric, at=center, candidates=candidates)
    parameters = Parameters(frozen.parameters)
    # A minimum on a bound is where the scan was cut off, not what the field prefers.
    known = scan.minimum is not None and not scan.cut_off
    preferred = parameters.coordinates(scan.minimum or {}) if known else np.full(len(home), np.nan)
    preferred[[name in found.unseen for name in parameters]] = np.nan
    return {
        "value": np.array(
            [np.nan if p.delivered is None else p.delivered for p in parameters.values()]
        ),
        "displacement": found.data["displacement"].values,
        "preference": preferred - home,
        "strength": found.data["H"].values,
        "status": scan.status,
    }


# ------------------------------------------------------------------ what training recorded

HISTORY_LAYOUT: Layout = {
    "parameter": Variable(("parameter",), "text", "name of the parameter"),
    "step": Variable(("step",), "float", "training step"),
    "quantity": Variable(("quantity",), "text", "name of the recorded quantity"),
    "recorded": Variable(("step", "quantity"), "float", "recorded values"),
    "value": Variable(
        ("step", "parameter"),
        "float",
        "value of the parameter at the step; NaN: not recorded",
        required=False,
    ),
}


def history_group(history: Any, parameters: Mapping[str, Parameter]) -> xr.Dataset:
    """Return what was recorded along training as a dataset.

    `history` is a mapping, a pandas table or a dataset of equally long columns: ``step``, and
    losses or other quantities by name; a column with a parameter's name holds its values. Values of
    a parameter without a column are NaN. DeepXDE's ``LossHistory`` gives the weighted loss of each
    term and their sum.
    """
    columns = _columns(history)
    if "step" not in columns:
        raise InputError(
            "a history with a column named step",
            f"the columns {', '.join(columns) or 'none'}",
            'write history={"step": [...], "loss": [...]}',
        )
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(
            "history columns of one length", repr(lengths), "give every column one value per step"
        )
    count = lengths["step"]
    late = np.flatnonzero(~(np.diff(columns["step"]) >= 0))
    if late.size:
        raise InputError(
            "history steps that do not decrease",
            f"{columns['step'][late[0] + 1]:g} after {columns['step'][late[0]]:g}",
            "sort the records by step, and count on where training was continued",
        )
    recorded = [n for n in columns if n != "step" and n not in parameters]
    paths = {n: columns[n] for n in parameters if n in columns and n != "step"}
    unknown = np.full(count, np.nan)
    return labelled(
        HISTORY_LAYOUT,
        {
            "parameter": list(parameters),
            "step": columns["step"],
            "quantity": recorded,
            "recorded": np.array([columns[n] for n in recorded]).reshape(len(recorded), count).T,
            "value": np.column_stack([paths.get(n, unknown) for n in parameters])
            if paths
            else None,
        },
        {},
    )


def _columns(history: Any) -> dict[str, Any]:
    if isinstance(history, pd.DataFrame):
        history = history.reset_index() if history.index.name == "step" else history
    elif isinstance(history, xr.Dataset):
        history = {str(n): v.values for n, v in history.variables.items()}
    elif hasattr(history, "loss_train") and hasattr(history, "steps"):
        history = _loss_history(history)
    elif not isinstance(history, Mapping):
        raise InputError(
            "a history as a mapping, a pandas table, an xarray dataset or DeepXDE's LossHistory",
            type(history).__name__,
            'write history={"step": [...], "loss": [...]}',
        )
    columns = {}
    for name in history:
        refuse_masked(f"the history's column {name!r}", history[name])
        try:
            columns[str(name)] = np.asarray(history[name], dtype=float)
        except (TypeError, ValueError):
            columns[str(name)] = np.empty((0, 0))
        if columns[str(name)].ndim != 1:
            raise InputError(
                f"numbers in the history's column {name!r}",
                f"{type(history[name]).__name__}",
                "pass one number per step",
            )
    return columns


def _loss_history(history: Any) -> dict[str, Any]:
    """Return DeepXDE's ``LossHistory``, with the loss of each term and their sum, as columns."""
    terms = np.array(history.loss_train, dtype=float).reshape(len(history.steps), -1)
    parts = {f"loss {n + 1}": terms[:, n] for n in range(terms.shape[1])}
    return {"step": history.steps, "loss": terms.sum(axis=1), **parts}

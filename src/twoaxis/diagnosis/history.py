"""What training recorded itself: losses and parameters, in the shapes that libraries keep them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from twoaxis.diagnosis.follow import Snapshots
from twoaxis.diagnosis.follower import Follower
from twoaxis.errors import InputError, refuse_masked
from twoaxis.io import Layout, Variable, labelled
from twoaxis.parameters import Parameter

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
# Outputs of jinns.solve_alternate and jinns.solve, and where the recorded ones stand among them.
JINNS_OUTPUTS = (10, 12)
JINNS_LOSS, JINNS_TERMS, JINNS_TRACKED = 1, 2, 6


def history_group(history: Any, parameters: Mapping[str, Parameter]) -> xr.Dataset:
    """Return what was recorded along training as a dataset.

    `history` is a mapping, a pandas table or a dataset of equally long columns: ``step``, and
    losses or other quantities by name; a column with a parameter's name holds its values. Values of
    a parameter without a column are NaN. Also a `Follower` or `Snapshots`, DeepXDE's
    ``LossHistory``, the path of a ``metrics.csv`` that Lightning wrote, or all outputs of
    ``jinns.solve`` or ``jinns.solve_alternate``.
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
    history = _as_table(history)
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


def _as_table(history: Any) -> Any:
    """Return any kind of history as something with named columns."""
    if isinstance(history, Follower):
        history = history.result
    if isinstance(history, Snapshots):
        return _of_snapshots(history)
    if isinstance(history, pd.DataFrame):
        return history.reset_index() if history.index.name == "step" else history
    if isinstance(history, xr.Dataset):
        return {str(n): v.values for n, v in history.variables.items()}
    if isinstance(history, Mapping):
        return history
    if isinstance(history, (str, os.PathLike)):
        return _of_lightning(Path(history))
    if hasattr(history, "loss_train") and hasattr(history, "steps"):
        return _of_deepxde(history)
    if isinstance(history, tuple) and len(history) in JINNS_OUTPUTS:
        return _of_jinns(history)
    raise InputError(
        "a history as a mapping, a pandas table or an xarray dataset, a Follower, DeepXDE's "
        "LossHistory, the path of Lightning's metrics.csv or all outputs of jinns.solve or "
        "jinns.solve_alternate",
        type(history).__name__,
        'write history={"step": [...], "loss": [...]}',
    )


def _of_snapshots(snapshots: Snapshots) -> dict[str, Any]:
    data = snapshots.data
    values = data["value"].transpose("step", "parameter").values
    table = {"step": data["step"].values, **dict(zip(snapshots.names, values.T, strict=True))}
    for name in ("residual_norm", "data_misfit"):
        if np.isfinite(data[name].values).any():
            table[name] = data[name].values
    return table


def _of_deepxde(history: Any) -> dict[str, Any]:
    """Return DeepXDE's ``LossHistory``: the weighted loss of each term, and their sum."""
    terms = np.array(history.loss_train, dtype=float).reshape(len(history.steps), -1)
    parts = {f"loss {n + 1}": terms[:, n] for n in range(terms.shape[1])}
    return {"step": history.steps, "loss": terms.sum(axis=1), **parts}


def _of_lightning(path: Path) -> pd.DataFrame:
    """Return what Lightning's CSVLogger wrote; quantities of one step stand in several rows."""
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise InputError(
            "a readable metrics.csv of Lightning's CSVLogger",
            f"{type(error).__name__}: {error}",
            "pass its path, as in trainer.logger.log_dir + '/metrics.csv'",
        ) from error
    if "step" not in table:
        return table
    numbers = table.select_dtypes("number").groupby("step").first()
    return numbers.drop(columns="epoch", errors="ignore").reset_index()


def _of_jinns(outputs: tuple[Any, ...]) -> dict[str, Any]:
    """Return the total loss, its terms and the tracked parameters of a training with jinns."""
    loss = np.asarray(outputs[JINNS_LOSS], dtype=float)
    # A training that stopped early leaves zeros behind its last step.
    done = int(np.flatnonzero(loss)[-1]) + 1 if loss.any() else len(loss)
    table: dict[str, Any] = {"step": np.arange(1, done + 1), "loss": loss[:done]}
    tracked = getattr(outputs[JINNS_TRACKED], "eq_params", None)
    for prefix, tree in (("loss ", outputs[JINNS_TERMS]), ("", tracked)):
        for name, values in _named_arrays(tree).items():
            array = np.asarray(values, dtype=float)[:done]
            for index in np.ndindex(array.shape[1:]):
                entry = f"[{','.join(map(str, index))}]" if array[0].size > 1 else ""
                table[f"{prefix}{name}{entry}"] = array[:, *index]
    return table


def _named_arrays(tree: Any) -> dict[str, Any]:
    """Return the arrays directly below a dataclass or a mapping, by name."""
    if is_dataclass(tree):
        tree = {each.name: getattr(tree, each.name) for each in fields(tree)}
    if not isinstance(tree, Mapping):
        return {}
    return {str(name): value for name, value in tree.items() if hasattr(value, "shape")}

"""How the preference came about: the same readings at several steps of one training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from twoaxis.diagnosis.tree import labelled
from twoaxis.errors import InputError, refuse_masked
from twoaxis.frozen import FrozenResidual, bound_view
from twoaxis.geometry import frozen_scan, score
from twoaxis.parameters import Parameter, Parameters

if TYPE_CHECKING:
    from twoaxis.views import View


def follow(
    snapshots: Iterable[tuple[int, FrozenResidual]],
    view: View | None = None,
    at: str | Mapping[str, float] | None = None,
    *,
    candidates: int = 81,
) -> xr.Dataset:
    """Follow preference, strength and delivery gap along one training.

    Parameters
    ----------
    snapshots : iterable of (int, FrozenResidual)
        Training steps, ascending, with the field frozen there. Each snapshot's parameters
        carry the value at that step as ``delivered``.
    view : View, optional
        By default the training view that each snapshot carries: adaptive weights change.
    at : {"truth", "delivered"} or mapping of str to float, optional
        The centre, one for all steps. By default the truth where it is known, else the value
        delivered at the last step.
    candidates : int
        Of the scan of each snapshot.

    Returns
    -------
    xarray.Dataset
        Over ``step``: ``displacement`` (D), ``preference`` (scan minimum minus centre),
        ``strength`` (H), ``delivered``, ``gap`` (delivered minus preferred) and the scan's
        ``status``; NaN where a profile is flat. ``audit(..., snapshots=...)`` keeps it.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 20)
    >>> def frozen(wanted, delivered):
    ...     k = ta.Parameter(truth=1.0, delivered=delivered, bounds=(0.5, 2.0))
    ...     return ta.FrozenResidual(
    ...         lambda k: k * np.ones(20) - wanted, {"k": k}, x, view=ta.views.Pointwise()
    ...     )
    >>> found = ta.follow([(100, frozen(1.2, 1.0)), (200, frozen(1.1, 1.1))])
    >>> found["gap"].values.round(3).ravel().tolist()
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
    center = Parameters(last.parameters).center(at)
    home = Parameters(last.parameters).coordinates(center.values)
    readings = [_read(frozen, view, center.values, home, candidates) for _, frozen in rows]
    values = {name: np.stack([r[name] for r in readings]) for name in readings[0]}
    return labelled(
        "/snapshots",
        {
            "step": steps,
            "center": [center.values[name] for name in names],
            "other_parameter": names,
            **values,
        },
        {"centered_on": center.kind},
    ).assign_coords(parameter=names)


def _checked(item: Any) -> tuple[int, FrozenResidual]:
    try:
        step, frozen = item
    except (TypeError, ValueError):
        step, frozen = None, item
    if not isinstance(step, (int, np.integer)) or not isinstance(frozen, FrozenResidual):
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
    delivered = [np.nan if p.delivered is None else p.delivered for p in frozen.parameters.values()]
    unknown = np.full(len(home), np.nan)
    # A minimum on a bound is where the scan was cut off, not what the field prefers.
    preferred = (
        unknown if scan.cut_off else Parameters(frozen.parameters).coordinates(scan.minimum or {})
    )
    reached = Parameters(frozen.parameters).coordinates(
        dict(zip(frozen.names, delivered, strict=True))
    )
    return {
        "delivered": np.array(delivered),
        "displacement": found.terms.displacement,
        "preference": preferred - home,
        "gap": reached - preferred,
        "strength": found.terms.H,
        "status": scan.status,
    }


def history_group(history: Any, parameters: Mapping[str, Parameter]) -> xr.Dataset:
    """Return what was recorded along training as a group.

    `history` is a mapping, a pandas table or a dataset of equally long columns: ``step``, and
    losses or other quantities by name; a column with a parameter's name holds its values.
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
        raise InputError("history columns of one length", repr(lengths), "cut them alike")
    recorded = [n for n in columns if n != "step" and n not in parameters]
    known = all(name in columns and name != "step" for name in parameters)
    count = lengths["step"]
    return labelled(
        "/history",
        {
            "step": columns["step"],
            "quantity": recorded,
            "recorded": np.array([columns[n] for n in recorded]).reshape(len(recorded), count).T,
            "value": np.column_stack([columns[n] for n in parameters]) if known else None,
        },
    )


def _columns(history: Any) -> dict[str, Any]:
    if isinstance(history, pd.DataFrame):
        history = history.reset_index() if history.index.name == "step" else history
    elif isinstance(history, xr.Dataset):
        history = {str(n): v.values for n, v in history.variables.items()}
    elif not isinstance(history, Mapping):
        raise InputError(
            "a history as a mapping, a pandas table or an xarray dataset",
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
                "pass one number a step",
            )
    return columns


def snapshots_group(snapshots: Any, names: list[str]) -> xr.Dataset:
    """Return what `follow` made, after a look whether it is that, and of these parameters."""
    wanted = {"step", "displacement", "preference", "gap", "strength", "status"}
    if not isinstance(snapshots, xr.Dataset) or not wanted <= set(map(str, snapshots.variables)):
        raise InputError(
            "snapshots as twoaxis.follow returns them",
            type(snapshots).__name__,
            "pass snapshots=twoaxis.follow([(step, frozen), ...])",
        )
    if list(map(str, snapshots["parameter"].values)) != names:
        raise InputError(
            f"snapshots of the parameters {', '.join(names)}",
            ", ".join(map(str, snapshots["parameter"].values)),
            "follow the training that is audited",
        )
    return snapshots

"""Along training: how loss, parameter, preference, strength and gap came about."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.report.audited import MISSING, Audited
from twoaxis.report.theme import axis_or_new, colour, label, legend_above, open_frame
from twoaxis.text import number, shortened

FloatArray = NDArray[np.float64]
Quantity = Literal["parameter", "loss", "strength", "gap"]

# More curves than this cannot be told apart.
CURVES = 6
CYCLE = ("preferred", "delivered", "matched", "theory", "plus", "muted")
STYLES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1)), (0, (1, 1)))


def quantities_along_training(audit: Any) -> list[Quantity]:
    """Return which quantities the audit can show."""
    audited = Audited.of(audit)
    history, snapshots = audited.group("/history"), audited.group("/snapshots")
    found: list[Quantity] = []
    if history is not None and history.sizes.get("quantity", 0):
        found.append("loss")
    if snapshots is not None or (history is not None and "value" in history):
        found.append("parameter")
    if snapshots is not None:
        found += ["strength", "gap"]
    return found


def plot_along_training(
    audit: Any, *, quantity: Quantity = "parameter", parameter: str | None = None, ax: Any = None
) -> Any:
    """Draw one quantity against the training step.

    "parameter" shows the parameter and, with snapshots, what the field of each step prefers;
    the band between them is the delivery gap. "loss" shows what was recorded. "strength" is H
    and "gap" the preference and the gap in the coordinate; both need snapshots.

    Parameters
    ----------
    audit : Audit or xarray.DataTree
    quantity : {"parameter", "loss", "strength", "gap"}
    parameter : str, optional
        Needed when there are several, except for the loss.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    audited = Audited.of(audit)
    if quantity not in get_args(Quantity):
        raise InputError(
            'quantity "parameter", "loss", "strength" or "gap"',
            repr(quantity),
            "choose one of them",
        )
    if quantity not in quantities_along_training(audited):
        what, call = MISSING["/history" if quantity == "loss" else "/snapshots"]
        raise InputError(f"an audit that holds {what}", "one without it", f"use {call}")
    if quantity != "loss" or parameter is not None:
        parameter = audited.choose(parameter)
    ax = axis_or_new(ax)
    draw = {"loss": _loss, "parameter": _parameter, "strength": _strength, "gap": _gap}[quantity]
    draw(ax, audited, parameter or audited.names[0])
    ax.set_xlabel("training step")
    open_frame(ax)
    legend_above(ax)
    return ax


def _loss(ax: Any, audited: Audited, _: str) -> None:
    history = audited.need("/history")
    step = history["step"].values
    names = [str(name) for name in history["quantity"].values]
    recorded = np.asarray(history["recorded"].transpose("step", "quantity").values, dtype=float)
    for k, name in enumerate(names[:CURVES]):
        style = {"color": colour(CYCLE[k]), "ls": STYLES[k], "marker": _marker(len(step))}
        ax.plot(step, recorded[:, k], lw=1.6, ms=4, **style)
        ax.lines[-1].set_label(" " + shortened(name))  # a leading underscore would hide it
    if len(names) > CURVES:
        ax.plot([], [], " ", label=f"and {len(names) - CURVES} more")
    if np.nanmin(recorded) > 0:
        _log_height(ax, recorded)
    label(ax, y="recorded")


def _parameter(ax: Any, audited: Audited, name: str) -> None:
    parameter = audited.parameters[name]
    j = audited.index(name)
    history, snapshots = audited.group("/history"), audited.group("/snapshots")
    if history is not None and "value" in history:
        steps, values = history["step"].values, history["value"].isel(parameter=j).values
        marker = "" if snapshots is not None else _marker(len(steps))
        ax.plot(steps, values, color=colour("delivered"), lw=1.8, marker=marker, label="parameter")
    if snapshots is not None:
        steps = snapshots["step"].values
        one = snapshots.isel(parameter=j)
        home = float(parameter.to_coordinate(float(one["center"])))
        preferred = parameter.to_value(home + one["preference"].values)
        ax.plot(
            steps,
            preferred,
            "s-.",
            color=colour("preferred"),
            ms=5,
            lw=1.6,
            label="preferred by its field",
        )
        delivered = one["delivered"].values
        dots = "o" if history is not None and "value" in history else "o-"
        ax.plot(steps, delivered, dots, color=colour("delivered"), ms=5, label="at the snapshot")
        ax.fill_between(
            steps, delivered, preferred, color=colour("muted"), alpha=0.18, lw=0, label="gap"
        )
    center = audited.center(name)
    ax.axhline(
        center, color=colour("center"), lw=1.4, label=f"{audited.center_word} {number(center)}"
    )
    if parameter.coordinate == "log":
        low, high = ax.get_ylim()
        if low > 0 and high / low > 4:
            _log_height(ax, np.array([low, high]))
    label(ax, y=shortened(name))


def _strength(ax: Any, audited: Audited, name: str) -> None:
    snapshots = audited.need("/snapshots")
    j = audited.index(name)
    values = snapshots["strength"].isel(parameter=j, other_parameter=j).values
    ax.plot(snapshots["step"].values, values, "o-", color=colour("preferred"), ms=5, lw=1.6)
    if (values > 0).all() and values.max() / values.min() > 4:
        _log_height(ax, values)
    label(ax, y=f"strength H of {shortened(name, 12)}")


def _gap(ax: Any, audited: Audited, name: str) -> None:
    snapshots = audited.need("/snapshots").isel(parameter=audited.index(name))
    steps = snapshots["step"].values
    for variable, role, style in (("preference", "preferred", "s-."), ("gap", "muted", "D:")):
        word = {"preference": "preference minus centre", "gap": "delivery gap"}[variable]
        ax.plot(
            steps, snapshots[variable].values, style, color=colour(role), ms=5, lw=1.6, label=word
        )
    ax.axhline(0, color=colour("center"), lw=0.9)
    log = "log " if audited.parameters[name].coordinate == "log" else ""
    label(ax, y=f"steps of {log}{shortened(name, 12)}")


def _marker(count: int) -> str:
    return "o" if count <= 12 else ""


def _log_height(ax: Any, values: FloatArray) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    ax.set_yscale("log")
    decades = np.log10(np.nanmax(values) / np.nanmin(values))
    subs = (1, 2, 5) if decades < 2 else (1,)
    ax.yaxis.set_major_locator(LogLocator(subs=subs, numticks=7))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_formatter(NullFormatter())

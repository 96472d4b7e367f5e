"""Along training: losses, parameter, preferred value, strength and delivery gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from twoaxis.diagnosis import Audit, Snapshots
from twoaxis.diagnosis.result import MISSING
from twoaxis.errors import InputError
from twoaxis.parameters import Center, Parameters
from twoaxis.report.inputs import as_audit, center_word, choose
from twoaxis.report.theme import axis_or_new, color, label, legend_above, named, open_frame
from twoaxis.text import number, shortened, visible

FloatArray = NDArray[np.float64]
Quantity = Literal["parameter", "loss", "strength", "gap"]

# More curves than this cannot be told apart.
CURVES = 6
CYCLE = ("preferred", "delivered", "matched", "theory", "plus", "muted")
STYLES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1)), (0, (1, 1)))


@dataclass(frozen=True, eq=False)
class Recorded:
    """What is known along one training."""

    parameters: Parameters
    center: Center
    history: xr.Dataset | None
    snapshots: xr.Dataset | None
    matched: xr.Dataset | None = None

    @classmethod
    def of(cls, result: Any) -> Recorded:
        """Take an audit, or what `twoaxis.follow` returned."""
        if isinstance(result, Snapshots):
            return cls(result.parameters, result.center, None, result.data)
        audit: Audit = as_audit(result)
        history, snapshots = audit.group("/history"), audit.group("/snapshots")
        return cls(audit.parameters, audit.center, history, snapshots, audit.group("/matched"))

    @property
    def values(self) -> xr.DataArray | None:
        """The parameters along training, where they were recorded."""
        return None if self.history is None else self.history.get("value")

    @property
    def quantities(self) -> list[Quantity]:
        """The quantities that can be drawn."""
        found: list[Quantity] = []
        if self.history is not None and self.history.sizes["quantity"]:
            found.append("loss")
        if self.snapshots is not None or self.values is not None:
            found.append("parameter")
        if self.snapshots is not None:
            found += ["strength", "gap"]
        return found


def plot_along_training(
    result: Any, *, quantity: Quantity = "parameter", parameter: str | None = None, ax: Any = None
) -> Any:
    """Draw one quantity against the training step.

    "parameter" shows the parameter and, with snapshots, the value that the field of each step
    prefers; the band between them is the delivery gap. Of an audit with a matched fit, the
    other band is the interval that the data allow. "loss" shows what was recorded. "strength"
    is H and "gap" the preference and the gap in the coordinate; both need snapshots.

    Parameters
    ----------
    result : Snapshots or Audit
    quantity : {"parameter", "loss", "strength", "gap"}
    parameter : str, optional
        Needed when there are several, except for the loss.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    recorded = Recorded.of(result)
    names = recorded.parameters.names
    if quantity not in get_args(Quantity):
        raise InputError(
            'quantity "parameter", "loss", "strength" or "gap"',
            repr(quantity),
            "choose one of them",
        )
    if quantity not in recorded.quantities:
        what, call = MISSING["/history" if quantity == "loss" else "/snapshots"]
        raise InputError(f"an audit with {what}", "one without it", f"use {call}")
    if quantity != "loss" or parameter is not None:
        parameter = choose(recorded.parameters, parameter)
    ax = axis_or_new(ax)
    draw = {"loss": _loss, "parameter": _parameter, "strength": _strength, "gap": _gap}[quantity]
    draw(ax, recorded, parameter or names[0])
    ax.set_xlabel("training step")
    open_frame(ax)
    legend_above(ax)
    return ax


def _loss(ax: Any, found: Recorded, _: str) -> None:
    history: Any = found.history
    step = history["step"].values
    names = [str(name) for name in history["quantity"].values]
    recorded = history["recorded"].transpose("step", "quantity").values
    for k, name in enumerate(names[:CURVES]):
        style = {"color": color(CYCLE[k]), "ls": STYLES[k], "marker": _marker(len(step))}
        ax.plot(step, recorded[:, k], lw=1.6, ms=4, **style)
        ax.lines[-1].set_label(" " + shortened(name))  # a leading underscore would hide it
    if len(names) > CURVES:
        ax.plot([], [], " ", label=f"and {len(names) - CURVES} more")
    if np.nanmin(recorded) > 0:
        _log_height(ax, recorded)
    label(ax, y="recorded value")


def _parameter(ax: Any, found: Recorded, name: str) -> None:
    parameter, snapshots = found.parameters[name], found.snapshots
    if found.values is not None:
        values = found.values.sel(parameter=name)
        marker = "" if snapshots is not None else _marker(values.size)
        steps = values["step"].values
        ax.plot(
            steps, values.values, color=color("delivered"), lw=1.8, marker=marker, label="parameter"
        )
    if snapshots is not None:
        one = snapshots.sel(parameter=name)
        steps = one["step"].values
        home = float(parameter.to_coordinate(float(one["center"])))
        preferred = parameter.to_value(home + one["preference"].values)
        style = {"color": color("preferred"), "ms": 5, "lw": 1.6}
        ax.plot(steps, preferred, "s-.", label="preferred by the field", **style)
        delivered = one["value"].values
        dots = "o" if found.values is not None else "o-"
        ax.plot(steps, delivered, dots, color=color("delivered"), ms=5, label="at the snapshot")
        shade = {"color": color("muted"), "alpha": 0.18, "lw": 0}
        ax.fill_between(steps, delivered, preferred, label="delivery gap", **shade)
    _matched_band(ax, found, name)
    center = found.center.values[name]
    word = f"{center_word(found.center.kind)} {number(center)}"
    ax.axhline(center, color=color("center"), lw=1.4, label=word)
    if parameter.coordinate == "log":
        low, high = ax.get_ylim()
        if low > 0 and high / low > 4:
            _log_height(ax, np.array([low, high]))
    label(ax, y=named(parameter, name, unit=True), of=parameter)


def _matched_band(ax: Any, found: Recorded, name: str) -> None:
    """Draw the interval of the matched fit to the data, over all steps."""
    if found.matched is None:
        return
    one = found.matched.sel(parameter=name)
    low, high = float(one["lower"]), float(one["upper"])
    if np.isfinite([low, high]).all():
        words = f"matched {100 * float(one['level']):g}% interval"
        ax.axhspan(low, high, color=color("matched"), alpha=0.2, lw=0, label=words, zorder=0)


def _strength(ax: Any, found: Recorded, name: str) -> None:
    snapshots: Any = found.snapshots
    values = snapshots["strength"].sel(parameter=name, other_parameter=name).values
    ax.plot(snapshots["step"].values, values, "o-", color=color("preferred"), ms=5, lw=1.6)
    if (values > 0).all() and values.max() / values.min() > 4:
        _log_height(ax, values)
    own = found.parameters[name]
    label(ax, y=f"strength H of {named(own, name, 12)}", of=own)


def _gap(ax: Any, found: Recorded, name: str) -> None:
    snapshots: Any = found.snapshots
    one = snapshots.sel(parameter=name)
    for variable, role, style, word in (
        ("preference", "preferred", "s-.", "preferred minus center"),
        ("gap", "muted", "D:", "delivery gap"),
    ):
        look = {"color": color(role), "ms": 5, "lw": 1.6}
        ax.plot(one["step"].values, one[variable].values, style, label=word, **look)
    ax.axhline(0, color=color("center"), lw=0.9)
    own = found.parameters[name]
    log = "log " if own.coordinate == "log" else ""
    label(ax, y=f"difference of {log}{named(own, name, 12)}", of=own)


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


def describe(result: Any, quantity: Quantity, name: str) -> str:
    """Return first and last values of what is drawn as text."""
    found = Recorded.of(result)
    if quantity == "loss" and found.history is not None:
        recorded = found.history["recorded"].transpose("quantity", "step").values
        parts = [
            f"{visible(label)} {_ends(row)}"
            for label, row in zip(found.history["quantity"].values, recorded, strict=True)
        ]
        return f"Recorded along {recorded.shape[1]} steps: {'; '.join(parts)}."
    shown = visible(name)
    if found.snapshots is None:
        values: Any = found.values
        return f"{shown} along training: {_ends(values.sel(parameter=name))}."
    one = found.snapshots.sel(parameter=name)
    words = {
        "parameter": f"{shown} along {one.sizes['step']} snapshots: {_ends(one['value'])}",
        "strength": (
            f"Strength of {shown} along training: "
            f"{_ends(one['strength'].sel(other_parameter=name))}"
        ),
        "gap": f"Delivery gap of {shown} along training: {_ends(one['gap'], '+.3g')}",
    }[quantity]
    return f"{words}; preferred minus center {_ends(one['preference'], '+.3g')}."


def _ends(values: Any, form: str = ".4g") -> str:
    row = np.asarray(values, dtype=float)
    return f"from {number(float(row[0]), form)} to {number(float(row[-1]), form)}"

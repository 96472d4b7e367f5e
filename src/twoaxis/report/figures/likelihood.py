"""What the data say about a parameter, beside what the frozen field says about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from twoaxis.diagnosis import Audit
from twoaxis.errors import InputError
from twoaxis.parameters import Parameter
from twoaxis.report.figures.profile import curve_word, logarithmic, plot_profile
from twoaxis.report.inputs import as_audit, choose
from twoaxis.report.theme import (
    SMALL_SIZE,
    color,
    label,
    legend_above,
    mark,
    named,
    new_figure,
    open_frame,
    plain,
)
from twoaxis.text import number, visible

FloatArray = NDArray[np.float64]

# Of both panels.
SIZE = (4.8, 4.6)
# The deviance at one and two standard errors, where the estimate is normal.
LEVELS = {1.0: "1σ", 4.0: "2σ"}
# The height of the picture; a larger deviance is a number in the legend.
TOP = 10.0
FINE = 400


def plot_likelihood(audit: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """Draw the profile likelihood of the data, beside the loss of the frozen field.

    The upper panel is the deviance of the data, minimized over the other parameters, with its
    levels at one and two standard errors (1 and 4). The lower one is the frozen profile over the
    same values, or with several parameters a slice (`plot_profile`): the residual loss of the
    trained field, which is held. It is not a likelihood, and its width says nothing about the data.

    Parameters
    ----------
    audit : Audit
    parameter : str, optional
        Needed when there are several.
    ax : matplotlib.axes.Axes or matplotlib.figure.Figure, optional
        One axis has the likelihood alone, a figure or a subfigure both panels.

    Returns
    -------
    matplotlib.axes.Axes or array of two of them
    """
    audit = as_audit(audit)
    name = choose(audit.names, parameter)
    curve = curve_of(audit, name)
    if curve is None:
        raise InputError(
            f"an audit with the likelihood of {name}",
            "one without it, as of a nuisance parameter",
            "use another parameter",
        )
    limits = _limits(audit, name, curve)
    own = audit.parameters[name]
    if ax is not None and not hasattr(ax, "subplots"):
        _draw(ax, audit, name, curve, limits)
        label(ax, named(own, name, unit=True), of=own)
        legend_above(ax, columns=2, margin=90.0)
        return ax
    figure = new_figure(SIZE) if ax is None else ax
    upper, lower = figure.subplots(2, 1)
    _draw(upper, audit, name, curve, limits)
    upper.tick_params(labelbottom=False)
    legend_above(upper, columns=2, margin=90.0)
    plot_profile(audit, parameter=name, limits=limits, legend=False, ax=lower)
    words = f"{curve_word(audit.scan).capitalize()}: the field is held, this is no likelihood"
    plain(lower.set_title(words, fontsize=SMALL_SIZE, color=color("muted"), loc="left"))
    return np.array([upper, lower])


def curve_of(audit: Audit, name: str) -> tuple[FloatArray, FloatArray] | None:
    """Return values and deviance of one parameter where they are known, in ascending order."""
    one: xr.Dataset = audit.need("/likelihood").sel(parameter=name)
    value, deviance = one["value"].values, one["deviance"].values
    known = np.isfinite(value) & np.isfinite(deviance)
    if known.sum() < 2:
        return None
    order = np.argsort(value[known], kind="stable")
    return value[known][order], np.maximum(deviance[known][order], 0.0)


def fine_curve(
    parameter: Parameter, value: FloatArray, deviance: FloatArray, best: float
) -> tuple[FloatArray, FloatArray]:
    """Return the deviance at many values.

    Its signed root is nearly linear in the coordinate, so that is what is interpolated between
    the computed values: the parabola stays one between two of them.
    """
    q = parameter.to_coordinate(value)
    home = float(parameter.to_coordinate(best))
    root = np.sign(q - home) * np.sqrt(deviance)
    q, root = np.append(q, home), np.append(root, 0.0)
    order = np.argsort(q, kind="stable")
    q, root = q[order], np.maximum.accumulate(root[order])
    # Dense over the whole range, and again where the picture shows it.
    shown = np.interp([-np.sqrt(TOP), np.sqrt(TOP)], root, q)
    where = np.union1d(
        np.linspace(q[0], q[-1], FINE), np.append(np.linspace(shown[0], shown[1], FINE), home)
    )
    return parameter.to_value(where), np.interp(where, q, root) ** 2


def _limits(audit: Audit, name: str, curve: tuple[FloatArray, FloatArray]) -> tuple[float, float]:
    """Return the values between which both panels are drawn."""
    parameter = audit.parameters[name]
    shown = [*curve[0][[0, -1]], audit.center.values[name]]
    if parameter.delivered is not None:
        shown.append(parameter.delivered)
    if audit.scan.minimum is not None:
        shown.append(audit.scan.minimum[name])
    q = parameter.to_coordinate(np.array(shown))
    room = 0.06 * float(np.ptp(q)) or 0.05
    ends = parameter.to_value(np.array([q.min() - room, q.max() + room]))
    low, high = np.clip(ends, *parameter.bounds)
    return float(low), float(high)


def _draw(
    ax: Any,
    audit: Audit,
    name: str,
    curve: tuple[FloatArray, FloatArray],
    limits: tuple[float, float],
) -> None:
    parameter = audit.parameters[name]
    matched = audit.group("/matched")
    best = float(curve[0][np.argmin(curve[1])])
    if matched is not None and np.isfinite(matched["estimate"].sel(parameter=name)):
        best = float(matched["estimate"].sel(parameter=name))
    x, y = fine_curve(parameter, *curve, best)
    ax.plot(x, y, color=color("matched"), lw=2, label="profile likelihood", zorder=4)
    for level, words in LEVELS.items():
        ax.axhline(level, color=color("muted"), lw=0.9, ls=(0, (4, 3)), zorder=1)
        text = ax.text(1.005, level, words, transform=ax.get_yaxis_transform(), va="center")
        text.set(fontsize=SMALL_SIZE, color=color("muted"))
        plain(text)
    mark(ax, "matched", best, f"matched {number(best)}")
    delivered = parameter.delivered
    if delivered is not None:
        there = float(np.interp(delivered, *curve, left=np.nan, right=np.nan))
        end = "" if np.isnan(there) else f" (deviance {number(there, '.3g')})"
        mark(ax, "delivered", delivered, f"delivered {number(delivered)}{end}")
    if audit.around_truth:
        truth = audit.center.values[name]
        mark(ax, "truth", truth, f"truth {number(truth)}", "center")
    if parameter.coordinate == "log":
        logarithmic(ax, np.array(limits))
    ax.set_xlim(*limits)
    ax.set_ylim(-0.04 * TOP, TOP)
    label(ax, y="deviance of the data")
    open_frame(ax)


def describe(audit: Audit, name: str) -> str:
    """Return the estimate, its interval and the deviance of the delivered value as text."""
    curve = curve_of(audit, name)
    if curve is None:
        return f"No likelihood of {visible(name)} at 0 values."
    parameter = audit.parameters[name]
    best = float(curve[0][np.argmin(curve[1])])
    words = f"Profile likelihood of {visible(name)}: lowest at {number(best)}"
    if parameter.delivered is not None:
        there = float(np.interp(parameter.delivered, *curve, left=np.nan, right=np.nan))
        if not np.isnan(there):
            words += (
                f"; the delivered value {number(parameter.delivered)} has the deviance "
                f"{number(there, '.3g')}"
            )
    minimum = audit.scan.minimum
    lowest = "none" if minimum is None else number(minimum[name])
    return f"{words}. Beneath it the {curve_word(audit.scan)}; minimum of the loss: {lowest}."

"""The frozen profile: the residual loss of the frozen field along one parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.diagnosis import Audit
from twoaxis.geometry import FrozenScan
from twoaxis.report.inputs import center_word, choose, part_of
from twoaxis.report.theme import axis_or_new, color, label, legend_above, mark, named, open_frame
from twoaxis.text import number, visible

FloatArray = NDArray[np.float64]

# From this ratio between its ends on, a profile is easier to read on a logarithmic scale.
LOGARITHMIC = 30.0
# What lies further below the largest value is rounding, and not shown.
DEPTH = 1e-9
# Values of a part of a profile.
FINE = 300
# Marked values that take less than this share of the bounds get a picture of their own.
CLOSE = 0.1
# Values closer than this share of the bounds are the same value.
SAME = 1e-6


def plot_profile(
    result: Any,
    *,
    parameter: str | None = None,
    training_view: bool = False,
    limits: tuple[float, float] | None = None,
    legend: bool = True,
    ax: Any = None,
) -> Any:
    """Draw the frozen profile along one parameter, with its quadratic model and its minimum.

    The field is held. Nuisance parameters are at their minimum for every value. Of several
    parameters of interest the others stay at the center, so that the curve is a slice of the loss
    and not its profile; it is named so, and the joint minimum need not lie on it. The quadratic
    model is that of the residual linearized at the center. A minimum on a bound is labeled as
    such.

    Parameters
    ----------
    result : FrozenScan or Audit
    parameter : str, optional
        Needed when there are several.
    training_view : bool
        Of an audit: draw the profile under the training view, where that is another one.
    limits : tuple of float, optional
        Values of the parameter to draw between; by default its bounds. Between the computed
        candidates the profile is interpolated.
    legend : bool
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    if training_view and isinstance(result, Audit):
        result = result.training.scan
    found = part_of(result, FrozenScan, "scan")
    name = choose(found.parameters, parameter)
    scan = found.data.sel(parameter=name)
    ax = axis_or_new(ax)
    own = found.parameters[name]
    x, profile = _between(found, name, "profile", limits)
    ax.plot(x, profile, color=color("ink"), lw=2, label=curve_word(found), zorder=4)
    model = profile
    if "quadratic_model" in scan:
        _, model = _between(found, name, "quadratic_model", limits)
        ax.plot(x, model, color=color("muted"), lw=1.3, ls=(0, (5, 2)), label="quadratic model")
    if own.coordinate == "log":
        logarithmic(ax, x)
    _choose_height(ax, profile, model)
    _mark_values(ax, found, name)
    if not sliced(found):  # minima of several parameters together do not lie on the curve
        _mark_minima(ax, found, name)
    others = ", others at the center" if sliced(found) else ""
    words = f"{named(own, name, unit=True)}{others}"
    label(ax, words, "residual loss of the frozen field", of=own)
    open_frame(ax)
    if limits is not None:
        ax.set_xlim(*limits)
    if legend:
        legend_above(ax)
    return ax


def close_limits(found: FrozenScan, name: str) -> tuple[float, float] | None:
    """Return values around center, minimum and delivered value, where the bounds are far wider.

    The marked values take up a third of the width; None where a picture of all bounds is as good.
    """
    own = found.parameters[name]
    marks = [found.center.values[name], own.delivered, (found.minimum or {}).get(name)]
    q = own.to_coordinate([mark for mark in marks if mark is not None])
    low, high = own.coordinate_bounds
    span = float(np.ptp(q))
    if not SAME * (high - low) < span < CLOSE * (high - low):
        return None
    ends = np.clip([q.min() - span, q.max() + span], low, high)
    first, last = own.to_value(ends)
    return float(first), float(last)


def sliced(found: FrozenScan) -> bool:
    """Whether other parameters of interest are held at the center."""
    return len(found.parameters.of_interest) > 1


def curve_word(found: FrozenScan) -> str:
    """Return what the curve along one parameter is."""
    return "slice of the frozen loss" if sliced(found) else "frozen profile"


def _between(
    found: FrozenScan, name: str, variable: str, limits: tuple[float, float] | None
) -> tuple[FloatArray, FloatArray]:
    """Return values of the parameter and what was found there, between limits."""
    scan, parameter = found.data.sel(parameter=name), found.parameters[name]
    value, height = scan["candidate_value"].values, scan[variable].values
    if limits is None:
        return value, height
    from scipy.interpolate import CubicSpline  # loaded when a part is drawn

    own = parameter.to_coordinate(value)
    low, high = np.clip(parameter.to_coordinate(np.array(limits)), own[0], own[-1])
    minima: FloatArray = parameter.to_coordinate(found.data["local_minimum"].sel(parameter=name))
    # Computed values and minima are among those drawn.
    extra = np.concatenate([own, minima])
    where = np.union1d(np.linspace(low, high, FINE), extra[(extra >= low) & (extra <= high)])
    if variable == "profile" and not sliced(found):  # minima are off a slice
        own = np.concatenate([own, minima])
        height = np.concatenate([height, found.data["local_profile"].values])
    q, first = np.unique(own, return_index=True)
    drawn = CubicSpline(q, height[first])(where)
    # A loss is not negative; that of a profile is not below its minima, which are among `height`.
    lowest = 0.0 if sliced(found) else np.nanmin(height)
    floor = lowest if variable == "profile" else -np.inf
    return parameter.to_value(where), np.maximum(drawn, floor)


def logarithmic(ax: Any, x: FloatArray) -> None:
    """Scale the axis logarithmically, with plain numbers at its ticks."""
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    ax.set_xscale("log")
    decades = np.log10(x.max() / x.min())
    subs = (1, 2, 5) if decades < 2.5 else (1,)
    if decades < 0.7:
        from matplotlib.ticker import MaxNLocator

        ax.xaxis.set_major_locator(MaxNLocator(5))
    else:
        ax.xaxis.set_major_locator(LogLocator(subs=subs, numticks=9))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())


def _choose_height(ax: Any, profile: FloatArray, model: FloatArray) -> None:
    """Show the whole profile, and of the model what fits beside it."""
    top = np.nanmax(profile)
    floor = max(np.nanmin(profile), DEPTH * top)
    if top > 0 and floor > 0 and top / floor > LOGARITHMIC:
        ax.set_yscale("log")
        ax.set_ylim(floor / 2.5, 2.5 * top)
        _plain_powers(ax)
        return
    room = 0.06 * (top - np.nanmin(profile)) or 0.5 * (abs(top) or 1.0)
    low = min(np.nanmin(profile), max(np.nanmin(model), 0.0))
    ax.set_ylim(low - room, top + 2 * room)


def _plain_powers(ax: Any) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    ax.yaxis.set_major_locator(LogLocator(numticks=6))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _mark_values(ax: Any, found: FrozenScan, name: str) -> None:
    center, delivered = found.center.values[name], found.parameters[name].delivered
    kind = found.center.kind
    mark(ax, "truth", center, f"{center_word(kind)} {number(center)}", "center")
    if delivered is not None and kind != "delivered":
        mark(ax, "delivered", delivered, f"delivered {number(delivered)}")
    if found.minimum is not None:
        minimum = found.minimum[name]
        word = "joint minimum" if sliced(found) else "minimum"
        ends = {f"on the {side} bound of {name}": f", {side} bound" for side in ("lower", "upper")}
        mark(ax, "preferred", minimum, f"{word} {number(minimum)}{ends.get(found.status, '')}")
    else:
        ax.plot([], [], " ", label="flat: no minimum")


def _mark_minima(ax: Any, found: FrozenScan, name: str) -> None:
    """Put a dot on each minimum, full on the lowest."""
    where = found.data["local_minimum"].sel(parameter=name).values
    height = found.data["local_profile"].values
    low = ax.get_ylim()[0] * (1.05 if ax.get_yscale() == "log" else 1.0)
    for k, (x, y) in enumerate(zip(where, height, strict=True)):
        ax.plot(
            x,
            max(y, low),
            "o",
            ms=7,
            mew=1.8,
            mec=color("preferred"),
            mfc=color("preferred") if k == 0 else "none",
            clip_on=False,
            zorder=6,
        )


def describe(found: FrozenScan, name: str) -> str:
    """Return minimum, center and delivered value as text."""
    parameter = found.parameters[name]
    low, high = parameter.bounds
    where = "it is flat and has no minimum"
    if found.minimum is not None:
        its = "the joint minimum" if sliced(found) else "its minimum"
        where = f"{its} lies at {number(found.minimum[name])} ({visible(found.status)})"
    delivered = parameter.delivered
    end = "" if delivered is None else f", the delivered value is {number(delivered)}"
    return (
        f"{curve_word(found).capitalize()} along {visible(name)} from {number(low)} to "
        f"{number(high)}: {where}; "
        f"the {center_word(found.center.kind)} is {number(found.center.values[name])}{end}."
    )

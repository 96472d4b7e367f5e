"""The frozen profile: what the residual of the frozen field says about one parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.report.audited import Audited
from twoaxis.report.theme import axis_or_new, colour, label, legend_above, mark, open_frame
from twoaxis.text import number, shortened

FloatArray = NDArray[np.float64]

# From this ratio between its ends on, a profile is easier to read on a logarithmic scale.
LOGARITHMIC = 30.0
# What lies further below the largest value is rounding, and not shown.
DEPTH = 1e-9


def plot_profile(
    audit: Any, *, parameter: str | None = None, training_view: bool = False, ax: Any = None
) -> Any:
    """Draw the frozen profile along one parameter, with its quadratic model and its minimum.

    The field is held; only the parameter moves, and other parameters stay at the centre. The
    quadratic model is that of the residual linearised at the centre. A minimum on a bound is
    said to be there.

    Parameters
    ----------
    audit : Audit or xarray.DataTree
    parameter : str, optional
        Needed when there are several.
    training_view : bool
        Draw the profile under the training view, where the audited view is another one.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    audited = Audited.of(audit)
    name = audited.choose(parameter)
    path = "/training_view/scan" if training_view and audited.cross_view else "/scan"
    scan = audited.need(path).isel(parameter=audited.index(name))
    ax = axis_or_new(ax)
    x = np.asarray(scan["candidate_value"].values, dtype=float)
    profile = np.asarray(scan["profile"].values, dtype=float)
    model = np.asarray(scan["quadratic_model"].values, dtype=float)
    ax.plot(x, profile, color=colour("ink"), lw=2, label="frozen profile", zorder=4)
    ax.plot(x, model, color=colour("muted"), lw=1.3, ls=(0, (5, 2)), label="quadratic model")
    if audited.parameters[name].coordinate == "log":
        _logarithmic(ax, x)
    _choose_height(ax, profile, model)
    _mark_values(ax, audited, name, scan)
    _mark_minima(ax, audited, scan)
    shown = shortened(name)
    others = ", others at the centre" if len(audited.names) > 1 else ""
    label(ax, f"{shown}{others}", "residual loss of the frozen field")
    open_frame(ax)
    legend_above(ax)
    return ax


def _logarithmic(ax: Any, x: FloatArray) -> None:
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


def _mark_values(ax: Any, audited: Audited, name: str, scan: Any) -> None:
    center, delivered = audited.center(name), audited.delivered(name)
    minimum = float(scan["minimum"])
    mark(ax, "truth", center, f"{audited.center_word} {number(center)}", "center")
    if np.isfinite(delivered) and audited.kind != "delivered":
        mark(ax, "delivered", delivered, f"delivered {number(delivered)}")
    if np.isfinite(minimum):
        word = "minimum" if len(audited.names) == 1 else "joint minimum"
        status = str(scan.attrs.get("status", "interior"))
        ends = {f"on the {side} bound of {name}": f", {side} bound" for side in ("lower", "upper")}
        where = ends.get(status, "")
        mark(ax, "preferred", minimum, f"{word} {number(minimum)}{where}")
    else:
        ax.plot([], [], " ", label="flat: no minimum")


def _mark_minima(ax: Any, audited: Audited, scan: Any) -> None:
    """Put a dot on each minimum, full on the lowest."""
    if len(audited.names) > 1:  # minima of all parameters together do not lie on the curve
        return
    where = np.atleast_1d(scan["local_minimum"].values).astype(float)
    height = np.atleast_1d(scan["local_profile"].values).astype(float)
    low = ax.get_ylim()[0] * (1.05 if ax.get_yscale() == "log" else 1.0)
    for k, (x, y) in enumerate(zip(where, height, strict=True)):
        ax.plot(
            x,
            max(y, low),
            "o",
            ms=7,
            mew=1.8,
            mec=colour("preferred"),
            mfc=colour("preferred") if k == 0 else "none",
            clip_on=False,
            zorder=6,
        )

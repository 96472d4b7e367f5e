"""Field, residual and signed evidence about a parameter over the domain."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from twoaxis.diagnosis import Audit
from twoaxis.diagnosis.result import MISSING
from twoaxis.errors import InputError
from twoaxis.report.inputs import as_audit, choose
from twoaxis.report.theme import (
    SMALL,
    axis_or_new,
    color,
    color_bar,
    diverging,
    label,
    named,
    open_frame,
    plain,
)
from twoaxis.text import number, percent, shortened, visible

FloatArray = NDArray[np.float64]
Quantity = Literal["field", "residual", "evidence"]

# Colors reach their full strength at this quantile of the sizes: a few extremes say no more.
ROBUST = 0.98
# Up to so many points on a line, each has a stem.
STEMS = 120
# Of a map, across and up.
PIXELS = (260, 220)
# Slices of a domain with three or more coordinates.
SLICES = 4
# A place that is further from all points than so many of their distances is left empty.
FAR = 3.0


def plot_evidence(
    audit: Any,
    *,
    quantity: Quantity = "evidence",
    parameter: str | None = None,
    equation: str | None = None,
    ax: Any = None,
) -> Any:
    """Draw the field, its residual or the signed evidence at the residual points.

    The evidence of a point is ``J (M r)``: the sum over all points is the score B. Where it is
    positive, the point pulls the parameter down; where it is negative, up. Of three coordinates,
    time is cut into four slices with equally many points, or else the last one.

    Parameters
    ----------
    audit : Audit
    quantity : {"evidence", "residual", "field"}
    parameter : str, optional
        Needed for the evidence when there are several.
    equation : str, optional
        One equation of a system. By default all of them: at a place that several share, their
        evidence adds up, and of their residuals the largest is shown.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    group = _of_equation(as_audit(audit).field, equation)
    values, words = _values(audit, group, quantity, parameter)
    points = group["points"].values
    names = [shortened(name, 16) for name in group["axis"].values]
    ax = axis_or_new(ax, SMALL)
    own = None if quantity != "evidence" else audit.parameters[choose(audit.parameters, parameter)]
    if points.shape[1] == 1:
        _line(ax, points[:, 0], values)
        label(ax, names[0])
        ax.set_ylabel(words)
        plain(ax.yaxis.label, of=own)
    elif points.shape[1] == 2:
        drawn, more = _map(ax, points, values, quantity, _limits(values, quantity))
        color_bar(ax, drawn, words, extend="both" if more else "neither", of=own)
        label(ax, names[0], names[1])
    else:
        drawn, more = _slices(ax, points, values, quantity, names)
        color_bar(ax, drawn, words, extend="both" if more else "neither", of=own)
        return ax
    open_frame(ax)
    return ax


def equations_of(audit: Audit) -> list[str]:
    """Return the names of the equations of a system; empty where there is only one."""
    names = [str(name) for name in audit.field["equation"].values]
    return names if len(names) > 1 else []


def _of_equation(group: xr.Dataset, equation: str | None) -> xr.Dataset:
    """Return the values of one equation, or of all."""
    if equation is None:
        return group
    names = [str(name) for name in group["equation"].values]
    if equation not in names:
        raise InputError(
            f"one of the equations {', '.join(names)}",
            f"equation={equation!r}",
            "name one, or leave it out for all of them together",
        )
    return group.isel(point=group["equation_of"].values == names.index(equation))


def _values(
    audit: Audit, group: xr.Dataset, quantity: Quantity, parameter: str | None
) -> tuple[FloatArray, str]:
    if quantity not in get_args(Quantity):
        raise InputError(
            'quantity "field", "residual" or "evidence"', repr(quantity), "choose one of them"
        )
    if parameter is not None or quantity == "evidence":
        name = choose(audit.parameters, parameter)
    if quantity == "evidence":
        values = group["contribution"].sel(parameter=name).values
        words = f"evidence: + pulls {named(audit.parameters[name], name, 12)} down"
    elif quantity == "residual":
        values, words = group["residual"].values, f"residual at the {audit.center_word}"
    elif "field" not in group:
        what, call = MISSING["field"]
        raise InputError(f"an audit with {what}", "one without it", f"use {call}")
    else:
        values, words = group["field"].values, shortened(group.attrs["field_name"])
    return np.asarray(values, dtype=float), words


def robust_limit(values: FloatArray) -> float:
    """Return the size at which colors reach their full strength; never zero."""
    sizes = np.abs(values[np.isfinite(values)])
    if not sizes.size or sizes.max() == 0:
        return 1.0
    limit = float(np.quantile(sizes, ROBUST))
    return limit if limit > 0 else float(sizes.max())


def _line(ax: Any, x: FloatArray, values: FloatArray) -> None:
    order = np.argsort(x, kind="stable")
    x, values = x[order], values[order]
    ax.axhline(0, color=color("muted"), lw=0.8)
    if len(x) <= STEMS:
        shade = np.where(values >= 0, color("plus"), color("minus"))
        ax.vlines(x, 0, values, colors=list(shade), lw=1.2)
        ax.scatter(x, values, c=list(shade), s=10, zorder=3)
    else:
        for sign, role in ((1, "plus"), (-1, "minus")):
            side = values * sign >= 0
            ax.plot(x[side], values[side], ".", ms=2.5, color=color(role), rasterized=True)


def _limits(values: FloatArray, quantity: Quantity) -> tuple[float, float, Any]:
    """Return the values at both ends of the colors, and the colors."""
    if quantity == "field" and (values.min() >= 0 or values.max() <= 0):
        low, high = map(float, np.quantile(values, [1 - ROBUST, ROBUST]))
        return low, high if high > low else low + 1.0, "cividis"
    high = robust_limit(values)
    return -high, high, diverging()


def _slices(
    ax: Any, points: FloatArray, values: FloatArray, quantity: Quantity, names: list[str]
) -> tuple[Any, bool]:
    """Draw slices of time, or else of the last coordinate, as maps in the place of `ax`."""
    cut = names.index("t") if "t" in names else len(names) - 1
    across, up, *rest = (k for k in range(len(names)) if k != cut)
    beyond = f" ({', '.join(names[k] for k in rest)} not shown)" if rest else ""
    at = points[:, cut]
    edges = np.unique(np.quantile(at, np.linspace(0, 1, SLICES + 1)))
    number_of = np.clip(np.searchsorted(edges, at, side="right") - 1, 0, max(len(edges) - 2, 0))
    limits = _limits(values, quantity)
    ax.axis("off")
    drawn, more = None, False
    for k in np.unique(number_of).tolist():
        own = number_of == k
        row, column = divmod(k, 2)
        part = ax.inset_axes((0.56 * column, 0.58 * (1 - row), 0.44, 0.37))
        drawn, off = _map(part, points[own][:, [across, up]], values[own], quantity, limits)
        ends = " to ".join(dict.fromkeys(number(end, ".2g") for end in _ends(at[own])))
        part.set_title(f"{names[cut]} = {ends}", fontsize="x-small")
        part.tick_params(labelsize="x-small")
        label(part, f"{names[across]}{beyond}" if row else "", names[up] if not column else "")
        open_frame(part)
        more = more or off
    return drawn, more


def _ends(values: FloatArray) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _map(
    ax: Any,
    points: FloatArray,
    values: FloatArray,
    quantity: Quantity,
    limits: tuple[float, float, Any],
) -> tuple[Any, bool]:
    """Fill the plane: every place shows the residual point that is nearest to it.

    Return the image, and whether values go beyond its colors.
    """
    low, high, shades = limits
    places, held = _each_place_once(points, values, quantity)
    image, extent = _mosaic(places, held)
    drawn = ax.imshow(
        image,
        extent=extent,
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        cmap=shades,
        vmin=low,
        vmax=high,
    )
    return drawn, bool((held < low).any() or (held > high).any())


def _each_place_once(
    points: FloatArray, values: FloatArray, quantity: Quantity
) -> tuple[FloatArray, FloatArray]:
    """Join values at one place, as of several equations: evidence adds up, else the largest."""
    places, inverse = np.unique(points, axis=0, return_inverse=True)
    if quantity == "evidence":
        return places, np.bincount(inverse.ravel(), values, len(places)).astype(float)
    joined = np.empty(len(places))
    order = np.argsort(np.abs(values), kind="stable")
    joined[inverse.ravel()[order]] = values[order]  # the last one written is the largest
    return places, joined


def _mosaic(
    places: FloatArray, values: FloatArray
) -> tuple[NDArray[Any], tuple[float, float, float, float]]:
    """Return an image of nearest points, empty where all of them are far, and its extent."""
    low, high = places.min(axis=0), places.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    from scipy.spatial import cKDTree  # loaded when a map is drawn

    tree = cKDTree((places - low) / span)
    ticks = [(np.arange(count) + 0.5) / count for count in PIXELS]
    grid = np.stack(np.meshgrid(*ticks), axis=-1)
    distance, nearest = tree.query(grid.reshape(-1, 2))
    apart = np.sqrt(1.0 / len(places))
    if len(places) > 1:
        apart = max(apart, float(np.quantile(tree.query(tree.data, k=2)[0][:, 1], 0.95)))
    image = np.ma.masked_where(distance > FAR * apart, values[nearest]).reshape(grid.shape[:2])
    (left, bottom), (right, top) = low, low + span
    return image, (float(left), float(right), float(bottom), float(top))


def describe(audit: Audit, quantity: Quantity, name: str = "", equation: str | None = None) -> str:
    """Return range or signs of what is drawn as text."""
    group = _of_equation(audit.field, equation)
    of = "" if equation is None else f" of {visible(equation)}"
    if quantity == "evidence":
        values = group["contribution"].sel(parameter=name).values
        size = float(np.abs(values).sum()) or 1.0
        down = 100 * float(values[values > 0].sum()) / size
        score = float(audit.score.data["B"].sel(parameter=name))
        whole = "" if equation is None else " of all equations"
        return (
            f"Signed evidence{of} about {visible(name)} at {values.size} points: "
            f"{percent(down)} of it pulls the parameter down and "
            f"{percent(100 - down if values.any() else 0.0)} up; the score B{whole} is "
            f"{number(score)}."
        )
    values = group[quantity].values
    ends = f"from {number(float(values.min()))} to {number(float(values.max()))}"
    if quantity == "field":
        name = visible(group.attrs["field_name"])
        return f"The learned field {name} at {values.size} points: {ends}."
    norm = f", norm under the view {number(audit.score.residual_norm)}" if not of else ""
    return f"The residual{of} at the {audit.center_word} at {values.size} points: {ends}{norm}."

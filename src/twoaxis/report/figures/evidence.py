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
    positive, the point pulls the parameter down; where it is negative, up.

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
    else:
        drawn, more = _map(ax, points, values, quantity)
        color_bar(ax, drawn, words, extend="both" if more else "neither", of=own)
        beyond = f" ({', '.join(names[2:])} not shown)" if len(names) > 2 else ""
        label(ax, f"{names[0]}{beyond}", names[1])
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


def _map(ax: Any, points: FloatArray, values: FloatArray, quantity: Quantity) -> tuple[Any, bool]:
    """Fill the domain: every place shows the residual point that is nearest to it.

    Return the image, and whether values go beyond its colors.
    """
    one_sided = quantity == "field" and (values.min() >= 0 or values.max() <= 0)
    if one_sided:
        low, high = np.quantile(values, [1 - ROBUST, ROBUST])
        high = high if high > low else low + 1.0
        shades: Any = "cividis"
    else:
        high = robust_limit(values)
        low, shades = -high, diverging()
    places, held = _each_place_once(points[:, :2], values, quantity)
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

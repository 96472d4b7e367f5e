"""Data against the learned field and the solver: what each predicts where it was observed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from twoaxis.diagnosis import Audit
from twoaxis.diagnosis.field_check import groups_of
from twoaxis.report.inputs import as_audit
from twoaxis.report.theme import (
    LINES,
    SMALL_SIZE,
    WIDE,
    color,
    label,
    legend_above,
    new_figure,
    open_frame,
    plain,
)
from twoaxis.text import number, shortened, visible

FloatArray = NDArray[np.float64]

# What is compared with the data: variable, words, color, marker; the first that is there has
# the band of the noise around it.
PREDICTIONS = (
    ("matched", "solver, matched estimate", "matched", "x"),
    ("field", "learned field", "preferred", "s"),
    ("delivered", "solver, delivered value", "delivered", "+"),
)
# Widths of the band in standard deviations of the noise.
BAND = 2.0
# Small panels of one figure, beside the first, two in a row, and the size of each: together as
# wide as other pictures, so that their texts are as large.
MOST_PANELS, COLUMNS = 5, 2
PANEL = (WIDE[0] / COLUMNS, 2.0)
# Scattered observations are shown in so many slices along one coordinate.
SLICES = 3


@dataclass(frozen=True)
class Panel:
    """Observations that are drawn together, along one coordinate.

    Attributes
    ----------
    title : str
    rows : array of int
        Which observations.
    along : int
        The coordinate that they are drawn along.
    joined : bool
        Whether predictions are joined by lines: on one line of the domain, not in a slice.
    """

    title: str
    rows: NDArray[np.intp]
    along: int
    joined: bool


def plot_observations(audit: Any, *, ax: Any = None) -> Any:
    """Draw the data, the learned field and the solver's predictions for them.

    Observations along one coordinate are drawn along it: dots are the data, the band is two
    standard deviations of the noise around the solver at the matched estimate. Where there are
    more coordinates, the first panel shows predictions against observed values, and small panels
    show the sensors, or else slices of the domain, that the field fits worst. Several observed
    fields have panels of their own.

    Parameters
    ----------
    audit : Audit
    ax : matplotlib.axes.Axes or matplotlib.figure.Figure, optional
        One axis has the first panel alone, a figure or a subfigure all of them.

    Returns
    -------
    matplotlib.axes.Axes or array of them
        An array where there are small panels.
    """
    group = as_audit(audit).need("/observations")
    axes = [shortened(name, 16) for name in group["axis"].values]
    panels = panels_of(group)
    alone = len(panels) == 1
    if ax is not None and not hasattr(ax, "subplots"):
        _first(ax, group, panels, axes)
        legend_above(ax)
        return ax
    figure = new_figure(size_of(audit)) if ax is None else ax
    if alone:
        own = figure.subplots()
        _first(own, group, panels, axes)
        legend_above(own)
        return own
    grid = figure.subplots(*_shape(len(panels) + 1), squeeze=False).ravel()
    _first(grid[0], group, panels, axes)
    for own, panel in zip(grid[1:], panels, strict=False):
        _draw_panel(own, group, panel, axes)
        plain(own.set_title(panel.title, fontsize=SMALL_SIZE, loc="left"))
    for own in grid[len(panels) + 1 :]:
        own.set_axis_off()
    _legend_of_all(figure, grid[: len(panels) + 1])
    return grid[: len(panels) + 1]


def size_of(audit: Audit) -> tuple[float, float]:
    """Return the size of the whole figure, in inches."""
    group = audit.need("/observations")
    count = len(panels_of(group))
    if count == 1:
        return WIDE
    rows, columns = _shape(count + 1)
    return columns * PANEL[0], rows * PANEL[1] + 0.55


def _shape(count: int) -> tuple[int, int]:
    columns = min(count, COLUMNS)
    return -(-count // columns), columns


def panels_of(group: xr.Dataset) -> list[Panel]:
    """Divide observations into panels, the worst fitted ones first.

    One for each observed field, or for each sensor of it, or else slices of the domain.
    """
    fields = [shortened(name, 10) for name in group["observed_field"].values]
    found = []
    for k, name in enumerate(fields):
        rows = np.flatnonzero(group["field_of"].values == k)
        if rows.size:
            found += _of_field(group, rows, name if len(fields) > 1 else "")
    return sorted(found, key=lambda panel: -_size(group, panel.rows))[:MOST_PANELS]


def _of_field(group: xr.Dataset, rows: NDArray[np.intp], field: str) -> list[Panel]:
    points = group["points"].values[rows]
    axes = [visible(name) for name in group["axis"].values]
    varying = np.flatnonzero(np.ptp(points, axis=0))
    if varying.size <= 1:
        return [Panel(field, rows, int(varying[0]) if varying.size else 0, True)]
    groups = groups_of(points, axes)
    spread = [np.ptp(points[groups.number == k], axis=0) for k in range(len(groups.names))]
    # At a sensor all coordinates but one are constant.
    if all(np.count_nonzero(each) <= 1 for each in spread):
        found = [
            Panel(name, np.flatnonzero(groups.number == k), int(np.argmax(each)), True)
            for k, (name, each) in enumerate(zip(groups.names, spread, strict=True))
        ]
    else:
        found = _slices(points, axes)
    start = f"{field}, " if field else ""
    return [
        replace(panel, title=shortened(start + panel.title, 30), rows=rows[panel.rows])
        for panel in found
    ]


def _slices(points: FloatArray, axes: Sequence[str]) -> list[Panel]:
    """Cut scattered observations along time, or the last coordinate, into equal parts."""
    times = [k for k, name in enumerate(axes) if name.lower() in ("t", "time")]
    across = times[0] if times else points.shape[1] - 1
    along = 1 if across == 0 else 0
    edges = np.quantile(points[:, across], np.linspace(0, 1, SLICES + 1))
    number = np.clip(np.searchsorted(edges, points[:, across], "right") - 1, 0, SLICES - 1)
    return [
        Panel(
            f"{shortened(axes[across], 10)} from {edges[k]:.3g} to {edges[k + 1]:.3g}",
            np.flatnonzero(number == k),
            along,
            False,
        )
        for k in range(SLICES)
        if (number == k).any()
    ]


def _size(group: xr.Dataset, rows: NDArray[np.intp]) -> float:
    """Return the RMS misfit of some observations, by which panels are chosen; 0: not known."""
    for name in ("field_misfit", "matched_misfit", "delivered_misfit"):
        if name in group:
            return float(np.sqrt(np.nanmean(group[name].values[rows] ** 2)))
    return 0.0


def _predictions(group: xr.Dataset) -> list[tuple[str, str, str, str]]:
    return [one for one in PREDICTIONS if one[0] in group and group[one[0]].notnull().any()]


def _first(ax: Any, group: xr.Dataset, panels: list[Panel], axes: list[str]) -> None:
    if len(panels) == 1:
        _draw_panel(ax, group, panels[0], axes)
        label(ax, y="observed and predicted value")
    else:
        _draw_scatter(ax, group)


def _draw_panel(ax: Any, group: xr.Dataset, panel: Panel, axes: list[str]) -> None:
    rows = panel.rows[np.argsort(group["points"].values[panel.rows, panel.along], kind="stable")]
    x = group["points"].values[rows, panel.along]
    repeated = len(np.unique(x)) < len(x)
    for k, (name, words, role, marker) in enumerate(_predictions(group)):
        y = group[name].values[rows]
        joined = panel.joined and not (repeated and _differs(x, y))
        if axes[panel.along] == "index":  # a number, which may or may not say what is near
            joined = joined and _runs_smoothly(y)
        if k == 0 and joined:
            reach = BAND * group["noise"].values[rows]
            shade = {"color": color(role), "alpha": 0.16, "lw": 0, "zorder": 1}
            ax.fill_between(x, y - reach, y + reach, label=f"±{BAND:g} noise levels", **shade)
        style: dict[str, Any] = {"color": color(role), "label": words, "zorder": 3}
        if joined:
            kind = {"field": "preferred"}.get(name, name)
            ax.plot(x, y, ls=LINES[kind], lw=2.2 if LINES[kind] == ":" else 1.7, **style)
        else:
            ax.plot(x, y, marker, ms=4.5, mfc="none", mew=1.1, **style)
    dots = {"color": color("ink"), "ms": 3.6, "alpha": 0.75, "zorder": 4}
    ax.plot(x, group["data"].values[rows], "o", label="data", mec="none", **dots)
    label(ax, axes[panel.along])
    open_frame(ax)


def _differs(x: FloatArray, y: FloatArray) -> bool:
    """Whether one coordinate has several predictions, as of several fields."""
    same = np.diff(x) == 0
    return bool(np.any(np.abs(np.diff(y))[same] > 1e-9 * (np.ptp(y) or 1.0)))


def _runs_smoothly(y: FloatArray) -> bool:
    """Whether neighbors in a row are close: of a random order, a third of the range apart."""
    steps, reach = float(np.abs(np.diff(y)).sum()), float(np.ptp(y))
    return steps <= max(4.0, 0.15 * len(y)) * reach


def _draw_scatter(ax: Any, group: xr.Dataset) -> None:
    """Draw predictions against observed values; on the diagonal they are the same."""
    data = group["data"].values
    ends = np.array([data.min(), data.max()])
    noise = BAND * float(np.median(group["noise"].values))
    shade = {"color": color("muted"), "alpha": 0.16, "lw": 0, "zorder": 1}
    ax.fill_between(ends, ends - noise, ends + noise, label=f"±{BAND:g} noise levels", **shade)
    ax.plot(ends, ends, color=color("ink"), lw=1.0, zorder=2)
    many = len(data) > 2000
    for name, words, role, marker in _predictions(group):
        style = {"color": color(role), "mfc": "none", "mew": 0.9, "ms": 3.8, "alpha": 0.8}
        values = group[name].values
        ax.plot(data, values, marker, label=words, zorder=3, rasterized=many, **style)
    label(ax, "observed", "predicted")
    open_frame(ax)


def _legend_of_all(figure: Any, axes: Any) -> None:
    """Put one legend over all panels, each entry once."""
    entries: dict[str, Any] = {}
    for ax in axes:
        for handle, words in zip(*ax.get_legend_handles_labels(), strict=True):
            entries[words] = handle  # those of the last panel: lines rather than markers
    legend = figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside upper left",
        ncols=2,
        frameon=False,
        fontsize=SMALL_SIZE,
        columnspacing=1.2,
        handlelength=1.9,
    )
    plain(*legend.get_texts())


def describe(audit: Audit) -> str:
    """Return how far the predictions are from the data as text."""
    group = audit.need("/observations")
    parts = []
    for name, words, _, _ in _predictions(group):
        misfit = group[f"{name}_misfit"].values
        parts.append(f"{words}: {number(float(np.sqrt(np.nanmean(misfit**2))), '.3g')}")
    listed = f"; rms misfit in noise levels: {'; '.join(parts)}" if parts else ""
    data = group["data"].values
    ends = f"from {number(float(data.min()))} to {number(float(data.max()))}"
    return f"{int(group.attrs['observations'])} observations {ends}{listed}."

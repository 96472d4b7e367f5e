"""What the field and the matched fit leave of the data, in noise levels, sensor by sensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from twoaxis.diagnosis import Audit
from twoaxis.diagnosis.field_check import Fields, Groups, grouped
from twoaxis.errors import InputError
from twoaxis.report.inputs import as_audit
from twoaxis.report.theme import (
    SMALL_SIZE,
    WIDE,
    axis_or_new,
    color,
    label,
    legend_above,
    open_frame,
    plain,
)
from twoaxis.text import number, shortened, visible

FloatArray = NDArray[np.float64]

SERIES = (
    ("field_misfit", "learned field", "preferred", "s"),
    ("matched_misfit", "matched fit", "matched", "x"),
)
# More rows than this cannot be read; the worst ones are shown.
MOST_ROWS = 10
# Dots of one row; more would only blacken it.
MOST_DOTS = 200


def plot_misfit(audit: Any, *, ax: Any = None) -> Any:
    """Draw the whitened misfit of the learned field and of the matched fit to the data.

    Observations along one coordinate are drawn along it; otherwise each sensor, or box of the
    domain, has a row. Bands are one and two noise levels: where the model is right, two of three
    dots lie in the inner and 19 of 20 in the outer one. The numbers beside a row are the RMS of
    its dots.

    Parameters
    ----------
    audit : Audit
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    group = as_audit(audit).need("/observations")
    there = series_of(group)
    if not there:
        raise InputError(
            "an audit with predictions for the observations",
            "one with the data alone",
            "use twoaxis.audit(..., fitted=...), or a resolution with its forward model",
        )
    if _on_one_line(group):
        return _along(axis_or_new(ax), group, there)
    groups = _groups(group)
    shown = worst(group, groups)
    ax = axis_or_new(ax, size_of(audit))
    return _by_row(ax, group, there, groups, shown)


def size_of(audit: Audit) -> tuple[float, float]:
    """Return the size of the figure, in inches."""
    group = audit.need("/observations")
    if _on_one_line(group):
        return WIDE
    groups = _groups(group)
    return WIDE[0], 0.9 + 0.36 * min(len(groups.names), MOST_ROWS)


def _on_one_line(group: xr.Dataset) -> bool:
    """Whether there is one field, observed along one coordinate."""
    return group.sizes["axis"] == 1 and group.sizes["observed_field"] == 1


def _groups(group: xr.Dataset) -> Groups:
    """Return the sensor, or box, of each observation, field by field."""
    names = [str(name) for name in group["observed_field"].values]
    axes = [visible(name) for name in group["axis"].values]
    return grouped(group["points"].values, axes, Fields(group["field_of"].values, names))


def series_of(group: xr.Dataset) -> list[tuple[str, str, str, str]]:
    """Return what can be drawn."""
    return [one for one in SERIES if one[0] in group and group[one[0]].notnull().any()]


def worst(group: xr.Dataset, groups: Groups) -> list[int]:
    """Return the groups with the largest misfit, at most `MOST_ROWS`, in the order of groups."""
    variable = series_of(group)[0][0]
    sizes = rms_of(group[variable].values, groups)
    return sorted(np.argsort(-sizes, kind="stable")[:MOST_ROWS].tolist())


def rms_of(misfit: FloatArray, groups: Groups) -> FloatArray:
    """Return the RMS misfit of each group."""
    count = len(groups.names)
    known = np.isfinite(misfit)
    squares = np.bincount(groups.number[known], misfit[known] ** 2, count)
    return np.asarray(
        np.sqrt(squares / np.maximum(np.bincount(groups.number[known], None, count), 1))
    )


def _bands(span: Any, line: Any) -> None:
    for reach, alpha in ((2, 0.10), (1, 0.16)):
        span(-reach, reach, color=color("muted"), alpha=alpha, lw=0, zorder=0)
    line(0, color=color("center"), lw=1.0, zorder=1)


def _along(ax: Any, group: xr.Dataset, there: list[tuple[str, str, str, str]]) -> Any:
    x = group["points"].values[:, 0]
    _bands(ax.axhspan, ax.axhline)
    for variable, words, role, marker in there:
        y = group[variable].values
        size = number(float(np.sqrt(np.nanmean(y**2))), ".2g")
        style = {"color": color(role), "ms": 4.2, "mfc": "none", "mew": 1.1}
        ax.plot(x, y, marker, label=f"{words} (rms {size})", zorder=3, **style)
    label(ax, shortened(group["axis"].values[0], 16), "data minus prediction, noise levels")
    open_frame(ax)
    legend_above(ax)
    return ax


def _by_row(
    ax: Any,
    group: xr.Dataset,
    there: list[tuple[str, str, str, str]],
    groups: Groups,
    shown: list[int],
) -> Any:
    _bands(ax.axvspan, ax.axvline)
    shift = np.linspace(-0.2, 0.2, len(there)) if len(there) > 1 else [0.0]
    for (variable, words, role, marker), own in zip(there, shift, strict=True):
        misfit = group[variable].values
        xs, ys = [], []
        for row, k in enumerate(shown):
            values = misfit[groups.number == k]
            values = values[np.isfinite(values)]
            # Evenly spaced ones of the sorted values: the same dots each time, and both ends.
            pick = np.linspace(0, len(values) - 1, min(len(values), MOST_DOTS)).astype(int)
            xs.append(np.sort(values)[pick])
            ys.append(np.full(len(pick), row + own))
        style = {"color": color(role), "ms": 4.0, "mfc": "none", "mew": 0.9, "alpha": 0.75}
        ax.plot(np.concatenate(xs), np.concatenate(ys), marker, label=words, zorder=3, **style)
    names = [shortened(groups.names[k], 34) for k in shown]
    ax.set_yticks(range(len(shown)), names, fontsize=SMALL_SIZE - 0.5)
    plain(*ax.get_yticklabels())
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    _write_sizes(ax, group, there, groups, shown)
    total = len(groups.names)
    of = f" (largest {len(shown)} of {total})" if total > len(shown) else ""
    label(ax, f"misfit, noise levels{of}")
    open_frame(ax, "top", "right", "left")
    legend_above(ax)
    return ax


def _write_sizes(ax: Any, group: xr.Dataset, there: Any, groups: Groups, shown: list[int]) -> None:
    """Write the RMS of each row at its right end."""
    sizes = [rms_of(group[variable].values, groups) for variable, *_ in there]
    texts = ["rms " + ", ".join(number(float(s[k]), ".2g") for s in sizes) for k in shown]
    beside = ax.secondary_yaxis("right")
    beside.set_yticks(range(len(shown)), texts, fontsize=SMALL_SIZE - 0.5)
    beside.tick_params(axis="y", length=0)
    beside.spines["right"].set_visible(False)


def describe(audit: Audit) -> str:
    """Return the RMS misfits, overall and of the worst group, as text."""
    group = audit.need("/observations")
    groups = _groups(group)
    parts = []
    for variable, words, _, _ in series_of(group):
        misfit = group[variable].values
        whole = number(float(np.sqrt(np.nanmean(misfit**2))), ".3g")
        each = rms_of(misfit, groups)
        k = int(np.argmax(each))
        parts.append(
            f"{words} {whole} over all, at most {number(float(each[k]), '.3g')} "
            f"({visible(groups.names[k])})"
        )
    return f"RMS misfit in noise levels: {'; '.join(parts)}."

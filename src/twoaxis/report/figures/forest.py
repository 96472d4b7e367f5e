"""The forest plot: delivered, preferred and matched value with its interval, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.diagnosis import Audit, Comparison
from twoaxis.errors import InputError
from twoaxis.parameters import Parameter
from twoaxis.report.figures.profile import logarithmic
from twoaxis.report.inputs import center_word, choose
from twoaxis.report.theme import (
    SMALL_SIZE,
    WIDE,
    axis_or_new,
    color,
    label,
    legend_above,
    named,
    open_frame,
    plain,
)
from twoaxis.text import number, percent, shortened, visible

FloatArray = NDArray[np.float64]

# Height of a row, in inches, and of everything else.
ROW, REST = 0.32, 0.75
MARKS = (("matched", "o"), ("preferred", "s"), ("delivered", "D"))
# Ends of intervals are drawn up to this many times the reach of the values.
REACH = 3.0


@dataclass(frozen=True)
class Rows:
    """What a forest plot shows, one entry for each row; NaN where something is not known.

    Attributes
    ----------
    names : list of str
    parameters : list of Parameter or None
        By which the names are written; None for names that are no parameters.
    delivered, preferred, matched, lower, upper : array
    small : array of bool
        Rows in small print: nuisance parameters.
    level : float
        Confidence level of the intervals; NaN: no interval.
    """

    names: list[str]
    parameters: list[Parameter | None]
    delivered: FloatArray
    preferred: FloatArray
    matched: FloatArray
    lower: FloatArray
    upper: FloatArray
    small: NDArray[np.bool_]
    level: float = np.nan


def plot_forest(result: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """Draw delivered, preferred and matched values, with the matched interval, row by row.

    Of an audit, a row is a parameter, and values are in percent of its center, so that
    parameters of any size stand side by side; nuisance parameters come last, in small print. Of a
    comparison, a row is an audit, and values are those of one parameter, in its unit.

    Parameters
    ----------
    result : Audit or Comparison
    parameter : str, optional
        Of a comparison, needed when there are several.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    if isinstance(result, Comparison):
        name = choose(result.parameters, parameter)
        rows = rows_of_comparison(result, name)
        ax = axis_or_new(ax, size_of(result))
        _draw(ax, rows)
        own = result.parameters[name]
        word = {"truth": "truth", "delivered": "mean candidate"}.get(result.centered_on, "point")
        reference = result.reference[name]
        ax.axvline(
            reference, color=color("center"), lw=1.3, zorder=1, label=f"{word} {number(reference)}"
        )
        if own.coordinate == "log":
            low, high = ax.get_xlim()
            if low > 0 and high > 2 * low:
                logarithmic(ax, np.array([low, high]))
        label(ax, named(own, name, unit=True), of=own)
    elif isinstance(result, Audit):
        rows = rows_of_audit(result)
        ax = axis_or_new(ax, size_of(result))
        _draw(ax, rows)
        word = center_word(result.centered_on)
        ax.axvline(0, color=color("center"), lw=1.3, zorder=1, label=word)
        label(ax, f"deviation from the {word}, %")
    else:
        raise InputError(
            "an audit or a comparison",
            type(result).__name__,
            "pass what twoaxis.audit, twoaxis.compare or twoaxis.load returned",
        )
    # The legend starts where the names end.
    widest = max(len(text.get_text()) for text in ax.get_yticklabels())
    legend_above(ax, columns=4, margin=15.0 + 0.62 * SMALL_SIZE * widest)
    return ax


def size_of(result: Any) -> tuple[float, float]:
    """Return the size of the figure, in inches."""
    count = result.count if isinstance(result, Comparison) else len(result.parameters.scalars)
    return WIDE[0], REST + ROW * max(count, 2)


def rows_of_audit(audit: Audit) -> Rows:
    """Return the parameters of an audit, in percent of its center; nuisance parameters last."""
    # Node values of an unknown function are a picture of their own.
    names = sorted(audit.parameters.scalars, key=lambda name: audit.parameters[name].nuisance)
    group, minimum = audit.group("/matched"), audit.scan.minimum or {}
    delivered = audit.parameters.delivered or {}

    def percents(values: dict[str, float]) -> FloatArray:
        return np.array([audit.off(n, values[n]) if n in values else np.nan for n in names])

    def matched(variable: str) -> FloatArray:
        known = {} if group is None else dict(group[variable].to_series())
        return percents(known)

    return Rows(
        names,
        [audit.parameters[name] for name in names],
        percents(delivered),
        percents(minimum),
        matched("estimate"),
        matched("lower"),
        matched("upper"),
        np.array([audit.parameters[name].nuisance for name in names]),
        np.nan if group is None else float(group["level"]),
    )


def rows_of_comparison(found: Comparison, name: str) -> Rows:
    """Return the audits of a comparison, as values of one parameter."""
    levels = found.data["matched_level"].values
    return Rows(
        found.names,
        [None] * found.count,
        found.values("total", name),
        found.values("preference", name),
        found.values("matched", name),
        found.values("matched_lower", name),
        found.values("matched_upper", name),
        np.zeros(found.count, dtype=bool),
        float(np.nanmax(levels, initial=-np.inf)) if np.isfinite(levels).any() else np.nan,
    )


def _draw(ax: Any, rows: Rows) -> None:
    at = np.arange(len(rows.names))
    values = {"delivered": rows.delivered, "preferred": rows.preferred, "matched": rows.matched}
    low, high = _reach(rows)
    if np.isfinite(rows.level):
        for k in at[np.isfinite(rows.lower) | np.isfinite(rows.upper)]:
            ends = np.clip(np.nan_to_num([rows.lower[k], rows.upper[k]], nan=0.0), low, high)
            first = "_nolegend_" if k else f"matched {100 * rows.level:g}% interval"
            width = 1.4 if rows.small[k] else 2.6
            style = {"color": color("matched"), "lw": width, "alpha": 0.55, "zorder": 2}
            ax.plot(ends, [k, k], solid_capstyle="butt", label=first, **style)
    for kind, marker in MARKS:
        here = np.isfinite(values[kind])
        if not here.any():
            continue
        style = {"color": color(kind), "zorder": 4, "clip_on": False}
        for small, size in ((False, 6.0), (True, 3.5)):
            some = here & (rows.small == small)
            word = kind if not small or rows.small.all() else "_nolegend_"
            if some.any():
                ax.plot(values[kind][some], at[some], marker, ms=size, mfc="none", mew=1.5,
                        label=word, **style)  # fmt: skip
    ax.set_yticks(at, [_name(rows, k) for k in range(len(at))])
    for k, text in enumerate(ax.get_yticklabels()):
        plain(text, of=rows.parameters[k])
        if rows.small[k]:
            text.set(fontsize=SMALL_SIZE - 1.5, color=color("muted"))
    ax.set_ylim(len(at) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", color=color("rule"), lw=0.6, zorder=0)
    ax.set_axisbelow(True)
    open_frame(ax, "top", "right", "left")


def _name(rows: Rows, k: int) -> str:
    parameter = rows.parameters[k]
    return shortened(rows.names[k]) if parameter is None else named(parameter, rows.names[k])


def _reach(rows: Rows) -> tuple[float, float]:
    """Return where interval ends are cut off: an open one would hide everything else."""
    marks = np.concatenate([rows.delivered, rows.preferred, rows.matched])
    marks = marks[np.isfinite(marks)]
    if not marks.size:
        return -np.inf, np.inf
    ends = np.concatenate([rows.lower, rows.upper])
    widths = np.abs(ends[np.isfinite(ends)] - np.median(marks))
    reach = max(REACH * float(np.ptp(marks)), float(np.median(widths)) if widths.size else 0.0)
    return float(marks.min()) - reach, float(marks.max()) + reach


def describe(result: Audit | Comparison, parameter: str | None = None) -> str:
    """Return the rows as text."""
    if isinstance(result, Audit):
        rows, unit = rows_of_audit(result), "%"
        head = f"Deviation of {len(rows.names)} parameters from the {result.center_word}"
    else:
        name = choose(result.parameters, parameter)
        rows, unit = rows_of_comparison(result, name), ""
        head = f"{visible(name)} in {result.count} audits"

    def words(value: float) -> str:
        return percent(value, "+") if unit else number(value)

    parts = [
        f"{visible(n)} delivered {words(d)}, preferred {words(p)}, matched {words(m)}"
        for n, d, p, m in zip(rows.names, rows.delivered, rows.preferred, rows.matched, strict=True)
    ]
    return f"{head}: {'; '.join(_first(parts))}."


def _first(parts: Sequence[str], most: int = 12) -> list[str]:
    """Return as many parts as a reader listens to."""
    left = len(parts) - most
    return [*parts[:most], f"and {left} more"] if left > 0 else list(parts)

"""A calibration and its confidence set: what the pipeline delivers at each candidate."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoaxis.remedies import Calibration, ConfidenceSet
from twoaxis.remedies.inversion import medians
from twoaxis.report.inputs import part_of
from twoaxis.report.theme import axis_or_new, color, label, legend_above, named, open_frame, plain
from twoaxis.text import number

# Below this ratio of its ends, a logarithmic axis has ticks like an ordinary one.
NARROW = 5.0


def plot_calibration(result: Any, *, ax: Any = None) -> Any:
    """Draw the simulated estimates over the candidates that they were simulated at.

    Parameters
    ----------
    result : Calibration
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    known = part_of(result, Calibration, "calibration")
    ax = axis_or_new(ax, (4.8, 3.6))
    _draw_estimates(ax, known)
    _frame(ax, known, [], f"calibration of {named(known.parameter, known.name)}")
    return ax


def plot_confidence_set(result: Any, *, ax: Any = None) -> Any:
    """Draw a confidence set.

    Dots: simulated estimates over the candidate they were simulated at. Band: estimates for which
    a candidate is accepted. Horizontal line: the delivered value. The shaded part of the
    horizontal axis, where the line crosses the band, is the set.

    Parameters
    ----------
    result : ConfidenceSet
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    found = part_of(result, ConfidenceSet, "confidence_set")
    known = found.calibration
    ax = axis_or_new(ax, (4.8, 3.6))
    lower, upper = (
        known.parameter.to_value(np.where(np.isinf(b), np.nan, b)) for b in found.bounds
    )
    shade = {"color": color("preferred"), "alpha": 0.18, "lw": 0}
    _draw_estimates(ax, known)
    ax.fill_between(known.candidates, lower, upper, label="acceptance band", **shade)
    ax.axhline(
        found.estimate,
        color=color("delivered"),
        ls="--",
        lw=1.6,
        label=f"delivered {number(found.estimate)}",
        zorder=3,
    )
    _shade(ax, found)
    title = f"{100 * found.level:g}% confidence set of {named(known.parameter, known.name)}"
    _frame(ax, known, [found.estimate], title)
    return ax


def _draw_estimates(ax: Any, known: Calibration) -> None:
    p, values = known.parameter, known.candidates
    answers = p.to_value(known.estimates)
    ax.plot(
        np.repeat(values, answers.shape[1]),
        answers.ravel(),
        ls="",
        marker=".",
        ms=2.5,
        color=color("muted"),
        alpha=0.5,
        label="simulated estimates",
        zorder=1,
    )
    ax.plot(values, p.to_value(medians(known.estimates)), color=color("preferred"), label="median")
    ax.plot(values, values, color=color("rule"), lw=1, label="no bias", zorder=0)


def _shade(ax: Any, found: ConfidenceSet) -> None:
    """Shade the set, and mark the corrected value in it."""
    word = f"{100 * found.level:g}% set"
    for part in found.intervals:
        ax.axvspan(part.low, part.high, color=color("matched"), alpha=0.16, lw=0, label=word)
        for end, is_open in ((part.low, part.open_low), (part.high, part.open_high)):
            ax.axvline(end, color=color("matched"), lw=1, ls=":" if is_open else "-", zorder=2)
        word = "_nolegend_"
    if found.corrected is not None:
        ax.plot(
            [found.corrected],
            [found.estimate],
            ls="",
            marker="o",
            ms=6,
            color=color("matched"),
            label=f"corrected {number(found.corrected)}",
            zorder=4,
        )


def _plain_ticks(axis: Any) -> None:
    """Write a logarithmic axis with ordinary numbers."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

    low, high = axis.get_view_interval()
    narrow = high < NARROW * low
    axis.set_major_locator(MaxNLocator(5) if narrow else LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _frame(ax: Any, known: Calibration, marks: list[float], title: str) -> None:
    parameter = known.parameter
    name, unit = (named(parameter, known.name, unit=each) for each in (False, True))
    logarithmic = parameter.coordinate == "log"
    if logarithmic:
        ax.set_xscale("log")
        ax.set_yscale("log")
    ax.set_xlim(known.candidates[0], known.candidates[-1])
    answers = parameter.to_value(known.estimates)
    ends = np.array([*np.quantile(answers[np.isfinite(answers)], [0.002, 0.998]), *marks])
    low, high = parameter.to_coordinate([ends.min(), ends.max()])
    room = 0.06 * (high - low)
    ax.set_ylim(*parameter.to_value([low - room, high + room]))
    if logarithmic:
        for axis in (ax.xaxis, ax.yaxis):
            _plain_ticks(axis)
    open_frame(ax)
    label(ax, f"candidate {unit}", f"{name} delivered by the pipeline", of=parameter)
    rows = legend_above(ax, columns=3, margin=15.0)
    plain(ax.set_title(title, fontsize="medium", pad=8 + 14 * rows), of=parameter)

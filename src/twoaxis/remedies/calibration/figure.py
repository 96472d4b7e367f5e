"""The picture of a confidence set: what the pipeline answers at each candidate, and what it did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twoaxis.remedies.calibration.ranks import medians
from twoaxis.report.theme import axis_or_new, colour, label, legend_above, open_frame, plain
from twoaxis.text import number, shortened

if TYPE_CHECKING:
    from twoaxis.remedies.calibration.result import ConfidenceSet

# Below this ratio of its ends, a logarithmic axis has ticks like an ordinary one.
NARROW = 5.0


def plot_set(found: ConfidenceSet, ax: Any = None) -> Any:
    """Draw a confidence set.

    Dots: simulated estimates over the candidate they were simulated at. Band: estimates between
    which a candidate is kept. Horizontal line: what was delivered. The shaded part of the
    horizontal axis, where the line crosses the band, is the set.
    """
    ax = axis_or_new(ax, (4.8, 3.6))
    known = found.calibration
    p, values = known.parameter, known.candidates
    answers = p.to_value(known.estimates)
    lower, upper = (p.to_value(np.where(np.isinf(b), np.nan, b)) for b in found.bounds)
    ax.plot(
        np.repeat(values, answers.shape[1]),
        answers.ravel(),
        ls="",
        marker=".",
        ms=2.5,
        color=colour("muted"),
        alpha=0.5,
        label="simulated estimates",
        zorder=1,
    )
    ax.fill_between(
        values, lower, upper, color=colour("preferred"), alpha=0.18, lw=0, label="kept band"
    )
    ax.plot(values, p.to_value(medians(known.estimates)), color=colour("preferred"), label="median")
    ax.plot(values, values, color=colour("rule"), lw=1, label="no bias", zorder=0)
    ax.axhline(
        found.estimate,
        color=colour("delivered"),
        ls="--",
        lw=1.6,
        label=f"delivered {number(found.estimate)}",
        zorder=3,
    )
    _shade(ax, found)
    _frame(ax, found, answers)
    return ax


def _shade(ax: Any, found: ConfidenceSet) -> None:
    """Shade the set, and mark the corrected value in it."""
    word = f"{100 * found.level:g}% set"
    for part in found.intervals:
        ax.axvspan(part.low, part.high, color=colour("matched"), alpha=0.16, lw=0, label=word)
        for end, is_open in ((part.low, part.open_low), (part.high, part.open_high)):
            ax.axvline(end, color=colour("matched"), lw=1, ls=":" if is_open else "-", zorder=2)
        word = "_nolegend_"
    if found.corrected is not None:
        ax.plot(
            [found.corrected],
            [found.estimate],
            ls="",
            marker="o",
            ms=6,
            color=colour("matched"),
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


def _frame(ax: Any, found: ConfidenceSet, answers: Any) -> None:
    known = found.calibration
    name = shortened(known.name)
    if known.parameter.coordinate == "log":
        ax.set_xscale("log")
        ax.set_yscale("log")
    ax.set_xlim(known.candidates[0], known.candidates[-1])
    finite = answers[np.isfinite(answers)]
    ends = np.array([*np.quantile(finite, [0.002, 0.998]), found.estimate])
    low, high = known.parameter.to_coordinate([ends.min(), ends.max()])
    room = 0.06 * (high - low)
    ax.set_ylim(*known.parameter.to_value([low - room, high + room]))
    if known.parameter.coordinate == "log":
        for axis in (ax.xaxis, ax.yaxis):
            _plain_ticks(axis)
    open_frame(ax)
    label(ax, f"candidate {name}", f"what the pipeline answers for {name}")
    rows = legend_above(ax, columns=3, margin=15.0)
    title = f"{100 * found.level:g}% confidence set of {name}"
    plain(ax.set_title(title, fontsize="medium", pad=8 + 14 * rows))

"""Strength and evidence by residual mode, and how far the evidence cancels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.geometry import Spectrum
from twoaxis.report.inputs import choose, part_of
from twoaxis.report.theme import axis_or_new, color, label, legend_above, named, note, open_frame
from twoaxis.text import percent, shortened, visible

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Modes:
    """Running shares over the modes of one parameter.

    Attributes
    ----------
    strength : array
        Share of the whole strength H that the modes up to this one hold.
    up, down : array
        Evidence that pulls the parameter up and down, as shares of all evidence regardless of
        sign; `up` is positive and `down` negative.
    """

    strength: FloatArray
    up: FloatArray
    down: FloatArray

    @property
    def net(self) -> FloatArray:
        """What is left after cancellation."""
        return self.up + self.down


def modes_of(found: Spectrum, name: str) -> Modes | None:
    """Return the running shares, or None where the residual does not see the parameter."""
    group = found.data.sel(parameter=name)
    strength = group["strength"].values
    # The gradient is 2 B, so that a positive contribution pulls the parameter down.
    pull = -group["signed"].values
    total, size = float(group["strength_total"]), float(np.abs(pull).sum()) or 1.0
    if not total > 0:
        return None
    return Modes(
        np.cumsum(strength) / total,
        np.cumsum(np.maximum(pull, 0)) / size,
        np.cumsum(np.minimum(pull, 0)) / size,
    )


def plot_spectrum(result: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """Draw running sums of strength and signed evidence over the residual modes.

    The two areas are the evidence that pulls the parameter up and down; the line between them
    is what remains. Areas that grow while the line stays near zero are cancellation. The dashed
    line is the share of the strength that the modes hold.

    Parameters
    ----------
    result : Spectrum or Audit
    parameter : str, optional
        Needed when there are several.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    found = part_of(result, Spectrum, "spectrum")
    name = choose(found.parameters, parameter)
    modes = modes_of(found, name)
    ax = axis_or_new(ax)
    label(ax, "residual modes, up to this one", "cumulative share, %")
    open_frame(ax)
    if modes is None:
        ax.set_xticks([])
        ax.set_yticks([])
        note(ax, f"the residual does not see {shortened(name)}")
        return ax
    edges = np.arange(len(modes.net) + 1) + 0.5
    own = found.parameters[name]
    shown = named(own, name, 12)
    for part, role, word in (
        (modes.up, "minus", f"pulls {shown} up"),
        (modes.down, "plus", f"pulls {shown} down"),
    ):
        if not part.any():
            continue
        ax.stairs(100 * part, edges, fill=True, color=color(role), alpha=0.35, lw=0, label=word)
    ax.stairs(100 * modes.net, edges, baseline=None, color=color("ink"), lw=2, label="net evidence")
    ax.stairs(
        100 * modes.strength,
        edges,
        baseline=None,
        color=color("preferred"),
        ls="--",
        lw=1.6,
        label="cumulative strength",
    )
    ax.axhline(0, color=color("muted"), lw=0.8)
    _scale(ax, len(modes.net))
    low = min(100 * modes.down.min(), 0.0)
    ax.set_ylim(low - 6, max(100.0, 100 * modes.up.max()) + 6)
    legend_above(ax, columns=2, of=own)
    return ax


def _scale(ax: Any, count: int) -> None:
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    if count > 12:
        ax.set_xscale("log", base=2)
    ticks = 2 ** np.arange(int(np.log2(count)) + 1) if count > 12 else np.arange(1, count + 1)
    ax.xaxis.set_major_locator(FixedLocator(ticks.astype(float).tolist()))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlim(0.5, count + 0.5)


def describe(found: Spectrum, name: str) -> str:
    """Return how much strength the modes hold, and what is left of the evidence, as text."""
    modes = modes_of(found, name)
    if modes is None:
        return f"Empty: the residual does not see {visible(name)}."
    half = int(np.searchsorted(modes.strength, 0.5)) + 1
    held = (
        f"the first {half} hold half of the strength"
        if half <= len(modes.strength)
        else "together they hold less than half of the strength"
    )
    return (
        f"Cumulative sums over {len(modes.net)} residual modes for {visible(name)}: {held}, all "
        f"of them {percent(100 * float(modes.strength[-1]))}; {percent(100 * float(modes.up[-1]))} "
        f"of the evidence pulls up and {percent(-100 * float(modes.down[-1]))} down, which leaves "
        f"{percent(100 * float(modes.net[-1]), '+')}."
    )

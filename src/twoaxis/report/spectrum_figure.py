"""Which residual modes see the parameter, and how their pulls cancel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.report.audited import Audited
from twoaxis.report.theme import axis_or_new, colour, label, legend_above, note, open_frame
from twoaxis.text import shortened

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


def modes_of(audited: Audited, name: str) -> Modes | None:
    """Return the running shares, or None where the residual does not see the parameter."""
    group = audited.need("/spectrum").isel(parameter=audited.index(name))
    strength = np.asarray(group["strength"].values, dtype=float)
    # The gradient is 2 B, so that a positive contribution pulls the parameter down.
    pull = -np.asarray(group["signed"].values, dtype=float)
    total, size = float(group["strength_total"]), float(np.abs(pull).sum()) or 1.0
    if not total > 0:
        return None
    return Modes(
        np.cumsum(strength) / total,
        np.cumsum(np.maximum(pull, 0)) / size,
        np.cumsum(np.minimum(pull, 0)) / size,
    )


def plot_spectrum(audit: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """Draw running sums of strength and signed evidence over the residual modes.

    The two areas are the evidence that pulls the parameter up and down; the line between them
    is what remains. Areas that grow while the line stays near zero are cancellation. The dashed
    line is the share of the strength that the modes hold.

    Parameters
    ----------
    audit : Audit or xarray.DataTree
    parameter : str, optional
        Needed when there are several.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    audited = Audited.of(audit)
    name = audited.choose(parameter)
    modes = modes_of(audited, name)
    ax = axis_or_new(ax)
    label(ax, "residual modes, from the first to this one", "running share, %")
    open_frame(ax)
    if modes is None:
        ax.set_xticks([])
        ax.set_yticks([])
        note(ax, f"the residual does not see {shortened(name)}")
        return ax
    edges = np.arange(len(modes.net) + 1) + 0.5
    shown = shortened(name, 12)
    for part, role, word in (
        (modes.up, "minus", f"pulls {shown} up"),
        (modes.down, "plus", f"pulls {shown} down"),
    ):
        if not part.any():
            continue
        ax.stairs(100 * part, edges, fill=True, color=colour(role), alpha=0.35, lw=0, label=word)
    ax.stairs(100 * modes.net, edges, baseline=None, color=colour("ink"), lw=2, label="net")
    ax.stairs(
        100 * modes.strength,
        edges,
        baseline=None,
        color=colour("preferred"),
        ls="--",
        lw=1.6,
        label="strength held",
    )
    ax.axhline(0, color=colour("muted"), lw=0.8)
    _scale(ax, len(modes.net))
    low = min(100 * modes.down.min(), 0.0)
    ax.set_ylim(low - 6, max(100.0, 100 * modes.up.max()) + 6)
    legend_above(ax, columns=2)
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

"""An evidence map: the domain by region, and a bar for each leading region."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.remedies import EvidenceMap
from twoaxis.report.inputs import choose, part_of
from twoaxis.report.theme import (
    SMALL_SIZE,
    color,
    color_bar,
    diverging,
    label,
    named,
    open_frame,
    plain,
)
from twoaxis.text import number, shortened

FloatArray = NDArray[np.float64]

SIZE = (8.6, 3.3)
BARS_ONLY = (4.8, 3.3)
BARS = 8


def plot_evidence_map(result: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """Draw how much the displacement changes without each region.

    The map is there for domains of one or two axes, and the bars for all.

    Parameters
    ----------
    result : EvidenceMap
    parameter : str, optional
        Needed when there are several.
    ax : matplotlib.axes.Axes or sequence of two of them, optional
        One for the bars alone; two for map and bars.

    Returns
    -------
    matplotlib.axes.Axes or array of two of them
    """
    found = part_of(result, EvidenceMap, "evidence_map")
    name = choose(found.parameters, parameter)
    flat = found.data.sizes["axis"] <= 2
    if ax is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=SIZE if flat else BARS_ONLY, layout="constrained")
        ratios = {"width_ratios": [1.35, 1]} if flat else None
        ax = figure.subplots(1, 2 if flat else 1, gridspec_kw=ratios)
    if np.ndim(ax) == 0:
        _bars(ax, found, name)
        return ax
    left, right = ax
    _map(left, found, name)
    _bars(right, found, name)
    return np.array([left, right])


def _map(ax: Any, found: EvidenceMap, name: str) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    data = found.data
    change = data["change"].sel(parameter=name).values
    limit = float(np.abs(change).max()) or 1.0
    low, high = data["low"].values, data["high"].values
    if low.shape[1] == 1:  # a line is drawn as a band
        low, high = (np.column_stack([side, np.full(len(side), k)])
                     for k, side in enumerate((low[:, 0], high[:, 0])))  # fmt: skip
    shades = diverging()
    if found.data.attrs["cells"]:
        boxes = [Rectangle(tuple(a), *(b - a), linewidth=0) for a, b in zip(low, high, strict=True)]
        drawn: Any = PatchCollection(boxes, cmap=shades, edgecolor=color("rule"), linewidth=0.4)
        drawn.set_array(change)
        ax.add_collection(drawn)
    else:  # regions of any shape are shown by their points
        points = data["points"].values
        own = change[data["region_of_point"].values]
        if points.shape[1] == 1:
            drawn = ax.vlines(points[:, 0], 0, 1, lw=1.2, cmap=shades)
            drawn.set_array(own)
        else:
            x, y = points.T
            drawn = ax.scatter(x, y, c=own, s=9, cmap=shades, linewidths=0)
    drawn.set_clim(-limit, limit)
    ax.set_xlim(low[:, 0].min(), high[:, 0].max())
    ax.set_ylim(low[:, 1].min(), high[:, 1].max())
    # Regions are ranked for all parameters together; each has a leading one of its own.
    first = data.indexes["region"].get_loc(found.leading(name).name)
    _outline(ax, found, low[first], high[first])
    own = found.parameters[name]
    color_bar(ax, drawn, f"change of D of {named(own, name, 12)} without the region", of=own)
    names = [shortened(axis, 16) for axis in data["axis"].values]
    label(ax, names[0], names[1] if len(names) > 1 else "")
    if len(names) == 1:
        ax.set_yticks([])
    open_frame(ax)


def _outline(ax: Any, found: EvidenceMap, low: FloatArray, high: FloatArray) -> None:
    """Put a line around a cell, the one that matters most."""
    from matplotlib.patches import Rectangle

    if found.data.attrs["cells"]:
        frame = Rectangle(
            (float(low[0]), float(low[1])),
            *(high - low),
            fill=False,
            edgecolor=color("ink"),
            linewidth=1.4,
            zorder=4,
        )
        frame.set_clip_on(False)
        ax.add_patch(frame)


def _bars(ax: Any, found: EvidenceMap, name: str) -> None:
    from matplotlib.ticker import MaxNLocator

    table = found.summary(name)
    # Those that matter most, in the order of the ranking: causes on top, opponents below.
    table = table[table["change"].abs().rank(ascending=False, method="first") <= BARS]
    change = table["change"].to_numpy()
    rows = np.arange(len(table))
    shade = [color("plus") if value >= 0 else color("minus") for value in change]
    ax.barh(rows, change, color=shade, height=0.62)
    ax.axvline(0, color=color("muted"), lw=0.8)
    ax.set_yticks(rows, [shortened(region, 34) for region in table.index], fontsize=SMALL_SIZE)
    plain(*ax.get_yticklabels())
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=SMALL_SIZE)
    ax.xaxis.set_major_locator(MaxNLocator(4))
    own = found.parameters[name]
    label(ax, f"change of D of {named(own, name, 12)}", of=own)
    ax.xaxis.label.set_fontsize(SMALL_SIZE)
    ax.set_title(f"D = {number(found.displacement[name], '+.3g')}", fontsize=SMALL_SIZE, loc="left")
    plain(ax.title)
    open_frame(ax, "top", "right", "left")

"""Suggested sites: where the information is, and the error that each observation would leave."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.parameters import Parameters
from twoaxis.remedies import SuggestedSites
from twoaxis.report.inputs import choose, part_of
from twoaxis.report.theme import (
    WIDE,
    color,
    label,
    legend_above,
    named,
    new_figure,
    open_frame,
    plain,
)
from twoaxis.text import shortened

FloatArray = NDArray[np.float64]

# A finer map than this is drawn by the best entry of each block.
MAP_SIDE = 400
# Rings of more sites than this would cover the map and each other.
MANY_SITES = 40


def plot_sites(result: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """Draw the map of the candidate sites, and the curve of the predicted error.

    Parameters
    ----------
    result : SuggestedSites
    parameter : str, optional
        Of the curve; by default the first.
    ax : sequence of two matplotlib.axes.Axes, optional

    Returns
    -------
    array of two matplotlib.axes.Axes
    """
    data = part_of(result, SuggestedSites, "suggested_sites").data
    names = [str(name) for name in data["parameter"].values]
    name = names[0] if parameter is None else choose(names, parameter)
    if ax is None:
        ax = new_figure((2 * WIDE[0], WIDE[1])).subplots(1, 2)
    try:
        left, right = ax
    except (TypeError, ValueError):
        raise InputError("two axes", type(ax).__name__, "pass ax=(left, right)") from None
    _draw_map(left, data)
    _draw_curve(right, data, name)
    return np.array([left, right])


def _draw_map(ax: Any, data: xr.Dataset) -> None:
    worth = data["worth_percent"].values
    positions, names = data["position"].values, [shortened(a) for a in data["axis"].values]
    chosen, present = data["index"].values, data["present"].values
    words = "information gain of one observation, %"
    if positions.shape[1] == 1:
        order = np.argsort(positions[:, 0], kind="stable")
        ax.plot(positions[order, 0], worth[order], color=color("observe"), lw=1.6)
        for sites, style in ((present, "present"), (chosen, "suggested")):
            _draw_sites(ax, positions[sites, 0], np.zeros(len(sites)), style)
        label(ax, names[0], words)
        open_frame(ax)
    else:
        drawn = _draw_field(ax, worth, positions, tuple(data["shape"].values.tolist()))
        bar = ax.get_figure(root=True).colorbar(drawn, ax=ax, pad=0.02)
        bar.outline.set_visible(False)
        bar.set_label(words)
        for sites, style in ((present, "present"), (chosen, "suggested")):
            _draw_sites(ax, positions[sites, 0], positions[sites, 1], style)
        label(ax, names[0], names[1])
    rows = legend_above(ax, columns=2)
    title = f"{len(chosen)} suggested sites"
    plain(ax.set_title(title, fontsize="medium", pad=8 + 14 * rows))


def _draw_sites(ax: Any, x: FloatArray, y: FloatArray, style: str) -> None:
    if not len(x):
        return
    if style == "suggested":
        # Few sites are rings, through which the map is seen; many are dots that stay apart.
        few = len(x) <= MANY_SITES
        size, face = (7.0, "none") if few else (2.2, color("delivered"))
        edge = 1.3 if few else 0.0
        look = {"marker": "o", "ms": size, "mfc": face, "mec": color("delivered"), "mew": edge}
    else:
        look = {"marker": "x", "ms": 3.5, "mec": color("muted"), "mew": 0.8}
    ax.plot(x, y, ls="", zorder=4, clip_on=False, label=f"{style} ({len(x)})", **look)


def _draw_field(ax: Any, worth: FloatArray, positions: FloatArray, shape: tuple[int, ...]) -> Any:
    """Draw the candidates' worth over the first two coordinates."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    # From nothing to full: zero is transparent, and fades into a light and a dark ground alike.
    hue = to_rgb(color("observe"))
    ramp = LinearSegmentedColormap.from_list("twoaxis_worth", [(*hue, 0.03), (*hue, 1.0)])
    style = {"cmap": ramp, "vmin": 0.0, "rasterized": True}
    grid = _grid(worth, positions, shape)
    if grid is None:
        seen = np.isfinite(worth)
        x, y = positions[seen, 0], positions[seen, 1]
        return ax.scatter(x, y, c=worth[seen], s=9, lw=0, **style)
    return ax.pcolormesh(*grid, shading="nearest", **style)


def _grid(
    worth: FloatArray, positions: FloatArray, shape: tuple[int, ...]
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Return a map as columns, rows and values, or None where the entries are no grid."""
    if len(shape) != 2 or positions.shape[1] != 2:
        return None
    values = worth.reshape(shape)
    x, y = np.moveaxis(positions.reshape(*shape, 2), 2, 0)
    if (x == x[:, :1]).all() and (y == y[:1]).all():  # x runs along the first axis
        x, y, values = x.T, y.T, values.T
    if not ((x == x[:1]).all() and (y == y[:, :1]).all()):
        return None
    block = [-(-n // MAP_SIDE) for n in values.shape]
    rows, columns = (np.arange(0, n, b) for n, b in zip(values.shape, block, strict=True))
    # A block shows its best entry, so that no narrow ridge falls between the pixels.
    filled = np.where(np.isfinite(values), values, -np.inf)
    best = np.maximum.reduceat(np.maximum.reduceat(filled, rows, axis=0), columns, axis=1)
    return x[0, columns], y[rows, 0], np.where(np.isfinite(best), best, np.nan)


def _draw_curve(ax: Any, data: xr.Dataset, parameter: str) -> None:
    one = data.sel(parameter=parameter)
    count = one["observations"].values
    curves = one["predicted_error_percent"].transpose("point", "observations").values
    random = one["random_error_percent"].transpose("point", "observations").values.mean(axis=0)
    seen = np.isfinite(curves).all(axis=0)
    mean = curves[:, seen].mean(axis=0)
    ax.plot(count[seen], mean, color=color("theory"), lw=2, label="suggested sites")
    if len(curves) > 1:
        low, high = curves[:, seen].min(axis=0), curves[:, seen].max(axis=0)
        words = f"over {len(curves)} design points"
        shade = {"color": color("theory"), "alpha": 0.18, "lw": 0}
        ax.fill_between(count[seen], low, high, label=words, **shade)
    finite = np.isfinite(random)
    ax.plot(
        count[finite], random[finite], color=color("muted"), lw=1.4, ls="--", label="average sites"
    )
    ax.set_yscale("log")
    _plain_ticks(ax)
    open_frame(ax)
    noun = "error" if data.attrs["kind"] == "truth" else "deviation"
    own = Parameters.from_dataset(data)[parameter]
    words = f"predicted mean {noun} of {named(own, parameter)}, %"
    label(ax, "number of observations", words, of=own)
    rows = legend_above(ax, columns=2)
    title = f"{mean[-1]:.3g}% at {count[-1]} observations" if mean.size else "not seen"
    plain(ax.set_title(title, fontsize="medium", pad=8 + 14 * rows))


def _plain_ticks(ax: Any) -> None:
    """Write the percentages of a logarithmic axis as plain numbers, and counts as integers."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))

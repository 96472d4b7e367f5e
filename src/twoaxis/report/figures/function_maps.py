"""Maps of an unknown function of two variables, with its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.parameters import Parameter
from twoaxis.report.theme import (
    SMALL_SIZE,
    WIDE,
    color,
    color_bar,
    diverging,
    label,
    open_frame,
    panels_in,
    plain,
)
from twoaxis.text import visible

FloatArray = NDArray[np.float64]

# Maps of one figure: so many in a row, and the size of each in inches.
COLUMNS = 2
PANEL = (WIDE[0] / COLUMNS, 2.0)


@dataclass(frozen=True)
class Map:
    """What is drawn of a function of two variables.

    Attributes
    ----------
    title : str
    values : array, shape (N,)
    words : str
        Beside the color bar.
    limits : tuple of float, optional
        Of the colors; by default zero and the largest value.
    logarithmic : bool
    hue : str
        Name of a color; empty: from blue over nothing at zero to red.
    hatched : array of bool, shape (N,), optional
    of : Parameter, optional
        Whose label and unit are among the words.
    """

    title: str
    values: FloatArray
    words: str
    limits: tuple[float, float] | None = None
    logarithmic: bool = False
    hue: str = "matched"
    hatched: NDArray[np.bool_] | None = None
    of: Parameter | None = None


def draw_maps(
    ax: Any, maps: list[Map], points: FloatArray, nodes: FloatArray, argument: str
) -> Any:
    """Draw maps beside each other; a single axis has the first one alone.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, matplotlib.figure.Figure or None
    maps : list of Map
    points : array, shape (N, 2)
        All combinations of places along the two variables.
    nodes : array, shape (n, 2)
    argument : str
        Names of the variables.

    Returns
    -------
    matplotlib.axes.Axes or array of them
    """
    axes = panels_in(ax, len(maps), COLUMNS, PANEL)
    for own, each in zip(axes, maps, strict=False):
        _draw(own, each, points, nodes, visible(argument).split(", "))
    return axes[0] if axes == [ax] else np.array(axes)


def _draw(ax: Any, one: Map, points: FloatArray, nodes: FloatArray, arguments: list[str]) -> None:
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize, to_rgb

    x, y = (np.unique(along) for along in points.T)
    shape = (len(x), len(y))
    low, high = one.limits or (0.0, float(np.nanmax(one.values)))
    high = high if high > low else low + (abs(low) or 1.0)
    hue = to_rgb(color(one.hue or "ink"))
    ramp = LinearSegmentedColormap.from_list("twoaxis_function", [(*hue, 0.03), (*hue, 1.0)])
    drawn = ax.pcolormesh(
        x,
        y,
        one.values.reshape(shape).T,
        shading="nearest",
        cmap=ramp if one.hue else diverging(),
        norm=(LogNorm if one.logarithmic else Normalize)(low, high),
        rasterized=True,
    )
    if one.hatched is not None and one.hatched.any():
        hatched = one.hatched.reshape(shape).T.astype(float)
        style: dict[str, Any] = {"colors": "none", "hatches": ["////"]}
        ax.contourf(x, y, hatched, [0.5, 1.5], **style).set_edgecolor(color("rule"))
    ax.plot(*nodes.T, "o", ms=3.0, mfc=color("paper"), mec=color("ink"), mew=0.8, clip_on=False)
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(y[0], y[-1])
    label(ax, arguments[0], arguments[1])
    open_frame(ax)
    color_bar(ax, drawn, one.words, of=one.of)
    plain(ax.set_title(one.title, fontsize=SMALL_SIZE, loc="left", pad=6))

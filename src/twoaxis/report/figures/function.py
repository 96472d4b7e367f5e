"""Pictures of an unknown function: the function with its band, its displacement, its directions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.diagnosis import Audit
from twoaxis.errors import InputError
from twoaxis.geometry import FrozenScan, Score
from twoaxis.geometry.function import FunctionPreference
from twoaxis.parameters import Parameter
from twoaxis.remedies import Refinement
from twoaxis.remedies.refine.result import interval_reach
from twoaxis.report.figures.function_maps import Map, draw_maps
from twoaxis.report.inputs import center_word
from twoaxis.report.theme import (
    LINES,
    axis_or_new,
    color,
    label,
    legend_above,
    named,
    open_frame,
)
from twoaxis.resolution import Resolution
from twoaxis.resolution.function import FunctionResolution
from twoaxis.text import number, percent, visible
from twoaxis.unknown_function import place_words

FloatArray = NDArray[np.float64]

# A logarithmic scale where the curves span more than this ratio.
LOGARITHMIC = 10.0
# The band may widen the picture of the curves by this factor on either side.
ROOM = 3.0
# Displacements of the coordinate below this would look large on a scale of their own.
LEAST = 0.01
# Directions that are shown, the weakest.
MOST_DIRECTIONS = 3


@dataclass(frozen=True)
class Curves:
    """What is drawn of a function.

    Attributes
    ----------
    points : array, shape (N, variables)
        Places at which it is evaluated.
    curves : dict of str to array
        "truth", "delivered", "preferred", "matched" or "center".
    around : str
        The curve that the band is around.
    band : tuple of array, or None
    replicas : tuple of array, or None
        Quantiles of the fits to replicas; only around the center.
    determined : array of bool, or None
    level : float
    nodes : array, shape (n, variables)
    bounds : tuple of float
    name, argument : str
    parameter : Parameter
        Any of its node values, for label and unit.
    """

    points: FloatArray
    curves: dict[str, FloatArray]
    nodes: FloatArray
    bounds: tuple[float, float]
    name: str
    argument: str
    parameter: Parameter
    around: str = ""
    band: tuple[FloatArray, FloatArray] | None = None
    replicas: tuple[FloatArray, FloatArray] | None = None
    determined: NDArray[np.bool_] | None = None
    level: float = 0.95
    words: dict[str, str] = field(default_factory=dict)

    @property
    def places(self) -> FloatArray:
        """The places of a function of one variable, shape (N,)."""
        return self.points[:, 0]


def plot_function(
    result: Any, *, function: str | None = None, layout: str | None = None, ax: Any = None
) -> Any:
    """Draw an unknown function with its confidence band, over its argument.

    Truth, delivered function, function that the frozen field prefers and function that the matched
    fit finds, where they are known. The band of an audit with data joins the profile intervals of
    the node values around the matched fit; hatched is where they reach the parameter bounds.
    Without data it is the Fisher band around the center of the replicas, with the quantiles of
    the fits to replicas beside it; hatched is where one standard error leaves the bounds. There
    the data do not determine the function. Ticks at the lower edge are the nodes. The band of a
    refinement is that of its covariance, at 95%.

    A function of two variables is drawn as maps with its nodes, and half the width of the band
    as one more.

    Parameters
    ----------
    result : FunctionResolution, Resolution, Refinement or Audit
    function : str, optional
        Its name, needed when there are several.
    layout : str, optional
        Of a resolution with several layouts.
    ax : matplotlib.axes.Axes or matplotlib.figure.Figure, optional
        Of a function of two variables, one axis has the first map alone.

    Returns
    -------
    matplotlib.axes.Axes or array of them
        An array of a function of two variables.
    """
    if isinstance(result, FunctionResolution):
        shown = _from_resolution(result)
    elif isinstance(result, Resolution):
        shown = _from_resolution(result.function(function, layout=layout))
    elif isinstance(result, Refinement):
        shown = _from_refinement(result, function)
    elif isinstance(result, Audit):
        shown = curves_of(result, function)
    else:
        raise InputError(
            "what twoaxis.resolve, refine or audit returned, or resolution.function(...)",
            type(result).__name__,
            "pass one of them",
        )
    if shown.points.shape[1] > 1:
        return draw_maps(ax, _maps_of(shown), shown.points, shown.nodes, shown.argument)
    return _draw(axis_or_new(ax), shown)


def _maps_of(shown: Curves) -> list[Map]:
    """Return the maps of a function of two variables: the one of the band first, its band last."""
    words = {"center": "center", **shown.words}
    unit = named(shown.parameter, shown.name, unit=True)
    every = np.concatenate(list(shown.curves.values()))
    limits = (float(every.min()), float(every.max()))
    logarithmic = shown.parameter.coordinate == "log" and limits[1] > LOGARITHMIC * limits[0]
    look: dict[str, Any] = {"limits": limits, "logarithmic": logarithmic, "of": shown.parameter}
    kinds = sorted(shown.curves, key=lambda kind: kind != shown.around)
    maps = [Map(words.get(kind, kind), shown.curves[kind], unit, **look) for kind in kinds]
    if shown.band is None:
        return maps
    low, high = (np.clip(end, *shown.bounds) for end in shown.band)
    title = f"half width of the {100 * shown.level:g}% band"
    hatched = None if shown.determined is None else ~shown.determined
    size = Map(title, (high - low) / 2, unit, of=shown.parameter, hue="observe", hatched=hatched)
    return [*maps, size]


def _from_resolution(found: FunctionResolution) -> Curves:
    data = found.data
    kinds = [kind for kind in ("truth", "delivered", "matched") if kind in data]
    center = str(data.attrs["centered_on"])
    if center not in kinds:
        kinds.append(center := "center")
    bounds = (float(data["lower_bound"].min()), float(data["upper_bound"].max()))
    return Curves(
        points=found.places,
        curves={kind: data[kind].values for kind in kinds},
        around=center,
        band=(data["lower"].values, data["upper"].values),
        replicas=(data["replica_lower"].values, data["replica_upper"].values),
        determined=data["determined"].values,
        level=float(data.attrs["level"]),
        nodes=found.nodes,
        bounds=bounds,
        name=found.name,
        argument=str(data.attrs["argument"]),
        parameter=Parameter(bounds=bounds, coordinate="log" if found.logarithmic else "linear"),
        words={"center": center_word(str(data.attrs["centered_on"]))},
    )


def _from_refinement(found: Refinement, function: str | None) -> Curves:
    known = found.parameters
    group = known.function(function)
    points, parameter = group.basis.grid(), known[group.members[0]]
    matrix = group.basis.matrix(points)

    def curve(values: dict[str, float]) -> FloatArray:
        return matrix @ [values[member] for member in group.members]

    values = {"matched": found.values, "delivered": known.require("delivered")}
    curves = {kind: curve(each) for kind, each in values.items()}
    refined, logarithmic = curves["matched"], parameter.coordinate == "log"
    steps = np.array([found.values[member] for member in group.members]) if logarithmic else 1.0
    covariance = found.data["covariance"].values[np.ix_(group.columns, group.columns)]
    error = np.sqrt(np.einsum("xi,ij,xj->x", matrix * steps, covariance, matrix * steps))
    reach = interval_reach(error, float(found.data.attrs["noise_freedom"]))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        wider = np.exp(reach / refined)
        band = (
            (refined / wider, refined * wider)
            if logarithmic
            else (refined - reach, refined + reach)
        )
    return Curves(
        points=points,
        curves=curves,
        nodes=group.points,
        bounds=parameter.bounds,
        name=group.name,
        argument=group.argument,
        parameter=parameter,
        around="matched",
        band=band,
        words={"matched": "refined", "delivered": "before"},
    )


def curves_of(audit: Audit, function: str | None = None) -> Curves:
    """Return what an audit knows of an unknown function."""
    known = audit.parameters
    group = known.function(function)
    places = group.basis.grid()
    matrix = group.basis.matrix(places)
    parameter = known[group.members[0]]

    def curve(values: Any) -> FloatArray | None:
        nodes = np.array([np.nan if values is None else values[m] for m in group.members], float)
        return matrix @ nodes if np.isfinite(nodes).all() else None

    group_of_data = audit.group("/matched")
    given: dict[str, Any] = {
        "truth": {m: known[m].truth for m in group.members} if audit.around_truth else None,
        "delivered": {m: known[m].delivered for m in group.members},
        "preferred": audit.scan.minimum,
        "matched": None if group_of_data is None else _named(group_of_data, "estimate"),
    }
    curves = {kind: found for kind, values in given.items() if (found := curve(values)) is not None}
    drawn = Curves(
        points=places,
        curves=curves,
        nodes=group.points,
        bounds=parameter.bounds,
        name=group.name,
        argument=group.argument,
        parameter=parameter,
    )
    if group_of_data is not None and "matched" in curves:
        # At the nodes these are the ends of the profile intervals of the data themselves.
        low, high = (curve(_named(group_of_data, end)) for end in ("lower", "upper"))
        if low is not None and high is not None:
            ends = (_named(group_of_data, f"open_{end}") for end in ("lower", "upper"))
            is_open = np.array([[each[m] for m in group.members] for each in ends]).any(axis=0)
            inside = matrix @ np.where(is_open, 0.0, 1.0)
            return replace(
                drawn,
                around="matched",
                band=(low, high),
                determined=inside > 0.5,
                level=float(group_of_data["level"]),
            )
    if audit.resolution is None:
        return drawn
    layout = audit.layout or audit.resolution.layout_names[0]
    resolved = audit.resolution.function(group.name, layout=layout)
    data = resolved.data
    if audit.center.kind not in curves:
        curves["center"] = data["center"].values
    return replace(
        drawn,
        around="center" if "center" in curves else audit.center.kind,
        band=(data["lower"].values, data["upper"].values),
        replicas=(data["replica_lower"].values, data["replica_upper"].values),
        determined=data["determined"].values,
        level=float(data.attrs["level"]),
        words={"center": center_word(audit.center.kind)},
    )


def _named(group: Any, variable: str) -> dict[str, Any]:
    """Return a variable of a group of an audit by parameter name."""
    return dict(zip(map(str, group["parameter"].values), group[variable].values, strict=True))


def _draw(ax: Any, shown: Curves) -> Any:
    words = {**{kind: kind for kind in LINES}, "center": "center", **shown.words}
    for kind, curve in shown.curves.items():
        style = {"ls": LINES.get(kind, "-"), "lw": 2.2 if LINES.get(kind) == ":" else 1.7}
        ax.plot(shown.places, curve, color=color(kind), label=words[kind], zorder=4, **style)
    if shown.band is not None:
        low, high = (np.clip(end, *shown.bounds) for end in shown.band)
        text = f"{100 * shown.level:g}% band"
        ax.fill_between(
            shown.places, low, high, color=color("matched"), alpha=0.18, lw=0, label=text, zorder=1
        )
    if shown.replicas is not None:
        for k, end in enumerate(shown.replicas):
            words_of = "fits to replicas" if k == 0 else None
            ax.plot(shown.places, end, color=color("matched"), lw=0.9, label=words_of, zorder=3)
    _limits(ax, shown)
    if shown.determined is not None and not shown.determined.all():
        _shade(ax, shown.places, ~shown.determined)
    ax.plot(
        shown.nodes[:, 0],
        np.zeros(len(shown.nodes)),
        "|",
        transform=ax.get_xaxis_transform(),
        color=color("muted"),
        ms=9,
        clip_on=False,
        zorder=2,
    )
    ax.set_xlim(shown.places[0], shown.places[-1])
    argument = visible(shown.argument)
    label(ax, argument, named(shown.parameter, shown.name, unit=True), of=shown.parameter)
    open_frame(ax)
    legend_above(ax)
    return ax


def _limits(ax: Any, shown: Curves) -> None:
    """Show all curves, and of the band what lies near them and inside the bounds."""
    finite = [c[np.isfinite(c)] for c in shown.curves.values()]
    low, high = min(c.min() for c in finite), max(c.max() for c in finite)
    ends = (low, high)
    if shown.band is not None:
        ends = (
            float(np.nanmin(np.clip(shown.band[0], *shown.bounds))),
            float(np.nanmax(np.clip(shown.band[1], *shown.bounds))),
        )
    if shown.parameter.coordinate == "log" and low > 0:
        bottom, top = max(min(ends[0], low), low / ROOM), min(max(ends[1], high), high * ROOM)
        if top / bottom > LOGARITHMIC:
            from matplotlib.ticker import LogLocator, NullFormatter

            ax.set_yscale("log")
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=9))
            ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            ax.yaxis.set_minor_formatter(NullFormatter())
            ax.set_ylim(bottom / 1.1, top * 1.1)
            return
    else:
        reach = ROOM * max(high - low, 1e-12 * max(abs(low), abs(high), 1.0))
        bottom, top = max(min(ends[0], low), low - reach), min(max(ends[1], high), high + reach)
    room = 0.05 * (top - bottom) or 0.5 * (abs(top) or 1.0)
    ax.set_ylim(bottom - room, top + room)


def _shade(ax: Any, places: FloatArray, where: NDArray[np.bool_]) -> None:
    """Hatch the ranges in which the data do not determine the function."""
    edges = np.flatnonzero(np.diff(np.r_[False, where, False].astype(int)))
    for k, (a, b) in enumerate(zip(edges[::2], edges[1::2], strict=True)):
        left = places[a] if a == 0 else (places[a - 1] + places[a]) / 2
        right = places[b - 1] if b == len(places) else (places[b - 1] + places[b]) / 2
        ax.axvspan(
            left,
            right,
            facecolor="none",
            edgecolor=color("rule"),
            hatch="////",
            lw=0,
            label="not determined by the data" if k == 0 else None,
            zorder=0,
        )


def plot_function_displacement(result: Any, *, function: str | None = None, ax: Any = None) -> Any:
    """Draw the displacement of an unknown function from the center, signed, over its argument.

    Parameters
    ----------
    result : FunctionPreference, Score, FrozenScan or Audit
        Of an audit, the displacement to first order and that of the frozen scan.
    function : str, optional
        Its name, needed when there are several.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    found = preferences_of(result, function)
    words = {"score": "D, first order", "frozen-scan": "minimum of the frozen scan"}
    if found[0].nodes.shape[1] > 1:
        drawn = {words[str(e.data.attrs["source"])]: e.data["displacement"].values for e in found}
        return _draw_signed(ax, drawn, found[0], "displacement of ")
    ax = axis_or_new(ax)
    for k, each in enumerate(found):
        data = each.data
        style = {"color": color("preferred"), "ls": "-" if k == 0 else "--", "lw": 1.8 - 0.4 * k}
        text = words[str(data.attrs["source"])]
        ax.plot(data["place"].values, data["displacement"].values, label=text, **style)
        ax.plot(data["node"].values, data["node_displacement"].values, "o", ms=4, **style)
    first = found[0].data
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, -LEAST), max(high, LEAST))
    ax.axhline(0, color=color("center"), lw=1.0, zorder=0)
    label(
        ax,
        visible(str(first.attrs["argument"])),
        f"displacement of {visible(_unit(found[0]))}",
    )
    ax.set_xlim(first["place"].values[0], first["place"].values[-1])
    open_frame(ax)
    legend_above(ax)
    return ax


def _unit(found: FunctionPreference | FunctionResolution) -> str:
    """Return the coordinate of the function."""
    return f"log {found.name}" if found.logarithmic else found.name


def _draw_signed(
    ax: Any,
    drawn: dict[str, FloatArray],
    found: FunctionPreference | FunctionResolution,
    what: str = "in ",
) -> Any:
    """Draw curves of both signs over two variables, by title, on one scale."""
    size = max(LEAST, *(float(np.abs(values).max()) for values in drawn.values()))
    words = f"{what}{visible(_unit(found))}"
    maps = [Map(title, v, words, limits=(-size, size), hue="") for title, v in drawn.items()]
    return draw_maps(ax, maps, found.places, found.nodes, str(found.data.attrs["argument"]))


def preferences_of(result: Any, function: str | None = None) -> list[FunctionPreference]:
    """Return what a result says about the preference for a function, the best first."""
    if isinstance(result, FunctionPreference):
        return [result]
    if isinstance(result, (Score, FrozenScan)):
        return [result.function(function)]
    if isinstance(result, Audit):
        parts: list[Any] = [result.score, *([] if result.scan.flat else [result.scan])]
        return [part.function(function) for part in parts]
    raise InputError(
        "what twoaxis.score, twoaxis.frozen_scan or twoaxis.audit returned",
        type(result).__name__,
        "pass one of them, or score.function(...)",
    )


def plot_function_directions(
    result: Any,
    *,
    function: str | None = None,
    layout: str | None = None,
    count: int = MOST_DIRECTIONS,
    ax: Any = None,
) -> Any:
    """Draw the directions of an unknown function that are determined least, as functions.

    Of a resolution, the eigenvectors of the Fisher information, labeled with the standard error
    along them; of a score, those of the strength H, with their eigenvalues as a share of the
    largest. Other parameters are left free.

    Parameters
    ----------
    result : FunctionResolution, FunctionPreference, Resolution, Score or Audit
        Of an audit, the directions of the frozen field.
    function : str, optional
        Its name, needed when there are several.
    layout : str, optional
        Of a resolution with several layouts.
    count : int
        How many to draw.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    found: Any = result
    if isinstance(result, Resolution):
        found = result.function(function, layout=layout)
    elif not isinstance(result, FunctionResolution):
        found = preferences_of(result, function)[0]
    data = found.data
    if "direction_curve" not in data:
        raise InputError(
            "a score, which has directions", "a frozen scan", "pass score.function(...)"
        )
    styles = ("-", "--", ":", "-.")
    two, maps = found.nodes.shape[1] > 1, dict[str, FloatArray]()
    ax = ax if two else axis_or_new(ax)
    for k in range(min(count, data.sizes["direction"])):
        if isinstance(found, FunctionResolution):
            text = f"standard error {number(float(data['direction_sd'].values[k]), '.2g')}"
        else:
            share = float(data["eigenvalue"].values[k] / data["eigenvalue"].values.max())
            text = f"{number(share, '.1g')} of the largest strength"
        curve = data["direction_curve"].values[k]
        if two:
            maps[f"{k + 1}: {text}"] = curve
            continue
        style = {"color": color("theory"), "ls": styles[k % 4], "lw": 1.8 - 0.3 * (k % 4)}
        ax.plot(data["place"].values, curve, label=text, **style)
    if two:
        return _draw_signed(ax, maps, found)
    ax.axhline(0, color=color("center"), lw=1.0, zorder=0)
    label(ax, visible(str(data.attrs["argument"])), f"least determined, in {visible(_unit(found))}")
    ax.set_xlim(data["place"].values[0], data["place"].values[-1])
    open_frame(ax)
    legend_above(ax, columns=1)
    return ax


def describe(audit: Audit, function: str) -> str:
    """Return the picture of a function as text."""
    shown = curves_of(audit, function)
    argument, name = visible(shown.argument), visible(shown.name)
    low, high = (
        place_words("", shown.nodes[k]).rpartition("= ")[2].replace("-", "−") for k in (0, -1)
    )
    text = f"{name}({argument}) from {low} to {high}: {', '.join(shown.curves)}"
    if shown.band is not None:
        middle = np.abs(shown.curves.get(shown.around, next(iter(shown.curves.values()))))
        width = 50 * (shown.band[1] - shown.band[0]) / middle
        best = int(np.nanargmin(width))
        text += (
            f"; the band is narrowest at {place_words(argument, shown.points[best])}, "
            f"plus or minus {percent(float(width[best]))}"
        )
    return text + "."

"""Colors, fonts and habits that all pictures share, and pictures as SVG text for a page.

One thing has one color and one line style everywhere: truth, delivered, preferred, matched. The
colors stem from the Okabe-Ito set, which readers with color blindness can tell apart, and are
dark enough for lines and text on white. Each has a partner for a dark page: in an SVG on a page,
colors are CSS variables, and the page decides. Texts stay texts and take the font of the page.
Only ids that are used are kept, with a prefix made from the drawing, since several pictures share
one page. The same drawing gives the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary
from xml.etree import ElementTree

from twoaxis.diagnosis.decision_map import QUESTION_ROUTES
from twoaxis.parameters import Parameter
from twoaxis.text import NAME_LENGTH, shortened, visible

# For a light and for a dark ground.
PALETTE = {
    "ink": ("#1c2128", "#e6e9ed"),
    "muted": ("#59626d", "#a6b0bb"),
    "rule": ("#d5dae0", "#3a424c"),
    "paper": ("#fffffe", "#14181d"),
    "delivered": ("#bf4a0a", "#ff9a66"),
    "preferred": ("#0b66b0", "#74b8f5"),
    "matched": ("#00765a", "#4fcfa8"),
    "theory": ("#6b45b5", "#bda4f7"),
    "plus": ("#b92c4b", "#ff8fa3"),
    "minus": ("#2a5cc4", "#8fb4ff"),
    "well": ("#18733a", "#6fd692"),
    "observe": ("#876000", "#e8c04d"),
    "unknown": ("#5c656f", "#a9b2bc"),
}

ROUTE_COLORS = {
    "within tolerance": "well",
    "consistent with the data": "well",
    "self-consistent": "unknown",  # it was not compared with data
    **{route.value: "plus" for route in QUESTION_ROUTES},
    "inspect endpoint delivery": "delivered",
    "strengthen residual evidence": "preferred",
    "improve observations": "observe",
    "co-design observations and residual evidence": "theory",
}

LINES = {"truth": "-", "delivered": "--", "preferred": "-.", "matched": ":"}

# In inches; the wide one fills a column, two of the middle and three of the small stand
# side by side.
WIDE = (4.8, 3.2)
SMALL = (3.2, 2.7)
MIDDLE = (4.3, 2.9)

SIZE = 9.5
SMALL_SIZE = 8.5


def color(name: str) -> str:
    """Return a color for a light ground; ink and paper are those of the reader's figures."""
    import matplotlib as mpl

    if name in ("ink", "truth", "center"):
        return str(mpl.rcParams["text.color"])
    if name == "paper" and mpl.rcParams["axes.facecolor"] != "none":
        return str(mpl.rcParams["axes.facecolor"])
    return PALETTE[name][0]


def route_color(route: str) -> str:
    """Return the name of a route's color."""
    return ROUTE_COLORS.get(route, "unknown")


# Figures made here, which may grow, with the room in inches that legends have got above their
# axes. A figure of the reader's keeps its size.
_GROWN: WeakKeyDictionary[Any, float] = WeakKeyDictionary()


def axis_or_new(ax: Any, size: tuple[float, float] = WIDE) -> Any:
    """Return the given axis, or that of the given or a new figure."""
    if ax is not None:
        return ax.subplots() if hasattr(ax, "subplots") else ax
    return new_figure(size).subplots()


def panels_in(ax: Any, count: int, columns: int, size: tuple[float, float]) -> list[Any]:
    """Return axes for so many panels of one size: the given axis alone, or those of a figure.

    A figure made here gets the size that they need.
    """
    if ax is not None and not hasattr(ax, "subplots"):
        return [ax]
    columns = min(columns, count)
    rows = -(-count // columns)
    whole = (columns * size[0], rows * size[1])
    figure = new_figure(whole) if ax is None else ax
    if figure in _GROWN:
        figure.set_size_inches(*whole)
    axes = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for unused in axes[count:]:
        unused.set_axis_off()
    return axes[:count]


def new_figure(size: tuple[float, float]) -> Any:
    """Return a new figure of pyplot, which grows by the height of its legends."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=size, layout="constrained")
    _GROWN[figure] = 0.0
    return figure


def plain(*texts: Any, of: Parameter | None = None) -> None:
    """Keep matplotlib from reading mathematics into names: a dollar is a dollar.

    Texts that name the parameter `of` by `named` are read as mathematics where its label or its
    unit is meant so.
    """
    for text in texts:
        text.set_parse_math(of is not None and _has_mathematics(of))
        text.set_usetex(False)


def label(ax: Any, x: str = "", y: str = "", of: Parameter | None = None) -> None:
    """Name the axes; `of` is the parameter that `x` and `y` name by `named`."""
    plain(ax.xaxis.label, ax.yaxis.label, of=of)
    if x:
        ax.set_xlabel(x)
    if y:
        ax.set_ylabel(y)


# A longer label is no symbol; the name is shown.
LONGEST_LABEL = 80


def named(parameter: Parameter, name: str, length: int = NAME_LENGTH, *, unit: bool = False) -> str:
    """Return what a figure calls a parameter: its label, else its name; with its unit if asked.

    A label in mathematics that matplotlib cannot read is passed over. The text is drawn with
    ``plain(..., of=parameter)``.
    """
    own = parameter.label if len(parameter.label) <= LONGEST_LABEL else ""
    if "$" in own and not _readable(own):
        own = ""
    words = own if "$" in own else _literal(shortened(own or name, length), parameter)
    if not (unit and parameter.unit):
        return words
    mathematical = "$" in parameter.unit and _readable(parameter.unit)
    shown = parameter.unit if mathematical else _literal(parameter.unit, parameter)
    return f"{words} ({shown})"


def _literal(text: str, parameter: Parameter) -> str:
    """Return a text that is shown as it is, also within mathematics."""
    shown = visible(text)
    return shown.replace("$", r"\$") if _has_mathematics(parameter) else shown


def _has_mathematics(parameter: Parameter) -> bool:
    return any(
        "$" in text and len(text) <= LONGEST_LABEL and _readable(text)
        for text in (parameter.label, parameter.unit)
    )


@cache
def _readable(text: str) -> bool:
    """Whether matplotlib can typeset a text."""
    from matplotlib.cbook import is_math_text
    from matplotlib.mathtext import MathTextParser

    if not text.isprintable() or ("$" in text and not is_math_text(text)):
        return False
    try:
        MathTextParser("path").parse(text)
    except ValueError:
        return False
    return True


def name_rows(ax: Any, parameters: Mapping[str, Parameter]) -> None:
    """Write the parameters, one a row, from the top down."""
    ax.set_yticks(range(len(parameters)), [named(p, name) for name, p in parameters.items()])
    for text, parameter in zip(ax.get_yticklabels(), parameters.values(), strict=True):
        plain(text, of=parameter)
    ax.set_ylim(len(parameters) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)


def open_frame(ax: Any, *sides: str) -> None:
    """Take away the sides of the frame that carry nothing."""
    for side in sides or ("top", "right"):
        ax.spines[side].set_visible(False)


def mark(ax: Any, kind: str, value: float, text: str, role: str | None = None) -> None:
    """Draw the vertical line of a value: its kind decides color and line style."""
    style = LINES.get(kind, "-")
    width = 2.2 if style == ":" else 1.6
    ax.axvline(value, color=color(role or kind), ls=style, lw=width, label=text, zorder=3)


# Height of a row of a legend, in inches.
LEGEND_ROW = 1.55 * SMALL_SIZE / 72


def legend_above(
    ax: Any, columns: int = 3, margin: float = 50.0, of: Parameter | None = None
) -> int:
    """Put the legend over the axis, where no data are; return its number of rows there.

    The axis keeps its size: a figure made here grows. In a figure of the reader's, the legend
    lies inside the axis, where it covers least, and takes no row.
    """
    handles, labels = ax.get_legend_handles_labels()
    if not handles:
        return 0
    style = {"columnspacing": 1.2, "handlelength": 1.9, "handletextpad": 0.5}
    figure = ax.get_figure(root=True)
    if figure not in _GROWN:
        ground = {"facecolor": color("paper"), "framealpha": 0.8, "edgecolor": "none"}
        legend = ax.legend(handles, labels, loc="best", fontsize=SMALL_SIZE, **ground, **style)
        legend.set_in_layout(False)
        plain(*legend.get_texts(), of=of)
        return 0
    width, height = figure.get_size_inches()
    room = 72 * width - margin
    while columns > 1 and _legend_width(labels, columns) > room:
        columns -= 1
    legend = ax.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.01),
        ncols=columns,
        frameon=False,
        borderaxespad=0.0,
        borderpad=0.1,
        fontsize=SMALL_SIZE,
        **style,
    )
    plain(*legend.get_texts(), of=of)
    rows = -(-len(handles) // columns)
    needed = max(_GROWN[figure], rows * LEGEND_ROW)
    figure.set_size_inches(width, height + needed - _GROWN[figure])
    _GROWN[figure] = needed
    return rows


def _legend_width(labels: list[str], columns: int) -> float:
    """Estimate the width of a legend, in points, that is filled column by column."""
    rows = -(-len(labels) // columns)
    longest = [max(map(len, labels[k : k + rows])) for k in range(0, len(labels), rows)]
    return sum(0.56 * SMALL_SIZE * length + 3.8 * SMALL_SIZE for length in longest)


def note(ax: Any, words: str, x: float = 0.5, y: float = 0.5) -> Any:
    """Write a remark into the axis."""
    text = ax.text(
        x,
        y,
        words,
        transform=ax.transAxes,
        ha="center",
        va="center",
        color=color("muted"),
        fontsize=SMALL_SIZE,
        zorder=5,
    )
    plain(text)
    return text


def color_bar(
    ax: Any, drawn: Any, words: str, extend: str = "neither", of: Parameter | None = None
) -> None:
    """Put a color bar with a small label beside the axis."""
    bar = ax.figure.colorbar(drawn, ax=ax, extend=extend, pad=0.03)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL_SIZE, length=2)
    bar.formatter.set_powerlimits((-3, 3))
    plain(bar.ax.yaxis.label, of=of)
    bar.set_label(words, fontsize=SMALL_SIZE)


def diverging() -> Any:
    """Return colors from minus over nothing to plus.

    Zero is transparent, so that it fades into a light and a dark ground alike.
    """
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    minus, plus = to_rgb("#2f6fe0"), to_rgb("#d8385a")
    stops = [(0.0, (*minus, 1.0)), (0.5, (0.55, 0.5, 0.55, 0.06)), (1.0, (*plus, 1.0))]
    return LinearSegmentedColormap.from_list("twoaxis_diverging", stops, N=256)


SVG = "http://www.w3.org/2000/svg"
LINK = "http://www.w3.org/1999/xlink"
VARIABLES = {light: f"var(--ta-{name}, {light})" for name, (light, _) in PALETTE.items()}

_COLOR = re.compile("|".join(map(re.escape, VARIABLES)))
_FONT = re.compile(r"'?DejaVu Sans'?(, *[^;]*)?")
_REFERENCE = re.compile(r"url\(#([^)]*)\)")

STYLE: Any = {
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": PALETTE["muted"][0],
    "axes.labelcolor": PALETTE["ink"][0],
    "text.color": PALETTE["ink"][0],
    "xtick.color": PALETTE["muted"][0],
    "ytick.color": PALETTE["muted"][0],
    "xtick.labelcolor": PALETTE["ink"][0],
    "ytick.labelcolor": PALETTE["ink"][0],
    "axes.linewidth": 0.8,
    "axes.labelsize": SIZE,
    "font.size": SIZE,
    "xtick.labelsize": SMALL_SIZE,
    "ytick.labelsize": SMALL_SIZE,
    "hatch.linewidth": 0.8,
    "font.family": ["DejaVu Sans"],
    "text.usetex": False,
    "axes.formatter.use_mathtext": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "twoaxis",
    "svg.image_inline": True,
}


# Settings of matplotlib and filters of warnings belong to the process: one thread at a time changes
# them, or draws by them.
DRAWING = RLock()


@contextmanager
def house_style(style: Any) -> Iterator[None]:
    """Draw and save in a style of this package, whatever the reader's settings are."""
    import matplotlib as mpl

    with DRAWING, mpl.rc_context():
        mpl.rcdefaults()
        for setting, value in style.items():
            mpl.rcParams[setting] = value
        yield


def inline_svg(
    draw: Callable[..., Any],
    *data: Any,
    alt: str,
    size: tuple[float, float] = WIDE,
    columns: int = 1,
    panels: bool = False,
    **options: Any,
) -> str:
    """Call ``draw(*data, ax=ax, **options)`` and return the picture as an ``<svg>`` element.

    With more than one column, ``ax`` is an array of axes; with `panels`, it is the figure, for
    functions that divide it themselves.
    """
    from matplotlib.figure import Figure

    with house_style(STYLE), warnings.catch_warnings():
        # The page's fonts draw the texts: a glyph that this one lacks is no loss.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        figure = Figure(figsize=size, layout="constrained")
        _GROWN[figure] = 0.0
        target = figure if panels else figure.subplots(1, columns)
        drawn = draw(*data, ax=target, **options)
        if columns == 1 and not panels:
            drawn.set_title("")  # the page has headings of its own
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", dpi=200, metadata=dict.fromkeys(_METADATA))
    return _for_page(buffer.getvalue(), alt)


_METADATA = ("Date", "Creator", "Format", "Type")


def _for_page(text: str, alt: str) -> str:
    root = ElementTree.fromstring(text)
    used = set(_REFERENCE.findall(text)) | set(re.findall(r'xlink:href="#([^"]*)"', text))
    prefix = "p" + hashlib.sha256(text.encode()).hexdigest()[:10] + "-"
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)
        _clean(parent, used, prefix)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-label", alt)
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", LINK)
    return ElementTree.tostring(root, encoding="unicode")


def _clean(element: ElementTree.Element, used: set[str], prefix: str) -> None:
    """Give one element the page's colors, fonts and ids."""
    if element.tag == f"{{{SVG}}}text" and len(element):
        # Line breaks between the pieces of mathematics are no part of the text.
        element.text = (element.text or "").strip("\n ")
        for piece in element:
            piece.tail = (piece.tail or "").strip("\n ")
    name = element.attrib.pop("id", None)
    if name in used:
        element.set("id", f"{prefix}{name}")
    link = element.get(f"{{{LINK}}}href", "")
    if link.startswith("#"):
        element.set(f"{{{LINK}}}href", f"#{prefix}{link[1:]}")
    for key in ("clip-path", "mask"):
        if key in element.attrib:
            element.set(key, _REFERENCE.sub(rf"url(#{prefix}\1)", element.attrib[key]))
    style = element.get("style")
    if style:
        style = _REFERENCE.sub(rf"url(#{prefix}\1)", style)
        style = _COLOR.sub(lambda found: VARIABLES[found.group()], style)
        element.set("style", _FONT.sub("inherit", style))


def strip(
    ax: Any,
    rows: dict[str, Any],
    roles: dict[str, str],
    words: str,
    of: Parameter | None = None,
) -> Any:
    """Draw each row of values as dots beside its name, with a line at the mean and one at zero."""
    import numpy as np

    for k, (name, values) in enumerate(rows.items()):
        shown = np.asarray(values, dtype=float)
        shown = shown[np.isfinite(shown)]
        # Dots of one row are spread over its height in their order: no random picture.
        height = k + 0.36 * (np.linspace(-1, 1, len(shown)) if len(shown) > 1 else 0.0)
        ax.plot(shown, height + 0 * shown, "o", ms=4, alpha=0.65, color=color(roles[name]))
        if len(shown) > 1:
            ax.plot([shown.mean()] * 2, [k - 0.42, k + 0.42], color=color(roles[name]), lw=2)
    ax.axvline(0, color=color("center"), lw=1.2, zorder=0)
    ax.set_yticks(range(len(rows)), list(rows))
    plain(*ax.get_yticklabels())
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    label(ax, words, of=of)
    open_frame(ax, "top", "right", "left")
    return ax

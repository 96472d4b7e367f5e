"""One picture as SVG text for a page: the page's own colours and fonts, the same bytes each time.

Texts stay texts and take the font of the page. Colours of the palette become CSS variables, so
that one drawing serves a light and a dark page. Only ids that are used are kept, with a prefix
made from the drawing: several pictures share one page.
"""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

from twoaxis.report.theme import PALETTE, SIZE, SMALL_SIZE, WIDE

SVG = "http://www.w3.org/2000/svg"
LINK = "http://www.w3.org/1999/xlink"
VARIABLES = {light: f"var(--ta-{name}, {light})" for name, (light, _) in PALETTE.items()}

_COLOUR = re.compile("|".join(map(re.escape, VARIABLES)))
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


def inline_svg(
    draw: Callable[..., Any], *data: Any, alt: str, size: tuple[float, float] = WIDE, **options: Any
) -> str:
    """Call ``draw(*data, ax=ax, **options)`` and return the picture as an ``<svg>`` element."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        for setting, value in STYLE.items():
            mpl.rcParams[setting] = value
        # The page's fonts draw the texts: a glyph that this one lacks is no loss.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        figure = Figure(figsize=size, layout="constrained")
        ax = draw(*data, ax=figure.subplots(), **options)
        ax.set_title("")  # the page has headings of its own
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
    """Give one element the page's colours, fonts and ids."""
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
        style = _COLOUR.sub(lambda found: VARIABLES[found.group()], style)
        element.set("style", _FONT.sub("inherit", style))

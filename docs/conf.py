import re
import sys
from html import escape, unescape
from pathlib import Path
from xml.etree import ElementTree

from docutils.nodes import SkipNode
from docutils.utils.math import MathError, latex2mathml
from sphinx.util import logging

import twoaxis

sys.path.insert(0, str(Path(__file__).parent))

import api_links
import decoding
import figures
import layouts
import reproduction

logger = logging.getLogger(__name__)

project = "twoaxis"
author = "The twoaxis developers"
copyright = "2026, the twoaxis developers"
version = release = twoaxis.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/*.py", "gallery/*.ipynb", "gallery/GALLERY_HEADER.rst"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc writes the types, in words
autosummary_context = {"links": api_links.LINKS, "internal": api_links.INTERNAL}
autosummary_filename_map = api_links.FILES
numpydoc_show_class_members = False

# A link that leads nowhere is a warning, and CI builds with -W. Words in single backticks are names
# of arguments as often as they are links, so that these may lead nowhere.
nitpicky = True
nitpick_ignore_regex = [("py:obj", ".*"), ("py:.*", r"numpy\..*")]

# The prompt is not copied, nor is what a command prints.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "subsection_order": [
        f"../examples/gallery/{part}"
        for part in ("stories", "verdict", "observations", "preference", "training", "remedies")
    ],
    # Names in the code link to their page, and the page of a figure shows its example.
    "doc_module": ("twoaxis",),
    "backreferences_dir": "gallery/backreferences",
    "reference_url": {"twoaxis": None},
    "capture_repr": (),  # what is printed is shown, not what the last line returns
    "show_signature": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
}

# For a machine with a network: sphinx-build -b linkcheck docs docs/_build/links
linkcheck_timeout = 20
linkcheck_retries = 2
linkcheck_anchors_ignore_for_url = [r"https://github\.com/.*"]

html_theme = "furo"
html_title = "twoaxis"
html_theme_options = {"light_css_variables": {"code-font-size": "75%"}}  # tables fit the column
html_math_renderer = "mathml"


# LaTeX that docutils does not know, and what it may be replaced by.
REWRITTEN = {
    r"\\[bB]igg?(?![A-Za-z])": "",
    r"\\dots(?![A-Za-z])": r"\\ldots",
    r"\\textstyle(?![A-Za-z])": "",
}


ACCENTS = "ˆ¯˜˙"


def with_index_beside(formula):
    """Put the index of an accented letter beside it: docutils puts it below."""
    # XML knows the names of five characters, and docutils writes others. A page needs no namespace.
    named = re.sub(r"&(?!(?:lt|gt|amp|quot|apos);)\w+;", lambda name: unescape(name[0]), formula)
    tree = ElementTree.fromstring(re.sub(' xmlns="[^"]*"', "", named, count=1))
    for element in tree.iter("munderover"):
        letter, index, above = element
        if above.text and above.text in ACCENTS:
            accented = ElementTree.Element("mover", accent="true")
            accented.extend([letter, above])
            element.tag, element[:] = "msub", [accented, index]
    return ElementTree.tostring(tree, encoding="unicode")


def as_mathml(self, node, *, block):
    """Write a formula as MathML, which browsers draw by themselves, offline too."""
    tex = node.astext()
    for pattern, replacement in REWRITTEN.items():
        tex = re.sub(pattern, replacement, tex)
    try:
        formula = with_index_beside(latex2mathml.tex2mathml(tex, as_block=block))
    except MathError as error:
        logger.warning("cannot write this formula as MathML: %s", error, location=node)
        formula = f"<code>{escape(node.astext())}</code>"
    if block:  # room enough that the theme adds no scroll bar beside it
        formula = f'<div style="padding-block: 0.4em; overflow-y: hidden">{formula}</div>'
    self.body.append(formula)
    raise SkipNode


def inline_math(self, node):
    as_mathml(self, node, block=False)


def block_math(self, node):
    as_mathml(self, node, block=True)


def setup(app):
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
    app.connect("builder-inited", api_links.build)
    app.connect("builder-inited", figures.draw)
    app.connect("builder-inited", layouts.build)
    app.connect("builder-inited", reproduction.build)
    app.connect("builder-inited", decoding.build)

"""Pictures, notebook views and the page: results in, figures and HTML out.

This package reads finished results and is read by nothing below it; `twoaxis.result` reaches
`plot` and `notebook_html` through one lazy lookup. Importing it loads neither matplotlib nor
Jinja2.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from twoaxis.errors import InputError
from twoaxis.result import CLASSES

# The drawing function of each kind of result, by schema.
PLOTS = {
    "audit": "decision_map:plot_decision_map",
    "calibration": "confidence_set:plot_calibration",
    "comparison": "comparison:plot_comparison",
    "confidence-set": "confidence_set:plot_confidence_set",
    "delivery": "delivery:plot_delivery",
    "evidence-map": "evidence_map:plot_evidence_map",
    "frozen-scan": "profile:plot_profile",
    "function-preference": "function:plot_function_displacement",
    "function-resolution": "function:plot_function",
    "polish": "polish:plot_polish",
    "refinement": "refinement:plot_refinement",
    "resolution": "resolution:plot_resolution",
    "runs": "runs:plot_runs",
    "score": "score:plot_score",
    "scoreboard": "scoreboard:plot_scoreboard",
    "simulated-audit": "simulated_audit:plot_simulated_audit",
    "snapshots": "training:plot_along_training",
    "spectrum": "spectrum:plot_spectrum",
    "suggested-sites": "sites:plot_sites",
}


def plot(result: Any, ax: Any = None, **options: Any) -> Any:
    """Draw a result with the function for its kind, and return the axes.

    Parameters
    ----------
    result : Result
    ax : matplotlib.axes.Axes, optional
    **options
        Of the drawing function in `twoaxis.plots`, such as ``parameter="nu"``.
    """
    from twoaxis.report.theme import DRAWING

    with DRAWING:  # a page that another thread writes has settings of its own meanwhile
        return drawing_function(result)(result, ax=ax, **options)


def drawing_function(result: Any) -> Callable[..., Any]:
    """Return the function that draws a result."""
    schema = _schema(result)
    if schema not in PLOTS:
        raise InputError(
            f"a result with a picture: {', '.join(PLOTS)}",
            f"a {schema}",
            "audit it, or draw a score or a scan of it",
        )
    module, _, function = PLOTS[schema].partition(":")
    draw: Callable[..., Any] = getattr(
        importlib.import_module(f"twoaxis.report.figures.{module}"), function
    )
    return draw


def _schema(result: Any) -> str:
    schema = getattr(result, "schema", None)
    if schema not in CLASSES:
        raise InputError(
            "a result of twoaxis",
            type(result).__name__,
            "pass what twoaxis.audit, twoaxis.score, twoaxis.load, ... returned",
        )
    return str(schema)


def page(result: Any) -> str:
    """Return the page of a result as HTML text: one file that needs nothing else."""
    from twoaxis.report.html import render, render_scoreboard, render_table

    pages: dict[str, Callable[[Any], str]] = {"audit": render, "scoreboard": render_scoreboard}
    return pages.get(_schema(result), render_table)(result)


def notebook_html(result: Any) -> str:
    """Return a result as an HTML fragment for a notebook."""
    from twoaxis.report.notebook import audit_fragment, table_fragment

    return audit_fragment(result) if _schema(result) == "audit" else table_fragment(result)


__all__ = ["notebook_html", "page", "plot"]

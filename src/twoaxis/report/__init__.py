"""Pictures, notebook views and the page: results in, figures and HTML out.

This package reads finished results and is read by nothing below it; `twoaxis.result` reaches
`plot` and `notebook_html` through one lazy lookup. Importing it loads neither matplotlib nor
Jinja2.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from twoaxis.errors import InputError

if TYPE_CHECKING:
    from twoaxis.diagnosis import Audit

# The drawing function of each kind of result, by schema.
PLOTS = {
    "audit": "decision_map:plot_decision_map",
    "calibration": "confidence_set:plot_calibration",
    "comparison": "comparison:plot_comparison",
    "confidence-set": "confidence_set:plot_confidence_set",
    "delivery": "delivery:plot_delivery",
    "evidence-map": "evidence_map:plot_evidence_map",
    "frozen-scan": "profile:plot_profile",
    "polish": "polish:plot_polish",
    "resolution": "resolution:plot_resolution",
    "runs": "runs:plot_runs",
    "score": "score:plot_score",
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
    schema = getattr(result, "schema", None)
    if schema not in PLOTS:
        raise InputError(
            "a result of twoaxis",
            type(result).__name__,
            "pass what twoaxis.audit, twoaxis.score, twoaxis.load, ... returned",
        )
    module, _, function = PLOTS[schema].partition(":")
    draw = getattr(importlib.import_module(f"twoaxis.report.figures.{module}"), function)
    return draw(result, ax=ax, **options)


def page(audit: Audit) -> str:
    """Return the page of an audit as HTML text: one file that needs nothing else."""
    from twoaxis.report.page import render

    return render(audit)


def notebook_html(result: Any) -> str:
    """Return a result as an HTML fragment for a notebook."""
    from twoaxis.report.notebook import audit_fragment, table_fragment

    return audit_fragment(result) if result.schema == "audit" else table_fragment(result)


__all__ = ["notebook_html", "page", "plot"]

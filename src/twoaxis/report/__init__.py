"""Pictures of results: labelled data in, figures out."""

from __future__ import annotations

from twoaxis.report.resolution_figure import plot_resolution

__all__ = ["plot_resolution"]

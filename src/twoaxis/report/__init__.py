"""Pictures of results: labelled data in, figures out."""

from __future__ import annotations

from twoaxis.report.decision_map import plot_decision_map
from twoaxis.report.delivery_figure import plot_delivery
from twoaxis.report.evidence_figure import plot_evidence
from twoaxis.report.profile_figure import plot_profile
from twoaxis.report.resolution_figure import plot_resolution
from twoaxis.report.spectrum_figure import plot_spectrum
from twoaxis.report.training_figure import plot_along_training

__all__ = [
    "plot_along_training",
    "plot_decision_map",
    "plot_delivery",
    "plot_evidence",
    "plot_profile",
    "plot_resolution",
    "plot_spectrum",
]

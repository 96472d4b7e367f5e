"""Drawing functions: each takes a result and matplotlib axes, and returns the axes.

Every result also draws itself: ``audit.plot()``, ``scan.plot()``, ``spectrum.plot()``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twoaxis.report.figures.comparison import plot_comparison as plot_comparison
    from twoaxis.report.figures.confidence_set import plot_calibration as plot_calibration
    from twoaxis.report.figures.confidence_set import plot_confidence_set as plot_confidence_set
    from twoaxis.report.figures.correlation import plot_correlation as plot_correlation
    from twoaxis.report.figures.decision_map import plot_decision_map as plot_decision_map
    from twoaxis.report.figures.delivery import plot_delivery as plot_delivery
    from twoaxis.report.figures.directions import plot_directions as plot_directions
    from twoaxis.report.figures.evidence import plot_evidence as plot_evidence
    from twoaxis.report.figures.evidence_map import plot_evidence_map as plot_evidence_map
    from twoaxis.report.figures.forest import plot_forest as plot_forest
    from twoaxis.report.figures.function import plot_function as plot_function
    from twoaxis.report.figures.function import plot_function_directions as plot_function_directions
    from twoaxis.report.figures.function import (
        plot_function_displacement as plot_function_displacement,
    )
    from twoaxis.report.figures.likelihood import plot_likelihood as plot_likelihood
    from twoaxis.report.figures.misfit import plot_misfit as plot_misfit
    from twoaxis.report.figures.observations import plot_observations as plot_observations
    from twoaxis.report.figures.polish import plot_polish as plot_polish
    from twoaxis.report.figures.profile import plot_profile as plot_profile
    from twoaxis.report.figures.refinement import plot_refinement as plot_refinement
    from twoaxis.report.figures.resolution import plot_resolution as plot_resolution
    from twoaxis.report.figures.runs import plot_runs as plot_runs
    from twoaxis.report.figures.score import plot_score as plot_score
    from twoaxis.report.figures.scoreboard import plot_scoreboard as plot_scoreboard
    from twoaxis.report.figures.simulated_audit import plot_simulated_audit as plot_simulated_audit
    from twoaxis.report.figures.sites import plot_sites as plot_sites
    from twoaxis.report.figures.spectrum import plot_spectrum as plot_spectrum
    from twoaxis.report.figures.training import plot_along_training as plot_along_training

# Functions are looked up when they are first used: some need results of optional extras.
_FIGURES = {
    "plot_along_training": "training",
    "plot_calibration": "confidence_set",
    "plot_comparison": "comparison",
    "plot_confidence_set": "confidence_set",
    "plot_correlation": "correlation",
    "plot_decision_map": "decision_map",
    "plot_delivery": "delivery",
    "plot_directions": "directions",
    "plot_evidence": "evidence",
    "plot_evidence_map": "evidence_map",
    "plot_forest": "forest",
    "plot_function": "function",
    "plot_function_directions": "function",
    "plot_function_displacement": "function",
    "plot_likelihood": "likelihood",
    "plot_misfit": "misfit",
    "plot_observations": "observations",
    "plot_polish": "polish",
    "plot_profile": "profile",
    "plot_refinement": "refinement",
    "plot_resolution": "resolution",
    "plot_runs": "runs",
    "plot_score": "score",
    "plot_scoreboard": "scoreboard",
    "plot_simulated_audit": "simulated_audit",
    "plot_sites": "sites",
    "plot_spectrum": "spectrum",
}


def __getattr__(name: str) -> Any:
    if name not in _FIGURES:
        raise AttributeError(f"module 'twoaxis.plots' has no attribute {name!r}")
    module = importlib.import_module(f"twoaxis.report.figures.{_FIGURES[name]}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [*_FIGURES]

"""What to do about it: a remedy for every route, computed for the case at hand.

`suggest_sites` chooses observations, `evidence_map` finds where a displacement arises, `polish`
finishes the training, `simulated_audit`, `calibrate` and `confidence_set` measure the bias of a
complete pipeline where no truth is known, and `remedy` puts what they found into an audit. A remedy
that trains again takes the pipeline as a callable, so that nothing here needs JAX, PyTorch or Dask.
"""

from __future__ import annotations

from twoaxis.remedies.calibrate import Calibration, calibrate
from twoaxis.remedies.confidence_set import ConfidenceSet, confidence_set
from twoaxis.remedies.estimate import estimate, estimate_many
from twoaxis.remedies.evidence_map import EvidenceMap, evidence_map
from twoaxis.remedies.polish import Polish, polish
from twoaxis.remedies.refine import Refinement, refine
from twoaxis.remedies.remedy import remedy
from twoaxis.remedies.simulated import SimulatedAudit, simulated_audit
from twoaxis.remedies.sites import SuggestedSites, suggest_sites

__all__ = [
    "Calibration",
    "ConfidenceSet",
    "EvidenceMap",
    "Polish",
    "Refinement",
    "SimulatedAudit",
    "SuggestedSites",
    "calibrate",
    "confidence_set",
    "estimate",
    "estimate_many",
    "evidence_map",
    "polish",
    "refine",
    "remedy",
    "simulated_audit",
    "suggest_sites",
]

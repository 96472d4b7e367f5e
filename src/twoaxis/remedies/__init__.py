"""What to do about it: a remedy for every route, computed for the case at hand.

``observations`` chooses sites, ``evidence`` finds where a displacement arises, ``polish`` finishes
a delivery, ``simulated`` and ``calibration`` measure the bias of a whole pipeline where no truth is
known, and ``plan`` puts what they found into an audit. A remedy that trains again takes the
pipeline as a callable, so that nothing here needs JAX, PyTorch or Dask.
"""

from __future__ import annotations

from twoaxis.remedies.calibration import (
    Calibration,
    ConfidenceSet,
    calibrate,
    confidence_set,
    load_calibration,
    load_confidence_set,
)
from twoaxis.remedies.evidence import EvidenceMap, evidence_map
from twoaxis.remedies.plan import remedy
from twoaxis.remedies.polish.polish import polish
from twoaxis.remedies.polish.result import Polish
from twoaxis.remedies.simulated.rank_views import rank_views
from twoaxis.remedies.simulated.result import SimulatedAudit, load_simulated_audit
from twoaxis.remedies.simulated.simulated_audit import simulated_audit
from twoaxis.remedies.sites.result import SuggestedSites, Verification
from twoaxis.remedies.sites.suggest import suggest_sites, suggest_sites_for_problem

__all__ = [
    "Calibration",
    "ConfidenceSet",
    "EvidenceMap",
    "Polish",
    "SimulatedAudit",
    "SuggestedSites",
    "Verification",
    "calibrate",
    "confidence_set",
    "evidence_map",
    "load_calibration",
    "load_confidence_set",
    "load_simulated_audit",
    "polish",
    "rank_views",
    "remedy",
    "simulated_audit",
    "suggest_sites",
    "suggest_sites_for_problem",
]

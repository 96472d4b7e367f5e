"""Where the displacement of a frozen field arises: in which regions and residual modes."""

from __future__ import annotations

from twoaxis.remedies.evidence.evidence_map import evidence_map
from twoaxis.remedies.evidence.result import EvidenceMap

__all__ = ["EvidenceMap", "evidence_map"]

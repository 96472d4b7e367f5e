"""Simulated audits: where the truth is not known, simulate data at the delivered value.

See `simulated_audit` and `rank_views`.
"""

from __future__ import annotations

from twoaxis.remedies.simulated.audit import simulated_audit
from twoaxis.remedies.simulated.result import SimulatedAudit
from twoaxis.remedies.simulated.storage import load_simulated_audit
from twoaxis.remedies.simulated.views import rank_views

__all__ = ["SimulatedAudit", "load_simulated_audit", "rank_views", "simulated_audit"]

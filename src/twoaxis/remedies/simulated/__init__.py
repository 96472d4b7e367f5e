"""Simulated audits: where the truth is not known, simulate data at the delivered value.

See `simulated_audit` and `rank_views`.
"""

from __future__ import annotations

from twoaxis.remedies.simulated.rank_views import rank_views
from twoaxis.remedies.simulated.result import SimulatedAudit, load_simulated_audit
from twoaxis.remedies.simulated.simulated_audit import simulated_audit

__all__ = ["SimulatedAudit", "load_simulated_audit", "rank_views", "simulated_audit"]

"""Simulated audits: where the truth is not known, simulate data at the delivered value."""

from __future__ import annotations

from twoaxis.remedies.simulated.result import SimulatedAudit
from twoaxis.remedies.simulated.simulated_audit import simulated_audit

__all__ = ["SimulatedAudit", "simulated_audit"]

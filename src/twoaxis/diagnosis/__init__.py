"""The diagnosis: both axes, delivery and the decision map, joined into one verdict."""

from __future__ import annotations

from twoaxis.diagnosis.along_training import follow
from twoaxis.diagnosis.audit import audit
from twoaxis.diagnosis.comparison import Comparison, compare
from twoaxis.diagnosis.result import Audit
from twoaxis.diagnosis.routes import Route
from twoaxis.diagnosis.storage import load_audit
from twoaxis.diagnosis.tolerance import Tolerance

__all__ = [
    "Audit",
    "Comparison",
    "Route",
    "Tolerance",
    "audit",
    "compare",
    "follow",
    "load_audit",
]

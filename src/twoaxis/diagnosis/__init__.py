"""The diagnosis: both axes, delivery and the decision map, joined into one verdict."""

from __future__ import annotations

from twoaxis.diagnosis.audit import audit
from twoaxis.diagnosis.compare import Comparison, compare
from twoaxis.diagnosis.decision_map import Route, Tolerance
from twoaxis.diagnosis.follow import Snapshots, follow
from twoaxis.diagnosis.follower import Follower
from twoaxis.diagnosis.result import Audit
from twoaxis.diagnosis.scoreboard import Scoreboard

__all__ = [
    "Audit",
    "Comparison",
    "Follower",
    "Route",
    "Scoreboard",
    "Snapshots",
    "Tolerance",
    "audit",
    "compare",
    "follow",
]

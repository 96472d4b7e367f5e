"""The route of an audit against the tolerance: how much of a verdict is a choice of tolerances.

Every rule of the decision map compares a measured size with a tolerance, so that the route changes
only where a tolerance passes a measured size. Between these the route is constant, and a few
verdicts tell the whole story.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from twoaxis.diagnosis.decision_map import Measured, Route, Statistic, Tolerance, join
from twoaxis.diagnosis.functions import verdicts_by_subject
from twoaxis.diagnosis.questions import ARRIVED, ask
from twoaxis.diagnosis.verdict import decide_all, measure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twoaxis.diagnosis.result import Audit

MEASURED = ("delivered", "resolution", "preference", "training_preference", "gap")


def routes_by_tolerance(audit: Audit) -> pd.DataFrame:
    """Return the route of an audit for every tolerance, with one for all three of them.

    Returns
    -------
    pandas.DataFrame
        A row for each stretch ``lower <= tolerance < upper``, in percent, with its ``route``. The
        first begins at 0 and the last ends at infinity.
    """
    edges = _sizes(audit)
    # A size that equals a tolerance is tolerated, so that a stretch has its lower end.
    inside = [edges[0] / 2, *edges] if edges else [1.0]
    measured = measure(audit)
    found = [_route_at(audit, measured, Tolerance(t, t, t, _statistic(audit))) for t in inside]
    table = pd.DataFrame(
        {"lower": [0.0, *edges], "upper": [*edges, np.inf], "route": [str(r) for r in found]}
    )
    stretch = (table["route"] != table["route"].shift()).cumsum()
    joined = table.groupby(stretch).agg({"lower": "first", "upper": "last", "route": "first"})
    return joined.reset_index(drop=True)


def judged_at(audit: Audit, tolerance: Tolerance | None) -> Audit:
    """Return an audit with the same measurements, judged at other tolerances, without messages."""
    derived = ("/", "/about", "/messages", "/questions", "/verdict", "/actions")
    paths = [node.path for node in audit.data.subtree if node.path not in derived]
    kept = {name: audit.data.attrs[name] for name in ("view_relation", "layout", "run")}
    parts = {path: audit.group(path) for path in paths}
    return type(audit).from_parts(parts, kept, tolerance, audit.level, audit.about)


def _route_at(audit: Audit, measured: Mapping[str, Measured], tolerance: Tolerance) -> Route:
    """Return the route of an audit at another tolerance, from what it has measured."""
    other = copy(audit)  # of its parts and all that follows from them
    other.tolerance = tolerance
    other.questions = ask(other)
    verdicts = decide_all(other, measured)
    return join(verdicts_by_subject(audit.parameters, verdicts)).route


def _statistic(audit: Audit) -> Statistic:
    return "mean" if audit.tolerance is None else audit.tolerance.statistic


def _sizes(audit: Audit) -> list[float]:
    """Return all sizes that a rule compares with a tolerance, in percent, in ascending order."""
    found = [audit.verdict[f"{name}_percent"].values for name in MEASURED]
    matched, training = audit.group("/matched"), audit.group("/training")
    if matched is not None:
        found.append(matched["difference_percent"].values)
    if training is not None:
        for name in ("remaining", "probe_moved"):
            moved = training[name].values
            size = audit.parameters.displacement_percent(moved, audit.center.values)
            found.append(np.asarray(size) / ARRIVED)
    sizes = np.abs(np.concatenate([np.ravel(part) for part in found]))
    return sorted(set(sizes[np.isfinite(sizes) & (sizes > 0)].tolist()))

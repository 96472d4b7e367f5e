"""From measurements to verdicts: a route for every parameter and every eigen-direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from twoaxis.diagnosis.case import Case
from twoaxis.diagnosis.decision_map import Measured, Verdict, decide, join
from twoaxis.diagnosis.tree import labelled

UNDELIVERED = "no delivered value: delivery cannot be read"


def judge(case: Case) -> tuple[Verdict, xr.Dataset]:
    """Return the verdict of the audit, and all verdicts as the group ``/verdict``."""
    measured = {name: _of_parameter(case, name) for name in case.parameters}
    verdicts = {name: decide(m, case.tolerance) for name, m in measured.items()}
    scanned = case.audited.scan.error_percent
    values: dict[str, Any] = {
        "route": [v.route.value for v in verdicts.values()],
        "reason": [v.reason for v in verdicts.values()],
        "preference_percent": [_number(m.preference) for m in measured.values()],
        "scan_percent": [np.nan if scanned is None else scanned[n] for n in case.parameters],
        "delivered_percent": _column([m.delivered for m in measured.values()]),
        "resolution_percent": _column([m.resolution for m in measured.values()]),
        "gap_percent": None if case.delivery is None else list(case.delivery.gap_percent.values()),
        "training_preference_percent": (
            [_number(case.training.preference(n)) for n in case.parameters]
            if case.cross_view
            else None
        ),
        **_directions(case),
    }
    attributes = {}
    if case.tolerance is not None:
        values |= {
            f"tolerance_{name}": getattr(case.tolerance, name)
            for name in ("material", "resolution", "preference")
        }
        attributes["statistic"] = case.tolerance.statistic
    return join(verdicts), labelled("/verdict", values, attributes)


def _of_parameter(case: Case, name: str) -> Measured:
    shift, obstacle = case.training.preference(name), case.training.obstacle(name)
    if case.reads_gap and case.delivery is not None and not obstacle:
        shift = abs(case.delivery.gap_percent[name])
    elif case.undelivered and not obstacle:
        shift, obstacle = None, UNDELIVERED
    return Measured(
        around="truth" if case.around_truth else "candidate",
        preference=case.audited.preference(name),
        obstacle=case.audited.obstacle(name),
        delivered=case.delivered_percent(name),
        resolution=None if case.seen is None else case.seen.percent(name),
        training_preference=shift,
        training_obstacle=obstacle,
        cross_view=case.cross_view,
    )


def _directions(case: Case) -> dict[str, Any]:
    """Return the variables of the eigen-directions, their verdicts among them."""
    found = case.directions
    size = found.percent(found.displacement)
    resolution = None if case.seen is None else case.seen.along(found)
    delivered = None
    if case.around_truth and case.delivered_displacement is not None:
        delivered = found.percent(found.along(case.delivered_displacement)).tolist()
    shifts = found.percent(found.along(_training_shift(case)))
    blind = case.training.score.terms.null.any()
    verdicts, sizes = [], []
    for k, status in enumerate(found.status):
        words = found.in_words(k, list(case.parameters))
        unseen = f"H = 0 along {words}" if status == "null" else ""
        obstacle = unseen or case.audited.bound_obstacle
        unread = unseen or case.training.bound_obstacle or (case.undelivered and UNDELIVERED) or ""
        if case.cross_view and blind and not unread:
            unread = "the training view does not see every direction"
        sizes.append(np.nan if obstacle else float(size[k]))
        measured = Measured(
            around="truth" if case.around_truth else "candidate",
            preference=None if obstacle else float(size[k]),
            obstacle=obstacle,
            delivered=None if delivered is None else delivered[k],
            resolution=None if resolution is None else resolution[k],
            training_preference=None if unread else float(shifts[k]),
            training_obstacle=unread,
            cross_view=case.cross_view,
        )
        verdicts.append(decide(measured, case.tolerance))
    return {
        "direction": np.arange(len(found.status)),
        "direction_vector": found.vectors,
        "direction_strength": found.strength,
        "direction_status": found.status,
        "direction_displacement": found.displacement,
        "direction_preference_percent": sizes,
        "direction_route": [v.route.value for v in verdicts],
        "direction_reason": [v.reason for v in verdicts],
        "direction_delivered_percent": delivered,
        "direction_resolution_percent": resolution,
    }


def _training_shift(case: Case) -> Any:
    """Displacement by which delivery is read, in coordinates."""
    if case.reads_gap and case.delivery is not None:
        return -np.array(list(case.delivery.gap.values()))
    return case.training.score.terms.displacement


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def _column(values: list[float | None]) -> list[float] | None:
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None

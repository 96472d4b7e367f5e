r"""What to do about a verdict, with the numbers that this audit holds.

Each route comes with an action. What can be said from the audit alone is said here; a remedy
that is computed for it (`twoaxis.remedy`) takes its place. To first order,

- matched errors fall with the noise and with the root of the number of observations, so that an
  error :math:`E` comes down to a tolerance :math:`T` with :math:`(E/T)^2` times as many
  observations of the same kind, or with noise :math:`T/E` times as large;
- the displacement :math:`D = -\rho\,\lVert r\rVert_M/\sqrt H` falls with the residual norm, so
  that it is tolerated once the norm is smaller by :math:`|D / \log(1 \pm T)|`, with the sign of
  :math:`D`, if alignment and strength stay as they are.

Where the pull on a parameter comes from: the points of an audit, gathered into boxes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import xarray as xr

from twoaxis.diagnosis.decision_map import Route
from twoaxis.diagnosis.tree import labelled
from twoaxis.report.audited import Audited
from twoaxis.resolution import needed_observations
from twoaxis.text import number, percent, visible
from twoaxis.views.view import occupied_cells, unit_coordinates

# Boxes along each axis: few enough to be named, enough to be somewhere.
BOXES = 4


@dataclass(frozen=True)
class Region:
    """A box of the domain.

    Attributes
    ----------
    words : str
        Its extent along each axis.
    share : float
        Of the signed score B: contributions of all boxes add up to one.
    """

    words: str
    share: float


def strongest_pull(audited: Audited, name: str) -> Region | None:
    """Return the box with the largest share of B; None where B is zero or points were left out."""
    group = audited.need("/field")
    if group.attrs["points_kept"] < group.attrs["points_total"]:
        return None
    pull = group["contribution"].isel(parameter=audited.index(name)).values.astype(float)
    total = pull.sum()
    if not total:
        return None
    points = np.asarray(group["points"].values, dtype=float)
    low, high = points.min(axis=0), points.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    unit = unit_coordinates(points)
    box = occupied_cells(unit, [BOXES] * unit.shape[1])
    shares = np.bincount(box, pull) / total
    best = int(np.argmax(shares))
    inside = unit[np.argmax(box == best)]  # any of its points tells where it lies
    start = low + np.minimum(np.floor(BOXES * inside), BOXES - 1) * span / BOXES
    # Ends to a hundredth of the box: points are drawn at random, and more digits say nothing.
    digits = np.ceil(np.log10(100 * BOXES / span)).astype(int)
    words = ", ".join(
        f"{visible(axis)} from {number(_rounded(a, d))} to {number(_rounded(b, d))}"
        for axis, a, b, d, extends in zip(
            group["axis"].values, start, start + span / BOXES, digits, high > low, strict=True
        )
        if extends  # along an axis without extent no box lies anywhere
    )
    return Region(words, float(shares[best]))


def _rounded(value: float, digits: int) -> float:
    return round(float(value), int(digits)) + 0.0  # no minus before a zero


class Number(NamedTuple):
    """One number of an action, for a table.

    Attributes
    ----------
    label : str
    value : float
    unit : str
        "%", the name of a unit, or nothing.
    """

    label: str
    value: float
    unit: str = ""


@dataclass(frozen=True)
class Action:
    """Something to do next.

    Attributes
    ----------
    kind : str
        "observations", "evidence", "delivery", "bias" or "declare".
    title : str
        A few words.
    text : str
        What it would bring, in sentences; each line is a paragraph.
    call : str
        The Python call that computes it for this case, or what was called.
    numbers : tuple of Number
    """

    kind: str
    title: str
    text: str
    call: str = ""
    numbers: tuple[Number, ...] = ()

    @property
    def paragraphs(self) -> list[str]:
        """The text, a paragraph for each remedy that has a say."""
        return [line for line in self.text.split("\n") if line.strip()]


def first_steps(audited: Audited) -> list[Action]:
    """Return what an audit by itself can say about what to do, the most urgent first."""
    found = [each for name in audited.names for each in _of_parameter(audited, name)]
    # Parameters that ask for the same thing in the same words need to be told once.
    return list(dict.fromkeys(found))


def _of_parameter(audited: Audited, name: str) -> Iterator[Action]:
    route = Route(audited.route(name))
    if route is Route.INSPECT_ENDPOINT_DELIVERY:
        yield _deliver(audited, name)
    elif route is Route.STRENGTHEN_RESIDUAL_EVIDENCE:
        yield _strengthen(audited, name)
    elif route is Route.IMPROVE_OBSERVATIONS:
        yield _observe(audited, name)
    elif route is Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE:
        # The axis that is further beyond its tolerance comes first.
        resolution = _beyond(audited, name, "resolution")
        first = [_observe, _strengthen]
        if _beyond(audited, name, "preference") > resolution:
            first.reverse()
        yield from (make(audited, name) for make in first)
    elif route is Route.UNDETERMINED:
        yield _declare(audited, name)
    elif route is Route.WITHIN_TOLERANCE and _beyond(audited, name, "resolution") > 1:
        found = _observe(audited, name)
        # The value is good, and it was luck: another draw of the noise need not be.
        luck = f"The delivered {name} is within tolerance, but not because the data say so. "
        title = f"Before the next dataset: improve the observations of {name}"
        yield replace(found, title=title, text=luck + found.text)
    elif route is Route.SELF_CONSISTENT:
        yield _simulate(name)


def _beyond(audited: Audited, name: str, axis: str) -> float:
    """Return a measured size in units of its tolerance."""
    return audited.value("/verdict", f"{axis}_percent", name) / audited.tolerance(axis)


def _observe(audited: Audited, name: str) -> Action:
    measured = audited.value("/verdict", "resolution_percent", name)
    tolerated = audited.tolerance("resolution")
    group = audited.need("/resolution")
    count = float(group["observations"].values[group["used"].values.astype(bool)].mean())
    need = needed_observations(measured, tolerated, round(count))
    numbers = (
        Number(f"{audited.statistic} {audited.matched_noun}", measured, "%"),
        Number("tolerated", tolerated, "%"),
        Number("observations now", need.count),
        Number("observations needed, of the same kind", need.observations),
        Number("or noise, times the present", need.noise_factor),
    )
    text = (
        f"These observations resolve {name} to {percent(measured)}, and {percent(tolerated)} is "
        f"tolerated. To first order that takes {number(need.factor, '.3g')} times as many of the "
        f"same kind ({need.observations:,} for {need.count:,}), or noise of "
        f"{number(need.noise_factor, '.2g')} times the present. Sites that are chosen "
        "for their sensitivity may need far fewer."
    )
    call = "twoaxis.suggest_sites(forward, parameters, noise, 200, coordinates=...)"
    return Action("observations", f"Improve the observations of {name}", text, call, numbers)


def _strengthen(audited: Audited, name: str) -> Action:
    moved = audited.value("/score", "displacement", name)
    alignment = audited.value("/score", "alignment", name)
    tolerated = audited.tolerance("preference")
    factor = abs(moved) / _coordinate_limit(audited, name, tolerated, moved)
    numbers = [
        Number("displacement D", moved),
        Number(
            "as a share of the value", audited.value("/verdict", "preference_percent", name), "%"
        ),
        Number("tolerated", tolerated, "%"),
        Number("alignment of residual and sensitivity", alignment),
        Number("residual norm to be smaller by a factor of", factor),
    ]
    way = "up" if moved > 0 else "down"
    text = (
        f"The frozen residual pulls {name} {way} by D = {number(moved, '+.3g')}. With alignment "
        f"{number(alignment, '+.2f')} and strength as they are, the residual norm would have to be "
        f"{number(factor, '.3g')} times smaller to be tolerated; residuals that do not line up "
        "with the sensitivity do no harm."
    )
    region = strongest_pull(audited, name)
    if region is not None:
        text += f" {_where(region)}"
        numbers.append(Number("share of the pull in its strongest region", 100 * region.share, "%"))
    call = "twoaxis.evidence_map(frozen)"
    title = f"Strengthen the residual evidence about {name}"
    return Action("evidence", title, text, call, tuple(numbers))


def _coordinate_limit(audited: Audited, name: str, tolerated: float, moved: float) -> float:
    """Return the size of the displacement, on its side, that a percentage stands for."""
    parameter = audited.parameters[name]
    if parameter.coordinate == "log":
        # Downwards no displacement is larger than 100 percent: all of them are tolerated then.
        share = max(math.copysign(tolerated, moved) / 100, -1 + 1e-9)
        return abs(math.log1p(share))
    return tolerated / 100 * parameter.unit(audited.center(name))


def _where(region: Region) -> str:
    return f"The strongest pull comes from {region.words}, with {region.share:.0%} of the total."


def _deliver(audited: Audited, name: str) -> Action:
    gap = audited.value("/verdict", "gap_percent", name)
    preferred = audited.value("/delivery", "preferred", name)
    delivered = audited.delivered(name)
    if math.isnan(preferred):
        text = (
            f"The field has no minimum of {name} inside the bounds that it could have delivered; "
            "widen the bounds, or look at the frozen scan."
        )
        return Action("delivery", f"Look at the delivery of {name}", text)
    numbers = (
        Number("delivered", delivered),
        Number("preferred by the frozen field", preferred),
        Number("gap", gap, "%"),
    )
    text = (
        f"Training returned {name} = {number(delivered, '.5g')}, and its own field prefers "
        f"{number(preferred, '.5g')}: a gap of {percent(gap, '+')}. Move the parameter there, "
        "which costs nothing, and finish network and parameter together with a second-order "
        "method; what is left of the gap then was not optimisation."
    )
    call = "twoaxis.polish(frozen, objective=...)"
    return Action("delivery", f"Finish the delivery of {name}", text, call, numbers)


def _simulate(name: str) -> Action:
    text = (
        f"Training stopped where its own field wants {name}, which says nothing about a bias of "
        f"the field itself. Simulate data at the candidate, where {name} is then known, train on "
        "them in the same way, and read there how far training comes out from it."
    )
    call = "twoaxis.simulated_audit(pipeline, forward, parameters, noise)"
    return Action("bias", f"Estimate the bias of {name} by simulation", text, call)


def _declare(audited: Audited, name: str) -> Action:
    reason = audited.text("/verdict", "reason", name)
    text = f"The route of {name} is open: {reason}."
    return Action("declare", f"Measure what is missing for {name}", text)


# ---------------------------------------------------------------- as a group of the tree


def actions_group(actions: Sequence[Action]) -> xr.Dataset:
    """Return actions as the group ``/actions``."""
    numbers = [(k, each) for k, action in enumerate(actions) for each in action.numbers]
    return labelled(
        "/actions",
        {
            "kind": [action.kind for action in actions],
            "title": [action.title for action in actions],
            "text": [action.text for action in actions],
            "call": [action.call for action in actions],
            "number_action": np.array([k for k, _ in numbers], dtype=np.int64),
            "number_label": [each.label for _, each in numbers],
            "number_value": np.array([each.value for _, each in numbers], dtype=float),
            "number_unit": [each.unit for _, each in numbers],
        },
    )


def actions_from(group: xr.Dataset) -> list[Action]:
    """Return the actions that a group holds."""
    owner = group["number_action"].values
    rows = zip(
        map(str, group["number_label"].values),
        map(float, group["number_value"].values),
        map(str, group["number_unit"].values),
        strict=True,
    )
    numbers = [Number(*row) for row in rows]
    texts = {n: list(map(str, group[n].values)) for n in ("kind", "title", "text", "call")}
    return [
        Action(
            texts["kind"][k],
            texts["title"][k],
            texts["text"][k],
            texts["call"][k],
            tuple(n for n, own in zip(numbers, owner, strict=True) if own == k),
        )
        for k in range(group.sizes["action"])
    ]

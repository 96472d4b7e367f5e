"""What a refinement says besides its numbers, on splines and on networks alike."""

from __future__ import annotations

import numpy as np

from twoaxis.arrays import FloatArray
from twoaxis.observations import Observations
from twoaxis.parameters import Parameters
from twoaxis.remedies.refine.result import FREE_FIELD
from twoaxis.resolution.layouts import dropped_message
from twoaxis.result import Message, Severity

# Another minimum is told up to this deviance above the best one (a 95% interval ends at 3.84).
DEVIANCE = 4.0
# Free directions of the field from which on they are told, and the share of the observations from
# which on the field follows these rather than its equation.
FREE, MOSTLY_FREE = 0.5, 0.5
# Standard errors of the data alone may be larger than those of data and equation together by this
# factor.
AGREE = 1.25


def started_elsewhere(first: str, better: str) -> Message:
    """Say that another minimum than that of the start is reported."""
    text = (
        f"the start led to a minimum at {first}, and the one at {better}, "
        "which fits the data better, is reported"
    )
    return Message("refine.better_minimum", text)


def as_good(other: str, rise: float) -> Message:
    """Say where another minimum is about as good."""
    text = (
        f"the data are fitted about as well at {other} (deviance {rise:+.2g}): they do "
        "not decide between the two. Narrow the bounds, or observe elsewhere"
    )
    return Message("refine.other_minimum", text, "warning", {"deviance": rise})


def free_field(free: float, count: int) -> list[Message]:
    """Say where equation and conditions leave the field free, so that the data decide on it."""
    if free < FREE:
        return []
    text = (
        f"equation and conditions leave the field free in about {free:.0f} directions, such as "
        f"initial or boundary values, which were fitted to the {count} observations as well; "
        "standard errors allow for that. If the values are known, pass conditions=..."
    )
    severity: Severity = "warning" if free > MOSTLY_FREE * count else "info"
    return [Message(FREE_FIELD, text, severity, {"directions": free})]


def uncertain_errors(known: Parameters, factors: FloatArray) -> list[Message]:
    """Say where the equation seems to know more than the data, and standard errors may be wrong."""
    if (factors <= AGREE).all():
        return []
    most = int(np.argmax(factors))
    text = (
        "standard errors may be wrong, and values drawn to where the equation holds best: what the "
        f"data say, which is reported, is up to {factors[most]:.2g} times as uncertain (for "
        f"{known.names[most]}) as what data and equation say together. The data barely constrain "
        "it, or the field cannot follow the solution as it changes. Observe elsewhere, narrow the "
        "bounds, or smooth what jumps in the equation"
    )
    numbers = dict(zip(known.names, map(float, factors), strict=True))
    return [Message("refine.standard_error", text, "warning", numbers)]


def outside(count: int) -> list[Message]:
    """Say how many observations lie where the equation does not hold the field."""
    if not count:
        return []
    text = (
        f"{count} observations lie outside the range of the residual points, where the equation "
        "does not hold the field. Pass residual points there, or leave them out"
    )
    return [Message("refine.outside", text, "warning", {"count": count})]


def dropped(observations: Observations) -> list[Message]:
    """Say how many observations are missing."""
    if not observations.missing:
        return []
    return [dropped_message("data", observations.missing, observations.values.size)]

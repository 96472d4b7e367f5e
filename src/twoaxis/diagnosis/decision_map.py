"""The decision map: measured coordinates and declared tolerances in, one route out.

Nothing is computed here but comparisons. The numbers come from both axes, the tolerances from
the user, and the route says which of them decided.

The routes: what to do next.

What the application tolerates: declared by the user, never by the library.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, NamedTuple

import numpy as np

from twoaxis.errors import InputError


class Route(StrEnum):
    """What to do next about a parameter; ``route.advice`` says it in a sentence.

    The first five follow the decision map. Around a candidate, where no truth is known, only
    ``INSPECT_ENDPOINT_DELIVERY``, ``IMPROVE_OBSERVATIONS``, ``SELF_CONSISTENT`` and
    ``UNDETERMINED`` occur.
    """

    WITHIN_TOLERANCE = "within tolerance"
    INSPECT_ENDPOINT_DELIVERY = "inspect endpoint delivery"
    STRENGTHEN_RESIDUAL_EVIDENCE = "strengthen residual evidence"
    IMPROVE_OBSERVATIONS = "improve observations"
    CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE = "co-design observations and residual evidence"
    SELF_CONSISTENT = "self-consistent"
    UNDETERMINED = "undetermined"

    @property
    def advice(self) -> str:
        """The next step, as a sentence."""
        return _ADVICE[self]


_ADVICE = {
    Route.WITHIN_TOLERANCE: "Nothing needs a remedy at the declared tolerances.",
    Route.INSPECT_ENDPOINT_DELIVERY: (
        "Look at how training ended: the step size and budget of the parameter, the "
        "specification of the model, and minima elsewhere."
    ),
    Route.STRENGTHEN_RESIDUAL_EVIDENCE: (
        "Change what the residual loss tells the parameter: its view, weights, points and the "
        "field's freedom to absorb the equation; see residual norm, alignment and strength."
    ),
    Route.IMPROVE_OBSERVATIONS: (
        "Observe more, elsewhere or with less noise, or ask for less: another training method "
        "cannot supply what the data do not hold."
    ),
    Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE: (
        "Both are needed: better observations, and a residual loss that weighs the parameter "
        "rightly; neither alone will do."
    ),
    Route.SELF_CONSISTENT: (
        "Training stopped where its own field wants the parameter. Whether the field itself is "
        "displaced cannot be seen from here."
    ),
    Route.UNDETERMINED: "The measurements at hand do not decide; the reason says what is missing.",
}


Statistic = Literal["mean", "p90"]


@dataclass(frozen=True)
class Tolerance:
    """Three tolerated sizes, in percent of the parameter.

    Parameters
    ----------
    material : float
        A delivered value that is off by no more than this needs no remedy.
    resolution : float
        Observations are *tight* when matched fits to repeated noise deviate by no more than
        this, and *weak* otherwise.
    preference : float
        The field's displacement is *small* when it is no more than this, and *large* otherwise.
    statistic : {"mean", "p90"}
        What is compared with `resolution`: the mean matched deviation or its 90th percentile.

    Examples
    --------
    >>> Tolerance(material=5.0, resolution=5.0, preference=5.0).statistic
    'mean'
    """

    material: float
    resolution: float
    preference: float
    statistic: Statistic = "mean"

    def __post_init__(self) -> None:
        for name in ("material", "resolution", "preference"):
            value = getattr(self, name)
            if not _is_positive(value):
                raise InputError(
                    f"{name} as a positive, finite number of percent",
                    f"{name}={value!r}",
                    f"pass {name}=5.0 if five percent would not matter",
                )
            object.__setattr__(self, name, float(value))
        if self.statistic not in ("mean", "p90"):
            raise InputError(
                'statistic "mean" or "p90"', f"statistic={self.statistic!r}", "choose one of them"
            )


def _is_positive(value: Any) -> bool:
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return real and math.isfinite(value) and value > 0


NO_TOLERANCE = "no tolerance declared"


class Verdict(NamedTuple):
    """A route and the measurements that it rests on, in words."""

    route: Route
    reason: str


@dataclass(frozen=True)
class Measured:
    """The coordinates of one parameter, or of one direction, on the map; in percent.

    Attributes
    ----------
    around : {"truth", "candidate"}
    preference : float, optional
        Size of the field's displacement from the centre under the audited view; None where it
        is not determined, and then
    obstacle : str
        says why.
    delivered : float, optional
        Distance of the delivered value from the truth.
    resolution : float, optional
        Deviation of matched fits to repeated noise.
    training_preference : float, optional
        The same as `preference` under the view that the field was trained under, in which
        alone delivery can be read.
    training_obstacle : str
    cross_view : bool
        Whether the audited view is another one than the training view.
    """

    around: Literal["truth", "candidate"]
    preference: float | None = None
    obstacle: str = ""
    delivered: float | None = None
    resolution: float | None = None
    training_preference: float | None = None
    training_obstacle: str = ""
    cross_view: bool = False


def decide(measured: Measured, tolerance: Tolerance | None) -> Verdict:
    """Place the measurements on the decision map.

    A size *exceeds* a tolerance when it is larger; one that equals it is tolerated.

    Around a truth, in this order:

    1. The delivered error does not exceed ``material``: *within tolerance*.
    2. Otherwise the row is *tight* when the matched error does not exceed ``resolution``, else
       *weak*; the column is *small* when the field's displacement Delta does not exceed
       ``preference``, else *large*:

       =======  ==========================  ===================================
       row      small                       large
       =======  ==========================  ===================================
       tight    inspect endpoint delivery   strengthen residual evidence
       weak     improve observations        co-design observations and evidence
       =======  ==========================  ===================================

    3. *Inspect endpoint delivery* speaks of training, so under another view than the training
       view it is given only where Delta is small under the training view, too.
    4. A missing delivered value, row or column leaves the route *undetermined*.

    Around a candidate no deviation can be called an error, so ``material`` and the evidence
    column do not apply. Under the training view the displacement is minus the delivery gap:

    1. It exceeds ``preference``: *inspect endpoint delivery*.
    2. The matched deviation exceeds ``resolution``: *improve observations*.
    3. The displacement is not determined: *undetermined*.
    4. *Self-consistent*.

    Without a tolerance everything is *undetermined*.

    Examples
    --------
    >>> tolerance = Tolerance(material=5.0, resolution=5.0, preference=5.0)
    >>> found = Measured("truth", preference=19.0, delivered=21.0, resolution=2.0)
    >>> decide(found, tolerance).route.value
    'strengthen residual evidence'
    """
    if tolerance is None:
        return Verdict(Route.UNDETERMINED, NO_TOLERANCE)
    if measured.around == "truth":
        return _around_truth(measured, tolerance)
    return _around_candidate(measured, tolerance)


def _around_truth(measured: Measured, tolerance: Tolerance) -> Verdict:
    error = measured.delivered
    if error is None:
        return Verdict(Route.UNDETERMINED, "no delivered value whose error could be judged")
    if error <= tolerance.material:
        limit = f"{_percent(tolerance.material)} or less does not matter"
        return Verdict(
            Route.WITHIN_TOLERANCE, f"the delivered error is {_percent(error)}, and {limit}"
        )
    facts = [f"the delivered error of {_percent(error)} exceeds {_percent(tolerance.material)}"]
    missing = []
    weak = large = None
    if measured.resolution is None:
        missing.append("no resolution given")
    else:
        weak = measured.resolution > tolerance.resolution
        kind = "mean" if tolerance.statistic == "mean" else "90th percentile of the"
        facts.append(
            f"the observations are {'weak' if weak else 'tight'}, with a {kind} matched error "
            f"of {_against(measured.resolution, tolerance.resolution)}"
        )
    if measured.preference is None:
        missing.append(measured.obstacle or "the field's preference is not determined")
    else:
        large = measured.preference > tolerance.preference
        facts.append(
            f"the field's displacement is {'large' if large else 'small'}, "
            f"{_against(measured.preference, tolerance.preference)}"
        )
    if weak is None or large is None:
        return Verdict(Route.UNDETERMINED, "; ".join([*missing, *facts]))
    if weak:
        both = Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE
        return Verdict(both if large else Route.IMPROVE_OBSERVATIONS, "; ".join(facts))
    if large:
        return Verdict(Route.STRENGTHEN_RESIDUAL_EVIDENCE, "; ".join(facts))
    return _delivery_to_blame(measured, tolerance, facts)


def _delivery_to_blame(measured: Measured, tolerance: Tolerance, facts: list[str]) -> Verdict:
    """Tight and small: what is left is delivery, which only the training view can read."""
    if not measured.cross_view:
        return Verdict(Route.INSPECT_ENDPOINT_DELIVERY, "; ".join(facts))
    shift = measured.training_preference
    if shift is None:
        facts.append(f"delivery cannot be read: {measured.training_obstacle}")
        return Verdict(Route.UNDETERMINED, "; ".join(facts))
    under = f"under the training view it is {_against(shift, tolerance.preference)}"
    if shift > tolerance.preference:
        facts.append(f"{under}, so that the two views disagree and delivery is not to blame")
        return Verdict(Route.UNDETERMINED, "; ".join(facts))
    return Verdict(Route.INSPECT_ENDPOINT_DELIVERY, "; ".join([*facts, under]))


def _around_candidate(measured: Measured, tolerance: Tolerance) -> Verdict:
    shift, spread = measured.training_preference, measured.resolution
    facts = []
    if shift is None:
        facts.append(measured.training_obstacle or "the field's preference is not determined")
    else:
        side = "is not" if shift > tolerance.preference else "is"
        facts.append(
            f"the candidate {side} where its field wants it: the displacement from it is "
            f"{_against(shift, tolerance.preference)}"
        )
    if spread is not None:
        weak = "weak" if spread > tolerance.resolution else "tight"
        kind = "mean" if tolerance.statistic == "mean" else "90th percentile of the"
        facts.append(
            f"the observations are {weak}, with a {kind} matched deviation of "
            f"{_against(spread, tolerance.resolution)}"
        )
    if shift is not None and shift > tolerance.preference:
        route = Route.INSPECT_ENDPOINT_DELIVERY
    elif spread is not None and spread > tolerance.resolution:
        route = Route.IMPROVE_OBSERVATIONS
    else:
        route = Route.UNDETERMINED if shift is None else Route.SELF_CONSISTENT
    return Verdict(route, "; ".join(facts))


def join(verdicts: Mapping[str, Verdict]) -> Verdict:
    """Return one verdict for several parameters.

    Needs add up: a parameter that calls for observations and another that calls for evidence
    make a co-design. Evidence or observations come before delivery, a fault before what is
    undetermined, and that before what is well.
    """
    routes = {verdict.route for verdict in verdicts.values()}
    if len(verdicts) == 1:
        return next(iter(verdicts.values()))
    both = Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE
    needs = routes & {both, Route.IMPROVE_OBSERVATIONS, Route.STRENGTHEN_RESIDUAL_EVIDENCE}
    order = (
        *needs,
        Route.INSPECT_ENDPOINT_DELIVERY,
        Route.UNDETERMINED,
        Route.WITHIN_TOLERANCE,
        Route.SELF_CONSISTENT,
    )
    route = both if len(needs) > 1 else next(r for r in order if r in routes)
    reasons = [v.reason for v in verdicts.values()]
    if len(set(reasons)) == 1:
        return Verdict(route, reasons[0])
    return Verdict(route, ". ".join(f"For {n}, {v.reason}" for n, v in verdicts.items()))


def _percent(value: float) -> str:
    return f"{value:.3g} percent"


def _against(value: float, limit: float) -> str:
    """Say on which side of a limit a value lies; digits are added until they show it."""
    digits = 3
    while digits < 17 and value != limit and f"{value:.{digits}g}" == f"{limit:.{digits}g}":
        digits += 1
    side = "above" if value > limit else "within"
    return f"{value:.{digits}g} percent ({side} {limit:.{digits}g})"

"""The decision map: measured coordinates and declared tolerances in, one route out.

Around a truth, a delivered error within the material tolerance ends the search. Otherwise:

=====================================  =========================  ================================
                                       displacement small         displacement large
=====================================  =========================  ================================
observations tight                     inspect endpoint delivery  strengthen residual evidence
observations loose ("weak" in the      improve observations       co-design observations and
paper)                                                            residual evidence
=====================================  =========================  ================================

Where no truth is known, an order of questions comes first (`twoaxis.diagnosis.questions`): the two
axes speak only when the forward model describes the data, the network fits them, training has
finished and the data do not contradict the delivered value.

Nothing is computed here but comparisons: `decide` has the rules for one parameter, `join` those
for several. The numbers come from both axes (`twoaxis.diagnosis.verdict` collects them), the
tolerances from the user, and the reason says which of them decided.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from twoaxis.arrays import is_real
from twoaxis.errors import InputError
from twoaxis.text import percent


class Route(StrEnum):
    """What to do next about a parameter; ``route.advice`` says it in a sentence.

    The first five follow the decision map around a truth. Around a candidate, where no truth is
    known, the next five come from the questions that are asked first
    (`twoaxis.diagnosis.questions`); of the map, only ``INSPECT_ENDPOINT_DELIVERY``,
    ``IMPROVE_OBSERVATIONS``, ``CONSISTENT_WITH_DATA``, ``WITHIN_TOLERANCE``, ``SELF_CONSISTENT``
    and ``UNDETERMINED`` occur there.

    Examples
    --------
    >>> import twoaxis as ta
    >>> route = ta.Route("improve observations")
    >>> route is ta.Route.IMPROVE_OBSERVATIONS
    True
    >>> route.advice.split(",")[0]
    'Observe more'
    """

    WITHIN_TOLERANCE = "within tolerance"
    INSPECT_ENDPOINT_DELIVERY = "inspect endpoint delivery"
    STRENGTHEN_RESIDUAL_EVIDENCE = "strengthen residual evidence"
    IMPROVE_OBSERVATIONS = "improve observations"
    CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE = "co-design observations and residual evidence"
    MODEL_DOES_NOT_FIT = "the forward model does not describe these data"
    FIELD_DOES_NOT_FIT = "the network has not fitted the data"
    FIELD_FITS_NOISE = "the network has fitted the noise"
    TRAINING_NOT_FINISHED = "training has not finished"
    CONTRADICTED_BY_DATA = "contradicted by the data"
    CONSISTENT_WITH_DATA = "consistent with the data"
    SELF_CONSISTENT = "self-consistent"
    UNDETERMINED = "undetermined"

    @property
    def advice(self) -> str:
        """The next step, as a sentence."""
        return _ADVICE[self]


# In this order they outrank each other, and every route of the map.
QUESTION_ROUTES = (
    Route.MODEL_DOES_NOT_FIT,
    Route.FIELD_DOES_NOT_FIT,
    Route.FIELD_FITS_NOISE,
    Route.TRAINING_NOT_FINISHED,
    Route.CONTRADICTED_BY_DATA,
)

_ADVICE = {
    Route.WITHIN_TOLERANCE: "Nothing needs a remedy at the declared tolerances.",
    Route.INSPECT_ENDPOINT_DELIVERY: (
        "Look at how training ended: learning rate and number of steps of the parameter, the "
        "specification of the model, and other minima."
    ),
    Route.STRENGTHEN_RESIDUAL_EVIDENCE: (
        "Change what the residual loss says about the parameter: its view, weights, points and "
        "the field's freedom to absorb the equation; see residual norm, alignment and strength."
    ),
    Route.IMPROVE_OBSERVATIONS: (
        "Observe more, at other sites, with less noise or another quantity, or accept a larger "
        "tolerance: another training method cannot supply what the data do not contain."
    ),
    Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE: (
        "Both are needed: better observations, and a residual loss with more evidence about the "
        "parameter; neither alone is enough."
    ),
    Route.MODEL_DOES_NOT_FIT: (
        "No parameter value can be trusted before the forward model fits: look at its equations, "
        "its conditions, its numerical accuracy, the declared noise and single bad readings."
    ),
    Route.FIELD_DOES_NOT_FIT: (
        "Let the network fit the data first: a larger weight of the data loss, more capacity, "
        "or inputs and outputs that are scaled to about one."
    ),
    Route.FIELD_FITS_NOISE: (
        "The field follows the noise: a larger weight of the residual loss, more residual points, "
        "a smaller network or earlier stopping."
    ),
    Route.TRAINING_NOT_FINISHED: "Train longer before anything else.",
    Route.CONTRADICTED_BY_DATA: (
        "Do not report the delivered value: use the matched fit and its interval, and look at what "
        "the field prefers to find the cause."
    ),
    Route.CONSISTENT_WITH_DATA: (
        "The delivered value explains the data as well as they can tell, and it is the value that "
        "its own field prefers. Report it with the interval of the matched fit."
    ),
    Route.SELF_CONSISTENT: (
        "Training stopped at the value that its own field prefers. Whether the field itself is "
        "displaced cannot be determined without a known value."
    ),
    Route.UNDETERMINED: "The measurements do not decide; the reason says what is missing.",
}


Statistic = Literal["mean", "p90"]


@dataclass(frozen=True)
class Tolerance:
    """Three tolerated sizes, in percent of the parameter.

    Parameters
    ----------
    material : float
        A delivered value whose error is at most this needs no remedy.
    resolution : float
        Observations are *tight* when matched fits to repeated noise deviate by at most this,
        and *loose* otherwise.
    preference : float
        The field displacement is *small* when it is at most this, and *large* otherwise.
    statistic : {"mean", "p90"}
        What is compared with `resolution`: the mean matched deviation or its 90th percentile.
    assumed : bool
        Whether somebody other than the user chose these numbers, for example a default of the
        command line. The audit says so.

    Examples
    --------
    >>> Tolerance(material=5.0, resolution=5.0, preference=5.0).statistic
    'mean'
    """

    material: float
    resolution: float
    preference: float
    statistic: Statistic = "mean"
    assumed: bool = False

    def __post_init__(self) -> None:
        for name in ("material", "resolution", "preference"):
            value = getattr(self, name)
            if not _is_positive(value):
                raise InputError(
                    f"{name} as a positive, finite number, in percent",
                    f"{name}={value!r}",
                    f"pass {name}=5.0 to tolerate 5%",
                )
            object.__setattr__(self, name, float(value))
        if self.statistic not in ("mean", "p90"):
            raise InputError(
                'statistic "mean" or "p90"', f"statistic={self.statistic!r}", "choose one of them"
            )


def _is_positive(value: Any) -> bool:
    real = is_real(value)
    return real and math.isfinite(value) and value > 0


NO_TOLERANCE = "no tolerance declared"

# The cells of the map by column (displacement) and row (observations); None is both rows.
Cell = tuple[str, str | None]
AROUND_TRUTH: Mapping[Cell, Route] = {
    ("small", "tight"): Route.INSPECT_ENDPOINT_DELIVERY,
    ("large", "tight"): Route.STRENGTHEN_RESIDUAL_EVIDENCE,
    ("small", "loose"): Route.IMPROVE_OBSERVATIONS,
    ("large", "loose"): Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE,
}
AROUND_CANDIDATE: Mapping[Cell, Route] = {
    ("small", "tight"): Route.SELF_CONSISTENT,
    ("small", "loose"): Route.IMPROVE_OBSERVATIONS,
    ("large", None): Route.INSPECT_ENDPOINT_DELIVERY,
}
# The same where the data were asked, and do not contradict the delivered value.
CONSISTENT: Mapping[Cell, Route] = {
    **AROUND_CANDIDATE,
    ("small", "tight"): Route.CONSISTENT_WITH_DATA,
}
# The same where they contradict it, but by no more than the material tolerance.
TOLERATED: Mapping[Cell, Route] = {
    **AROUND_CANDIDATE,
    ("small", "tight"): Route.WITHIN_TOLERANCE,
}


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
        Size of the field displacement from the center under the audited view; None where it
        is not determined.
    obstacle : str
        Why it is not determined.
    delivered : float, optional
        Distance of the delivered value from the truth.
    resolution : float, optional
        Deviation of matched fits to repeated noise.
    training_preference : float, optional
        The same as `preference` under the view that the field was trained under, in which
        alone delivery can be assessed.
    training_obstacle : str
    cross_view : bool
        Whether the audited view differs from the training view.
    agrees : bool
        Whether the data were asked, and do not contradict the delivered value.
    tolerated : bool
        Whether they do contradict it, but it differs from the matched fit by no more than the
        material tolerance.
    """

    around: Literal["truth", "candidate"]
    preference: float | None = None
    obstacle: str = ""
    delivered: float | None = None
    resolution: float | None = None
    training_preference: float | None = None
    training_obstacle: str = ""
    cross_view: bool = False
    agrees: bool = False
    tolerated: bool = False


def decide(measured: Measured, tolerance: Tolerance | None) -> Verdict:
    """Place the measurements on the decision map.

    A size *exceeds* a tolerance when it is larger; one that equals it is tolerated.

    Around a truth, in this order:

    1. The delivered error does not exceed ``material``: *within tolerance*.
    2. Otherwise the row is *tight* when the matched error does not exceed ``resolution``, else
       *loose*; the column is *small* when the field displacement Delta does not exceed
       ``preference``, else *large*. `AROUND_TRUTH` has the route of each cell.
    3. *Inspect endpoint delivery* is about training, so when the audited view differs from the
       training view it is given only where Delta is small under the training view, too.
    4. A missing delivered value, row or column leaves the route *undetermined*.

    Around a candidate no deviation can be called an error, so ``material`` and the evidence
    column do not apply (`AROUND_CANDIDATE`). Under the training view the displacement is minus
    the delivery gap:

    1. It exceeds ``preference``: *inspect endpoint delivery*.
    2. The matched deviation exceeds ``resolution``: *improve observations*.
    3. The displacement is not determined: *undetermined*.
    4. The data contradict the delivered value, but by no more than ``material``: *within
       tolerance*.
    5. *Consistent with the data*; without data to ask, *self-consistent*.

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
        return Verdict(Route.UNDETERMINED, "no delivered value whose error could be assessed")
    against = _against(error, tolerance.material)
    if error <= tolerance.material:
        return Verdict(Route.WITHIN_TOLERANCE, f"the delivered error is {against}")
    facts, missing = [f"the delivered error is {against}"], []
    row = column = None
    if measured.resolution is None:
        missing.append("no resolution given")
    else:
        row, fact = _row(measured.resolution, tolerance, "matched error")
        facts.append(fact)
    if measured.preference is None:
        missing.append(measured.obstacle or "the field displacement is not determined")
    else:
        column = "large" if measured.preference > tolerance.preference else "small"
        against = _against(measured.preference, tolerance.preference)
        facts.append(f"the field displacement is {column}, {against}")
    if row is None or column is None:
        return Verdict(Route.UNDETERMINED, "; ".join([*missing, *facts]))
    route = AROUND_TRUTH[column, row]
    if route is Route.INSPECT_ENDPOINT_DELIVERY and measured.cross_view:
        return _delivery_across_views(measured, tolerance, facts)
    return Verdict(route, "; ".join(facts))


def _row(deviation: float, tolerance: Tolerance, noun: str) -> tuple[str, str]:
    """Return the row of the map, and the fact that it rests on."""
    row = "loose" if deviation > tolerance.resolution else "tight"
    kind = "mean" if tolerance.statistic == "mean" else "90th percentile of the"
    against = _against(deviation, tolerance.resolution)
    return row, f"the observations are {row}, with a {kind} {noun} of {against}"


def _delivery_across_views(measured: Measured, tolerance: Tolerance, facts: list[str]) -> Verdict:
    """Tight and small: what is left is delivery, which only the training view can assess."""
    shift = measured.training_preference
    if shift is None:
        facts.append(f"delivery cannot be assessed: {measured.training_obstacle}")
        return Verdict(Route.UNDETERMINED, "; ".join(facts))
    under = f"under the training view it is {_against(shift, tolerance.preference)}"
    if shift > tolerance.preference:
        facts.append(f"{under}: the two views disagree, and delivery is not the cause")
        return Verdict(Route.UNDETERMINED, "; ".join(facts))
    return Verdict(Route.INSPECT_ENDPOINT_DELIVERY, "; ".join([*facts, under]))


def _around_candidate(measured: Measured, tolerance: Tolerance) -> Verdict:
    shift, spread = measured.training_preference, measured.resolution
    facts = []
    row = column = None
    if shift is None:
        facts.append(measured.training_obstacle or "the field displacement is not determined")
    else:
        column = "large" if shift > tolerance.preference else "small"
        side = "is not" if column == "large" else "is"
        facts.append(
            f"the candidate {side} the value that its field prefers: the displacement from it is "
            f"{_against(shift, tolerance.preference)}"
        )
    if spread is not None:
        row, fact = _row(spread, tolerance, "matched deviation")
        facts.append(fact)
    cells = CONSISTENT if measured.agrees else AROUND_CANDIDATE
    if measured.tolerated:
        cells = TOLERATED
        facts.append(
            "the data tell it from the matched fit, but the two differ by no more than the "
            f"tolerance of {tolerance.material:g}%"
        )
    if column == "large":
        route = cells["large", None]
    elif row == "loose":
        route = cells["small", "loose"]
    else:
        route = Route.UNDETERMINED if column is None else cells["small", "tight"]
    return Verdict(route, "; ".join(facts))


def join(verdicts: Mapping[str, Verdict]) -> Verdict:
    """Return one verdict for several parameters.

    What a question led to comes first. Needs add up: if one parameter calls for observations and
    another for evidence, the route is co-design. Evidence and observations come before delivery,
    these before undetermined, and that before within tolerance and (self-)consistent.
    """
    routes = {verdict.route for verdict in verdicts.values()}
    if len(verdicts) == 1:
        return next(iter(verdicts.values()))
    both = Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE
    needs = routes & {both, Route.IMPROVE_OBSERVATIONS, Route.STRENGTHEN_RESIDUAL_EVIDENCE}
    order = (
        *QUESTION_ROUTES,
        *needs,
        Route.INSPECT_ENDPOINT_DELIVERY,
        Route.UNDETERMINED,
        Route.WITHIN_TOLERANCE,
        Route.SELF_CONSISTENT,
        Route.CONSISTENT_WITH_DATA,
    )
    route = next(r for r in order if r in routes)
    if route in needs and len(needs) > 1:
        route = both
    reasons = [v.reason for v in verdicts.values()]
    if len(set(reasons)) == 1:
        return Verdict(route, reasons[0])
    return Verdict(route, ". ".join(f"For {n}, {v.reason}" for n, v in verdicts.items()))


def _against(value: float, limit: float) -> str:
    """Say on which side of a limit a value lies; digits are added until they show it."""
    digits = 3
    while digits < 17 and value != limit and f"{value:.{digits}g}" == f"{limit:.{digits}g}":
        digits += 1
    side = "above" if value > limit else "within"
    shown = percent(value) if digits == 3 else f"{value:.{digits}g}%"
    return f"{shown} ({side} the tolerance of {limit:.{digits}g}%)"

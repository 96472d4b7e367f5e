"""The routes: what to do next."""

from __future__ import annotations

from enum import StrEnum


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

"""What the pipeline delivered on the observed data: given, or found by running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twoaxis.errors import InputError
from twoaxis.parameters import Parameter
from twoaxis.remedies.calibration.rerun import Rerun

if TYPE_CHECKING:
    from twoaxis.remedies.calibration.calibration import Calibration


def observed_estimate(
    found: Calibration, data: Any, estimate: float | None
) -> tuple[float, dict[str, Any]]:
    """Return the delivered value, and what it cost to know it."""
    if (data is None) == (estimate is None):
        raise InputError(
            "the observed data, or the estimate that the pipeline made of them",
            "neither" if data is None else "both",
            "pass data=..., or estimate=...",
        )
    if estimate is not None:
        return checked_estimate(found.parameter, estimate), {}
    if not isinstance(found.live, Rerun):
        raise InputError(
            "a calibration that still has its pipeline, to run it on the data",
            "one from a file or from another process",
            "run the pipeline on the data and pass estimate=...",
        )
    value = delivered_on(found.live, found.live.simulator.observed(data))
    return value, {"runs_used": found.retrainings + 1, "rerun": 1}


def checked_estimate(parameter: Parameter, estimate: Any) -> float:
    """Return an estimate as a float that the parameter's coordinate can hold."""
    real = isinstance(estimate, (int, float, np.integer, np.floating))
    real = real and not isinstance(estimate, bool) and bool(np.isfinite(estimate))
    if not real or (parameter.coordinate == "log" and estimate <= 0):
        kind = "a positive, finite number" if parameter.coordinate == "log" else "a finite number"
        raise InputError(
            f"the estimate as {kind}", f"estimate={estimate!r}", "pass what the pipeline delivered"
        )
    parameter.unit(float(estimate))  # says what is missing where percentages would not be defined
    return float(estimate)


def delivered_on(rerun: Rerun, values: Any) -> float:
    """Run the pipeline on the observed values."""
    (answer,) = rerun.answers(values[None], rerun.seeds[:1], "the observed data")
    if answer.failure:
        raise InputError(
            "a pipeline that answers on the observed data",
            answer.failure,
            "correct it first: where the real data give no estimate, no candidate can be ruled out",
        )
    return checked_estimate(rerun.parameter, answer.delivered[rerun.name])

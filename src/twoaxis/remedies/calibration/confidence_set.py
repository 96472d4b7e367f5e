"""The front door: from observed data to a confidence set, the pipeline's own bias included.

What the pipeline delivered on the observed data: given, or found by running it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from twoaxis.errors import InputError
from twoaxis.parameters import Parameter
from twoaxis.remedies.calibration.calibrate import extended, first_round, prepare
from twoaxis.remedies.calibration.inversion import (
    SetInterval,
    crossings,
    intervals,
    refined,
    settled,
)
from twoaxis.remedies.calibration.pipeline import Rerun, check_count
from twoaxis.remedies.calibration.ranks import Statistic, check_level, medians, rank_bounds
from twoaxis.remedies.calibration.result import Calibration, ConfidenceSet, build_set


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


def confidence_set(
    pipeline: Callable[..., Any],
    forward: Callable[..., Any],
    parameters: Mapping[str, Parameter],
    noise: ArrayLike,
    data: ArrayLike | None = None,
    *,
    estimate: float | None = None,
    level: float = 0.9,
    statistic: Statistic = "signed",
    layout: ArrayLike | None = None,
    candidates: int | ArrayLike = 17,
    interval: tuple[float, float] | None = None,
    replicas: int = 59,
    refine: int = 4,
    budget: int | None = None,
    seed: int | Sequence[int] = 0,
    vectorized: bool | None = None,
    vectorized_forward: bool = False,
    progress: bool = True,
) -> ConfidenceSet:
    """Find the parameters that could have led to what the pipeline delivered.

    The pipeline is run again on data simulated at a grid of candidates. A candidate stays in the
    set when the delivered value is typical of what the pipeline answers there, by its rank. The
    set then holds the truth with the stated probability, however biased the pipeline is, if the
    simulator and the noise describe the data.

    The guarantee holds at the candidates that were tested. Between them the bounds are
    interpolated linearly in the coordinate, and refinement puts candidates where that matters.

    Parameters
    ----------
    pipeline, forward, parameters, noise, layout, candidates, interval, replicas, seed
        As for `twoaxis.calibrate`.
    vectorized, vectorized_forward, progress
        As for `twoaxis.calibrate`.
    data : array, optional
        The observed values, in the order of `layout` or in the shape of forward's output. The
        pipeline runs on them once.
    estimate : float, optional
        What the pipeline delivered, in place of `data`. Without both, ``delivered`` of the
        parameter.
    level : float
        Confidence level.
    statistic : {"signed", "absolute"}
        Rank the signed error, with equal tails, or its size. The signed one moves with a bias,
        where the absolute one widens.
    refine : int
        The most rounds in which candidates are added where the edges of the set lie. They end
        as soon as a round moves every edge by less than a tenth of the set's width.
    budget : int, optional
        Runs of the pipeline that are allowed. The grid must fit in; refinement stops there.

    Returns
    -------
    ConfidenceSet

    Examples
    --------
    >>> import numpy as np
    >>> from twoaxis import Parameter
    >>> found = confidence_set(
    ...     lambda values, seed: 1.3 * values.mean(),
    ...     lambda height: height * np.ones(20),
    ...     {"height": Parameter(bounds=(0.5, 2.0))}, noise=0.2, data=np.full(20, 1.0),
    ...     candidates=5, replicas=19,
    ... )
    >>> found.contains(1.0), found.contains(1.3), found.estimate
    (True, False, 1.3)
    """
    count = check_count("replicas", replicas, 2)
    check_level(level, statistic, count)
    check_count("refine", refine, 0)
    rerun, grid = prepare(
        pipeline,
        forward,
        parameters,
        noise,
        layout=layout,
        candidates=candidates,
        interval=interval,
        replicas=replicas,
        seed=seed,
        vectorized=vectorized,
        vectorized_forward=vectorized_forward,
        progress=progress,
    )
    allowed = _checked_budget(budget, len(grid) * count + (data is not None), len(grid), count)
    delivered, cost = _delivered(rerun, data, estimate)
    found = first_round(rerun, grid, seed)
    found, rounds = _refined(found, rerun, delivered, level, statistic, refine, allowed - cost)
    extra = {
        "runs_used": found.retrainings + cost,
        "budget": 0 if budget is None else int(budget),
        "rounds": rounds,
        "rerun": cost,
    }
    return build_set(found, delivered, level, statistic, extra)


def _refined(
    found: Calibration,
    rerun: Rerun,
    delivered: float,
    level: float,
    statistic: Statistic,
    rounds: int,
    allowed: float,
) -> tuple[Calibration, int]:
    """Add candidates where the edges lie, until they stand still; return how many rounds did."""
    observed = float(found.parameter.to_coordinate(delivered))
    parts = _parts(found, observed, level, statistic)
    for number in range(1, rounds + 1):
        more = _more(found, observed, parts)
        room = (allowed - found.retrainings) / found.replicas
        more = more[: int(min(room, len(more)))]
        if not len(more):
            return found, number - 1
        found = extended(found, rerun, more, number)
        before, parts = parts, _parts(found, observed, level, statistic)
        if settled(before, parts):
            return found, number
    return found, rounds


def _parts(
    found: Calibration, observed: float, level: float, statistic: Statistic
) -> list[SetInterval]:
    """Return the intervals of the set so far, in coordinates."""
    q = found.coordinates
    return intervals(q, *rank_bounds(found.estimates, q, level, statistic), observed)


def _more(found: Calibration, observed: float, parts: list[SetInterval]) -> Any:
    """Return physical values of further candidates."""
    p, q = found.parameter, found.coordinates
    middle = crossings(q, medians(found.estimates), observed)
    fresh = p.to_value(refined(q, parts, middle[~np.isnan(middle)]))
    # Halving ends where neighbours are one rounding apart.
    return fresh[~np.isin(fresh, found.candidates)]


def _delivered(rerun: Rerun, data: Any, estimate: float | None) -> tuple[float, int]:
    """Return the delivered value and how many runs it cost."""
    if data is not None and estimate is not None:
        raise InputError(
            "the observed data, or the estimate that the pipeline made of them",
            "both",
            "leave the estimate out to have the pipeline run on the data",
        )
    if data is not None:
        return delivered_on(rerun, rerun.simulator.observed(data)), 1
    known = rerun.parameter.delivered if estimate is None else estimate
    if known is None:
        raise InputError(
            "the observed data, or the estimate that the pipeline made of them",
            "neither",
            "pass data=... or estimate=..., or give the parameter its delivered value",
        )
    return checked_estimate(rerun.parameter, known), 0


def _checked_budget(budget: Any, needed: int, candidates: int, replicas: int) -> float:
    if budget is None:
        return np.inf
    if check_count("budget", budget, 1) < needed:
        raise InputError(
            f"a budget of at least {needed} runs for {candidates} candidates with {replicas} "
            "replicas each",
            f"budget={budget}",
            "allow more runs, or ask for fewer candidates or replicas",
        )
    return float(budget)

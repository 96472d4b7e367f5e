"""Refinement of a model of another library, in NumPy, with the derivatives of its adapter."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import AccuracyWarning
from twoaxis.frozen import FrozenResidual
from twoaxis.gauss_newton import Continuation
from twoaxis.observations import Observations
from twoaxis.parameters import Parameters
from twoaxis.progress import Advance, progress_bar
from twoaxis.remedies.refine.basins import DEVIANCE, find_rivals
from twoaxis.remedies.refine.result import FREE_FIELD, End, Refinement, refinement
from twoaxis.remedies.refine.stacked_model import Reduced, StackedModel
from twoaxis.remedies.refine.stages import Stages, most_steps
from twoaxis.resolution.layouts import dropped_message
from twoaxis.result import Message, Severity

FloatArray = NDArray[np.float64]

# How often a refinement begins again where another minimum may lie, at most.
MOST_RIVALS = 2
# Fewer steps than for a network that has not been trained.
OF_A_MODEL = Continuation(first=10, free=1e4, steps=5, free_steps=12, more=8)
# At the end the field has done what it can, and a larger weight costs nothing: the data, which hold
# the field back as the parameters change, count the less for its sensitivities.
HEAVIER = 10.0
# Free directions of the field from which on they are told, and the share of the observations from
# which on the field follows these rather than its equation.
FREE, MOSTLY_FREE = 0.5, 0.5
# Standard errors of the data alone may be larger than those of data and equation together by this
# factor.
AGREE = 1.25


def refine_model(
    frozen: FrozenResidual,
    data: Any,
    noise: float | None,
    continuation: Continuation | None,
    seed: int,
    progress: bool,
) -> Refinement:
    """Refine a model of another library, in NumPy, with its own derivatives."""
    began = time.perf_counter()
    model = StackedModel(frozen, data, noise)
    few_points = _few_points(model)
    for message in few_points:  # known before the long part begins
        warnings.warn(message.text, AccuracyWarning, stacklevel=3)
    plan, generator = continuation or OF_A_MODEL, np.random.default_rng(seed)
    with progress_bar("refining", most_steps(plan), progress) as advance:
        stages = Stages(model, plan, generator, model.weights.start, model.start)
        stages.go(advance)
        stages, others = _lowest(model, plan, generator, stages, advance)
    path, weights, q = stages.path, stages.weights, stages.q
    # Again, for the field as it ended: it went along with the last move of the parameters.
    reduced = model.reduced(weights, q, HEAVIER * stages.weight)
    path.errors[-1] = np.sqrt(np.diag(reduced.covariance))

    def at(where: FloatArray) -> tuple[FloatArray, FloatArray]:
        values = np.asarray(model.weights.field(weights, where), dtype=float).ravel()
        return values, model.weights.field_jacobian(weights, where) @ reduced.tangent

    basis = reduced.free_basis()

    def free_at(where: FloatArray) -> FloatArray:
        return model.weights.field_jacobian(weights, where) @ basis

    end = End(
        coordinates=q,
        covariance=reduced.covariance,
        sensitivity=model.fitted_jacobian(weights) @ reduced.tangent,
        fitted=model.fitted(weights),
        data=model.data,
        sites=model.sites,
        noise=model.noise,
        freedom=np.inf if model.given_noise is not None else model.freedom,
        settled=stages.settled,
        free=reduced.free,
        free_moves=model.fitted_jacobian(weights) @ basis,
    )
    found = refinement(
        model.known,
        path,
        end,
        model.weights.how,
        time.perf_counter() - began,
        [
            *few_points,
            *_dropped(model.observations),
            *_free_field(reduced.free, model.data.size),
            *_uncertain_errors(model.known, reduced),
            *_beyond(model.outside),
            *others,
        ],
    )
    refined = model.weights.frozen(weights, found.values)
    found.frozen = _with_readings(refined, model, weights)
    found.before_frozen = _with_readings(frozen, model, model.weights.start)
    found._sensitivity_at = at
    if found.free_directions:
        found._free_at = free_at
    return found


def _lowest(
    model: StackedModel,
    plan: Continuation,
    generator: np.random.Generator,
    ended: Stages,
    advance: Advance,
) -> tuple[Stages, list[Message]]:
    """Refine again from where other minima may lie; return the best, and say what there is."""
    messages: list[Message] = []
    rivals = find_rivals(model, ended.weights, ended.q, plan.first)
    for _ in range(MOST_RIVALS):
        if not rivals:
            break
        kept, noise = _chi2(model, ended), (model.noise, model.free)
        model.restart(rivals[0].weights)
        other = Stages(model, plan, generator, rivals[0].weights, rivals[0].q)
        other.go(advance)
        apart = bool((np.abs(other.q - ended.q) > np.minimum(ended.errors, other.errors)).any())
        rise = (_chi2(model, other) - kept) / min(model.noise, noise[0]) ** 2
        good = apart and other.settled and rise < DEVIANCE
        if good and (rise < -DEVIANCE or not ended.settled):
            messages = [_started_elsewhere(model, ended.q, other.q)]
            ended = other
            rivals = find_rivals(model, ended.weights, ended.q, plan.first)
            continue
        model.noise, model.free = noise
        rivals = rivals[1:]
        if good:
            messages.append(_as_good(model, other.q, rise))
            break
    return ended, messages


def _chi2(model: StackedModel, stages: Stages) -> float:
    """Return the sum of squares by which a refined field misses the data, in their units."""
    return float(((model.fitted(stages.weights) - model.data) ** 2).sum())


def _started_elsewhere(model: StackedModel, q: FloatArray, better: FloatArray) -> Message:
    text = (
        f"the start led to a minimum at {model.shown(q)}, and the one at {model.shown(better)}, "
        "which fits the data better, is reported"
    )
    return Message("refine.better_minimum", text)


def _as_good(model: StackedModel, q: FloatArray, rise: float) -> Message:
    text = (
        f"the data are fitted about as well at {model.shown(q)} (deviance {rise:+.2g}): they do "
        "not decide between the two. Narrow the bounds, or observe elsewhere"
    )
    return Message("refine.other_minimum", text, "warning", {"deviance": rise})


def _few_points(model: StackedModel) -> list[Message]:
    """Say where the equation cannot hold the field between its points."""
    start = model.weights.start
    rows, weights = model.values(start, model.start, model.points, 1.0).size, start.size
    rows -= model.data.size
    if rows > weights:
        return []
    text = (
        f"the equation and the conditions give {rows:,} numbers for {weights:,} weights: the field "
        "may bend between the points, and standard errors may be wrong. Pass more residual points"
    )
    return [Message("refine.few_points", text, "warning", {"rows": rows, "weights": weights})]


def _free_field(free: float, count: int) -> list[Message]:
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


def _uncertain_errors(known: Parameters, reduced: Reduced) -> list[Message]:
    """Say where the equation seems to know more than the data, and standard errors may be wrong."""
    factors = np.sqrt(np.diag(reduced.covariance) / np.diag(reduced.together))
    if (factors <= AGREE).all():
        return []
    most = int(np.argmax(factors))
    text = (
        "standard errors may be wrong, and values drawn to where the equation holds best: what the "
        f"data say, which is reported, is up to {factors[most]:.2g} times as uncertain (for "
        f"{known.names[most]}) as what data and equation say together. The data hardly determine "
        "it, or the network cannot follow the solution as it changes. Observe elsewhere, train a "
        "wider network, or pass more residual points"
    )
    numbers = dict(zip(known.names, map(float, factors), strict=True))
    return [Message("refine.standard_error", text, "warning", numbers)]


def _beyond(count: int) -> list[Message]:
    if not count:
        return []
    text = (
        f"{count} observations lie outside the range of the residual points, where the equation "
        "does not hold the field. Pass residual points there, or leave them out"
    )
    return [Message("refine.outside", text, "warning", {"count": count})]


def _dropped(observations: Observations) -> list[Message]:
    """Say how many observations are missing."""
    if not observations.missing:
        return []
    return [dropped_message("data", observations.missing, observations.values.size)]


def _with_readings(
    frozen: FrozenResidual, model: StackedModel, weights: FloatArray
) -> FrozenResidual:
    """Return a residual that carries the readings that it was refined to, one value in a row."""
    if model.as_frozen:
        return frozen
    fitted = model.fitted(weights)
    return replace(frozen, observed=model.sites, data=model.data, fitted=fitted, fields=())

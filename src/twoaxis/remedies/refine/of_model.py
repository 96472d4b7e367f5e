"""Refinement of a model of another library, in NumPy, with the derivatives of its adapter."""

from __future__ import annotations

import time
import warnings

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import AccuracyWarning
from twoaxis.frozen import FrozenResidual
from twoaxis.gauss_newton import Continuation
from twoaxis.observations import Observations
from twoaxis.progress import Advance, progress_bar
from twoaxis.remedies.refine.basins import find_rivals
from twoaxis.remedies.refine.notes import (
    DEVIANCE,
    as_good,
    dropped,
    free_field,
    outside,
    started_elsewhere,
    uncertain_errors,
)
from twoaxis.remedies.refine.observed import count_outside, with_readings
from twoaxis.remedies.refine.result import End, Refinement, check_enough, refinement
from twoaxis.remedies.refine.stacked_model import StackedModel
from twoaxis.remedies.refine.stages import Stages, most_steps
from twoaxis.resolution.layouts import Noise
from twoaxis.result import Message

FloatArray = NDArray[np.float64]

# How often a refinement begins again where another minimum may lie, at most.
MOST_RIVALS = 2
# Fewer steps than for a network that has not been trained.
OF_A_MODEL = Continuation(first=10, free=1e4, steps=5, free_steps=12, more=8)
# At the end the field has done what it can, and a larger weight costs nothing: the data, which hold
# the field back as the parameters change, count the less for its sensitivities.
HEAVIER = 10.0


def refine_model(
    frozen: FrozenResidual,
    observations: Observations,
    continuation: Continuation | None,
    seed: int,
    progress: bool,
    why: str,
) -> Refinement:
    """Refine a model of another library, in NumPy, with its own derivatives."""
    began = time.perf_counter()
    check_enough(observations.count, len(frozen.known))
    model = StackedModel(frozen, observations)
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
        noise=Noise(
            np.full(model.data.size, model.noise),
            np.inf if model.given_noise is not None else model.freedom,
        ),
        settled=stages.settled,
        free=reduced.free,
        free_moves=model.fitted_jacobian(weights) @ basis,
    )
    found = refinement(
        model.known,
        path,
        end,
        f"the network itself, because {why}; {model.weights.how}",
        time.perf_counter() - began,
        [
            *few_points,
            *dropped(model.observations),
            *free_field(reduced.free, model.data.size),
            *uncertain_errors(model.known, reduced.ratios),
            *outside(count_outside(frozen.points, model.sites)),
            *others,
        ],
    )
    refined = model.weights.frozen(weights, found.values)
    found.frozen = _with_readings(refined, model, weights)
    found.before_frozen = _with_readings(frozen, model, model.weights.start)
    found._sensitivity_at = at
    if found.free_directions:
        found._free_at, found._free_moves = free_at, end.free_moves
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
            messages = [started_elsewhere(model.shown(ended.q), model.shown(other.q))]
            ended = other
            rivals = find_rivals(model, ended.weights, ended.q, plan.first)
            continue
        model.noise, model.free = noise
        rivals = rivals[1:]
        if good:
            messages.append(as_good(model.shown(other.q), rise))
            break
    return ended, messages


def _chi2(model: StackedModel, stages: Stages) -> float:
    """Return the sum of squares by which a refined field misses the data, in their units."""
    return float(((model.fitted(stages.weights) - model.data) ** 2).sum())


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


def _with_readings(
    frozen: FrozenResidual, model: StackedModel, weights: FloatArray
) -> FrozenResidual:
    """Return a residual that carries the readings that it was refined to, one value in a row."""
    if model.as_frozen:
        return frozen
    return with_readings(frozen, model.sites, model.data, model.fitted(weights))

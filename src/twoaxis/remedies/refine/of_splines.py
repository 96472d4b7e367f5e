"""Refinement on splines of any model whose network can be replaced by another field."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import qmc

from twoaxis.adapters.foreign import typical_values
from twoaxis.adapters.jets import FieldSlot
from twoaxis.adapters.model_weights import ModelWeights
from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.observations import Observations
from twoaxis.progress import Advance, progress_bar
from twoaxis.remedies.refine.coordinates import shown
from twoaxis.remedies.refine.notes import (
    DEVIANCE,
    as_good,
    dropped,
    free_field,
    started_elsewhere,
    uncertain_errors,
)
from twoaxis.remedies.refine.observed import with_readings
from twoaxis.remedies.refine.result import End, Path, Refinement, check_enough, refinement
from twoaxis.remedies.refine.spline_continuation import (
    LITTLE,
    MAX_STAGES,
    Ending,
    FreeField,
    Minimizer,
    continued,
    first_weight,
)
from twoaxis.remedies.refine.spline_problem import NoSplinesError, SplineProblem, State
from twoaxis.remedies.refine.spline_starts import preferred, projected, smoothed
from twoaxis.resolution.layouts import Noise
from twoaxis.threads import one_thread

# Starts drawn in the box of the parameters, by the number of axes.
DRAWN = {1: 8, 2: 4, 3: 2}
# Starts that lead so near to each other, in `coordinate_steps`, are one.
SAME = 0.1
# Rounds in which equations of hidden components join, while parameters rest.
ROUNDS = 3
# How many of them are followed to the end, by the number of axes.
FOLLOWED = {1: 5, 2: 2, 3: 2}
# A box is the domain where none of its parts, with so many points each on average, is empty.
POINTS_EACH, MOST_PARTS = 12, 8


@dataclass(frozen=True, eq=False)
class Trial:
    """A start on its way: the problem in its units, and the minimum at the first weight."""

    problem: SplineProblem
    state: State


def spline_problem(
    frozen: FrozenResidual, experiments: Sequence[Sequence[Observations]]
) -> tuple[SplineProblem | None, str]:
    """Return a model with a field of splines, or None and the reason why there is none."""
    weights = frozen.weights
    if not isinstance(weights, ModelWeights):
        return None, "the model is known as a function of its weights alone"
    if frozen.residual_at is None:
        return None, "the residual is known at its points alone"
    points = frozen.points if isinstance(frozen.points, tuple) else (frozen.points,)
    if len({part.shape[1] for part in points}) > 1 or points[0].shape[1] not in DRAWN:
        return None, "the equations do not have one domain of one to three variables"
    slot = weights.slot()
    if slot is None:
        return None, "no other field can take the place of the network"
    if not all(each.pointwise for each in slot.equations):
        return None, "a residual at one point depends on others"
    if len(points) > 1 and not _alike(points):
        return None, "the equations have domains of their own"
    every = np.concatenate(points)
    if not fills_box(every):
        return None, "the residual points do not fill a box"
    observed = [(k, each) for k, kinds in enumerate(experiments) for each in kinds]
    numbers, _ = weights.numbers(typical_values(frozen.known))
    few = every[:: max(1, len(every) // 8)]
    if not all(len(each.places(numbers, few)) for each in slot.equations):
        return None, "the residual does not call the network"
    if not all(each.stays(numbers, few) for each in slot.equations):
        return None, "the residual calls the network at places that depend on parameters"
    box = _box(slot, every, np.concatenate([each.sites for _, each in observed]))
    slot = slot.repeated(len(experiments))
    try:
        return SplineProblem(slot, weights, frozen.known, observed, box), ""
    except NoSplinesError:
        return None, "the residual takes no derivative of the field, or one beyond the fourth"


def _alike(points: Sequence[FloatArray]) -> bool:
    """Whether sets of points have the same range, to a tenth of it."""
    low = np.array([part.min(axis=0) for part in points])
    high = np.array([part.max(axis=0) for part in points])
    reach = 0.1 * (high.max(axis=0) - low.min(axis=0))
    return bool((np.ptp(low, axis=0) <= reach).all() and (np.ptp(high, axis=0) <= reach).all())


def fills_box(points: FloatArray) -> bool:
    """Whether points lie everywhere in their box."""
    count, axes = points.shape
    parts = min(int((count / POINTS_EACH) ** (1 / axes)), MOST_PARTS)
    if axes == 1 or parts < 2:
        return True
    return bool((np.histogramdd(points, bins=parts)[0] > 0).all())


def _box(slot: FieldSlot, points: FloatArray, places: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper ends of all points, places and those of the conditions."""
    every = [points, places]
    if slot.conditions is not None:
        every.append(slot.conditions.places(np.zeros(0), np.zeros((1, 1))))
    joined = np.concatenate(every)
    return joined.min(axis=0), joined.max(axis=0)


def refined_on_splines(
    frozen: FrozenResidual,
    experiments: Sequence[Sequence[Observations]],
    seed: int,
    progress: bool,
    *,
    trained: bool = True,
) -> tuple[Refinement | None, str]:
    """Refine a model on splines, or return None and the reason why nothing can.

    `trained` says whether its network is a start, and is to be compared with.
    """
    check_enough(sum(each.count for kinds in experiments for each in kinds), len(frozen.known))
    problem, why = spline_problem(frozen, experiments)
    if problem is None:
        return None, why
    return refine_on_splines(frozen if trained else None, problem, seed, progress), ""


def refine_on_splines(
    frozen: FrozenResidual | None,
    problem: SplineProblem,
    seed: int,
    progress: bool,
) -> Refinement:
    """Refine with a field of splines in the place of the network.

    Parameters
    ----------
    frozen : FrozenResidual or None
        The trained model; None where there is none, and its network is no start.
    problem : SplineProblem
    seed : int
        Of the drawn starts.
    progress : bool
    """
    began = time.perf_counter()
    generator = np.random.default_rng(seed)
    splines, points = problem.splines.size * problem.slot.outputs, len(problem.splines.gauss()[0])
    title = f"refining {splines} splines at {points} points"
    with one_thread(), progress_bar(title, 2 * MAX_STAGES, progress) as advance:
        ending, notes = _best(problem, frozen, generator, advance)
        return _result(ending, time.perf_counter() - began, notes, frozen)


def _best(
    problem: SplineProblem,
    frozen: FrozenResidual | None,
    generator: np.random.Generator,
    advance: Advance,
) -> tuple[Ending, list[Any]]:
    """Follow the starts, and return the best end with what the others say."""

    def report(state: State) -> None:
        advance(1, shown(problem.known, state.q))

    trials = _apart(problem, _starts(problem, frozen is not None, generator))
    kept = trials[: FOLLOWED[problem.slot.inputs]]
    endings = [continued(trial.problem, trial.state, report=report) for trial in kept]
    best = min(endings, key=lambda each: (not each.settled, each.deviance))
    notes = []
    first, rest = endings[0], [each for each in endings if each is not best and each.settled]
    if best is not first and frozen is not None and not _same(best, first):
        at = [shown(problem.known, each.state.q) for each in (first, best)]
        notes.append(started_elsewhere(*at))
    others = [each for each in rest if not _same(best, each)]
    rises = [each.deviance - best.deviance for each in others]
    if best.settled and rises and min(rises) < DEVIANCE:
        other = others[int(np.argmin(rises))]
        notes.append(as_good(shown(problem.known, other.state.q), min(rises)))
    return best, notes


def _same(one: Ending, other: Ending) -> bool:
    """Whether two ends are one minimum."""
    errors = np.minimum(one.linear.standard_errors, other.linear.standard_errors)
    return bool((np.abs(one.state.q - other.state.q) <= errors).all())


def _starts(
    problem: SplineProblem, trained: bool, generator: np.random.Generator
) -> list[tuple[State, bool]]:
    """Return states to start from, the most promising first, and whether parameters rest first."""
    base = smoothed(problem)
    if not problem.depends_on_parameters(base):
        raise InputError(
            "a residual that depends on a parameter",
            "one that does not change with any of them",
            "check the names of the parameters in the residual",
        )
    problem.readings.update_levels(problem.misfit(base))
    problem.measure(base)
    found = []
    if trained:
        found.append((projected(problem, problem.slot.network), False))
    if problem.sees_all:
        found.append((preferred(problem, base), False))
    found.append((base, True))
    low, high = problem.known.coordinate_bounds
    count = DRAWN[problem.slot.inputs]
    drawn = qmc.Sobol(low.size, rng=generator).random(count) * (high - low) + low
    return [*found, *((State(base.coefficients, q), True) for q in drawn)]


def _apart(problem: SplineProblem, starts: Sequence[tuple[State, bool]]) -> list[Trial]:
    """Find the minimum at the first weight from each start; return those that differ."""
    weight, trials = first_weight(problem), list[Trial]()
    for state, rests in starts:
        own = copy.copy(problem)
        own.readings = copy.copy(problem.readings)  # with noise levels of its own
        own.measure(state)
        own.restrain(state)
        minimizer = Minimizer(own)
        for _ in range(ROUNDS if rests else 0):
            every = own.all_count
            state = minimizer.minimize(state, weight, 1.0, hold=True)
            own.measure(state)
            if every:
                break
        state = minimizer.minimize(state, weight, LITTLE)
        own.measure(state)
        near = [np.abs(state.q - each.state.q) <= SAME * problem.steps for each in trials]
        if not any(each.all() for each in near):
            trials.append(Trial(own, state))
    return trials


def _result(
    ending: Ending,
    seconds: float,
    notes: Sequence[Any],
    frozen: FrozenResidual | None,
) -> Refinement:
    """Return what a continuation found."""
    problem, state, linear = ending.problem, ending.state, ending.linear
    data, known = problem.readings, problem.known
    free = FreeField.of(linear, ending.stacked)
    predicted, rows = problem.observed_rows(state)
    tangent = linear.tangent / problem.steps
    freedom = np.inf if data.noise_known else max(1.0, data.count - len(known) - free.count)
    end = End(
        coordinates=state.q,
        covariance=linear.covariance,
        sensitivity=rows @ tangent,
        fitted=predicted,
        data=data.values,
        sites=np.concatenate([each.sites for each in data.sets]),
        noise=Noise(data.covariance(), freedom),
        settled=ending.settled,
        free=free.count,
        free_moves=rows @ free.basis,
    )
    stages = ending.stages
    path = Path(
        [each.weight for each in stages],
        [each.misfit for each in stages],
        [each.residual for each in stages],
        [each.q for each in stages],
        [*(each.standard_errors for each in stages[:-1]), linear.standard_errors],
    )
    shape = " x ".join(str(size) for size in problem.splines.shape)
    fields = "" if problem.slot.outputs == 1 else f" for each of {problem.slot.outputs} outputs"
    found = refinement(
        known,
        path,
        end,
        f"a field of {shape} splines{fields}",
        seconds,
        [
            *(note for each in data.sets for note in dropped(each.observations)),
            *free_field(free.count, data.count),
            *uncertain_errors(known, ending.ratios),
            *notes,
        ],
    )
    if problem.slot.experiments == 1:
        refined = problem.slot.freeze(
            problem.splines, state.coefficients, known.delivering(found.values)
        )
        found.frozen = _with_readings(refined, problem, predicted)
    if frozen is not None:
        network = problem.delivered_predictions()
        found.before_frozen = _with_readings(frozen, problem, network)

    def along(where: FloatArray, directions: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, slopes = problem.field_at(state, where)
        return values, slopes @ directions

    found._sensitivity_at = lambda where: along(where, tangent)
    if found.free_directions:
        found._free_at = lambda where: along(where, free.basis)[1]
        found._free_moves = end.free_moves
    return found


def _with_readings(
    frozen: FrozenResidual, problem: SplineProblem, predicted: FloatArray
) -> FrozenResidual:
    """Return a residual with the readings, unless they are its own observations."""
    sets = problem.readings.sets
    data = sets[0].observations
    same = (
        len(sets) == 1
        and frozen.observed is not None
        and np.array_equal(frozen.observed, data.sites)
        and np.size(frozen.fitted) == data.count
        and data.transform is None
    )
    sites = np.concatenate([each.sites for each in sets])
    return frozen if same else with_readings(frozen, sites, problem.readings.values, predicted)

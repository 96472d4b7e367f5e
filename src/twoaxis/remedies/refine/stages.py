"""The stages of a refinement: steps of the field while the weight of its equation grows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.gauss_newton import (
    FIRST_DAMPING,
    INERTIA,
    LEAST_DAMPING,
    LESS,
    LONGEST,
    MORE,
    MOST_DAMPING,
    TRIES,
    Continuation,
    damped_step,
)
from twoaxis.progress import Advance
from twoaxis.remedies.refine.result import UNSATISFIED, Path, equation_share
from twoaxis.remedies.refine.stacked_model import DENSE, StackedModel

FloatArray = NDArray[np.float64]

# Collocation points of a step, at least: see `drawn_points`.
POINTS = 800
# With precise data a refinement may end before its largest weight where standard errors changed by
# at most this share over a stage, and the field fits the data and obeys the equation.
FLAT = 0.01
# A field that misses the data by more than so many noise variances is fitted to them first, in at
# most so many steps.
MISSES, FITTING_STEPS = 4.0, 30
# Parameters that rest are released early where the data contradict them: where the field misses
# the data by more than so many noise variances, after the equation had this least weight.
CONTRADICTED, LEAST_FREE = 9.0, 100.0
# A stage whose field does not fit or does not obey the equation goes on while its steps lower the
# loss by more than this share, for at most so many steps; the largest fall counts, halved with
# each step after it.
LAGS, MOST_EXTRA, FORGET = 0.001, 60, 0.5


class Field:
    """A field on its way: its weights, and the state of its damped steps.

    Attributes
    ----------
    weights : array
    fall : float
        The share by which the last step lowered the loss.
    """

    def __init__(self, model: StackedModel, weights: FloatArray) -> None:
        self.weights, self.fall = weights, 0.0
        self._model = model
        self._damping, self._momentum = FIRST_DAMPING, np.zeros_like(weights)

    def move(self, q: FloatArray, points: Any, weight: float) -> None:
        """Try a damped step at held parameters, with more damping while it helps nothing."""
        model, state = self._model, (q, points, weight)
        before = model.values(self.weights, *state)
        jacobian, _ = model.jacobian(self.weights, *state)
        model.check_squares(q, before, jacobian)
        inertia, size = INERTIA * self._momentum, before @ before
        for _ in range(TRIES):
            try:
                change = damped_step(jacobian, before, self._damping, inertia, solve_damped)
            except np.linalg.LinAlgError:
                change = np.full_like(self.weights, np.nan)
            moved = self.weights + change
            after = model.values(moved, *state) if np.isfinite(moved).all() else before + np.inf
            if np.isfinite(after).all() and after @ after < size:
                self.weights, self._momentum = moved, change
                self._damping = max(self._damping * LESS, LEAST_DAMPING)
                self.fall = 1 - float(after @ after) / float(size)
                return
            self._damping = min(self._damping * MORE, MOST_DAMPING)
            inertia = np.zeros_like(inertia)
        self._momentum, self.fall = np.zeros_like(self.weights), 0.0


class Stages:
    """Field and parameters on their way, while the weight of the equation grows.

    Attributes
    ----------
    field : Field
    q : array, shape (d,)
        Coordinates of the parameters.
    weight : float
        Of the equation, in the last step.
    plan : Continuation
        As it was given, and as the refinement changes it.
    path : Path
    errors : array, shape (d,)
        Standard errors of the coordinates by data and equation.
    settled : bool
    """

    def __init__(
        self,
        model: StackedModel,
        plan: Continuation,
        generator: np.random.Generator,
        weights: FloatArray,
        q: FloatArray,
    ) -> None:
        self.q = q
        self.field = Field(model, _fitted_first(model, np.array(weights), q))
        model.measure(self.weights, q)
        self.plan, self.path, self.settled, self.weight = plan, Path(), False, 0.0
        self._model, self._given, self._generator = model, plan, generator
        self._gain, self._points = model.gain, model.points
        self._number = self._extra = 0  # steps of the plan, and those beside it in this stage
        self._fall, self._near = 0.0, False
        self.errors = np.full(self.q.size, np.inf)

    @property
    def weights(self) -> FloatArray:
        """Of the field."""
        return self.field.weights

    def go(self, advance: Advance) -> None:
        """Take steps until the parameters have settled, or the plan ends."""
        while self._number < self.plan.all_steps and not self.settled:
            self._move_field()
            waits = self._field_lags()
            advance(0 if waits else 1, self._model.shown(self.q))
            if waits:
                self._extra += 1
                continue
            self._number, self._extra = self._number + 1, 0
            if self.plan.ends_stage(self._number - 1):
                self._end_stage()
            else:
                misfit = self._model.misfit(self.weights)
                self.plan = _released(self.plan, self._number, misfit)

    def _move_field(self) -> None:
        """Take a step of the field, with the parameters held."""
        model = self._model
        self.weight = float(self.plan.weight(self._number, np)) * self._gain
        if (self._number + self._extra) % self.plan.resample == 0:
            self._points = drawn_points(model, self.weights, self.q, self._generator)
        self.field.move(self.q, self._points, self.weight)
        self._fall = max(self.field.fall, FORGET * self._fall)

    def _field_lags(self) -> bool:
        """Whether a stage waits for its field, which has not followed and still moves."""
        ends = self.plan.ends_stage(self._number) and self._near
        helps = self._fall > LAGS and self._extra < MOST_EXTRA
        return bool(ends and helps and not self._follows())

    def _follows(self) -> bool:
        return self._model.follows(self.weights, self.q, self.weight)

    def _end_stage(self) -> None:
        """Move the parameters, let the field go along, and see whether they have settled."""
        model, path = self._model, self.path
        model.update_noise(self.weights)
        reduced = model.reduced(self.weights, self.q, self.weight)
        model.free = reduced.free
        before, self.errors = self.errors, np.sqrt(np.diag(reduced.together))
        low, high = model.known.coordinate_bounds
        most = LONGEST * model.steps
        self._near = bool((np.abs(reduced.step) < most).all())
        moved = np.clip(self.q + np.clip(reduced.step, -most, most), low, high)
        self.field.weights = _followed(
            model, self.weights, reduced.tangent, self.q, moved, self.weight
        )
        move, self.q = np.abs(moved - self.q), moved
        path.weight.append(self.weight)
        path.misfit.append(model.misfit(self.weights))
        path.residual.append(model.rms_residual(self.weights, self.q))
        path.coordinates.append(self.q)
        path.errors.append(np.sqrt(np.diag(reduced.covariance)))
        follows = self._follows()
        self._limit_weight(bool((move <= self.errors).all()), follows)
        inside = bool(((self.q > low) & (self.q < high)).all())
        flat = follows and bool((np.abs(self.errors / before - 1) <= FLAT).all())
        enough = self.plan.plateau * (1.0 if flat else self._gain)
        quiet = bool((move <= self.plan.settled * self.errors).all())
        self.settled = inside and quiet and self.weight >= enough

    def _limit_weight(self, rests: bool, follows: bool) -> None:
        """Stop the weight where the network cannot obey any better, until it can again."""
        plan, given = self.plan, self._given
        if rests and _exhausted(self.path, self._model.data.size):
            last = self.weight / self._gain
            self.plan = replace(plan, last=last, plateau=min(plan.plateau, last))
        elif follows and plan.last < given.last:
            self._number = plan.all_steps - plan.more * plan.free_steps  # where the weight stopped
            self.plan = replace(plan, last=given.last, plateau=given.plateau)


def _released(plan: Continuation, step: int, misfit: float) -> Continuation:
    """Return a continuation that releases the parameters now, where the data contradict them.

    The larger the weight of the equation, the closer is the field to the solution for parameters
    that rest. If that solution misses the data, the field has a long way back, in a valley that
    grows narrower with the weight.
    """
    weight = float(plan.weight(step, np))
    ends = step < plan.rest and step % plan.steps == 0
    if ends and weight >= LEAST_FREE and misfit > CONTRADICTED:
        return replace(plan, free=weight)
    return plan


def _exhausted(path: Path, count: int) -> bool:
    """Whether the field obeys the equation as well as its network can, for parameters at rest.

    Then a larger weight makes the term of the equation larger, and the residual that is left
    pulls the parameters away from what the data say.
    """
    shares = [
        equation_share(weight, residual, count)
        for weight, residual in zip(path.weight[-2:], path.residual[-2:], strict=True)
    ]
    return len(shares) > 1 and shares[1] > max(UNSATISFIED, shares[0])


def _followed(
    model: StackedModel,
    weights: FloatArray,
    tangent: FloatArray,
    q: FloatArray,
    moved: FloatArray,
    weight: float,
) -> FloatArray:
    """Let the field go along as the parameters move, where that does lower the loss."""
    ahead = weights + tangent @ (moved - q)
    stays, goes = (
        float((model.values(each, moved, model.points, weight) ** 2).sum())
        for each in (weights, ahead)
    )
    return ahead if goes < stays else weights


def _fitted_first(model: StackedModel, weights: FloatArray, q: FloatArray) -> FloatArray:
    """Fit the data alone for a few steps where the field misses them: a unit needs a field."""
    field = Field(model, weights)
    for _ in range(FITTING_STEPS):
        with np.errstate(over="ignore", invalid="ignore"):
            before = model.values(field.weights, q, model.points, 0.0)
            size = before @ before
        if not np.isfinite(size):
            raise InputError(
                "a residual and a field that are finite at the start, and so are their squares",
                f"values of up to {np.abs(before).max():.3g}, in noise levels",
                "train the model first, or check its residual and the noise level",
            )
        if size <= MISSES * model.data.size:
            break
        field.move(q, model.points, 0.0)
    return field.weights


def drawn_points(
    model: StackedModel, weights: FloatArray, q: FloatArray, generator: np.random.Generator
) -> Any:
    """Draw collocation points among the model's own, the more often the larger the residual.

    As many that a step has more rows than weights: with fewer it would fit the drawn points
    exactly, and leave the equation where it was in between.
    """
    if isinstance(model.points, tuple) or len(model.points) <= POINTS:
        return model.points
    if model.frozen.residual_at is None:  # it is known at its points alone
        return model.points
    size = np.abs(model.residual(weights, q, model.points)).reshape(-1, len(model.points))
    count = max(POINTS, (DENSE * weights.size - model.data.size) // len(size))
    if len(model.points) <= count:
        return model.points
    size = size.sum(axis=0)  # over the equations
    chance = 1 + size / max(float(size.mean()), 1e-300)
    chosen = generator.choice(len(model.points), count, replace=False, p=chance / chance.sum())
    return model.points[chosen]


def solve_damped(matrix: FloatArray, damping: float, right: FloatArray) -> FloatArray:
    """Solve with a symmetric matrix that is positive definite with its damping."""
    from scipy.linalg import cho_factor, cho_solve

    damped = matrix + damping * np.eye(len(matrix))
    return np.asarray(cho_solve(cho_factor(damped, lower=True, check_finite=False), right))


def most_steps(plan: Continuation) -> int:
    """Return the number of steps if the parameters are released as early as may be."""
    early = replace(plan, free=max(plan.first, min(plan.free, LEAST_FREE)))
    return max(plan.all_steps, early.all_steps)

"""Refinement of a model of another library, in NumPy, with the derivatives of its adapter."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.arrays import real_array
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
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
    coordinate_steps,
    damped_step,
)
from twoaxis.parameters import Parameters
from twoaxis.progress import progress_bar
from twoaxis.remedies.refine.result import (
    UNSATISFIED,
    End,
    Path,
    Refinement,
    check_enough,
    equation_share,
    most_misfit,
    per_coordinate,
    refinement,
)
from twoaxis.result import Message, Severity
from twoaxis.weighted_model import WeightedModel

FloatArray = NDArray[np.float64]

# Fewer steps than for a network that has not been trained.
OF_A_MODEL = Continuation(first=10, free=1e4, steps=5, free_steps=12, more=8)
# Ridges of the information matrix, relative to the mean of its diagonal. They hold weights that
# neither the data nor the equation determine; too large a one holds the others, too.
RIDGES = (1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-7)
# Collocation points of a step, at least: see `_drawn`.
POINTS = 800
# Sum of squared ratios of signal to noise that the weights of a continuation are meant for, and the
# largest factor for more precise data: beyond it linear systems lose their digits.
USUAL, MOST_GAIN = 2000.0, 1e4
# With such data a refinement may end before that weight where standard errors changed by at most
# this share over a stage, and the field fits the data and obeys the equation.
FLAT = 0.01
# Rows of a step, and points of an interval, for each weight; of the latter up to so many.
DENSE, MOST_POINTS = 2, 1200
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

# Free directions of the field from which on they are told, and the share of the observations from
# which on the field follows these rather than its equation.
FREE, MOSTLY_FREE = 0.5, 0.5

# Standard errors of the data alone may be larger than those of data and equation together by this
# factor. Information that the data do not determine is taken as this share of what they do.
AGREE, LEAST_INFORMATION = 1.25, 1e-12
# At the end the field has done what it can, and a larger weight costs nothing: the data, which hold
# the field back as the parameters change, count the less for its sensitivities.
HEAVIER = 10.0

# Share of the range of the residual points by which observations may lie outside it: random points
# do not reach the boundary.
BEYOND = 0.05


class _Model:
    """A model with weights, its observations and its residual in comparable units."""

    def __init__(self, frozen: FrozenResidual, data: Any, noise: float | None) -> None:
        self.frozen, self.known = frozen, frozen.known
        if frozen.weights is None:
            raise InputError(
                "a frozen residual of a network whose weights can be moved",
                "one of a function",
                "freeze the model with twoaxis.from_torch, from_jax, from_deepxde, from_pina or "
                "from_jinns",
            )
        self.weights: WeightedModel = frozen.weights
        if frozen.observed is None:
            raise InputError(
                "a frozen residual that knows where its observations lie",
                "none",
                "pass observed=... to the adapter",
            )
        self.sites = np.asarray(frozen.observed, dtype=float)
        self.outside = _outside(frozen.points, self.sites)
        self.points = _dense(frozen.points, self.weights.start.size)
        self.data = _observations(frozen, data)
        self.known.require("delivered")
        check_enough(self.data.size, len(self.known))
        self.steps = coordinate_steps(self.known)
        self.given_noise = noise
        self.free = 0.0
        self.noise = noise if noise is not None else self._spread(self.weights.start)
        self.unit = 1.0

    def measure(self, weights: FloatArray, q: FloatArray) -> None:
        """Take the size of the residual's derivatives by the parameters as its unit."""
        _, slopes = self.weights.residual_jacobian(weights, self.points, **self.physical(q))
        size = float(((slopes * self.by_step(q)) ** 2).sum(axis=1).mean())
        if not size > 0:
            raise InputError(
                "a residual that depends on a parameter",
                "one that does not change with any of them",
                "check the names of the parameters in the residual",
            )
        self.unit = float(np.sqrt(size))

    def by_step(self, q: FloatArray) -> FloatArray:
        """Return the derivatives of the physical values by steps of the coordinates."""
        return per_coordinate(self.known, q) * self.steps

    @property
    def start(self) -> FloatArray:
        return self.known.coordinates(self.known.require("delivered"))

    def _spread(self, weights: FloatArray) -> float:
        rest = self.fitted(weights) - self.data
        freedom = max(1.0, rest.size - len(self.known) - self.free)
        # Data without noise: the sixth digit of their spread stands for it.
        least = 1e-6 * float(np.std(self.data)) or 1e-300
        return max(float(np.sqrt((rest**2).sum() / freedom)), least)

    def update_noise(self, weights: FloatArray) -> None:
        if self.given_noise is None:
            self.noise = self._spread(weights)

    def misfit(self, weights: FloatArray) -> float:
        """Return the mean square by which a field misses the data, in noise variances."""
        return float((((self.fitted(weights) - self.data) / self.noise) ** 2).mean())

    def fitted(self, weights: FloatArray) -> FloatArray:
        return np.asarray(self.weights.field(weights, self.sites), dtype=float).ravel()

    def physical(self, q: FloatArray) -> dict[str, float]:
        return self.frozen.physical(q)

    def residual(self, weights: FloatArray, q: FloatArray, points: FloatArray) -> FloatArray:
        found = self.weights.residual(weights, points, **self.physical(q))
        return np.asarray(found, dtype=float) / self.unit

    def rms_residual(self, weights: FloatArray, q: FloatArray) -> float:
        return float(np.sqrt((self.residual(weights, q, self.points) ** 2).mean()))

    def follows(self, weights: FloatArray, q: FloatArray, weight: float) -> bool:
        """Whether a field fits the data and obeys the equation well enough to be trusted."""
        count = self.data.size
        share = equation_share(weight, self.rms_residual(weights, q), count)
        return self.misfit(weights) <= most_misfit(count) and share <= UNSATISFIED

    @property
    def gain(self) -> float:
        """How much more the equation must weigh for data as precise as these.

        On the plateau it outweighs the data many times, so its weight follows the sum of their
        squared ratios of signal to noise; the weights of a continuation are meant for `USUAL`.
        """
        precision = float(((self.data / self.noise) ** 2).sum())
        return float(np.clip(precision / USUAL, 1.0, MOST_GAIN))

    def values(self, weights: FloatArray, q: FloatArray, points: Any, weight: float) -> FloatArray:
        """Return the stacked residual: data, equation, conditions."""
        return np.concatenate(
            [
                (self.fitted(weights) - self.data) / self.noise,
                np.sqrt(weight / _count(points)) * self.residual(weights, q, points),
                np.sqrt(weight) / self.unit * self.weights.conditions(weights),
            ]
        )

    def jacobian(
        self, weights: FloatArray, q: FloatArray, points: Any, weight: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return its derivatives by the weights, and by steps of the coordinates."""
        inside, slopes = self.weights.residual_jacobian(weights, points, **self.physical(q))
        factor = np.sqrt(weight / _count(points)) / self.unit
        field = self.weights.field_jacobian(weights, self.sites) / self.noise
        edge = np.sqrt(weight) / self.unit * self.weights.conditions_jacobian(weights)
        by_steps = np.zeros((len(field) + len(inside) + len(edge), len(q)))
        by_steps[len(field) : len(field) + len(inside)] = factor * slopes * self.by_step(q)
        return np.concatenate([field, factor * inside, edge]), by_steps


def _dense(points: Any, weights: int) -> Any:
    """Return more points along an interval: with fewer of them than weights a field could bend.

    In more dimensions only the model knows its domain, and its own points are all there are.
    """
    if isinstance(points, tuple) or points.shape[1] > 1 or len(points) >= DENSE * weights:
        return points
    count = min(DENSE * weights, MOST_POINTS)
    return np.linspace(points.min(), points.max(), max(count, len(points)))[:, None]


def _outside(points: Any, sites: FloatArray) -> int:
    """Count observed points beyond the range of the residual points; refuse it if all are."""
    every = points if isinstance(points, tuple) else (points,)
    if any(part.shape[1] != sites.shape[1] for part in every):
        return 0
    low = np.min([part.min(axis=0) for part in every], axis=0)
    high = np.max([part.max(axis=0) for part in every], axis=0)
    slack = BEYOND * (high - low)
    beyond = ((sites < low - slack) | (sites > high + slack)).any(axis=1)
    if beyond.all():
        raise InputError(
            f"observations within the range of the residual points, {low} to {high}",
            f"{len(sites)} outside it, the first at {sites[0]}",
            "check the order and the units of their coordinates, or pass residual points there",
        )
    return int(beyond.sum())


def _beyond(count: int) -> list[Message]:
    if not count:
        return []
    text = (
        f"{count} observations lie outside the range of the residual points, where the equation "
        "does not hold the field. Pass residual points there, or leave them out"
    )
    return [Message("refine.outside", text, "warning", {"count": count})]


def _count(points: Any) -> int:
    """Return the number of collocation points."""
    return sum(map(len, points)) if isinstance(points, tuple) else len(points)


def _observations(frozen: FrozenResidual, data: Any) -> FloatArray:
    chosen = frozen.data if data is None else data
    if chosen is None:
        raise InputError(
            "observations to refine to", "none", "pass data=..., in the order of observed"
        )
    values = real_array("data", chosen)
    expected = np.shape(frozen.fitted)
    if values.size != int(np.prod(expected)) or not np.isfinite(values).all():
        raise InputError(
            f"finite data in the shape of the observations, {expected}",
            f"shape {values.shape}, {int((~np.isfinite(values)).sum())} values not finite",
            "give one value per observation, and leave missing ones out with their points",
        )
    return values.astype(float).ravel()


def refine_model(
    frozen: FrozenResidual,
    data: Any,
    noise: float | None,
    continuation: Continuation | None,
    seed: int,
    progress: bool,
) -> Refinement:
    """Refine a model of another library, in NumPy, with its own derivatives."""
    plan = whole = continuation or OF_A_MODEL
    model = _Model(frozen, data, noise)
    generator = np.random.default_rng(seed)
    weights, q = np.array(model.weights.start), model.start
    low, high = model.known.coordinate_bounds
    damping, momentum = FIRST_DAMPING, np.zeros_like(weights)
    points = model.points
    path, settled, began = Path(), False, time.perf_counter()
    weights = _fitted_first(model, weights, q)
    model.measure(weights, q)
    gain = model.gain
    with progress_bar("refining", _most_steps(plan), progress) as advance:
        step, extra, fall, near = 0, 0, 0.0, False
        errors_before = np.full(q.size, np.inf)
        while step < plan.all_steps:
            weight = float(plan.weight(step, np)) * gain
            if (step + extra) % plan.resample == 0:
                points = _drawn(model, weights, q, generator)
            before = model.values(weights, q, points, weight)
            jacobian, _ = model.jacobian(weights, q, points, weight)
            weights, damping, momentum, now = _step(
                model, weights, q, points, weight, before, jacobian, damping, momentum
            )
            fall = max(now, FORGET * fall)
            lags = plan.ends_stage(step) and near and fall > LAGS and extra < MOST_EXTRA
            if lags and not model.follows(weights, q, weight):
                extra += 1
                advance(0, _shown(model.physical(q)))
                continue
            advance(1, _shown(model.physical(q)))
            step, extra = step + 1, 0
            if not plan.ends_stage(step - 1):
                plan = _released(plan, step, model.misfit(weights))
                continue
            model.update_noise(weights)
            reduced = _reduced(model, weights, q, weight)
            errors, model.free = np.sqrt(np.diag(reduced.together)), reduced.free
            most = LONGEST * model.steps
            near = bool((np.abs(reduced.step) < most).all())
            moved = np.clip(q + np.clip(reduced.step, -most, most), low, high)
            weights = _followed(model, weights, reduced.tangent, q, moved, weight)
            move, q = moved - q, moved
            path.weight.append(weight)
            path.misfit.append(model.misfit(weights))
            path.residual.append(model.rms_residual(weights, q))
            path.coordinates.append(q)
            path.errors.append(np.sqrt(np.diag(reduced.covariance)))
            follows = model.follows(weights, q, weight)
            if bool((np.abs(move) <= errors).all()) and _exhausted(path, model.data.size):
                plan = replace(plan, last=weight / gain, plateau=min(plan.plateau, weight / gain))
            elif follows and plan.last < whole.last:
                step = plan.all_steps - plan.more * plan.free_steps  # where the weight stopped
                plan = replace(plan, last=whole.last, plateau=whole.plateau)
            inside = bool(((q > low) & (q < high)).all())
            flat = follows and bool((np.abs(errors / errors_before - 1) <= FLAT).all())
            errors_before = errors
            settled = (
                inside
                and weight >= plan.plateau * (1.0 if flat else gain)
                and bool((np.abs(move) <= plan.settled * errors).all())
            )
            if settled:
                break
    # Again, for the field as it ended: it went along with the last move of the parameters.
    reduced = _reduced(model, weights, q, HEAVIER * weight)
    path.errors[-1] = np.sqrt(np.diag(reduced.covariance))

    def at(where: FloatArray) -> tuple[FloatArray, FloatArray]:
        values = np.asarray(model.weights.field(weights, where), dtype=float).ravel()
        return values, model.weights.field_jacobian(weights, where) @ reduced.tangent

    fitted, sensitivity = at(model.sites)
    end = End(
        coordinates=q,
        covariance=reduced.covariance,
        sensitivity=sensitivity,
        fitted=fitted,
        data=model.data,
        sites=_repeated(model.sites, model.data.size),
        noise=model.noise,
        noise_estimated=noise is None,
        settled=settled,
    )
    rows = model.values(weights, q, model.points, 1.0).size - model.data.size
    found = refinement(
        model.known,
        path,
        end,
        model.weights.how,
        time.perf_counter() - began,
        [
            *_few_points(rows, weights.size),
            *_free_field(reduced.free, model.data.size),
            *_uncertain_errors(model.known, reduced),
            *_beyond(model.outside),
        ],
    )
    found.frozen = model.weights.frozen(weights, found.values)
    found.before_frozen = frozen
    found._sensitivity_at = at
    return found


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


def _shown(values: dict[str, float]) -> str:
    return ", ".join(f"{name} = {value:.4g}" for name, value in values.items())


def _most_steps(plan: Continuation) -> int:
    """Return the number of steps if the parameters are released as early as may be."""
    early = replace(plan, free=max(plan.first, min(plan.free, LEAST_FREE)))
    return max(plan.all_steps, early.all_steps)


def _followed(
    model: _Model,
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


def _few_points(rows: int, weights: int) -> list[Message]:
    """Say where the equation cannot hold the field between its points."""
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
    return [Message("refine.free_field", text, severity, {"directions": free})]


def _uncertain_errors(known: Parameters, reduced: _Reduced) -> list[Message]:
    """Say where the network cannot follow the solution, and sensitivities may be wrong."""
    factors = np.sqrt(np.diag(reduced.covariance) / np.diag(reduced.together))
    if (factors <= AGREE).all():
        return []
    most = int(np.argmax(factors))
    text = (
        "the network does not quite follow the solution as the parameters change: values may be "
        "drawn to where it does, and standard errors may be wrong. Those of the data, which are "
        f"reported, are up to {factors[most]:.2g} times (for {known.names[most]}) those of data "
        "and equation together. Train a wider network, or pass more residual points"
    )
    numbers = dict(zip(known.names, map(float, factors), strict=True))
    return [Message("refine.standard_error", text, "warning", numbers)]


def _fitted_first(model: _Model, weights: FloatArray, q: FloatArray) -> FloatArray:
    """Fit the data alone for a few steps where the field misses them: a unit needs a field."""
    damping, momentum = FIRST_DAMPING, np.zeros_like(weights)
    for _ in range(FITTING_STEPS):
        with np.errstate(over="ignore", invalid="ignore"):
            before = model.values(weights, q, model.points, 0.0)
            size = before @ before
        if not np.isfinite(size):
            raise InputError(
                "a residual and a field that are finite at the start, and so are their squares",
                f"values of up to {np.abs(before).max():.3g}, in noise levels",
                "train the model first, or check its residual and the noise level",
            )
        if size <= MISSES * model.data.size:
            break
        jacobian, _ = model.jacobian(weights, q, model.points, 0.0)
        weights, damping, momentum, _ = _step(
            model, weights, q, model.points, 0.0, before, jacobian, damping, momentum
        )
    return weights


def _repeated(sites: FloatArray, count: int) -> FloatArray:
    """Return a point for each observed value; several fields share theirs."""
    return np.repeat(sites, count // len(sites), axis=0)


def _drawn(
    model: _Model, weights: FloatArray, q: FloatArray, generator: np.random.Generator
) -> Any:
    """Draw collocation points among the model's own, the more often the larger the residual.

    As many that a step has more rows than weights: with fewer it would fit the drawn points
    exactly, and leave the equation where it was in between.
    """
    if isinstance(model.points, tuple) or len(model.points) <= POINTS:
        return model.points
    size = np.abs(model.residual(weights, q, model.points)).reshape(-1, len(model.points))
    count = max(POINTS, (DENSE * weights.size - model.data.size) // len(size))
    if len(model.points) <= count:
        return model.points
    size = size.sum(axis=0)  # over the equations
    chance = 1 + size / max(float(size.mean()), 1e-300)
    chosen = generator.choice(len(model.points), count, replace=False, p=chance / chance.sum())
    return model.points[chosen]


def _step(
    model: _Model,
    weights: FloatArray,
    q: FloatArray,
    points: FloatArray,
    weight: float,
    before: FloatArray,
    jacobian: FloatArray,
    damping: float,
    momentum: FloatArray,
) -> tuple[FloatArray, float, FloatArray, float]:
    """Try a damped step, with more damping while it does not lower the loss.

    Return weights, damping, the change of the weights, and the share by which the loss fell.
    """
    _check_squares(model, q, before, jacobian)
    inertia = INERTIA * momentum
    for _ in range(TRIES):
        try:
            change = damped_step(jacobian, before, damping, inertia, _solve)
        except np.linalg.LinAlgError:
            change = np.full_like(weights, np.nan)
        moved = weights + change
        after = (
            model.values(moved, q, points, weight) if np.isfinite(moved).all() else before + np.inf
        )
        if np.isfinite(after).all() and after @ after < before @ before:
            fall = 1 - float(after @ after) / float(before @ before)
            return moved, max(damping * LESS, LEAST_DAMPING), change, fall
        damping = min(damping * MORE, MOST_DAMPING)
        inertia = np.zeros_like(inertia)
    return weights, damping, np.zeros_like(weights), 0.0


@dataclass(frozen=True, eq=False)
class _Reduced:
    r"""The linearized problem of the parameters alone, with the field eliminated.

    Attributes
    ----------
    tangent : array, shape (number of weights, d)
        How the field follows the parameters.
    step : array, shape (d,)
        To the minimum.
    covariance : array, shape (d, d)
        Of the parameters, by what the data say.
    together : array, shape (d, d)
        By what data and equation say together.
    free : float
        In so many directions of the field the data alone decide.
    """

    tangent: FloatArray
    step: FloatArray
    covariance: FloatArray
    together: FloatArray
    free: float


def _reduced(model: _Model, weights: FloatArray, q: FloatArray, weight: float) -> _Reduced:
    r"""Eliminate the field.

    With the Jacobians :math:`J_\theta, J_q` of the stacked residual f, and the rows F of
    :math:`J_\theta` that belong to the data, in noise levels,

    .. math:: A = J_\theta^\top J_\theta, \quad T = -A^{-1} J_\theta^\top J_q, \quad S = F T, \quad
              C = (S^\top S)^{-1}, \quad \bar J = J_q + J_\theta T, \quad
              \bar C = (\bar J^\top \bar J)^{-1}, \quad \delta q = -\bar C \bar J^\top f :

    the tangent T along which the field follows the parameters, their covariance C by what the data
    say, the covariance :math:`\bar C` by what data and equation say together, and the step to the
    minimum. For a large weight both covariances have the same limit, unless the network cannot
    follow the solution as the parameters change. What it leaves of the equation then counts as
    information in :math:`\bar C`, multiplied by the weight.

    The number of free directions, at fixed parameters, is
    :math:`\operatorname{tr} F A^{-1} F^\top`. A field that equation and conditions determine has
    none.
    """
    from scipy.linalg import cho_solve, solve_triangular

    values = model.values(weights, q, model.points, weight)
    by_weights, by_steps = model.jacobian(weights, q, model.points, weight)
    jacobian = np.concatenate([by_weights, by_steps], axis=1)
    _check_squares(model, q, values, jacobian)
    matrix = jacobian.T @ jacobian
    factor = _factor(matrix)
    of_field, of_parameters = factor[: -q.size, : -q.size], factor[-q.size :, -q.size :]
    tangent = -cho_solve((of_field, True), matrix[: -q.size, -q.size :])
    observed = by_weights[: model.data.size]
    free = solve_triangular(of_field, observed.T, lower=True)
    squares = np.outer(model.steps, model.steps)
    return _Reduced(
        tangent=tangent / model.steps,
        step=-model.steps * cho_solve((factor, True), jacobian.T @ values)[-q.size :],
        covariance=_covariance(observed @ tangent) * squares,
        together=cho_solve((of_parameters, True), np.eye(q.size)) * squares,
        free=float((free**2).sum()),
    )


def _covariance(slopes: FloatArray) -> FloatArray:
    r"""Return :math:`(S^\top S)^{-1}`."""
    information = slopes.T @ slopes
    least = LEAST_INFORMATION * np.trace(information) or 1e-300
    return np.asarray(np.linalg.inv(information + least * np.eye(len(information))))


def _check_squares(model: _Model, q: FloatArray, values: FloatArray, jacobian: FloatArray) -> None:
    """Refuse values and derivatives whose squares cannot be represented."""
    with np.errstate(over="ignore", invalid="ignore"):
        sizes = float(values @ values), float(np.vdot(jacobian, jacobian))
    if not np.isfinite(sizes).all():
        raise InputError(
            "residual, field and conditions with finite values and derivatives, and so are their "
            "squares",
            f"some that are not finite at {_shown(model.physical(q))}",
            "narrow the bounds of the parameters, or scale the residual to about one",
        )


def _factor(matrix: FloatArray) -> FloatArray:
    """Return the Cholesky factor with the smallest of some ridges that makes it regular."""
    mean = np.trace(matrix) / len(matrix)
    for ridge in RIDGES:
        try:
            return np.linalg.cholesky(matrix + ridge * mean * np.eye(len(matrix)))
        except np.linalg.LinAlgError:
            continue
    raise InputError(
        "a field that depends on its weights",
        "derivatives that do not determine any of them",
        "check the residual and the field of the model",
    )


def _solve(matrix: FloatArray, damping: float, right: FloatArray) -> FloatArray:
    from scipy.linalg import cho_factor, cho_solve

    damped = matrix + damping * np.eye(len(matrix))
    return np.asarray(cho_solve(cho_factor(damped, lower=True, check_finite=False), right))

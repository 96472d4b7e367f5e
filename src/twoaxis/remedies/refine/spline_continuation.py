r"""The weight of the equation grows until it moves the parameters no more.

At every weight the minimum over coefficients and parameters is found by Gauss and Newton, with the
coefficients eliminated from each step. Cells are cut into halves where the equation is not obeyed
because splines on them cannot. Where neither a larger weight nor smaller cells move the parameters
any more, they are those of least squares with an exact solver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError
from twoaxis.remedies.refine.coordinates import covariance_of
from twoaxis.remedies.refine.spline_problem import SplineProblem, Stacked, State
from twoaxis.remedies.refine.spline_system import Factor, Normal
from twoaxis.splines import TensorSplines

# Coefficients of a component at most, by the number of axes.
MAX_SPLINES = {1: 1000, 2: 10_000, 3: 10_000}
# The term of the equation grows almost as its weight where nothing obeys it any better: after so
# many such stages it is given up.
GIVE_UP, NO_BETTER = 3, 5.0
# The first weight of the equation as a share of the sum of squared signal-to-noise ratios, its
# growth, and the largest number of weights.
FIRST_SHARE, MIN_FIRST, GROWTH, MAX_STAGES = 0.005, 10.0, 10.0, 12
# Mean square misfits, in noise levels, that noise does not leave; they count while they halve.
SMALL, NEARER = 1e-2, 0.5
# The weight of the equation for standard errors, in that of the last stage, at most.
HEAVIER = 100.0
# At the first weights, cells stay as they are and minima need not be precise.
EARLY = 2
# Steps at a weight, and the decrease of the sum of squares from which on they matter.
MAX_STEPS, LITTLE, FINE = 60, 1e-2, 1e-5
# Damping of a step: first, least and most, and how it changes.
FIRST_DAMPING, MIN_DAMPING, MAX_DAMPING, LESS, MORE = 1e-3, 1e-12, 1e6, 0.1, 10.0
# Largest move of a parameter in a step, in `coordinate_steps`.
MAX_MOVE = 1.0
# Cells are fine enough where what the residual changes within them adds so little to the sum of
# squares, or moves no parameter by more than so many standard errors.
CELL_TERM, CELL_EFFECT = 0.02, 0.01
# The weight grows while a ten times larger one leaves at most this share of the equation's term,
# and that is at most one for each reading. Cells with this share of the largest part are cut.
CELL_SHARE, CUT = 0.5, 0.1
# Free directions of the field are found among all readings up to so many, or in so many probes.
MANY, PROBES = 400, 100
# Unknown noise is estimated while the fit uses at most this share of the readings.
MOST_USED = 0.5
# It has settled when a weight ten times as large moves the parameters by less than so many
# standard errors, and standard errors of data alone and together differ by less than this factor.
SETTLED, AGREE = 0.1, 1.03


@dataclass(frozen=True, eq=False)
class Reduced:
    """The linearized problem of the parameters, the field eliminated; see `StackedModel.reduced`.

    Attributes
    ----------
    tangent : array, shape (size m, d)
        Derivatives of the coefficients by steps of the coordinates.
    covariance, together : array, shape (d, d)
        Of the coordinates: from the sensitivities of the data alone, and with the equation.
    factor : Factor
    """

    tangent: FloatArray
    covariance: FloatArray
    together: FloatArray
    factor: Factor

    @classmethod
    def of(cls, stacked: Stacked, steps: FloatArray) -> Reduced:
        """Eliminate the field."""
        normal = Normal.of(stacked.rows, stacked.by_steps, stacked.values)
        factor = normal.factor()
        tangent = -factor.solve(normal.border)
        sensitivity = stacked.observed @ tangent
        squares = np.outer(steps, steps)
        inside, corner = sensitivity.T @ sensitivity, normal.corner + normal.border.T @ tangent
        covariance, together = (covariance_of(each) * squares for each in (inside, corner))
        return cls(tangent, covariance, together, factor)

    @property
    def standard_errors(self) -> FloatArray:
        """Of the coordinates."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def ratios(self) -> FloatArray:
        """How much larger standard errors by the data alone are than with the equation."""
        smallest = np.maximum(np.diag(self.together), 1e-300)
        return np.asarray(np.sqrt(np.diag(self.covariance) / smallest))

    @property
    def agree(self) -> bool:
        """Whether data alone determine the parameters as well as with the equation's term."""
        return bool((self.ratios < AGREE).all())


@dataclass(frozen=True, eq=False)
class FreeField:
    r"""Directions of the field that the data determine, with the parameters held.

    With :math:`A = J_c^\top J_c` and the rows F of the data, eigenvalues of
    :math:`F A^{-1} F^\top` lie between zero, where equation and conditions decide, and one, where
    the data do; their sum is the number of such directions.

    Attributes
    ----------
    count : float
    basis : array, shape (size m, k)
        Of those in which the data mostly decide; each moves the data by one noise level in all.
    """

    count: float
    basis: FloatArray

    @classmethod
    def of(cls, linear: Reduced, stacked: Stacked) -> FreeField:
        """Find them: all, or those in a random subspace of the readings where these are many."""
        observed, draw = stacked.observed, np.eye(stacked.data)
        if stacked.data > MANY:
            draw = np.random.default_rng(0).standard_normal((stacked.data, PROBES))
            draw = observed @ linear.factor.solve(observed.T @ draw)
            draw = np.linalg.qr(observed @ linear.factor.solve(observed.T @ draw))[0]
        solved = linear.factor.solve(np.asarray(observed.T @ draw))
        shares, vectors = np.linalg.eigh(draw.T @ (observed @ solved))
        chosen = shares > 0.5
        basis = solved @ vectors[:, chosen] / np.sqrt(shares[chosen])
        return cls(float(shares.sum()), basis)


class Minimizer:
    """Damped steps of coefficients and parameters together."""

    def __init__(self, problem: SplineProblem) -> None:
        self.problem, self.damping = problem, FIRST_DAMPING

    def minimize(self, state: State, weight: float, enough: float, *, hold: bool = False) -> State:
        """Return the minimum at a weight, or how near so many steps come to it."""
        self.damping = min(self.damping, 1e-2)
        for _ in range(MAX_STEPS):
            stacked = self.problem.linearized(state, weight)
            if not np.isfinite(stacked.size):
                return state
            normal = Normal.of(stacked.rows, stacked.by_steps, stacked.values)
            while True:
                ahead, fell, promised = self._tried(state, weight, stacked, normal, hold)
                if fell >= 0.05 * promised:
                    break
                if promised < enough:
                    return state
                self.damping = max(self.damping, MIN_DAMPING) * MORE
                if self.damping > MAX_DAMPING:
                    self.damping = FIRST_DAMPING
                    return state
            small, state = self.damping < 0.1, ahead
            quick = LESS**2 if fell > 0.7 * promised else LESS
            self.damping = max(self.damping * quick, MIN_DAMPING)
            if fell < enough and small:
                return state
        return state

    def _tried(
        self, state: State, weight: float, stacked: Stacked, normal: Normal, hold: bool
    ) -> tuple[State, float, float]:
        """Return the state after a damped step, by how much it fell, and what was promised.

        Where the equation bends away, a second step from the same factor brings it back: its
        residual is what the linear model has missed.
        """
        try:
            factor = normal.bordered(self.damping, hold)
        except linalg.LinAlgError:
            return state, -np.inf, np.inf
        change, moved, promised = factor.step(normal.gradient, normal.slope)
        most = np.abs(moved).max(initial=0.0)
        share = min(1.0, MAX_MOVE / most) if most > 0 else 1.0
        ahead, values = self._after(state, share * change, share * moved, weight)
        fell = stacked.size - float(values @ values)
        if np.isfinite(fell) and fell < 0.5 * promised * share:
            missed = values - stacked.values
            missed -= share * (stacked.rows @ change + stacked.by_steps @ moved)
            more, also, _ = factor.step(stacked.rows.T @ missed, stacked.by_steps.T @ missed)
            bent, values = self._after(ahead, more, also, weight)
            if stacked.size - float(values @ values) > fell:
                ahead, fell = bent, stacked.size - float(values @ values)
        return ahead, fell if np.isfinite(fell) else -np.inf, promised * share

    def _after(
        self, state: State, change: FloatArray, moved: FloatArray, weight: float
    ) -> tuple[State, FloatArray]:
        low, high = self.problem.known.coordinate_bounds
        q = np.clip(state.q + moved * self.problem.steps, low, high)
        ahead = State(state.coefficients + change.reshape(state.coefficients.shape), q)
        with np.errstate(all="ignore"):
            return ahead, self.problem.values(ahead, weight)


@dataclass(frozen=True, eq=False)
class Stage:
    """Where the minimum at a weight lies.

    Attributes
    ----------
    weight : float
    q : array, shape (d,)
    misfit, residual : float
        Mean square of the whitened misfit, and root mean square of the residual in its units.
    standard_errors : array, shape (d,)
    """

    weight: float
    q: FloatArray
    misfit: float
    residual: float
    standard_errors: FloatArray


@dataclass(frozen=True, eq=False)
class Ending:
    """Where a continuation ended.

    Attributes
    ----------
    problem : SplineProblem
        On the splines on which it ended.
    state : State
    weight : float
    stacked : Stacked
    linear : Reduced
        Both for a larger weight.
    ratios : array, shape (d,)
        Of standard errors, at the weight itself.
    settled : bool
    stages : list of Stage
    """

    problem: SplineProblem
    state: State
    weight: float
    stacked: Stacked
    linear: Reduced
    ratios: FloatArray
    settled: bool
    stages: list[Stage]

    @property
    def deviance(self) -> float:
        """Twice the negative logarithm of the likelihood, up to a constant."""
        return self.problem.readings.deviance(self.problem.misfit(self.state))


def continued(
    problem: SplineProblem,
    state: State,
    report: Callable[[State], None] = lambda _: None,
) -> Ending:
    """Raise the weight of the equation until the parameters have settled.

    Parameters
    ----------
    problem : SplineProblem
        Measured; its splines and noise levels change.
    state : State
    report : callable
        Is told the state after each stage.
    """
    minimizer = Minimizer(problem)
    problem.restrain(state)
    weight = first_weight(problem)
    last, worse, stages, settled, agreed = np.inf, 0, list[Stage](), False, False
    for number in range(MAX_STAGES):
        early = number < EARLY
        while True:
            state = minimizer.minimize(state, weight, LITTLE if early else FINE)
            stacked = problem.linearized(state, weight)
            linear = Reduced.of(stacked, problem.steps)
            rest = problem.equation_rows(stacked, stacked.values)
            parts, term = problem.cell_parts(rest), float((rest**2).sum())
            cells = max(float(each.sum()) for each in parts)
            effect = cell_effect(problem, stacked, linear)
            count = problem.readings.count
            fine = cells <= CELL_TERM or (term <= count and bool((effect <= CELL_EFFECT).all()))
            obeyed = term <= min(CELL_SHARE * last, count)
            if early or (fine if linear.agree else fine or obeyed):
                break
            finer = refined_splines(problem.splines, parts)
            if finer.size > MAX_SPLINES[problem.slot.inputs]:
                break
            coefficients = problem.splines.prolonged(state.coefficients, finer)
            problem.place_on(finer)
            state = State(coefficients, state.q)
            problem.restrain(state)
        worse = worse + 1 if term > max(count, NO_BETTER * last) else 0
        last, errors = term, linear.standard_errors
        misfit = float((stacked.values[: stacked.data] ** 2).mean())
        stages.append(Stage(weight, state.q, misfit, float(np.sqrt(term / weight)), errors))
        report(state)
        if number:
            moved = np.abs(state.q - stages[-2].q) <= SETTLED * errors
            settled = linear.agree and fine and bool(moved.all())
            # Data without noise: the field still comes nearer to them.
            nearer = misfit < min(SMALL, NEARER * stages[-2].misfit)
            if (settled and not nearer) or (agreed and not linear.agree) or worse == GIVE_UP:
                break  # where data and equation agreed no more, digits are lost
        agreed = linear.agree and fine and obeyed
        problem.restrain(state)
        if early:  # the field was none yet at the start
            problem.measure(state)
        if number == MAX_STAGES - 1:
            break
        if not problem.readings.noise_known:
            _update_levels(problem, state, linear, stacked)
            weight = max(weight, first_weight(problem) / GROWTH)  # much less noise than guessed
        weight *= GROWTH
    # The field has done what it can: a larger weight costs nothing where cells are fine, and the
    # data, which hold the field back as the parameters change, count the less for sensitivities.
    heavier = weight * float(np.clip(1 / max(cells, 1e-300), 1.0, HEAVIER))
    stacked = problem.linearized(state, heavier)
    if not problem.readings.noise_known:
        final = Reduced.of(stacked, problem.steps)
        _update_levels(problem, state, final, stacked)
        stacked = problem.linearized(state, heavier)
    ended = Reduced.of(stacked, problem.steps)
    return Ending(problem, state, weight, stacked, ended, linear.ratios, settled, stages)


def _update_levels(problem: SplineProblem, state: State, linear: Reduced, stacked: Stacked) -> None:
    """Estimate noise that is not known, while the fit does not use most of the readings."""
    used = FreeField.of(linear, stacked).count + problem.dimensions
    if used <= MOST_USED * problem.readings.count:
        problem.readings.update_levels(problem.misfit(state), used)


def first_weight(problem: SplineProblem) -> float:
    """Return a weight of the equation at which the data decide on the field."""
    with np.errstate(over="ignore"):
        whitened = problem.readings.whiten(problem.readings.values)
        squares = float(whitened @ whitened)
    if not np.isfinite(squares):
        raise InputError(
            "readings and noise whose squared ratios are finite",
            f"readings of up to {np.abs(whitened).max():.3g} noise levels",
            "check the noise, or leave it out: it is then estimated",
        )
    return max(MIN_FIRST, FIRST_SHARE * squares)


def cell_effect(problem: SplineProblem, stacked: Stacked, linear: Reduced) -> FloatArray:
    r"""Return how far parameters would move without what changes within cells, (axes, d).

    In standard errors. With that part :math:`r_2` of the residual, and the minimum where
    :math:`J^\top f = 0`, they move by the entries of :math:`(J^\top J)^{-1} J^\top r_2`.
    """
    moves = (stacked.rows @ linear.tangent + stacked.by_steps) @ linear.together / problem.steps
    found = problem.within_cells(problem.equation_rows(stacked, stacked.values))
    along = problem.within_cells(problem.equation_rows(stacked, moves))
    effects = [
        part.ravel() @ move.reshape(part.size, -1) for part, move in zip(found, along, strict=True)
    ]
    return np.abs(effects) / linear.standard_errors


def refined_splines(splines: TensorSplines, parts: Sequence[FloatArray]) -> TensorSplines:
    """Cut the cells whose parts matter."""
    most = max(float(each.max()) for each in parts)
    axes = []
    for axis, part in zip(splines.axes, parts, strict=True):
        chosen = part > CUT * most
        axes.append(axis.bisected(chosen) if chosen.any() else axis)
    return TensorSplines(tuple(axes))

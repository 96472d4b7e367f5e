r"""Refinement with a field of splines: field and parameters together, by Gauss and Newton.

The weight of the equation grows by tens from one at which the data decide on the field. At every
weight the minimum over coefficients and parameters is found, with the coefficients eliminated from
each step. Cells are cut into halves where the equation is not obeyed because splines on them
cannot: there the residual, which a smooth field obeys to the order of its splines, has a part that
changes within a cell. Where neither a larger weight nor smaller cells move the parameters any more,
they are those of least squares with an exact solver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse
from scipy.stats import qmc

from twoaxis.adapters.jets import FieldSlot, JetFunction, Order
from twoaxis.adapters.model_weights import ModelWeights
from twoaxis.arrays import FloatArray
from twoaxis.gauss_newton import coordinate_steps

if TYPE_CHECKING:
    from twoaxis.observations import Observations
from twoaxis.parameters import Parameters
from twoaxis.remedies.refine.spline_system import Factor, Normal, Part
from twoaxis.splines import GAUSS_POINTS, TensorSplines

# Cells along an axis at the start, by the number of axes, and coefficients at most.
FIRST_CELLS, MAX_COEFFICIENTS = {1: 24, 2: 8, 3: 4}, 12_000
# The first weight of the equation as a share of the sum of squared signal-to-noise ratios, its
# growth, and the largest number of weights.
FIRST_SHARE, MIN_FIRST, GROWTH, MAX_STAGES = 0.005, 10.0, 10.0, 12
# Steps at a weight, and the decrease of the sum of squares from which on they matter.
MAX_STEPS, LITTLE, FINE = 60, 1e-2, 1e-5
# Damping of a step: first, least and most, and how it changes.
FIRST_DAMPING, MIN_DAMPING, MAX_DAMPING, LESS, MORE = 1e-3, 1e-12, 1e6, 0.1, 10.0
# Largest move of a parameter in a step, in `coordinate_steps`.
MAX_MOVE = 1.0
# Part of the equation's term that is due to cells: at most so large, in squared noise levels, or
# so small a share of the term. Cells with more than this share of the largest part are cut.
CELL_TERM, CELL_SHARE, CUT = 0.02, 0.5, 0.1
# It has settled when a weight ten times as large moves the parameters by less than so many
# standard errors, and standard errors of data alone and together differ by less than this factor.
SETTLED, AGREE = 0.1, 1.1
# Parameters may move by so many standard errors with smaller cells.
CELL_EFFECT = 0.01
# Weights of roughness that cross-validation chooses from, relative to the data.
ROUGHNESSES = np.logspace(-9, 5, 29)
# What the roughness of the field adds to the sum of squares.
ROUGH_TERM = 1.0
# Data without noise: this share of their size stands for it.
NOISE_FREE = 1e-6
# A first guess of unknown noise, at least, as a share of the data: a smooth field may miss none.
FIRST_NOISE = 0.02


@dataclass(frozen=True, eq=False)
class State:
    """A field and parameters.

    Attributes
    ----------
    coefficients : array, shape (size, m)
    q : array, shape (d,)
        Coordinates of the parameters.
    """

    coefficients: FloatArray
    q: FloatArray


@dataclass(frozen=True, eq=False)
class Stacked:
    """Values and Jacobian of the stacked residual in a state.

    Attributes
    ----------
    values : array, shape (rows,)
    rows : sparse matrix
        Derivatives by the coefficients.
    by_steps : array, shape (rows, d)
        By steps of the coordinates.
    data : int
        The first rows, which belong to the data.
    """

    values: FloatArray
    rows: sparse.csr_matrix
    by_steps: FloatArray
    data: int

    @property
    def size(self) -> float:
        """Sum of squares."""
        return float(self.values @ self.values)


class SplineProblem:
    """A model with a field of splines in the place of its network.

    Attributes
    ----------
    splines : TensorSplines
    levels : array
        Noise levels, where they are not known.
    """

    def __init__(
        self,
        slot: FieldSlot,
        weights: ModelWeights,
        known: Parameters,
        data: Observations,
        sites: FloatArray,
        box: tuple[FloatArray, FloatArray],
    ) -> None:
        self.slot, self.known, self.data, self.sites, self.box = slot, known, data, sites, box
        self._weights = weights
        self.steps = coordinate_steps(known)
        self.levels: FloatArray | None = None
        self.units: list[FloatArray] = []
        self._orders: dict[int, list[Order]] = {}
        cells = FIRST_CELLS[slot.inputs]
        self.place_on(TensorSplines.on_box(*box, [cells] * slot.inputs))

    @property
    def equation_units(self) -> FloatArray:
        """Units of all equations."""
        return np.concatenate(self.units[: len(self._equations)])

    @property
    def dimensions(self) -> int:
        """Number of parameters."""
        return len(self.known)

    def place_on(self, splines: TensorSplines) -> None:
        """Take other splines: their Gauss points are the points of the equations."""
        self.splines = splines
        points, self._mass = splines.gauss()
        numbers, _ = self.numbers(self.start)

        def part(function: JetFunction, where: FloatArray) -> Part:
            key = id(function)
            if key not in self._orders:
                few = where[:: max(1, len(where) // 8)] if function.pointwise else where
                size = float(np.abs(self.data.readings).mean()) or 1.0
                self._orders[key] = function.orders_used(numbers, few, size)
            return Part(function, self._orders[key], where, numbers, splines)

        self._equations = [part(each, points) for each in self.slot.equations]
        self._observed = part(self.slot.observed, self.sites)
        self._faces = splines.face_roughness()
        nowhere = np.zeros((1, 1))
        conditions = self.slot.conditions
        self._conditions = None if conditions is None else part(conditions, nowhere)

    @property
    def start(self) -> FloatArray:
        """Coordinates of the delivered values."""
        return self.known.coordinates(self.known.require("delivered"))

    def numbers(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the numbers that the model stores, and their derivatives by steps."""
        values = self.known.named(self.known.physical(q))
        numbers, slopes = self._weights.numbers(values)
        logs = np.array([p.coordinate == "log" for p in self.known.values()])
        by_coordinate = np.where(logs, np.array(list(values.values())), 1.0)
        return numbers, by_coordinate * self.steps / slopes

    # ------------------------------------------------------------- the stacked residual

    def fitted(self, coefficients: FloatArray) -> FloatArray:
        """Return what was observed, as the field has it, (n, m)."""
        return self._observed.values(coefficients, self.numbers(self.start)[0])

    def misfit(self, coefficients: FloatArray) -> FloatArray:
        """Return predictions less readings, in their units."""
        return self.data.take(self.fitted(coefficients)) - self.data.readings

    def values(self, state: State, weight: float) -> FloatArray:
        """Return the stacked residual."""
        numbers, _ = self.numbers(state.q)
        parts = [self.data.whiten(self.misfit(state.coefficients), self.levels)]
        for part, unit in zip(self._equations, self.units, strict=False):
            found = part.values(state.coefficients, numbers)
            parts.append((found * self._scale(weight, len(found)) / unit).ravel())
        if self._conditions is not None:
            found = self._conditions.values(state.coefficients, numbers)
            parts.append(np.sqrt(weight) * found.ravel() / self.units[-1])
        parts += self._face_values(state.coefficients)
        return np.concatenate(parts)

    def calm(self, coefficients: FloatArray) -> None:
        """Take the roughness of the field on the faces of the box as the unit of what is free."""
        self.restraints = []
        size = (coefficients**2).mean(axis=0)
        for rows in self._faces:
            rough = ((rows @ coefficients) ** 2).sum(axis=0)
            self.restraints.append(np.sqrt(ROUGH_TERM / np.maximum(rough, (2 * np.pi) ** 6 * size)))

    def _face_values(self, coefficients: FloatArray) -> list[FloatArray]:
        pairs = zip(self._faces, self.restraints, strict=True)
        return [((rows @ coefficients) * scale).ravel() for rows, scale in pairs]

    def _scale(self, weight: float, count: int) -> FloatArray:
        return np.sqrt(weight * self._mass)[:, None]

    def linearized(self, state: State, weight: float) -> Stacked:
        """Return the stacked residual with its Jacobian."""
        numbers, by_steps = self.numbers(state.q)
        fitted, rows, _, _ = self._observed.linearized(state.coefficients, numbers)
        misfit = self.data.take(fitted) - self.data.readings
        values = [self.data.whiten(misfit, self.levels)]
        every = [self._whitened(self.data.take_jacobian(fitted, rows))]
        slopes = [np.zeros((misfit.size, self.dimensions))]
        for part, unit in zip(self._equations, self.units, strict=False):
            found, rows, by_numbers, _ = part.linearized(state.coefficients, numbers)
            scale = self._scale(weight, len(found)) / unit
            values.append((found * scale).ravel())
            every.append(sparse.diags_array(np.broadcast_to(scale, found.shape).ravel()) @ rows)
            slopes.append((by_numbers * scale[:, :, None]).reshape(-1, self.dimensions) * by_steps)
        if self._conditions is not None:
            found, rows, _, _ = self._conditions.linearized(state.coefficients, numbers)
            scale = np.sqrt(weight) / self.units[-1]
            values.append(found.ravel() * scale.item())
            every.append(rows * scale.item())
            slopes.append(np.zeros((found.size, self.dimensions)))
        faces = self._face_values(state.coefficients)
        values += faces
        pairs = zip(self._faces, self.restraints, strict=True)
        every += [sparse.kron(rows, sparse.diags_array(scale)) for rows, scale in pairs]
        slopes += [np.zeros((each.size, self.dimensions)) for each in faces]
        stacked = sparse.csr_matrix(sparse.vstack(every))
        return Stacked(np.concatenate(values), stacked, np.concatenate(slopes), misfit.size)

    def _whitened(self, rows: Any) -> sparse.csr_matrix:
        if self.data.correlated:
            return sparse.csr_matrix(self.data.whiten(rows.toarray(), self.levels))
        scale = 1 / self.data.standard_deviations(self.levels)
        return sparse.csr_matrix(sparse.diags_array(scale) @ rows)

    def measure(self, state: State) -> None:
        """Take the units of equations and conditions from the sizes of their terms."""
        numbers, by_steps = self.numbers(state.q)
        self.units = []
        every = [*self._equations, *([] if self._conditions is None else [self._conditions])]
        for part in every:
            _, _, by_numbers, terms = part.linearized(state.coefficients, numbers)
            of_numbers = ((by_numbers * by_steps / self.steps) ** 2).sum(axis=2)
            self.units.append(np.sqrt((terms + of_numbers).mean(axis=0)))
        if self._conditions is not None:
            self.units[-1] = self.units[-1].max(keepdims=True)
        most = max(float(each.max()) for each in self.units[: len(self._equations)]) or 1.0
        self.units = [np.maximum(each, 1e-9 * most) for each in self.units]

    def residual(self, state: State) -> FloatArray:
        """Return the residuals of all equations in their units, (Gauss points, E)."""
        numbers, _ = self.numbers(state.q)
        every = [
            part.values(state.coefficients, numbers) / unit
            for part, unit in zip(self._equations, self.units, strict=False)
        ]
        return np.concatenate(every, axis=1)

    def rms_residual(self, state: State) -> float:
        """Return the root mean square of all residuals in their units, over the domain."""
        return float(np.sqrt(((self.residual(state) ** 2).sum(axis=1) @ self._mass)))

    def cell_parts(self, state: State) -> list[FloatArray]:
        """Return, by axis and cell, the mean square of what the residual changes within cells."""
        found = self.residual(state) * np.sqrt(self._mass)[:, None]
        parts = []
        for j, along in enumerate(self._within_cells(found)):
            rest = tuple(k for k in range(along.ndim) if k != 2 * j)
            parts.append((along**2).sum(axis=rest))
        return parts

    def _within_cells(self, values: FloatArray) -> list[FloatArray]:
        r"""Return, by axis, the part of values at Gauss points along the second Legendre polynomial.

        Values carry the roots of their Gauss weights. The three points of a cell hold the part
        :math:`(v_1 - \sqrt{5/2} v_2 + v_3) / \sqrt{9/2}`.
        """
        shape = [n for axis in self.splines.axes for n in (axis.cells, GAUSS_POINTS)]
        values = values.reshape(*shape, *values.shape[1:])
        second = np.array([1.0, -np.sqrt(2.5), 1.0]) / np.sqrt(4.5)
        return [np.tensordot(values, second, axes=(2 * j + 1, 0)) for j in range(len(shape) // 2)]

    def cell_effect(self, stacked: Stacked, linear: Reduced) -> FloatArray:
        r"""Return how far parameters would move without what changes within cells, by axis.

        With the part :math:`r_2` of the residual, and the minimum where
        :math:`J^\top f = 0`, that is :math:`(J^\top J)^{-1} J^\top r_2`, its entries of parameters.
        """
        moves = (stacked.rows @ linear.tangent + stacked.by_steps) @ linear.together / self.steps
        rows = slice(stacked.data, stacked.data + self._mass.size * len(self.equation_units))
        found = self._within_cells(stacked.values[rows].reshape(self._mass.size, -1))
        along = self._within_cells(moves[rows].reshape(self._mass.size, -1, self.dimensions))
        return np.array(
            [np.tensordot(a.ravel(), b.reshape(a.size, -1), 1) for a, b in zip(found, along)]
        )

    # ------------------------------------------------------------- starts

    def smoothed(self) -> FloatArray:
        r"""Return the field that fits the data alone, its roughness by cross-validation.

        With the whitened Jacobian F of the data and the rows R of roughness, the weight of the
        latter minimizes :math:`n |f|^2 / (n - \operatorname{tr} H)^2`,
        :math:`H = F (F^\top F + \kappa R^\top R)^{-1} F^\top`.
        """
        outputs = self.slot.outputs
        numbers, _ = self.numbers(self.start)
        zero = np.zeros((self.splines.size, outputs))
        fitted, rows, _, _ = self._observed.linearized(zero, numbers)
        jacobian = self._selected(fitted, rows)
        target = self.data.readings - self.data.take(fitted)
        size = float(np.sqrt((target**2).mean())) or 1.0
        jacobian, target = jacobian / size, target / size
        rough = sparse.kron(self.splines.roughness(), sparse.eye_array(outputs))
        inside = (jacobian.T @ jacobian).tocsr()
        penalty = (rough.T @ rough).tocsr()
        # A field that no reading sees is zero.
        still = 1e-9 * sparse.eye_array(penalty.shape[0]) * penalty.diagonal().mean()
        balance = float(inside.diagonal().sum() / penalty.diagonal().sum())
        right = jacobian.T @ target
        dense = jacobian.T.toarray()
        best, lowest = zero.ravel(), np.inf
        for kappa in ROUGHNESSES:
            matrix = (inside + kappa * balance * (penalty + still)).tocsr()
            factor = Factor(matrix, 1e-14 * np.full(matrix.shape[0], matrix.diagonal().mean()))
            found = factor.solve(right)
            used = float((dense * factor.solve(dense)).sum())
            rest = target - jacobian @ found
            score = len(target) * float(rest @ rest) / max(len(target) - 1.0 * used, 1e-9) ** 2
            if score < lowest:
                best, lowest = found, score
        return np.asarray(best.reshape(-1, outputs))

    def _selected(self, fitted: FloatArray, rows: Any) -> sparse.csr_matrix:
        return sparse.csr_matrix(self.data.take_jacobian(fitted, rows))

    def projected(self, network: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return the field of splines that is nearest to a network on the domain."""
        places, mass = self.splines.gauss()
        (design,) = self.splines.design(places, [(0,) * self.slot.inputs])
        root = np.sqrt(mass)
        rows = sparse.csr_matrix(sparse.diags_array(root) @ design)
        matrix = (rows.T @ rows).tocsr()
        factor = Factor(matrix, np.full(matrix.shape[0], 1e-12 * matrix.diagonal().mean()))
        return factor.solve(rows.T @ (root[:, None] * network(places)))

    def preferred(self, coefficients: FloatArray, starts: Sequence[FloatArray]) -> FloatArray:
        """Return the coordinates that the residual of a field prefers, the best from the starts."""
        low, high = self.known.coordinate_bounds
        best, lowest = starts[0], np.inf
        for start in starts:
            inside = np.clip(start, low + 1e-9 * (high - low), high - 1e-9 * (high - low))
            found = optimize.least_squares(
                lambda q: self._equation_values(State(coefficients, q)),
                inside,
                jac=lambda q: self._equation_slopes(State(coefficients, q)) / self.steps,
                bounds=(low, high),
                x_scale=self.steps,
                max_nfev=50,
            )
            if found.cost < lowest:
                best, lowest = found.x, found.cost
        return np.asarray(best)

    def _equation_values(self, state: State) -> FloatArray:
        return (self.residual(state) * np.sqrt(self._mass)[:, None]).ravel()

    def _equation_slopes(self, state: State) -> FloatArray:
        numbers, by_steps = self.numbers(state.q)
        every = []
        for part, unit in zip(self._equations, self.units, strict=False):
            by_numbers = part.linearized(state.coefficients, numbers)[2]
            every.append(by_numbers * by_steps / unit[:, None])
        root = np.sqrt(self._mass)[:, None, None]
        return (np.concatenate(every, axis=1) * root).reshape(-1, self.dimensions)


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
        sensitivity = stacked.rows[: stacked.data] @ tangent
        squares = np.outer(steps, steps)
        inside, corner = sensitivity.T @ sensitivity, normal.corner + normal.border.T @ tangent
        covariance, together = (np.linalg.pinv(each, hermitian=True) for each in (inside, corner))
        return cls(tangent, covariance * squares, together * squares, factor)

    @property
    def standard_errors(self) -> FloatArray:
        """Of the coordinates."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def agree(self) -> bool:
        """Whether data alone determine the parameters as well as with the equation's term."""
        ratio = np.sqrt(np.diag(self.covariance) / np.diag(self.together))
        return bool((ratio < AGREE).all())

    def free(self, stacked: Stacked) -> float:
        """Return how many directions of the field the data determine, parameters held."""
        across = stacked.rows[: stacked.data].T.toarray()
        return float((across * self.factor.solve(across)).sum())


class Minimizer:
    """Damped steps of coefficients and parameters together."""

    def __init__(self, problem: SplineProblem) -> None:
        self.problem, self.damping, self.count = problem, FIRST_DAMPING, 0

    def minimize(
        self, state: State, weight: float, enough: float, *, hold: bool = False
    ) -> tuple[State, bool]:
        """Return the minimum at a weight, and whether it was reached."""
        self.damping = min(self.damping, 1e-2)
        for _ in range(MAX_STEPS):
            stacked = self.problem.linearized(state, weight)
            if not np.isfinite(stacked.size):
                return state, False
            self.count += 1
            normal = Normal.of(stacked.rows, stacked.by_steps, stacked.values)
            while True:
                ahead, fell, promised = self._tried(state, weight, stacked, normal, hold)
                if fell >= 0.05 * promised:
                    break
                if promised < enough:
                    return state, True
                self.damping = max(self.damping, MIN_DAMPING) * MORE
                if self.damping > MAX_DAMPING:
                    self.damping = FIRST_DAMPING
                    return state, False
            small, state = self.damping < 0.1, ahead
            quick = LESS**2 if fell > 0.7 * promised else LESS
            self.damping = max(self.damping * quick, MIN_DAMPING)
            if fell < enough and small:
                return state, True
        return state, False

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
        Mean squares of whitened misfits and of the residual in its units.
    standard_errors : array, shape (d,)
    cells : tuple of int
    """

    weight: float
    q: FloatArray
    misfit: float
    residual: float
    standard_errors: FloatArray
    cells: tuple[int, ...]


@dataclass
class Ending:
    """Where a continuation ended.

    Attributes
    ----------
    state : State
    weight : float
    stacked : Stacked
    linear : Reduced
    settled : bool
    stages : list of Stage
    """

    state: State
    weight: float
    stacked: Stacked
    linear: Reduced
    settled: bool
    stages: list[Stage]


def continued(problem: SplineProblem, state: State, *, hold_first: bool, log: Any = None) -> Ending:
    """Raise the weight of the equation until the parameters have settled."""
    minimizer = Minimizer(problem)
    update_levels(problem, state, 0.0)
    problem.calm(state.coefficients)
    whitened = problem.data.whiten(problem.data.readings, problem.levels)
    weight = max(MIN_FIRST, FIRST_SHARE * float(whitened @ whitened))
    last, stages, settled, agreed = np.inf, [], False, False
    if hold_first:
        state, _ = minimizer.minimize(state, weight, 1.0, hold=True)
    for number in range(MAX_STAGES):
        early = number < 2
        while True:
            state, _ = minimizer.minimize(state, weight, LITTLE if early else FINE)
            stacked = problem.linearized(state, weight)
            linear = Reduced.of(stacked, problem.steps)
            parts = problem.cell_parts(state)
            term = weight * problem.rms_residual(state) ** 2
            cells = weight * max(float(each.sum()) for each in parts)
            effect = np.abs(problem.cell_effect(stacked, linear)) / linear.standard_errors
            if log:
                import time

                ratio = np.sqrt(np.diag(linear.covariance) / np.diag(linear.together))
                log(
                    number,
                    f"{weight:.1e} q {state.q} se {linear.standard_errors} ratio {ratio} E {term:.3g} D {cells:.3g} eff {effect.max():.3g} chi2 {(stacked.values[: stacked.data] ** 2).sum():.1f}",
                    problem.splines.shape,
                    minimizer.count,
                    round(time.process_time(), 2),
                )
            fine = cells <= CELL_TERM or bool((effect <= CELL_EFFECT).all())
            obeyed = term <= min(CELL_SHARE * last, problem.data.readings.size)
            if early or (fine if linear.agree else fine or obeyed):
                break
            finer = refined_splines(problem.splines, parts)
            if finer.size * problem.slot.outputs > MAX_COEFFICIENTS:
                break
            coefficients = problem.splines.prolonged(state.coefficients, finer)
            problem.place_on(finer)
            state = State(coefficients, state.q)
        last = term
        misfit = float((stacked.values[: stacked.data] ** 2).mean())
        errors, shape = linear.standard_errors, tuple(axis.cells for axis in problem.splines.axes)
        stages.append(Stage(weight, state.q, misfit, term / weight, errors, shape))
        if len(stages) > 1:
            moved = np.abs(state.q - stages[-2].q) <= SETTLED * errors
            settled = linear.agree and fine and bool(moved.all())
            if settled or (agreed and not linear.agree):  # beyond that, digits are lost
                break
        agreed = linear.agree
        problem.calm(state.coefficients)
        if not problem.data.noise_known:
            update_levels(problem, state, linear.free(stacked) + problem.dimensions)
        weight *= GROWTH
    return Ending(state, weight, stacked, linear, settled, stages)


def refined_splines(splines: TensorSplines, parts: Sequence[FloatArray]) -> TensorSplines:
    """Cut the cells whose parts matter."""
    most = max(float(each.max()) for each in parts)
    axes = []
    for axis, part in zip(splines.axes, parts, strict=True):
        chosen = part > CUT * most
        axes.append(axis.bisected(chosen) if chosen.any() else axis)
    return TensorSplines(tuple(axes))


def update_levels(problem: SplineProblem, state: State, used: float) -> None:
    """Estimate noise levels that are not known from what the field leaves."""
    data = problem.data
    if data.noise_known:
        return
    rest = problem.misfit(state.coefficients)
    count = np.bincount(data.groups, minlength=data.group_count)
    squares = np.bincount(data.groups, rest**2, minlength=data.group_count)
    spread = np.bincount(data.groups, data.readings**2, minlength=data.group_count) / count
    left = count * max(1.0 - used / data.readings.size, 1.0 / data.readings.size)
    least = FIRST_NOISE if used == 0 else NOISE_FREE
    problem.levels = np.maximum(np.sqrt(squares / left), least * np.sqrt(spread))

r"""A model with a field of splines in the place of its network: data, equation and conditions.

With coefficients c and coordinates q of the parameters the stacked residual is

.. math:: f(c, q) = \Big[ L^{-1} (u_c(x_i) - y_i);\; \sqrt{\lambda w_k}\, r(c, q; z_k) / s;\;
          \sqrt{\lambda}\, b(c) / s_b;\; R c \Big]

with Gauss points :math:`z_k` and their weights, which sum to one: whatever the cells, the term of
the equation is :math:`\lambda` times the mean square of its residual. Units s are sizes of the
terms that a residual adds up, so that it counts relative to them. R holds back the field on the
faces of the box, where no equation does: `SplineProblem.restrain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from twoaxis.adapters.jets import FieldSlot, JetFunction, Order
from twoaxis.adapters.model_weights import ModelWeights
from twoaxis.arrays import FloatArray
from twoaxis.gauss_newton import coordinate_steps
from twoaxis.observations import Observations
from twoaxis.parameters import Parameters
from twoaxis.remedies.refine.coordinates import magnitudes, per_coordinate
from twoaxis.remedies.refine.spline_readings import Readings, ReadingSet, Selection
from twoaxis.remedies.refine.spline_system import Part
from twoaxis.splines import GAUSS_POINTS, TensorSplines

# Cells along an axis at the start, by the number of axes.
FIRST_CELLS = {1: 24, 2: 8, 3: 4}
# Conditions are as good as exact: their unit as a share of the size of their terms.
CONDITION_UNIT = 0.1
# What a change of the third derivatives on a face adds to the sum of squares, if they are as large
# as those of the field there.
ROUGH_TERM = 1.0


class NoSplinesError(Exception):
    """A function of the field takes none of its derivatives, or those that splines do not have."""


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
        Derivatives with respect to the coefficients.
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

    @property
    def observed(self) -> sparse.csr_matrix:
        """Rows of the data."""
        return self.rows[: self.data]


class SplineProblem:
    """A model with a field of splines in the place of its network.

    Parameters
    ----------
    slot : FieldSlot
        Of all experiments, if there are several; see `FieldSlot.repeated`.
    weights : ModelWeights
        For the numbers that the model stores.
    known : Parameters
    observed : sequence of (int, Observations)
        What was observed in which experiment, with its places.
    box : tuple of array
        Lower and upper ends of the domain.

    Attributes
    ----------
    splines : TensorSplines
    readings : Readings
    """

    def __init__(
        self,
        slot: FieldSlot,
        weights: ModelWeights,
        known: Parameters,
        observed: Sequence[tuple[int, Observations]],
        box: tuple[FloatArray, FloatArray],
    ) -> None:
        self.slot, self.weights, self.known = slot, weights, known
        self.steps = coordinate_steps(known)
        self._units: list[FloatArray] = []
        self._orders: dict[int, list[Order]] = {}
        every = [each.values[each.kept] for _, each in observed]
        self._size = float(np.abs(np.concatenate(every)).mean()) or 1.0
        numbers, _ = self.numbers(self.start)
        sets = []
        for experiment, each in observed:
            seeing = slot.seeing(each.of, experiment)
            outputs = seeing.count(numbers, each.sites)
            sets.append(ReadingSet(each, seeing, Selection.of(each, weights.columns, outputs)))
        self.readings = Readings(sets)
        cells = FIRST_CELLS[slot.inputs]
        self.place_on(TensorSplines.on_box(*box, [cells] * slot.inputs))

    @property
    def dimensions(self) -> int:
        """Number of parameters."""
        return len(self.known)

    @property
    def sees_all(self) -> bool:
        """Whether the readings tell something of every component of the field."""
        zero = State(np.zeros((self.splines.size, self.slot.outputs)), self.start)
        _, rows = self.observed_rows(zero)
        seen = np.asarray(abs(rows).sum(axis=0)).reshape(-1, self.slot.outputs).sum(axis=0)
        return bool((seen > 0).all())

    @property
    def start(self) -> FloatArray:
        """Coordinates of the delivered values; those in the middle where there is none."""
        low, high = self.known.coordinate_bounds
        values = [p.delivered for p in self.known.values()]
        given = {
            name: p.delivered if p.delivered is not None else p.bounds[0]
            for name, p in self.known.items()
        }
        known = np.array([value is not None for value in values])
        return np.where(known, self.known.coordinates(given), (low + high) / 2)

    def place_on(self, splines: TensorSplines) -> None:
        """Take other splines: their Gauss points are the points of the equations."""
        self.splines = splines
        points, self._mass = splines.gauss()
        self._equations = [self.part(each, points) for each in self.slot.equations]
        self._observed = [self.part(e.seeing, e.observations.sites) for e in self.readings.sets]
        self._held = sparse.csr_matrix((0, splines.size * self.slot.outputs))
        self._present: FloatArray = np.zeros(0)
        conditions = self.slot.conditions
        self._conditions = None if conditions is None else self.part(conditions, np.zeros((1, 1)))

    def part(self, function: JetFunction, where: FloatArray) -> Part:
        """Return a function of the field at points, on the present splines."""
        numbers, _ = self.numbers(self.start)
        if id(function) not in self._orders:
            few = where[:: max(1, len(where) // 8)] if function.pointwise else where
            self._orders[id(function)] = function.orders_used(numbers, few, self._size)
            if not self._orders[id(function)]:
                raise NoSplinesError
        return Part(function, self._orders[id(function)], where, numbers, self.splines)

    def numbers(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the numbers that the model stores, and their derivatives by steps."""
        values = self.known.named(self.known.physical(q))
        numbers, slopes = self.weights.numbers(values)
        return numbers, per_coordinate(self.known, q) * self.steps / slopes

    # What was observed.

    def predicted(self, state: State) -> FloatArray:
        """Return the readings as the field has them, on the scales of their noise."""
        numbers, _ = self.numbers(state.q)
        pairs = zip(self.readings.sets, self._observed, strict=True)
        return np.concatenate(
            [each.selection.take(part.values(state.coefficients, numbers)) for each, part in pairs]
        )

    def misfit(self, state: State) -> FloatArray:
        """Return predictions less readings."""
        return self.predicted(state) - self.readings.values

    def observed_rows(self, state: State) -> tuple[FloatArray, sparse.csr_matrix]:
        """Return predictions of the readings, and their rows of the coefficients."""
        numbers, _ = self.numbers(state.q)
        pairs = zip(self.readings.sets, self._observed, strict=True)
        found = [each.linearized(part, state.coefficients, numbers) for each, part in pairs]
        rows = sparse.csr_matrix(sparse.vstack([rows for _, rows in found]))
        return np.concatenate([values for values, _ in found]), rows

    def field_at(self, state: State, where: FloatArray) -> tuple[FloatArray, sparse.csr_matrix]:
        """Return what the first readings are of, anywhere, and its rows."""
        numbers, _ = self.numbers(state.q)
        first = self.readings.sets[0]
        return first.anywhere(self.part(first.seeing, where), state.coefficients, numbers)

    def delivered_predictions(self) -> FloatArray:
        """Return the readings as the trained network has them, on the scales of their noise."""
        numbers, _ = self.numbers(self.start)
        return np.concatenate(
            [
                each.selection.take(each.seeing.of_network(numbers, each.observations.sites))
                for each in self.readings.sets
            ]
        )

    # The stacked residual.

    def values(self, state: State, weight: float) -> FloatArray:
        """Return the stacked residual."""
        numbers, _ = self.numbers(state.q)
        parts = [self.readings.whiten(self.misfit(state))]
        for part, unit in zip(self._equations, self._units, strict=False):
            found = part.values(state.coefficients, numbers)
            parts.append((found * self._scale(weight) / unit).ravel())
        if self._conditions is not None:
            found = self._conditions.values(state.coefficients, numbers)
            parts.append(np.sqrt(weight) * found.ravel() / self._units[-1])
        parts.append(self._held @ state.coefficients.ravel() - self._present)
        return np.concatenate(parts)

    def linearized(self, state: State, weight: float) -> Stacked:
        """Return the stacked residual with its Jacobian."""
        numbers, by_steps = self.numbers(state.q)
        predicted, rows = self.observed_rows(state)
        misfit = predicted - self.readings.values
        values = [self.readings.whiten(misfit)]
        every = [self.readings.whiten(rows)]
        slopes = [np.zeros((misfit.size, self.dimensions))]
        for part, unit in zip(self._equations, self._units, strict=False):
            found, rows, by_numbers = part.linearized(state.coefficients, numbers)
            scale = self._scale(weight) / unit
            values.append((found * scale).ravel())
            rows.data *= np.repeat(scale.ravel(), np.diff(rows.indptr))
            every.append(rows)
            slopes.append((by_numbers * scale[:, :, None]).reshape(-1, self.dimensions) * by_steps)
        if self._conditions is not None:
            found, rows, _ = self._conditions.linearized(state.coefficients, numbers)
            factor = np.sqrt(weight) / self._units[-1].item()
            values.append(found.ravel() * factor)
            every.append(rows * factor)
        values.append(self._held @ state.coefficients.ravel() - self._present)
        every.append(self._held)
        rest = sum(map(len, values)) - sum(map(len, slopes))
        slopes.append(np.zeros((rest, self.dimensions)))
        stacked = sparse.csr_matrix(sparse.vstack(every))
        return Stacked(np.concatenate(values), stacked, np.concatenate(slopes), misfit.size)

    def _scale(self, weight: float) -> FloatArray:
        return np.sqrt(weight * self._mass)[:, None]

    def measure(self, state: State) -> None:
        """Take units of equations and conditions from the sizes of their terms in a state."""
        numbers, by_steps = self.numbers(state.q)
        sizes = magnitudes(self.known, state.q) / per_coordinate(self.known, state.q) / self.steps
        places, _ = self.splines.gauss()
        every = [*self._equations, *([] if self._conditions is None else [self._conditions])]
        self._units = [
            np.sqrt(part.terms(state.coefficients, numbers, by_steps * sizes, places))
            for part in every
        ]
        if self._conditions is not None:
            self._units[-1] = CONDITION_UNIT * self._units[-1].max(keepdims=True)
        # Terms of hidden components alone, which are zero at the start, have no size yet: such an
        # equation waits until the others have said something of them.
        self._units = [np.where(each > 0, each, np.inf) for each in self._units]

    @property
    def all_count(self) -> bool:
        """Whether all equations and conditions have a unit."""
        return all(np.isfinite(each).all() for each in self._units)

    def restrain(self, state: State) -> None:
        r"""Hold the field on the faces of the box near the present one: no equation holds it there.

        Noise could be followed by waves that die out within. A change of third derivatives along a
        face adds about one to the sum of squares if it is as large as those of the present field
        there, or as those of one wave over the box as large as the field. Where the field no
        longer changes it adds nothing, and moves no parameter.
        """
        outputs = self.slot.outputs
        size = (state.coefficients**2).mean(axis=0)
        least = np.maximum((2 * np.pi) ** 6 * size, 1e-300)
        every = [sparse.csr_matrix((0, self.splines.size * outputs))]
        for face in self.splines.face_roughness():
            rough = ((face @ state.coefficients) ** 2).sum(axis=0)
            scale = sparse.diags_array(np.sqrt(ROUGH_TERM / np.maximum(rough, least)))
            every.append(sparse.kron(face, scale, format="csr"))
        self._held = sparse.csr_matrix(sparse.vstack(every))
        self._present = self._held @ state.coefficients.ravel()

    # How well the equation is obeyed.

    def depends_on_parameters(self, state: State) -> bool:
        """Whether a parameter moves a residual, of a field of random size."""
        generator = np.random.default_rng(0)
        more = self._size * generator.uniform(0.5, 1.5, state.coefficients.shape)
        numbers, _ = self.numbers(state.q)
        every = [part.linearized(state.coefficients + more, numbers)[2] for part in self._equations]
        return any(bool((np.nan_to_num(each) != 0).any()) for each in every)

    def residual(self, state: State) -> FloatArray:
        """Return the residuals of all equations in their units, times the roots of Gauss weights.

        Shape (Gauss points, equations).
        """
        numbers, _ = self.numbers(state.q)
        every = [
            part.values(state.coefficients, numbers) / unit
            for part, unit in zip(self._equations, self._units, strict=False)
        ]
        return np.concatenate(every, axis=1) * self._scale(1.0)

    def residual_slopes(self, state: State) -> FloatArray:
        """Return the derivatives of `residual` by steps, (Gauss points, equations, d)."""
        numbers, by_steps = self.numbers(state.q)
        every = [
            part.linearized(state.coefficients, numbers)[2] * by_steps / unit[:, None]
            for part, unit in zip(self._equations, self._units, strict=False)
        ]
        return np.concatenate(every, axis=1) * self._scale(1.0)[:, :, None]

    def within_cells(self, values: FloatArray) -> list[FloatArray]:
        r"""Return, by axis, the part of values at Gauss points that changes within their cells.

        A field on fine enough cells obeys its equation there. The values carry the roots of their
        Gauss weights, and the part is that along the second Legendre polynomial,
        :math:`(v_1 - \sqrt{5/2}\, v_2 + v_3) / \sqrt{9/2}`. Along its axis there is one for each
        cell.
        """
        shape = [n for axis in self.splines.axes for n in (axis.cells, GAUSS_POINTS)]
        values = values.reshape(*shape, *values.shape[1:])
        second = np.array([1.0, -np.sqrt(2.5), 1.0]) / np.sqrt(4.5)
        return [np.tensordot(values, second, axes=(2 * j + 1, 0)) for j in range(len(shape) // 2)]

    def cell_parts(self, residual: FloatArray) -> list[FloatArray]:
        """Return, by axis and cell, the mean square of what a residual changes within cells."""
        parts = []
        for j, along in enumerate(self.within_cells(residual)):
            rest = tuple(k for k in range(along.ndim) if k != 2 * j)
            parts.append((along**2).sum(axis=rest))
        return parts

    def equation_rows(self, stacked: Stacked, values: FloatArray) -> FloatArray:
        """Return the part of stacked rows that belongs to equations with a common set of points.

        Shape (Gauss points, equations, ...).
        """
        found, first = [], stacked.data
        for unit in self._units[: len(self._equations)]:
            last = first + self._mass.size * len(unit)
            shape = (self._mass.size, len(unit), *values.shape[1:])
            found.append(values[first:last].reshape(shape))
            first = last
        return np.concatenate(found, axis=1)

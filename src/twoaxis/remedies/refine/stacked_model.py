"""A model of another library with its data and equation in comparable units, linearized.

The stacked residual holds the misfit to the data in noise levels, the residual of the equation and
that of the conditions; see `twoaxis.gauss_newton`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.gauss_newton import coordinate_steps
from twoaxis.observations import Observations
from twoaxis.remedies.refine.coordinates import (
    covariance_of,
    magnitudes,
    per_coordinate,
    shown,
)
from twoaxis.remedies.refine.result import (
    UNSATISFIED,
    equation_share,
    most_misfit,
)
from twoaxis.resolution.data_fit import deviation
from twoaxis.weighted_model import WeightedModel

FloatArray = NDArray[np.float64]

# Ridges of the information matrix, relative to the mean of its diagonal. They hold weights that
# neither the data nor the equation determine; too large a one holds the others, too.
RIDGES = (1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-7)
# Sum of squared ratios of signal to noise that the weights of a continuation are meant for, and the
# largest factor for more precise data: beyond it linear systems lose their digits.
USUAL, MOST_GAIN = 2000.0, 1e4
# The matrix of all weights takes 0.8 GB at this number, three times.
MAX_WEIGHTS = 10_000
# A first guess of unknown noise, as a share of the standard deviation of the data.
NOISE_GUESS = 0.1
# Points of an interval for each weight, up to so many.
DENSE, MOST_POINTS = 2, 1200


@dataclass(frozen=True, eq=False)
class Reduced:
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
    factor : array, shape (number of weights, number of weights)
        L, where :math:`A = L L^\top`.
    held : array, shape (number of weights, n)
        :math:`L^{-1} F^\top`.
    """

    tangent: FloatArray
    step: FloatArray
    covariance: FloatArray
    together: FloatArray
    factor: FloatArray
    held: FloatArray

    @property
    def ratios(self) -> FloatArray:
        """How much larger standard errors by the data alone are than with the equation."""
        return np.asarray(np.sqrt(np.diag(self.covariance) / np.diag(self.together)))

    @property
    def free(self) -> float:
        r"""In so many directions of the field the data alone decide.

        At fixed parameters it is :math:`\operatorname{tr} F A^{-1} F^\top`. A field that equation
        and conditions determine has none.
        """
        return float((self.held**2).sum())

    def free_basis(self) -> FloatArray:
        r"""Return these directions of the weights, as columns.

        The singular values of :math:`L^{-1} F^\top` lie between zero, where equation and conditions
        decide, and one, where the data do. The columns are those of :math:`L^{-\top}` times the
        singular vectors of the latter: each moves the fitted data by one noise level in all.
        """
        from scipy.linalg import solve_triangular

        vectors, singular, _ = np.linalg.svd(self.held, full_matrices=False)
        chosen = vectors[:, singular**2 > 0.5]
        return np.asarray(solve_triangular(self.factor, chosen, lower=True, trans=1))


class StackedModel:
    """A model with weights, its observations and its residual in comparable units."""

    def __init__(self, frozen: FrozenResidual, observations: Observations) -> None:
        self.frozen, self.known = frozen, frozen.known
        assert frozen.weights is not None
        self.weights: WeightedModel = frozen.weights
        if self.weights.start.size > MAX_WEIGHTS:
            raise InputError(
                f"a network of at most {MAX_WEIGHTS:,} weights, whose system fits into memory",
                f"{self.weights.start.size:,} weights",
                "train a narrower network (three hidden layers of 50 have about 5,200 weights)",
            )
        _refuse_other_noise(observations)
        self.observations = observations
        self.places, row = self.observations.sites, self.observations.row
        self.sites = self.places[row]
        outputs = self.weights.field(self.weights.start, self.places).size // len(self.places)
        entries = row * outputs + self.observations.column
        every = np.array_equal(entries, np.arange(len(self.places) * outputs))
        self._entries: Any = slice(None) if every else entries
        # Whether the readings are all that the frozen residual predicts, in its order.
        self.as_frozen = every and np.array_equal(self.places, frozen.observed)
        self.points = frozen.points
        if frozen.residual_at is not None:  # or else it is known at its points alone
            self.points = _dense(frozen.points, self.weights.start.size)
        self.data = self.observations.readings
        self.steps = coordinate_steps(self.known)
        given = self.observations.noise_known
        self.given_noise = float(self.observations.standard_deviations()[0]) if given else None
        self.free = 0.0
        self.restart(self.weights.start)
        self.unit = self.edge_unit = 1.0

    def measure(self, weights: FloatArray, q: FloatArray) -> None:
        """Take units of the equation and of the conditions, whatever units their terms have.

        That of the equation is the size of its derivatives by the parameters, of as much as these
        are. Conditions are measured as the data are: by how much the weights of the field move
        them, compared with the field, whose unit is the size of the data.
        """
        _, slopes = self.weights.residual_jacobian(weights, self.points, **self.physical(q))
        size = float(((slopes * magnitudes(self.known, q)) ** 2).sum(axis=1).mean())
        if not size > 0:
            raise InputError(
                "a residual that depends on a parameter",
                "one that does not change with any of them",
                "check the names of the parameters in the residual",
            )
        self.unit = float(np.sqrt(size))
        edge = _mean_square(self.weights.conditions_jacobian(weights))
        field = _mean_square(self.fitted_jacobian(weights))
        of_data = float(np.sqrt((self.data**2).mean()))
        if edge > 0 and field > 0 and of_data > 0:
            self.edge_unit = of_data * float(np.sqrt(edge / field))

    def by_step(self, q: FloatArray) -> FloatArray:
        """Return the derivatives of the physical values by steps of the coordinates."""
        return per_coordinate(self.known, q) * self.steps

    @property
    def start(self) -> FloatArray:
        """Coordinates of the delivered values."""
        return self.known.coordinates(self.known.require("delivered"))

    def _spread(self, weights: FloatArray) -> float:
        rest = self.fitted(weights) - self.data
        # Data without noise: the sixth digit of their spread stands for it.
        least = 1e-6 * float(np.std(self.data)) or 1e-300
        return max(float(np.sqrt((rest**2).sum() / self.freedom)), least)

    @property
    def freedom(self) -> float:
        """Degrees of freedom that are left of the data for the noise."""
        return max(1.0, self.data.size - len(self.known) - self.free)

    def restart(self, weights: FloatArray) -> None:
        """Forget what a refinement found of the noise, for another one from this field.

        A field that misses the data must not be taken for one that their noise hides: a first
        guess of unknown noise is at most a tenth of the spread of the data.
        """
        self.free = 0.0
        if self.given_noise is not None:
            self.noise = self.given_noise
            return
        self.noise = min(self._spread(weights), NOISE_GUESS * deviation(self.data) or 1e-300)

    def update_noise(self, weights: FloatArray) -> None:
        """Estimate the noise from what a field leaves, unless it was given."""
        if self.given_noise is None:
            self.noise = self._spread(weights)

    def misfit(self, weights: FloatArray) -> float:
        """Return the mean square by which a field misses the data, in noise variances."""
        return float((((self.fitted(weights) - self.data) / self.noise) ** 2).mean())

    def fitted(self, weights: FloatArray) -> FloatArray:
        """Return what the field predicts for the readings, shape (n,)."""
        return self.observations.take(self.weights.field(weights, self.places))

    def fitted_jacobian(self, weights: FloatArray) -> FloatArray:
        """Return derivatives of `fitted` by the weights, shape (n, W)."""
        return np.asarray(self.weights.field_jacobian(weights, self.places)[self._entries])

    def physical(self, q: FloatArray) -> dict[str, float]:
        """Return the values of the parameters."""
        return self.frozen.physical(q)

    def shown(self, q: FloatArray) -> str:
        """Return the values of the parameters as text."""
        return shown(self.known, q)

    def residual(self, weights: FloatArray, q: FloatArray, points: FloatArray) -> FloatArray:
        """Return the residual of the equation, in its unit."""
        found = self.weights.residual(weights, points, **self.physical(q))
        return np.asarray(found, dtype=float) / self.unit

    def rms_residual(self, weights: FloatArray, q: FloatArray) -> float:
        """Return its root mean square over the points of the model."""
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
                np.sqrt(weight) / self.edge_unit * self.weights.conditions(weights),
            ]
        )

    def jacobian(
        self, weights: FloatArray, q: FloatArray, points: Any, weight: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return its derivatives by the weights, and by steps of the coordinates."""
        inside, slopes = self.weights.residual_jacobian(weights, points, **self.physical(q))
        factor = np.sqrt(weight / _count(points)) / self.unit
        field = self.fitted_jacobian(weights) / self.noise
        edge = np.sqrt(weight) / self.edge_unit * self.weights.conditions_jacobian(weights)
        by_steps = np.zeros((len(field) + len(inside) + len(edge), len(q)))
        by_steps[len(field) : len(field) + len(inside)] = factor * slopes * self.by_step(q)
        return np.concatenate([field, factor * inside, edge]), by_steps

    def reduced(self, weights: FloatArray, q: FloatArray, weight: float) -> Reduced:
        r"""Eliminate the field.

        With the Jacobians :math:`J_\theta, J_q` of the stacked residual f, and the rows F of
        :math:`J_\theta` that belong to the data, in noise levels,

        .. math:: A = J_\theta^\top J_\theta, \quad T = -A^{-1} J_\theta^\top J_q, \quad
                  S = F T, \quad C = (S^\top S)^{-1}, \quad \bar J = J_q + J_\theta T, \quad
                  \bar C = (\bar J^\top \bar J)^{-1}, \quad \delta q = -\bar C \bar J^\top f :

        the tangent T along which the field follows the parameters, their covariance C by what the
        data say, the covariance :math:`\bar C` by what data and equation say together, and the
        step to the minimum. For a large weight both covariances have the same limit, unless the
        network cannot follow the solution as the parameters change. What it leaves of the equation
        then counts as information in :math:`\bar C`, multiplied by the weight.
        """
        from scipy.linalg import cho_solve, solve_triangular

        values = self.values(weights, q, self.points, weight)
        by_weights, by_steps = self.jacobian(weights, q, self.points, weight)
        jacobian = np.concatenate([by_weights, by_steps], axis=1)
        self.check_squares(q, values, jacobian)
        matrix = jacobian.T @ jacobian
        factor = _factor(matrix)
        of_field, of_parameters = factor[: -q.size, : -q.size], factor[-q.size :, -q.size :]
        tangent = -cho_solve((of_field, True), matrix[: -q.size, -q.size :])
        observed = by_weights[: self.data.size]
        sensitivity = observed @ tangent
        squares = np.outer(self.steps, self.steps)
        return Reduced(
            tangent=tangent / self.steps,
            step=-self.steps * cho_solve((factor, True), jacobian.T @ values)[-q.size :],
            covariance=covariance_of(sensitivity.T @ sensitivity) * squares,
            together=cho_solve((of_parameters, True), np.eye(q.size)) * squares,
            factor=of_field,
            held=solve_triangular(of_field, observed.T, lower=True),
        )

    def check_squares(self, q: FloatArray, values: FloatArray, jacobian: FloatArray) -> None:
        """Refuse values and derivatives whose squares cannot be represented."""
        with np.errstate(over="ignore", invalid="ignore"):
            sizes = float(values @ values), float(np.vdot(jacobian, jacobian))
        if not np.isfinite(sizes).all():
            raise InputError(
                "residual, field and conditions with finite values and derivatives, and so are "
                "their squares",
                f"some that are not finite at {self.shown(q)}",
                "narrow the bounds of the parameters, or scale the residual to about one",
            )


def _mean_square(jacobian: FloatArray) -> float:
    """Return the mean over the rows of their squared lengths; zero without rows."""
    return float((jacobian**2).sum() / max(len(jacobian), 1))


def _dense(points: Any, weights: int) -> Any:
    """Return more points along an interval: with fewer of them than weights a field could bend.

    In more dimensions only the model knows its domain, and its own points are all there are.
    """
    if isinstance(points, tuple) or points.shape[1] > 1 or len(points) >= DENSE * weights:
        return points
    count = min(DENSE * weights, MOST_POINTS)
    return np.linspace(points.min(), points.max(), max(count, len(points)))[:, None]


def _count(points: Any) -> int:
    """Return the number of collocation points."""
    return sum(map(len, points)) if isinstance(points, tuple) else len(points)


def _refuse_other_noise(found: Observations) -> None:
    """Refuse what only a field of splines can be refined to."""
    refused = {
        "noise of one size, or of unknown size": found.noise_known
        and (found.correlated or float(np.ptp(found.standard_deviations())) > 0),
        "noise of one unknown size": found.sensors is not None and found.group_count > 1,
        "observations without a transform": found.transform is not None,
        "observations of outputs of the model": callable(found.of),
    }
    for expected, wrong in refused.items():
        if wrong:
            raise InputError(
                f"{expected} for a refinement",
                repr(found),
                "pass Observations(values, at=..., noise=...) with one number as noise, or "
                "twoaxis.resolve(forward, parameters, data=...) with a simulator",
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

r"""Gauss–Newton steps with a growing weight of the equation: what every refinement shares.

The stacked residual of a field :math:`u_\theta` and the coordinates :math:`q` is

.. math:: f(\theta, q) = \Big[\tfrac{u_\theta(x_i) - y_i}{\sigma};\;
          \sqrt{\lambda / N}\; r(\theta, q; z_k)\Big],

the misfit in noise levels above the residual of the equation. As :math:`\lambda` grows, the
minimum of :math:`|f|^2` moves from a field that fits the data to the solution of the equation
that fits the data best: the least-squares estimate of :math:`q`, without a solver.

The same code runs on NumPy arrays and under JAX; `xp` is NumPy or ``jax.numpy``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from twoaxis.arrays import FloatArray, is_integer, is_real
from twoaxis.errors import InputError
from twoaxis.parameters import Parameter

# Damping of a step: where it starts, its limits, and how it changes after a success or a failure.
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-2, 1e-8, 1e8
LESS, MORE = 1 / 3, 4.0
# Share of the previous step that the next one starts from.
INERTIA = 0.9
# How often a step is tried with more damping before the collocation points change.
TRIES = 6
# Ridge of the information matrix, relative to the mean of its diagonal: weights that neither the
# data nor the equation determine would make it singular.
RIDGE = 1e-9
# Largest move of a coordinate at once, in `coordinate_steps`.
LONGEST = 0.3


@dataclass(frozen=True)
class Continuation:
    r"""How the weight of the equation grows, and when the parameters move.

    Parameters
    ----------
    first, last : float
        Weight :math:`\lambda` at the beginning, and the largest one.
    free : float
        The parameters rest until the weight has reached this value: before that the field does
        not obey the equation, and would pull them to where it is satisfied trivially.
    growth : float
        Factor of the weight over a stage.
    steps, free_steps : int
        Steps of a stage while the parameters rest, and after that. Each of the latter stages ends
        with a move of the parameters.
    plateau : float
        The smallest weight at which training may end.
    more : int
        Stages at the last weight.
    settled : float
        Training ends when no parameter has moved, or wants to move, by more than this many
        standard errors over a stage.
    resample : int
        Steps between two draws of collocation points.

    Examples
    --------
    >>> from twoaxis.gauss_newton import Continuation
    >>> schedule = Continuation(last=1e7)  # for ta.refine(..., continuation=schedule)
    >>> schedule.first, schedule.last, schedule.growth
    (10.0, 10000000.0, 3.0)
    """

    first: float = 10.0
    free: float = 1e5
    plateau: float = 1e6
    last: float = 3e6
    growth: float = 3.0
    steps: int = 10
    free_steps: int = 20
    more: int = 14
    settled: float = 0.1
    resample: int = 5

    def __post_init__(self) -> None:
        weights = (self.first, self.free, self.plateau, self.last)
        rising = all(map(is_real, weights)) and (
            0 < self.first <= self.free <= self.plateau <= self.last < math.inf
        )
        if not rising:
            raise InputError(
                "weights with 0 < first <= free <= plateau <= last",
                f"{weights}",
                "pass Continuation(first=10, free=1e5, plateau=1e6, last=3e6)",
            )
        if not (is_real(self.growth) and 1 < self.growth <= 1e3):
            raise InputError(
                "a growth above 1, of at most 1000", f"growth={self.growth!r}", "pass growth=3"
            )
        if not (is_real(self.settled) and 0 < self.settled < math.inf):
            raise InputError(
                "settled as a positive number of standard errors",
                f"settled={self.settled!r}",
                "pass settled=0.1",
            )
        for name in ("steps", "free_steps", "more", "resample"):
            value = getattr(self, name)
            if not (is_integer(value) and value >= 1):
                raise InputError(f"{name} as a positive integer", repr(value), f"change {name}")

    @property
    def rest(self) -> int:
        """Number of steps during which the parameters rest."""
        return self._stages(self.first, self.free) * self.steps

    @property
    def all_steps(self) -> int:
        """Number of steps of all stages."""
        return self.rest + (self._stages(self.free, self.last) + self.more) * self.free_steps

    def _stages(self, first: float, last: float) -> int:
        return math.ceil(math.log(last / first) / math.log(self.growth) - 1e-9)

    def weight(self, step: Any, xp: Any) -> Any:
        """Return the weight at a step, or at an array of steps."""
        resting = self.free * self.growth ** ((step - self.rest) / self.steps)
        after = self.free * self.growth ** ((step - self.rest) / self.free_steps)
        return xp.where(step < self.rest, resting, xp.minimum(self.last, after))

    def ends_stage(self, step: Any) -> Any:
        """Whether the parameters move after this step."""
        return (step >= self.rest) & ((step + 1 - self.rest) % self.free_steps == 0)


def coordinate_steps(parameters: Mapping[str, Parameter]) -> FloatArray:
    """Return a step of each coordinate, shape (d,), against which its moves are measured.

    One in log coordinates. Linear ones have the units of their parameter: a third of its range.

    >>> from twoaxis import Parameter
    >>> steps = coordinate_steps({
    ...     "nu": Parameter(bounds=(1e-3, 1.0)),
    ...     "offset": Parameter(bounds=(-3e-9, 6e-9), coordinate="linear"),
    ... })
    >>> [float(f"{step:.3g}") for step in steps]
    [1.0, 3e-09]
    """
    low, high = np.array([p.coordinate_bounds for p in parameters.values()]).T
    logs = np.array([p.coordinate == "log" for p in parameters.values()])
    return np.where(logs, 1.0, high / 3 - low / 3)


def damped_step(
    jacobian: Any, values: Any, damping: Any, inertia: Any, solve: Callable[[Any, Any, Any], Any]
) -> Any:
    r"""Return the step of Levenberg and Marquardt around a guess, in the smaller of two forms.

    .. math:: \delta = p + \arg\min_d |f + J p + J d|^2 + \mu |d|^2
              = p - (J^\top J + \mu I)^{-1} J^\top (f + J p)
              = p - J^\top (J J^\top + \mu I)^{-1} (f + J p)

    Damping around a share p of the previous step, and not around zero, lets the field move far
    along the narrow valley in which field and parameters change together.

    Parameters
    ----------
    jacobian : array, shape (m, n)
    values : array, shape (m,)
    damping : float
    inertia : array, shape (n,)
        The guess p.
    solve : callable
        ``solve(matrix, damping, right)``: solve with ``matrix + damping * identity``, which is
        symmetric and positive definite.
    """
    rows, columns = jacobian.shape
    ahead = values + jacobian @ inertia
    if rows < columns:
        return inertia - jacobian.T @ solve(jacobian @ jacobian.T, damping, ahead)
    return inertia - solve(jacobian.T @ jacobian, damping, jacobian.T @ ahead)

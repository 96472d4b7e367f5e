r"""What the discretization of the declared solver does to the parameter.

The data of a benchmark are those of its declared solver at the truth, :math:`G_h(q^\star)`. Who
solves the equation itself, as a network does, finds in them another parameter, even without noise:

.. math:: q_0 = \arg\min_q |G_0(q) - G_h(q^\star)|^2

with the predictions :math:`G_0` of the equation. They come from a solver that refines the declared
grid in space and time; what its own grid leaves is extrapolated, of first order in the time step
and of second order in the distance of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar

from twoaxis.forward.converged import FINER, MORE_LEVELS, converged_at_sites
from twoaxis.forward.explicit import ExplicitSolver
from twoaxis.problems import truth_of

FloatArray = NDArray[np.float64]

# Candidates around the truth, in the log of the parameter.
REACH, CANDIDATES = 0.3, 13


@dataclass(frozen=True)
class Discretized:
    """Best parameters of refined solvers for the noise-free data of the declared one, in percent.

    Attributes
    ----------
    time_refined : float
        With finer time steps alone.
    coarser, middle, finest : float
        With half the refinement in space, with both, and with finer time steps still.
    equation : float
        Extrapolated to the equation itself.
    """

    time_refined: float
    coarser: float
    middle: float
    finest: float

    @property
    def equation(self) -> float:
        """``finest``, with what remains of the time steps and of the distance of nodes."""
        time = (self.finest - self.middle) / 3  # a quarter of the step, first order
        space = (self.middle - self.coarser) / 3  # half the distance, second order
        return self.finest + time + space


def discretized(
    declared: ExplicitSolver,
    groups: Mapping[str, NDArray[np.intp]],
    finer: int = FINER,
    more_levels: int = MORE_LEVELS,
) -> dict[str, Discretized]:
    """Return what the equation makes of noise-free data, for groups of sites.

    Parameters
    ----------
    declared : ExplicitSolver
        The solver that made the data, of a problem with one parameter.
    groups : mapping of str to array of int
        Flat C-order indices into its field.
    finer, more_levels : int
        Cells and time steps of the middle grid for each of the declared ones; the first is even.
    """
    grids = {
        "time_refined": (1, 4 * more_levels),
        "coarser": (finer // 2, more_levels),
        "middle": (finer, more_levels),
        "finest": (finer, 4 * more_levels),
    }
    found = {name: best_parameters(declared, groups, *grid) for name, grid in grids.items()}
    return {
        group: Discretized(**{name: values[group] for name, values in found.items()})
        for group in groups
    }


def best_parameters(
    declared: ExplicitSolver, groups: Mapping[str, NDArray[np.intp]], finer: int, more_levels: int
) -> dict[str, float]:
    """Return the best parameter of one refined solver for each group, in percent off the truth."""
    ((name, truth),) = truth_of(declared.problem).items()
    steps = np.linspace(-REACH, REACH, CANDIDATES)
    sites = np.concatenate(list(groups.values()))
    predicted = converged_at_sites(
        declared, sites, finer=finer, more_levels=more_levels, **{name: truth * np.exp(steps)}
    )
    data = declared.true_field().ravel()[sites]
    ends = np.cumsum([0, *(len(each) for each in groups.values())])
    return {
        group: 100 * float(np.expm1(_nearest(steps, predicted[:, low:high], data[low:high])))
        for group, low, high in zip(groups, ends, ends[1:], strict=False)
    }


def _nearest(steps: FloatArray, predicted: FloatArray, data: FloatArray) -> float:
    """Return the step whose predictions are nearest to the data."""
    curve = CubicSpline(steps, predicted)

    def misfit(step: float) -> float:
        return float(np.sum((curve(step) - data) ** 2))

    best = minimize_scalar(misfit, bounds=(steps[0], steps[-1]), options={"xatol": 1e-8})
    return float(best.x)

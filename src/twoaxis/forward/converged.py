"""A converged solver of the evolution problems: what the equation itself predicts.

The declared solver makes the data of the study, discretization included. This one has the same
scheme on a finer grid whose nodes include the declared ones, so that both speak of the same sites.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.forward.explicit import ExplicitSolver
from twoaxis.problems import EvolutionProblem

FloatArray = NDArray[np.float64]

# Refinement of the declared grid in space and in time.
FINER, MORE_LEVELS = 4, 8
# How far both sides of a jump are looked at.
REACH = 1e-9


def converged_at_sites(
    declared: ExplicitSolver,
    sites: ArrayLike,
    *,
    finer: int = FINER,
    more_levels: int = MORE_LEVELS,
    **parameters: ArrayLike,
) -> FloatArray:
    """Return predictions of the converged solver at sites of the declared grid, (P, n).

    Parameters
    ----------
    declared : ExplicitSolver
        The solver whose grid the sites index.
    sites : array of int, shape (n,)
        Flat C-order indices into its field.
    finer, more_levels : int
        Cells and time steps for each of the declared ones.
    **parameters : array, shape (P,)
        One vector for each parameter, all of the same length.
    """
    fine = ExplicitSolver(
        replace(declared.problem, initial=lambda x: _mean_of_sides(declared.problem, x)),
        levels=(declared.levels - 1) * more_levels + 1,
        nodes=(declared.nodes - 1) * finer + 1,
    )
    level, node = np.divmod(np.asarray(sites, dtype=np.intp), declared.nodes)
    return fine.at_sites(level * more_levels * fine.nodes + node * finer, **parameters)


def _mean_of_sides(problem: EvolutionProblem, x: FloatArray) -> FloatArray:
    """Return the initial field, with the mean of both sides at a node on a step.

    The front is then where the equation has it, and not half a cell beside it.
    """
    return (problem.initial(x - REACH) + problem.initial(x + REACH)) / 2

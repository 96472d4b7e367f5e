"""The benchmark problems, one per file, and `get_problem` by name."""

from __future__ import annotations

import copyreg
from typing import Any

from twoaxis.errors import InputError, named
from twoaxis.problems.allen_cahn import ALLEN_CAHN
from twoaxis.problems.ansatz import Ansatz, InputMap, compose
from twoaxis.problems.buckley_leverett import BUCKLEY_LEVERETT
from twoaxis.problems.burgers import BURGERS
from twoaxis.problems.darcy import DARCY
from twoaxis.problems.problem import (
    EvolutionProblem,
    FixedEnds,
    ObservationPlan,
    Problem,
    SteadyProblem,
    ZeroFlux,
    truth_of,
)

PROBLEMS: dict[str, Problem] = {
    problem.name: problem for problem in (BURGERS, BUCKLEY_LEVERETT, ALLEN_CAHN, DARCY)
}

# The three scalar benchmarks of the study, in its order.
SCALAR_BENCHMARKS: tuple[EvolutionProblem, ...] = (BURGERS, BUCKLEY_LEVERETT, ALLEN_CAHN)

__all__ = [
    "ALLEN_CAHN",
    "BUCKLEY_LEVERETT",
    "BURGERS",
    "DARCY",
    "PROBLEMS",
    "SCALAR_BENCHMARKS",
    "Ansatz",
    "EvolutionProblem",
    "FixedEnds",
    "InputMap",
    "ObservationPlan",
    "Problem",
    "SteadyProblem",
    "ZeroFlux",
    "compose",
    "get_problem",
    "truth_of",
]


def get_problem(problem: str | Problem) -> Problem:
    """Return the benchmark with this name; a problem passes through.

    Parameters
    ----------
    problem : str or Problem
        Upper case and underscores are accepted, as in ``"Allen_Cahn"``.

    Examples
    --------
    >>> from twoaxis.problems import get_problem
    >>> problem = get_problem("burgers")
    >>> problem.title, {name: each.truth for name, each in problem.parameters.items()}
    ('Burgers', {'nu': 0.01})
    """
    if isinstance(problem, (EvolutionProblem, SteadyProblem)):
        return problem
    if not isinstance(problem, str):
        raise InputError(
            "a problem or the name of one", repr(problem), f"choose one of {', '.join(PROBLEMS)}"
        )
    return named("problems", problem, PROBLEMS)


def _travelling(problem: Problem) -> tuple[Any, ...]:
    """Let a built-in problem travel between processes by its name.

    It comes out as the very object that is there, so that programs compiled for it are found.
    """
    if PROBLEMS.get(problem.name) is problem:
        return get_problem, (problem.name,)
    return copyreg.__newobj__, (type(problem),), vars(problem)  # type: ignore[attr-defined]


for _kind in (EvolutionProblem, SteadyProblem):
    copyreg.pickle(_kind, _travelling)  # type: ignore[arg-type]

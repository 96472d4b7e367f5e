"""Forward models: the declared solvers, a callable of the user, and banks over parameters."""

from __future__ import annotations

from typing import Literal

from twoaxis.errors import InputError
from twoaxis.forward.bank import Bank
from twoaxis.forward.elliptic import SparseSolver
from twoaxis.forward.explicit import ExplicitSolver
from twoaxis.forward.model import ForwardModel, MapEngine
from twoaxis.problems import EvolutionProblem, Problem, get_problem

Fidelity = Literal["fine", "coarse"]
Solver = ExplicitSolver | SparseSolver

__all__ = [
    "Bank",
    "ExplicitSolver",
    "Fidelity",
    "ForwardModel",
    "MapEngine",
    "Solver",
    "SparseSolver",
    "get_solver",
]


def get_solver(problem: str | Problem, fidelity: Fidelity = "fine") -> Solver:
    """Return the declared solver of a benchmark.

    Parameters
    ----------
    problem : str or Problem
    fidelity : {"fine", "coarse"}
        The fine solver makes the data; the coarse one serves the discrepancy control.
        Evolution problems: 2001 by 201 and 501 by 101 (time by space). Darcy: 49 by 49
        and 25 by 25.

    Examples
    --------
    >>> from twoaxis.forward import get_solver
    >>> solver = get_solver("burgers")
    >>> solver.true_field().shape == (solver.t.size, solver.x.size)
    True
    """
    if fidelity not in ("fine", "coarse"):
        raise InputError('the solver "fine" or "coarse"', repr(fidelity), "choose one of the two")
    problem = get_problem(problem)
    if isinstance(problem, EvolutionProblem):
        levels, nodes = (2001, 201) if fidelity == "fine" else (501, 101)
        return ExplicitSolver(problem, levels, nodes)
    return SparseSolver(problem, 49 if fidelity == "fine" else 25)

"""What a benchmark problem is: an equation, its conditions and its unknowns.

A problem is a value, made by composition: functions for the residual, the initial
field and the spatial terms are handed to one of two dataclasses, according to
whether the equation evolves in time or is steady. Nothing is inherited.

Residuals use ``+ - * / **`` alone. NumPy, JAX and PyTorch arrays therefore all pass
through the same definition, and so do float32 and float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from twoaxis.parameters import Parameter, Parameters
from twoaxis.problems.ansatz import Ansatz

FloatArray = NDArray[np.float64]


class Stencil(Protocol):
    """Centered difference quotients of nodal values, at the interior nodes."""

    def center(self, nodes: FloatArray) -> FloatArray:
        """``v_i``."""
        ...

    def first(self, nodes: FloatArray) -> FloatArray:
        """``(v_{i+1} - v_{i-1}) / (2 dx)``."""
        ...

    def second(self, nodes: FloatArray) -> FloatArray:
        """``(v_{i+1} - 2 v_i + v_{i-1}) / dx^2``."""
        ...


@dataclass(frozen=True)
class FixedEnds:
    """Dirichlet conditions: the two ends keep these values.

    Examples
    --------
    >>> from twoaxis.problems import BURGERS
    >>> BURGERS.ends
    FixedEnds(left=0.0, right=0.0)
    """

    left: float
    right: float

    def impose(self, nodes: FloatArray) -> None:
        """Overwrite the end nodes of an array whose first axis is space."""
        nodes[0] = self.left
        nodes[-1] = self.right


@dataclass(frozen=True)
class ZeroFlux:
    """Homogeneous Neumann conditions: each end copies its neighbor.

    Examples
    --------
    >>> from twoaxis.problems import ALLEN_CAHN
    >>> ALLEN_CAHN.ends
    ZeroFlux()
    """

    def impose(self, nodes: FloatArray) -> None:
        """Overwrite the end nodes of an array whose first axis is space."""
        nodes[0] = nodes[1]
        nodes[-1] = nodes[-2]


@dataclass(frozen=True)
class ObservationPlan:
    """How a benchmark is observed: sites per layout, and noise relative to the field.

    The noise has standard deviation ``noise_fraction * std(u)`` over the whole grid.

    Attributes
    ----------
    sites : int
    noise_fraction : float
    layouts : tuple of int
        Seeds of the layouts that are used by default.
    more_draws : tuple of int
        Seeds of further datasets of the study.

    Examples
    --------
    >>> from twoaxis.problems import get_problem
    >>> plan = get_problem("burgers").observed
    >>> plan.layouts
    (8, 9, 10, 11)
    """

    sites: int
    noise_fraction: float
    layouts: tuple[int, ...]
    more_draws: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class EvolutionProblem:
    """A scalar equation ``u_t = rate(u)`` in one space dimension.

    Parameters
    ----------
    name, title, equation : str
        The command-line name, the name in a heading, the equation in one line.
    parameters : mapping of str to Parameter
        The unknowns, with truth, starting value and bounds.
    domain : mapping of str to (float, float)
        The range of ``x`` and of ``t``, in the order of a point's columns.
    residual : callable
        ``residual(u=, u_t=, u_x=, u_xx=, **parameters)``, arithmetic only.
    rate : callable
        ``rate(u, stencil, **parameters)``: the time derivative at the interior nodes
        as the declared scheme differences it; ``u`` has space on its first axis.
    initial : callable
        ``initial(x)``: the field at time zero.
    ends : FixedEnds or ZeroFlux
        The boundary conditions.
    observed : ObservationPlan
        The published observation protocol.
    ansatz : Ansatz, optional
        A field that satisfies the initial and boundary conditions whatever a network returns.

    Examples
    --------
    >>> from twoaxis.problems import EvolutionProblem, get_problem
    >>> problem = get_problem("allen-cahn")
    >>> isinstance(problem, EvolutionProblem), sorted(problem.parameters)
    (True, ['lam'])
    """

    name: str
    title: str
    equation: str
    parameters: Mapping[str, Parameter]
    domain: Mapping[str, tuple[float, float]]
    residual: Callable[..., Any]
    rate: Callable[..., FloatArray]
    initial: Callable[[FloatArray], FloatArray]
    ends: FixedEnds | ZeroFlux
    observed: ObservationPlan
    derivatives: tuple[str, ...] = ("u", "u_t", "u_x", "u_xx")
    ansatz: Ansatz | None = None

    def coefficients(self, points: FloatArray) -> dict[str, FloatArray]:  # noqa: ARG002
        """Return the known functions of position that the residual needs: none here."""
        return {}


@dataclass(frozen=True, kw_only=True, eq=False)
class SteadyProblem:
    """A steady equation on a square whose true field is known in closed form.

    Parameters
    ----------
    name, title, equation, parameters, domain, residual, observed, ansatz
        As for `EvolutionProblem`.
    coefficients : callable
        ``coefficients(points)``: the known functions of position that the residual
        takes by keyword beside the derivatives of the field.
    field : callable
        ``field(x, y)``: the manufactured solution at the true parameters; its values
        on the boundary are the boundary condition for every parameter.
    source : callable
        ``source(x, y)``: the right-hand side that makes `field` exact at the truth.
    permeability : callable
        ``permeability(x, y, **parameters)``.

    Examples
    --------
    >>> from twoaxis.problems import SteadyProblem, get_problem
    >>> problem = get_problem("darcy")
    >>> isinstance(problem, SteadyProblem), sorted(problem.parameters)
    (True, ['lambda_0', 'lambda_1'])
    """

    name: str
    title: str
    equation: str
    parameters: Mapping[str, Parameter]
    domain: Mapping[str, tuple[float, float]]
    residual: Callable[..., Any]
    coefficients: Callable[[FloatArray], dict[str, FloatArray]]
    field: Callable[[FloatArray, FloatArray], FloatArray]
    source: Callable[[FloatArray, FloatArray], FloatArray]
    permeability: Callable[..., FloatArray]
    observed: ObservationPlan
    derivatives: tuple[str, ...] = ("u", "u_x", "u_y", "u_xx", "u_yy")
    ansatz: Ansatz | None = None


Problem = EvolutionProblem | SteadyProblem


def truth_of(problem: Problem) -> dict[str, float]:
    """Return the true parameters by name."""
    return Parameters(problem.parameters).require("truth")

"""The declared solver of the evolution problems: forward Euler, centered differences.

The scheme is part of the protocol, not an approximation to be improved: the data come
from it, and the matched estimator fits with the same one. It runs a whole vector of
parameters at once, space on the first axis and parameters on the last, so that every
difference quotient is one contiguous array operation.

The scheme is explicit and therefore unstable for some parameters (Burgers below a
viscosity of about 0.0028). A field that is no longer finite is returned as a row of NaN,
which the forward model excludes with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError
from twoaxis.problems import EvolutionProblem, truth_of

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

# Larger blocks spill out of the processor's cache, smaller ones pay more for Python's steps.
BLOCK = 128


@dataclass(frozen=True)
class CenteredDifferences:
    """Difference quotients at the interior nodes of an even grid, space first."""

    spacing: float

    def center(self, nodes: FloatArray) -> FloatArray:
        """``v_i``."""
        return nodes[1:-1]

    def first(self, nodes: FloatArray) -> FloatArray:
        """``(v_{i+1} - v_{i-1}) / (2 dx)``."""
        return (nodes[2:] - nodes[:-2]) / (2 * self.spacing)

    def second(self, nodes: FloatArray) -> FloatArray:
        """``(v_{i+1} - 2 v_i + v_{i-1}) / dx^2``."""
        return (nodes[2:] - 2 * nodes[1:-1] + nodes[:-2]) / self.spacing**2


@dataclass(frozen=True)
class ExplicitSolver:
    """Forward Euler on an even grid of time levels and space nodes.

    Parameters
    ----------
    problem : EvolutionProblem
    levels, nodes : int
        Time levels and space nodes; (2001, 201) is the fine solver of the study and
        (501, 101) the coarse one of its discrepancy control.

    Examples
    --------
    >>> from twoaxis.problems import BURGERS
    >>> solver = ExplicitSolver(BURGERS, levels=2001, nodes=201)
    >>> solver.field(nu=0.01).shape
    (2001, 201)
    """

    problem: EvolutionProblem
    levels: int
    nodes: int

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of a field: time levels by space nodes."""
        return self.levels, self.nodes

    @property
    def t(self) -> FloatArray:
        """Time levels."""
        return np.linspace(*self.problem.domain["t"], self.levels)

    @property
    def x(self) -> FloatArray:
        """Space nodes."""
        return np.linspace(*self.problem.domain["x"], self.nodes)

    def points(self, sites: ArrayLike) -> FloatArray:
        """Coordinates ``(x, t)`` of flat C-order indices into a field, shape (n, 2)."""
        level, node = np.unravel_index(np.asarray(sites), self.shape)
        return np.column_stack([self.x[node], self.t[level]])

    def field(self, **parameters: float) -> FloatArray:
        """Return the whole field ``u[time, space]`` for one value of each parameter."""
        everywhere = np.arange(self.levels * self.nodes)
        (flat,) = self.at_sites(everywhere, **parameters)
        return np.reshape(flat, self.shape)

    def true_field(self) -> FloatArray:
        """Return the field at the true parameters, read-only and kept in memory."""
        return _true_field(self)

    def at_sites(self, sites: ArrayLike, **parameters: ArrayLike) -> FloatArray:
        """Return predictions at grid sites, for all parameters at once.

        Parameters
        ----------
        sites : array of int, shape (n,)
            Flat C-order indices into ``u[time, space]``.
        **parameters : array, shape (P,)
            One vector for each parameter, all of the same length.

        Returns
        -------
        array, shape (P, n)
            A row of NaN where the scheme was unstable.
        """
        sites = np.asarray(sites, dtype=np.intp)
        last = self.levels * self.nodes - 1
        if sites.size and not 0 <= sites.min() <= sites.max() <= last:
            raise InputError(
                f"sites from 0 to {last}",
                f"sites from {sites.min()} to {sites.max()}",
                "pass flat C-order indices into u[time, space]",
            )
        vectors = {k: np.atleast_1d(np.asarray(v, dtype=float)) for k, v in parameters.items()}
        count = len(next(iter(vectors.values())))
        blocks = [
            self._march(sites, {k: v[start : start + BLOCK] for k, v in vectors.items()})
            for start in range(0, count, BLOCK)
        ]
        return np.concatenate(blocks)

    def at_points(self, points: FloatArray, **parameters: ArrayLike) -> FloatArray:
        """Return predictions at any points ``(x, t)``, by bilinear interpolation, (P, n)."""
        node, along_x = _cell(self.x, points[:, 0], "x")
        level, along_t = _cell(self.t, points[:, 1], "t")
        corners = [(0, 0), (0, 1), (1, 0), (1, 1)]
        sites = np.concatenate([(level + i) * self.nodes + node + j for i, j in corners])
        values = self.at_sites(sites, **parameters).reshape(-1, 4, len(points))
        weights = np.stack(
            [(along_t if i else 1 - along_t) * (along_x if j else 1 - along_x) for i, j in corners]
        )
        return np.asarray(np.einsum("pcn,cn->pn", values, weights))

    def _march(self, sites: IndexArray, parameters: dict[str, FloatArray]) -> FloatArray:
        """Step one block of parameters through time and keep the values at `sites`."""
        level, node = np.divmod(sites, self.nodes)
        order = np.argsort(level, kind="stable")
        ends = np.searchsorted(level[order], np.arange(self.levels), side="right")
        stencil = CenteredDifferences(self.x[1] - self.x[0])
        time_step = self.t[1] - self.t[0]
        width = len(next(iter(parameters.values())))
        u = np.repeat(self.problem.initial(self.x)[:, None], width, axis=1)
        kept = np.empty((len(sites), width))
        done = 0
        # Overflow on the way to an unstable field is expected and dealt with below.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for step in range(self.levels):
                if step:
                    u[1:-1] += time_step * self.problem.rate(u, stencil, **parameters)
                    self.problem.ends.impose(u)
                if ends[step] > done:
                    now = order[done : ends[step]]
                    kept[now] = u[node[now]]
                    done = ends[step]
        kept[:, ~np.isfinite(u).all(axis=0)] = np.nan
        return kept.T


@lru_cache(maxsize=16)
def _true_field(solver: ExplicitSolver) -> FloatArray:
    field = solver.field(**truth_of(solver.problem))
    field.flags.writeable = False
    return field


def _cell(grid: FloatArray, values: FloatArray, axis: str) -> tuple[IndexArray, FloatArray]:
    """Index of the grid cell that holds each value, and the position inside it."""
    outside = values[~((values >= grid[0]) & (values <= grid[-1]))]  # NaN is outside, too
    if outside.size:
        raise InputError(
            f"{axis} inside the domain [{grid[0]:g}, {grid[-1]:g}]",
            f"{outside.size} values outside, such as {outside[0]:g}",
            "move the points into the domain",
        )
    position = (values - grid[0]) / (grid[1] - grid[0])
    index = np.minimum(position.astype(np.intp), len(grid) - 2)
    return index, position - index

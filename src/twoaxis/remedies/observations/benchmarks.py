"""Suggested sites for the built-in problems: their solver, their noise, their grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.forward import get_solver
from twoaxis.observations import layout, noise_scale
from twoaxis.problems import Problem, get_problem
from twoaxis.remedies.observations.live import SiteForward
from twoaxis.remedies.observations.request import At
from twoaxis.remedies.observations.result import SuggestedSites
from twoaxis.remedies.observations.suggest import suggest_sites
from twoaxis.views.checks import is_whole

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]


def suggest_sites_for_problem(
    problem: str | Problem,
    k: int | None = None,
    *,
    at: At = None,
    present: int | ArrayLike | None = None,
    cells: Sequence[int] | None = None,
    **options: Any,
) -> SuggestedSites:
    """Suggest sites for a built-in problem, on the grid of its fine solver.

    Parameters
    ----------
    problem : str or Problem
    k : int, optional
        By default as many as a published layout has.
    at
        As in `twoaxis.suggest_sites`.
    present : int or array of int, optional
        Seed of a published layout, or flat indices into the fine field.
    cells : sequence of int, optional
        Shape of a cell in time levels by space nodes (Darcy: rows by columns).
    **options
        Further arguments of `twoaxis.suggest_sites`, such as ``spacing`` or ``forbidden``.

    Examples
    --------
    >>> import twoaxis as ta
    >>> found = ta.suggest_sites_for_problem("darcy", 20, cells=(4, 4))
    >>> found.predicted.sel(observations=20).values.round(1).tolist()
    [16.3, 5.0]
    """
    problem = get_problem(problem)
    solver = get_solver(problem)
    every = np.arange(int(np.prod(solver.shape)))
    if is_whole(present):
        present = layout(problem, int(present))

    def forward_at(sites: IndexArray) -> SiteForward:
        return lambda **parameters: solver.at_sites(sites, **parameters)

    def field(**parameters: FloatArray) -> FloatArray:
        return solver.at_sites(every, **parameters).reshape(-1, *solver.shape)

    found = suggest_sites(
        field,
        problem.parameters,
        noise_scale(problem),
        problem.observed.sites if k is None else k,
        at=at,
        coordinates=dict(zip(problem.domain, solver.points(every).T, strict=True)),
        present=present,
        cells=cells,
        vectorized=True,
        **options,
    )
    # The refits need the chosen sites alone, and the solver can leave out the rest.
    live = replace(found.live, forward_at=forward_at)
    return SuggestedSites(found.data, live, found.searched)

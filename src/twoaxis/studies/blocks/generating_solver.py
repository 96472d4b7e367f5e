"""Generating solver: which parameter does the equation itself find in the noise-free data?

The study takes its data from a solver on a grid and its truth from the parameter of that solver. A
network solves the equation. Without noise, what would it have to find? The block computes the best
parameter of the equation for each problem, on the four layouts and on the whole field. Nothing is
trained, and nothing is random.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoaxis.datasets import layout
from twoaxis.forward import get_solver
from twoaxis.forward.explicit import ExplicitSolver
from twoaxis.resolution.discretization import discretized
from twoaxis.studies.block import Block, Measured, Rows
from twoaxis.studies.fields import LAYOUTS, PROBLEMS, TITLES
from twoaxis.studies.scale import Scale

WHOLE = "whole field"
# Of the whole field, every tenth time level.
EVERY = 10
# Refinement in space and time at smoke scale.
QUICK = (2, 2)


def groups_of(solver: ExplicitSolver, problem: str) -> dict[str, NDArray[np.intp]]:
    """Return the sites of each layout, and those that stand for the whole field."""
    levels = np.arange(0, solver.levels, EVERY)
    everywhere = (levels[:, None] * solver.nodes + np.arange(solver.nodes)).ravel()
    return {**{f"layout {seed}": layout(problem, seed) for seed in LAYOUTS}, WHOLE: everywhere}


def _measure(rows: Rows, scale: Scale) -> Measured:
    del rows
    table = []
    for problem in PROBLEMS:
        solver = get_solver(problem)
        assert isinstance(solver, ExplicitSolver)
        groups = groups_of(solver, problem)
        for group, found in discretized(solver, groups, *(() if scale.judged else QUICK)).items():
            row: dict[str, object] = {"problem": TITLES[problem], "sites": group}
            row["finer time steps alone, %"] = found.time_refined
            row["twice as many nodes, %"] = found.coarser
            row["four times as many nodes, %"] = found.middle
            row["finest grid, %"] = found.finest
            row["equation, %"] = found.equation
            table.append(row)
    return Measured(tables={"best_parameter": pd.DataFrame(table)})


BLOCK = Block(
    name="generating-solver",
    title="What the generating solver does to the truth",
    claim=(
        "Not in the study. Says how far the parameter that the equation itself finds in the "
        "noise-free data lies from the one that the data were made with: an error of this size is "
        "right for a network that solves the equation."
    ),
    measure=_measure,
    published=None,
    notes=(
        "Best parameters are least-squares fits to noise-free data of the declared solver, 201 "
        "nodes and 2,001 time levels, as percentages off the truth. The grids have finer time "
        "steps alone (32 times as many), two or four times as many nodes with 8 times as many "
        "steps, and four times as many nodes with 32 times as many steps (the finest). The last "
        "column extrapolates what the finest one leaves: first order in time, second in space.",
        "A node on the step of Buckley–Leverett has the mean of both sides on the finer grids. The "
        "declared scheme has the lower side there, which puts the front half a cell to the "
        "left; the column of finer time steps holds that, too.",
    ),
)

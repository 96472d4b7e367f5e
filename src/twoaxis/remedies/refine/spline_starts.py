r"""Where a refinement on splines starts: fields of the data alone, and what they prefer.

A smooth field through the data is a field of axis 2 like any other: the parameters that its
residual prefers, :math:`\arg\min_q |r(u, q)|^2`, are those to begin with.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize, sparse

from twoaxis.arrays import FloatArray
from twoaxis.remedies.refine.spline_problem import SplineProblem, State
from twoaxis.remedies.refine.spline_system import Factor

# Weights of roughness that cross-validation chooses from, relative to the data.
ROUGHNESSES = np.logspace(-9, 5, 29)
# Ridges that make systems regular: of roughness, and of values, relative to their diagonals.
STILL, RIDGE = 1e-9, 1e-14
# Evaluations of the residual in the search for what a field prefers.
EVALUATIONS = 50


def smoothed(problem: SplineProblem) -> State:
    r"""Return the field that fits the data alone, its roughness by cross-validation.

    With the Jacobian F of the readings in their units and the rows R of roughness, the weight
    :math:`\kappa` of the latter minimizes :math:`n |f|^2 / (n - \operatorname{tr} H)^2`,
    :math:`H = F (F^\top F + \kappa R^\top R)^{-1} F^\top`. Components that no reading sees are
    zero.
    """
    outputs, data = problem.slot.outputs, problem.readings
    state = State(np.zeros((problem.splines.size, outputs)), problem.start)
    predicted, rows = problem.observed_rows(state)
    target = data.values - predicted
    spread = data.spread(target)
    levels = np.where(spread > 0, spread, 1.0)[data.groups]
    target, rows = target / levels, sparse.csr_matrix(sparse.diags_array(1 / levels) @ rows)
    rough = sparse.kron(problem.splines.roughness(), sparse.eye_array(outputs))
    inside, penalty = (rows.T @ rows).tocsr(), (rough.T @ rough).tocsr()
    # As rough in each component as its readings are precise.
    seen = inside.diagonal().reshape(-1, outputs).sum(axis=0)
    weights = np.tile(np.where(seen > 0, seen, seen.max()), problem.splines.size)
    penalty = sparse.csr_matrix(sparse.diags_array(weights) @ penalty)
    balance = outputs / float(penalty.diagonal().sum() / seen.max()) if seen.max() > 0 else 1.0
    penalty = penalty + STILL * penalty.diagonal().mean() * sparse.eye_array(penalty.shape[0])
    right, across = rows.T @ target, rows.T.toarray()
    best, lowest = state.coefficients.ravel(), np.inf
    for kappa in ROUGHNESSES:
        matrix = (inside + kappa * balance * penalty).tocsr()
        factor = Factor(matrix, np.full(matrix.shape[0], RIDGE * matrix.diagonal().mean()))
        found = factor.solve(right)
        left = max(len(target) - float((across * factor.solve(across)).sum()), 1e-9)
        rest = target - rows @ found
        score = len(target) * float(rest @ rest) / left**2
        if score < lowest:
            best, lowest = found, score
    return State(np.asarray(best.reshape(-1, outputs)), state.q)


def projected(problem: SplineProblem, network: Callable[[FloatArray], FloatArray]) -> State:
    """Return the field of splines that is nearest to a network on the domain.

    Of several experiments each begins with it.
    """
    places, mass = problem.splines.gauss()
    (design,) = problem.splines.design(places, [(0,) * problem.slot.inputs])
    root = np.sqrt(mass)
    rows = sparse.csr_matrix(sparse.diags_array(root) @ design)
    matrix = (rows.T @ rows).tocsr()
    factor = Factor(matrix, np.full(matrix.shape[0], RIDGE * 100 * matrix.diagonal().mean()))
    values = np.tile(network(places), problem.slot.experiments)
    return State(factor.solve(rows.T @ (root[:, None] * values)), problem.start)


def preferred(problem: SplineProblem, state: State) -> State:
    """Return a state with the coordinates that the residual of its field prefers."""
    low, high = problem.known.coordinate_bounds
    inner = 1e-6 * (high - low)
    found = optimize.least_squares(
        lambda q: problem.residual(State(state.coefficients, q)).ravel(),
        np.clip(state.q, low + inner, high - inner),
        jac=lambda q: (
            problem.residual_slopes(State(state.coefficients, q)).reshape(-1, q.size)
            / problem.steps
        ),
        bounds=(low, high),
        x_scale=problem.steps,
        max_nfev=EVALUATIONS,
    )
    return State(state.coefficients, found.x)

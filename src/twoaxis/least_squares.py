"""Bounded Levenberg–Marquardt for many small least-squares problems at once.

SciPy fits one dataset per call; a resolution study has hundreds that share one forward model.
Here all of them take their steps together, so that a vectorized model is called once per
iteration. Damping, acceptance and stopping are separate for each problem.

The objective is ``r^T M r`` for a misfit ``r`` and a symmetric positive semidefinite metric
``M``, by default the identity. Where the misfit is whitened data, the stopping rule has a
meaning: a problem is finished when its next step would lower chi2 by less than 1e-10, that
is, when it would move the estimate by less than a hundred-thousandth of its standard error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.intp]

GAIN_ATOL = 1e-10
MAX_DAMPING = 1e12

Misfit = Callable[[FloatArray, IndexArray], FloatArray]
"""``misfit(q, which)``: whitened misfit (B, n) of problems `which` at `q`, (B, d)."""

Metric = Callable[[FloatArray], FloatArray]
"""``metric(v)``: M applied along the last axis of `v`, (B, n)."""

Sensitivity = Callable[[FloatArray, FloatArray, IndexArray], FloatArray]
"""``sensitivity(q, misfit, which)``: derivative of the *predictions*, (B, n, d)."""


class Minimum(NamedTuple):
    """Where the problems ended: coordinates (B, d), chi2 (B,), whether converged (B,)."""

    q: FloatArray
    chi2: FloatArray
    converged: BoolArray


def minimize(
    misfit: Misfit,
    sensitivity: Sensitivity,
    start: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    free: BoolArray | None = None,
    gain_atol: float = GAIN_ATOL,
    max_iterations: int = 300,
    metric: Metric | None = None,
) -> Minimum:
    """Minimize ``r^T M r``, ``r = misfit(q)``, inside a box, for every row of `start`.

    Parameters
    ----------
    misfit, sensitivity : callable
        See `Misfit` and `Sensitivity`. A misfit that is not finite rejects the step.
    start : array, shape (B, d)
    lower, upper : array, shape (d,)
    free : array of bool, shape (d,) or (B, d), optional
        Coordinates that may move, of all problems or of each; the others stay at their start.
    gain_atol : float
        A problem is finished when the predicted decrease of chi2 is smaller than this.
    max_iterations : int
        Steps tried for each problem, rejected ones included.
    metric : callable, optional
        See `Metric`; the identity by default.
    """
    count, dimension = start.shape
    free = np.broadcast_to(np.True_ if free is None else free, start.shape)
    q = np.clip(start, lower, upper)
    everyone = np.arange(count)
    metric = metric or _identity
    r = misfit(q, everyone)
    chi2 = _objective(r, metric)
    converged = np.zeros(count, dtype=bool)
    damping = np.full(count, 1e-3)
    slopes = np.zeros((*r.shape, dimension))
    stale = np.ones(count, dtype=bool)  # slopes belong to an earlier point
    running = np.isfinite(chi2)
    for _ in range(max_iterations):
        which = np.flatnonzero(running)
        if not which.size:
            break
        renew = which[stale[which]]
        if renew.size:
            slopes[renew] = sensitivity(q[renew], r[renew], renew)
            stale[renew] = False
        step, gain = _steps(
            slopes[which],
            metric(r[which]),
            q[which],
            damping[which],
            lower,
            upper,
            free[which],
            metric,
        )
        finished = gain < gain_atol
        converged[which[finished]] = True
        running[which[finished]] = False
        which, step = which[~finished], step[~finished]
        if not which.size:
            continue
        trial = np.clip(q[which] + step, lower, upper)
        trial_r = misfit(trial, which)
        trial_chi2 = _objective(trial_r, metric)
        better = trial_chi2 < chi2[which]
        accepted, rejected = which[better], which[~better]
        q[accepted], r[accepted], chi2[accepted] = (
            trial[better],
            trial_r[better],
            trial_chi2[better],
        )
        stale[accepted] = True
        damping[accepted] = np.maximum(damping[accepted] / 10, 1e-12)
        damping[rejected] *= 10
        # No step of any length helps: the point is a minimum up to rounding.
        stuck = rejected[damping[rejected] > MAX_DAMPING]
        converged[stuck] = True
        running[stuck] = False
    return Minimum(q, chi2, converged)


def _steps(
    slopes: FloatArray,
    r: FloatArray,
    q: FloatArray,
    damping: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    free: BoolArray,
    metric: Metric,
) -> tuple[FloatArray, FloatArray]:
    """Return the damped step of every problem and the decrease of chi2 predicted without damping.

    `r` comes with the metric already applied.
    """
    gradient = np.einsum("bnd,bn->bd", slopes, r)
    columns = np.moveaxis(slopes, 2, 1)
    weighted = metric(columns.reshape(-1, columns.shape[-1])).reshape(columns.shape)
    normal = np.einsum("bnd,ben->bde", slopes, weighted)
    # A coordinate that is held, or at a bound that the step would leave, does not move.
    held = ~free | ((q <= lower) & (gradient <= 0)) | ((q >= upper) & (gradient >= 0))
    gradient = np.where(held, 0.0, gradient)
    diagonal = np.einsum("bdd->bd", normal).copy()
    # What the data do not see here does not move: judged over the box, whatever the units.
    seen = np.sqrt(diagonal) * (upper - lower)
    held |= seen <= 1e-12 * seen.max(axis=1, keepdims=True)
    normal = np.where(held[:, :, None] | held[:, None, :], 0.0, normal)
    index = np.arange(q.shape[1])
    normal[:, index, index] = np.where(held, 1.0, diagonal * (1 + damping[:, None]))
    gradient = np.where(held, 0.0, gradient)
    step = np.linalg.solve(normal, gradient[:, :, None])[:, :, 0]
    return step, np.einsum("bd,bd->b", step, gradient) * (1 + damping)


def _identity(v: FloatArray) -> FloatArray:
    return v


def _objective(r: FloatArray, metric: Metric) -> FloatArray:
    """``r^T M r`` of every row, infinite where the misfit is not finite."""
    finite = np.isfinite(r).all(axis=1)
    total = np.full(len(r), np.inf)
    total[finite] = np.einsum("bn,bn->b", r[finite], metric(r[finite]))
    return total

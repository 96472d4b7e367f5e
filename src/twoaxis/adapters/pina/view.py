"""The view that a PINA solver was trained under: weights of conditions, columns and points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.adapters.building import as_numpy
from twoaxis.adapters.pina.training import adaptive, is_a, is_causal, order_is_known, time_steps
from twoaxis.adapters.pina.twin import Part, Trained, Twin
from twoaxis.errors import InputError
from twoaxis.views import Blocks, Pointwise, View, Weighted

FloatArray = NDArray[np.float64]


def view_of_training(
    view: View | None,
    loss_weights: Any,
    solver: Any,
    twin: Twin,
    terms: Sequence[Trained],
    parts: Sequence[Part],
) -> View:
    """Return the given view, or the quadratic form that the residual loss was.

    PINA's loss of a condition is the mean over points and columns, times its weight.
    """
    if view is not None:
        if loss_weights is not None:
            raise InputError(
                "a view, or loss weights from which it follows", "both", "leave one of them out"
            )
        return view
    if loss_weights is not None:
        return _blocks(_given_weights(loss_weights, [len(part.values) for part in parts]))
    weights = []
    for number, term in enumerate(terms):
        own = [part for part in parts if part.term == number]
        count, columns = len(term.points), len(own) // len(twin.members)
        factor = _condition_weight(solver, term.name) / len(twin.members)
        factor *= 1 / columns if solver._reduction == "mean" else count
        by_point = _point_weights(solver, twin, term, own)
        for k in range(len(own)):
            weights.append(factor * (np.ones(1) if by_point is None else by_point[:, k % columns]))
    return _blocks(weights)


def _blocks(weights: Sequence[FloatArray]) -> View:
    """Return the view of several equations from a factor, or one for each point, of each."""
    views: list[View] = [
        Weighted(loss_weights=w) if w.size > 1 and np.ptp(w) > 0 else Pointwise() for w in weights
    ]
    if len(views) == 1:
        return views[0]
    factors = [
        1.0 if isinstance(v, Weighted) else w[0] for v, w in zip(views, weights, strict=True)
    ]
    return Blocks(views, weights=factors)


def _given_weights(loss_weights: Any, sizes: Sequence[int]) -> list[FloatArray]:
    """Return the user's weights, one array for each equation."""
    several = isinstance(loss_weights, Sequence) and len(loss_weights) == len(sizes)
    each = loss_weights if several else [loss_weights] * len(sizes)
    found = [as_numpy(w).reshape(-1) for w in each]
    if any(w.size not in (1, size) for w, size in zip(found, sizes, strict=True)):
        raise InputError(
            f"loss weights for equations with {', '.join(map(str, sizes))} points: one number or "
            "one for each point",
            f"{', '.join(str(w.size) for w in found)} numbers",
            "pass loss_weights=[w_1, w_2, ...] in the order of the equations",
        )
    return found


def _condition_weight(solver: Any, name: str) -> float:
    """Return the factor of one condition in the loss at the last step."""
    saved = solver.weighting.last_saved_weights()
    if name not in saved and hasattr(solver.weighting, "default_value_weights"):
        saved = solver.weighting.update_weights({name: None})  # fixed numbers: a pure look-up
    return float(saved.get(name, 1.0))


def _point_weights(
    solver: Any, twin: Twin, term: Trained, own: Sequence[Part]
) -> FloatArray | None:
    """Return the factor of every point and column, (N, m), where the solver has any."""
    columns = len(own) // len(twin.members)
    if is_causal(solver, term.name):
        squares = np.stack([as_numpy(part.values) ** 2 for part in own], axis=-1)
        steps = squares.reshape(time_steps(solver), -1, columns)
        decay: FloatArray = np.exp(-float(solver.eps) * np.cumsum(steps, axis=0))
        return decay.reshape(-1, columns)
    if is_a(solver, "CompetitivePhysicsInformedSolver"):
        with twin.quiet():
            inputs = term.points.extract(solver.problem.input_variables)
            bets = as_numpy(twin.solver.discriminator(inputs).as_subclass(twin.torch.Tensor))
        return np.broadcast_to(bets.reshape(len(term.points), -1) ** 2, (len(bets), columns))
    weights = adaptive(solver, term.name)
    if weights is None or not order_is_known(solver, term.name):
        return None
    kept = as_numpy(weights)[: len(term.points)].reshape(-1, 1)
    return np.broadcast_to(kept, (len(kept), columns)) if kept.any() else None

"""What a PINA solver knows of its training: the points, the adaptive weights, what to tell of it.

Adaptive solvers keep their weights in the order of the training batch, which the trainer
shuffles. Points are therefore taken from the trainer's own data set, in that same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twoaxis.adapters.building import as_numpy, foreign
from twoaxis.adapters.pina.twin import Trained, Twin
from twoaxis.errors import InputError
from twoaxis.parameters import Parameter


def check_trained(solver: Any, given: Mapping[str, Parameter]) -> None:
    """Refuse unknowns that no training has moved.

    Unknowns are not part of a checkpoint: a solver that was loaded from one holds the random
    values with which its problem was built.
    """
    trainer = solver._trainer
    if trainer is not None and trainer.global_step > 0:
        return
    missing = [
        name
        for name in solver.problem.unknown_parameters
        if name not in given or given[name].delivered is None
    ]
    if missing:
        raise InputError(
            "a solver that its Trainer has trained",
            "one without a training step. A PINA checkpoint does not hold the unknowns, so those "
            f"of a loaded solver are the random start: {', '.join(missing)}",
            "run Trainer.train(); for a loaded solver pass the values that training returned, "
            f"as in parameters={{{missing[0]!r}: twoaxis.Parameter(delivered=..., bounds=...)}}",
        )


def training_points(torch: Any, twin: Twin, solver: Any, name: str) -> Any:
    """Return the points of one condition, labelled, in the order of the training batch."""
    condition = solver.problem.conditions[name]
    subset = _subset(solver, name)
    domain = getattr(condition, "domain", None)
    sampled = solver.problem.discretised_domains
    if subset is not None:
        points = subset.condition.data.input[subset.indices]
    elif domain is not None and domain in sampled:
        points = sampled[domain]
    elif getattr(condition, "data", None) is not None:
        points = condition.data.input
    else:
        raise InputError(
            f"sampled points of the condition {name!r}",
            f"a domain {domain!r} without any",
            "call problem.discretise_domain(...) as before training",
        )
    if not isinstance(points, twin.label_tensor):
        raise InputError(
            f"points of the condition {name!r} as a LabelTensor",
            type(points).__name__,
            "use twoaxis.from_torch with a residual of your own for graphs",
        )
    first = [axis for axis in solver.problem.input_variables if axis in points.labels]
    axes = first + [label for label in points.labels if label not in first]
    found = twin.labelled(points.extract(axes).tensor, axes)
    return _causal_grid(torch, twin, solver, found) if is_causal(solver, name) else found


def training_notes(solver: Any, terms: Sequence[Trained], left_out: Sequence[str]) -> list[str]:
    """Return what a reader must know of this training."""
    notes = []
    loss = type(solver.loss).__name__
    squares = loss == "MSELoss" or (
        loss == "PowerLoss" and solver.loss.p == 2 and not solver.loss.relative
    )
    if not squares:
        notes.append(f"trained with {loss}; the diagnosis looks at the mean of squares")
    if left_out:
        notes.append(f"conditions outside of this residual: {', '.join(left_out)}")
    weighted = [term.name for term in terms if adaptive(solver, term.name) is not None]
    lost = [name for name in weighted if not order_is_known(solver, name)]
    if lost:
        notes.append(
            f"the adaptive weights of {', '.join(lost)} are left out of the view: they belong to "
            "places in a batch, and which points lay there is known for a training in one batch "
            "whose trainer is still attached; pass loss_weights= if you know them"
        )
    elif weighted:
        notes.append("the view holds the adaptive weights of the last training step")
    if any(is_causal(solver, term.name) for term in terms):
        notes.append("points are the causal solver's time steps; the view holds its weights there")
    gradient = is_a(solver, "GradientPhysicsInformedSingleModelSolver")
    if gradient and any(term.name in solver.regularized_conditions for term in terms):
        notes.append("the penalty on the residual's gradient is not part of the view")
    if _ascends(solver):
        notes.append(
            "PINA gives the unknowns to both optimizers of this solver, and one of them ascends: "
            "with equal learning rates the unknowns hardly move from where they started"
        )
    return notes


def adaptive(solver: Any, name: str) -> Any:
    """Return the weights that an adaptive solver keeps for a condition, or None."""
    if is_a(solver, "SelfAdaptivePhysicsInformedSolver"):
        return solver.weights.func(getattr(solver.weights, name).detach())
    buffers = getattr(solver, "weight_buffers", {})  # residual-based attention
    return getattr(solver, buffers[name]) if name in buffers else None


def order_is_known(solver: Any, name: str) -> bool:
    """Whether the training batch was all points of the condition, in an order that we know."""
    subset = _subset(solver, name)
    if subset is None:
        return False
    module = solver._trainer.datamodule
    if module.batch_size is None:
        return True
    whole: bool = module.batch_size >= len(subset.indices)
    return whole and module.batching_mode != "proportional"


def _subset(solver: Any, name: str) -> Any:
    """Return the training data of a condition, where a trainer is attached."""
    module = getattr(solver._trainer, "datamodule", None)
    return getattr(module, "train_datasets", {}).get(name)


def is_a(solver: Any, name: str) -> bool:
    """Whether the solver is of a class of PINA."""
    return isinstance(solver, getattr(foreign("pina.solver", "pina", "twoaxis.from_pina"), name))


def is_causal(solver: Any, name: str) -> bool:
    """Whether the loss of a condition follows the time steps of a causal solver."""
    causal = is_a(solver, "CausalPhysicsInformedSingleModelSolver")
    return causal and name in solver.regularized_conditions


def time_steps(solver: Any) -> int:
    """Return how many time steps a causal solver takes."""
    return int(solver.n_steps) if solver.problem.temporal_domain.range else 1


def _causal_grid(torch: Any, twin: Twin, solver: Any, points: Any) -> Any:
    """Return the points that the causal loss visits: all places at every time step."""
    time, domain = solver.temporal_variable, solver.problem.temporal_domain
    ends = domain.range[time] if domain.range else (domain.fixed[time],) * 2
    steps = torch.linspace(*map(float, ends), time_steps(solver), dtype=twin.dtype)
    axes = list(points.labels)
    plain = as_numpy(points.tensor)
    at = axes.index(time)
    grid = np.concatenate([np.insert(np.delete(plain, at, 1), at, s, 1) for s in as_numpy(steps)])
    return twin.labelled(grid, axes)


def _ascends(solver: Any) -> bool:
    """Whether the solver's second optimizer, which maximises the loss, holds the unknowns."""
    if not any(
        is_a(solver, name)
        for name in ("SelfAdaptivePhysicsInformedSolver", "CompetitivePhysicsInformedSolver")
    ):
        return False
    unknowns = {id(tensor) for tensor in solver.problem.unknown_parameters.values()}
    instance = getattr(solver._pina_optimizers[1], "instance", None)
    groups = [] if instance is None else instance.param_groups
    return any(id(tensor) in unknowns for group in groups for tensor in group["params"])

"""PINA: a trained solver of an inverse problem.

The residual is what the solver's own conditions compute, ``equation.residual(input_, output_,
params_)``, at the points that training used. It is evaluated with a twin of the solver that
holds a copy of the networks, so the solver itself is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twoaxis.adapters.building import as_numpy, foreign
from twoaxis.adapters.pina.training import check_trained, training_notes, training_points
from twoaxis.adapters.pina.twin import Part, Trained, Twin
from twoaxis.adapters.pina.unknowns import Transform, unknown_parameters
from twoaxis.adapters.pina.view import view_of_training
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameter
from twoaxis.views import View

FloatArray = NDArray[np.float64]
Precision = Literal["float64", "model"]


def from_pina(
    solver: Any,
    parameters: Mapping[str, Parameter] | None = None,
    *,
    condition: str | Sequence[str] | None = None,
    transform: Mapping[str, Transform] | None = None,
    view: View | None = None,
    loss_weights: Any = None,
    precision: Precision = "float64",
) -> FrozenResidual:
    """Freeze a trained PINA solver into its residual.

    Parameters
    ----------
    solver : pina.solver.BaseSolver
        A physics-informed solver of an ``InverseProblem``, after ``Trainer.train()``.
    parameters : mapping of str to Parameter, optional
        What is known of the unknowns beyond the problem: a truth, bounds, a coordinate. An
        unknown that is not named takes its bounds from ``unknown_parameter_domain``, and is
        diagnosed in its logarithm where that range is positive. The delivered values are read
        from the problem.
    condition : str or sequence of str, optional
        The conditions that make up the residual; by default those with an equation whose
        residual changes with an unknown. Data and plain boundary conditions stay out; a
        boundary condition that holds an unknown is evidence about it and is part of them.
    transform : mapping of str to pair of functions, optional
        For an unknown that the equation uses through a function: ``{"k": (torch.exp,
        torch.log)}``, stored value to physical value and back. The diagnosis then speaks of
        the physical value, and so do the bounds and the truth.
    view : View, optional
        The metric of the residual loss; by default the one that the solver was trained under,
        with the weights of the conditions and of adaptive solvers at the last step.
    loss_weights : optional
        In place of a view: factors of the squared residual, a number or one number for each
        point; for several equations a sequence of such.
    precision : {"float64", "model"}
        A copy of the networks in double precision, or in the precision of the training.

    Returns
    -------
    FrozenResidual
        One equation for each column of each condition (and each network of an ensemble).

    Examples
    --------
    After ``trainer.train()``::

        frozen = ta.from_pina(solver, {"k": ta.Parameter(truth=0.2, bounds=(0.02, 2.0))})
        print(ta.audit(frozen, tolerance=ta.Tolerance(material=5, resolution=5, preference=5)))

    A whole training with its audit is in ``examples/pina_inverse.py``.
    """
    torch = foreign("torch", "pina", "twoaxis.from_pina")
    pina = foreign("pina", "pina", "twoaxis.from_pina")
    if precision not in ("float64", "model"):
        raise InputError('precision "float64" or "model"', repr(precision), "choose one of them")
    problem = _checked_problem(pina, solver)
    unknowns, told = unknown_parameters(torch, problem, parameters, transform or {})
    check_trained(solver, parameters or {})
    twin = Twin(torch, pina, solver, precision, transform or {})
    candidates = [
        Trained(name, each, training_points(torch, twin, solver, name))
        for name, each in problem.conditions.items()
        if hasattr(each, "equation")
    ]
    terms, unseen, left_out = _chosen(solver, candidates, condition, twin, unknowns)
    delivered = {name: p.delivered for name, p in unknowns.items()}
    parts = twin.residual(terms, delivered)
    differentiable = not _lost(twin.columns(terms, delivered)[1], unseen)
    where = [as_numpy(terms[each.term].points) for each in parts]
    shared = len(terms) == 1
    notes = (*twin.notes, *told, *training_notes(solver, terms, left_out))
    if not differentiable:
        notes += ("an equation cuts the derivative by an unknown: centred differences stand in",)
    notes += tuple(
        f"the residual does not change with {name}: H = 0 there, it does not see {name}"
        for name in unseen
    )
    return FrozenResidual(
        lambda **values: _arrays(twin.residual(terms, values)),
        unknowns,
        where[0] if shared else where,
        view=view_of_training(view, loss_weights, solver, twin, terms, parts),
        jacobian=(lambda **values: twin.columns(terms, values)[1]) if differentiable else None,
        residual_at=lambda at, **values: _arrays(
            twin.residual([t.moved(twin.labelled(at, t.axes)) for t in terms], values)
        ),
        field=twin.field(terms[0].points) if shared else None,
        field_name=problem.output_variables[0],
        axes=terms[0].axes,
        notes=notes,
    )


def _checked_problem(pina: Any, solver: Any) -> Any:
    """Return the inverse problem of a solver, or say what came instead."""
    base = foreign("pina.solver", "pina", "twoaxis.from_pina").BaseSolver
    inverse = foreign("pina.problem", "pina", "twoaxis.from_pina").InverseProblem
    if isinstance(solver, pina.Trainer):
        raise InputError("a PINA solver", "its Trainer", "pass trainer.solver")
    if not isinstance(solver, base):
        raise InputError(
            "a PINA solver, such as PhysicsInformedSingleModelSolver",
            f"the class {solver.__name__}" if isinstance(solver, type) else type(solver).__name__,
            "pass the solver that was trained; for a network alone use twoaxis.from_torch",
        )
    if not isinstance(solver.problem, inverse):
        raise InputError(
            "a solver of an InverseProblem, which has unknown parameters",
            f"the problem {type(solver.problem).__name__}, which has none",
            "derive the problem from pina.problem.InverseProblem and give it an "
            "unknown_parameter_domain",
        )
    return solver.problem


def _arrays(parts: list[Part]) -> Any:
    """Return the columns as NumPy arrays, alone where there is one."""
    arrays = [as_numpy(part.values) for part in parts]
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def _chosen(
    solver: Any,
    candidates: list[Trained],
    condition: str | Sequence[str] | None,
    twin: Twin,
    unknowns: Mapping[str, Parameter],
) -> tuple[list[Trained], list[str], list[str]]:
    """Return the terms of the residual, the unknowns that they do not see, and what is left."""
    everything = list(solver.problem.conditions)
    names = [term.name for term in candidates]
    wanted = [condition] if isinstance(condition, str) else condition
    wrong = [name for name in wanted or () if name not in names]
    if wrong or (wanted is not None and not wanted) or not names:
        others = [name for name in everything if name not in names]
        raise InputError(
            f"conditions that carry an equation: {', '.join(names) or 'this problem has none'}",
            f"condition={condition!r}" + (f" ({', '.join(others)}: data alone)" if others else ""),
            "name one or several of them, or leave condition out" if names else "add an equation",
        )
    seen = {
        term.name: _seen(twin, term, unknowns)
        for term in candidates
        if wanted is None or term.name in wanted
    }
    if wanted is None:
        wanted = [name for name in names if seen[name]]
        if not wanted:
            raise InputError(
                f"an equation that changes with an unknown: {', '.join(unknowns)}",
                f"none among {', '.join(names)}: H = 0, the residual does not see the unknown",
                f"use params_[{next(iter(unknowns))!r}] in the equation; condition={names[0]!r} "
                "audits that residual all the same",
            )
    terms = [term for term in candidates if term.name in wanted]
    unseen = [n for n in unknowns if not any(n in seen[term.name] for term in terms)]
    return terms, unseen, [name for name in everything if name not in wanted]


def _seen(twin: Twin, term: Trained, unknowns: Mapping[str, Parameter]) -> set[str]:
    """Return the unknowns that move a residual, by its values at both bounds."""
    center = {name: p.delivered for name, p in unknowns.items()}
    at_center = [as_numpy(part.values) for part in twin.residual([term], center)]
    found = set()
    for name, parameter in unknowns.items():
        for bound in parameter.bounds:
            moved = twin.residual([term], {**center, name: bound})
            pairs = zip(at_center, moved, strict=True)
            if any(not np.array_equal(a, as_numpy(part.values)) for a, part in pairs):
                found.add(name)
    return found


def _lost(columns: FloatArray, unseen: list[str]) -> bool:
    """Tell whether more derivatives vanish than there are unknowns without influence."""
    return int((~columns.any(axis=0)).sum()) > len(unseen)

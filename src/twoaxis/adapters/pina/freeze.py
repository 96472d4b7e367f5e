"""PINA: from a trained solver of an inverse problem to its frozen residual.

The residual is what the solver's own conditions compute, ``equation.residual(input_, output_,
params_)``, at the points that training used, evaluated with a copy of the networks. The rest of
the file reads the training from the solver: unknowns, points, weights and what to note.

Adaptive solvers keep their weights in the order of the training batch, which the trainer
shuffles. Points are therefore taken from the trainer's own data set, in that same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from twoaxis.adapters.foreign import (
    UNKNOWN_FIELD,
    Precision,
    about_model,
    as_numpy,
    check_names,
    check_precision,
    foreign,
    numbered,
    precision_notes,
    refuse_functions,
)
from twoaxis.adapters.model_loss import without_objective
from twoaxis.adapters.model_weights import Functions, Trained
from twoaxis.adapters.observed import (
    Readings,
    alone_or_columns,
    field_names,
    found_note,
    joined,
    observed_outputs,
    observed_points,
)
from twoaxis.adapters.pina.twin import LossTerm, Term, Twin
from twoaxis.adapters.training_view import check_view, training_view
from twoaxis.adapters.unknowns import (
    FrozenEquations,
    TorchArithmetic,
    Transform,
    Unknown,
    read_unknown,
    with_delivered,
)
from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, in_training
from twoaxis.labels import Labels, named_columns
from twoaxis.parameters import Parameter, Parameters
from twoaxis.result import Message
from twoaxis.views import View


def from_pina(
    solver: Any,
    parameters: Mapping[str, Parameter] | None = None,
    view: View | None = None,
    *,
    condition: str | Sequence[str] | None = None,
    transform: Mapping[str, Transform] | None = None,
    loss_weights: Any = None,
    precision: Precision = "float64",
    field: str | Sequence[str] | None = None,
    observed: Any = None,
) -> FrozenResidual:
    """Freeze a trained PINA solver into its residual.

    Parameters
    ----------
    solver : pina.solver.BaseSolver
        A physics-informed solver of an ``InverseProblem``, after ``Trainer.train()``.
    parameters : mapping of str to Parameter, optional
        What is known of the unknowns beyond the problem: a truth, bounds, a coordinate. An
        unknown that is not named takes its bounds from ``unknown_parameter_domain``, and is
        diagnosed in its logarithm if that range is positive. The delivered values are read
        from the problem.
    view : View, optional
        The metric of the residual loss; by default the one that the solver was trained under,
        with the weights of the conditions and of adaptive solvers at the last step.
    condition : str or sequence of str, optional
        The conditions that make up the residual; by default those with an equation whose
        residual changes with an unknown. Data and plain boundary conditions stay out; a
        boundary condition that contains an unknown is evidence about it and is included. The
        residual points are those of the conditions.
    transform : mapping of str to function or pair of functions, optional
        For an unknown that the equation uses through a function: ``{"k": torch.exp}``, from
        the stored to the physical value, or a pair with its inverse. The result then refers to
        the physical value, and so do the bounds and the truth.
    loss_weights : optional
        In place of a view: factors of the squared residual, one number or one per point; a
        sequence of such for several equations.
    precision : {"float64", "model"}
        ``"float64"`` evaluates a copy of the networks in double precision; ``"model"``
        evaluates in the precision of the training, and a note says so.
    field : str or sequence of str, optional
        The output variables that were observed; all of them by default. Figures show the first.
    observed : array or LabelTensor, shape (n, k), optional
        Where the observations lie, in the order of the data, with the columns of
        ``problem.input_variables``. By default the observations are those of the model: the
        conditions with an input and a target.

    Returns
    -------
    FrozenResidual
        One equation per column of each condition (and network of an ensemble), with the
        observations of the training, what the field predicts for them, and the whole training loss
        as its `objective`.

    Examples
    --------
    For the rate k of a decay, after three epochs on 20 points::

        def decay(input_, output_, params_):
            return grad(output_, input_) + params_["k"] * output_

        class Decay(TimeDependentProblem, InverseProblem):
            output_variables = ["u"]
            temporal_domain = CartesianDomain({"t": [0, 1]})
            unknown_parameter_domain = CartesianDomain({"k": [0.1, 10]})
            domains = {"inside": temporal_domain}
            conditions = {"inside": Condition(domain="inside", equation=Equation(decay))}

        problem = Decay()
        problem.discretise_domain(20, "grid")
        solver = PINN(problem, FeedForward(1, 1, layers=[8]))
        Trainer(solver, max_epochs=3).train()
        frozen = ta.from_pina(solver, {"k": ta.Parameter(truth=1.0, bounds=(0.1, 10.0))})
        print(frozen.points.shape, frozen.axes, list(frozen.parameters))

    This prints:

    .. code-block:: text

        (20, 1) ('t',) ['k']

    A complete training with its audit is in ``examples/pina_inverse.py``.
    """
    torch = foreign("torch", "pina", "twoaxis.from_pina")
    pina = foreign("pina", "pina", "twoaxis.from_pina")
    check_precision(precision)
    check_view(view, loss_weights)
    problem = _checked_problem(pina, solver)
    unknowns = _read_unknowns(torch, problem, parameters, transform or {})
    _check_trained(solver, parameters or {})
    known = {each.name: _parameter(problem, each, parameters or {}) for each in unknowns}
    checked = {name: parameter for name, (parameter, _) in known.items()}
    twin = Twin(torch, pina, solver, precision)
    equations = FrozenEquations(twin, unknowns)
    candidates = [
        Term(name, each, _training_points(torch, twin, solver, name))
        for name, each in problem.conditions.items()
        if hasattr(each, "equation")
    ]
    terms = _chosen(solver, candidates, condition, equations, checked)
    influence = equations.check(terms, checked)
    # One entry per column of each term and network, as the residual has them.
    members = len(twin.members)
    owners = [terms[n // members] for n, width in enumerate(influence.widths) for _ in range(width)]
    where = [as_numpy(term.points) for term in owners]
    if view is None and loss_weights is None:
        loss_weights = _training_weights(solver, twin, terms, equations)
    shared = len(terms) == 1
    metric = training_view(view, loss_weights, [len(each) for each in where])
    columns = _columns(problem, field)

    def freeze(state: Twin, parameters: Mapping[str, Parameter], **more: Any) -> FrozenResidual:
        here = FrozenEquations(state, unknowns)
        # In the precision of this state, which may be higher than that of the twin.
        own = [term.moved(state.labelled(term.points.tensor, term.axes)) for term in terms]
        return FrozenResidual(
            lambda **values: here.residual(own, values),
            parameters,
            where[0] if shared else where,
            view=metric,
            jacobian=None if influence.lost else lambda **values: here.jacobian(own, values),
            residual_at=lambda at, **values: here.residual(
                [term.moved(state.labelled(at, term.axes)) for term in terms], values
            ),
            field=state.field(own[0].points)[:, columns[0]] if shared else None,
            field_name=problem.output_variables[columns[0]],
            axes=terms[0].axes,
            equations=numbered([term.name for term in owners]) if len(owners) > 1 else (),
            **more,
        )

    found: list[Readings] = []
    if observed is None:
        found = _readings(twin, problem)
        seen: dict[str, Any] = joined(found, problem.output_variables)
    else:
        seen = _observed(twin, problem, columns, observed)
    exact = twin if twin.precision == "float64" else Twin(torch, pina, solver, "float64")
    try:
        whole = _loss_terms(torch, exact, solver)
    except InputError as error:  # no reason not to diagnose the residual
        whole = f"{error.expected}: {error.got}"
    names = [each.name for each in unknowns]
    imposed = [
        term.moved(exact.labelled(term.points.tensor, term.axes))
        for term in candidates
        if term.name not in [each.name for each in terms]
        and _condition_weight(solver, term.name) != 0
    ]

    def functions(state: Twin) -> Functions:
        return Functions(
            [state.equations_by_weights(term, names) for term in terms],
            state.outputs_by_weights(names),
            state.misfits_by_weights(imposed, names) if imposed else None,
            lambda: state.slot(terms, imposed, names, trained.of_field),
        )

    notes = (
        *precision_notes(twin.precision, twin.precision, twin.own),
        *(note for _, notes in known.values() for note in notes),
        *_training_notes(solver, terms),
        *influence.notes(),
        *found_note(found),
        *([without_objective(whole)] if isinstance(whole, str) else []),
    )
    about = about_model(
        "PINA", "pina-mathlab", solver._pina_models[0], exact.weights.size, twin.own
    )
    about["solver"] = type(solver).__name__
    trained = Trained(
        exact,
        freeze,
        functions,
        where[0] if shared else where,
        unknowns,
        None if isinstance(whole, str) else partial(exact.loss, whole),
        seen,
        observed_outputs(found) if found else columns,
        {"notes": notes, "about": about},
        lambda state, at: state.field(state.labelled(at, problem.input_variables)),
    )
    return trained.frozen(twin, checked)


def _columns(problem: Any, field: str | Sequence[str] | None) -> list[int]:
    """Return the outputs that were observed, by their number."""
    names = list(problem.output_variables)
    chosen = names if field is None else [field] if isinstance(field, str) else list(field)
    if not chosen or not all(name in names for name in chosen):
        raise InputError(
            f"field as one or several of the output variables {', '.join(names)}",
            f"field={field!r}",
            "name the observed ones, or leave it out",
        )
    return [names.index(name) for name in chosen]


def _observed(twin: Twin, problem: Any, columns: list[int], observed: Any) -> dict[str, Any]:
    """Return the points of the user, and what the field predicts there."""
    axes = list(problem.input_variables)
    if isinstance(observed, twin.label_tensor):
        if not set(axes) <= set(observed.labels):
            raise InputError(
                f"observed with the labels {axes}, the input variables",
                f"the labels {list(observed.labels)}",
                "label the columns so, as in LabelTensor(points, problem.input_variables)",
            )
        observed = observed.extract(axes).tensor
    where = observed_points(named_columns(observed, axes), len(axes))
    outputs = twin.field(twin.labelled(where, axes))
    return {
        "observed": where,
        "labels": Labels.of(observed, "observed"),
        "fitted": alone_or_columns(outputs[:, columns], len(where)),
        **field_names(columns, problem.output_variables),
    }


def _readings(twin: Twin, problem: Any) -> list[Readings]:
    """Return the observations of the conditions with an input and a target."""
    found, names = [], list(problem.output_variables)
    for name, condition in problem.conditions.items():
        data = getattr(condition, "data", None)
        places: Any = getattr(data, "input", None)
        target: Any = getattr(data, "target", None)
        if not isinstance(places, twin.label_tensor) or not hasattr(target, "shape"):
            continue  # an equation, or graphs
        axes = [axis for axis in problem.input_variables if axis in places.labels]
        if len(axes) != len(problem.input_variables) or target.ndim != 2:
            continue
        points = as_numpy(places.extract(axes).tensor)
        labels = list(target.labels) if isinstance(target, twin.label_tensor) else names
        if not set(labels) <= set(names) or len(labels) != target.shape[1]:
            continue
        outputs = twin.field(twin.labelled(points, axes))
        columns = [names.index(label) for label in labels]
        values = as_numpy(target.as_subclass(twin.torch.Tensor))
        found.append(Readings(f"condition {name!r}", points, values, outputs[:, columns], columns))
    return found


def _loss_terms(torch: Any, twin: Twin, solver: Any) -> list[LossTerm] | str:
    """Return the conditions of the training loss, or say why it is not known."""
    kinds = (
        "CausalPhysicsInformedSingleModelSolver",
        "CompetitivePhysicsInformedSolver",
        "GradientPhysicsInformedSingleModelSolver",
    )
    other = [name for name in kinds if _is_a(solver, name)]
    if other:
        return f"a {other[0]} adds terms of its own"
    found = []
    for name, condition in solver.problem.conditions.items():
        adaptive = _adaptive(solver, name)
        if adaptive is not None and not _order_is_known(solver, name):
            return f"the order of the adaptive weights of {name} is not known"
        if hasattr(condition, "equation"):
            term = Term(name, condition, _training_points(torch, twin, solver, name))
            residual = partial(_equation_residual, term)
        else:
            batch = _training_pairs(twin, solver, name)
            if batch is None:
                return f"the condition {name} has neither an equation nor inputs with targets"
            residual = partial(_misfit, *batch)
        weights = None
        if adaptive is not None:
            plain = as_numpy(adaptive).reshape(-1, 1)
            weights = torch.as_tensor(plain, dtype=twin.dtype, device=twin.device)
        found.append(LossTerm(name, residual, _condition_weight(solver, name), weights))
    return found


def _equation_residual(
    term: Term, twin: Twin, member: int | None, leaves: Mapping[str, Any]
) -> Any:
    return twin.residual(term, member, leaves)


def _misfit(
    places: Any, target: Any, twin: Twin, member: int | None, leaves: Mapping[str, Any]
) -> Any:
    """Return the output minus the target, as PINA subtracts them."""
    del leaves  # data know no unknowns
    return twin.output(places, member).as_subclass(twin.torch.Tensor) - target


def _training_pairs(twin: Twin, solver: Any, name: str) -> tuple[Any, Any] | None:
    """Return the inputs and targets that training used, in its order."""
    data, subset = getattr(solver.problem.conditions[name], "data", None), _subset(solver, name)
    places, target = getattr(data, "input", None), getattr(data, "target", None)
    if not isinstance(places, twin.label_tensor) or not isinstance(target, twin.torch.Tensor):
        return None
    rows = range(len(places)) if subset is None else subset.indices
    axes = list(places.labels)
    inputs = as_numpy(places.extract(axes).tensor)[list(rows)]
    values = as_numpy(target.as_subclass(twin.torch.Tensor))[list(rows)]
    return twin.labelled(inputs, axes), twin.torch.as_tensor(
        values, dtype=twin.dtype, device=twin.device
    )


def _checked_problem(pina: Any, solver: Any) -> Any:
    """Return the inverse problem of a solver."""
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
            f"unknown_parameter_domain; {UNKNOWN_FIELD}",
        )
    return solver.problem


def _chosen(
    solver: Any,
    candidates: list[Term],
    condition: str | Sequence[str] | None,
    equations: FrozenEquations,
    parameters: Mapping[str, Parameter],
) -> list[Term]:
    """Return the terms of the residual."""
    names = [term.name for term in candidates]
    chosen = [condition] if isinstance(condition, str) else condition
    wrong = [name for name in chosen or () if name not in names]
    if wrong or (chosen is not None and not chosen) or not names:
        others = [name for name in solver.problem.conditions if name not in names]
        raise InputError(
            f"conditions with an equation: {', '.join(names) or 'this problem has none'}",
            f"condition={condition!r}" + (f" ({', '.join(others)}: data only)" if others else ""),
            "name one or several of them, or leave condition out" if names else "add an equation",
        )
    if chosen is not None:
        return [term for term in candidates if term.name in chosen]
    found = [
        term
        for term in candidates
        if len(equations.check([term], parameters).unseen) < len(parameters)
    ]
    if not found:
        raise InputError(
            f"an equation that changes with an unknown: {', '.join(parameters)}",
            f"none among {', '.join(names)}: H = 0, the residual does not depend on an unknown",
            f"use params_[{next(iter(parameters))!r}] in the equation; condition={names[0]!r} "
            "audits that residual nevertheless",
        )
    return found


# ---------------------------------------------------------------- unknowns


def _read_unknowns(
    torch: Any,
    problem: Any,
    parameters: Mapping[str, Parameter] | None,
    transform: Mapping[str, Transform],
) -> list[Unknown]:
    """Return every unknown of the problem."""
    stored = problem.unknown_parameters
    refuse_functions(parameters, "twoaxis.from_pina")
    check_names("parameters", {} if parameters is None else Parameters(parameters), stored)
    check_names("transform", transform, stored)
    arithmetic = TorchArithmetic(torch)
    return [
        read_unknown(name, name, tensor, arithmetic, transform.get(name))
        for name, tensor in stored.items()
    ]


def _parameter(
    problem: Any, unknown: Unknown, given: Mapping[str, Parameter]
) -> tuple[Parameter, list[Message]]:
    """Return the user's parameter, or the one that the problem's range describes, and notes."""
    name = unknown.name
    if name in given:
        return with_delivered(given[name], unknown)
    ends = [float(end) for end in problem.unknown_parameter_domain.range[name]]
    low, high = sorted(unknown.physical(end)[0] for end in ends)
    value, notes = unknown.delivered, []
    if not low < value < high:
        # PINA clamps the unknowns before a step and not after it.
        text = f"training ended with {name} = {value:.6g} at the edge of [{low:g}, {high:g}]"
        numbers = {"delivered": value, "lower": low, "upper": high}
        notes.append(Message("parameter.on_bound", text, "warning", numbers))
        low, high = min(low, value), max(high, value)
    if low > 0:
        return Parameter(bounds=(low, high), delivered=value), notes
    text = (
        f"the range of {name} contains zero or negative values, so it is diagnosed in linear "
        f"coordinates; pass parameters={{{name!r}: twoaxis.Parameter(...)}} to choose"
    )
    notes.append(Message("parameter.linear", text))
    return Parameter(bounds=(low, high), delivered=value, coordinate="linear"), notes


def _check_trained(solver: Any, given: Mapping[str, Parameter]) -> None:
    """Refuse unknowns that no training has moved.

    Unknowns are not part of a checkpoint: a solver that was loaded from one has the random
    values with which its problem was built.
    """
    trainer = solver._trainer
    if in_training() or (trainer is not None and trainer.global_step > 0):
        return
    missing = [
        name
        for name in solver.problem.unknown_parameters
        if name not in given or given[name].delivered is None
    ]
    if missing:
        raise InputError(
            "a solver that its Trainer has trained",
            "one without a training step. A PINA checkpoint does not contain the unknowns, so "
            f"those of a loaded solver are random initial values: {', '.join(missing)}",
            "run Trainer.train(); for a loaded solver pass the values that training returned, "
            f"as in parameters={{{missing[0]!r}: twoaxis.Parameter(delivered=..., bounds=...)}}",
        )


# ---------------------------------------------------------------- training


def _training_points(torch: Any, twin: Twin, solver: Any, name: str) -> Any:
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
    return _causal_grid(torch, twin, solver, found) if _is_causal(solver, name) else found


def _training_notes(solver: Any, terms: Sequence[Term]) -> list[Message]:
    """Return what a reader must know of this training."""
    notes = []
    loss = type(solver.loss).__name__
    squares = loss == "MSELoss" or (
        loss == "PowerLoss" and solver.loss.p == 2 and not solver.loss.relative
    )
    if not squares:
        text = f"trained with {loss}; the diagnosis uses the mean of squares"
        notes.append(Message("loss.not_squares", text, "warning"))
    names = [term.name for term in terms]
    left_out = [name for name in solver.problem.conditions if name not in names]
    if left_out:
        text = f"conditions that are not part of this residual: {', '.join(left_out)}"
        notes.append(Message("conditions.left_out", text))
    weighted = [name for name in names if _adaptive(solver, name) is not None]
    lost = [name for name in weighted if not _order_is_known(solver, name)]
    if lost:
        text = (
            f"the adaptive weights of {', '.join(lost)} are left out of the view: they belong to "
            "positions in a batch, and the points at these positions are known only for a "
            "training in one batch whose trainer is still attached; pass loss_weights= if you "
            "know them"
        )
        notes.append(Message("view.weights_left_out", text, "warning"))
    elif weighted:
        text = "the view has the adaptive weights of the last training step"
        notes.append(Message("view.adaptive_weights", text))
    if any(_is_causal(solver, name) for name in names):
        text = "the points are the causal solver's time steps; the view has its weights there"
        notes.append(Message("view.causal_weights", text))
    gradient = _is_a(solver, "GradientPhysicsInformedSingleModelSolver")
    if gradient and any(name in solver.regularized_conditions for name in names):
        text = "the penalty on the residual's gradient is not part of the view"
        notes.append(Message("view.no_gradient_penalty", text, "warning"))
    if _ascends(solver):
        text = (
            "PINA gives the unknowns to both optimizers of this solver, and one of them ascends: "
            "with equal learning rates the unknowns hardly move from their initial values"
        )
        notes.append(Message("training.ascends", text, "warning"))
    return notes


def _adaptive(solver: Any, name: str) -> Any:
    """Return the weights that an adaptive solver keeps for a condition, or None."""
    if _is_a(solver, "SelfAdaptivePhysicsInformedSolver"):
        return solver.weights.func(getattr(solver.weights, name).detach())
    buffers = getattr(solver, "weight_buffers", {})  # residual-based attention
    return getattr(solver, buffers[name]) if name in buffers else None


def _order_is_known(solver: Any, name: str) -> bool:
    """Whether the training batch contained all points of the condition, in a known order."""
    subset = _subset(solver, name)
    if subset is None:
        return False
    module = solver._trainer.datamodule
    if module.batch_size is None:
        return True
    complete: bool = module.batch_size >= len(subset.indices)
    return complete and module.batching_mode != "proportional"


def _subset(solver: Any, name: str) -> Any:
    """Return the training data of a condition, where a trainer is attached."""
    module = getattr(solver._trainer, "datamodule", None)
    return getattr(module, "train_datasets", {}).get(name)


def _is_a(solver: Any, name: str) -> bool:
    """Whether the solver is of a class of PINA."""
    return isinstance(solver, getattr(foreign("pina.solver", "pina", "twoaxis.from_pina"), name))


def _is_causal(solver: Any, name: str) -> bool:
    """Whether the loss of a condition follows the time steps of a causal solver."""
    causal = _is_a(solver, "CausalPhysicsInformedSingleModelSolver")
    return causal and name in solver.regularized_conditions


def _time_steps(solver: Any) -> int:
    """Return how many time steps a causal solver takes."""
    return int(solver.n_steps) if solver.problem.temporal_domain.range else 1


def _causal_grid(torch: Any, twin: Twin, solver: Any, points: Any) -> Any:
    """Return the points that the causal loss visits: all places at every time step."""
    time, domain = solver.temporal_variable, solver.problem.temporal_domain
    ends = domain.range[time] if domain.range else (domain.fixed[time],) * 2
    steps = torch.linspace(*map(float, ends), _time_steps(solver), dtype=twin.dtype)
    axes = list(points.labels)
    plain = as_numpy(points.tensor)
    at = axes.index(time)
    grid = np.concatenate([np.insert(np.delete(plain, at, 1), at, s, 1) for s in as_numpy(steps)])
    return twin.labelled(grid, axes)


def _ascends(solver: Any) -> bool:
    """Whether the solver's second optimizer, which maximizes the loss, has the unknowns."""
    if not any(
        _is_a(solver, name)
        for name in ("SelfAdaptivePhysicsInformedSolver", "CompetitivePhysicsInformedSolver")
    ):
        return False
    unknowns = {id(tensor) for tensor in solver.problem.unknown_parameters.values()}
    instance = getattr(solver._pina_optimizers[1], "instance", None)
    groups = [] if instance is None else instance.param_groups
    return any(id(tensor) in unknowns for group in groups for tensor in group["params"])


def _training_weights(
    solver: Any, twin: Twin, terms: Sequence[Term], equations: FrozenEquations
) -> list[FloatArray]:
    """Return the factors of the squared residual in the loss, one array per equation.

    PINA's loss of a condition is the mean over points and columns, times its weight.
    """
    delivered = {each.name: each.start for each in equations.unknowns.values()}
    weights = []
    for term in terms:
        values = twin.equations([term], delivered)
        count, columns = values[0].shape
        factor = _condition_weight(solver, term.name) / len(twin.members)
        factor *= 1 / columns if solver._reduction == "mean" else count
        by_point = _point_weights(solver, twin, term, values)
        for _ in twin.members:
            for k in range(columns):
                each = np.ones(1) if by_point is None else by_point[:, k]
                weights.append(factor * (each if np.ptp(each) > 0 else each[:1]))
    return weights


def _condition_weight(solver: Any, name: str) -> float:
    """Return the factor of one condition in the loss at the last step."""
    saved = solver.weighting.last_saved_weights()
    if name not in saved and hasattr(solver.weighting, "default_value_weights"):
        saved = solver.weighting.update_weights({name: None})  # fixed numbers, only looked up
    return float(saved.get(name, 1.0))


def _point_weights(
    solver: Any, twin: Twin, term: Term, values: Sequence[FloatArray]
) -> FloatArray | None:
    """Return the factor of every point and column, (N, m), where the solver has any."""
    count, columns = values[0].shape
    if _is_causal(solver, term.name):
        steps = (values[0] ** 2).reshape(_time_steps(solver), -1, columns)
        decay: FloatArray = np.exp(-float(solver.eps) * np.cumsum(steps, axis=0))
        return decay.reshape(-1, columns)
    if _is_a(solver, "CompetitivePhysicsInformedSolver"):
        with twin.undisturbed():
            inputs = term.points.extract(solver.problem.input_variables)
            bets = as_numpy(twin.solver.discriminator(inputs).as_subclass(twin.torch.Tensor))
        return np.broadcast_to(bets.reshape(count, -1) ** 2, (count, columns))
    weights = _adaptive(solver, term.name)
    if weights is None or not _order_is_known(solver, term.name):
        return None
    kept = as_numpy(weights)[:count].reshape(-1, 1)
    return np.broadcast_to(kept, (len(kept), columns)) if kept.any() else None

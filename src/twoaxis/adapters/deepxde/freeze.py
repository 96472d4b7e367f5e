"""DeepXDE: from a trained model to its frozen residual.

The residual is the user's own PDE, evaluated with a copy of the network at the points of the
training. The training itself (points, losses, weights) is read from the compiled model.
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from twoaxis.adapters.deepxde.backend import Backend, CompiledLoss, Imposed
from twoaxis.adapters.deepxde.jax_backend import JaxBackend
from twoaxis.adapters.deepxde.pytorch_backend import PyTorchBackend
from twoaxis.adapters.deepxde.variables import delivered, named_unknowns
from twoaxis.adapters.foreign import (
    UNKNOWN_FIELD,
    Precision,
    about_model,
    as_numpy,
    as_points,
    check_precision,
    foreign,
    precision_notes,
    space_axes,
    typical_values,
)
from twoaxis.adapters.jets import FieldSlot
from twoaxis.adapters.model_loss import without_objective
from twoaxis.adapters.model_weights import Functions, Trained
from twoaxis.adapters.observed import (
    Readings,
    alone_or_columns,
    field_names,
    found_note,
    joined,
    observed_columns,
    observed_outputs,
    observed_points,
    output_names,
)
from twoaxis.adapters.training_view import check_view, training_view
from twoaxis.adapters.unknowns import FrozenEquations, Unknown
from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, in_training
from twoaxis.labels import Labels
from twoaxis.result import Message
from twoaxis.views import View

#: The classes that evaluate a model, by DeepXDE's names of its backends.
BACKENDS: Mapping[str, type[Backend]] = {"pytorch": PyTorchBackend, "jax": JaxBackend}


def from_deepxde(
    model: Any,
    parameters: Mapping[str, Any],
    view: View | None = None,
    *,
    points: Any = None,
    transform: Mapping[str, Any] | None = None,
    unknowns: Mapping[str, Any] | None = None,
    held: Sequence[Any] = (),
    loss_weights: Any = None,
    precision: Precision = "float64",
    field: int | Sequence[int] | None = None,
    observed: Any = None,
    fields: Sequence[str] = (),
    equations: Sequence[str] = (),
) -> FrozenResidual:
    """Freeze a trained DeepXDE model into its residual.

    Parameters
    ----------
    model : deepxde.Model
        Compiled and trained, with the PyTorch or the JAX backend, on ``deepxde.data.PDE`` or
        ``deepxde.data.TimePDE``. The delivered values are read from its variables.
    parameters : mapping
        A name for each of the model's external trainable variables:
        ``{"C": (C, twoaxis.Parameter(truth=1.0, bounds=(0.1, 10)))}``. Also
        ``{"C": twoaxis.Parameter(...)}`` with `unknowns`, or alone where the model has one
        unknown; and ``{"C": C}``, with bounds of a factor of ten around the delivered value.
    view : View, optional
        The metric of the residual loss; by default the mean of squares of each equation, with
        the loss weights of the compiled model.
    points : array, shape (N, k), optional
        Instead of the residual points of the training.
    transform : mapping of str to function or pair of functions, optional
        For an unknown that the PDE uses through a function: ``{"D": torch.exp}``, from the
        stored to the physical value, or a pair with its inverse.
    unknowns : mapping of str to dde.Variable, optional
        The variables, where `parameters` does not hold them.
    held : sequence of dde.Variable
        External trainable variables that are no parameters and keep their values.
    loss_weights : optional
        In place of those of the model: factors of the squared residual, one number per equation
        or one per point.
    precision : {"float64", "model"}
        ``"float64"`` evaluates a copy of the network in double precision; ``"model"`` evaluates
        in the precision of the training, float32 unless DeepXDE is configured otherwise, and a
        note says so.
    field : int or sequence of int, optional
        The outputs of the network that were observed; all of them by default. Figures show the
        first.
    observed : array, shape (n, k), optional
        Where the observations lie, in the order of the data. By default the observations are those
        of the model: every ``PointSetBC`` with points inside the domain.
    fields, equations : sequence of str, optional
        Names of all outputs of the network and of the equations, which DeepXDE does not have, for
        figures and messages: ``fields=("u", "v", "p")``. Without them they are numbered.

    Returns
    -------
    FrozenResidual
        Equations in their order, with the observations of the training, what the field predicts
        for them, and the whole training loss as its `objective`. The model is left as it was, and
        training it further does not change the frozen residual.

    Notes
    -----
    Boundary conditions and observations are no part of the residual, except for a condition that
    contains an unknown: it is evidence about it, and follows the equations at its own points and
    with its own weight. A note names it.

    Loss weights of observations balance the terms of the training. They say nothing about the noise
    and are not taken for it: give that to `twoaxis.resolve` or `twoaxis.Follower`.

    Examples
    --------
    >>> import os
    >>> os.environ["DDE_BACKEND"] = "pytorch"
    >>> import deepxde as dde, numpy as np, twoaxis as ta
    >>> rate = dde.Variable(2.0)
    >>> def decay(t, u):
    ...     return dde.grad.jacobian(u, t) + rate * u
    >>> start = dde.icbc.PointSetBC(np.zeros((1, 1)), np.ones((1, 1)))
    >>> data = dde.data.PDE(dde.geometry.TimeDomain(0, 1), decay, [start], num_domain=20)
    >>> model = dde.Model(data, dde.nn.FNN([1, 8, 1], "tanh", "Glorot normal"))
    >>> model.compile("adam", lr=1e-3, external_trainable_variables=[rate], verbose=0)
    >>> _ = model.train(iterations=2, verbose=0)
    >>> frozen = from_deepxde(model, {"rate": (rate, ta.Parameter(truth=1.0, bounds=(0.1, 10)))})
    >>> round(frozen.parameters["rate"].delivered, 1)
    2.0
    >>> frozen.points.shape, frozen.axes
    ((20, 1), ('t',))
    """
    dde = library_of(model)
    check_precision(precision)
    check_view(view, loss_weights)
    check_compiled(model)
    every, skipped = training_points(dde, model.data)
    if points is not None:
        every, skipped = _given_points(points, every.shape[1]), 0
    backend = open_backend(dde, model, double=precision == "float64")
    external = list(model.external_trainable_variables)
    named = named_unknowns(backend, external, parameters, unknowns, transform, held)
    trained = in_training() or model.train_state.step > 0
    known = {name: delivered(unknown, about, trained) for name, (unknown, about) in named.items()}
    checked = {name: parameter for name, (parameter, _) in known.items()}
    data = copy.copy(model.data)  # the points of the last step
    listed = [unknown for unknown, _ in named.values()]
    evidence, told = _evidence(backend, data, listed, points is None)
    system = FrozenEquations(backend, listed, skipped, _imposed_on(backend, data, evidence))
    influence = system.check(every, checked)
    for name in influence.lost:
        raise InputError(
            f"a PDE that can be differentiated by {name}",
            f"one that changes with {name} and has no derivative by it; training could not move "
            "it either",
            "compute with the variable itself, not with .item(), .detach() or float() of it",
        )
    if view is None and loss_weights is None:
        loss_weights = equation_weights(model, backend, influence.widths, evidence)
    where = every[skipped:]
    own = len(influence.widths) - len(evidence)
    places_of = [where] * own + [_points_of(data, number) for number in evidence]
    by_column = [
        at for at, width in zip(places_of, influence.widths, strict=True) for _ in range(width)
    ]
    metric = training_view(view, loss_weights, [len(at) for at in by_column])
    outputs = output_names(backend.field(where[:1]).shape[1], fields)
    called = _equation_names(equations, sum(influence.widths[:own]))
    columns = observed_columns(field, len(outputs))
    notes = (
        *precision_notes(backend.precision, backend.precision, backend.own),
        *(note for _, notes in known.values() for note in notes),
        *influence.notes(),
        *([_KEPT_VALUE] if influence.unseen and data.bcs else []),
        *told,
        *([_UNREAD_LOSS] if view is None and loss_functions(model) is None else []),
    )

    def freeze(state: Backend, parameters: Mapping[str, Any], **more: Any) -> FrozenResidual:
        unknowns = list(system.unknowns.values())
        here = FrozenEquations(state, unknowns, skipped, _imposed_on(state, data, evidence))
        elsewhere = FrozenEquations(state, unknowns)
        return FrozenResidual(
            lambda **values: here.residual(every, values),
            parameters,
            by_column if evidence else where,
            view=metric,
            jacobian=lambda **values: here.jacobian(every, values),
            residual_at=None
            if evidence
            else lambda at, **values: elsewhere.residual(as_numpy(at), values),
            field=np.concatenate(
                [state.field(at)[:, columns[0]] for at in (by_column if evidence else [where])]
            ),
            field_name=outputs[columns[0]],
            axes=axes_of(dde, model.data.geom),
            equations=(*called, *_names(data, influence.widths, evidence)[len(called) :]),
            **more,
        )

    exact = backend
    if backend.precision != "float64":
        exact = open_backend(dde, model, double=True)
    compiled = compiled_loss(model)
    seen, found = _observations(dde, model, backend, columns, observed, outputs)
    places: list[Any] = [each.place for each in system.unknowns.values()]
    imposed = [n for n in _imposed(dde, model, own) if n not in evidence]

    def functions(state: Backend) -> Functions:
        return Functions(
            [
                state.equations_by_weights(places),
                *(state.condition_by_weights(data, number, places) for number in evidence),
            ],
            state.outputs_by_weights(places),
            state.misfits_by_weights(data, imposed, places) if imposed else None,
            partial(slot, state),
        )

    def slot(state: Backend) -> FieldSlot | None:
        if evidence:
            return None  # conditions on the edge are no equations
        return state.slot(data, imposed, places, where, trained_model.of_field)

    about = about_model("DeepXDE", "deepxde", model.net, exact.weights.size, backend.own)
    about["backend"] = dde.backend.backend_name
    unknown_loss = [without_objective(compiled)] if isinstance(compiled, str) else []
    trained_model = Trained(
        exact,
        freeze,
        functions,
        by_column if evidence else where,
        list(system.unknowns.values()),
        None if isinstance(compiled, str) else partial(exact.loss, compiled),
        seen,
        observed_outputs(found) if found else columns,
        {"notes": (*notes, *found_note(found), *unknown_loss), "about": about},
        lambda state, at: state.field(at),
    )
    frozen = trained_model.frozen(backend, checked)
    frozen.at(frozen.coordinates(typical_values(checked)))  # raises early where it is not finite
    return frozen


def _imposed(dde: Any, model: Any, equations: int) -> list[int]:
    """Return the conditions, by their number, that training imposed and that are no observations.

    A weight of zero in the loss imposes nothing.
    """
    data = model.data
    factors = np.ones(1) if model.loss_weights is None else as_numpy(model.loss_weights).ravel()
    if factors.size != equations + len(data.bcs):
        factors = np.ones(equations + len(data.bcs))  # one for all
    return [
        number
        for number, condition in enumerate(data.bcs)
        if factors[equations + number] != 0
        and data.num_bcs[number]
        and not _is_observation(dde, data, condition)
    ]


def _observations(
    dde: Any,
    model: Any,
    backend: Backend,
    columns: list[int],
    observed: Any,
    names: Sequence[str],
) -> tuple[dict[str, Any], list[Readings]]:
    """Return `observed`, `data` and `fitted`, as far as known, and what was found in the model."""
    if observed is not None:
        where = observed_points(observed, np.shape(model.data.train_x)[1])
        fitted = alone_or_columns(backend.field(where)[:, columns], len(where))
        labels = Labels.of(observed, "observed")
        seen = {"observed": where, "fitted": fitted, "labels": labels}
        return {**seen, **field_names(columns, names)}, []
    found = []
    for number, condition in enumerate(model.data.bcs):
        if not _is_observation(dde, model.data, condition):
            continue
        points = np.array(condition.points, dtype=float)
        at = condition.component
        outputs = at if isinstance(at, list) else [at]
        fitted = backend.field(points)[:, outputs]
        values = np.broadcast_to(as_numpy(condition.values), fitted.shape)
        found.append(
            Readings(f"condition {number + 1} (PointSetBC)", points, values.copy(), fitted, outputs)
        )
    return joined(found, names), found


def _is_observation(dde: Any, data: Any, condition: Any) -> bool:
    """Whether a condition holds observed values of the field.

    An operator, or a value on the boundary or at the start, is none.
    """
    return type(condition) is dde.icbc.PointSetBC and not _on_edge(data.geom, condition)


def _on_edge(geometry: Any, condition: Any) -> bool:
    """Whether all points of a condition lie on the boundary or at the start."""
    try:
        edge = np.asarray(geometry.on_boundary(condition.points), dtype=bool)
        if hasattr(geometry, "on_initial"):
            edge |= np.asarray(geometry.on_initial(condition.points), dtype=bool)
    except Exception:  # not every geometry, such as a cloud of points, knows its boundary
        return False
    return bool(edge.all())


def compiled_loss(model: Any) -> CompiledLoss | str:
    """Return what the training loss is made of, or why it is not known."""
    functions = loss_functions(model)
    if functions is None:
        return "the loss function of the compiled model could not be read"
    if any(getattr(each, "batch_size", None) is not None for each in model.data.bcs):
        return "a condition takes its points in minibatches"
    kind = getattr(model.net, "regularizer", None)
    if isinstance(kind, (list, tuple)) and kind[0] != "l1":
        return "weight decay is a rule of the optimizer and not part of the loss"
    factors = None if model.loss_weights is None else as_numpy(model.loss_weights).ravel()
    return CompiledLoss(copy.copy(model.data), functions, factors)


def open_backend(dde: Any, model: Any, double: bool) -> Backend:
    """Freeze a compiled model."""
    name = dde.backend.backend_name
    if name in BACKENDS:
        kind: Any = BACKENDS[name]
        backend: Backend = kind(dde, model, double)
        return backend
    raise InputError(
        "DeepXDE with its PyTorch or its JAX backend",
        f"the backend {name}",
        "train with DDE_BACKEND=pytorch, or pass the residual as a function to "
        "twoaxis.FrozenResidual",
    )


def _given_points(points: Any, dimension: int) -> FloatArray:
    array = as_points(points)
    if array.shape[1] != dimension:
        raise InputError(
            f"points of shape (N, {dimension}), as the network takes them",
            f"the shape {array.shape}",
            "stack the coordinates as columns, space before time",
        )
    return array


_KEPT_VALUE = Message(
    "condition.kept_value",
    "an unknown in DirichletBC, NeumannBC or IC is lost on DeepXDE's PyTorch backend: the function "
    "of such a condition is evaluated once, and its value kept; write the condition as OperatorBC",
    "warning",
)
_UNREAD_LOSS = Message(
    "loss.unread",
    "the loss function of the compiled model could not be read; a mean of squares is assumed",
    "warning",
)


def _evidence(
    backend: Backend, data: Any, unknowns: Sequence[Unknown], wanted: bool
) -> tuple[list[int], list[Message]]:
    """Return the conditions that contain an unknown, by their numbers, and notes about them.

    At points of the user they are not `wanted`: only the equations can be evaluated there.
    """
    try:
        found = backend.conditions_with(data)
    except Exception as error:  # conditions are any code of the user's
        text = (
            "whether an unknown enters the boundary conditions could not be determined "
            f"({type(error).__name__}: {error})"
        )
        return [], [Message("condition.unread", text, "warning")]
    names = {each.place: each.name for each in unknowns}
    inside = {place: numbers for place, numbers in found.items() if place in names}
    part = "part of the residual" if wanted else "no part of the residual at the given points"
    notes = []
    for place, numbers in inside.items():
        called = ", ".join(_called(data, number) for number in numbers)
        text = f"{names[place]} enters {called} of the training: {part}"
        severity: Literal["info", "warning"] = "info" if wanted else "warning"
        notes.append(Message("condition.has_parameter", text, severity))
    every = sorted({n for numbers in inside.values() for n in numbers})
    return every if wanted else [], notes


def _imposed_on(backend: Backend, data: Any, evidence: Sequence[int]) -> Imposed | None:
    return Imposed(backend, data, evidence) if evidence else None


def _points_of(data: Any, number: int) -> FloatArray:
    """Return the points at which one condition is imposed."""
    first = sum(data.num_bcs[:number])
    return np.array(data.train_x[first : first + data.num_bcs[number]], dtype=float)


def _called(data: Any, number: int) -> str:
    return f"condition {number + 1} ({type(data.bcs[number]).__name__})"


def _equation_names(given: Sequence[str], count: int) -> tuple[str, ...]:
    """Return names of the equations as the user gave them, or none."""
    if isinstance(given, str) or len(given) not in (0, count):
        raise InputError(
            f"equations as {count} names, one for each column of the residual",
            repr(given),
            'write equations=("mass", "momentum"), or leave it out',
        )
    return tuple(map(str, given))


def _names(data: Any, widths: Sequence[int], evidence: Sequence[int]) -> tuple[str, ...]:
    """Return names of all columns, where conditions follow the equations."""
    if not evidence:
        return ()
    own = [f"equation {n + 1}" for n in range(len(widths) - len(evidence))]
    called = [*own, *(_called(data, number) for number in evidence)]
    return tuple(
        name if width == 1 else f"{name}, column {k + 1}"
        for name, width in zip(called, widths, strict=True)
        for k in range(width)
    )


# ---------------------------------------------------------------- what the model knows


def library_of(model: Any) -> Any:
    """Return the library that made this model.

    It is not imported here: that would choose a backend, write a file into the user's home and
    perhaps change PyTorch's default device. Whoever has a model has imported it.
    """
    dde = sys.modules.get("deepxde")
    if dde is None and importlib.util.find_spec("deepxde") is None:
        foreign("deepxde", "deepxde", "twoaxis.from_deepxde")
    if dde is None or not isinstance(model, dde.Model):
        raise InputError(
            "a deepxde.Model",
            type(model).__name__,
            "pass the model itself; for a network with a residual function use "
            "twoaxis.from_torch or twoaxis.from_jax",
        )
    return dde


def check_compiled(model: Any) -> None:
    """Refuse a model that has not been compiled, or was compiled without unknowns."""
    if model.opt_name is None or model.outputs is None:
        raise InputError(
            "a model that has been compiled and trained",
            "one that has not been compiled",
            'call model.compile("adam", lr=1e-3, external_trainable_variables=[C]) and '
            "model.train(...) first",
        )
    if not model.external_trainable_variables:
        raise InputError(
            "a model that was compiled with its unknowns, external_trainable_variables=[...]",
            "one without any",
            "list numbers in every call of compile, as a later call without them drops them; "
            + UNKNOWN_FIELD,
        )


def training_points(dde: Any, data: Any) -> tuple[FloatArray, int]:
    """Return all points of the training, and how many of them belong to conditions.

    The points of boundary and initial conditions and of observations come first; the residual
    is imposed at the others.
    """
    plain = dde.data.PDE
    same = isinstance(data, plain) and all(
        getattr(type(data), name) is getattr(plain, name)
        for name in ("losses", "losses_train", "train_next_batch")
    )
    if not same:
        raise InputError(
            "training data of the class deepxde.data.PDE or deepxde.data.TimePDE",
            f"{type(data).__name__}, which computes its loss differently",
            "pass the residual as a function to twoaxis.from_torch or twoaxis.from_jax; fractional "
            "(FPDE, TimeFPDE) and integro-differential (IDE) equations need it, because their "
            "residual at a point takes other points, too",
        )
    if data.pde is None:
        raise InputError(
            "training data with an equation", "pde=None", "give deepxde.data.PDE its pde"
        )
    every, conditions = np.array(data.train_x, dtype=float), int(sum(data.num_bcs))
    if len(every) - conditions != len(data.train_x_all) or len(every) == conditions:
        raise InputError(
            "residual points after those of the conditions",
            f"{len(every)} points: {conditions} of conditions and {len(data.train_x_all)} of the "
            "equation",
            "give num_domain or anchors, and change points only by the methods of the data",
        )
    return every, conditions


def axes_of(dde: Any, geometry: Any) -> tuple[str, ...]:
    """Return names of the coordinates, as DeepXDE orders them: space, then time."""
    timed = isinstance(geometry, dde.geometry.GeometryXTime)
    if isinstance(geometry, dde.geometry.TimeDomain):
        return ("t",)
    names = space_axes(geometry.dim - timed)
    return (*names, "t") if timed else names


def equation_weights(
    model: Any, backend: Backend, widths: Sequence[int], evidence: Sequence[int] = ()
) -> list[float]:
    """Return the factor of the mean square of every residual column in the loss.

    Parameters
    ----------
    model : deepxde.Model
        Its weights are those of the equations, then those of the conditions.
    backend : Backend
    widths : sequence of int
        The number of columns of each equation, then of each condition that is evidence; a loss is
        the mean over all of them.
    evidence : sequence of int
        The numbers of these conditions.
    """
    count, conditions = len(widths) - len(evidence), len(model.data.bcs)
    weights = np.ones(1) if model.loss_weights is None else as_numpy(model.loss_weights).ravel()
    if weights.size == 1:
        weights = np.repeat(weights, count + conditions)
    if weights.size != count + conditions:
        raise InputError(
            f"a loss weight for each of {count} equations and {conditions} conditions",
            f"{weights.size} weights in the compiled model",
            "correct loss_weights of model.compile, or pass view= or loss_weights= here",
        )
    terms = [*range(count), *(count + number for number in evidence)]
    _check_squares(loss_functions(model), terms, backend)
    if not weights[:count].any():
        raise InputError(
            "a residual that is part of the loss",
            "loss weights of zero for every equation",
            "pass view=twoaxis.views.Pointwise() to audit it nevertheless",
        )
    each = zip(weights[terms], widths, strict=True)
    return [float(weight / width) for weight, width in each for _ in range(width)]


def loss_functions(model: Any) -> Any:
    """Return the loss function or functions of a compiled model, or None if not found.

    A model does not keep them, but the function that computes its losses does.
    """
    function = inspect.unwrap(model.outputs_losses_train)
    for name in ("outputs_losses", "loss_fn"):
        if not inspect.isfunction(function):
            return None
        function = inspect.getclosurevars(function).nonlocals.get(name)
    return function


def _check_squares(losses: Any, terms: Sequence[int], backend: Backend) -> None:
    """Refuse an equation whose loss is not the mean of squares."""
    each = [losses[n] for n in terms] if isinstance(losses, (list, tuple)) else [losses]
    sample = [[0.5], [-2.0], [3.0]]
    for loss in each:
        if loss is None:
            continue
        value = backend.arithmetic.call(loss, [[0.0]] * 3, sample)
        if abs(value / np.mean(np.square(sample)) - 1) > 1e-5:
            name = getattr(loss, "__name__", type(loss).__name__)
            raise InputError(
                "equations whose loss is the mean of squares, from which the view follows",
                f"the loss {name}",
                "pass the view to diagnose, for instance view=twoaxis.views.Pointwise()",
            )

"""PyTorch models: any module, any residual function, autograd inside."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

import numpy as np

from twoaxis.adapters.foreign import (
    COUPLED_NOTE,
    FIELD_EXPECTED,
    FIELD_FIX,
    Precision,
    about_model,
    alone,
    as_names,
    as_numpy,
    as_observed,
    as_points,
    call_words,
    check_precision,
    dtype_name,
    equations_of,
    explained,
    first_output,
    foreign,
    is_pointwise,
    precision_notes,
    typical_values,
)
from twoaxis.adapters.jacobians import TorchFunction
from twoaxis.adapters.jets import torch_slot
from twoaxis.adapters.model_loss import (
    LossAt,
    ModelObjective,
    flat_tensors,
    put_into,
    torch_gradient,
)
from twoaxis.adapters.model_weights import ModelWeights
from twoaxis.adapters.observed import alone_or_columns
from twoaxis.adapters.training_view import training_view
from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError, check_callable
from twoaxis.frozen import FrozenResidual, check_repeatable, check_same, in_training
from twoaxis.parameters import Parameters, Unknowns
from twoaxis.result import Message
from twoaxis.views import View


def from_torch(
    model: Any,
    residual: Callable[..., Any],
    parameters: Unknowns,
    view: View | None = None,
    *,
    points: Any,
    loss_weights: Any = None,
    precision: Precision = "float64",
    field: Callable[..., Any] | None = None,
    observed: Any = None,
    loss: Callable[..., Any] | None = None,
    conditions: Callable[..., Any] | None = None,
    axes: Sequence[str] = (),
    fields: Sequence[str] = (),
    equations: Sequence[str] = (),
) -> FrozenResidual:
    """Freeze a PyTorch model into its residual.

    Parameters
    ----------
    model : torch.nn.Module or callable
        The trained field.
    residual : callable
        ``residual(model, points, **parameters)``: PyTorch in, PyTorch out. Points come as a
        tensor (N, k) that requires its gradient, parameters as tensors without dimension.
        Values of shape (N,) or (N, 1), or a tuple or mapping of such for several equations.
    parameters : mapping of str to Parameter or UnknownFunction
        With the values that training `delivered`.
    view : View, optional
        The metric of the residual loss; the plain mean of squares by default.
    points : array or tensor, shape (N, k)
        The residual points of the training.
    loss_weights : optional
        In place of a view: factors of the squared residual in the loss, one number per equation
        or one per point. Adaptive weights of the last step go here; where the loss squares its
        weights, as residual-based attention (RBA) does, pass their squares.
    precision : {"float64", "model"}
        ``"float64"`` evaluates a copy of the module in double precision, with points and
        parameters in float64; a function that is no module is called as it is. ``"model"``
        evaluates in the precision of the weights, or of the points where there are none, and a
        note says so.
    field : callable, optional
        ``field(model, points)``: what was observed, a column for each observed field; the
        outputs of the model by default. Figures show the first column.
    observed : array or tensor, shape (n, k), optional
        Where the observations lie, in the order of the data. The field there becomes the `fitted`
        of the frozen residual, and an audit asks whether the network has fitted the data.
    loss : callable, optional
        ``loss(model, **parameters)``: the whole training loss, as for `twoaxis.objective`. It
        becomes the `objective` of the frozen residual, and an audit asks whether training has
        finished.
    conditions : callable, optional
        ``conditions(model)``: misfits of boundary and initial conditions that the model does not
        obey by construction, as a tensor, or a tuple or mapping of such for several. The model
        comes in double precision. They belong to the `weights` of the frozen residual.
    axes, fields, equations : sequence of str, optional
        Names of the coordinates, the observed fields and the equations, for figures and messages,
        such as ``axes=("t",), fields=("S", "I")``.

    Returns
    -------
    FrozenResidual
        It evaluates a copy of the module in evaluation mode: further training changes nothing
        here, and nothing here changes the model. A function that is no module is called as it is.
        A residual that draws random numbers is refused.

    Examples
    --------
    >>> import torch, twoaxis as ta
    >>> net = lambda t: torch.exp(-1.1 * t)
    >>> def decay(model, t, rate):
    ...     u = model(t)
    ...     (u_t,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    ...     return u_t + rate * u
    >>> frozen = from_torch(
    ...     net, decay, {"rate": ta.Parameter(truth=1.0, delivered=1.1, bounds=(0.1, 10))},
    ...     points=torch.linspace(0, 1, 20)[:, None],
    ... )
    >>> round(ta.score(frozen).delta_percent["rate"], 6)
    10.517092
    """
    torch = foreign("torch", "torch", "twoaxis.from_torch")
    known = Parameters(parameters)
    check_precision(precision)
    if not callable(model):
        raise InputError(
            "model as a torch.nn.Module or a function",
            type(model).__name__,
            "pass the module itself, with its weights loaded",
        )
    check_callable("residual", residual, known.argument_names, ("model", "points"))
    tensors = _tensors(torch, model)
    used = torch.float64 if precision == "float64" else _own_precision(torch, tensors, points)
    own = tensors[0].dtype if tensors else used
    where = _points_like(torch, tensors, points, used)
    frozen_model, notes = _frozen(torch, model, double=used != own)
    lock = RLock()  # a module may keep tensors of a call, and a residual may call ``backward``

    def evaluate(at: Any, values: Mapping[str, Any]) -> Any:
        given = known.by_member(values)
        numbers = {n: _as_tensor(torch, v, used, where.device) for n, v in given.items()}
        inputs = at.detach().clone().requires_grad_(True)
        with lock, torch.enable_grad():
            return alone(equations_of(residual(frozen_model, inputs, **known.arguments(numbers))))

    if observed is not None:
        observed = as_observed(observed, points, axes)
    center = typical_values(known)
    with explained(
        "a residual that can be evaluated at the points, "
        f"residual(model, points, {call_words(center)})",
        "check shapes, devices and precision; for a missing graph pass create_graph=True to "
        "torch.autograd.grad, and detach nothing that derivatives need"
        + (f'; pass precision="model" if it computes in {dtype_name(own)}' if own != used else "")
        + (
            "; for a model that is no module with weights, and has a precision of its own, pass "
            'precision="model" and points in that precision, such as points.float()'
            if not tensors
            else ""
        ),
    ):
        first = evaluate(where, center)
    values = equations_of(first)
    pointwise = in_training() or is_pointwise(lambda at: evaluate(at, center), where, values)
    evaluated = getattr(values[0], "dtype", used)
    metric = training_view(view, loss_weights, [len(where)] * len(values))
    again = {"view": metric, "points": as_points(points)}  # of another state: nothing is shared
    trainable = None
    if loss is not None and not in_training():
        trainable = torch_objective(torch, model, loss, residual, known, again)
    options = {
        **again,
        "field": field,
        "observed": observed,
        "loss": loss,
        "conditions": conditions,
        "axes": axes,
        "fields": fields,
        "equations": equations,
    }

    def elsewhere(at: Any, **values: Any) -> Any:
        return evaluate(torch.as_tensor(as_numpy(at), dtype=used, device=where.device), values)

    frozen = FrozenResidual(
        lambda **values: evaluate(where, values),
        known,
        as_numpy(where),
        view=metric,
        residual_at=elsewhere if pointwise else None,
        field=_field(torch, frozen_model, where, field),
        notes=(
            *notes,
            *precision_notes(*map(dtype_name, (evaluated, used, own))),
            *([] if pointwise else [COUPLED_NOTE]),
        ),
        fitted=_fitted(torch, frozen_model, tensors, observed, used, field),
        observed=observed,
        objective=trainable,
        weights=None
        if in_training()
        else _weights(torch, model, residual, known, options, pointwise),
        axes=as_names("axes", axes),
        fields=as_names("fields", fields),
        equations=as_names("equations", equations),
        about=about_model(
            "PyTorch",
            "torch",
            model,
            sum(each.numel() for each in _trainable(torch, model)),
            dtype_name(own),
        ),
    )
    at_center = frozen.checked(first, center)  # shapes and values, before anything else needs them
    if not in_training():
        check_repeatable(frozen, first, at_center, center)
    return frozen


def torch_objective(
    torch: Any,
    model: Any,
    loss: Callable[..., Any],
    residual: Callable[..., Any],
    parameters: Parameters,
    options: dict[str, Any],
) -> ModelObjective:
    """Return ``loss(model, **parameters)`` as an objective, on a copy in double precision.

    `options` are those of `from_torch` that define the frozen residual of a state.
    """
    parameters.require("delivered")
    check_callable("loss", loss, parameters, ("model",))
    if not isinstance(model, torch.nn.Module):
        raise InputError(
            "a torch.nn.Module with weights to train, for its loss",
            type(model).__name__,
            "pass the module itself",
        )
    copied, lock = _copied(torch, model).double(), RLock()
    weights = _trainable(torch, copied)
    if not weights:
        raise InputError(
            "a module with weights that can be trained",
            "none that requires a gradient",
            "call model.requires_grad_(True) on the weights that training changed",
        )

    deterministic = False

    def loss_at(vector: FloatArray, values: Mapping[str, float]) -> LossAt:
        nonlocal deterministic
        device = weights[0].device
        numbers = [
            torch.tensor(value, dtype=torch.float64, device=device, requires_grad=True)
            for value in values.values()
        ]
        with lock, torch.enable_grad():
            put_into(torch, weights, vector)
            arguments = dict(zip(values, numbers, strict=True))
            value = loss(copied, **arguments)
            if not deterministic:
                check_same("training loss", as_numpy(value), as_numpy(loss(copied, **arguments)))
                deterministic = True
            slopes = torch_gradient(torch, value, [*weights, *numbers])
        by_weights, by_numbers = slopes[: len(weights)], slopes[len(weights) :]
        return LossAt(float(value.detach()), np.concatenate(by_weights), np.concatenate(by_numbers))

    def network(vector: FloatArray) -> Any:
        with lock:
            put_into(torch, weights, vector)
            return copy.deepcopy(copied)

    def freeze(vector: FloatArray, known: Parameters) -> FrozenResidual:
        return from_torch(network(vector), residual, known, **options)

    return ModelObjective(parameters, flat_tensors(weights), loss_at, freeze, network)


def _weights(
    torch: Any,
    model: Any,
    residual: Callable[..., Any],
    parameters: Parameters,
    options: dict[str, Any],
    pointwise: bool,
) -> ModelWeights | None:
    """Return a module as a least-squares system in its weights; None for one without weights.

    `options` are those of `from_torch`.
    """
    conditions, field = options["conditions"], options["field"]
    if conditions is not None:
        check_callable("conditions", conditions, (), ("model",))
    if not _trainable(torch, model):
        if conditions is None:
            return None
        raise InputError(
            "a torch.nn.Module with weights to train, for its conditions",
            f"{type(model).__name__} without any",
            "pass the module itself, or leave conditions out",
        )
    copied, lock = _copied(torch, model).double(), RLock()
    moving = {name: each for name, each in copied.named_parameters() if each.requires_grad}
    tensors = list(moving.values())
    device = tensors[0].device

    @contextmanager
    def opened(numbers: FloatArray) -> Iterator[list[Any]]:
        leaves = [
            torch.tensor(float(each), dtype=torch.float64, device=device, requires_grad=True)
            for each in numbers
        ]
        with lock, torch.enable_grad():
            yield leaves

    def equations(module: Any, leaves: Sequence[Any], at: Any) -> Any:
        given = parameters.arguments(dict(zip(parameters, leaves, strict=True)))
        parts = equations_of(residual(module, at, **given))
        return torch.stack([part.reshape(len(at)) for part in parts], dim=1)

    def outputs(module: Any, leaves: Sequence[Any], at: Any) -> Any:
        del leaves  # the field is that of the weights alone
        found = module(at) if field is None else field(module, at)
        return found.reshape(len(at), -1)

    def misfits(module: Any, leaves: Sequence[Any], at: Any) -> Any:
        del leaves, at
        parts = [part.reshape(-1) for part in equations_of(conditions(module))]
        return torch.cat([part / part.numel() ** 0.5 for part in parts])[:, None]

    def network(vector: FloatArray) -> Any:
        with lock:
            put_into(torch, tensors, vector)
            return copy.deepcopy(copied)

    def function(call: Callable[..., Any], pointwise: bool = True) -> TorchFunction:
        return TorchFunction(torch, copied, list(moving), call, opened, pointwise=pointwise)

    residual_function, observed = function(equations, pointwise), function(outputs)
    misfits_function = None if conditions is None else function(misfits, pointwise=False)

    def refrozen(module: Any, known: Parameters) -> FrozenResidual:
        kept = {**options, "loss": None}
        return from_torch(module, residual, known, **kept)

    return ModelWeights(
        parameters,
        flat_tensors(tensors),
        options["points"],
        [residual_function],
        observed,
        lambda vector, known: from_torch(network(vector), residual, known, **options),
        network,
        observed=None if options["observed"] is None else as_points(options["observed"]),
        misfits=misfits_function,
        slot=lambda: torch_slot(
            [residual_function], observed, misfits_function, refrozen, options["points"]
        ),
    )


def _trainable(torch: Any, model: Any) -> list[Any]:
    """Return the weights that training moves."""
    if not isinstance(model, torch.nn.Module):
        return []
    return [each for each in model.parameters() if each.requires_grad]


def _copied(torch: Any, module: Any) -> Any:
    """Return a copy of a module in evaluation mode, which further training does not change."""
    # Tensors with a graph, such as outputs that a module keeps, have no copy of their own.
    kept = {
        id(each): each.detach().clone()
        for part in module.modules()
        for each in vars(part).values()
        if isinstance(each, torch.Tensor) and not each.is_leaf
    }
    with (
        torch.no_grad(),  # of TorchScript a copy is an operation, with a graph
        explained(
            "a module that can be copied, so that it stays as it is now",
            "remove what copy.deepcopy(model) cannot copy, and detach tensors that it keeps",
        ),
    ):
        copied = copy.deepcopy(module, kept).eval()
    for one, other in zip(copied.parameters(), module.parameters(), strict=True):
        one.requires_grad_(other.requires_grad)
    return copied


def _frozen(torch: Any, model: Any, double: bool) -> tuple[Any, list[Message]]:
    """Return the model as it is evaluated, and a note where training further changes it."""
    if isinstance(model, torch.nn.Module):
        return _copied(torch, model).double() if double else _copied(torch, model), []
    try:
        frozen = copy.deepcopy(model)  # of an object or a method; a function is its own copy
        captured = inspect.getclosurevars(model) if inspect.isfunction(model) else None
        held = {**captured.nonlocals, **captured.globals} if captured is not None else {}
        changes = any(isinstance(each, torch.nn.Module) for each in held.values())
    except Exception:  # what an object holds need not be copied to be called
        frozen, changes = model, True
    text = "the model is a function of a module that is not copied: training it further changes "
    note = Message("model.not_copied", text + "this frozen residual", "warning")
    return frozen, [note] if changes else []


def _tensors(torch: Any, model: Any) -> list[Any]:
    """Return the weights and other floating-point numbers of a module."""
    if not isinstance(model, torch.nn.Module):
        return []
    return [each for each in (*model.parameters(), *model.buffers()) if each.is_floating_point()]


def _own_precision(torch: Any, tensors: list[Any], points: Any) -> Any:
    """Return the precision in which the model computes, or else that of the points."""
    if tensors:
        return tensors[0].dtype
    given = isinstance(points, torch.Tensor) and points.is_floating_point()
    return points.dtype if given else torch.float64


def _points_like(torch: Any, tensors: list[Any], points: Any, dtype: Any) -> Any:
    """Return the points as a tensor on the model's device."""
    device = tensors[0].device if tensors else None
    if any(each.device.type == "meta" for each in tensors):
        raise InputError(
            "a model with values in its weights",
            "weights on the device 'meta', which has shapes only",
            "load its weights onto a device, as in model.to_empty(device='cpu') and "
            "model.load_state_dict(...)",
        )
    if isinstance(points, torch.Tensor):
        if device is not None and points.device != device and points.device.type != "meta":
            raise InputError(
                f"points on the device of the model, {device}",
                f"points on {points.device}",
                f"pass points.to({str(device)!r})",
            )
        device = points.device if device is None else device
    return torch.as_tensor(as_points(points), dtype=dtype, device=device)


def _as_tensor(torch: Any, value: Any, dtype: Any, device: Any) -> Any:
    """Return a parameter as a tensor without dimension; a dual number keeps its tangent."""
    if isinstance(value, torch.Tensor):
        return value.to(device=device, dtype=dtype)
    return torch.tensor(float(value), dtype=dtype, device=device)


def _fitted(
    torch: Any,
    model: Any,
    tensors: list[Any],
    observed: Any,
    dtype: Any,
    field: Callable[..., Any] | None,
) -> FloatArray | None:
    """Return what the field predicts for the observations, where it is known where they lie."""
    if observed is None:
        return None
    where = _points_like(torch, tensors, observed, dtype)
    with (
        torch.set_grad_enabled(field is not None),  # it may differentiate, as a stream function
        explained(
            "a field that can be evaluated at the observed points",
            "give them the coordinates that the model takes, or pass field=... for what was "
            "observed",
        ),
    ):
        return alone_or_columns(model(where) if field is None else field(model, where), len(where))


def _field(
    torch: Any, model: Any, where: Any, field: Callable[..., Any] | None
) -> FloatArray | None:
    """Return what figures show, or None where the model does not give it."""
    with torch.set_grad_enabled(field is not None):
        if field is not None:
            with explained(FIELD_EXPECTED, FIELD_FIX):
                values = field(model, where)
        else:
            try:
                values = model(where)
            except Exception:  # a figure without the field is better than no diagnosis
                return None
    return first_output(values, len(where)) if isinstance(values, torch.Tensor) else None

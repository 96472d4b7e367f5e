"""PyTorch models: any module, any residual function, autograd inside."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from twoaxis.adapters.building import (
    as_numpy,
    as_points,
    check_callable,
    equations_of,
    first_call,
    foreign,
    same_random_numbers,
    some_values,
    training_view,
)
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameter, Parameters
from twoaxis.views import View

Precision = Literal["model", "float64"]


def from_torch(
    model: Any,
    residual: Callable[..., Any],
    points: Any,
    parameters: Mapping[str, Parameter],
    *,
    view: View | None = None,
    loss_weights: Any = None,
    precision: Precision = "model",
    field: Callable[..., Any] | None = None,
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
    points : array or tensor, shape (N, k)
        The residual points of the training.
    parameters : mapping of str to Parameter
        With the values that training `delivered`.
    view : View, optional
        The metric of the residual loss; the plain mean of squares by default.
    loss_weights : optional
        In place of a view: factors of the squared residual in the loss, one number for each
        equation, or one for each point. Adaptive weights of the last step go here; where the
        loss squares them, as residual-based attention (RBA) does, their squares.
    precision : {"model", "float64"}
        ``"model"`` evaluates in the model's own precision, and the result says so;
        ``"float64"`` evaluates a copy of the module in double precision.
    field : callable, optional
        ``field(model, points)``: what pictures show; the model's first output by default.

    Returns
    -------
    FrozenResidual
        It evaluates a copy of the module in evaluation mode, so that training on changes nothing
        here, and leaves the model as it was: weights, gradients, training mode and the state of
        the random numbers. A function that is no module is called as it is.

    Examples
    --------
    >>> import torch, twoaxis as ta
    >>> net = lambda t: torch.exp(-1.1 * t)
    >>> def decay(model, t, rate):
    ...     u = model(t)
    ...     (u_t,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    ...     return u_t + rate * u
    >>> frozen = from_torch(
    ...     net, decay, torch.linspace(0, 1, 20, dtype=torch.float64)[:, None],
    ...     {"rate": ta.Parameter(truth=1.0, delivered=1.1, bounds=(0.1, 10))},
    ... )
    >>> round(ta.score(frozen).delta_percent["rate"], 6)
    10.517092
    """
    torch = foreign("torch", "torch", "twoaxis.from_torch")
    checked = Parameters(parameters)
    if precision not in ("model", "float64"):
        raise InputError('precision "model" or "float64"', repr(precision), "choose one of them")
    if not callable(model):
        raise InputError(
            "model as a torch.nn.Module or a function",
            type(model).__name__,
            "pass the module itself, with its weights loaded",
        )
    check_callable(residual, model, checked)
    own = _precision_of(torch, model, points)
    frozen_model, told = _frozen_copy(torch, model, precision)
    dtype = torch.float64 if precision == "float64" else own
    where = _points_like(torch, frozen_model, points, dtype)

    def evaluate(at: Any, values: Mapping[str, Any]) -> Any:
        tensors = {n: _as_tensor(torch, v, dtype, where.device) for n, v in values.items()}
        inputs = at.detach().clone().requires_grad_(True)
        with _undisturbed(torch, frozen_model), torch.enable_grad():
            return equations_of(residual(frozen_model, inputs, **tensors))

    first = first_call(evaluate, where, checked)
    equations = len(first) if isinstance(first, (tuple, list)) else 1
    frozen = FrozenResidual(
        lambda **values: evaluate(where, values),
        checked,
        as_numpy(where),
        view=training_view(view, loss_weights, equations, len(where)),
        residual_at=lambda at, **values: evaluate(
            torch.as_tensor(as_numpy(at), dtype=dtype, device=where.device), values
        ),
        field=_field(torch, frozen_model, where, field),
        notes=(*told, *_notes(torch, first[0] if isinstance(first, (tuple, list)) else first, own)),
    )
    frozen.checked(first, some_values(checked))  # shapes and values, while the cause is near
    return frozen


def _frozen_copy(torch: Any, model: Any, precision: str) -> tuple[Any, tuple[str, ...]]:
    """Return a copy of a module, which further training does not change, and notes about it."""
    module = isinstance(model, torch.nn.Module)
    if precision == "model":
        try:
            return (copy.deepcopy(model) if module else model), ()
        except RuntimeError:  # tensors with a graph, kept in the module, have no copy
            note = "the module cannot be copied: training it further changes this frozen residual"
            return model, (note,)
    if not module:
        raise InputError(
            'a torch.nn.Module for precision="float64"',
            type(model).__name__,
            'pass the module itself, or a function that computes in float64 with precision="model"',
        )
    try:
        return copy.deepcopy(model).double(), ()
    except RuntimeError as error:  # tensors with a graph, kept in the module, have no copy
        raise InputError(
            'a module that can be copied for precision="float64"',
            f"{type(error).__name__}: {error}",
            'detach the tensors that it keeps, or use precision="model"',
        ) from error


def _tensors(torch: Any, model: Any) -> list[Any]:
    """Weights and other floating-point numbers of a module."""
    if not isinstance(model, torch.nn.Module):
        return []
    return [each for each in (*model.parameters(), *model.buffers()) if each.is_floating_point()]


def _precision_of(torch: Any, model: Any, points: Any) -> Any:
    """Return the precision in which the model computes, or else that of the points."""
    tensors = _tensors(torch, model)
    if tensors:
        return tensors[0].dtype
    given = isinstance(points, torch.Tensor) and points.is_floating_point()
    return points.dtype if given else torch.float64


def _points_like(torch: Any, model: Any, points: Any, dtype: Any) -> Any:
    """Return the points as a tensor on the model's device and in its precision."""
    tensors = _tensors(torch, model)
    device = tensors[0].device if tensors else None
    if device is not None and device.type == "meta":
        raise InputError(
            "a model with numbers in it",
            "one on the device 'meta', which holds shapes alone",
            "load its weights onto a device, as in model.to_empty(device='cpu') and "
            "model.load_state_dict(...)",
        )
    if isinstance(points, torch.Tensor):
        if device is not None and points.device != device:
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


@contextmanager
def _undisturbed(torch: Any, model: Any) -> Iterator[None]:
    """Evaluate without a trace: evaluation mode, then everything put back.

    A residual function may call ``backward`` itself, so gradients are laid aside, too.
    """
    module = isinstance(model, torch.nn.Module)
    modes = [(each, each.training) for each in model.modules()] if module else []
    gradients = [(each, each.grad) for each in model.parameters()] if module else []
    with torch.random.fork_rng(devices=_gpus(torch, model)), same_random_numbers():
        try:
            for each, _ in modes:
                each.training = False
            for each, _ in gradients:
                each.grad = None
            yield
        finally:
            for each, mode in modes:
                each.training = mode
            for each, gradient in gradients:
                each.grad = gradient


def _gpus(torch: Any, model: Any) -> list[int]:
    """Devices with random numbers of their own; to save those of all others would cost time."""
    found = {each.device for each in _tensors(torch, model) if each.device.type == "cuda"}
    return [device.index for device in found]


def _field(torch: Any, model: Any, where: Any, field: Callable[..., Any] | None) -> Any:
    """Return what pictures show, or nothing where the model does not give it."""
    with _undisturbed(torch, model), torch.no_grad():
        try:
            values = field(model, where) if field is not None else model(where)
        except Exception:  # a picture is not worth a diagnosis
            if field is not None:
                raise
            return None
    if not isinstance(values, torch.Tensor):
        return None
    flat = values.reshape(len(where), -1)[:, 0] if values.numel() else values
    return as_numpy(flat) if len(flat) == len(where) else None


def _notes(torch: Any, residual: Any, own: Any) -> tuple[str, ...]:
    """Say in which precision the residual comes, and the model was trained."""
    came = getattr(residual, "dtype", torch.float64)
    name, trained = (str(each).removeprefix("torch.") for each in (came, own))
    if came != torch.float64:
        return (
            f"the residual is evaluated in {name}, the model's own precision; "
            'precision="float64" evaluates a copy of it in double precision'
            if came == own
            else f"the residual comes in {name}: something in it is computed with fewer digits",
        )
    if own != torch.float64:
        return (f"a copy in double precision of a {trained} model is evaluated",)
    return ()

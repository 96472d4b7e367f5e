"""PyTorch models: any module, any residual function, autograd inside."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from twoaxis.adapters.building import as_numpy, first_call, foreign, training_view
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameter, checked_parameters
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
        Values of shape (N,) or (N, 1), or a tuple of such for several equations.
    points : array or tensor, shape (N, k)
        The residual points of the training.
    parameters : mapping of str to Parameter
        With the values that training `delivered`.
    view : View, optional
        The metric of the residual loss; the plain mean of squares by default.
    loss_weights : optional
        In place of a view: factors of the squared residual in the loss, one number for each
        equation, or one for each point. Adaptive weights of the last step go here.
    precision : {"model", "float64"}
        ``"model"`` evaluates in the model's own precision, and the result says so;
        ``"float64"`` evaluates a copy of the module in double precision.
    field : callable, optional
        ``field(model, points)``: what pictures show; the model's first output by default.

    Returns
    -------
    FrozenResidual
        The model itself is left as it was: weights, gradients, training mode and the state of
        the random numbers.

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
    checked = checked_parameters(parameters)
    if precision not in ("model", "float64"):
        raise InputError('precision "model" or "float64"', repr(precision), "choose one of them")
    for name, given in (("model", model), ("residual", residual)):
        if not callable(given):
            raise InputError(
                f"{name} as a module or a function", type(given).__name__, "pass a callable"
            )
    frozen_model = _frozen_copy(torch, model) if precision == "float64" else model
    where, dtype = _points_like(torch, frozen_model, points, precision)

    def evaluate(at: Any, values: Mapping[str, Any]) -> Any:
        tensors = {n: _as_tensor(torch, v, dtype, where.device) for n, v in values.items()}
        inputs = at.detach().clone().requires_grad_(True)
        with _undisturbed(torch, frozen_model), torch.enable_grad():
            return residual(frozen_model, inputs, **tensors)

    first = first_call(evaluate, where, checked)
    equations = len(first) if isinstance(first, (tuple, list)) else 1
    return FrozenResidual(
        lambda **values: evaluate(where, values),
        checked,
        as_numpy(where),
        view=training_view(view, loss_weights, equations, len(where)),
        residual_at=lambda at, **values: evaluate(
            torch.as_tensor(as_numpy(at), dtype=dtype, device=where.device), values
        ),
        field=_field(torch, frozen_model, where, field),
        notes=_notes(torch, dtype),
    )


def _frozen_copy(torch: Any, model: Any) -> Any:
    """Return a copy of a module in double precision."""
    if not isinstance(model, torch.nn.Module):
        raise InputError(
            'a torch.nn.Module for precision="float64"',
            type(model).__name__,
            'pass the module itself, or a function that computes in float64 with precision="model"',
        )
    return copy.deepcopy(model).double()


def _points_like(torch: Any, model: Any, points: Any, precision: str) -> tuple[Any, Any]:
    """Return the points as a tensor on the model's device and in its precision."""
    tensors = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
    device = tensors[0].device if tensors else None
    if isinstance(points, torch.Tensor):
        if device is not None and points.device != device:
            raise InputError(
                f"points on the device of the model, {device}",
                f"points on {points.device}",
                f"pass points.to({str(device)!r})",
            )
        device = points.device if device is None else device
    if precision == "float64":
        dtype = torch.float64
    elif tensors:
        dtype = tensors[0].dtype
    else:
        dtype = points.dtype if isinstance(points, torch.Tensor) else torch.float64
    where = torch.as_tensor(as_numpy(points), dtype=dtype, device=device)
    return (where[:, None] if where.ndim == 1 else where), dtype


def _as_tensor(torch: Any, value: Any, dtype: Any, device: Any) -> Any:
    """Return a parameter as a tensor without dimension; a dual number keeps its tangent."""
    if isinstance(value, torch.Tensor):
        return value.to(device=device, dtype=dtype)
    return torch.tensor(float(value), dtype=dtype, device=device)


@contextmanager
def _undisturbed(torch: Any, model: Any) -> Iterator[None]:
    """Evaluate without a trace: evaluation mode, random numbers and modes put back."""
    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    modes = [module.training for module in modules]
    with torch.random.fork_rng():
        try:
            for module in modules:
                module.training = False
            yield
        finally:
            for module, mode in zip(modules, modes, strict=True):
                module.training = mode


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


def _notes(torch: Any, dtype: Any) -> tuple[str, ...]:
    if dtype == torch.float64:
        return ()
    name = str(dtype).removeprefix("torch.")
    return (
        f"the residual is evaluated in {name}, the model's own precision; "
        'precision="float64" evaluates a copy of it in double precision',
    )

"""The training loss of a run or a PyTorch model, for `twoaxis.polish` and for an audit.

A run of `twoaxis.train` and a model of DeepXDE, PINA or jinns know their loss; of a PyTorch model
the user gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from twoaxis.adapters.foreign import as_points, foreign, refuse_functions
from twoaxis.adapters.pytorch import torch_objective
from twoaxis.errors import InputError, check_callable
from twoaxis.parameters import Parameter, Parameters
from twoaxis.views import View


def objective(
    subject: Any,
    loss: Callable[..., Any] | None = None,
    parameters: Mapping[str, Parameter] | None = None,
    view: View | None = None,
    *,
    residual: Callable[..., Any] | None = None,
    points: Any = None,
    loss_weights: Any = None,
) -> Any:
    """Return the training loss of a run or of a PyTorch model, for `twoaxis.polish`.

    Parameters
    ----------
    subject : Run or torch.nn.Module
        A run of `twoaxis.train` needs nothing else. A module is copied and never changed.
    loss : callable
        ``loss(model, **parameters)``: the whole training loss as a tensor without dimension, with
        adaptive weights held at their last values. The model comes in double precision, and so
        must the data that the function uses; parameters come as tensors without dimension.
    parameters : mapping of str to Parameter
        With the values that training `delivered`.
    view, residual, points, loss_weights
        As for `twoaxis.from_torch`: they define the frozen residual of a state.

    Returns
    -------
    Objective
        ``names``, ``start`` (the delivered state), ``positions`` (of the parameters in it),
        ``value_and_gradient(vector)`` and ``frozen(vector)``.

    Examples
    --------
    >>> import torch, twoaxis as ta
    >>> t = torch.linspace(0, 1, 20, dtype=torch.float64)[:, None].requires_grad_(True)
    >>> def decay(model, t, rate):
    ...     u = model(t)
    ...     (u_t,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    ...     return u_t + rate * u
    >>> def loss(model, rate):
    ...     return ((model(t) - torch.exp(-t)) ** 2).mean() + (decay(model, t, rate) ** 2).mean()
    >>> net = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    >>> known = {"rate": ta.Parameter(delivered=1.1, bounds=(0.1, 10))}
    >>> ta.objective(net, loss, known, residual=decay, points=t).start.shape
    (14,)
    """
    given = {"loss": loss, "parameters": parameters, "residual": residual, "points": points}
    if loss is None and callable(getattr(subject, "objective", None)):
        given |= {"view": view, "loss_weights": loss_weights}
        extra = [name for name, value in given.items() if value is not None]
        if extra:
            raise InputError(
                "a run alone, which knows its parameters, points and view",
                f"a run and {', '.join(extra)}",
                "leave them out",
            )
        return subject.objective()
    torch = foreign("torch", "torch", "twoaxis.objective")
    if not isinstance(subject, torch.nn.Module):
        raise InputError(
            "a run of twoaxis.train, or a torch.nn.Module with weights to train",
            type(subject).__name__,
            "pass runs[0], or the module itself",
        )
    if loss is None or parameters is None or residual is None or points is None:
        missing = [name for name, value in given.items() if value is None]
        raise InputError(
            "loss, parameters, residual and points of a PyTorch model",
            f"no {', '.join(missing)}",
            "write twoaxis.objective(model, loss, parameters, residual=..., points=...)",
        )
    refuse_functions(parameters, "twoaxis.objective")
    known = Parameters(parameters)
    check_callable("residual", residual, known, ("model", "points"))
    options = {"points": as_points(points), "view": view, "loss_weights": loss_weights}
    found = torch_objective(torch, subject, loss, residual, known, options)
    value, _ = found.value_and_gradient(found.start)
    if not np.isfinite(value):
        raise InputError("a finite loss at the delivered state", f"{value}", "check model and data")
    return found

r"""The training loss of a run or a model as a function of one flat vector, for `twoaxis.polish`.

.. math:: L(\theta, q) = L_{data}(\theta) + \lambda\, r(\theta, q)^\top M\, r(\theta, q)

The vector holds the weights :math:`\theta` of the field and then the coordinates :math:`q` of
the parameters. A run of `twoaxis.train` knows its loss; of a PyTorch model the user gives it.
It is computed on a copy of the module in double precision, which a second-order optimizer needs,
and the model itself is not changed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from twoaxis.adapters.foreign import (
    as_numpy,
    as_points,
    explained,
    foreign,
)
from twoaxis.adapters.pytorch import from_torch
from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError, check_callable
from twoaxis.frozen import FrozenResidual
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
    model = _double_copy(torch, subject)
    if loss is None or parameters is None or residual is None or points is None:
        missing = [name for name, value in given.items() if value is None]
        raise InputError(
            "loss, parameters, residual and points of a PyTorch model",
            f"no {', '.join(missing)}",
            "write twoaxis.objective(model, loss, parameters, residual=..., points=...)",
        )
    known = Parameters(parameters)
    known.require("delivered")
    check_callable("loss", loss, known, ("model",))
    check_callable("residual", residual, known, ("model", "points"))
    weights = [each for each in model.parameters() if each.requires_grad]
    if not weights:
        raise InputError(
            "a module with weights that can be trained",
            "none that requires a gradient",
            "call model.requires_grad_(True) on the weights that training changed",
        )
    found = TorchObjective(
        parameters=known,
        _torch=torch,
        _model=model,
        _weights=weights,
        _loss=loss,
        _residual=residual,
        _options={"points": as_points(points), "view": view, "loss_weights": loss_weights},
    )
    with explained(
        "a loss(model, **parameters) that can be evaluated and differentiated in float64",
        "convert the data of the loss with .double(), return a tensor without dimension, and "
        "detach nothing on the way",
    ):
        value, _ = found.value_and_gradient(found.start)
    if not np.isfinite(value):
        raise InputError("a finite loss at the delivered state", f"{value}", "check model and data")
    return found


@final
@dataclass(frozen=True, eq=False)
class TorchObjective:
    """The training loss of a PyTorch model, in double precision.

    Made by `twoaxis.objective`. The vector holds the weights that require a gradient, in the
    order of ``model.parameters()``, and then the coordinates of the parameters.

    Attributes
    ----------
    parameters : Parameters
    start : array, shape (n,)
        The delivered state.
    """

    parameters: Parameters
    _torch: Any = field(repr=False)
    _model: Any = field(repr=False)
    _weights: list[Any] = field(repr=False)
    _loss: Callable[..., Any] = field(repr=False)
    _residual: Callable[..., Any] = field(repr=False)
    _options: dict[str, Any] = field(repr=False)
    start: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        delivered = self.parameters.coordinates(self.parameters.require("delivered"))
        parts = [as_numpy(each).ravel() for each in self._weights]
        object.__setattr__(self, "start", np.concatenate([*parts, delivered]))

    @property
    def names(self) -> list[str]:
        """Names of the parameters."""
        return self.parameters.names

    @property
    def positions(self) -> dict[str, int]:
        """The position of each parameter's coordinate in the vector."""
        first = self.start.size - len(self.parameters)
        return {name: first + k for k, name in enumerate(self.parameters)}

    def value_and_gradient(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its gradient at a vector shaped like `start`."""
        torch = self._torch
        self._put(vector)
        device = self._weights[0].device
        free = torch.tensor(self._coordinates(vector), device=device, requires_grad=True)
        with torch.enable_grad():
            values = {
                name: q.exp() if p.coordinate == "log" else q
                for (name, p), q in zip(self.parameters.items(), free, strict=True)
            }
            value = self._loss(self._model, **values)
            found = torch.autograd.grad(value, [*self._weights, free], allow_unused=True)
        parts = [
            np.zeros(one.numel()) if slope is None else as_numpy(slope).ravel()
            for slope, one in zip(found, [*self._weights, free], strict=True)
        ]
        return float(value.detach()), np.concatenate(parts)

    def frozen(self, vector: FloatArray) -> FrozenResidual:
        """Return the frozen residual at a vector, with the parameters in it as delivered."""
        values = self.parameters.named(self.parameters.physical(self._coordinates(vector)))
        known = {
            name: replace(p.holding(values[name]), delivered=values[name])
            for name, p in self.parameters.items()
        }
        # The adapter copies the module, so that the next vector does not change this residual.
        self._put(vector)
        return from_torch(self._model, self._residual, known, **self._options)

    def module(self, vector: FloatArray) -> Any:
        """Return a module with the weights of a vector, in double precision."""
        self._put(vector)
        return copy.deepcopy(self._model)

    def _coordinates(self, vector: FloatArray) -> FloatArray:
        return np.asarray(vector[len(vector) - len(self.parameters) :], dtype=float)

    def _put(self, vector: FloatArray) -> None:
        """Write a vector into the weights of the copy."""
        torch, start = self._torch, 0
        with torch.no_grad():
            for each in self._weights:
                part = torch.from_numpy(np.array(vector[start : start + each.numel()], float))
                each.copy_(part.reshape(each.shape))
                start += each.numel()


def _double_copy(torch: Any, model: Any) -> Any:
    """Return a copy of a module in double precision and evaluation mode."""
    if not isinstance(model, torch.nn.Module):
        raise InputError(
            "a run of twoaxis.train, or a torch.nn.Module with weights to train",
            type(model).__name__,
            "pass runs[0], or the module itself",
        )
    with explained("a module that can be copied", "detach the tensors that it keeps"):
        return copy.deepcopy(model).double().eval()

"""The training loss of a PyTorch model as a function of one flat vector, for `twoaxis.polish`.

Everything is computed on a copy of the module in double precision: a second-order optimiser needs
the digits, and the model that was handed in stays as it is.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.adapters.building import as_numpy, as_points, check_callable, foreign
from twoaxis.adapters.pytorch import from_torch
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameter, Parameters
from twoaxis.views import View

FloatArray = NDArray[np.float64]


def torch_objective(
    model: Any,
    loss: Callable[..., Any],
    parameters: Mapping[str, Parameter],
    *,
    residual: Callable[..., Any],
    points: Any,
    view: View | None = None,
    loss_weights: Any = None,
) -> TorchObjective:
    """Return the training loss of a PyTorch model, for `twoaxis.polish`.

    Parameters
    ----------
    model : torch.nn.Module
        The trained field. It is copied and never changed.
    loss : callable
        ``loss(model, **parameters)``: the whole training loss as a tensor without dimension, with
        adaptive weights held at their last values. The model comes in double precision, and so
        must the data that the function uses; parameters come as tensors without dimension.
    parameters : mapping of str to Parameter
        With the values that training `delivered`.
    residual, points, view, loss_weights
        As for `twoaxis.from_torch`: they say what the frozen residual of a state is.

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
    >>> objective = torch_objective(net, loss, known, residual=decay, points=t)
    >>> objective.start.shape
    (14,)
    """
    torch = foreign("torch", "torch", "twoaxis.torch_objective")
    checked = Parameters(parameters)
    own = _double_copy(torch, model)
    Parameters(checked).require("delivered")
    _check_loss(loss, own, checked)
    check_callable(residual, own, checked)
    weights = [each for each in own.parameters() if each.requires_grad]
    if not weights:
        raise InputError(
            "a module with weights that can be trained",
            "none that requires a gradient",
            "call model.requires_grad_(True) on what training moved",
        )
    objective = TorchObjective(
        parameters=checked,
        _torch=torch,
        _model=own,
        _weights=weights,
        _loss=loss,
        _residual=residual,
        _options={"points": as_points(points), "view": view, "loss_weights": loss_weights},
    )
    objective.first_call()
    return objective


@dataclass(frozen=True, eq=False)
class TorchObjective:
    """The training loss of a PyTorch model, in double precision.

    Made by `twoaxis.torch_objective`. The vector holds the weights that require a gradient, in the
    order of ``model.parameters()``, and then the coordinates of the parameters.

    Attributes
    ----------
    parameters : dict of str to Parameter
    start : array, shape (n,)
        The delivered state.
    """

    parameters: dict[str, Parameter]
    _torch: Any = field(repr=False)
    _model: Any = field(repr=False)
    _weights: list[Any] = field(repr=False)
    _loss: Callable[..., Any] = field(repr=False)
    _residual: Callable[..., Any] = field(repr=False)
    _options: dict[str, Any] = field(repr=False)
    start: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        known = Parameters(self.parameters).require("delivered")
        delivered = [float(p.to_coordinate(known[n])) for n, p in self.parameters.items()]
        parts = [as_numpy(each).ravel() for each in self._weights]
        object.__setattr__(self, "start", np.concatenate([*parts, delivered]))

    @property
    def names(self) -> list[str]:
        """Names of the parameters."""
        return list(self.parameters)

    @property
    def positions(self) -> dict[str, int]:
        """Where in the vector the coordinate of each parameter stands."""
        first = self.start.size - len(self.parameters)
        return {name: first + k for k, name in enumerate(self.parameters)}

    def value_and_gradient(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its gradient at a vector shaped like `start`."""
        torch = self._torch
        self._put(vector)
        device = self._weights[0].device
        free = torch.tensor(self._free(vector), device=device, requires_grad=True)
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
        values = Parameters(self.parameters).named(
            Parameters(self.parameters).physical(self._free(vector))
        )
        known = {
            name: replace(p.holding(values[name]), delivered=values[name])
            for name, p in self.parameters.items()
        }
        # The adapter copies the module, so that the next vector does not reach this residual.
        self._put(vector)
        return from_torch(self._model, self._residual, parameters=known, **self._options)

    def module(self, vector: FloatArray) -> Any:
        """Return a module with the weights of a vector, in double precision."""
        self._put(vector)
        return copy.deepcopy(self._model)

    def _free(self, vector: FloatArray) -> FloatArray:
        return np.asarray(vector[len(vector) - len(self.parameters) :], dtype=float)

    def _put(self, vector: FloatArray) -> None:
        """Write a vector into the weights of the copy."""
        torch, start = self._torch, 0
        with torch.no_grad():
            for each in self._weights:
                part = torch.from_numpy(np.array(vector[start : start + each.numel()], float))
                each.copy_(part.reshape(each.shape))
                start += each.numel()

    def first_call(self) -> None:
        """Evaluate the loss once, in order to say plainly what is wrong with it."""
        try:
            value, _ = self.value_and_gradient(self.start)
        # Whatever the user's function or PyTorch raises, it means the same.
        except Exception as error:
            raise InputError(
                "a loss(model, **parameters) that can be evaluated and differentiated in float64",
                f"{type(error).__name__}: {error}",
                "convert the data of the loss with .double(), return a tensor without dimension, "
                "and detach nothing on the way",
            ) from error
        if not np.isfinite(value):
            raise InputError(
                "a finite loss at the delivered state", f"{value}", "check model and data"
            )


def _double_copy(torch: Any, model: Any) -> Any:
    """Return a copy of a module in double precision and evaluation mode."""
    if not isinstance(model, torch.nn.Module):
        raise InputError(
            "model as a torch.nn.Module, whose weights can be trained on",
            type(model).__name__,
            "pass the module itself",
        )
    try:
        return copy.deepcopy(model).double().eval()
    except RuntimeError as error:  # tensors with a graph, kept in the module, have no copy
        raise InputError(
            "a module that can be copied",
            f"{type(error).__name__}: {error}",
            "detach the tensors that it keeps",
        ) from error


def _check_loss(loss: Any, model: Any, parameters: Mapping[str, Parameter]) -> None:
    wanted = f"loss as a function loss(model, {', '.join(parameters)})"
    if not callable(loss):
        raise InputError(wanted, type(loss).__name__, "pass the function that training minimised")
    try:
        inspect.signature(loss).bind(model, **dict.fromkeys(parameters))
    except ValueError:  # built-in callables may have no signature
        return
    except TypeError as error:
        raise InputError(
            wanted, str(error), "name its arguments like the parameters, or wrap it in a lambda"
        ) from None

"""An equation without a trained model: a plain field stands where the network would."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Literal

import numpy as np

from twoaxis.adapters.foreign import foreign
from twoaxis.adapters.jax import from_jax
from twoaxis.adapters.pytorch import from_torch
from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Unknowns

Framework = Literal["torch", "jax"]

# Points of the domain at which an equation is tried, by the number of its axes.
POINTS = {1: 64, 2: 16, 3: 8}
# The plain field: about one everywhere, with this slope along each axis of the domain.
SLOPE = 0.1


def from_equation(
    residual: Callable[..., Any],
    parameters: Unknowns,
    low: FloatArray,
    high: FloatArray,
    outputs: int,
    *,
    conditions: Callable[..., Any] | None = None,
    framework: Framework | None = None,
    axes: Sequence[str] = (),
) -> FrozenResidual:
    """Freeze an equation around a plain field, which is to be replaced.

    Parameters
    ----------
    residual : callable
        ``residual(model, points, **parameters)``, in PyTorch or JAX.
    parameters : mapping of str to Parameter
    low, high : array, shape (k,)
        Ends of the domain.
    outputs : int
        Number of components of the field: ``model(points)`` has the shape (N, outputs), and in JAX
        ``model(point)`` the shape (outputs,), or that of the point where it is one coordinate.
    conditions : callable, optional
        ``conditions(model)``, as in `twoaxis.from_torch`.
    framework : {"torch", "jax"}, optional
        That of the residual; by default the one whose module its code names.
    axes : sequence of str
    """
    speaks = framework or framework_of(residual)
    count = POINTS[len(low)]
    grids = np.meshgrid(*(np.linspace(a, b, count) for a, b in zip(low, high, strict=True)))
    points = np.stack([each.ravel() for each in grids], axis=1)
    slopes = SLOPE / (high - low)
    options: dict[str, Any] = {"points": points, "conditions": conditions, "axes": axes}
    if speaks == "torch":
        center = (low + high) / 2
        return from_torch(_torch_field(slopes, center, outputs), residual, parameters, **options)
    return from_jax(_jax_field(slopes, outputs), residual, parameters, **options)


def framework_of(residual: Callable[..., Any]) -> Framework:
    """Return the library that the code of a function names."""
    function = inspect.unwrap(residual)
    while hasattr(function, "func"):
        function = function.func
    if not hasattr(function, "__code__"):  # an object that can be called
        function = type(function).__call__
    code = getattr(function, "__code__", None)
    scope = getattr(function, "__globals__", {}) | dict(
        inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    )
    names = set() if code is None else set(code.co_names) | set(code.co_freevars)
    for inner in () if code is None else code.co_consts:
        names |= set(getattr(inner, "co_names", ()))
    found = {_root(scope[name]) for name in names if name in scope}
    speaks: list[Framework] = [each for each in ("torch", "jax") if each in found]
    if not speaks:  # it calls helpers: what their module knows
        roots = {_root(value) for value in scope.values()}
        speaks = [each for each in ("torch", "jax") if each in roots]
    if len(speaks) != 1:
        raise InputError(
            "a residual in PyTorch or in JAX",
            f"code that names {' and '.join(speaks) or 'neither'}",
            'pass framework="torch" or framework="jax"',
        )
    return speaks[0]


def _root(value: Any) -> str:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    return str(name or "").split(".")[0]


def _torch_field(slopes: FloatArray, center: FloatArray, outputs: int) -> Any:
    """Return a field that is not linear: PyTorch takes no derivative of a constant slope."""
    torch = foreign("torch", "torch", "twoaxis.estimate of a PyTorch residual")
    inner = torch.nn.Linear(len(slopes), outputs, dtype=torch.float64)
    outer = torch.nn.Linear(outputs, outputs, dtype=torch.float64)
    with torch.no_grad():
        inner.weight[:] = torch.tensor(slopes)
        inner.bias[:] = float(np.log(np.expm1(1.0)) - slopes @ center)
        outer.weight[:] = torch.eye(outputs)
        outer.bias[:] = 0.0
    # Weights on both sides: splines take the place of the smallest part that has all weights.
    return torch.nn.Sequential(inner, torch.nn.Softplus(), outer)


def _jax_field(slopes: FloatArray, outputs: int) -> Any:
    foreign("jax", "train", "twoaxis.estimate of a JAX residual")
    # Not at the top: it imports JAX.
    from twoaxis.adapters.jax_jets import PlainField, exact

    with exact():
        return PlainField.with_slopes(slopes, outputs)

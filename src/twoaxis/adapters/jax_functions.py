"""JAX: pure functions, and modules of equinox or flax, which are such functions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

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

FloatArray = NDArray[np.float64]
Precision = Literal["float64", "float32"]


def from_jax(
    model: Any,
    residual: Callable[..., Any],
    points: Any,
    parameters: Mapping[str, Parameter],
    *,
    view: View | None = None,
    loss_weights: Any = None,
    precision: Precision = "float64",
    field: Callable[..., Any] | None = None,
) -> FrozenResidual:
    """Freeze a JAX function into its residual.

    Parameters
    ----------
    model : callable or any tree of arrays
        What `residual` takes first: a pure function, an equinox module, a flax module with its
        variables bound, or a tree of weights. Modules of equinox and flax.nnx are evaluated as
        copies in inference mode; the others are pure, and say themselves in which mode they are.
    residual : callable
        ``residual(model, points, **parameters)``, JAX in, JAX out: values of shape (N,) or
        (N, 1), or a tuple or mapping of such for several equations.
    points : array, shape (N, k)
        The residual points of the training.
    parameters : mapping of str to Parameter
        With the values that training `delivered`.
    view : View, optional
        The metric of the residual loss; the plain mean of squares by default.
    loss_weights : optional
        In place of a view: factors of the squared residual in the loss, one number for each
        equation, or one for each point; of weights that the loss squares, as residual-based
        attention (RBA) does, the squares.
    precision : {"float64", "float32"}
        Weights of lower precision are taken as they are; with points in float64 JAX computes
        in float64.
    field : callable, optional
        ``field(model, points)``: what pictures show; by default ``model(points)`` where that
        can be called.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, twoaxis as ta
    >>> net = lambda t: jnp.exp(-1.1 * t)
    >>> def decay(model, t, rate):
    ...     return jax.vmap(jax.grad(model))(t[:, 0]) + rate * model(t[:, 0])
    >>> frozen = from_jax(
    ...     net, decay, jnp.linspace(0, 1, 20)[:, None],
    ...     {"rate": ta.Parameter(truth=1.0, delivered=1.1, bounds=(0.1, 10))},
    ... )
    >>> round(ta.score(frozen).delta_percent["rate"], 6)
    10.517092
    """
    jax = foreign("jax", "train", "twoaxis.from_jax")
    checked = Parameters(parameters)
    if precision not in ("float32", "float64"):
        raise InputError('precision "float32" or "float64"', repr(precision), "choose one of them")
    check_callable(residual, model, checked)
    where = as_points(points)
    names = list(checked)
    still = _at_rest(model)

    def traced(at: Any, *values: Any) -> tuple[Any, ...]:
        found = equations_of(residual(still(), at, **dict(zip(names, values, strict=True))))
        return tuple(found) if isinstance(found, (tuple, list)) else (found,)

    def inputs(at: Any, values: Mapping[str, Any]) -> list[Any]:
        number = jax.numpy.asarray
        return [
            number(as_numpy(at), precision),
            *(number(float(values[name]), precision) for name in names),
        ]

    def evaluate(at: Any, values: Mapping[str, Any]) -> Any:
        with jax.enable_x64(precision == "float64"), same_random_numbers():
            parts = [np.asarray(part) for part in traced(*inputs(at, values))]
        return tuple(parts) if len(parts) > 1 else parts[0]

    def jacobian(**values: Any) -> FloatArray:
        with jax.enable_x64(precision == "float64"), same_random_numbers():
            at, *primals = inputs(where, values)
            columns = []
            for number in range(len(names)):
                tangents = [jax.numpy.ones_like(p) * (n == number) for n, p in enumerate(primals)]
                _, parts = jax.jvp(lambda *v: traced(at, *v), primals, tangents)
                columns.append(np.concatenate([np.asarray(part).reshape(-1) for part in parts]))
        return np.stack(columns, axis=1).astype(float)

    first = first_call(evaluate, where, checked)
    equations = len(first) if isinstance(first, tuple) else 1
    frozen = FrozenResidual(
        lambda **values: evaluate(where, values),
        checked,
        where,
        view=training_view(view, loss_weights, equations, len(where)),
        jacobian=jacobian,
        residual_at=evaluate_at(evaluate),
        field=_field(jax, still(), where, precision, field),
        notes=_notes(jax, model, first[0] if isinstance(first, tuple) else first),
    )
    frozen.checked(first, some_values(checked))  # shapes and values, while the cause is near
    return frozen


def evaluate_at(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``residual_at(points, **parameters)`` from ``evaluate(points, parameters)``."""
    return lambda at, **values: evaluate(at, values)


def _at_rest(model: Any) -> Callable[[], Any]:
    """Return a function that hands out the model in inference mode, never the model itself.

    Modules of flax.nnx keep counters and statistics that a call changes, so every call gets a
    copy of its own. Neither library is imported here: a module of theirs has done that.
    """
    nnx: Any = sys.modules.get("flax.nnx")
    if nnx is not None and isinstance(model, nnx.Module):

        def copied() -> Any:
            fresh = nnx.clone(model)
            fresh.eval()
            return fresh

        return copied
    equinox: Any = sys.modules.get("equinox")
    if equinox is not None and isinstance(model, equinox.Module):
        inference = equinox.nn.inference_mode(model)
        return lambda: inference
    return lambda: model


def _notes(jax: Any, model: Any, residual: Any) -> tuple[str, ...]:
    """Say in which precision the residual comes, and the weights are."""
    if residual.dtype != np.float64:
        return (
            f'the residual is evaluated in {residual.dtype}; precision="float64" gives double '
            "precision, where nothing inside the residual asks for less",
        )
    nnx: Any = sys.modules.get("flax.nnx")
    if nnx is not None and isinstance(model, nnx.Module):
        model = nnx.state(model)
    kinds = {str(leaf.dtype) for leaf in jax.tree.leaves(model) if hasattr(leaf, "dtype")}
    low = sorted(kind for kind in kinds if "float" in kind and kind != "float64")
    return (f"weights in {', '.join(low)} are evaluated in double precision",) if low else ()


def _field(
    jax: Any, model: Any, where: FloatArray, precision: str, field: Callable[..., Any] | None
) -> Any:
    """Return what pictures show, or nothing where the model does not give it."""
    if field is None and not callable(model):
        return None
    with jax.enable_x64(precision == "float64"):
        at = jax.numpy.asarray(where, precision)
        try:
            values = np.asarray(field(model, at) if field is not None else model(at))
        except Exception:  # a picture is not worth a diagnosis
            if field is not None:
                raise
            return None
    flat = values.reshape(len(where), -1)[:, 0] if values.size % len(where) == 0 else values
    return flat.astype(float) if flat.shape == (len(where),) else None

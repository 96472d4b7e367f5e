"""From a trained DeepXDE model to its frozen residual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from twoaxis.adapters.building import as_numpy, as_points, some_values, training_view
from twoaxis.adapters.deepxde.backend import Backend, FloatArray
from twoaxis.adapters.deepxde.equations import Equations
from twoaxis.adapters.deepxde.jax_backend import JaxBackend
from twoaxis.adapters.deepxde.naming import named_unknowns
from twoaxis.adapters.deepxde.pytorch_backend import PyTorchBackend
from twoaxis.adapters.deepxde.training import (
    UNREAD_LOSS,
    axes_of,
    check_compiled,
    equation_weights,
    library_of,
    loss_functions,
    training_points,
)
from twoaxis.adapters.deepxde.unknowns import Unknown, delivered
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.views import View

Precision = Literal["model", "float64"]


def from_deepxde(
    model: Any,
    parameters: Mapping[str, Any],
    *,
    unknowns: Mapping[str, Any] | None = None,
    transform: Mapping[str, Any] | None = None,
    held: Sequence[Any] = (),
    points: Any = None,
    view: View | None = None,
    loss_weights: Any = None,
    precision: Precision = "model",
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
    unknowns : mapping of str to dde.Variable, optional
        The variables, where `parameters` does not hold them.
    transform : mapping, optional
        For an unknown that is stored otherwise than in physical units: the function from the
        stored number to the physical parameter, as the PDE has it, or a pair with its inverse.
        ``{"D": torch.exp}`` belongs to a PDE that computes with ``torch.exp(D)``.
    held : sequence of dde.Variable
        External trainable variables that are no parameters and keep their values.
    points : array, shape (N, k), optional
        Instead of the residual points of the training.
    view : View, optional
        The metric of the residual loss; by default the mean of squares of each equation, with
        the loss weights of the compiled model.
    loss_weights : optional
        In place of those: factors of the squared residual, one number for each equation, or
        one for each point.
    precision : {"model", "float64"}
        ``"model"`` evaluates in the model's own precision, float32 unless DeepXDE was told
        otherwise, and the result says so; ``"float64"`` evaluates a copy in double precision.

    Returns
    -------
    FrozenResidual
        Equations in their order. The model is left as it was, and training it further does not
        change the frozen residual.

    Notes
    -----
    Boundary conditions and observations are no part of the residual. An unknown that enters
    them is diagnosed by the equations alone, and a note says so.

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
    if precision not in ("model", "float64"):
        raise InputError('precision "model" or "float64"', repr(precision), "choose one of them")
    check_compiled(model)
    every, skipped = training_points(dde, model.data)
    if points is not None:
        every, skipped = _given_points(points, every.shape[1]), 0
    backend = open_backend(dde, model, precision == "float64")
    external = list(model.external_trainable_variables)
    named = named_unknowns(backend, external, parameters, unknowns, transform, held)
    trained = model.train_state.step > 0
    known = {name: delivered(unknown, about, trained) for name, (unknown, about) in named.items()}
    checked = {name: parameter for name, (parameter, _) in known.items()}
    equations = Equations(backend, [unknown for unknown, _ in named.values()])
    for name, unknown in equations.unknowns.items():
        for bound in checked[name].bounds:
            unknown.raw(bound)  # says so where the transform does not reach it
    widths = equations.first_call(every, some_values(checked))
    if view is None and loss_weights is None:
        loss_weights = equation_weights(model, backend, widths)
    where = every[skipped:]
    frozen = FrozenResidual(
        lambda **values: equations.residual(every, skipped, values),
        checked,
        where,
        view=training_view(view, loss_weights, sum(widths), len(where)),
        jacobian=lambda **values: equations.jacobian(every, skipped, values),
        residual_at=lambda at, **values: equations.residual(as_numpy(at), 0, values),
        field=backend.field(where)[:, 0],
        axes=axes_of(dde, model.data.geom),
        notes=(
            *_precision_note(backend),
            *(note for _, notes in known.values() for note in notes),
            *_condition_notes(backend, model.data, equations.unknowns),
            *([UNREAD_LOSS] if view is None and loss_functions(model) is None else []),
        ),
    )
    frozen.at(frozen.coordinates(some_values(checked)))  # not finite? while the cause is near
    return frozen


def open_backend(dde: Any, model: Any, double: bool) -> Backend:
    """Freeze a compiled model, or say that its backend is not served."""
    name = dde.backend.backend_name
    if name == "pytorch":
        return PyTorchBackend(dde, model, double)
    if name == "jax":
        return JaxBackend(dde, model, double)
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


def _precision_note(backend: Backend) -> list[str]:
    if backend.precision == "float64":
        if backend.own == "float64":
            return []
        return [f"a copy in double precision of a {backend.own} model is evaluated"]
    return [
        f"the residual is evaluated in {backend.precision}, the model's own precision; "
        'precision="float64" evaluates a copy of it in double precision'
    ]


def _condition_notes(backend: Backend, data: Any, unknowns: Mapping[str, Unknown]) -> list[str]:
    """Return which unknowns the residual does not show in full."""
    try:
        found = backend.conditions_with(data)
    except Exception as error:  # conditions are any code of the user's, and no part of an audit
        return [
            "whether an unknown enters the boundary conditions could not be determined "
            f"({type(error).__name__}: {error})"
        ]
    return [
        f"{name} also enters condition {', '.join(found[each.place])} of the training; the "
        "residual of the equations does not see that part of the evidence"
        for name, each in unknowns.items()
        if each.place in found
    ]

"""From a trained DeepXDE model to its frozen residual.

The equations of a frozen DeepXDE model as functions of its physical parameters.

What a compiled DeepXDE model tells of its training: points, equations, losses and weights.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import numpy as np

from twoaxis.adapters.building import as_numpy, as_points, foreign, some_values, training_view
from twoaxis.adapters.deepxde.backend import Backend, FloatArray
from twoaxis.adapters.deepxde.jax_backend import JaxBackend
from twoaxis.adapters.deepxde.pytorch_backend import PyTorchBackend
from twoaxis.adapters.deepxde.unknowns import Unknown, delivered, named_unknowns
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.views import View


@final
class Equations:
    """The equations of a frozen model as functions of physical parameters."""

    def __init__(self, backend: Backend, unknowns: Sequence[Unknown]) -> None:
        self.backend = backend
        self.unknowns = {unknown.name: unknown for unknown in unknowns}

    def _raw(self, values: Mapping[str, Any]) -> dict[int, float]:
        return {each.place: each.raw(float(values[n])) for n, each in self.unknowns.items()}

    def residual(self, points: FloatArray, skipped: int, values: Mapping[str, Any]) -> Any:
        """Return the residual at all points but the first ones, an array for each equation."""
        parts = self.backend.equations(points, self._raw(values))
        columns = tuple(column[skipped:] for part in parts for column in part.T)
        return columns if len(columns) > 1 else columns[0]

    def jacobian(self, points: FloatArray, skipped: int, values: Mapping[str, Any]) -> FloatArray:
        """Return exact derivatives by the physical parameters, (N, d)."""
        raw = self._raw(values)
        parts = self.backend.derivatives(points, raw)
        rows = np.concatenate([part[skipped:, n] for part in parts for n in range(part.shape[1])])
        slopes = [each.physical(raw[each.place])[1] for each in self.unknowns.values()]
        with np.errstate(divide="ignore", invalid="ignore"):  # a transform that is flat there
            found: FloatArray = rows / np.array(slopes)
        return found

    def first_call(self, points: FloatArray, center: Mapping[str, Any]) -> list[int]:
        """Evaluate once, in order to say plainly what is wrong; return the equations' widths."""
        raw = self._raw(center)
        try:
            values = self.backend.equations(points, raw)
            slopes = self.backend.derivatives(points, raw)
        except InputError:
            raise
        except Exception as error:
            mixed = self.backend.precision != self.backend.own
            raise InputError(
                "a PDE that can be evaluated at the training points"
                + (f" in {self.backend.precision}" if mixed else ""),
                f"{type(error).__name__}: {error}",
                'use precision="model"' if mixed else "check shapes, devices and derivatives",
            ) from error
        for j, name in enumerate(self.unknowns):
            if not any(part[..., j].any() for part in slopes):
                self._check_unseen(points, raw, name, values, j)
        return [part.shape[1] for part in values]

    def _check_unseen(
        self,
        points: FloatArray,
        raw: dict[int, float],
        name: str,
        values: list[FloatArray],
        j: int,
    ) -> None:
        """Say so where the residual changes with a parameter and its derivative is zero."""
        place = self.unknowns[name].place
        moved = {**raw, place: raw[place] * 1.1 + 0.1}
        changed = any(
            not np.array_equal(a, b, equal_nan=True)
            for a, b in zip(values, self.backend.equations(points, moved), strict=True)
        )
        slopes = self.backend.derivatives(points, moved)
        if changed and not any(part[..., j].any() for part in slopes):
            raise InputError(
                f"a PDE that can be differentiated by {name}",
                f"one that changes with {name} and has no derivative by it; training could not "
                "move it either",
                "compute with the variable itself, not with .item(), .detach() or float() of it",
            )


UNREAD_LOSS = (
    "the loss function of the compiled model could not be read; a mean of squares is assumed"
)


def library_of(model: Any) -> Any:
    """Return the library that made this model.

    It is never imported here where it is installed: that chooses a backend, writes a file into
    the user's home and may change PyTorch's default device. Whoever has a model has imported it.
    """
    dde = sys.modules.get("deepxde")
    if dde is None and importlib.util.find_spec("deepxde") is None:
        foreign("deepxde", "deepxde", "twoaxis.from_deepxde")
    if dde is None or not isinstance(model, dde.Model):
        raise InputError(
            "a deepxde.Model",
            type(model).__name__,
            "pass the model itself; a network with a residual function goes to twoaxis.from_torch "
            "or twoaxis.from_jax",
        )
    return dde


def check_compiled(model: Any) -> None:
    """Say so where the model has not been compiled, or was compiled without unknowns."""
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
            "name them in every call of compile: a second one without them forgets them",
        )


def training_points(dde: Any, data: Any) -> tuple[FloatArray, int]:
    """Return all points that were fed to the network, and how many conditions have of them.

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
            f"{type(data).__name__}, whose loss is made otherwise",
            "pass the residual as a function to twoaxis.from_torch or twoaxis.from_jax",
        )
    if data.pde is None:
        raise InputError(
            "training data with an equation", "pde=None", "give deepxde.data.PDE its pde"
        )
    every, conditions = np.array(data.train_x, dtype=float), int(sum(data.num_bcs))
    if len(every) - conditions != len(data.train_x_all) or len(every) == conditions:
        raise InputError(
            "residual points after those of the conditions",
            f"{len(every)} points, {conditions} of them of conditions, and "
            f"{len(data.train_x_all)} of the equation",
            "give num_domain or anchors, and change points only by the methods of the data",
        )
    return every, conditions


def axes_of(dde: Any, geometry: Any) -> tuple[str, ...]:
    """Return names of the coordinates, as DeepXDE orders them: space, then time."""
    timed = isinstance(geometry, dde.geometry.GeometryXTime)
    if isinstance(geometry, dde.geometry.TimeDomain):
        return ("t",)
    space = geometry.dim - timed
    names = ("x", "y", "z")[:space] if space <= 3 else tuple(f"x{n + 1}" for n in range(space))
    return (*names, "t") if timed else names


def equation_weights(model: Any, backend: Backend, widths: Sequence[int]) -> list[float]:
    """Return the factor of the mean square of every residual column in the loss.

    Parameters
    ----------
    model : deepxde.Model
        Its weights are those of the equations, then those of the conditions.
    backend : Backend
    widths : sequence of int
        How many columns each equation has; a loss is the mean over all of them.
    """
    count, conditions = len(widths), len(model.data.bcs)
    weights = np.ones(1) if model.loss_weights is None else as_numpy(model.loss_weights).ravel()
    if weights.size == 1:
        weights = np.repeat(weights, count + conditions)
    if weights.size != count + conditions:
        raise InputError(
            f"a loss weight for each of {count} equations and {conditions} conditions",
            f"{weights.size} weights in the compiled model",
            "correct loss_weights of model.compile, or pass view= or loss_weights= here",
        )
    _check_squares(loss_functions(model), count, backend)
    if not weights[:count].any():
        raise InputError(
            "a residual that has a part in the loss",
            "loss weights of zero for every equation",
            "pass view=twoaxis.views.Pointwise() to audit it all the same",
        )
    each = zip(weights[:count], widths, strict=True)
    return [float(weight / width) for weight, width in each for _ in range(width)]


def loss_functions(model: Any) -> Any:
    """Return the loss function or functions of a compiled model; None where they hide.

    A model does not keep them, but the function that computes its losses does.
    """
    function = inspect.unwrap(model.outputs_losses_train)
    for name in ("outputs_losses", "loss_fn"):
        if not inspect.isfunction(function):
            return None
        function = inspect.getclosurevars(function).nonlocals.get(name)
    return function


def _check_squares(losses: Any, count: int, backend: Backend) -> None:
    """Say so where an equation's loss is not the mean of squares."""
    each = list(losses)[:count] if isinstance(losses, (list, tuple)) else [losses]
    sample = [[0.5], [-2.0], [3.0]]
    for loss in each:
        if loss is None:
            continue
        value = backend.call(loss, [[0.0]] * 3, sample)
        if abs(value / np.mean(np.square(sample)) - 1) > 1e-5:
            name = getattr(loss, "__name__", type(loss).__name__)
            raise InputError(
                "equations whose loss is the mean of squares, from which the view follows",
                f"the loss {name}",
                "pass view=, for instance twoaxis.views.Pointwise(), to say what to diagnose",
            )


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

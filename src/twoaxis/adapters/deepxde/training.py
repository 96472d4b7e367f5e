"""What a compiled DeepXDE model tells of its training: points, equations, losses and weights."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from twoaxis.adapters.building import as_numpy, foreign
from twoaxis.adapters.deepxde.backend import Backend, FloatArray
from twoaxis.errors import InputError

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

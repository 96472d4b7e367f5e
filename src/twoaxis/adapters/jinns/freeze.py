"""jinns: a loss and the parameters that training returned.

In jinns a residual is a pure function, ``dynamic_loss.evaluate(point, u, params)``, and the
unknowns are leaves of ``params.eq_params``. Freezing a model means to replace those leaves and
nothing else, at all points at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twoaxis.adapters.building import as_numpy, foreign, training_view, with_delivered
from twoaxis.adapters.jinns.model import Model
from twoaxis.adapters.jinns.unknowns import Transform, read_unknowns
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameter, checked_parameters
from twoaxis.views import View

FloatArray = NDArray[np.float64]
Precision = Literal["float64", "float32"]


def from_jinns(
    loss: Any,
    params: Any,
    points: Any,
    parameters: Mapping[str, Parameter],
    *,
    transform: Mapping[str, Transform] | None = None,
    view: View | None = None,
    loss_weights: Any = None,
    precision: Precision = "float64",
) -> FrozenResidual:
    """Freeze a model trained with jinns into its residual.

    Parameters
    ----------
    loss : jinns.loss.LossODE, LossPDEStatio or LossPDENonStatio
        Best the one that ``jinns.solve`` returns, its fifth output: where weights adapt, it
        holds those of the last step.
    params : jinns.parameters.Params
        The trained parameters, the first output of ``jinns.solve``.
    points : data generator, or array of shape (N, k)
        Where the residual was trained: the generator that ``jinns.solve`` returns, its fourth
        output, or the points themselves, time before space as jinns has them.
    parameters : mapping of str to Parameter
        The unknowns among ``params.eq_params``, by the same names. An entry of a vector is
        named with its place: ``"growth[1]"``. Delivered values are read from `params`.
    transform : mapping of str to pair of functions, optional
        For an unknown that the equation uses through a function: ``{"theta": (jnp.exp,
        jnp.log)}``, stored value to physical value and back. The diagnosis then speaks of the
        physical value, and so do the bounds and the truth.
    view : View, optional
        The metric of the residual loss; by default that of the training, the mean of squares
        of each equation times its weight in ``loss.loss_weights.dyn_loss``.
    loss_weights : optional
        In place of a view: factors of the squared residual, a number for each equation, or one
        for each point.
    precision : {"float64", "float32"}
        What the residual is evaluated in, whatever the precision of the weights.

    Returns
    -------
    FrozenResidual
        One equation for each component of each dynamic loss.

    Examples
    --------
    With the outputs of ``jinns.solve``::

        trained, _, _, data, loss, *_ = jinns.solve(...)
        unknowns = {"nu": ta.Parameter(truth=0.2, bounds=(0.02, 2.0))}
        frozen = ta.from_jinns(loss, trained, data, unknowns)
        print(ta.audit(frozen, tolerance=ta.Tolerance(material=5, resolution=5, preference=5)))

    A whole training with its audit is in ``examples/jinns_inverse.py``.
    """
    jinns = foreign("jinns", "jinns", "twoaxis.from_jinns")
    jax = foreign("jax", "jinns", "twoaxis.from_jinns")
    if precision not in ("float32", "float64"):
        raise InputError('precision "float32" or "float64"', repr(precision), "choose one of them")
    _check_loss(jinns, loss)
    _check_trained(jax, jinns, loss, params)
    where = _points(loss, points)
    unknowns = read_unknowns(jax, params, checked_parameters(parameters), transform or {})
    checked = with_delivered(parameters, {u.name: u.delivered for u in unknowns})
    model = Model(jax, loss, params, unknowns, precision)
    seen, lost = model.influence(where, checked)
    equations = sum(model.components)
    if view is None and loss_weights is None:
        loss_weights = _training_weights(loss, model.components)
    return FrozenResidual(
        lambda **values: model.residual(where, values),
        checked,
        where,
        view=training_view(view, loss_weights, equations, len(where)),
        jacobian=None if lost else lambda **values: model.jacobian(where, values),
        residual_at=lambda at, **values: model.residual(at, values),
        field=model.field(where),
        axes=_axes(loss, where.shape[1]),
        notes=(*model.precision_notes(), *model.notes(where, checked, seen, lost)),
    )


def _check_loss(jinns: Any, loss: Any) -> None:
    kinds = (jinns.loss.LossODE, jinns.loss.LossPDEStatio, jinns.loss.LossPDENonStatio)
    if not isinstance(loss, kinds):
        whole = "all outputs of jinns.solve" if isinstance(loss, tuple) and len(loss) > 4 else ""
        raise InputError(
            "a loss of jinns: LossODE, LossPDEStatio or LossPDENonStatio",
            whole or type(loss).__name__,
            "unpack them: params, data and loss are outputs 0, 3 and 4 of jinns.solve",
        )
    if any(each is None for each in loss.dynamic_loss):
        raise InputError(
            "a loss with an equation", "dynamic_loss=None", "build the loss with its dynamic_loss"
        )
    if isinstance(loss.u, jinns.nn.SPINN):
        raise InputError(
            "a network that is evaluated point by point",
            "a separable network (SPINN), which is evaluated on a grid",
            "use twoaxis.from_jax with a residual of your own on that grid",
        )


def _check_trained(jax: Any, jinns: Any, loss: Any, params: Any) -> None:
    if not isinstance(params, jinns.parameters.Params):
        raise InputError(
            "the trained jinns.parameters.Params",
            type(params).__name__,
            "pass the first output of jinns.solve",
        )
    if params.eq_params is None:
        raise InputError(
            "Params with eq_params, the unknowns",
            "Params without any",
            "build them as Params(nn_params=..., eq_params={...})",
        )
    first, now = (
        [as_numpy(leaf) for leaf in jax.tree.leaves(tree)]
        for tree in (getattr(loss.u, "init_params", None), params.nn_params)
    )
    if len(first) == len(now) and all(map(np.array_equal, first, now)):
        raise InputError(
            "the parameters of a trained network",
            "ones whose network still has its initial weights",
            "pass what jinns.solve returned, not init_params",
        )


def _points(loss: Any, points: Any) -> FloatArray:
    """Return the residual points of a data generator, or the given ones, (N, k)."""
    kind = loss.u.eq_type
    field = {"ODE": "times", "PDEStatio": "omega", "PDENonStatio": "domain"}[kind]
    if hasattr(points, "get_batch"):
        found = getattr(points, field, None)
        if found is None:
            raise InputError(
                f"a data generator for {kind}",
                type(points).__name__,
                "pass the one that trained this loss, or the points themselves",
            )
        points = found
    try:
        array = as_numpy(points)
    except (TypeError, ValueError):
        raise InputError(
            "points as a data generator of jinns or an array (N, k)",
            type(points).__name__,
            "pass the fourth output of jinns.solve",
        ) from None
    return array[:, None] if array.ndim == 1 else array


def _axes(loss: Any, columns: int) -> tuple[str, ...]:
    time = ("t",) if loss.u.eq_type in ("ODE", "PDENonStatio") else ()
    space = columns - len(time)
    return time + (
        ("x", "y", "z")[:space] if space < 4 else tuple(f"x{n}" for n in range(1, space + 1))
    )


def _training_weights(loss: Any, components: Sequence[int]) -> list[float]:
    """Return the loss weight of every component; jinns sums them inside of an equation."""
    given = loss.loss_weights.dyn_loss
    each = given if isinstance(given, tuple) else (given,) * len(components)
    factors = [1.0 if w is None else float(w) for w in each]
    return [f for f, count in zip(factors, components, strict=True) for _ in range(count)]

"""jinns: a loss and the parameters that training returned.

In jinns a residual is a pure function, ``dynamic_loss.evaluate(point, u, params)``, and the
unknowns are leaves of ``params.eq_params``. Freezing a model means to replace those leaves and
nothing else, at all points at once.

The residual of a network trained with jinns, as a function of points and physical values.

The unknowns among the equation parameters of jinns: leaves, entries of leaves, transforms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twoaxis.adapters.building import as_numpy, foreign, training_view, with_delivered
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameter, Parameters
from twoaxis.views import View

Transform = tuple[Callable[[Any], Any], Callable[[Any], Any]]


@dataclass(frozen=True)
class Unknown:
    """One number among the equation parameters.

    Attributes
    ----------
    name : str
        As the user spells it: ``"nu"`` or ``"growth[1]"``.
    leaf : str
        The field of ``eq_params``.
    place : int
        Which entry of it, counted through.
    delivered : float
        The physical value that training returned.
    transform : pair of functions, optional
        Stored value to physical value, and back.
    """

    name: str
    leaf: str
    place: int
    delivered: float
    transform: Transform | None

    def placed(self, params: Any, physical: Any) -> Any:
        """Return the parameters with this unknown replaced."""
        equinox = foreign("equinox", "jinns", "twoaxis.from_jinns")
        stored = physical if self.transform is None else self.transform[1](physical)
        old = getattr(params.eq_params, self.leaf)
        new = old.reshape(-1).at[self.place].set(stored).reshape(old.shape)
        return equinox.tree_at(lambda p: getattr(p.eq_params, self.leaf), params, new)


def read_unknowns(
    jax: Any, params: Any, names: Iterable[str], transform: Mapping[str, Transform]
) -> list[Unknown]:
    """Find the named unknowns in ``params.eq_params``, with the values they have there."""
    names = list(names)
    for name in transform:
        if name not in names:
            raise InputError(
                f"transforms of the named parameters: {', '.join(names)}",
                repr(name),
                "spell it as in parameters",
            )
    return [_read(jax, params.eq_params, name, transform.get(name)) for name in names]


def _read(jax: Any, eq_params: Any, name: str, transform: Transform | None) -> Unknown:
    stored = {field.name: getattr(eq_params, field.name) for field in fields(eq_params)}
    split = re.fullmatch(r"(.+?)(?:\[(\d+)\])?", name)
    leaf, place = (split[1], split[2]) if split else (name, None)
    if leaf not in stored:
        raise InputError(
            f"names among eq_params: {', '.join(stored)}", repr(name), "spell it as in Params"
        )
    values = as_numpy(stored[leaf]).reshape(-1)
    if (place is None and values.size != 1) or int(place or 0) >= values.size:
        raise InputError(
            f"one number of eq_params.{leaf}, which has {values.size}",
            repr(name),
            f"name one entry, as in '{leaf}[0]'" if values.size > 1 else f"write '{leaf}'",
        )
    value = float(values[int(place or 0)])
    if not np.isfinite(value):
        raise InputError(
            f"a finite value of {name} from training",
            f"{value}",
            "train again with a smaller step: jinns returns the last finite parameters",
        )
    if transform is not None:
        value = _checked_physical(jax, name, transform, value)
    return Unknown(name, leaf, int(place or 0), value, transform)


def _checked_physical(jax: Any, name: str, transform: Transform, stored: float) -> float:
    """Return the physical value of a stored one, if the transform can be undone."""
    if not (isinstance(transform, tuple) and len(transform) == 2 and all(map(callable, transform))):
        raise InputError(
            f"the transform of {name} as two functions, stored to physical and back",
            repr(transform),
            f"write transform={{{name!r}: (jax.numpy.exp, jax.numpy.log)}}",
        )
    with jax.enable_x64(True):
        physical = transform[0](jax.numpy.asarray(stored, "float64"))
        back = float(transform[1](physical))
    if not np.isclose(back, stored, rtol=1e-9, atol=1e-12):
        raise InputError(
            f"a transform of {name} whose second function undoes its first",
            f"{back:g} back from {stored:g}",
            f"write transform={{{name!r}: (jax.numpy.exp, jax.numpy.log)}}, or the like",
        )
    return float(physical)


FloatArray = NDArray[np.float64]


class Model:
    """A loss of jinns with trained parameters, in which only the unknowns can still move."""

    def __init__(
        self, jax: Any, loss: Any, params: Any, unknowns: Sequence[Unknown], precision: str
    ) -> None:
        self.jax, self.loss, self.unknowns, self.precision = jax, loss, unknowns, precision
        leaves = jax.tree.leaves(params.nn_params)
        self.trained_in = str(np.result_type(*[leaf.dtype for leaf in leaves]))
        self.components: list[int] = []
        with jax.enable_x64(precision == "float64"):
            self.params = jax.tree.map(self._cast, params)
        self._parts = jax.jit(self._evaluate)
        self._columns = jax.jit(jax.jacfwd(self._evaluate, argnums=1))

    def _cast(self, leaf: Any) -> Any:
        numbers = self.jax.numpy
        if numbers.issubdtype(numbers.result_type(leaf), numbers.floating):
            return numbers.asarray(leaf, self.precision)
        return leaf

    def moved(self, values: Any) -> Any:
        """Return the parameters with other unknowns; `values` has one entry for each."""
        params = self.params
        for unknown, value in zip(self.unknowns, values, strict=True):
            params = unknown.placed(params, value)
        return params

    def _evaluate(self, points: Any, values: Any) -> list[Any]:
        params = self.moved(values)
        return [
            self.jax.vmap(lambda point, each=each: each.evaluate(point, self.loss.u, params))(
                points
            ).reshape(len(points), -1)
            for each in self.loss.dynamic_loss
        ]

    def _inputs(self, points: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        vector = [float(values[unknown.name]) for unknown in self.unknowns]
        number = self.jax.numpy.asarray
        return number(as_numpy(points), self.precision), number(vector, self.precision)

    def residual(self, points: Any, values: Mapping[str, Any]) -> Any:
        """Return one array for each component of each equation, alone where there is one."""
        with self.jax.enable_x64(self.precision == "float64"):
            try:
                found = [np.asarray(part) for part in self._parts(*self._inputs(points, values))]
            except (TypeError, ValueError, AttributeError) as error:
                raise InputError(
                    "a dynamic loss that can be evaluated at the points",
                    f"{type(error).__name__}: {str(error).splitlines()[0]}",
                    "check the number of columns, time first, and the names in eq_params",
                ) from error
        self.components = [part.shape[1] for part in found]
        columns = [part[:, k] for part in found for k in range(part.shape[1])]
        return tuple(columns) if len(columns) > 1 else columns[0]

    def jacobian(self, points: Any, values: Mapping[str, Any]) -> FloatArray:
        """Return derivatives by the physical values, (N, d), the equations below each other."""
        with self.jax.enable_x64(self.precision == "float64"):
            found = [np.asarray(part) for part in self._columns(*self._inputs(points, values))]
        columns = [part[:, k] for part in found for k in range(part.shape[1])]
        return np.concatenate(columns).astype(float)

    def field(self, points: Any, values: Mapping[str, Any] | None = None) -> FloatArray:
        """Return the first output of the network at the points."""
        at = {u.name: u.delivered for u in self.unknowns} if values is None else values
        with self.jax.enable_x64(self.precision == "float64"):
            inputs, vector = self._inputs(points, at)
            params = self.moved(vector)
            outputs = self.jax.vmap(lambda point: self.loss.u(point, params))(inputs)
        return as_numpy(outputs).reshape(len(as_numpy(points)), -1)[:, 0]

    def precision_notes(self) -> list[str]:
        """Return what to say of the precision."""
        if self.precision == "float32":
            return ['the residual is evaluated in float32; precision="float64" evaluates in double']
        if self.trained_in == "float64":
            return []
        return [f"the network was trained in {self.trained_in}; it is evaluated in float64"]

    def influence(
        self, points: FloatArray, parameters: Mapping[str, Parameter]
    ) -> tuple[list[str], list[str]]:
        """Return the unknowns that move the residual, and those whose derivative is lost.

        A derivative is lost where the residual moves and its derivative is zero throughout, as
        behind ``jax.lax.stop_gradient``.
        """
        center = {unknown.name: unknown.delivered for unknown in self.unknowns}
        at_center = np.atleast_2d(self.residual(points, center))
        columns = self.jacobian(points, center)
        seen, lost = [], []
        for number, name in enumerate(center):
            moved = [
                np.atleast_2d(self.residual(points, {**center, name: bound}))
                for bound in parameters[name].bounds
            ]
            if columns[:, number].any():
                seen.append(name)
            elif any(not np.array_equal(at_center, other) for other in moved):
                seen.append(name)
                lost.append(name)
        return seen, lost

    def notes(
        self,
        points: FloatArray,
        parameters: Mapping[str, Parameter],
        seen: Sequence[str],
        lost: Sequence[str],
    ) -> list[str]:
        """Return what a reader must know of this training and this residual."""
        notes = []
        center = {unknown.name: unknown.delivered for unknown in self.unknowns}
        mask = self.loss.derivative_keys.dyn_loss.eq_params
        for unknown in self.unknowns:
            name = unknown.name
            # jinns turns these flags into arrays while it trains.
            if not np.all(getattr(mask, unknown.leaf, True)):
                notes.append(
                    f"the residual loss did not move {name} in training: derivative_keys.dyn_loss "
                    "leaves it out, as is the default of jinns"
                )
            if name not in seen:
                notes.append(
                    f"the residual does not change with {name}: H = 0 there, it does not see {name}"
                )
            if name in lost:
                notes.append(f"the equation stops the derivative by {name}: differences instead")
            moved = {**center, name: parameters[name].bounds[0]}
            if not np.array_equal(self.field(points), self.field(points, moved)):
                notes.append(
                    f"the network takes {name} as an input or in a transform, and moves with it"
                )
        return notes


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
    unknowns = read_unknowns(jax, params, Parameters(parameters), transform or {})
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

"""JAX: pure functions, and modules of equinox or flax, which are such functions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from twoaxis.adapters.foreign import (
    COUPLED_NOTE,
    FIELD_EXPECTED,
    FIELD_FIX,
    Precision,
    about_model,
    alone,
    as_names,
    as_numpy,
    as_observed,
    as_points,
    call_words,
    check_precision,
    dtype_name,
    equations_of,
    explained,
    first_output,
    foreign,
    is_pointwise,
    precision_notes,
    typical_values,
)
from twoaxis.adapters.jacobians import JaxFunction
from twoaxis.adapters.jets import FieldSlot
from twoaxis.adapters.model_loss import LossAt, ModelObjective
from twoaxis.adapters.model_weights import ModelWeights
from twoaxis.adapters.observed import alone_or_columns
from twoaxis.adapters.training_view import training_view
from twoaxis.adapters.unknowns import jax_jacobian
from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError, check_callable
from twoaxis.frozen import FrozenResidual, check_repeatable, in_training
from twoaxis.parameters import Parameters, Unknowns
from twoaxis.views import View


def from_jax(
    model: Any,
    residual: Callable[..., Any],
    parameters: Unknowns,
    view: View | None = None,
    *,
    points: Any,
    loss_weights: Any = None,
    precision: Precision = "float64",
    field: Callable[..., Any] | None = None,
    observed: Any = None,
    loss: Callable[..., Any] | None = None,
    conditions: Callable[..., Any] | None = None,
    axes: Sequence[str] = (),
    fields: Sequence[str] = (),
    equations: Sequence[str] = (),
) -> FrozenResidual:
    """Freeze a JAX function into its residual.

    Parameters
    ----------
    model : callable or any tree of arrays
        The first argument of `residual`: a pure function, an equinox module, a flax module with
        its variables bound, or a tree of weights. Modules of equinox and flax.nnx are evaluated
        as copies in inference mode; the others are pure, and determine their mode themselves.
    residual : callable
        ``residual(model, points, **parameters)``, JAX in, JAX out: values of shape (N,) or
        (N, 1), or a tuple or mapping of such for several equations.
    parameters : mapping of str to Parameter or UnknownFunction
        With the values that training `delivered`.
    view : View, optional
        The metric of the residual loss; the plain mean of squares by default.
    points : array, shape (N, k)
        The residual points of the training.
    loss_weights : optional
        In place of a view: factors of the squared residual in the loss, one number per equation
        or one per point. Where the loss squares its weights, as residual-based attention (RBA)
        does, pass their squares.
    precision : {"float64", "model"}
        ``"float64"`` evaluates in double precision: weights of lower precision are taken as
        they are, points and parameters are float64. ``"model"`` uses the precision of the
        weights, or of the points where the model does not show any, and a note says so.
    field : callable, optional
        ``field(model, points)``: what was observed, a column for each observed field; by default
        ``model(points)`` where that can be called. Figures show the first column.
    observed : array, shape (n, k), optional
        Where the observations lie, in the order of the data. The field there becomes the `fitted`
        of the frozen residual, and an audit asks whether the network has fitted the data.
    loss : callable, optional
        ``loss(model, **parameters)``: the whole training loss as one number, with adaptive weights
        held at their last values. The model comes in double precision. It becomes the `objective`
        of the frozen residual: an audit asks whether training has finished, and `twoaxis.polish`
        finishes it. The weights are the floating-point arrays of the model.
    conditions : callable, optional
        ``conditions(model)``: misfits of boundary and initial conditions that the model does not
        obey by construction, as an array, or a tuple or mapping of such for several. The model
        comes in double precision. They belong to the `weights` of the frozen residual.
    axes, fields, equations : sequence of str, optional
        Names of the coordinates, the observed fields and the equations, for figures and messages,
        such as ``axes=("t",), fields=("S", "I")``.

    Returns
    -------
    FrozenResidual

    Examples
    --------
    >>> import jax, jax.numpy as jnp, twoaxis as ta
    >>> net = lambda t: jnp.exp(-1.1 * t)
    >>> def decay(model, t, rate):
    ...     return jax.vmap(jax.grad(model))(t[:, 0]) + rate * model(t[:, 0])
    >>> frozen = from_jax(
    ...     net, decay, {"rate": ta.Parameter(truth=1.0, delivered=1.1, bounds=(0.1, 10))},
    ...     points=jnp.linspace(0, 1, 20)[:, None],
    ... )
    >>> round(ta.score(frozen).delta_percent["rate"], 6)
    10.517092
    """
    jax = foreign("jax", "train", "twoaxis.from_jax")
    known = Parameters(parameters)
    check_precision(precision)
    check_callable("residual", residual, known.argument_names, ("model", "points"))
    where = as_points(points)
    frozen_model = _in_inference_mode(jax, model)
    weights = _weight_precision(jax, model)
    used = "float64" if precision == "float64" else weights or _precision_of_points(points)

    def traced(at: Any, *values: Any) -> tuple[Any, ...]:
        given = known.arguments(dict(zip(known, values, strict=True)))
        return equations_of(residual(frozen_model(), at, **given))

    def inputs(at: Any, values: Mapping[str, Any]) -> list[Any]:
        number, given = jax.numpy.asarray, known.by_member(values)
        return [number(as_numpy(at), used), *(number(float(given[n]), used) for n in known)]

    def evaluate(at: Any, values: Mapping[str, Any]) -> Any:
        with jax.enable_x64(used == "float64"):
            return alone([np.asarray(part) for part in traced(*inputs(at, values))])

    def jacobian(**values: Any) -> FloatArray:
        with jax.enable_x64(used == "float64"):
            at, *primals = inputs(where, values)
            columns = jax_jacobian(jax, lambda *v: traced(at, *v), primals, range(len(known)))
            parts = [np.asarray(part).reshape(-1, len(known)) for part in columns]
        return np.concatenate(parts).astype(float)

    moving = _Weights(jax, frozen_model())
    if observed is not None:
        observed = as_observed(observed, points, axes)
    center = typical_values(known)
    with explained(
        "a residual that can be evaluated at the points, "
        f"residual(model, points, {call_words(center)})",
        "check its shapes and its branches on traced values"
        + (f'; pass precision="model" if it needs {weights}' if used != (weights or used) else ""),
    ):
        first = evaluate(where, center)
    values = equations_of(first)
    pointwise = in_training() or is_pointwise(lambda at: evaluate(at, center), where, values)
    metric = training_view(view, loss_weights, [len(where)] * len(values))
    again = {"view": metric, "points": where, "field": field}  # of another state: nothing is shared
    trainable = None
    if loss is not None and not in_training():
        trainable = _objective(jax, moving, loss, residual, known, again)
    whole = {
        **again,
        "observed": observed,
        "loss": loss,
        "conditions": conditions,
        "axes": axes,
        "fields": fields,
        "equations": equations,
    }
    frozen = FrozenResidual(
        lambda **values: evaluate(where, values),
        known,
        where,
        view=metric,
        jacobian=jacobian,
        residual_at=(lambda at, **values: evaluate(at, values)) if pointwise else None,
        field=_field(jax, frozen_model(), where, used, field),
        notes=(
            *precision_notes(dtype_name(values[0].dtype), used, weights or used),
            *([] if pointwise else [COUPLED_NOTE]),
        ),
        fitted=_fitted(jax, frozen_model(), observed, used, field),
        observed=observed,
        objective=trainable,
        weights=None if in_training() else _weights(jax, moving, residual, known, whole, pointwise),
        axes=as_names("axes", axes),
        fields=as_names("fields", fields),
        equations=as_names("equations", equations),
        about=about_model("JAX", "jax", model, moving.start.size, weights or used),
    )
    at_center = frozen.checked(first, center)  # shapes and values, before anything else needs them
    if not in_training():
        check_repeatable(frozen, first, at_center, center)
    return frozen


def _in_inference_mode(jax: Any, model: Any) -> Callable[[], Any]:
    """Return a function that returns a copy of the model in inference mode.

    Further training may change a tree of weights or a module of flax.nnx in place, or give their
    memory back. Such a module also keeps counters and statistics that a call changes, so every
    call gets a copy of its own. Neither library is imported here: a module of theirs has done that.
    """
    nnx: Any = sys.modules.get("flax.nnx")
    linen: Any = sys.modules.get("flax.linen")
    equinox: Any = sys.modules.get("equinox")
    if nnx is not None and isinstance(model, nnx.Module):
        resting = nnx.clone(model)
        resting.eval()
        graph, tree = nnx.split(resting)
        return _rebuilt(jax, tree, lambda kept: nnx.clone(nnx.merge(graph, kept)))
    if linen is not None and isinstance(model, linen.Module) and model.scope is not None:
        module, variables = model.unbind()
        return _rebuilt(jax, variables, module.bind)
    if equinox is not None and isinstance(model, equinox.Module):
        model = equinox.nn.inference_mode(model)
    return _rebuilt(jax, model, lambda kept: kept)


def _rebuilt(jax: Any, tree: Any, build: Callable[[Any], Any]) -> Callable[[], Any]:
    """Return a function that builds a model of a copy of its arrays."""
    with jax.enable_x64(True):  # or else copies lose precision
        kept = jax.tree.map(lambda leaf: leaf.copy() if hasattr(leaf, "dtype") else leaf, tree)
    return lambda: build(kept)


class _Weights:
    """The floating-point arrays of a model as one vector, and the model with other weights."""

    def __init__(self, jax: Any, model: Any) -> None:
        self._jax = jax
        tree, self._rebuild = _as_tree(model)
        leaves, self._structure = jax.tree.flatten(tree)
        floating = jax.numpy.floating
        self._places = [
            place
            for place, leaf in enumerate(leaves)
            if hasattr(leaf, "dtype") and jax.numpy.issubdtype(leaf.dtype, floating)
        ]
        self._leaves = leaves
        parts = [as_numpy(leaves[place]).ravel() for place in self._places]
        self.start: FloatArray = np.concatenate(parts) if parts else np.empty(0)

    def model(self, vector: Any) -> Any:
        """Return the model with the weights of a vector, which may be traced."""
        leaves, first = list(self._leaves), 0
        for place in self._places:
            shape = np.shape(leaves[place])
            count = int(np.prod(shape))
            leaves[place] = vector[first : first + count].reshape(shape)
            first += count
        return self._rebuild(self._jax.tree.unflatten(self._structure, leaves))

    def exact(self, vector: FloatArray) -> Any:
        """Return the model with the weights of a vector, in double precision."""
        with self._jax.enable_x64(True):
            return self.model(self._jax.numpy.asarray(vector, "float64"))


def _as_tree(model: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return a tree that holds the weights of a model, and how the model is made of such a tree."""
    nnx: Any = sys.modules.get("flax.nnx")
    linen: Any = sys.modules.get("flax.linen")
    if nnx is not None and isinstance(model, nnx.Module):
        graph, weights, rest = nnx.split(model, nnx.Param, ...)
        return weights, lambda tree: nnx.merge(graph, tree, rest)
    if linen is not None and isinstance(model, linen.Module) and model.scope is not None:
        module, variables = model.unbind()
        return variables, module.bind
    return model, lambda tree: tree


def _objective(
    jax: Any,
    moving: _Weights,
    loss: Callable[..., Any],
    residual: Callable[..., Any],
    parameters: Parameters,
    options: dict[str, Any],
) -> ModelObjective:
    """Return ``loss(model, **parameters)`` as an objective, in double precision."""
    parameters.require("delivered")
    check_callable("loss", loss, parameters, ("model",))
    if not moving.start.size:
        raise InputError(
            "a model with weights, for its loss: a module or a tree of arrays",
            "a model without floating-point arrays",
            "pass the module or the tree itself, not a function that has captured its weights",
        )

    def traced(vector: Any, values: dict[str, Any]) -> Any:
        return loss(moving.model(vector), **values)

    compiled = jax.jit(jax.value_and_grad(traced, argnums=(0, 1)))

    def loss_at(vector: FloatArray, values: Mapping[str, float]) -> LossAt:
        number = jax.numpy.asarray
        with jax.enable_x64(True):
            numbers = {name: number(value, "float64") for name, value in values.items()}
            value, (by_weights, by_values) = compiled(number(vector, "float64"), numbers)
            return LossAt(
                float(value),
                as_numpy(by_weights),
                np.array([float(by_values[name]) for name in values]),
            )

    def freeze(vector: FloatArray, known: Parameters) -> FrozenResidual:
        return from_jax(moving.exact(vector), residual, known, **options)

    return ModelObjective(parameters, moving.start, loss_at, freeze, moving.exact)


def _weights(
    jax: Any,
    moving: _Weights,
    residual: Callable[..., Any],
    parameters: Parameters,
    options: dict[str, Any],
    pointwise: bool,
) -> ModelWeights | None:
    """Return a model as a least-squares system in its weights; None for one without weights.

    `options` are those of `from_jax`.
    """
    conditions, field = options["conditions"], options["field"]
    if conditions is not None:
        check_callable("conditions", conditions, (), ("model",))
    if not moving.start.size:
        if conditions is None:
            return None
        raise InputError(
            "a model with weights, for its conditions: a module or a tree of arrays",
            "a model without floating-point arrays",
            "pass the module or the tree itself, not a function that has captured its weights",
        )

    exact = partial(jax.enable_x64, True)

    def equations(model: Any, numbers: Any, at: Any) -> Any:
        given = parameters.arguments(dict(zip(parameters, numbers, strict=True)))
        parts = equations_of(residual(model, at, **given))
        return jax.numpy.stack([part.reshape(len(at)) for part in parts], axis=1)

    def outputs(model: Any, numbers: Any, at: Any) -> Any:
        del numbers  # the field is that of the weights alone
        found = model(at) if field is None else field(model, at)
        return found.reshape(len(at), -1)

    def misfits(model: Any, numbers: Any, at: Any) -> Any:
        del numbers, at
        parts = [part.reshape(-1) for part in equations_of(conditions(model))]
        return jax.numpy.concatenate([part / part.size**0.5 for part in parts])[:, None]

    def function(call: Callable[..., Any], pointwise: bool = True) -> JaxFunction:
        def called(vector: Any, numbers: Any, at: Any) -> Any:
            return call(moving.model(vector), numbers, at)

        return JaxFunction(jax, called, exact, pointwise=pointwise)

    @cache
    def slot() -> FieldSlot | None:
        if not pointwise:
            return None
        from twoaxis.adapters.jax_jets import Trained, jax_slot

        whole = Trained(
            moving.exact(moving.start),
            moving.start,
            moving.model,
            lambda part: _Weights(jax, part).start.size,
        )
        delivered = np.array(list(typical_values(parameters).values()), dtype=float)
        return jax_slot(
            whole,
            equations,
            outputs,
            None if conditions is None else misfits,
            lambda model, known: from_jax(model, residual, known, **{**options, "loss": None}),
            delivered,
            as_points(options["points"]),
        )

    return ModelWeights(
        parameters,
        moving.start,
        options["points"],
        [function(equations, pointwise)],
        function(outputs),
        lambda vector, known: from_jax(moving.exact(vector), residual, known, **options),
        moving.exact,
        observed=None if options["observed"] is None else as_points(options["observed"]),
        misfits=None if conditions is None else function(misfits, pointwise=False),
        slot=slot,
    )


def _weight_precision(jax: Any, model: Any) -> str | None:
    """Return the lowest precision among the weights; None for a model that shows none."""
    nnx: Any = sys.modules.get("flax.nnx")
    linen: Any = sys.modules.get("flax.linen")
    if nnx is not None and isinstance(model, nnx.Module):
        model = nnx.state(model)
    elif linen is not None and isinstance(model, linen.Module) and model.scope is not None:
        model = model.variables
    kinds = [leaf.dtype for leaf in jax.tree.leaves(model) if hasattr(leaf, "dtype")]
    kinds = [kind for kind in kinds if jax.numpy.issubdtype(kind, jax.numpy.floating)]
    return str(min(kinds, key=lambda kind: kind.itemsize)) if kinds else None


def _precision_of_points(points: Any) -> str:
    kind = str(getattr(points, "dtype", "float64"))
    return kind if "float" in kind else "float64"


def _fitted(
    jax: Any, model: Any, observed: Any, dtype: str, field: Callable[..., Any] | None
) -> FloatArray | None:
    """Return what the field predicts for the observations, where it is known where they lie."""
    if observed is None:
        return None
    where = as_points(observed)
    with (
        jax.enable_x64(dtype == "float64"),
        explained(
            "a field that can be evaluated at the observed points",
            "give them the coordinates that the model takes, or pass field=... for what was "
            "observed",
        ),
    ):
        at = jax.numpy.asarray(where, dtype)
        return alone_or_columns(model(at) if field is None else field(model, at), len(where))


def _field(
    jax: Any, model: Any, where: FloatArray, dtype: str, field: Callable[..., Any] | None
) -> FloatArray | None:
    """Return what figures show, or None where the model does not give it."""
    if field is None and not callable(model):
        return None
    with jax.enable_x64(dtype == "float64"):
        at = jax.numpy.asarray(where, dtype)
        if field is not None:
            with explained(FIELD_EXPECTED, FIELD_FIX):
                return first_output(field(model, at), len(where))
        try:
            return first_output(model(at), len(where))
        except Exception:  # a figure without the field is better than no diagnosis
            return None

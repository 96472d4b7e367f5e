"""jinns: a loss and the parameters that training returned.

In jinns a residual is a pure function, ``dynamic_loss.evaluate(point, u, params)``, and the
unknowns are leaves of ``params.eq_params``. A frozen model replaces those leaves and nothing
else, at all points at once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache, partial
from typing import Any, Self, final

import numpy as np

from twoaxis.adapters.foreign import (
    UNKNOWN_FIELD,
    Precision,
    about_model,
    as_numpy,
    as_points,
    check_names,
    check_precision,
    check_program,
    foreign,
    numbered,
    precision_notes,
    refuse_functions,
    space_axes,
    typical_values,
)
from twoaxis.adapters.jacobians import JaxFunction
from twoaxis.adapters.jets import FieldSlot
from twoaxis.adapters.model_loss import LossAt, without_objective
from twoaxis.adapters.model_weights import Functions, Trained
from twoaxis.adapters.observed import (
    Readings,
    alone_or_columns,
    field_names,
    found_note,
    joined,
    observed_columns,
    observed_outputs,
    observed_points,
    output_names,
)
from twoaxis.adapters.training_view import check_view, training_view
from twoaxis.adapters.unknowns import (
    FrozenEquations,
    JaxArithmetic,
    Model,
    Transform,
    Unknown,
    read_unknown,
    with_delivered,
)
from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, kept_program
from twoaxis.labels import Labels
from twoaxis.parameter_array import ParameterArray, entry_index, entry_name
from twoaxis.parameters import Parameter, Parameters, Unknowns
from twoaxis.result import Message
from twoaxis.text import listed
from twoaxis.views import View

#: A leaf of ``eq_params``, and a flat index into it.
Place = tuple[str, int]


def from_jinns(
    loss: Any,
    params: Any,
    parameters: Unknowns,
    view: View | None = None,
    *,
    points: Any,
    transform: Mapping[str, Transform] | None = None,
    loss_weights: Any = None,
    precision: Precision = "float64",
    field: int | Sequence[int] | None = None,
    observed: Any = None,
) -> FrozenResidual:
    """Freeze a model trained with jinns into its residual.

    Parameters
    ----------
    loss : jinns.loss.LossODE, LossPDEStatio or LossPDENonStatio
        Best the one that ``jinns.solve`` or ``jinns.solve_alternate`` returns, the fifth output:
        where weights adapt, it holds those of the last step.
    params : jinns.parameters.Params
        The trained parameters, the first output of ``jinns.solve``.
    parameters : mapping of str to Parameter or ParameterArray
        The unknowns among ``params.eq_params``, by the same names. An array is a
        `twoaxis.ParameterArray` of its shape; an entry alone is named with its index,
        ``"growth[1]"`` or ``"interactions[0,1]"``. Delivered values are read from `params`.
    view : View, optional
        The metric of the residual loss; by default that of the training, the mean of squares
        of each equation times its weight in ``loss.loss_weights.dyn_loss``.
    points : data generator, or array of shape (N, k)
        The residual points of the training: the generator that ``jinns.solve`` returns, its
        fourth output, or the points themselves, time before space as in jinns.
    transform : mapping of str to function or pair of functions, optional
        For an unknown that the equation uses through a function: ``{"theta": jnp.exp}``, from
        the stored to the physical value, or a pair with its inverse. The result then refers to
        the physical value, and so do the bounds and the truth.
    loss_weights : optional
        In place of a view: factors of the squared residual, one number per equation or one per
        point.
    precision : {"float64", "model"}
        ``"float64"`` evaluates a copy in double precision; ``"model"`` evaluates in the
        precision of the weights, and a note says so.
    field : int or sequence of int, optional
        The outputs of the network that were observed; all of them by default. Figures show the
        first.
    observed : DataGeneratorObservations, or array of shape (n, k), optional
        The observations of the training: what ``jinns.solve`` returns as its ninth output. Of an
        array alone, time before space, only the places are known. Their loss weights balance the
        training and are not taken for noise.

    Returns
    -------
    FrozenResidual
        One equation per component of each dynamic loss. With the data generators as `points` and
        `observed`, the whole training loss is its `objective`.

    Examples
    --------
    For the rate k of a decay, after 30 iterations on 20 points::

        class Decay(jinns.loss.ODE):
            def equation(self, t, u, params):
                slope = jax.jacfwd(lambda at: u(at, params))(t)[:, 0]
                return slope + params.eq_params.k * u(t, params)

        key = jax.random.PRNGKey(0)
        layers = ((eqx.nn.Linear, 1, 8), (jax.nn.tanh,), (eqx.nn.Linear, 8, 1))
        u, weights = jinns.nn.PINN_MLP.create(key=key, eqx_list=layers, eq_type="ODE")
        start = jinns.parameters.Params(nn_params=weights, eq_params={"k": jnp.array(2.0)})
        keys = jinns.parameters.DerivativeKeysODE.from_str(params=start, dyn_loss="both")
        loss = jinns.loss.LossODE(
            u=u,
            dynamic_loss=Decay(),
            derivative_keys=keys,
            loss_weights=jinns.loss.LossWeightsODE(dyn_loss=1.0, initial_condition=1.0),
            initial_condition=(0.0, jnp.array([1.0])),
        )
        data = jinns.data.DataGeneratorODE(key=key, nt=20, tmin=0.0, tmax=1.0)
        trained, _, _, data, loss, *_ = jinns.solve(
            n_iter=30, init_params=start, data=data, loss=loss, optimizer=optax.adam(1e-3)
        )
        known = {"k": ta.Parameter(truth=1.0, bounds=(0.1, 10.0))}
        frozen = ta.from_jinns(loss, trained, known, points=data)
        print(frozen.points.shape, frozen.axes, list(frozen.parameters))

    This prints:

    .. code-block:: text

        (20, 1) ('t',) ['k']

    A complete training with its audit is in ``examples/jinns_inverse.py``.
    """
    jinns = foreign("jinns", "jinns", "twoaxis.from_jinns")
    jax = foreign("jax", "jinns", "twoaxis.from_jinns")
    check_precision(precision)
    check_view(view, loss_weights)
    _check_loss(jinns, loss)
    _check_trained(jax, jinns, loss, params)
    where = _points(loss, points)
    refuse_functions(parameters, "twoaxis.from_jinns")
    known = Parameters(_with_shapes(params.eq_params, parameters))
    _refuse_fields(loss, known)
    unknowns = _read_unknowns(jax, params.eq_params, known, transform or {})
    delivered = [with_delivered(known[each.name], each) for each in unknowns]
    checked = dict(zip(known, (parameter for parameter, _ in delivered), strict=True))
    model = JinnsModel(jax, loss, params, precision)
    equations = FrozenEquations(model, unknowns)
    influence = equations.check(where, checked)
    if view is None and loss_weights is None:
        loss_weights = _training_weights(loss, influence.widths)
    metric = training_view(view, loss_weights, [len(where)] * sum(influence.widths))
    outputs = output_names(model.outputs(where[:1], {}).shape[1])
    columns = observed_columns(field, len(outputs))

    def freeze(
        state: JinnsModel, parameters: Mapping[str, Parameter], **more: Any
    ) -> FrozenResidual:
        here = FrozenEquations(state, unknowns)
        return FrozenResidual(
            lambda **values: here.residual(where, known.by_member(values)),
            parameters,
            where,
            view=metric,
            jacobian=None
            if influence.lost
            else lambda **values: here.jacobian(where, known.by_member(values)),
            residual_at=lambda at, **values: here.residual(at, known.by_member(values)),
            field=state.outputs(where, {})[:, columns[0]],
            field_name=outputs[columns[0]],
            axes=_axes(loss, where.shape[1]),
            equations=_equation_names(loss, influence.widths),
            **more,
        )

    found = _readings(loss, model, observed)
    seen: dict[str, Any] = joined(found, outputs)
    if observed is not None and not _is_generator(observed):
        sites = observed_points(observed, where.shape[1])
        fitted = alone_or_columns(model.outputs(sites, {})[:, columns], len(sites))
        labels = Labels.of(observed, "observed")
        seen = {"observed": sites, "fitted": fitted, "labels": labels}
        seen |= field_names(columns, outputs)
    exact = model if model.precision == "float64" else JinnsModel(jax, loss, params, "float64")
    batch = _whole_batch(jax, jinns, loss, known, points, observed)
    places = [each.place for each in unknowns]
    values = typical_values(checked)
    stored = np.array([each.stored(values[each.name]) for each in unknowns])
    imposed = _imposed(jax, loss)
    generated = hasattr(points, "get_batch")
    border = _batch(jinns, loss, points, None) if generated and imposed else None

    def functions(state: JinnsModel) -> Functions:
        return Functions(
            [state.equations_by_weights(places)],
            state.outputs_by_weights(places),
            None if border is None else state.misfits_by_weights(imposed, border, places),
            cache(partial(state.slot, places, imposed, border, refrozen, stored, where)),
        )

    def refrozen(state: JinnsModel, parameters: Mapping[str, Parameter]) -> FrozenResidual:
        return freeze(state, parameters, notes=notes, about=about)

    notes = (
        *precision_notes(model.precision, model.precision, model.own),
        *(note for _, notes in delivered for note in notes),
        *influence.notes(),
        *_training_notes(jax, loss, model, where, unknowns, checked),
        *found_note(found),
        *([without_objective(batch)] if isinstance(batch, str) else []),
        *_condition_notes(loss, imposed, generated),
    )
    about = about_model("jinns", "jinns", loss.u, exact.weights.size, model.own)
    return Trained(
        exact,
        freeze,
        functions,
        where,
        unknowns,
        None if isinstance(batch, str) else exact.compiled_loss(batch),
        seen,
        observed_outputs(found) if found else columns,
        {"notes": notes, "about": about},
    ).frozen(model, checked)


@final
class JinnsProgram:
    """The compiled functions of equations, network and parameters, whose arrays are arguments.

    So the model can be evaluated after every piece of a training without compiling it again.

    Parameters
    ----------
    jax, equinox : module
    static : tree
        Equations, network and parameters without their arrays.
    """

    def __init__(self, jax: Any, equinox: Any, static: Any) -> None:
        self._jax, self._equinox, self.static = jax, equinox, static
        self.equations = jax.jit(self.evaluate, static_argnums=2)
        self.slopes = jax.jit(jax.jacfwd(self.evaluate, argnums=3), static_argnums=2)
        self.outputs = jax.jit(self._outputs, static_argnums=2)

    def _moved(self, arrays: Any, places: tuple[Place, ...], stored: Any) -> tuple[Any, Any, Any]:
        equations, network, params = self._equinox.combine(arrays, self.static)
        return equations, network, with_numbers(self._equinox, params, places, stored)

    def evaluate(
        self, arrays: Any, points: Any, places: tuple[Place, ...], stored: Any
    ) -> list[Any]:
        """Return one array (N, m) per dynamic loss."""
        return equations_at(self._jax, *self._moved(arrays, places, stored), points)

    def _outputs(self, arrays: Any, points: Any, places: tuple[Place, ...], stored: Any) -> Any:
        _, network, params = self._moved(arrays, places, stored)
        return self._jax.vmap(lambda point: network(point, params))(points)


def with_numbers(equinox: Any, params: Any, places: Sequence[Place], stored: Any) -> Any:
    """Return the parameters with other numbers at these places."""
    for (leaf, index), value in zip(places, stored, strict=True):
        old = getattr(params.eq_params, leaf)
        new = old.reshape(-1).at[index].set(value).reshape(old.shape)
        params = equinox.tree_at(lambda p, leaf=leaf: getattr(p.eq_params, leaf), params, new)
    return params


def equations_at(jax: Any, equations: Any, network: Any, params: Any, points: Any) -> list[Any]:
    """Return one array (N, m) per dynamic loss."""
    return [
        jax.vmap(lambda point, each=each: each.evaluate(point, network, params))(points).reshape(
            len(points), -1
        )
        for each in equations
    ]


@final
class JinnsModel(Model):
    """A loss of jinns with trained parameters; a place is a leaf of ``eq_params`` and an index."""

    def __init__(self, jax: Any, loss: Any, params: Any, precision: Precision) -> None:
        self._jax, self._loss = jax, loss
        self._equinox = foreign("equinox", "jinns", "twoaxis.from_jinns")
        leaves = jax.tree.leaves(params.nn_params)
        # A field of splines has no weights.
        self.own = str(np.result_type(*[leaf.dtype for leaf in leaves])) if leaves else "float64"
        self.precision = "float64" if precision == "float64" else self.own
        with self._exact():
            self._params = jax.tree.map(self._cast, params)
        whole = (loss.dynamic_loss, loss.u, self._params)
        self._arrays, static = self._equinox.partition(whole, self._equinox.is_array)
        self._program = kept_program(
            lambda known: (
                isinstance(known, JinnsProgram)
                and bool(self._equinox.tree_equal(known.static, static))
            ),
            lambda: JinnsProgram(jax, self._equinox, static),
        )

    def _exact(self) -> Any:
        return self._jax.enable_x64(self.precision == "float64")

    def _cast(self, leaf: Any) -> Any:
        numbers = self._jax.numpy
        if numbers.issubdtype(numbers.result_type(leaf), numbers.floating):
            return numbers.asarray(leaf, self.precision)
        return leaf

    def _moved(self, places: tuple[Place, ...], stored: Any) -> Any:
        return with_numbers(self._equinox, self._params, places, stored)

    def _equations(self, params: Any, points: Any) -> list[Any]:
        return equations_at(self._jax, self._loss.dynamic_loss, self._loss.u, params, points)

    def _inputs(self, points: Any, stored: Mapping[Any, float]) -> tuple[Any, Any, Any, Any]:
        number = self._jax.numpy.asarray
        vector = number(list(stored.values()), self.precision)
        return self._arrays, number(as_numpy(points), self.precision), tuple(stored), vector

    def equations(self, points: Any, stored: Mapping[Any, float]) -> list[Any]:
        """Return one array (N, m) per dynamic loss."""
        with self._exact():
            found = self._program.equations(*self._inputs(points, stored))
            return [np.asarray(part) for part in found]

    def check_deterministic(self, points: Any, stored: Mapping[Any, float]) -> None:
        """Refuse equations that draw random numbers when they are compiled."""
        with self._exact():
            arrays, where, places, vector = self._inputs(points, stored)

            def evaluate(arrays: Any, where: Any, vector: Any) -> Any:
                return self._program.evaluate(arrays, where, places, vector)

            check_program(self._jax, "residual", evaluate, arrays, where, vector)

    def derivatives(self, points: Any, stored: Mapping[Any, float]) -> list[Any]:
        """Return one array (N, m, d) per dynamic loss, by forward mode."""
        with self._exact():
            found = self._program.slopes(*self._inputs(points, stored))
            return [np.asarray(part) for part in found]

    def outputs(self, points: Any, stored: Mapping[Any, float]) -> FloatArray:
        """Return the outputs of the network at the points, (N, outputs)."""
        with self._exact():
            outputs = as_numpy(self._program.outputs(*self._inputs(points, stored)))
        return outputs.reshape(len(outputs), -1)

    def _flat(self) -> tuple[Any, Any]:
        """Return the weights as one vector, and how a vector becomes weights again."""
        tools = foreign("jax.flatten_util", "jinns", "twoaxis.from_jinns")
        arrays, rest = self._equinox.partition(
            self._params.nn_params, self._equinox.is_inexact_array
        )
        vector, unravel = tools.ravel_pytree(arrays)
        return vector, lambda flat: self._equinox.combine(unravel(flat), rest)

    def _with(self, weights: Any) -> Any:
        """Return the parameters with other weights."""
        return self._equinox.tree_at(lambda p: p.nn_params, self._params, self._flat()[1](weights))

    @property
    def weights(self) -> FloatArray:
        """The weights of the network, one after another."""
        with self._exact():
            return as_numpy(self._flat()[0])

    def moved(self, weights: FloatArray) -> Self:
        """Return the same model with other weights."""
        with self._exact():
            params = self._with(self._jax.numpy.asarray(weights, self.precision))
        precision: Precision = "float64" if self.precision == "float64" else "model"
        return type(self)(self._jax, self._loss, params, precision)

    def network(self) -> Any:
        """Return the parameters, as ``jinns.solve`` returns them."""
        return self._params

    def compiled_loss(self, batch: Any) -> Callable[[FloatArray, Mapping[Any, float]], LossAt]:
        """Return the training loss on a batch, a function of weights and stored numbers."""
        jax = self._jax
        whole, batch = self._cast_all(batch)
        # The keys of the last turn of a training say nothing about the gradient of its loss.
        everything = jax.tree.map(lambda _: True, whole.derivative_keys)
        whole = self._equinox.tree_at(lambda each: each.derivative_keys, whole, everything)

        def traced(vector: Any, places: tuple[Place, ...], stored: Any) -> Any:
            params = self._equinox.tree_at(
                lambda p: p.nn_params, self._moved(places, stored), self._flat()[1](vector)
            )
            return whole.evaluate(params, batch)[0]

        compiled = jax.jit(jax.value_and_grad(traced, argnums=(0, 2)), static_argnums=1)

        def loss(weights: FloatArray, stored: Mapping[Any, float]) -> LossAt:
            number = jax.numpy.asarray
            with self._exact():
                value, slopes = compiled(
                    number(weights, self.precision),
                    tuple(stored),
                    number(list(stored.values()), self.precision),
                )
                return LossAt(float(value), *map(as_numpy, slopes))

        return loss

    def _cast_all(self, batch: Any) -> tuple[Any, Any]:
        """Return the loss and a batch in the precision of the evaluation."""
        jax = self._jax
        with self._exact():
            whole = jax.tree.map(
                lambda leaf: self._cast(leaf) if self._equinox.is_array(leaf) else leaf, self._loss
            )
            return whole, jax.tree.map(self._cast, batch)

    def by_weights(
        self, places: Sequence[Any], function: Callable[[Any, Any], Any], pointwise: bool = True
    ) -> JaxFunction:
        """Return a function of all parameters and points as one of weights and stored numbers."""

        def called(vector: Any, numbers: Any, points: Any) -> Any:
            params = self._moved(tuple(places), numbers)
            params = self._equinox.tree_at(lambda p: p.nn_params, params, self._flat()[1](vector))
            return function(params, points)

        return JaxFunction(self._jax, called, self._exact, pointwise=pointwise)

    def equations_by_weights(self, places: Sequence[Any]) -> JaxFunction:
        """Return the equations, a column each, as a function of weights and stored numbers."""
        join = self._jax.numpy.concatenate
        return self.by_weights(
            places, lambda params, points: join(self._equations(params, points), axis=1)
        )

    def outputs_by_weights(self, places: Sequence[Any]) -> JaxFunction:
        """Return the outputs of the network as a function of weights."""

        def outputs(params: Any, points: Any) -> Any:
            found = self._jax.vmap(lambda point: self._loss.u(point, params))(points)
            return found.reshape(len(points), -1)

        return self.by_weights(places, outputs)

    def misfits_by_weights(
        self, names: Sequence[str], batch: Any, places: Sequence[Any]
    ) -> JaxFunction:
        """Return misfits of terms of the loss, (K, 1), whose squares have the sum of the terms."""
        whole, batch = self._cast_all(batch)
        return self.by_weights(
            places, lambda params, _: self._misfits(whole, names, params, batch), pointwise=False
        )

    def _misfits(self, whole: Any, names: Sequence[str], params: Any, batch: Any) -> Any:
        numbers = self._jax.numpy
        terms = whole.evaluate_per_sample(params, batch)
        rows = []
        for name in names:
            for part in self._jax.tree.leaves(getattr(terms, name)):
                # jinns takes the sum over components and the mean over everything else.
                each = numbers.atleast_2d(part)
                rows.append(each.reshape(-1, 1) / (each.size / each.shape[-1]) ** 0.5)
        return numbers.concatenate(rows)

    def slot(
        self,
        places: Sequence[Any],
        names: Sequence[str],
        batch: Any,
        freeze: Callable[[JinnsModel, Parameters], FrozenResidual],
        numbers: FloatArray,
        points: FloatArray,
    ) -> FieldSlot | None:
        """Return the model with a place for any field; None for networks made of several.

        The field takes the place of the network within the PINN, so that transforms of inputs and
        outputs stay.

        Parameters
        ----------
        places : sequence
            Of the numbers.
        names, batch : sequence of str, tree or None
            Conditions of the training, and their points where these are known.
        freeze : callable
        numbers : array
            Stored numbers.
        points : array
        """
        kind, plain = type(self._loss.u), foreign("jinns", "jinns", "twoaxis.from_jinns").nn.PINN
        if kind.__call__ is not plain.__call__ or kind.eval is not plain.eval:
            return None
        from twoaxis.adapters.jax_jets import Trained as TrainedNetwork
        from twoaxis.adapters.jax_jets import jax_slot

        jax, equinox, static = self._jax, self._equinox, self._loss.u.static
        inexact = equinox.is_inexact_array

        def weigh(part: Any) -> int:
            return sum(each.size for each in jax.tree.leaves(equinox.filter(part, inexact)))

        def network(weights: Any) -> Any:
            return equinox.combine(self._flat()[1](weights), static)

        def put(network: Any, stored: Any) -> tuple[Any, Any]:
            return put_network(equinox, self._loss.u, self._moved(tuple(places), stored), network)

        def equations(network: Any, stored: Any, at: Any) -> Any:
            u, params = put(network, stored)
            found = equations_at(jax, self._loss.dynamic_loss, u, params, at)
            return jax.numpy.concatenate(found, axis=1)

        def outputs(network: Any, stored: Any, at: Any) -> Any:
            u, params = put(network, stored)
            return jax.vmap(lambda point: u(point, params))(at).reshape(len(at), -1)

        def misfits(network: Any, stored: Any, _: Any) -> Any:
            u, params = put(network, stored)
            return self._misfits(changed(whole, "u", u), names, params, cast)

        def frozen(network: Any, known: Parameters) -> FrozenResidual:
            u, params = put_network(equinox, self._loss.u, self._params, network)
            return freeze(JinnsModel(jax, changed(self._loss, "u", u), params, "float64"), known)

        whole, cast = (None, None) if batch is None else self._cast_all(batch)
        weights = self.weights
        with self._exact():
            start = network(jax.numpy.asarray(weights))
        trained = TrainedNetwork(start, weights, network, weigh)
        return jax_slot(
            trained,
            equations,
            outputs,
            None if batch is None else misfits,
            frozen,
            numbers,
            points,
        )


def changed(module: Any, name: str, value: Any) -> Any:
    """Return a module of equinox with another attribute, static or not."""
    found = copy.copy(module)
    object.__setattr__(found, name, value)
    return found


def put_network(equinox: Any, u: Any, params: Any, network: Any) -> tuple[Any, Any]:
    """Return a PINN and parameters with another network: jinns combines both when it is called."""
    arrays, static = equinox.partition(network, equinox.is_inexact_array)
    return changed(u, "static", static), changed(params, "nn_params", arrays)


# ---------------------------------------------------------------- observations and batch


def _is_generator(observed: Any) -> bool:
    return hasattr(observed, "observed_pinn_in") and hasattr(observed, "observed_values")


def _sets(observed: Any) -> list[tuple[Any, Any]]:
    """Return places and values of each set of observations; jinns shares what is the same."""
    places, values = observed.observed_pinn_in, observed.observed_values
    count = max(len(places), len(values))
    return [(places[n % len(places)], values[n % len(values)]) for n in range(count)]


def _readings(loss: Any, model: JinnsModel, observed: Any) -> list[Readings]:
    """Return the observations of a generator, with what the field predicts for them."""
    if observed is None or not _is_generator(observed):
        return []
    found = []
    for number, (places, values) in enumerate(_sets(observed)):
        where, seen = as_numpy(places), as_numpy(values)
        cut = loss.obs_slice[number % len(loss.obs_slice)]
        # jinns cuts the output of one point, whose components come last.
        outputs = model.outputs(where, {})
        columns = np.atleast_1d(np.arange(outputs.shape[1])[cut])
        columns = np.broadcast_to(columns, seen.shape[1:]).tolist()
        found.append(
            Readings(f"observations {number + 1}", where, seen, outputs[:, columns], columns)
        )
    return found


def _whole_batch(
    jax: Any, jinns: Any, loss: Any, names: Iterable[str], points: Any, observed: Any
) -> Any:
    """Return all points of the training as one batch, or say why that is not possible."""
    if not hasattr(points, "get_batch"):
        return "the residual points were given as an array; pass the data generator as points"
    terms = _keys(loss)
    stopped = [] if _keys_of_network(jax, loss) else _stopped(loss, names)
    if stopped or not all(np.all(jax.tree.leaves(each.nn_params)) for each in terms):
        return (
            "derivative_keys stop derivatives of the loss"
            + (f" by {', '.join(stopped)}" if stopped else "")
            + ", so that training followed another gradient than that of the loss"
        )
    weights = loss.loss_weights.observations
    wanted = any(w is not None and np.any(as_numpy(w)) for w in _several(weights))
    generator = observed is not None and _is_generator(observed)
    if wanted and not generator:
        return (
            "the loss has observations; pass their generator, the ninth output of jinns.solve, as "
            "observed"
        )
    seen = None
    if generator:
        if any(each is not None for each in observed.observed_eq_params):
            return "observations come with parameters of their own"
        seen = tuple(
            {"pinn_in": places, "val": values, "eq_params": None}
            for places, values in _sets(observed)
        )
    return _batch(jinns, loss, points, seen)


def _keys(loss: Any) -> list[Any]:
    """Return the derivative keys of all terms of a loss."""
    keys = loss.derivative_keys
    return [each for each in (getattr(keys, f.name) for f in fields(keys)) if each is not None]


def _stopped(loss: Any, names: Iterable[str]) -> list[str]:
    """Return the unknowns by which the residual loss has no derivative."""
    mask = loss.derivative_keys.dyn_loss.eq_params
    # jinns turns these flags into arrays while it trains.
    return [n for n in names if not np.all(getattr(mask, entry_index(n)[0], True))]


def _keys_of_network(jax: Any, loss: Any) -> bool:
    """Whether no term of a loss has a derivative by any unknown of the equation.

    Such a loss returns from ``jinns.solve_alternate``, which sets the keys before each of its
    turns and ends with that of the network, whatever it has done to the unknowns. From
    ``jinns.solve`` it returns, too, if nothing was said of the keys: then no unknown was moved.
    """
    return not any(np.any(leaf) for each in _keys(loss) for leaf in jax.tree.leaves(each.eq_params))


def _batch(jinns: Any, loss: Any, points: Any, seen: Any) -> Any:
    """Return all points of a data generator, and observations, as one batch."""
    batches = jinns.data
    kind = loss.u.eq_type
    if kind == "ODE":
        return batches.ODEBatch(temporal_batch=points.times, obs_batch_dict=seen)
    if kind == "PDEStatio":
        border = points.omega_border
        if border is not None and points.dim == 1:
            border = border[None, None]
        return batches.PDEStatioBatch(
            domain_batch=points.omega, border_batch=border, obs_batch_dict=seen
        )
    return batches.PDENonStatioBatch(
        domain_batch=points.domain,
        border_batch=points.border,
        initial_batch=points.initial,
        obs_batch_dict=seen,
    )


def _imposed(jax: Any, loss: Any) -> list[str]:
    """Return the terms of the loss that impose a condition on the network."""
    found = {"boundary_loss": "boundary_condition", "initial_condition": "initial_condition"}
    if loss.u.eq_type == "PDENonStatio":
        found["initial_condition"] = "initial_condition_fun"
    keys = loss.derivative_keys
    return [
        name
        for name, member in found.items()
        if getattr(loss, member, None) is not None
        and np.any(as_numpy(getattr(loss.loss_weights, name, None) or 0.0))
        and np.all(jax.tree.leaves(getattr(keys, name).nn_params))
    ]


def _condition_notes(loss: Any, imposed: Sequence[str], generated: bool) -> list[Message]:
    """Say which conditions of the training are not among those of the weights."""
    lost = [] if generated else [name.replace("_", " ") for name in imposed]
    if getattr(loss, "norm_samples", None) is not None:
        lost.append("normalization")
    if not lost:
        return []
    text = f"conditions of the training that are not known as functions of weights: {lost}"
    return [Message("conditions.unknown", text)]


def _several(given: Any) -> tuple[Any, ...]:
    return given if isinstance(given, tuple) else (given,)


def _refuse_fields(loss: Any, names: Iterable[str]) -> None:
    """Refuse an unknown that the equation itself computes at every point."""
    for name in names:
        leaf = entry_index(name)[0]
        for each in loss.dynamic_loss:
            if getattr(getattr(each, "eq_params_heterogeneity", None), leaf, None) is not None:
                raise InputError(
                    f"an unknown {leaf} that is a number",
                    f"a field: eq_params_heterogeneity of {type(each).__name__} computes {leaf} at "
                    "every point",
                    UNKNOWN_FIELD,
                )


def _read_unknowns(
    jax: Any, eq_params: Any, names: Iterable[str], transform: Mapping[str, Transform]
) -> list[Unknown]:
    """Return the named unknowns with the values that ``params.eq_params`` has for them."""
    names = list(names)
    check_names("transform", transform, names)
    held = {field.name: getattr(eq_params, field.name) for field in fields(eq_params)}
    found = []
    for name in names:
        leaf, index = entry_index(name)
        if leaf not in held:
            raise InputError(
                f"names among eq_params: {', '.join(held)}",
                repr(name),
                f"write it as in Params; {UNKNOWN_FIELD}",
            )
        if not hasattr(held[leaf], "dtype"):
            raise InputError(
                f"a number or an array of numbers as eq_params.{leaf}",
                type(held[leaf]).__name__,
                UNKNOWN_FIELD,
            )
        values = as_numpy(held[leaf])
        place = _place(name, leaf, index, values)
        arithmetic = JaxArithmetic(jax)
        found.append(
            read_unknown(name, (leaf, place), values.flat[place], arithmetic, transform.get(name))
        )
    return found


def _with_shapes(eq_params: Any, parameters: Any) -> Any:
    """Return the parameters with delivered values for arrays, whose default scale they are."""
    if not isinstance(parameters, Mapping):
        return parameters
    return {
        name: replace(each, delivered=as_numpy(getattr(eq_params, name)))
        if isinstance(each, ParameterArray)
        and each.delivered is None
        and hasattr(eq_params, str(name))
        else each
        for name, each in parameters.items()
    }


def _place(name: str, leaf: str, index: tuple[int, ...] | None, values: FloatArray) -> int:
    """Return the flat place of an entry of ``eq_params``."""
    flat = (values.size,) if index is not None and len(index) == 1 else values.shape
    if index is None and values.size == 1:
        return 0
    inside = index is not None and len(index) == len(flat)
    if not inside or any(n >= size for n, size in zip(index or (), flat, strict=False)):
        first = entry_name(leaf, (0,) * max(values.ndim, 1))
        raise InputError(
            f"one number of eq_params.{leaf}, which has the shape {values.shape}",
            repr(name),
            f"name one entry, as in {first!r}, or pass a twoaxis.ParameterArray for all of them"
            if values.size > 1
            else f"write {leaf!r}",
        )
    return int(np.ravel_multi_index(index or (), flat))


def _training_notes(
    jax: Any,
    loss: Any,
    model: JinnsModel,
    points: FloatArray,
    unknowns: Sequence[Unknown],
    parameters: Mapping[str, Parameter],
) -> list[Message]:
    """Return what a reader must know of this training."""
    notes = []
    held = _stopped(loss, parameters)
    if held and _keys_of_network(jax, loss):
        leaves = list(dict.fromkeys(entry_index(name)[0] for name in held))
        text = (
            f"derivative_keys let no term of the loss move {listed(leaves)}. If jinns.solve "
            "trained with these keys, the default of jinns, the values are the initial ones; "
            "jinns.solve_alternate returns such keys although it has trained the values"
        )
        notes.append(Message("training.keys_of_network", text, "warning"))
        held = []
    plain = model.outputs(points, {})[:, 0]
    for each in unknowns:
        name, place = each.name, each.place
        assert isinstance(place, tuple)
        if name in held:
            text = (
                f"the residual loss did not move {name} in training: derivative_keys.dyn_loss "
                "leaves it out"
            )
            notes.append(Message("training.residual_held", text, "warning"))
        moved = model.outputs(points, {place: each.stored(parameters[name].bounds[0])})[:, 0]
        if not np.array_equal(plain, moved):
            text = f"the network takes {name} as an input or in a transform, and changes with it"
            notes.append(Message("field.has_parameter", text, "warning"))
    return notes


def _check_loss(jinns: Any, loss: Any) -> None:
    kinds = (jinns.loss.LossODE, jinns.loss.LossPDEStatio, jinns.loss.LossPDENonStatio)
    if not isinstance(loss, kinds):
        outputs = "all outputs of jinns.solve" if isinstance(loss, tuple) and len(loss) > 4 else ""
        raise InputError(
            "a loss of jinns: LossODE, LossPDEStatio or LossPDENonStatio",
            outputs or type(loss).__name__,
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
    return as_points(points)


def _equation_names(loss: Any, widths: Sequence[int]) -> tuple[str, ...]:
    """Return the classes of the dynamic losses, a name for each component; none for one."""
    names = [type(each).__name__ for each in loss.dynamic_loss]
    every = [name for name, width in zip(names, widths, strict=True) for _ in range(width)]
    return numbered(every) if len(every) > 1 else ()


def _axes(loss: Any, columns: int) -> tuple[str, ...]:
    time = ("t",) if loss.u.eq_type in ("ODE", "PDENonStatio") else ()
    return time + space_axes(columns - len(time))


def _training_weights(loss: Any, components: Sequence[int]) -> list[float]:
    """Return the loss weight of every component; jinns sums over the components."""
    given = loss.loss_weights.dyn_loss
    each = given if isinstance(given, tuple) else (given,) * len(components)
    factors = [1.0 if w is None else float(w) for w in each]
    return [f for f, count in zip(factors, components, strict=True) for _ in range(count)]

"""PINA: a trained solver of an inverse problem.

The residual is what the solver's own conditions compute, ``equation.residual(input_, output_,
params_)``, at the points that training used. It is evaluated with a twin of the solver that
holds a copy of the networks, so the solver itself is never touched.

What a PINA solver knows of its training: the points, the adaptive weights, what to tell of it.

Adaptive solvers keep their weights in the order of the training batch, which the trainer
shuffles. Points are therefore taken from the trainer's own data set, in that same order.

A twin of a PINA solver: its networks, copied, and the residuals of its equations with them.

The twin shares everything else with the solver, which is therefore never touched: neither its
weights and gradients, nor its modes, nor the unknowns that it holds.

The unknowns of a PINA problem: ranges, delivered values, and the transforms of an equation.

The view that a PINA solver was trained under: weights of conditions, columns and points.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twoaxis.adapters.building import as_numpy, foreign, same_random_numbers, with_delivered
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameter, Parameters
from twoaxis.views import Blocks, Pointwise, View, Weighted

Transform = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def unknown_parameters(
    torch: Any,
    problem: Any,
    given: Mapping[str, Parameter] | None,
    transform: Mapping[str, Transform],
) -> tuple[dict[str, Parameter], list[str]]:
    """Return every unknown as a Parameter with its delivered value, and what to tell of it."""
    stored = problem.unknown_parameters
    known = Parameters(given) if given is not None else {}
    for what, names in (("parameters", known), ("transform", transform)):
        strange = [name for name in names if name not in stored]
        if strange:
            raise InputError(
                f"{what} with names of the problem's unknowns: {', '.join(stored)}",
                ", ".join(map(repr, strange)),
                "spell them as in unknown_parameter_domain",
            )
    for name, pair in transform.items():
        _check_transform(torch, name, pair, stored[name])
    unknowns, told = {}, []
    for name, tensor in stored.items():
        if tensor.numel() != 1:
            raise InputError(
                f"one number as the unknown {name}",
                f"a tensor of shape {tuple(tensor.shape)}",
                "give each entry a name of its own in unknown_parameter_domain",
            )
        value = _physical(torch, transform, name, float(tensor.detach()))
        if name in known:
            unknowns[name] = with_delivered({name: known[name]}, {name: value})[name]
        else:
            limits = problem.unknown_parameter_domain.range[name]
            ends = sorted(_physical(torch, transform, name, float(end)) for end in limits)
            unknowns[name], words = _from_range(name, (ends[0], ends[1]), value)
            told += words
    return unknowns, told


def to_stored(transform: Mapping[str, Transform], name: str, physical: Any) -> Any:
    """Return what the equation is given for a physical value, as a tensor."""
    return transform[name][1](physical) if name in transform else physical


def _physical(torch: Any, transform: Mapping[str, Transform], name: str, stored: float) -> float:
    if name not in transform:
        return stored
    with torch.no_grad():
        return float(transform[name][0](torch.tensor(stored, dtype=torch.float64)))


def _from_range(
    name: str, bounds: tuple[float, float], value: float
) -> tuple[Parameter, list[str]]:
    """Return the Parameter that a problem's range describes."""
    told = []
    low, high = bounds
    if not low < value < high:
        # PINA clamps the unknowns before a step and not after it.
        told.append(
            f"training ended with {name} = {value:.6g} at the edge of its range [{low:g}, {high:g}]"
        )
        low, high = min(low, value), max(high, value)
    if low > 0:
        return Parameter(bounds=(low, high), delivered=value), told
    told.append(
        f"the range of {name} holds zero or negative values, so it is diagnosed in linear "
        f"coordinates; pass parameters={{{name!r}: twoaxis.Parameter(...)}} to choose"
    )
    linear = Parameter(bounds=(low, high), coordinate="linear")
    return replace(linear, delivered=value), told


def _check_transform(torch: Any, name: str, pair: Any, stored: Any) -> None:
    if not (isinstance(pair, tuple) and len(pair) == 2 and all(map(callable, pair))):
        raise InputError(
            f"the transform of {name} as two functions, stored to physical and back",
            repr(pair),
            f"write transform={{{name!r}: (torch.exp, torch.log)}}",
        )
    value = stored.detach().double()
    back = pair[1](pair[0](value))
    if not torch.allclose(back, value, rtol=1e-9, atol=1e-12):
        raise InputError(
            f"a transform of {name} whose second function undoes its first",
            f"{float(back):g} back from {float(value):g}",
            f"write transform={{{name!r}: (torch.exp, torch.log)}}, or the like",
        )


FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Trained:
    """A condition with an equation, and the points at which training used it."""

    name: str
    condition: Any
    points: Any

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the coordinates."""
        return tuple(self.points.labels)

    def moved(self, points: Any) -> Trained:
        """Return the same condition elsewhere."""
        return replace(self, points=points)


@dataclass(frozen=True)
class Part:
    """One column of a residual: the values, and the number of its term."""

    values: Any
    term: int


class Twin:
    """The solver's networks, copied, and the residuals of its equations with them."""

    def __init__(
        self,
        torch: Any,
        pina: Any,
        solver: Any,
        precision: str,
        transform: Mapping[str, Transform],
    ) -> None:
        self.torch, self.label_tensor = torch, pina.LabelTensor
        self.problem, self.transform = solver.problem, transform
        try:
            models = copy.deepcopy(solver._pina_models).eval().requires_grad_(False)
        except RuntimeError as error:
            raise InputError(
                "networks that can be copied",
                f"ones that cannot ({error})",
                "remove weight normalisation of the old kind with "
                "torch.nn.utils.remove_weight_norm, or use torch.nn.utils.parametrizations",
            ) from error
        trained = next((p.dtype for p in models.parameters()), torch.get_default_dtype())
        if precision == "float64":
            models.double()
        tensors = list(models.parameters())
        self.dtype = tensors[0].dtype if tensors else torch.float64
        self.device = tensors[0].device if tensors else torch.device("cpu")
        self.notes = _precision_notes(torch, trained, self.dtype)
        # The twin shares everything with the solver but the networks; its forward is the one of
        # the class, without the wrapper that is bound to the original.
        twin = object.__new__(type(solver))
        twin.__dict__.update(solver.__dict__)
        twin.__dict__["_modules"] = {**solver._modules, "_pina_models": models}
        twin.__dict__["_trainer"] = None
        twin.__dict__.pop("forward", None)
        ensemble = foreign("pina.solver", "pina", "twoaxis.from_pina").EnsembleSolver
        self.members: Sequence[int | None] = (
            range(len(models)) if isinstance(solver, ensemble) else (None,)
        )
        self.solver = twin

    def labelled(self, points: Any, axes: Sequence[str]) -> Any:
        """Return points as PINA takes them, in the precision of the twin."""
        plain = self.torch.as_tensor(as_numpy(points), dtype=self.dtype, device=self.device)
        # A clone: the frozen points must not follow what training does to its own.
        return self.label_tensor(plain.clone(), list(axes))

    def output(self, samples: Any, member: int | None = None) -> Any:
        """Return the learned field at labelled points."""
        if member is not None:
            self.solver.__dict__["_active_model_idx"] = member
        inputs = samples.extract(self.problem.input_variables)
        found = type(self.solver).forward(self.solver, inputs).as_subclass(self.label_tensor)
        found.labels = self.problem.output_variables
        return found

    def field(self, points: Any) -> FloatArray:
        """Return the first output at the points, a mean over the members of an ensemble."""
        with self.quiet():
            found = [as_numpy(self.output(points, member).tensor)[:, 0] for member in self.members]
        mean: FloatArray = np.mean(found, axis=0)
        return mean

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Keep the random numbers of PyTorch, Python and NumPy as they are."""
        devices = [self.device] if self.device.type == "cuda" else []
        kept = self.torch.random.fork_rng(devices)
        with same_random_numbers(), kept, self.torch.inference_mode(False):
            yield

    def residual(self, terms: Sequence[Trained], values: Mapping[str, Any]) -> list[Part]:
        """Return the columns of all residuals at physical values."""
        return self._evaluated(terms, values)[0]

    def columns(
        self, terms: Sequence[Trained], values: Mapping[str, Any]
    ) -> tuple[list[Part], FloatArray]:
        """Return the residual and its derivatives by the physical values, (N, d)."""
        parts, leaves = self._evaluated(terms, values)
        torch = self.torch
        blocks = []
        for part in parts:
            block = np.zeros((len(part.values), len(leaves)))
            if part.values.requires_grad:
                # The pullback is linear in its weights; its own derivative is the Jacobian.
                weights = torch.ones_like(part.values).requires_grad_(True)
                pulled = torch.autograd.grad(
                    part.values, leaves, weights, create_graph=True, allow_unused=True
                )
                for number, each in enumerate(pulled):
                    if each is not None and each.requires_grad:
                        (column,) = torch.autograd.grad(each, weights, retain_graph=True)
                        block[:, number] = as_numpy(column)
            blocks.append(block)
        return parts, np.concatenate(blocks)

    def _evaluated(
        self, terms: Sequence[Trained], values: Mapping[str, Any]
    ) -> tuple[list[Part], list[Any]]:
        torch = self.torch
        parts = []
        with self.quiet(), torch.enable_grad():
            leaves = {
                name: torch.tensor(
                    [float(value)], dtype=self.dtype, device=self.device, requires_grad=True
                )
                for name, value in values.items()
            }
            stored = {name: to_stored(self.transform, name, leaf) for name, leaf in leaves.items()}
            for number, term in enumerate(terms):
                for member in self.members:
                    found = self._condition(term, member, stored)
                    parts += [Part(found[:, k], number) for k in range(found.shape[1])]
        return parts, list(leaves.values())

    def _condition(self, term: Trained, member: int | None, stored: Mapping[str, Any]) -> Any:
        """Return one condition's residual as a tensor (N, m)."""
        samples = term.points.clone().requires_grad_(True)
        try:
            found = term.condition.equation.residual(samples, self.output(samples, member), stored)
        except (RuntimeError, TypeError, ValueError, KeyError) as error:
            raise InputError(
                f"an equation of the condition {term.name!r} that can be evaluated at its points",
                f"{type(error).__name__}: {error}",
                'pass precision="model" if it computes in float32 alone; otherwise check the names '
                "in params_ and the labels",
            ) from error
        plain = found.as_subclass(self.torch.Tensor)
        if plain.ndim == 0 or len(plain) != len(samples):
            raise InputError(
                f"a residual of the condition {term.name!r} with a row for each of its "
                f"{len(samples)} points",
                f"the shape {tuple(plain.shape)}",
                "return the residual of every point, without a mean or a sum over them",
            )
        return plain.reshape(len(samples), -1)


def _precision_notes(torch: Any, trained: Any, used: Any) -> tuple[str, ...]:
    if trained == torch.float64:
        return ()
    name = str(trained).removeprefix("torch.")
    if used == trained:
        return (
            f"the residual is evaluated in {name}, the precision of the training; "
            'precision="float64" evaluates a copy of the networks in double precision',
        )
    return (f"the networks were trained in {name}; a copy of them is evaluated in float64",)


def check_trained(solver: Any, given: Mapping[str, Parameter]) -> None:
    """Refuse unknowns that no training has moved.

    Unknowns are not part of a checkpoint: a solver that was loaded from one holds the random
    values with which its problem was built.
    """
    trainer = solver._trainer
    if trainer is not None and trainer.global_step > 0:
        return
    missing = [
        name
        for name in solver.problem.unknown_parameters
        if name not in given or given[name].delivered is None
    ]
    if missing:
        raise InputError(
            "a solver that its Trainer has trained",
            "one without a training step. A PINA checkpoint does not hold the unknowns, so those "
            f"of a loaded solver are the random start: {', '.join(missing)}",
            "run Trainer.train(); for a loaded solver pass the values that training returned, "
            f"as in parameters={{{missing[0]!r}: twoaxis.Parameter(delivered=..., bounds=...)}}",
        )


def training_points(torch: Any, twin: Twin, solver: Any, name: str) -> Any:
    """Return the points of one condition, labelled, in the order of the training batch."""
    condition = solver.problem.conditions[name]
    subset = _subset(solver, name)
    domain = getattr(condition, "domain", None)
    sampled = solver.problem.discretised_domains
    if subset is not None:
        points = subset.condition.data.input[subset.indices]
    elif domain is not None and domain in sampled:
        points = sampled[domain]
    elif getattr(condition, "data", None) is not None:
        points = condition.data.input
    else:
        raise InputError(
            f"sampled points of the condition {name!r}",
            f"a domain {domain!r} without any",
            "call problem.discretise_domain(...) as before training",
        )
    if not isinstance(points, twin.label_tensor):
        raise InputError(
            f"points of the condition {name!r} as a LabelTensor",
            type(points).__name__,
            "use twoaxis.from_torch with a residual of your own for graphs",
        )
    first = [axis for axis in solver.problem.input_variables if axis in points.labels]
    axes = first + [label for label in points.labels if label not in first]
    found = twin.labelled(points.extract(axes).tensor, axes)
    return _causal_grid(torch, twin, solver, found) if is_causal(solver, name) else found


def training_notes(solver: Any, terms: Sequence[Trained], left_out: Sequence[str]) -> list[str]:
    """Return what a reader must know of this training."""
    notes = []
    loss = type(solver.loss).__name__
    squares = loss == "MSELoss" or (
        loss == "PowerLoss" and solver.loss.p == 2 and not solver.loss.relative
    )
    if not squares:
        notes.append(f"trained with {loss}; the diagnosis looks at the mean of squares")
    if left_out:
        notes.append(f"conditions outside of this residual: {', '.join(left_out)}")
    weighted = [term.name for term in terms if adaptive(solver, term.name) is not None]
    lost = [name for name in weighted if not order_is_known(solver, name)]
    if lost:
        notes.append(
            f"the adaptive weights of {', '.join(lost)} are left out of the view: they belong to "
            "places in a batch, and which points lay there is known for a training in one batch "
            "whose trainer is still attached; pass loss_weights= if you know them"
        )
    elif weighted:
        notes.append("the view holds the adaptive weights of the last training step")
    if any(is_causal(solver, term.name) for term in terms):
        notes.append("points are the causal solver's time steps; the view holds its weights there")
    gradient = is_a(solver, "GradientPhysicsInformedSingleModelSolver")
    if gradient and any(term.name in solver.regularized_conditions for term in terms):
        notes.append("the penalty on the residual's gradient is not part of the view")
    if _ascends(solver):
        notes.append(
            "PINA gives the unknowns to both optimizers of this solver, and one of them ascends: "
            "with equal learning rates the unknowns hardly move from where they started"
        )
    return notes


def adaptive(solver: Any, name: str) -> Any:
    """Return the weights that an adaptive solver keeps for a condition, or None."""
    if is_a(solver, "SelfAdaptivePhysicsInformedSolver"):
        return solver.weights.func(getattr(solver.weights, name).detach())
    buffers = getattr(solver, "weight_buffers", {})  # residual-based attention
    return getattr(solver, buffers[name]) if name in buffers else None


def order_is_known(solver: Any, name: str) -> bool:
    """Whether the training batch was all points of the condition, in an order that we know."""
    subset = _subset(solver, name)
    if subset is None:
        return False
    module = solver._trainer.datamodule
    if module.batch_size is None:
        return True
    whole: bool = module.batch_size >= len(subset.indices)
    return whole and module.batching_mode != "proportional"


def _subset(solver: Any, name: str) -> Any:
    """Return the training data of a condition, where a trainer is attached."""
    module = getattr(solver._trainer, "datamodule", None)
    return getattr(module, "train_datasets", {}).get(name)


def is_a(solver: Any, name: str) -> bool:
    """Whether the solver is of a class of PINA."""
    return isinstance(solver, getattr(foreign("pina.solver", "pina", "twoaxis.from_pina"), name))


def is_causal(solver: Any, name: str) -> bool:
    """Whether the loss of a condition follows the time steps of a causal solver."""
    causal = is_a(solver, "CausalPhysicsInformedSingleModelSolver")
    return causal and name in solver.regularized_conditions


def time_steps(solver: Any) -> int:
    """Return how many time steps a causal solver takes."""
    return int(solver.n_steps) if solver.problem.temporal_domain.range else 1


def _causal_grid(torch: Any, twin: Twin, solver: Any, points: Any) -> Any:
    """Return the points that the causal loss visits: all places at every time step."""
    time, domain = solver.temporal_variable, solver.problem.temporal_domain
    ends = domain.range[time] if domain.range else (domain.fixed[time],) * 2
    steps = torch.linspace(*map(float, ends), time_steps(solver), dtype=twin.dtype)
    axes = list(points.labels)
    plain = as_numpy(points.tensor)
    at = axes.index(time)
    grid = np.concatenate([np.insert(np.delete(plain, at, 1), at, s, 1) for s in as_numpy(steps)])
    return twin.labelled(grid, axes)


def _ascends(solver: Any) -> bool:
    """Whether the solver's second optimizer, which maximises the loss, holds the unknowns."""
    if not any(
        is_a(solver, name)
        for name in ("SelfAdaptivePhysicsInformedSolver", "CompetitivePhysicsInformedSolver")
    ):
        return False
    unknowns = {id(tensor) for tensor in solver.problem.unknown_parameters.values()}
    instance = getattr(solver._pina_optimizers[1], "instance", None)
    groups = [] if instance is None else instance.param_groups
    return any(id(tensor) in unknowns for group in groups for tensor in group["params"])


def view_of_training(
    view: View | None,
    loss_weights: Any,
    solver: Any,
    twin: Twin,
    terms: Sequence[Trained],
    parts: Sequence[Part],
) -> View:
    """Return the given view, or the quadratic form that the residual loss was.

    PINA's loss of a condition is the mean over points and columns, times its weight.
    """
    if view is not None:
        if loss_weights is not None:
            raise InputError(
                "a view, or loss weights from which it follows", "both", "leave one of them out"
            )
        return view
    if loss_weights is not None:
        return _blocks(_given_weights(loss_weights, [len(part.values) for part in parts]))
    weights = []
    for number, term in enumerate(terms):
        own = [part for part in parts if part.term == number]
        count, columns = len(term.points), len(own) // len(twin.members)
        factor = _condition_weight(solver, term.name) / len(twin.members)
        factor *= 1 / columns if solver._reduction == "mean" else count
        by_point = _point_weights(solver, twin, term, own)
        for k in range(len(own)):
            weights.append(factor * (np.ones(1) if by_point is None else by_point[:, k % columns]))
    return _blocks(weights)


def _blocks(weights: Sequence[FloatArray]) -> View:
    """Return the view of several equations from a factor, or one for each point, of each."""
    views: list[View] = [
        Weighted(loss_weights=w) if w.size > 1 and np.ptp(w) > 0 else Pointwise() for w in weights
    ]
    if len(views) == 1:
        return views[0]
    factors = [
        1.0 if isinstance(v, Weighted) else w[0] for v, w in zip(views, weights, strict=True)
    ]
    return Blocks(views, weights=factors)


def _given_weights(loss_weights: Any, sizes: Sequence[int]) -> list[FloatArray]:
    """Return the user's weights, one array for each equation."""
    several = isinstance(loss_weights, Sequence) and len(loss_weights) == len(sizes)
    each = loss_weights if several else [loss_weights] * len(sizes)
    found = [as_numpy(w).reshape(-1) for w in each]
    if any(w.size not in (1, size) for w, size in zip(found, sizes, strict=True)):
        raise InputError(
            f"loss weights for equations with {', '.join(map(str, sizes))} points: one number or "
            "one for each point",
            f"{', '.join(str(w.size) for w in found)} numbers",
            "pass loss_weights=[w_1, w_2, ...] in the order of the equations",
        )
    return found


def _condition_weight(solver: Any, name: str) -> float:
    """Return the factor of one condition in the loss at the last step."""
    saved = solver.weighting.last_saved_weights()
    if name not in saved and hasattr(solver.weighting, "default_value_weights"):
        saved = solver.weighting.update_weights({name: None})  # fixed numbers: a pure look-up
    return float(saved.get(name, 1.0))


def _point_weights(
    solver: Any, twin: Twin, term: Trained, own: Sequence[Part]
) -> FloatArray | None:
    """Return the factor of every point and column, (N, m), where the solver has any."""
    columns = len(own) // len(twin.members)
    if is_causal(solver, term.name):
        squares = np.stack([as_numpy(part.values) ** 2 for part in own], axis=-1)
        steps = squares.reshape(time_steps(solver), -1, columns)
        decay: FloatArray = np.exp(-float(solver.eps) * np.cumsum(steps, axis=0))
        return decay.reshape(-1, columns)
    if is_a(solver, "CompetitivePhysicsInformedSolver"):
        with twin.quiet():
            inputs = term.points.extract(solver.problem.input_variables)
            bets = as_numpy(twin.solver.discriminator(inputs).as_subclass(twin.torch.Tensor))
        return np.broadcast_to(bets.reshape(len(term.points), -1) ** 2, (len(bets), columns))
    weights = adaptive(solver, term.name)
    if weights is None or not order_is_known(solver, term.name):
        return None
    kept = as_numpy(weights)[: len(term.points)].reshape(-1, 1)
    return np.broadcast_to(kept, (len(kept), columns)) if kept.any() else None


Precision = Literal["float64", "model"]


def from_pina(
    solver: Any,
    parameters: Mapping[str, Parameter] | None = None,
    *,
    condition: str | Sequence[str] | None = None,
    transform: Mapping[str, Transform] | None = None,
    view: View | None = None,
    loss_weights: Any = None,
    precision: Precision = "float64",
) -> FrozenResidual:
    """Freeze a trained PINA solver into its residual.

    Parameters
    ----------
    solver : pina.solver.BaseSolver
        A physics-informed solver of an ``InverseProblem``, after ``Trainer.train()``.
    parameters : mapping of str to Parameter, optional
        What is known of the unknowns beyond the problem: a truth, bounds, a coordinate. An
        unknown that is not named takes its bounds from ``unknown_parameter_domain``, and is
        diagnosed in its logarithm where that range is positive. The delivered values are read
        from the problem.
    condition : str or sequence of str, optional
        The conditions that make up the residual; by default those with an equation whose
        residual changes with an unknown. Data and plain boundary conditions stay out; a
        boundary condition that holds an unknown is evidence about it and is part of them.
    transform : mapping of str to pair of functions, optional
        For an unknown that the equation uses through a function: ``{"k": (torch.exp,
        torch.log)}``, stored value to physical value and back. The diagnosis then speaks of
        the physical value, and so do the bounds and the truth.
    view : View, optional
        The metric of the residual loss; by default the one that the solver was trained under,
        with the weights of the conditions and of adaptive solvers at the last step.
    loss_weights : optional
        In place of a view: factors of the squared residual, a number or one number for each
        point; for several equations a sequence of such.
    precision : {"float64", "model"}
        A copy of the networks in double precision, or in the precision of the training.

    Returns
    -------
    FrozenResidual
        One equation for each column of each condition (and each network of an ensemble).

    Examples
    --------
    After ``trainer.train()``::

        frozen = ta.from_pina(solver, {"k": ta.Parameter(truth=0.2, bounds=(0.02, 2.0))})
        print(ta.audit(frozen, tolerance=ta.Tolerance(material=5, resolution=5, preference=5)))

    A whole training with its audit is in ``examples/pina_inverse.py``.
    """
    torch = foreign("torch", "pina", "twoaxis.from_pina")
    pina = foreign("pina", "pina", "twoaxis.from_pina")
    if precision not in ("float64", "model"):
        raise InputError('precision "float64" or "model"', repr(precision), "choose one of them")
    problem = _checked_problem(pina, solver)
    unknowns, told = unknown_parameters(torch, problem, parameters, transform or {})
    check_trained(solver, parameters or {})
    twin = Twin(torch, pina, solver, precision, transform or {})
    candidates = [
        Trained(name, each, training_points(torch, twin, solver, name))
        for name, each in problem.conditions.items()
        if hasattr(each, "equation")
    ]
    terms, unseen, left_out = _chosen(solver, candidates, condition, twin, unknowns)
    delivered = {name: p.delivered for name, p in unknowns.items()}
    parts = twin.residual(terms, delivered)
    differentiable = not _lost(twin.columns(terms, delivered)[1], unseen)
    where = [as_numpy(terms[each.term].points) for each in parts]
    shared = len(terms) == 1
    notes = (*twin.notes, *told, *training_notes(solver, terms, left_out))
    if not differentiable:
        notes += ("an equation cuts the derivative by an unknown: centred differences stand in",)
    notes += tuple(
        f"the residual does not change with {name}: H = 0 there, it does not see {name}"
        for name in unseen
    )
    return FrozenResidual(
        lambda **values: _arrays(twin.residual(terms, values)),
        unknowns,
        where[0] if shared else where,
        view=view_of_training(view, loss_weights, solver, twin, terms, parts),
        jacobian=(lambda **values: twin.columns(terms, values)[1]) if differentiable else None,
        residual_at=lambda at, **values: _arrays(
            twin.residual([t.moved(twin.labelled(at, t.axes)) for t in terms], values)
        ),
        field=twin.field(terms[0].points) if shared else None,
        field_name=problem.output_variables[0],
        axes=terms[0].axes,
        notes=notes,
    )


def _checked_problem(pina: Any, solver: Any) -> Any:
    """Return the inverse problem of a solver, or say what came instead."""
    base = foreign("pina.solver", "pina", "twoaxis.from_pina").BaseSolver
    inverse = foreign("pina.problem", "pina", "twoaxis.from_pina").InverseProblem
    if isinstance(solver, pina.Trainer):
        raise InputError("a PINA solver", "its Trainer", "pass trainer.solver")
    if not isinstance(solver, base):
        raise InputError(
            "a PINA solver, such as PhysicsInformedSingleModelSolver",
            f"the class {solver.__name__}" if isinstance(solver, type) else type(solver).__name__,
            "pass the solver that was trained; for a network alone use twoaxis.from_torch",
        )
    if not isinstance(solver.problem, inverse):
        raise InputError(
            "a solver of an InverseProblem, which has unknown parameters",
            f"the problem {type(solver.problem).__name__}, which has none",
            "derive the problem from pina.problem.InverseProblem and give it an "
            "unknown_parameter_domain",
        )
    return solver.problem


def _arrays(parts: list[Part]) -> Any:
    """Return the columns as NumPy arrays, alone where there is one."""
    arrays = [as_numpy(part.values) for part in parts]
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def _chosen(
    solver: Any,
    candidates: list[Trained],
    condition: str | Sequence[str] | None,
    twin: Twin,
    unknowns: Mapping[str, Parameter],
) -> tuple[list[Trained], list[str], list[str]]:
    """Return the terms of the residual, the unknowns that they do not see, and what is left."""
    everything = list(solver.problem.conditions)
    names = [term.name for term in candidates]
    wanted = [condition] if isinstance(condition, str) else condition
    wrong = [name for name in wanted or () if name not in names]
    if wrong or (wanted is not None and not wanted) or not names:
        others = [name for name in everything if name not in names]
        raise InputError(
            f"conditions that carry an equation: {', '.join(names) or 'this problem has none'}",
            f"condition={condition!r}" + (f" ({', '.join(others)}: data alone)" if others else ""),
            "name one or several of them, or leave condition out" if names else "add an equation",
        )
    seen = {
        term.name: _seen(twin, term, unknowns)
        for term in candidates
        if wanted is None or term.name in wanted
    }
    if wanted is None:
        wanted = [name for name in names if seen[name]]
        if not wanted:
            raise InputError(
                f"an equation that changes with an unknown: {', '.join(unknowns)}",
                f"none among {', '.join(names)}: H = 0, the residual does not see the unknown",
                f"use params_[{next(iter(unknowns))!r}] in the equation; condition={names[0]!r} "
                "audits that residual all the same",
            )
    terms = [term for term in candidates if term.name in wanted]
    unseen = [n for n in unknowns if not any(n in seen[term.name] for term in terms)]
    return terms, unseen, [name for name in everything if name not in wanted]


def _seen(twin: Twin, term: Trained, unknowns: Mapping[str, Parameter]) -> set[str]:
    """Return the unknowns that move a residual, by its values at both bounds."""
    center = {name: p.delivered for name, p in unknowns.items()}
    at_center = [as_numpy(part.values) for part in twin.residual([term], center)]
    found = set()
    for name, parameter in unknowns.items():
        for bound in parameter.bounds:
            moved = twin.residual([term], {**center, name: bound})
            pairs = zip(at_center, moved, strict=True)
            if any(not np.array_equal(a, as_numpy(part.values)) for a, part in pairs):
                found.add(name)
    return found


def _lost(columns: FloatArray, unseen: list[str]) -> bool:
    """Tell whether more derivatives vanish than there are unknowns without influence."""
    return int((~columns.any(axis=0)).sum()) > len(unseen)

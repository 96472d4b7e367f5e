"""A twin of a PINA solver: its networks, copied, and the residuals of its equations with them.

The twin shares everything else with the solver, which is never changed: neither its weights and
gradients, nor its modes, nor the unknowns that it holds.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any, Self, final

import numpy as np

from twoaxis.adapters.foreign import (
    Precision,
    as_numpy,
    dtype_name,
    explained,
    foreign,
)
from twoaxis.adapters.jacobians import TorchFunction
from twoaxis.adapters.jets import FieldSlot, torch_slot
from twoaxis.adapters.model_loss import LossAt, flat_tensors, put_into, torch_gradient
from twoaxis.adapters.unknowns import Model, torch_jacobian
from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameters

#: Points so near to a face of the box, as a share of its size, lie on it.
EDGE = 1e-6


@dataclass(frozen=True)
class Term:
    """A condition with an equation, and the points at which training used it."""

    name: str
    condition: Any
    points: Any

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the coordinates."""
        return tuple(self.points.labels)

    def moved(self, points: Any) -> Term:
        """Return the same condition at other points."""
        return replace(self, points=points)


@dataclass(frozen=True)
class LossTerm:
    """A condition in the training loss.

    Attributes
    ----------
    name : str
    residual : callable
        ``residual(twin, member, leaves)``: its values, (N, m), for a network and the unknowns.
    factor : float
        Its weight at the last step.
    by_point : tensor or None
        Adaptive weights of its points, (N, 1).
    """

    name: str
    residual: Callable[[Any, int | None, Mapping[str, Any]], Any]
    factor: float
    by_point: Any = None


@final
class Twin(Model):
    """The solver's networks, copied. Points are terms; a place is the name of an unknown."""

    def __init__(self, torch: Any, pina: Any, solver: Any, precision: Precision) -> None:
        self.torch, self.label_tensor = torch, pina.LabelTensor
        self.problem, self._lock = solver.problem, RLock()
        stored = getattr(solver.problem, "unknown_parameters", {})
        self._delivered = {name: float(as_numpy(each).item()) for name, each in stored.items()}
        ensemble = foreign("pina.solver", "pina", "twoaxis.from_pina").EnsembleSolver
        with explained(
            "networks that can be copied",
            "remove weight normalization of the old kind with torch.nn.utils.remove_weight_norm, "
            "or use torch.nn.utils.parametrizations",
        ):
            models = copy.deepcopy(solver._pina_models).eval().requires_grad_(False)
        # The adaptive weights of a solver are held; its networks are what training moves.
        kept = len(models) if isinstance(solver, ensemble) else 1
        self._moving = [
            name
            for n in range(kept)
            for name, weight in solver._pina_models.named_parameters()
            if name.startswith(f"{n}.") and weight.requires_grad
        ]
        own = next((p.dtype for p in models.parameters()), torch.get_default_dtype())
        if precision == "float64":
            models.double()
        tensors = list(models.parameters())
        self.dtype = tensors[0].dtype if tensors else torch.float64
        self.device = tensors[0].device if tensors else torch.device("cpu")
        self.own, self.precision = dtype_name(own), dtype_name(self.dtype)
        self.members: Sequence[int | None] = (
            range(len(models)) if isinstance(solver, ensemble) else (None,)
        )
        self.solver = _sharing(solver, models)

    def labelled(self, points: Any, axes: Sequence[str]) -> Any:
        """Return points as PINA takes them, in the precision of the twin."""
        plain = self.torch.as_tensor(as_numpy(points), dtype=self.dtype, device=self.device)
        # A clone, so that the frozen points do not change with those of the training.
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
        """Return the outputs at the points, a mean over the members of an ensemble."""
        with self.undisturbed():
            found = [as_numpy(self.output(points, member).tensor) for member in self.members]
        mean: FloatArray = np.mean(found, axis=0)
        return mean

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Evaluate outside of inference mode, in one thread at a time."""
        with self._lock, self.torch.inference_mode(False):
            yield

    def equations(self, points: Sequence[Term], stored: Mapping[Any, float]) -> list[FloatArray]:
        """Return one array (N, m) per condition and network."""
        with self.undisturbed(), self.torch.enable_grad():
            return [as_numpy(part) for part in self._evaluate(points, self._leaves(stored))]

    def derivatives(self, points: Sequence[Term], stored: Mapping[Any, float]) -> list[FloatArray]:
        """Return one array (N, m, d) per condition and network."""
        with self.undisturbed(), self.torch.enable_grad():
            leaves = self._leaves(stored)
            parts = self._evaluate(points, leaves)
            return torch_jacobian(self.torch, parts, list(leaves.values()))

    def _tensors(self) -> list[Any]:
        models = self.solver._modules["_pina_models"]
        return [models.get_parameter(name) for name in self._moving]

    @property
    def weights(self) -> FloatArray:
        """The weights of the networks that require a gradient, one after another."""
        return flat_tensors(self._tensors())

    def moved(self, weights: FloatArray) -> Self:
        """Return the same twin with other weights."""
        other = copy.copy(self)
        other.solver = _sharing(self.solver, self.network())
        put_into(self.torch, other._tensors(), weights)
        return other

    def network(self) -> Any:
        """Return copies of the networks."""
        return copy.deepcopy(self.solver._modules["_pina_models"])

    def loss(
        self, terms: Sequence[LossTerm], weights: FloatArray, stored: Mapping[Any, float]
    ) -> LossAt:
        """Return the training loss, with its derivatives by weights and stored numbers."""
        torch, solver = self.torch, self.solver
        state = self.moved(weights)
        tensors = state._tensors()
        for each in tensors:
            each.requires_grad_(True)
        with self.undisturbed(), torch.enable_grad():
            leaves = self._leaves(stored)
            losses = []
            for term in terms:
                members = []
                for member in self.members:
                    values = term.residual(state, member, leaves)
                    loss = solver.loss(values, torch.zeros_like(values))
                    loss = loss if term.by_point is None else loss * term.by_point
                    members.append(solver._apply_reduction(loss))
                losses.append(term.factor * torch.stack(members).mean())
            total = solver.weighting.aggregator_fn(torch.stack(losses))
            slopes = torch_gradient(torch, total, [*tensors, *leaves.values()])
        by_weights, by_stored = slopes[: len(tensors)], slopes[len(tensors) :]
        return LossAt(float(total.detach()), np.concatenate(by_weights), np.concatenate(by_stored))

    def _by_weights(
        self,
        names: Sequence[str],
        function: Callable[[Self, Mapping[str, Any], Any], Any],
        pointwise: bool = True,
    ) -> TorchFunction:
        """Return a function of a twin, the unknowns and points as one of weights.

        One network can be replaced by one with weights for each point; of an ensemble only all.
        """
        models = self.network()
        single = len(self.members) == 1
        module = models[0] if single else models
        moving = [name.partition(".")[2] for name in self._moving] if single else self._moving

        @contextmanager
        def opened(numbers: FloatArray) -> Iterator[list[Any]]:
            # Without numbers the unknowns keep their values.
            stored = dict(zip(names, numbers.tolist(), strict=True)) if numbers.size else {
                name: self._delivered[name] for name in names
            }  # fmt: skip
            with self.undisturbed(), self.torch.enable_grad():
                yield list(self._leaves(stored).values())

        def called(network: Any, leaves: Sequence[Any], points: Any) -> Any:
            state = copy.copy(self)
            held = self.torch.nn.ModuleList([network, *models[1:]]) if single else network
            state.solver = _sharing(self.solver, held)
            return function(state, dict(zip(names, leaves, strict=True)), points)

        return TorchFunction(self.torch, module, moving, called, opened, pointwise=pointwise)

    def equations_by_weights(self, term: Term, names: Sequence[str]) -> TorchFunction:
        """Return a condition, a column for each equation and network, as a function of weights."""

        def equations(state: Self, leaves: Mapping[str, Any], points: Any) -> Any:
            here = term.moved(self.label_tensor(points, list(term.axes)))
            return self.torch.cat(state._evaluate([here], leaves), dim=1)

        return self._by_weights(names, equations)

    def outputs_by_weights(self, names: Sequence[str]) -> TorchFunction:
        """Return the outputs, a mean over the networks, as a function of weights."""

        def outputs(state: Self, leaves: Mapping[str, Any], points: Any) -> Any:
            del leaves  # the field is that of the weights alone
            samples = self.label_tensor(points, list(self.problem.input_variables))
            found = [
                state.output(samples, member).as_subclass(self.torch.Tensor)
                for member in self.members
            ]
            return self.torch.stack(found).mean(dim=0)

        return self._by_weights(names, outputs)

    def misfits_by_weights(
        self, terms: Sequence[Term], names: Sequence[str], pointwise: bool = False
    ) -> TorchFunction:
        """Return misfits of conditions, (K, 1), whose squares have the sum of their means."""

        def misfits(state: Self, leaves: Mapping[str, Any], points: Any) -> Any:
            del points  # conditions have their own
            parts = [part.reshape(-1, 1) for part in state._evaluate(terms, leaves)]
            share = len(self.members)
            return self.torch.cat([part / (share * len(part)) ** 0.5 for part in parts])

        return self._by_weights(names, misfits, pointwise=pointwise)

    def slot(
        self,
        terms: Sequence[Term],
        imposed: Sequence[Term],
        names: Sequence[str],
        freeze: Callable[[Self, Parameters], FrozenResidual],
    ) -> FieldSlot | None:
        """Return the twin with a place for any field, or None where it has none.

        Parameters
        ----------
        terms, imposed : sequence of Term
            Conditions that make up the residual, and others of the training.
        names : sequence of str
            Of the unknowns.
        freeze : callable
            ``freeze(twin, parameters)``.
        """
        axes = tuple(self.problem.input_variables)
        if len(self.members) > 1 or any(term.axes != axes for term in terms):
            return None
        points = [as_numpy(term.points) for term in terms]
        if any(_on_edge(each, np.concatenate(points)) for each in points):
            return None  # what holds on the boundary alone is no equation of the domain
        models = self.network()

        def frozen(module: Any, known: Parameters) -> FrozenResidual:
            state = copy.copy(self)
            held = self.torch.nn.ModuleList([module, *models[1:]])
            state.solver, state._moving = _sharing(self.solver, held), []
            return freeze(state, known)

        return torch_slot(
            [self.equations_by_weights(term, names) for term in terms],
            self.outputs_by_weights(names),
            # Whether a misfit needs the network at its own point alone is found out.
            self.misfits_by_weights(imposed, names, pointwise=True) if imposed else None,
            frozen,
            points[0],
        )

    def _leaves(self, stored: Mapping[Any, float]) -> dict[str, Any]:
        options = {"dtype": self.dtype, "device": self.device, "requires_grad": True}
        return {name: self.torch.tensor([value], **options) for name, value in stored.items()}

    def _evaluate(self, terms: Sequence[Term], leaves: Mapping[str, Any]) -> list[Any]:
        return [self.residual(term, member, leaves) for term in terms for member in self.members]

    def residual(self, term: Term, member: int | None, leaves: Mapping[str, Any]) -> Any:
        """Return one condition's residual as a tensor (N, m)."""
        samples = term.points.clone().requires_grad_(True)
        with explained(
            f"an equation of the condition {term.name!r} that can be evaluated at its points",
            'pass precision="model" if it computes in float32 alone; otherwise check the names '
            "in params_ and the labels",
        ):
            found = term.condition.equation.residual(samples, self.output(samples, member), leaves)
        if not isinstance(found, self.torch.Tensor):
            raise InputError(
                f"a residual of the condition {term.name!r} as a tensor",
                type(found).__name__,
                "return the tensor; several equations are columns of one, or a SystemEquation",
            )
        plain = found.as_subclass(self.torch.Tensor)
        if plain.ndim == 0 or len(plain) != len(samples):
            raise InputError(
                f"a residual of the condition {term.name!r} with one row per point, {len(samples)}",
                f"the shape {tuple(plain.shape)}",
                "return the residual of every point, without a mean or a sum over them; several "
                "equations are columns, or a SystemEquation",
            )
        return plain.reshape(len(samples), -1)


def _on_edge(points: FloatArray, every: FloatArray) -> bool:
    """Whether points lie on the faces of the box that holds all points."""
    low, high = every.min(axis=0), every.max(axis=0)
    away = np.minimum(points - low, high - points).min(axis=1)
    return bool((away <= EDGE * (high - low).max()).all())


def _sharing(solver: Any, models: Any) -> Any:
    """Return a solver that shares everything with another but the networks.

    Its forward is that of the class, without the wrapper that is bound to the original.
    """
    twin = object.__new__(type(solver))
    twin.__dict__.update(solver.__dict__)
    twin.__dict__["_modules"] = {**solver._modules, "_pina_models": models}
    twin.__dict__["_trainer"] = None
    twin.__dict__.pop("forward", None)
    return twin

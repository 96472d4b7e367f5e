"""A twin of a PINA solver: its networks, copied, and the residuals of its equations with them.

The twin shares everything else with the solver, which is therefore never touched: neither its
weights and gradients, nor its modes, nor the unknowns that it holds.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.adapters.building import as_numpy, foreign, same_random_numbers
from twoaxis.adapters.pina.unknowns import Transform, to_stored
from twoaxis.errors import InputError

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

"""DeepXDE on PyTorch: a copy of the network, and the user's own tensors as unknowns."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any, Self, final

import numpy as np

from twoaxis.adapters.deepxde.backend import (
    ONE_AT_A_TIME,
    Backend,
    CompiledLoss,
    as_columns,
    error_of,
    misfits_of,
    rows_of,
)
from twoaxis.adapters.foreign import (
    as_numpy,
    dtype_name,
    explained,
)
from twoaxis.adapters.jacobians import TorchFunction
from twoaxis.adapters.jets import FieldSlot, torch_slot
from twoaxis.adapters.model_loss import LossAt, flat_tensors, put_into, torch_gradient
from twoaxis.adapters.unknowns import TorchArithmetic, torch_jacobian
from twoaxis.arrays import FloatArray
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameters


def _has_transforms(part: Any) -> bool:
    names = ("_input_transform", "_output_transform")
    return any(getattr(part, name, None) is not None for name in names)


@cache
def _transformed(torch: Any) -> Any:
    """Return a class of modules: a network without its transforms, and these around it."""

    class Transformed(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, net: Any) -> None:
            super().__init__()
            self.before, self.after = net._input_transform, net._output_transform
            net._input_transform = net._output_transform = None
            self.inner = net

        def forward(self, inputs: Any) -> Any:
            found = self.inner(inputs if self.before is None else self.before(inputs))
            return found if self.after is None else self.after(inputs, found)

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("inner"), name)

    return Transformed


@final
class PyTorchBackend(Backend):
    """A copy of the network, and the user's own tensors as unknowns."""

    def __init__(self, dde: Any, model: Any, double: bool) -> None:
        self._dde, self._torch = dde, dde.backend.lib
        self.arithmetic = TorchArithmetic(self._torch)
        self._pde, self._auxiliary = model.data.pde, model.data.auxiliary_var_fn
        self._variables = list(model.external_trainable_variables)
        weights = list(model.net.parameters())
        self._moving = [name for name, w in model.net.named_parameters() if w.requires_grad]
        own = weights[0].dtype if weights else self._torch.get_default_dtype()
        self._device = weights[0].device if weights else None
        self._dtype = self._torch.float64 if double else own
        self.own, self.precision = dtype_name(own), dtype_name(self._dtype)
        with self._torch.inference_mode(False):
            self._net = self._frozen_copy(model.net)
            self._held = [self._cast(each.detach()).clone() for each in self._variables]

    def _frozen_copy(self, net: Any) -> Any:
        """Return a copy that later training, or a change of mode, does not change."""
        with explained(
            "a network that can be copied, so that it stays as it is now",
            "remove what copy.deepcopy(model.net) cannot copy",
        ):
            return copy.deepcopy(net).to(self._dtype).eval().requires_grad_(False)

    def _cast(self, tensor: Any) -> Any:
        """Return a tensor in the precision of the evaluation."""
        return tensor if self.precision == self.own else tensor.to(self._dtype)

    def is_variable(self, given: Any) -> bool:
        """Tell whether this is a tensor."""
        return isinstance(given, self._torch.Tensor)

    def value_of(self, variable: Any) -> FloatArray:
        """Return the value of a variable."""
        return as_numpy(variable)

    @contextmanager
    def _holding(self, stored: Mapping[Any, float]) -> Iterator[None]:
        """Set the unknowns to these values, and restore them and their gradients."""
        torch = self._torch
        with ONE_AT_A_TIME, torch.inference_mode(False), torch.enable_grad():
            before = [(each, each.data, each.requires_grad, each.grad) for each in self._variables]
            self._dde.gradients.clear()
            try:
                for place, variable in enumerate(self._variables):
                    held = self._held[place].clone()
                    # A PDE may call ``backward`` itself, so gradients are restored, too.
                    variable.grad = None
                    variable.data = held.fill_(stored[place]) if place in stored else held
                    variable.requires_grad_(True)
                yield
            finally:
                for variable, data, required, gradient in before:
                    variable.data = data
                    variable.requires_grad_(required)
                    variable.grad = gradient
                self._dde.gradients.clear()

    def _inputs(self, points: FloatArray) -> Any:
        # A copy: as_tensor would share the memory of the training data.
        array = np.array(points, dtype=float)
        inputs = self._torch.tensor(array, dtype=self._dtype, device=self._device)
        return inputs.requires_grad_(True)

    def _evaluate(self, points: FloatArray) -> list[Any]:
        return self._equations(self._net, self._inputs(points))

    def _equations(self, net: Any, inputs: Any) -> list[Any]:
        outputs = net(inputs)
        if self._dde.config.autodiff == "forward":
            outputs = (outputs, net)
        extra = []
        if self._auxiliary is not None and self._dde.utils.get_num_args(self._pde) == 3:
            values = np.asarray(self._auxiliary(as_numpy(inputs)), dtype=float)
            extra = [self._torch.tensor(values, dtype=self._dtype, device=self._device)]
        return as_columns(self._pde(inputs, outputs, *extra), len(inputs))

    def equations(self, points: FloatArray, stored: Mapping[Any, float]) -> list[FloatArray]:
        """Return one array (N, m) per equation."""
        with self._holding(stored):
            return [as_numpy(part) for part in self._evaluate(points)]

    def derivatives(self, points: FloatArray, stored: Mapping[Any, float]) -> list[FloatArray]:
        """Return one array (N, m, d) per equation, by reverse mode twice."""
        with self._holding(stored):
            leaves = [self._variables[place] for place in stored]
            return torch_jacobian(self._torch, self._evaluate(points), leaves)

    def field(self, points: FloatArray) -> FloatArray:
        """Return the outputs of the network."""
        with self._holding({}):
            return as_numpy(self._net(self._inputs(points)))

    @property
    def weights(self) -> FloatArray:
        """The weights that require a gradient, one after another."""
        return flat_tensors([self._net.get_parameter(name) for name in self._moving])

    def moved(self, weights: FloatArray) -> Self:
        """Return the same model with other weights."""
        other = copy.copy(self)
        other._net = copy.deepcopy(self._net)
        put_into(self._torch, [other._net.get_parameter(name) for name in self._moving], weights)
        return other

    def network(self) -> Any:
        """Return a copy of the network."""
        return copy.deepcopy(self._net)

    def loss(
        self, compiled: CompiledLoss, weights: FloatArray, stored: Mapping[Any, float]
    ) -> LossAt:
        """Return the training loss, with its derivatives by weights and stored numbers."""
        torch, data = self._torch, compiled.data

        def field(inputs: Any) -> Any:
            return torch.func.functional_call(self._net, free, (inputs,))

        with self._holding(stored):
            # A call in another thread puts tensors in the place of the network's parameters.
            free = {name: self._net.get_parameter(name).detach().clone() for name in self._moving}
            put_into(torch, list(free.values()), weights)
            for each in free.values():
                each.requires_grad_(True)
            inputs = self._inputs(data.train_x)
            extra = None
            if data.train_aux_vars is not None:
                values = np.asarray(data.train_aux_vars, dtype=float)
                extra = torch.tensor(values, dtype=self._dtype, device=self._device)
            model = SimpleNamespace(net=SimpleNamespace(auxiliary_vars=extra))
            aux = [field] if self._dde.config.autodiff == "forward" else None
            parts = data.losses(None, field(inputs), compiled.functions, inputs, model, aux=aux)
            losses = torch.stack(parts)
            if compiled.factors is not None:
                losses = losses * torch.tensor(compiled.factors, dtype=self._dtype)
            total = losses.sum()
            if self._net.regularizer is not None:  # l1: the other kind is refused before
                total = total + self._net.regularizer[1] * sum(
                    each.abs().sum()
                    for each in {**dict(self._net.named_parameters()), **free}.values()
                )
            leaves = [*free.values(), *(self._variables[place] for place in stored)]
            slopes = torch_gradient(torch, total, leaves)
        by_weights, by_stored = slopes[: len(free)], slopes[len(free) :]
        return LossAt(float(total.detach()), np.concatenate(by_weights), np.concatenate(by_stored))

    def _by_weights(
        self, places: Sequence[int], function: Callable[[Any, Any], Any], pointwise: bool = True
    ) -> TorchFunction:
        """Return a function of a network and inputs as one of weights."""

        @contextmanager
        def opened(numbers: FloatArray) -> Iterator[list[Any]]:
            # Without numbers the unknowns keep their values.
            stored = dict(zip(places, numbers.tolist(), strict=True)) if numbers.size else {}
            with self._holding(stored):
                yield [self._variables[place] for place in places]

        def called(net: Any, leaves: Any, inputs: Any) -> Any:
            del leaves  # the equations have captured them
            self._dde.gradients.clear()
            return function(net, inputs)

        return TorchFunction(
            self._torch, copy.deepcopy(self._net), self._moving, called, opened, pointwise=pointwise
        )

    def equations_by_weights(self, places: Sequence[int]) -> TorchFunction:
        """Return the equations, a column each, as a function of weights and numbers at places."""
        return self._by_weights(
            places, lambda net, inputs: self._torch.cat(self._equations(net, inputs), dim=1)
        )

    def outputs_by_weights(self, places: Sequence[int]) -> TorchFunction:
        """Return the outputs of the network as a function of weights."""
        return self._by_weights(places, lambda net, inputs: net(inputs))

    def misfits_by_weights(
        self, data: Any, conditions: Sequence[int], places: Sequence[int]
    ) -> TorchFunction:
        """Return misfits of some conditions, (K, 1), whose squares have the sum of their means."""

        def misfits(net: Any, _: Any) -> Any:
            inputs = self._inputs(data.train_x)
            return misfits_of(data, conditions, inputs, net(inputs), self._torch.cat)

        return self._by_weights(places, misfits, pointwise=False)

    def condition_by_weights(
        self, data: Any, condition: int, places: Sequence[int]
    ) -> TorchFunction:
        """Return the error of one condition, (K, m), as a function of weights and numbers."""

        def error(net: Any, _: Any) -> Any:
            inputs = self._inputs(data.train_x)
            return error_of(data, condition, inputs, net(inputs))

        return self._by_weights(places, error, pointwise=False)

    def slot(
        self,
        data: Any,
        conditions: Sequence[int],
        places: Sequence[int],
        points: FloatArray,
        freeze: Callable[[Self, Parameters], FrozenResidual],
    ) -> FieldSlot | None:
        """Return the model with a place for any field; transforms of the network stay around it."""
        if self._dde.config.autodiff == "forward":
            return None  # derivatives by calls of the network within transforms of PyTorch
        kind, outside = _transformed(self._torch), self._with_transforms_outside()
        few = points[:: max(1, len(points) // 16)]
        if not np.allclose(outside.field(few), self.field(few), rtol=1e-9, atol=1e-12):
            return None  # a network that uses its transforms elsewhere
        return torch_slot(
            [outside.equations_by_weights(places)],
            outside.outputs_by_weights(places),
            outside._misfits_alone(data, conditions, places) if conditions else None,
            lambda net, known: freeze(self._replaced(net, []), known),
            points,
            (kind,),
        )

    def _replaced(self, net: Any, moving: list[str]) -> Self:
        """Return the same model with another network."""
        other = copy.copy(self)
        other._net, other._moving = net, moving
        return other

    def _with_transforms_outside(self) -> Self:
        """Return the same model with networks inside of the transforms that they apply."""
        kind, net = _transformed(self._torch), copy.deepcopy(self._net)
        moving = {id(net.get_parameter(name)) for name in self._moving}
        for part in list(net.modules()):
            for name, inner in part.named_children():
                if _has_transforms(inner):
                    part._modules[name] = kind(inner)
        net = kind(net) if _has_transforms(net) else net
        names = [name for name, each in net.named_parameters() if id(each) in moving]
        return self._replaced(net, names)

    def _misfits_alone(
        self, data: Any, conditions: Sequence[int], places: Sequence[int]
    ) -> TorchFunction:
        """Return misfits as `misfits_by_weights` does, calling the network at their points alone.

        Row n needs the network at point n alone, mostly; that is found out where it is used.
        """
        torch = self._torch
        rows = torch.tensor(rows_of(data, conditions), device=self._device)

        def misfits(net: Any, _: Any) -> Any:
            inputs = self._inputs(data.train_x)
            alone = net(inputs[rows])
            # Conditions know their points by their places among those of the training.
            outputs = alone.new_zeros(len(inputs), alone.shape[1]).index_put((rows,), alone)
            return misfits_of(data, conditions, inputs, outputs, torch.cat)

        found = self._by_weights(places, misfits)
        whole = self.misfits_by_weights(data, conditions, places)
        nowhere, none = np.zeros((1, 1)), np.zeros(0)
        wanted = whole.values(self.weights, none, nowhere)
        try:
            same = np.allclose(found.values(self.weights, none, nowhere), wanted, rtol=1e-9)
        except Exception:  # conditions are any code of the user's, and may use all points
            same = False
        return found if same else whole

    def conditions_with(self, data: Any) -> dict[int, list[int]]:
        """Return the numbers of the conditions that depend on each unknown, by derivatives."""
        found: dict[int, list[int]] = {}
        with self._holding({}):
            for number, error in enumerate(self._errors(data, range(len(data.bcs)))):
                if not error.requires_grad:
                    continue
                slopes = self._torch.autograd.grad(
                    error.sum(), self._variables, allow_unused=True, retain_graph=True
                )
                for place, slope in enumerate(slopes):
                    if slope is not None:
                        found.setdefault(place, []).append(number)
        return found

    def _errors(self, data: Any, conditions: Sequence[int]) -> list[Any]:
        inputs = self._inputs(data.train_x)
        outputs = self._net(inputs)
        return [error_of(data, number, inputs, outputs) for number in conditions]

    def errors(
        self, data: Any, conditions: Sequence[int], stored: Mapping[Any, float]
    ) -> list[FloatArray]:
        """Return the errors of some conditions at the points of the training, (K, m) each."""
        with self._holding(stored):
            return [as_numpy(part) for part in self._errors(data, conditions)]

    def error_derivatives(
        self, data: Any, conditions: Sequence[int], stored: Mapping[Any, float]
    ) -> list[FloatArray]:
        """Return their derivatives by the stored numbers, (K, m, d) each."""
        with self._holding(stored):
            leaves = [self._variables[place] for place in stored]
            return torch_jacobian(self._torch, self._errors(data, conditions), leaves)

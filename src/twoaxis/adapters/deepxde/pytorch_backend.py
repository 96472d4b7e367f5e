"""DeepXDE on PyTorch: a copy of the network, and the user's own tensors as unknowns."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, final

import numpy as np

from twoaxis.adapters.building import as_numpy, same_random_numbers
from twoaxis.adapters.deepxde.backend import Backend, FloatArray, as_columns
from twoaxis.errors import InputError


@final
class PyTorchBackend(Backend):
    """A copy of the network, and the user's own tensors as unknowns."""

    def __init__(self, dde: Any, model: Any, double: bool) -> None:
        self._dde, self._torch = dde, dde.backend.lib
        self._pde, self._auxiliary = model.data.pde, model.data.auxiliary_var_fn
        self._variables = list(model.external_trainable_variables)
        weights = list(model.net.parameters())
        own = weights[0].dtype if weights else self._torch.get_default_dtype()
        self._device = weights[0].device if weights else None
        self._dtype = self._torch.float64 if double else own
        self.own = str(own).removeprefix("torch.")
        self.precision = str(self._dtype).removeprefix("torch.")
        with self._torch.inference_mode(False):
            self._net = self._frozen_copy(model.net)
            self._held = [self._cast(each.detach()).clone() for each in self._variables]

    def _frozen_copy(self, net: Any) -> Any:
        """Return a copy that later training, or a change of mode, does not reach."""
        try:
            return copy.deepcopy(net).to(self._dtype).eval().requires_grad_(False)
        except (RuntimeError, TypeError) as error:
            raise InputError(
                "a network that can be copied, so that it stays as it is now",
                f"{type(error).__name__}: {error}",
                "remove what copy.deepcopy(model.net) cannot copy",
            ) from error

    def _cast(self, tensor: Any) -> Any:
        """Return a tensor in the precision of the evaluation, where that is not the model's."""
        return tensor if self.precision == self.own else tensor.to(self._dtype)

    def is_variable(self, given: Any) -> bool:
        """Tell whether this is a tensor."""
        return isinstance(given, self._torch.Tensor)

    def stored(self, variable: Any) -> FloatArray:
        """Return what a variable holds."""
        return as_numpy(variable)

    @contextmanager
    def _holding(self, raw: Mapping[int, float]) -> Iterator[None]:
        """Give the unknowns their values, and leave no trace of it."""
        torch = self._torch
        before = [(each, each.data, each.requires_grad, each.grad) for each in self._variables]
        cuda = self._device is not None and self._device.type == "cuda"
        with ExitStack() as modes:
            modes.enter_context(same_random_numbers())
            modes.enter_context(torch.random.fork_rng(devices=[self._device] if cuda else []))
            modes.enter_context(torch.inference_mode(False))
            modes.enter_context(torch.enable_grad())
            self._dde.gradients.clear()
            try:
                for place, variable in enumerate(self._variables):
                    held = self._held[place].clone()
                    # A PDE may call ``backward`` itself, so gradients are laid aside, too.
                    variable.grad = None
                    variable.data = held.fill_(raw[place]) if place in raw else held
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
        inputs = self._inputs(points)
        outputs = self._net(inputs)
        if self._dde.config.autodiff == "forward":
            outputs = (outputs, self._net)
        extra = []
        if self._auxiliary is not None and self._dde.utils.get_num_args(self._pde) == 3:
            values = np.asarray(self._auxiliary(np.array(points)), dtype=float)
            extra = [self._torch.tensor(values, dtype=self._dtype, device=self._device)]
        return as_columns(self._pde(inputs, outputs, *extra), len(points))

    def equations(self, points: FloatArray, raw: Mapping[int, float]) -> list[FloatArray]:
        """Return one array (N, m) for each equation."""
        with self._holding(raw):
            return [as_numpy(part) for part in self._evaluate(points)]

    def derivatives(self, points: FloatArray, raw: Mapping[int, float]) -> list[FloatArray]:
        """Return derivatives by reverse mode, twice.

        The gradient of ``v . r`` by an unknown is linear in v, and its gradient by v is the
        derivative of every residual value at once.
        """
        torch = self._torch
        with self._holding(raw):
            parts = self._evaluate(points)
            shapes = [tuple(part.shape) for part in parts]
            flat = torch.cat([part.reshape(-1) for part in parts])
            columns = [torch.zeros_like(flat)] * len(raw)
            if flat.requires_grad:
                v = torch.zeros_like(flat, requires_grad=True)
                wanted = [self._variables[place] for place in raw]
                options: dict[str, Any] = {"create_graph": True, "allow_unused": True}
                slopes = torch.autograd.grad(flat, wanted, v, **options)
                for j, slope in enumerate(slopes):
                    if slope is not None and slope.requires_grad:
                        (column,) = torch.autograd.grad(slope.sum(), v, **options)
                        columns[j] = columns[j] if column is None else column
            whole = as_numpy(torch.stack(columns, dim=1))
        ends = np.cumsum([n * m for n, m in shapes])[:-1]
        each = zip(np.split(whole, ends), shapes, strict=True)
        return [part.reshape(*shape, len(raw)) for part, shape in each]

    def field(self, points: FloatArray) -> FloatArray:
        """Return the outputs of the network."""
        with self._holding({}):
            return as_numpy(self._net(self._inputs(points)))

    def slope(self, function: Callable[[Any], Any], at: float) -> tuple[float, float]:
        """Return the value and the derivative of a function of one number."""
        torch = self._torch
        with torch.inference_mode(False), torch.enable_grad():
            # On the CPU: DeepXDE makes a GPU the default, and some have no float64.
            x = torch.tensor(at, dtype=torch.float64, device="cpu", requires_grad=True)
            y = function(x)
            if not isinstance(y, torch.Tensor) or not y.requires_grad:
                raise TypeError(f"its result is {type(y).__name__} without a derivative")
            (slope,) = torch.autograd.grad(y.sum(), x)
        return y.item(), slope.item()

    def call(self, function: Callable[..., Any], *arrays: Any) -> float:
        """Call a function of the user's with tensors."""
        torch = self._torch
        given = [torch.tensor(array, dtype=torch.float64, device="cpu") for array in arrays]
        with torch.no_grad():
            return float(function(*given))

    def conditions_with(self, data: Any) -> dict[int, list[str]]:
        """Return which conditions depend on which unknown, by their derivative."""
        found: dict[int, list[str]] = {}
        ends = np.cumsum([0, *data.num_bcs]).tolist()
        with self._holding({}):
            inputs = self._inputs(data.train_x)
            outputs = self._net(inputs)
            for number, condition in enumerate(data.bcs):
                error = condition.error(
                    data.train_x, inputs, outputs, ends[number], ends[number + 1]
                )
                if not error.requires_grad:
                    continue
                slopes = self._torch.autograd.grad(
                    error.sum(), self._variables, allow_unused=True, retain_graph=True
                )
                for place, slope in enumerate(slopes):
                    if slope is not None:
                        name = f"{number + 1} ({type(condition).__name__})"
                        found.setdefault(place, []).append(name)
        return found

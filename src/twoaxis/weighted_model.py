r"""A trained model as a least-squares system in its weights.

With weights :math:`\theta` and physical parameters :math:`p` a model has a residual
:math:`r(\theta, p)` at any points, a field :math:`u(\theta)` that was observed, and misfits
:math:`c(\theta)` of the conditions that training imposed softly. A second-order method needs these
vectors and their Jacobians, and nothing else of the library behind them.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twoaxis.frozen import FrozenResidual

MEMBERS = (
    "start",
    "how",
    "residual",
    "residual_jacobian",
    "field",
    "field_jacobian",
    "conditions",
    "conditions_jacobian",
    "frozen",
    "network",
)


@runtime_checkable
class WeightedModel(Protocol):
    """A trained model as functions of one flat vector of weights, in double precision.

    The adapters of PyTorch, JAX, DeepXDE, PINA and jinns make one, as the `weights` of a
    `FrozenResidual`; any object with these members is one. Physical parameters are given by name.
    Nothing of the model is changed.
    """

    @property
    def start(self) -> FloatArray:
        """The weights as delivered, shape (W,)."""
        ...

    @property
    def how(self) -> str:
        """How Jacobians are computed, as a phrase."""
        ...

    def residual(self, weights: FloatArray, points: Any, **physical: Any) -> FloatArray:
        """Return the residual at any points, equations joined in order, shape (N,)."""
        ...

    def residual_jacobian(
        self, weights: FloatArray, points: Any, **physical: Any
    ) -> tuple[FloatArray, FloatArray]:
        """Return derivatives by the weights, (N, W), and by the physical parameters, (N, d)."""
        ...

    def field(self, weights: FloatArray, points: Any = None) -> FloatArray:
        """Return the observed fields, (n,) or (n, m); at the observations by default."""
        ...

    def field_jacobian(self, weights: FloatArray, points: Any = None) -> FloatArray:
        """Return derivatives of `field` by the weights, (n m, W), rows in its C order."""
        ...

    def conditions(self, weights: FloatArray) -> FloatArray:
        """Return misfits of the soft conditions, shape (K,), without the observations.

        Those of a condition with n values are divided by the root of n, so that their sum of
        squares is its mean square. Empty where there is no such condition.
        """
        ...

    def conditions_jacobian(self, weights: FloatArray) -> FloatArray:
        """Return derivatives of `conditions` by the weights, (K, W)."""
        ...

    def frozen(self, weights: FloatArray, values: Mapping[str, float]) -> FrozenResidual:
        """Return the frozen residual with these weights and delivered values."""
        ...

    def network(self, weights: FloatArray) -> Any:
        """Return the library's own model with these weights."""
        ...


def check_weighted(model: Any) -> None:
    """Refuse what is no weighted model, without evaluating anything of it."""
    absent = object()
    missing = [name for name in MEMBERS if inspect.getattr_static(model, name, absent) is absent]
    if missing or isinstance(model, type):
        raise InputError(
            f"a weighted model with {', '.join(MEMBERS[:-1])} and {MEMBERS[-1]}",
            f"{type(model).__name__} without {', '.join(missing)}" if missing else "a class",
            "leave weights out, or take those of an adapter, such as twoaxis.from_torch(...)",
        )

r"""What a training method is: a view, a weight rule, a gradient rule and a warm-up.

Every method minimizes

.. math:: L(\theta, q) = \frac1n \sum_i (u_\theta(x_i) - y_i)^2 + \lambda\, r^\top M r

with the view :math:`M`, which the weight rule may change from step to step. The gradient rule says
how the two terms share the network, and the warm-up how long the parameters rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, final, runtime_checkable

from twoaxis.arrays import is_real
from twoaxis.errors import InputError
from twoaxis.gauss_newton import Continuation
from twoaxis.training.rules import Add, GradientRule, Uniform, WeightRule
from twoaxis.views import Pointwise, View


@dataclass(frozen=True)
class Recipe:
    """The parts of a method.

    Parameters
    ----------
    view : View
        The quadratic form of the residual term.
    weights : WeightRule
        How points or modes are weighted, step by step.
    gradient : GradientRule
        How the gradients of the data and of the residual share the network.
    warmup : float
        Share of the steps, from 0 to below 1, during which the parameters rest.
    continuation : Continuation, optional
        With it the steps are of second order, in float64, and the weight of the residual grows;
        without it they are Adam's.
    defaults : mapping of str to value
        Settings that take these values where none are given, in place of the published ones:
        some of ``steps``, ``network``, ``conditions``, ``precision``, ``residual_points``.

    Examples
    --------
    >>> import twoaxis as ta
    >>> recipe = ta.methods.Recipe(view=ta.views.Patch(cells=8), warmup=0.2)
    >>> recipe.view.describe(), recipe.weights, recipe.gradient, recipe.warmup
    ('patch, 8 cells per axis', Uniform(needs_modes=False), Add(), 0.2)
    """

    view: View = field(default_factory=Pointwise)
    weights: WeightRule = field(default_factory=Uniform)
    gradient: GradientRule = field(default_factory=Add)
    warmup: float = 0.0
    continuation: Continuation | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.view, View):
            raise InputError(
                "a view of the residual",
                repr(self.view),
                "pass one of twoaxis.views, for instance twoaxis.views.Pointwise()",
            )
        for part, method in ((self.weights, "update"), (self.gradient, "combine")):
            if isinstance(part, type) or not callable(getattr(part, method, None)):
                raise InputError(
                    f"a rule with the method {method}",
                    repr(part),
                    "pass one of twoaxis.training.rules, or an object of your own that has it",
                )
        if not (is_real(self.warmup) and 0 <= self.warmup < 1):
            raise InputError(
                "a warm-up from 0 to below 1, as a share of the steps",
                f"warmup={self.warmup!r}",
                "pass warmup=0.2 for the first fifth",
            )


@runtime_checkable
class Method(Protocol):
    """The interface of a training method: a name and a recipe. Options are dataclass fields.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import twoaxis as ta
    >>> @dataclass(frozen=True)
    ... class Patches:
    ...     cells: int = 16
    ...
    ...     @property
    ...     def name(self):
    ...         return "patches"
    ...
    ...     def recipe(self):
    ...         return ta.methods.Recipe(view=ta.views.Patch(cells=self.cells))
    >>> isinstance(Patches(), ta.methods.Method)
    True
    >>> Patches().recipe().view.describe()  # ta.train("burgers", method=Patches()) trains with it
    'patch, 16 cells per axis'
    """

    @property
    def name(self) -> str:
        """Short, for a table and a file name."""
        ...

    def recipe(self) -> Recipe:
        """Return the parts."""
        ...


@final
@dataclass(frozen=True)
class StoredMethod:
    """The name and options of a method whose code is not here."""

    name: str
    options: dict[str, Any]

    def recipe(self) -> Recipe:
        """Say that the parts are not known: a file holds no code."""
        raise InputError(
            "a method whose code is known",
            f"{self.name!r}, of which the file keeps the name and the options",
            "train with the method's own object; a stored run can be diagnosed without it",
        )

r"""Gauss–Newton: data and equation solved together, with a growing weight of the equation.

The loss is that of the plain pointwise residual; see `twoaxis.gauss_newton` for the continuation
and `twoaxis.training.gauss_newton` for the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from twoaxis.errors import InputError
from twoaxis.gauss_newton import Continuation
from twoaxis.training.methods.method import Recipe
from twoaxis.training.network import Network


@final
@dataclass(frozen=True)
class GaussNewton:
    """Levenberg–Marquardt in float64 with a growing weight of the equation.

    Parameters
    ----------
    continuation : Continuation
        How the weight grows, when the parameters are free, and when the training ends.

    Examples
    --------
    >>> import twoaxis as ta
    >>> ta.methods.GaussNewton().continuation.last
    3000000.0
    """

    continuation: Continuation = field(default_factory=Continuation)

    def __post_init__(self) -> None:
        given: Any = self.continuation
        if isinstance(given, Mapping):  # as a run file holds it
            given = Continuation(**given)
        if not isinstance(given, Continuation):
            raise InputError(
                "continuation as a twoaxis.gauss_newton.Continuation",
                type(given).__name__,
                "pass Continuation(last=1e7), for instance",
            )
        object.__setattr__(self, "continuation", given)

    @property
    def name(self) -> str:
        """``gauss-newton``."""
        return "gauss-newton"

    def recipe(self) -> Recipe:
        """Pointwise view, a growing weight for all points, second-order steps.

        A step costs as much as thousands of Adam's: the network is narrow, the points are few
        times its weights, and conditions are exact where the problem has an ansatz, with the
        variables of a layer where there is one.
        """
        return Recipe(
            continuation=self.continuation,
            defaults={
                "steps": self.continuation.all_steps,
                "network": Network(width=24, depth=3),
                "conditions": "layered",
                "precision": "float64",
                "residual_points": 3000,
            },
        )

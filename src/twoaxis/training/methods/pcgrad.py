r"""PCGrad: :math:`|r|^2 / N` as the residual term; conflicting gradients are projected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from twoaxis.training.methods.method import Recipe
from twoaxis.training.rules import ProjectBoth


@final
@dataclass(frozen=True)
class PCGrad:
    """Pointwise residual, with projection of conflicting gradients of the network's weights.

    Examples
    --------
    >>> import twoaxis as ta
    >>> ta.methods.PCGrad()
    PCGrad()
    """

    @property
    def name(self) -> str:
        """``pcgrad``."""
        return "pcgrad"

    def recipe(self) -> Recipe:
        """Pointwise view, uniform weights, both gradients projected where they conflict."""
        return Recipe(gradient=ProjectBoth())

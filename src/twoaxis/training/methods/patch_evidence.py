r"""PatchEvidence: only cell means of the residual are evidence, and they yield to the data.

The residual term is :math:`\frac1C \sum_c \bar r_c^2`, with the mean residual of each of the C
occupied cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from twoaxis.training.methods.method import Recipe
from twoaxis.training.rules import ProjectResidual
from twoaxis.views import Patch


@final
@dataclass(frozen=True)
class PatchEvidence:
    """Mean squared cell residual, parameter warm-up, residual gradient projected and scaled.

    Parameters
    ----------
    cells : int
        Cells along every axis of the normalized domain.
    warmup : float
        Share of the steps during which the parameters rest.
    field_scale : float
        Factor of the residual's gradient by the network's weights.

    Examples
    --------
    >>> import twoaxis as ta
    >>> ta.methods.PatchEvidence()
    PatchEvidence(cells=8, warmup=0.2, field_scale=0.5)
    """

    cells: int = 8
    warmup: float = 0.2
    field_scale: float = 0.5

    @property
    def name(self) -> str:
        """``patch``."""
        return "patch"

    def recipe(self) -> Recipe:
        """Patch view, uniform weights, the residual's gradient projected where it conflicts."""
        return Recipe(
            view=Patch(self.cells), gradient=ProjectResidual(self.field_scale), warmup=self.warmup
        )

r"""Gaussian evidence: PatchEvidence with a smooth kernel in place of the cells.

The residual term is :math:`r^\top M r` with :math:`M = K / \sum_{ij} K_{ij}`,
:math:`K_{ij} = \exp(-|z_i - z_j|^2 / 2 h^2)` in coordinates z on [0, 1], or its leading
eigenvectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from twoaxis.training.methods.method import Recipe
from twoaxis.training.rules import ProjectResidual
from twoaxis.views import DEFAULT_BANDWIDTH, Gaussian


@final
@dataclass(frozen=True)
class GaussianEvidence:
    """Residual under a Gaussian kernel, trained like PatchEvidence.

    Parameters
    ----------
    rank : int, optional
        Leading eigenvectors kept; None keeps the full operator. The study uses 64 and full.
    bandwidth : float
        Of the kernel, in coordinates on [0, 1].
    warmup : float
        Share of the steps during which the parameters rest.
    field_scale : float
        Factor of the residual's gradient by the network's weights.

    Examples
    --------
    >>> import twoaxis as ta
    >>> ta.methods.GaussianEvidence()
    GaussianEvidence(rank=None, bandwidth=0.051031036307982884, warmup=0.2, field_scale=0.5)
    """

    rank: int | None = None
    bandwidth: float = DEFAULT_BANDWIDTH
    warmup: float = 0.2
    field_scale: float = 0.5

    @property
    def name(self) -> str:
        """``gaussian``, or ``gaussian-64`` with its rank."""
        return "gaussian" if self.rank is None else f"gaussian-{self.rank}"

    def recipe(self) -> Recipe:
        """Gaussian view, uniform weights, the residual's gradient projected where it conflicts."""
        return Recipe(
            view=Gaussian(bandwidth=self.bandwidth, rank=self.rank),
            gradient=ProjectResidual(self.field_scale),
            warmup=self.warmup,
        )

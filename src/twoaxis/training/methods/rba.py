r"""RBA, residual-based attention: points with persistent residuals gain weight.

The residual term is :math:`\frac1N \sum_i (w_i r_i)^2` with
:math:`w \leftarrow \gamma w + \eta |r| / \max |r|` at every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from twoaxis.training.methods.method import Recipe
from twoaxis.training.rules import Attention


@final
@dataclass(frozen=True)
class RBA:
    """Pointwise residual under weights that follow its size.

    The weights of the last evaluated loss are frozen with the field: the run's view is
    ``M = diag(w^2) / N``.

    Parameters
    ----------
    decay, increment : float
        Of the weights; see `twoaxis.training.rules.Attention`.

    Examples
    --------
    >>> import twoaxis as ta
    >>> ta.methods.RBA(decay=0.99)
    RBA(decay=0.99, increment=0.001)
    """

    decay: float = 0.999
    increment: float = 0.001

    @property
    def name(self) -> str:
        """``rba``."""
        return "rba"

    def recipe(self) -> Recipe:
        """Pointwise view, attention weights, added gradients."""
        return Recipe(weights=Attention(self.decay, self.increment))

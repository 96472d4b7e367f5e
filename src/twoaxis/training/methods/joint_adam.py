r"""Plain joint training: the data term plus the mean squared residual, :math:`|r|^2 / N`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from twoaxis.training.methods.method import Recipe


@final
@dataclass(frozen=True)
class JointAdam:
    """Equal weights for all points; field and parameters move together from step one.

    Examples
    --------
    >>> import twoaxis as ta
    >>> ta.methods.JointAdam()
    JointAdam()
    """

    @property
    def name(self) -> str:
        """``adam``."""
        return "adam"

    def recipe(self) -> Recipe:
        """Pointwise view, uniform weights, added gradients."""
        return Recipe()

"""Plain joint training: the data term and the mean squared residual, added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from twoaxis.training.methods.method import Recipe


@final
@dataclass(frozen=True)
class JointAdam:
    """Every residual point counts alike; field and parameters move together from step one."""

    @property
    def name(self) -> str:
        """``adam``."""
        return "adam"

    def recipe(self) -> Recipe:
        """Pointwise view, uniform weights, added gradients."""
        return Recipe()

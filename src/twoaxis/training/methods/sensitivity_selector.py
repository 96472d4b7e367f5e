r"""The residual-sensitivity selector: keep the modes that hold the parameter strength.

The residual term is :math:`\sum_{k \le R} \lambda_k (v_k^\top r)^2` with the eigenpairs of the
Gaussian kernel and the smallest rank R that keeps a share of the strength. The study leaves open
when the rank is chosen and under which loss until then. Here the field trains under the full
kernel while the parameters rest, and the rank is chosen once, at the end of the warm-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from twoaxis.training.methods.method import Recipe
from twoaxis.training.rules import ProjectResidual, RetainStrength
from twoaxis.views import DEFAULT_BANDWIDTH, Gaussian


@final
@dataclass(frozen=True)
class SensitivitySelector:
    """The smallest leading rank of the Gaussian kernel that keeps a share of the strength.

    Parameters
    ----------
    share : float
        Of the strength ``H_M`` under the full kernel.
    bandwidth : float
        Of the kernel, in coordinates on [0, 1].
    warmup : float
        Share of the steps during which the parameters rest.
    field_scale : float
        Factor of the residual's gradient by the network's weights.

    Examples
    --------
    >>> import twoaxis as ta
    >>> ta.methods.SensitivitySelector()
    SensitivitySelector(share=0.9, bandwidth=0.051031036307982884, warmup=0.2, field_scale=0.5)
    """

    share: float = 0.9
    bandwidth: float = DEFAULT_BANDWIDTH
    warmup: float = 0.2
    field_scale: float = 0.5

    @property
    def name(self) -> str:
        """``selector``."""
        return "selector"

    def recipe(self) -> Recipe:
        """Gaussian view whose modes are chosen once, residual gradient projected."""
        return Recipe(
            view=Gaussian(bandwidth=self.bandwidth),
            weights=RetainStrength(self.share),
            gradient=ProjectResidual(self.field_scale),
            warmup=self.warmup,
        )

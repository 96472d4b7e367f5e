"""The Gaussian kernel matrix as an operator, by a uniform grid or by all pairs."""

from __future__ import annotations

from twoaxis.views.kernel.choice import gaussian_kernel
from twoaxis.views.kernel.kernel import Kernel

__all__ = ["Kernel", "gaussian_kernel"]
